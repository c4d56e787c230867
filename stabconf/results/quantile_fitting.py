"""`fit_quantiles`: several quantile regressions of one formula, and the conformal band between two of them.

As R's ``rq`` takes several taus. The band between a low and a high quantile follows the data: it is wide
where responses are spread out. Conformalised on all the data (theory, section 7), it covers with the
probability asked for, whatever the quantile fits are worth.
"""

import numpy as np

from ..checks import is_number
from ..data.design import caller_scope
from ..errors import InputError, InputTypeError
from ..penalties import as_penalty
from .fitting import fitted, prepare
from .quantiles import QuantileResults, QuantileSpec

__all__ = ["fit_quantiles"]


def fit_quantiles(
    formula,
    data,
    *,
    quantiles=(0.05, 0.5, 0.95),
    penalty=0.001,
    l1_ratio=0.0,
    standardize=True,
    missing="drop",
    solver="auto",
    tol=1e-8,
    max_iter=1000,
):
    """Fit quantile regressions whose results give conformal intervals that follow the data.

    Parameters
    ----------
    formula, data, penalty, l1_ratio, standardize, missing, solver, tol, max_iter
        As in `stabconf.fit`, but the default penalty is 0.001; each fit is that of
        ``fit(loss=stabconf.Quantile(level))`` with that penalty, and shrinks towards the quantile of its
        own level.
    quantiles : float or sequence of float
        Levels between 0 and 1.

    Returns
    -------
    QuantileResults

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit_quantiles("foodexp ~ income", data, quantiles=(0.05, 0.5, 0.95))
    >>> res.params.round(2)
                 0.05   0.50   0.95
    Intercept  124.88  82.67  75.96
    income       0.34   0.56   0.69
    >>> res.conf_int_conformal({"income": [500.0, 2000.0]}, alpha=0.1).round(0)
       lower   upper
    0  292.0   425.0
    1  812.0  1503.0
    """
    options = dict(locals())
    return _fit_quantiles(caller_scope(1), **options)


def _fit_quantiles(scope, formula, data, *, quantiles, penalty, l1_ratio, standardize, missing, **solving):
    levels, penalty = _check_levels(quantiles), as_penalty(penalty, l1_ratio)
    design, columns = prepare(scope, formula, data, standardize, missing, **solving)
    names = {"endog_names": design.response, "exog_names": list(design.names)}
    spec = QuantileSpec(formula, levels, penalty, standardize, missing, **solving, **names)
    fits = []
    for model in spec.models:  # a comprehension's frame would move warnings off the user's line
        fits.append(fitted(model, design, columns))
    return QuantileResults(spec, design, columns, fits)


def _check_levels(quantiles):
    """Levels as an ascending tuple, each once."""
    values = [quantiles] if np.isscalar(quantiles) or quantiles is None else list(quantiles)
    if not values:
        raise InputError("quantiles=[] is empty: give levels such as (0.05, 0.5, 0.95)")
    for value in values:
        if not is_number(value):
            raise InputTypeError(
                f"quantiles has {value!r}, a {type(value).__name__}: give levels such as (0.05, 0.5, 0.95)"
            )
        if not 0 < value < 1:
            raise InputError(f"quantiles has {value!r}: give levels between 0 and 1, both excluded")
    levels = tuple(sorted(float(value) for value in values))
    if len(set(levels)) < len(levels):
        raise InputError(f"quantiles={quantiles!r} has a level twice: give each once")
    return levels
