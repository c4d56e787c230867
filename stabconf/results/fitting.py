"""`fit` and `fit_quantiles`: from a formula and a frame to results (theory, section 2).

Both read the formula, learn the units of the columns and hand a spec to the results, which fit themselves.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ..checks import check_shares, is_count, is_number
from ..data.design import Design, build_design
from ..data.formulas import caller_scope
from ..data.frames import copied, listed, warn_of_levels
from ..data.parts import TableParts, learn_design
from ..data.units import ColumnUnits, column_units
from ..errors import ConvergenceWarning, DataWarning, InputError, InputTypeError, warn_user
from ..losses import Loss, Quantile, as_loss
from ..penalties import Penalty, as_penalty
from ..solvers import SOLVERS
from .estimator import EstimatorResults, EstimatorSpec, check_estimator
from .options import Options, Table
from .parted import PartedResults
from .quantiles import QuantileResults
from .regression import ModelSpec, Results
from .several import SeveralResults

Made = TypeVar("Made")


def fit(
    formula: str,
    data: Table,
    *,
    loss: str | Loss = "lad",
    penalty: float | Penalty = 0.01,
    l1_ratio: float = 0.0,
    standardize: bool = True,
    missing: str = "drop",
    unseen: str = "raise",
    solver: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
    estimator: object = None,
    tau: object = None,
) -> Results | EstimatorResults | SeveralResults | PartedResults:
    """Fit a regularised robust regression whose results give conformal intervals.

    The coefficients b minimise, over the n training rows,

        sum_i loss(y_i - x_i'b) + n * penalty * [(1 - l1_ratio)/2 |b|^2 + l1_ratio |slopes|_1]

    of the standardised response and columns, by default with LAD loss and a ridge penalty of 0.01. Where
    several b do, the one of smallest norm is meant. Units are learned from the training rows and then held
    fixed: the response is centred by its median (quantile loss: by that quantile) and divided by its
    quartile distance / 1.349; numeric columns are centred and divided by their standard deviation;
    categories and two-valued columns count as balanced indicators, however rare they are. The intercept is
    shrunk too, towards the centre of the response. ``res.constants`` says how the paper's lambda follows.

    Parameters
    ----------
    formula : str
        A patsy formula, ``"y ~ x1 + bs(x2, df=4) + C(g)"``. It sees the columns of ``data`` and the names
        of the calling scope, a Series of which is matched to the rows by label; an array goes by position.
        Formulas are code: use only those that you trust. Each term on the left is a response: ``"y1 + y2 ~
        x"`` fits both, with intervals that hold jointly. Their sum is ``"I(y1 + y2) ~ x"``.
    data : DataFrame or mapping of columns
        It is copied. Columns of numbers with some cells of text, and dates, are refused unless the formula
        says that they are categories, ``C(g)``. A dask frame is fitted partition by partition, more rows
        than memory holds, with a ridge penalty and any loss but "linex" and "power".
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
        What is done with rows that lack a value: left out, or an error.
    unseen : {"raise", "nan"}
        What is done with new rows of a level that training did not have, or beyond the knots of its
        splines: an error that names them, or NaN in their place and one warning.
    solver : {"auto", "newton", "scipy", "statsmodels"}
        "newton" is the default. "scipy" solves the same problem with `scipy.optimize`: LAD and quantile
        loss without a ridge part as a linear programme (HiGHS), all else by trust regions. "statsmodels"
        is its QuantReg, for LAD and quantile loss with ``penalty=0``. All reach the same minimiser and
        certificate, and methods that refit use the one asked for.
    tol, max_iter : float, int
        Relative duality gap at which the fit counts as converged; steps of the solver, at the most.
    estimator : object, optional
        Anything with ``fit(X, y)`` and ``predict(X)``, a scikit-learn regressor say, instead of a loss and
        a penalty. It is given the design columns but for the intercept, and is copied, never changed.
    tau : str, float, array or callable, optional
        How far each prediction of the estimator moves, at most, when the response of one row is replaced;
        for ``method="replace_one"`` and "batch", and taken on trust. In units of the response: one number,
        an array of the training rows' bounds and then the new row's (n + 1,), or a callable of the
        training features (n, p) and the new row's (1, p) that returns them; or what the paper tries,
        "norm/n", "iterations*norm/n" and "norm/10", of the norms of the feature rows. "estimate", which is
        not certified, is twice the largest movement over refits at 5 responses from below to above all.

    Returns
    -------
    Results, SeveralResults, EstimatorResults or PartedResults
        The second where the formula has several responses, the third where an estimator was given, the
        last of a dask frame.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data)
    >>> res.params.round(3)
    Intercept    92.136
    income        0.548
    Name: params, dtype: float64
    """
    given = dict(locals())
    return fit_in_scope(caller_scope(1), **given)


_DEFAULTS: Options = {**(fit.__kwdefaults__ or {})}


def fit_quantiles(
    formula: str,
    data: Table,
    *,
    quantiles: float | Iterable[float] = (0.05, 0.5, 0.95),
    penalty: float | Penalty = 0.001,
    l1_ratio: float = 0.0,
    standardize: bool = True,
    missing: str = "drop",
    unseen: str = "raise",
    solver: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> QuantileResults:
    """Fit quantile regressions whose results give conformal intervals that follow the data.

    The band between a low and a high quantile is wide where responses are spread out. Conformalised on all
    the data (theory, section 7), it covers with the probability asked for, whatever the fits are worth.

    Parameters
    ----------
    quantiles : float or sequence of float
        Levels between 0 and 1.
    formula, data, penalty, l1_ratio, standardize, missing, unseen, solver, tol, max_iter
        As in `stabconf.fit`, but the default penalty is 0.001: each fit is that of
        ``fit(loss=stabconf.Quantile(level))``, and shrinks towards the quantile of its own level.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
    >>> res.params.round(2)
                 0.05   0.50   0.95
    Intercept  124.88  82.67  75.96
    income       0.34   0.56   0.69
    """
    given = dict(locals())
    values, _ = check_shares(quantiles, "quantiles", "levels", "such as (0.05, 0.5, 0.95)")
    levels = tuple(sorted(values))
    if len(set(levels)) < len(levels):
        raise InputError(f"quantiles={quantiles!r} has a level twice: give each once")
    central = Quantile(min(levels, key=lambda level: abs(level - 0.5)))
    model, design, columns = _prepare(caller_scope(1), central, given)
    return _converged(QuantileResults(replace(model, quantiles=levels), design, columns))


def fit_in_scope(scope: Mapping[str, Any], formula: str, data: Table, **options: Any) -> Any:
    """`fit` with the names that the formula sees besides the columns."""
    given = {**_DEFAULTS, **options, "formula": formula, "data": data}
    estimator, tau = given["estimator"], given["tau"]
    by_loss = estimator is None and tau is None
    if by_loss and hasattr(type(data), "map_partitions"):  # a frame of dask
        data = TableParts.of_dask(data)
    if isinstance(data, TableParts):
        return _fit_parts(scope, given, data)
    if not by_loss:
        changed = [name for name in ("loss", "penalty", "l1_ratio") if given[name] != _DEFAULTS[name]]
        check_estimator(estimator, tau, changed)
    model, design, columns = _prepare(scope, as_loss(given["loss"]), given, several=by_loss)
    if not by_loss:
        known = model.standardize, model.missing, model.endog_names, model.exog_names
        spec = EstimatorSpec(model.formula, copy.deepcopy(estimator), copied(tau), *known)
        return EstimatorResults(spec, design, columns)
    names = design.responses_named
    if len(names) == 1:
        return _converged(Results(model, design, columns))
    model = replace(model, endog_names=" + ".join(names), responses=tuple(names))
    return _converged(SeveralResults(model, design, columns))


def _fit_parts(scope: Mapping[str, Any], given: Options, parts: TableParts) -> PartedResults:
    """`fit` to a table that comes in parts."""
    _check_solving(given)
    asked = given["formula"], parts, scope, given["missing"], given["unseen"]
    design, rows, columns, constant = learn_design(*asked)
    warn_of_levels(design.levels, rows.n)
    _warn_of_constants(design, constant)
    _warn_of_constant_response(design)
    model = _spec(design, as_loss(given["loss"]), given)
    return _converged(PartedResults(model, design, columns, rows))


def _prepare(
    scope: Mapping[str, Any], loss: Loss, given: Options, several: bool = False
) -> tuple[ModelSpec, Design, ColumnUnits]:
    """The checked spec of a fit, its design and the units of the columns."""
    _check_solving(given)
    missing = given["missing"]
    design = build_design(given["formula"], given["data"], scope, missing, given["unseen"], several)
    warn_of_levels(design.levels, len(design.y))
    columns, constant = column_units(design.X, design.kinds, bool(given["standardize"]))
    _warn_of_constants(design, constant)
    if odd := design.depending:
        warn_user(
            f"the design has {listed(odd, 'column')} whose values depend on what other rows are there, so "
            "that a new row has another value alone than among others: write center(x) or standardize(x), "
            "which learn from training, or make it a column",
            DataWarning,
        )
    for each in design.each():
        _warn_of_constant_response(each)
    return _spec(design, loss, given), design, columns


def _check_solving(given: Options) -> None:
    """Check what is asked of the solver, and of the penalty."""
    as_penalty(given["penalty"], given["l1_ratio"])
    standardize, solver, tol, max_iter = map(given.get, ("standardize", "solver", "tol", "max_iter"))
    if not isinstance(standardize, (bool, np.bool_)):
        raise InputTypeError(f"standardize={standardize!r} is not a flag: give True or False")
    if solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is unknown: give one of {', '.join(SOLVERS)}")
    if not (is_number(tol) and math.isfinite(tol) and tol > 0):
        raise InputError(f"tol={tol!r} is not allowed: give a positive number such as 1e-8")
    if not is_count(max_iter):
        raise InputError(f"max_iter={max_iter!r} is not allowed: give a whole number, 1 or larger")


def _spec(design: Design, loss: Loss, given: Options) -> ModelSpec:
    """The spec of a fit."""
    penalty = as_penalty(given["penalty"], given["l1_ratio"])
    plain = {name: given[name] for name in ("formula", "missing", "solver", "tol", "max_iter")}
    made: Options = {"standardize": bool(given["standardize"]), "loss": loss, "penalty": penalty}
    return ModelSpec(**plain, **made, endog_names=design.response, exog_names=list(design.names))


def _warn_of_constants(design: Design, constant: np.ndarray) -> None:
    """One warning that names constant columns."""
    if constant.any():
        columns = list(np.array(design.names, dtype=object)[constant])
        what = "is constant in training, so its effect cannot be learned"
        if len(columns) > 1:
            what = "are constant in training, so nothing of their effect can be learned"
        warn_user(
            f"{listed(columns, 'column')} of the design {what}: drop the term if that is not meant",
            DataWarning,
        )


def _warn_of_constant_response(design: Design) -> None:
    if np.ptp(design.y) == 0:
        warn_user(
            f"response {design.response!r} is {design.y[0]:g} in every row: the intervals describe a "
            "point; check that this is the column you mean",
            DataWarning,
        )


def _converged(results: Made) -> Made:
    """The results, with a warning of each fit that did not reach its tolerance."""
    for fitted in getattr(results, "_each", {"": results}).values():
        model, solution = fitted.model, fitted._fitted.solution
        if not solution.success:
            warn_user(
                f"the fit of {model.loss.describe()} did not converge in {solution.nit} steps "
                f"({solution.message}): raise max_iter (now {model.max_iter}), tol (now {model.tol:g}) or "
                "penalty; intervals stay valid but are wider",
                ConvergenceWarning,
            )
    return results
