"""From a statsmodels result to the objective that it minimises: one small function per model, one registry.

Each `Recipe` is loss, penalty and row weights in stabconf's terms, and notes on what is held fixed. A model
that is not in the registry has no exact sets; nor has one whose class statsmodels derives from another that
is, for it is another model. `refit` may have intervals for it; else it is refused, with what to do instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from statsmodels.base.elastic_net import RegularizedResults
from statsmodels.discrete.discrete_model import BinaryModel, MultinomialModel
from statsmodels.genmod.families import Gaussian
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.regression.linear_model import GLS, OLS, WLS
from statsmodels.regression.quantile_regression import QuantReg
from statsmodels.robust.norms import HuberT, LeastSquares
from statsmodels.robust.robust_linear_model import RLM

from ..data.design import Design
from ..data.units import location_scale
from ..errors import AssumptionError, DataWarning, InputError, InputTypeError, warn_user
from ..losses import Huber, Loss, Quantile, Squared
from ..penalties import NoPenalty, Penalty
from .design import design_of, removed
from .penalty import given_penalty, recovered_penalty

_SUPPORTED = (
    "supported are, with exact sets, OLS, WLS, their fit_regularized (elastic net), QuantReg and RLM with "
    "a convex norm; by refits, GLM, models of counts and shares, RLM with any norm, GEE and MixedLM"
)
CLUSTERED = (
    "rows of one cluster depend on each other, so that they are hardly exchangeable, and intervals may "
    "cover too little; use method='cv+' or 'split' with folds= the column of the clusters, for rows of new "
    "clusters"
)
_LABELS = (
    "its response is a category, which has a set of labels and no interval",
    "code the categories as numbers and use stabconf.fit(formula, data).conformal_set(new, candidates)",
)
_GROUPED = (
    "rows of one group depend on each other",
    "keep one row of each group, drawn at random, and fit OLS to these: its intervals are for a row of a "
    "new group",
)
_CORRELATED = (
    "errors that are correlated make rows that are not exchangeable",
    "fit OLS to rows that are far enough apart to be independent",
)
_UNKNOWN_SIGMA = (
    "its sigma says nothing of new rows",
    "use WLS with weights=1 / sigma (OLS where sigma is None)",
)
# Modules of statsmodels whose models have no conformal guarantee: why, and what to do instead.
_NO_GUARANTEE = {
    ("statsmodels.tsa.", "statsmodels.regression.recursive_ls.", "statsmodels.regression.rolling."): (
        "its rows come in an order, so that they are not exchangeable",
        "use the model's own forecast intervals (get_forecast or get_prediction)",
    ),
    ("statsmodels.genmod.generalized_estimating_equations.",): _LABELS,
    ("statsmodels.miscmodels.ordinal_model.",): _LABELS,
    ("statsmodels.genmod.bayes_mixed_glm.", "statsmodels.genmod.qif."): _GROUPED,
    ("statsmodels.regression.process_regression.", "statsmodels.discrete.conditional_models."): _GROUPED,
    ("statsmodels.duration.",): (
        "durations may be censored, and a censored one is no response that an interval could cover",
        "where none is censored, fit their logarithms with OLS or stabconf.fit",
    ),
}
_WEIGHTED = (
    "Weights are part of the row: scores are residuals times the root of the weight, rows (x, y, weight) "
    "must be exchangeable, and widths go with 1 / root of the weight. New rows have weight 1 unless "
    "wls_weights= says otherwise, as in statsmodels."
)
_NORMS: dict[type, Callable[[Any], Loss]] = {
    HuberT: lambda norm: Huber(float(norm.t)),
    LeastSquares: lambda norm: Squared(),
}


@dataclass(frozen=True)
class Recipe:
    """The objective of a statsmodels model: ``loss`` of residuals divided by ``scale``, and ``penalty``.

    ``label`` is the model, for tables; ``weights`` (n,) are those of the rows, for WLS; ``notes`` say what
    is held fixed, for the summary; ``remedy`` says what brings the coefficients nearer to the minimiser.
    """

    label: str
    loss: Loss
    penalty: Penalty
    scale: float
    weights: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    remedy: str = "check the model's options"


def unwrapped(res: Any) -> Any:
    """The result itself, where statsmodels has wrapped it."""
    res = getattr(res, "_results", res)
    own = type(res).__module__.startswith("statsmodels.") and hasattr(res, "model")
    if not (own or hasattr(getattr(res, "model", None), "endog")):
        unfitted = " that is not fitted" if hasattr(res, "endog") else ""
        raise InputTypeError(
            f"res is a {type(res).__name__}{unfitted}: give a fitted result of statsmodels, "
            "smf.ols(...).fit() say"
        )
    return res


def kind_of(res: Any) -> type | None:
    """The class of a result's model in statsmodels, from which a user's own may derive."""
    kinds = type(getattr(res, "model", None)).__mro__
    return next((kind for kind in kinds if kind.__module__.startswith("statsmodels.")), None)


def objective_of(res: Any, penalty: Any, l1_ratio: Any) -> tuple[Design, Recipe] | None:
    """The `Design` and the `Recipe` of a result; None where its model has no exact sets."""
    regularised = isinstance(res, RegularizedResults)
    known = kind_of(res)
    if known not in (_REGULARISED if regularised else _ADAPTERS) or _without_objective(res):
        return None
    if not regularised and (penalty is not None or l1_ratio is not None):
        raise InputError("penalty and l1_ratio go with results of fit_regularized: drop them")
    design = design_of(res.model)
    if regularised:
        return design, _regularised(res, design, known is WLS, penalty, l1_ratio)
    recipe = _ADAPTERS[known](res, design)
    if getattr(res, "cov_type", None) == "cluster":
        warn_user(f"{recipe.label} with cov_type='cluster': {CLUSTERED}", DataWarning)
        recipe = replace(recipe, notes=(*recipe.notes, f"cov_type='cluster': {CLUSTERED}."))
    return design, recipe


def _without_objective(res: Any) -> bool:
    """Whether a model in the registry minimises nothing that is convex, or that new rows fit into."""
    model = res.model
    if getattr(res, "constraints", None) is not None:
        return True
    if isinstance(model, RLM):
        return type(model.M) not in _NORMS
    if not isinstance(model, GLM):  # refit=True fits the columns again that a first fit selected
        return bool(getattr(res, "regularized", False))
    weights = [getattr(model, name) for name in ("freq_weights", "var_weights")]
    shifts = [getattr(model, name, None) for name in ("offset", "exposure")]
    plain = isinstance(model.family, Gaussian) and type(model.family.link).__name__ == "Identity"
    uneven = any(each is None or np.ptp(each) > 0 for each in weights)
    return not plain or uneven or any(np.any(each) for each in shifts)


def unsupported(res: Any) -> AssumptionError:
    """An error that says what is supported and what to do instead."""
    model = getattr(res, "model", res)
    text = f"{type(model).__name__} has no conformal intervals"
    modules = [f"{kind.__module__}." for kind in type(model).__mro__]
    reasons = [
        found
        for parts, found in _NO_GUARANTEE.items()
        if any(module.startswith(parts) for module in modules)
    ]
    if isinstance(model, (BinaryModel, MultinomialModel)):
        reasons.append(_LABELS)
    if isinstance(model, GLS):
        sigma: Any = getattr(model, "sigma", None)
        shared = np.ndim(sigma) > 1 and np.any(np.asarray(sigma) != np.diag(np.diag(sigma)))
        reasons.append(_CORRELATED if shared or type(model) is not GLS else _UNKNOWN_SIGMA)
    if reasons:
        why, instead = reasons[0]
        return AssumptionError(f"{text}: {why}. Instead, {instead}; {_SUPPORTED}")
    return AssumptionError(
        f"{text}; {_SUPPORTED}. Where rows are exchangeable, split conformal intervals are valid for any "
        "model: stabconf.fit(formula, data, estimator=...) with an object that has fit(X, y) and predict(X)"
    )


def _spread(design: Design) -> float:
    """A scale for the solver's sake: the sets do not depend on it."""
    return location_scale(design.y)[1]


