"""`fit`: from a formula and a frame to results."""

import math
import numbers
import warnings

import numpy as np

from .checks import is_number
from .design import build_design, caller_scope, standardizer
from .errors import ConvergenceWarning, DataWarning, InputError, InputTypeError
from .losses import as_loss
from .penalties import as_penalty
from .response import location_scale
from .results import ModelSpec, Results
from .solvers import SOLVERS, Problem, minimise

__all__ = ["fit"]


def fit(
    formula,
    data,
    *,
    loss="lad",
    penalty=0.1,
    l1_ratio=0.0,
    standardize=True,
    missing="drop",
    solver="auto",
    tol=1e-8,
    max_iter=1000,
):
    """Fit a regularised robust regression whose results give conformal intervals.

    Parameters
    ----------
    formula : str
        A patsy formula, ``"y ~ x1 + bs(x2, df=4) + C(g)"``. It sees the columns of ``data`` and the
        names of the calling scope.
    data : DataFrame or mapping of columns
    loss : str or Loss
        "squared", "lad", "quantile", "huber", "pseudo_huber", "logcosh", "linex", "power", or an object
        such as ``stabconf.Huber(1.345)``, whose parameters are in units of the robust standard deviation
        of the response.
    penalty : float or Penalty
        Strength per training row, unit-free; 0 for none.
    l1_ratio : float
        0 is ridge, 1 is the lasso.
    standardize : bool
        Centre and scale the columns and the response (recommended). False takes everything as it is.
    missing : {"drop", "raise"}
    solver : {"auto", "newton", "scipy"}
    tol : float
        Relative duality gap at which the fit counts as converged.
    max_iter : int
        Newton steps.

    Returns
    -------
    Results

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit("foodexp ~ income", data, loss="lad", penalty=0.1)
    >>> res.params.round(3)
    Intercept    141.688
    income         0.485
    Name: params, dtype: float64
    """
    loss, penalty = as_loss(loss), as_penalty(penalty, l1_ratio)
    _check_options(standardize, solver, tol, max_iter)
    design = build_design(formula, data, caller_scope(1), missing)
    columns = standardizer(design.X, design.names, design.intercept, standardize)
    centre, scale = 0.0, 1.0
    if standardize:
        centre, scale = location_scale(design.y, None if design.intercept is None else loss.level)
    if np.ptp(design.y) == 0:
        warnings.warn(
            f"response {design.response!r} is {design.y[0]:g} in every row: the intervals describe a "
            "point; check that this is the column you mean",
            DataWarning,
            stacklevel=2,
        )
    n, slopes = len(design.y), np.arange(len(design.names)) != design.intercept
    ridge, lasso = penalty.weights(n, slopes)
    problem = Problem(columns.apply(design.X), (design.y - centre) / scale, loss, ridge, lasso)
    solution = minimise(problem, solver=solver, tol=tol, max_iter=max_iter)
    if not solution.success:
        warnings.warn(
            f"the fit did not converge in {solution.nit} steps ({solution.message}): raise max_iter "
            f"(now {max_iter}), tol (now {tol:g}) or penalty; intervals stay valid but are wider",
            ConvergenceWarning,
            stacklevel=2,
        )
    model = ModelSpec(
        formula=formula,
        loss=loss,
        penalty=penalty,
        standardize=standardize,
        missing=missing,
        solver=solver,
        tol=float(tol),
        max_iter=int(max_iter),
        endog_names=design.response,
        exog_names=list(design.names),
    )
    return Results(model, design, columns, centre, scale, solution)


def _check_options(standardize, solver, tol, max_iter):
    if not isinstance(standardize, (bool, np.bool_)):
        raise InputTypeError(f"standardize={standardize!r} is not a flag: give True or False")
    if solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is unknown: give one of {', '.join(SOLVERS)}")
    if not (is_number(tol) and math.isfinite(tol) and tol > 0):
        raise InputError(f"tol={tol!r} is not allowed: give a positive number such as 1e-8")
    if not (is_number(max_iter) and isinstance(max_iter, numbers.Integral) and max_iter >= 1):
        raise InputError(f"max_iter={max_iter!r} is not allowed: give a whole number, 1 or larger")
