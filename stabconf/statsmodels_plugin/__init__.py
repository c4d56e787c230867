"""Conformal intervals for models that statsmodels has fitted.

`conformal` reads the objective off a fitted result and gives exact sets of that very model; where it has
none, the intervals of refits to parts of the rows (theory, section 6); `register` adds
``conf_int_conformal`` to statsmodels' own result classes. A result is never changed.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.base.elastic_net import RegularizedResults
from statsmodels.base.model import GenericLikelihoodModelResults
from statsmodels.discrete.discrete_model import DiscreteResults
from statsmodels.genmod.generalized_linear_model import GLMResults
from statsmodels.regression.linear_model import RegressionResults
from statsmodels.regression.mixed_linear_model import MixedLMResults
from statsmodels.robust.robust_linear_model import RLMResults

from ..checks import DEFAULT_ALPHA, check_alpha
from ..data.design import Unseen
from ..errors import InputError, InputTypeError, MismatchWarning, warn_user
from ..results.options import New, Numbers, Side
from .adapters import objective_of, unwrapped
from .refit import PREDICTED, refit_of
from .refitted import Input, RefittedResults, check_agreement
from .results import StatsmodelsResults

__all__ = ["RefittedResults", "StatsmodelsResults", "conformal", "register", "unregister"]

_CLASSES = (
    RegressionResults,
    RegularizedResults,
    RLMResults,
    GLMResults,
    DiscreteResults,
    MixedLMResults,
    GenericLikelihoodModelResults,
)
_AGREE = 1e-6  # of the response's scale
_TIED = 1e-6  # of the objective, where minimisers may be many


def conformal(
    res: Any,
    alpha: Numbers = DEFAULT_ALPHA,
    method: str = "auto",
    *,
    penalty: Any = None,
    l1_ratio: float | None = None,
    unseen: Unseen = "raise",
    fit_options: Mapping[str, Any] | None = None,
    **inputs: Input,
) -> StatsmodelsResults | RefittedResults:
    """Conformal prediction intervals for a fitted statsmodels model.

    Exact full conformal sets of the model itself, for `OLS`, `WLS`, their ``fit_regularized`` (elastic
    net), `QuantReg`, `RLM` with a convex norm (its scale held fixed) and `GLM` with the Gaussian family and
    the identity link; from formulas (patsy or formulaic) and from arrays. Intervals of refits to parts of
    the rows (split, CV+, jackknife+) for `GLM` of every family, models of counts and shares, `RLM` with
    every norm; with whole groups held out, for `GEE` and `MixedLM`.

    Parameters
    ----------
    res : statsmodels result
        As ``fit`` or ``fit_regularized`` return it.
    alpha, method : float or sequence of float, and str
        What methods, tables, figures and reports default to; see `Results.conf_int_conformal`.
    penalty, l1_ratio : float or array, and float; optional
        The ``alpha`` and ``L1_wt`` that ``fit_regularized`` was given. statsmodels does not keep them; one
        number for all coefficients (or for all but the intercept) is read off the coefficients, one per
        coefficient must be given here. So must any of a model that is refitted.
    unseen : {"raise", "nan"}
        What is done with new rows of a level that training did not have; see `stabconf.fit`.
    fit_options : mapping, optional
        Options of ``fit`` that statsmodels does not keep, for refits: ``{"maxiter": 500}`` say.
    **inputs : str, list of str or callable
        What a model's predictions take beside its columns (``offset``, ``exposure``, ``exog_infl``,
        ``exog_precision``), for refits: the column of new frames, or a callable of a frame.

    Returns
    -------
    StatsmodelsResults or RefittedResults
        With what stabconf's own results have, the latter without p-values; ``params`` are statsmodels'.

    Notes
    -----
    The augmented samples are fitted with the objective of the training rows; all that statsmodels estimates
    besides coefficients is held fixed: the penalty of ``fit_regularized``, alpha times the number of
    training rows (times their mean weight), and the scale of RLM. Weights of WLS are part of the row:
    scores are residuals times the root of the weight, and rows (x, y, weight) must be exchangeable.

    QuantReg may have several minimisers, with categories it often has. Of these the one of smallest norm is
    taken, in every augmented sample: the limit of a ridge penalty that vanishes, on columns that are
    centred and scaled as in training and a response as it is. The rule is symmetric in the rows, so the
    guarantee stands; statsmodels' own coefficients may be another of the minimisers.

    Warns
    -----
    MismatchWarning
        Where statsmodels' coefficients are more than 1e-6 (in units of the response's scale) away from the
        minimiser of the model's objective, as where its iterations stopped early; for `QuantReg` where they
        raise the objective by more than a share of 1e-6; and where a refit predicts something else.
    DataWarning
        Where the model was fitted with ``cov_type="cluster"``: rows of one cluster depend on each other, so
        that they are hardly exchangeable.

    Examples
    --------
    >>> import stabconf
    >>> import statsmodels.formula.api as smf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> median = stabconf.conformal(smf.quantreg("foodexp ~ income", data).fit(q=0.5), alpha=0.1)
    >>> median.conf_int_conformal({"income": [500.0, 1000.0]}).round(0)
       lower  upper
    0  206.0  517.0
    1  486.0  797.0
    """
    check_alpha(alpha)
    res = unwrapped(res)
    objective = objective_of(res, penalty, l1_ratio)
    if objective is None:
        design, refit, rows = refit_of(res, penalty, l1_ratio, fit_options)
        found, names = np.asarray(res.params), list(res.model.data.param_names)
        if len(names) != len(found):
            names = list(map(str, range(len(found))))
        params = pd.Series(found, index=names, name="params")
        parts = refit, rows, params, inputs, alpha, method
        refitted = RefittedResults(design.leaving_unseen(unseen), *parts)
        check_agreement(refitted, np.asarray(res.predict()))
        return refitted
    if inputs or fit_options:
        given = ", ".join([*inputs, *(["fit_options"] if fit_options else [])])
        raise InputTypeError(
            f"{given} cannot be used with {objective[1].label}, which is not fitted again: drop it"
        )
    design, recipe = objective
    made = StatsmodelsResults(design.leaving_unseen(unseen), recipe, res.params, alpha, method)
    _check_agreement(made)
    return made


def _check_agreement(made: StatsmodelsResults) -> None:
    """Warn where statsmodels' coefficients do not minimise the objective; a tie is not worth a warning."""
    mismatch, fits = made.mismatch, made._fits
    if mismatch <= _AGREE:
        return
    theirs, ours = fits.whole.value(fits.start), fits.solution.fun
    if made.recipe.loss.kind == "step" and theirs - ours <= _TIED * ours:
        return
    warn_user(
        f"{made.recipe.label}: statsmodels' coefficients differ from the minimiser by up to "
        f"{mismatch:.2g} scales of the response, more than {_AGREE:g}; their objective is above its "
        f"minimum by a share of {(theirs - ours) / abs(ours):.2g}. The intervals are those of the "
        f"minimiser: to make them agree, {made.recipe.remedy}",
        MismatchWarning,
    )