def _least_squares(label: str, res: Any, design: Design) -> Recipe:
    weights, notes = (_weights(res.model), (_WEIGHTED,)) if label == "WLS" else (None, ())
    return Recipe(label, Squared(), NoPenalty(), _spread(design), weights, notes)


def _weights(model: Any) -> np.ndarray:
    """Weights of the training rows (n,)."""
    weights = model.weights if model.weights is not None else getattr(model.data, "weights", None)
    if weights is None:
        raise removed("weights")
    weights = np.array(weights, dtype=float)
    if not np.all(weights > 0):
        raise InputError(f"the model has a weight of {np.min(weights):g}: weights must be positive")
    return weights


def _quantreg(res: Any, design: Design) -> Recipe:
    note = (
        "Of several minimisers the one of smallest norm is taken (standardised columns, response as it "
        "is), which is the limit of a vanishing ridge penalty and symmetric in all rows."
    )
    remedy = "fit with a smaller p_tol and a larger max_iter"
    label, loss = f"QuantReg, q = {res.q:g}", Quantile(float(res.q))
    return Recipe(label, loss, NoPenalty(), _spread(design), notes=(note,), remedy=remedy)


def _rlm(res: Any, design: Design) -> Recipe:
    norm = res.model.M
    if not res.scale > 0:
        raise InputError(
            f"the model's scale is {res.scale:g}, for it fits most rows exactly: use OLS or QuantReg"
        )
    note = (
        f"The scale is held fixed at {res.scale:.6g}, its estimate from the training rows, and the "
        "guarantee is given that scale."
    )
    remedy = "fit with conv='coefs', tol=1e-10 and a larger maxiter"
    label = f"RLM, {type(norm).__name__}"
    return Recipe(
        label, _NORMS[type(norm)](norm), NoPenalty(), float(res.scale), notes=(note,), remedy=remedy
    )


