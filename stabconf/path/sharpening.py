"""From a solution that is near to the minimiser itself, where slopes are clipped lines (theory, section 5).

A solver's point minimises the objective plus a small linear term, its own stationarity residual. Following
the minimiser while that term goes to 0 ends at the minimiser: exact but for rounding errors, and of
smallest norm where vanishing ridge weights break ties, which are below any solver's tolerance.
"""

from dataclasses import replace

import numpy as np

from ..solvers import Problem, Solution, certify
from .clipped import ClippedFit
from .following import follow

__all__ = ["crossover", "sharpened"]

_SETTLED = 1e-12  # of the terms of the stationarity residual
_MANY = 5000  # rows above which a solver's point is taken as it is


def crossover(fit: ClippedFit) -> ClippedFit:
    """The `ClippedFit` at the minimiser from one that is near; itself where that is no better."""
    size = fit.gross_pull + np.max(np.abs(fit.ridge * fit.theta), initial=0.0)
    smallest = 1e-3 * np.max(np.abs(fit.extra * fit.theta), initial=0.0)
    tolerance = min(_SETTLED * size, smallest if smallest > 0 else np.inf)
    if np.all(np.abs(fit.e) <= tolerance) or len(fit.X) > _MANY or fit.hessian_inverse is None:
        return fit
    found = follow(fit, np.arange(len(fit.X)), -fit.e[None], limit=False)
    if not found.arrived[0]:
        return fit
    theta = found.theta[0]
    u = found.u[0]
    side = found.side[0]
    r = fit.v - fit.X @ theta
    inner = (side == 0) & ~fit.soft
    if np.any(np.abs(r[inner]) > 1e-9 * (1.0 + np.abs(fit.v[inner]))):
        return fit
    r = np.where(inner, 0.0, r)
    e = fit.ridge * theta - fit.X.T @ u + fit.tilt
    better = replace(fit, theta=theta, r=r, u=u, side=side, e=e)
    return better if np.max(np.abs(e)) < np.max(np.abs(fit.e)) else fit


def sharpened(problem: Problem, solution: Solution, extra: np.ndarray | None = None) -> Solution:
    """The `Solution` at the minimiser from one that is near, for losses whose slopes are clipped lines."""
    if problem.loss.kind == "bending" or len(problem.v) > _MANY:
        return solution
    fit = ClippedFit.of(problem, solution, extra)
    found = crossover(fit)
    if found is fit:
        return solution
    n = fit.count
    l1 = np.zeros(len(fit.theta))
    l1[np.flatnonzero(problem.lasso)] = -found.u[n:]
    made = certify(problem, found.theta, found.u[:n], l1, tol=1e-8, nit=solution.nit)
    return made if made.gap <= solution.gap or not solution.success else solution