def conf_int_conformal(
    self: Any,
    exog: New = None,
    alpha: Numbers = None,
    method: str = "auto",
    side: Side = "two-sided",
    *,
    penalty: Any = None,
    l1_ratio: float | None = None,
    fit_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Conformal prediction intervals for new responses (DataFrame), by stabconf.

    ``penalty``, ``l1_ratio``, ``fit_options`` and the inputs of predictions (``exposure``, say) are as in
    ``stabconf.conformal``, all else is as in ``conf_int_conformal`` of what it returns.
    """
    inputs = {name: options.pop(name) for name in PREDICTED if name in options}
    made = conformal(self, penalty=penalty, l1_ratio=l1_ratio, fit_options=fit_options, **inputs)
    return made.conf_int_conformal(exog, alpha, method, side, **options)


_METHOD = conf_int_conformal.__name__


def register() -> None:
    """Add ``conf_int_conformal`` to the result classes of statsmodels; once is enough, more does no harm.

    Examples
    --------
    >>> import stabconf
    >>> import statsmodels.formula.api as smf
    >>> from statsmodels.datasets import engel
    >>> stabconf.register()
    >>> res = smf.ols("foodexp ~ income", engel.load_pandas().data).fit()
    >>> res.conf_int_conformal({"income": [500.0]}, alpha=0.1).round(0)
       lower  upper
    0  238.0  543.0
    >>> stabconf.unregister()
    >>> hasattr(res, "conf_int_conformal")
    False
    """
    for kind in _CLASSES:
        if vars(kind).get(_METHOD, conf_int_conformal) is not conf_int_conformal:
            raise InputError(f"{kind.__name__} has a {_METHOD} that is not stabconf's: nothing was changed")
    for kind in _CLASSES:
        setattr(kind, _METHOD, conf_int_conformal)


def unregister() -> None:
    """Take ``conf_int_conformal`` out of statsmodels' result classes again; see `register`."""
    for kind in _CLASSES:
        if vars(kind).get(_METHOD) is conf_int_conformal:
            delattr(kind, _METHOD)
