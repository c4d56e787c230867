"""From a design to coefficients: standardise the response, build the problem, solve it."""

import numpy as np

from .response import location_scale
from .solvers import Problem, minimise

__all__ = ["fit_design"]


def fit_design(design, columns, model):
    """Location and scale of the response, and the `Solution` in standardised units.

    Parameters
    ----------
    design : Design
    columns : Standardizer
    model : ModelSpec
    """
    centre, scale = 0.0, 1.0
    if model.standardize:
        centre, scale = location_scale(design.y, None if design.intercept is None else model.location_level)
    slopes = np.arange(len(design.names)) != design.intercept
    ridge, lasso = model.penalty.weights(len(design.y), slopes)
    problem = Problem(columns.apply(design.X), (design.y - centre) / scale, model.loss, ridge, lasso)
    solution = minimise(problem, solver=model.solver, tol=model.tol, max_iter=model.max_iter)
    return centre, scale, solution