def _regularised(res: Any, design: Design, weighted: bool, penalty: Any, l1_ratio: Any) -> Recipe:
    if (penalty is None) != (l1_ratio is None):
        raise InputError("give penalty and l1_ratio together: the alpha and L1_wt of fit_regularized")
    weights = _weights(res.model) if weighted else None
    notes = (_WEIGHTED,) if weighted else ()
    if penalty is None:
        root = np.sqrt(np.ones(len(design.y)) if weights is None else weights)
        params = np.asarray(res.params, dtype=float)
        found = recovered_penalty(root[:, None] * design.X, root * design.y, params, design.intercept)
        if found is None:
            raise InputError(
                "statsmodels keeps no penalty with its regularised results, and the coefficients do not "
                "determine it: give penalty= and l1_ratio=, the alpha (a number or one a coefficient) and "
                "L1_wt of fit_regularized"
            )
        notes = ("The penalty was read off the coefficients, and is held fixed.", *notes)
    else:
        factor = 1.0 if weights is None else float(np.mean(weights))
        found = given_penalty(penalty, l1_ratio, design.X.shape[1], factor)
    remedy = "give fit_regularized a larger maxiter, smaller cnvrg_tol and zero_tol, and check the penalty"
    label = f"{'WLS' if weighted else 'OLS'}, regularised"
    return Recipe(label, Squared(), found, _spread(design), weights, notes, remedy)


_ADAPTERS: dict[type | None, Callable[[Any, Design], Recipe]] = {
    OLS: partial(_least_squares, "OLS"),
    WLS: partial(_least_squares, "WLS"),
    QuantReg: _quantreg,
    RLM: _rlm,
    GLM: partial(_least_squares, "GLM, Gaussian"),
}
_REGULARISED = (OLS, WLS)  # whose results of fit_regularized are supported
