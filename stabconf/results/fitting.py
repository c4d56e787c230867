"""`fit`: from a formula and a frame to results."""

import copy
import math
import numbers
import warnings

import numpy as np

from ..checks import is_number
from ..data.cells import warn_of_levels
from ..data.design import build_design, caller_scope, learned_units
from ..data.frames import copied
from ..errors import ConvergenceWarning, DataWarning, InputError, InputTypeError
from ..losses import as_loss
from ..penalties import as_penalty
from ..sets.training import fit_rows
from ..solvers import SOLVERS
from .estimator import EstimatorResults, EstimatorSpec, check_estimator
from .regression import ModelSpec, Results

__all__ = ["fit", "fit_in_scope", "fitted", "prepare"]


def fit(
    formula,
    data,
    *,
    loss="lad",
    penalty=0.01,
    l1_ratio=0.0,
    standardize=True,
    missing="drop",
    solver="auto",
    tol=1e-8,
    max_iter=1000,
    estimator=None,
    tau=None,
):
    """Fit a regularised robust regression whose results give conformal intervals.

    The coefficients b minimise, over the n training rows,

        sum_i loss(y_i - x_i'b) + n * penalty * [(1 - l1_ratio)/2 |b|^2 + l1_ratio |slopes|_1]

    of the standardised response and columns, by default with LAD loss and a ridge penalty of 0.01. Where
    several b do, the one of smallest norm is meant. Units are learned from the training rows and then held
    fixed: the response is centred by its median (quantile loss: by that quantile) and divided by its
    quartile distance / 1.349; numeric columns are centred and divided by their standard deviation;
    categories and two-valued columns count as balanced indicators, however rare they are. The intercept is
    shrunk too, towards the centre of the response.

    Parameters
    ----------
    formula : str
        A patsy formula, ``"y ~ x1 + bs(x2, df=4) + C(g)"``. It sees the columns of ``data`` and the
        names of the calling scope. A Series of the calling scope is matched to the rows by label and is a
        column like others; an array goes by position. Formulas are code: use only those that you trust.
    data : DataFrame or mapping of columns
        It is copied, so that the results stay as they are if it is changed later. Columns of numbers with
        some cells of text, and dates, are refused unless the formula says that they are categories,
        ``C(g)``.
    loss : str or Loss
        "squared", "lad", "quantile", "huber", "pseudo_huber", "logcosh", "linex", "power", or an object
        such as ``stabconf.Huber(1.345)``, whose parameters are in units of the residual scale, as in
        statsmodels' RLM: 1.4826 times the median absolute residual of a LAD fit (``res.scale``).
    penalty : float or Penalty
        Strength per training row, unit-free (default 0.01); 0 for none.
    l1_ratio : float
        0 is ridge, 1 is the lasso.
    standardize : bool
        Centre and scale the columns and the response (recommended). False takes everything as it is, the
        parameters of the loss too.
    missing : {"drop", "raise"}
    solver : {"auto", "newton", "scipy"}
    tol : float
        Relative duality gap at which the fit counts as converged.
    max_iter : int
        Newton steps.
    estimator : object, optional
        Anything with ``fit(X, y)`` and ``predict(X)``, a scikit-learn regressor say, instead of a loss and
        a penalty. It is given the design columns but for the intercept, and is copied, never changed.
    tau : str, array or callable, optional
        Stability bounds of the estimator, which nobody certifies: "norm/n" or "iterations*norm/n" as in
        the paper, an array of the training rows' bounds and then the new row's (n + 1,), or a callable of
        the training and the new design rows that returns (m, n + 1) of them. Needed for
        ``method="stable"`` alone.

    Returns
    -------
    Results or EstimatorResults

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit("foodexp ~ income", data)
    >>> res.params.round(3)
    Intercept    92.136
    income        0.548
    Name: params, dtype: float64
    """
    options = dict(locals())
    return _fit(caller_scope(1), **options)


def fit_in_scope(scope, formula, data, **options):
    """`fit` with the names that the formula sees besides the columns."""
    return _fit(scope, formula, data, **{**fit.__kwdefaults__, **options})


def _fit(scope, formula, data, *, loss, penalty, l1_ratio, standardize, missing, estimator, tau, **solving):
    """`fit`, all of whose options are given; ``solving`` are the solver's."""
    if estimator is not None or tau is not None:
        given = {"loss": loss, "penalty": penalty, "l1_ratio": l1_ratio}
        check_estimator(
            estimator, tau, [name for name, value in given.items() if value != fit.__kwdefaults__[name]]
        )
    penalty = as_penalty(penalty, l1_ratio)
    loss = as_loss(loss)
    design, columns = prepare(scope, formula, data, standardize, missing, **solving)
    names = {"endog_names": design.response, "exog_names": list(design.names)}
    shared = {"formula": formula, "standardize": standardize, "missing": missing, **names}
    if estimator is not None:
        spec = EstimatorSpec(estimator=copy.deepcopy(estimator), tau=copied(tau), **shared)
        return EstimatorResults(spec, design, columns)
    return fitted(ModelSpec(loss=loss, penalty=penalty, **shared, **solving), design, columns)


def prepare(scope, formula, data, standardize, missing, *, solver, tol, max_iter):
    """The `Design` and the `ColumnUnits` of its columns, with the options checked."""
    _check_options(standardize, solver, tol, max_iter)
    design = build_design(formula, data, scope, missing)
    warn_of_levels(design.levels, len(design.y))
    columns = learned_units(design, standardize)
    if np.ptp(design.y) == 0:
        warnings.warn(
            f"response {design.response!r} is {design.y[0]:g} in every row: the intervals describe a "
            "point; check that this is the column you mean",
            DataWarning,
            stacklevel=4,
        )
    return design, columns


def fitted(model, design, columns):
    """The `Results` of a model, with a warning where its fit did not converge."""
    fit = fit_rows(design.X, design.y, design.kinds, columns, model)
    if not fit.solution.success:
        warnings.warn(
            f"the fit of {model.loss.describe()} did not converge in {fit.solution.nit} steps "
            f"({fit.solution.message}): raise max_iter (now {model.max_iter}), tol (now {model.tol:g}) or "
            "penalty; intervals stay valid but are wider",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Results(model, design, columns, fit)


def _check_options(standardize, solver, tol, max_iter):
    if not isinstance(standardize, (bool, np.bool_)):
        raise InputTypeError(f"standardize={standardize!r} is not a flag: give True or False")
    if solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is unknown: give one of {', '.join(SOLVERS)}")
    if not (is_number(tol) and math.isfinite(tol) and tol > 0):
        raise InputError(f"tol={tol!r} is not allowed: give a positive number such as 1e-8")
    if not (is_number(max_iter) and isinstance(max_iter, numbers.Integral) and max_iter >= 1):
        raise InputError(f"max_iter={max_iter!r} is not allowed: give a whole number, 1 or larger")
