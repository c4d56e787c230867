"""A statsmodels model as an estimator: fitted again to parts of the rows, with all that it was given.

A model without exact sets gets the intervals of methods that hold rows out (theory, section 6). `refit_of`
reads off a result what its model was made and fitted with; a `Refit` does the same to other rows. What a
model takes per row (offset, exposure, weights, groups) stands in columns behind those of the design.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from statsmodels.base.elastic_net import RegularizedResults
from statsmodels.discrete import count_model, discrete_model, truncated_model
from statsmodels.genmod import families
from statsmodels.genmod.cov_struct import Exchangeable, Independence
from statsmodels.genmod.generalized_estimating_equations import GEE
from statsmodels.genmod.generalized_linear_model import GLM
from statsmodels.othermod.betareg import BetaModel
from statsmodels.regression.linear_model import OLS
from statsmodels.regression.mixed_linear_model import MixedLM
from statsmodels.robust.robust_linear_model import RLM

from ..data.design import Design
from ..errors import AssumptionError, DataWarning, InputError, warn_user
from .adapters import CLUSTERED, kind_of, unsupported
from .design import design_of, removed

PREDICTED = ("offset", "exposure", "exog_infl", "exog_precision")  # what predictions take per row
_PER_ROW = (*PREDICTED, "var_weights", "weights", "n_trials", "groups", "time", "exog_re")
_DESIGNS = ("exog_infl", "exog_precision", "exog_re", "time")  # of these, what may have several columns
_NOT_GIVEN = ("missing_idx", "formula", "model_spec", "design_info", "freq_weights", "exog_vc")
Options = dict[str, Any]
Range = tuple[float, float]
_LINE = (-np.inf, np.inf)
_SHARE = (0.0, 1.0)
_COUNT = (0.0, np.inf)
_SCALAR_EXPOSURE = (discrete_model.NegativeBinomialP, discrete_model.GeneralizedPoisson)  # in predict
_RANGES = {families.Gaussian: _LINE, families.Binomial: _SHARE}  # all other families: 0 or larger


@dataclass(eq=False)
class Refit:
    """A statsmodels model with ``fit(X, y)`` and ``predict(X)``, for rows with further columns.

    ``label`` is the model, for tables, ``kind`` its class; ``fixed`` is what it is made with, whatever the
    rows (family, norm, ...); the design has ``width`` columns of X, and the ``columns`` behind hold what it
    takes per row, by name. The method ``call`` fits it, with ``options``; its responses lie in ``range``.
    """

    label: str
    kind: type
    fixed: Options
    width: int
    columns: dict[str, slice]
    call: str
    options: Options
    range: Range

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Fit the model to rows (n, p)."""
        given = self._given(X, _PER_ROW)
        trials = given.pop("n_trials", None)
        endog = y if trials is None else np.column_stack([y * trials, (1.0 - y) * trials])
        try:
            model = self.kind(endog, X[:, : self.width], **given, **copy.deepcopy(self.fixed))
            self.result = getattr(model, self.call)(**self.options)
        except Exception as error:
            raise InputError(
                f"{self.label} cannot be fitted to {len(y)} of the training rows ({error}): use fewer "
                "terms, join levels that few rows have, or use parts with more rows (a smaller "
                "calibration=, more folds=); smf.glm with the family fits where a level is lacking, too"
            ) from error

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predictions (m,) on the scale of the response."""
        given = self._given(X, PREDICTED)
        if issubclass(self.kind, _SCALAR_EXPOSURE):
            given["offset"] = given.get("offset", 0.0) + np.log(given.get("exposure", 1.0))
            given["exposure"] = 0
        return np.asarray(self.result.predict(X[:, : self.width], **given))

    def _given(self, X: np.ndarray, among: tuple[str, ...]) -> Options:
        """What the model takes per row of what is ``among`` these; flat arrays but for designs."""
        parts = {name: X[:, place] for name, place in self.columns.items() if name in among}
        return {name: part if name in _DESIGNS else part[:, 0] for name, part in parts.items()}

    def __getstate__(self) -> Options:
        """Without the fit, which statsmodels cannot always pickle; it is made again."""
        return {name: value for name, value in vars(self).items() if name != "result"}


def _by_optimizer(res: Any) -> Options:
    settings = res.mle_settings
    found = {"method": settings["optimizer"], "maxiter": settings["maxiter"], "disp": 0}
    if "alpha" in settings:  # fit_regularized
        names = ("alpha", "trim_mode", "size_trim_tol", "auto_trim_tol", "qc_tol", "acc")
        found |= {name: settings[name] for name in names if name in settings}
    return found


def _family_range(model: Any) -> Range:
    return _RANGES.get(type(model.family), _COUNT)


# How a model's options are read off a result, and where its responses lie.
_KINDS: dict[type | None, tuple[Callable[[Any], Options], Range | Callable[[Any], Range]]] = {
    GLM: (lambda res: {} if res.method == "IRLS" else {"method": res.method}, _family_range),
    GEE: (lambda res: {}, _family_range),
    MixedLM: (lambda res: {"reml": res.reml}, _LINE),
    RLM: (lambda res: {name: res.fit_options[name] for name in ("scale_est", "conv")}, _LINE),
    OLS: (lambda res: {}, _LINE),  # fit_regularized(refit=True)
    BetaModel: (_by_optimizer, _SHARE),
    discrete_model.Logit: (_by_optimizer, _SHARE),
    discrete_model.Poisson: (_by_optimizer, _COUNT),
    discrete_model.NegativeBinomial: (_by_optimizer, _COUNT),
    discrete_model.NegativeBinomialP: (_by_optimizer, _COUNT),
    discrete_model.GeneralizedPoisson: (_by_optimizer, _COUNT),
    count_model.ZeroInflatedPoisson: (_by_optimizer, _COUNT),
    truncated_model.HurdleCountModel: (_by_optimizer, _COUNT),
    truncated_model.TruncatedLFPoisson: (_by_optimizer, lambda model: (model.truncation + 1.0, np.inf)),
}


def refit_of(
    res: Any, penalty: Any, l1_ratio: Any, fit_options: Mapping[str, Any] | None
) -> tuple[Design, Refit, np.ndarray]:
    """The `Design` and the `Refit` of a result, and its training rows (n, p + q) as that takes them.

    An `AssumptionError` where no refit of it gives intervals that hold.
    """
    model, known = res.model, kind_of(res)
    if known not in _KINDS:
        raise unsupported(res)
    if model.endog is None:
        raise removed("training rows")
    if getattr(res, "constraints", None) is not None:
        raise AssumptionError(
            f"{type(model).__name__} with fit_constrained cannot be fitted to parts of the rows under its "
            "constraints: write them into the formula, y ~ I(x1 + x2) for equal coefficients say, or take "
            "what is known into offset="
        )
    (options_of, span), design = _KINDS[known], design_of(model)
    span = span(model) if callable(span) else span
    _check_response(model, design.y, span)
    again = getattr(res, "regularized", False)  # OLS, fitted again to the columns that a penalty selects
    if again or isinstance(res, RegularizedResults):
        if penalty is None or l1_ratio is None:
            raise InputError(
                "statsmodels keeps no penalty with its regularised results: give penalty= and l1_ratio=, "
                "the alpha and L1_wt of fit_regularized"
            )
        options = {"alpha": penalty, "L1_wt": l1_ratio, **({"refit": True} if again else {})}
    elif penalty is not None or l1_ratio is not None:
        raise InputError("penalty and l1_ratio go with results of fit_regularized: drop them")
    else:
        options = options_of(res)
    call = "fit_regularized" if "alpha" in options else "fit"
    fixed, per_row = _made_with(model, known)
    width = start = design.X.shape[1]
    columns = {}
    for name, values in per_row.items():
        columns[name] = slice(start, start + values.shape[1])
        start += values.shape[1]
    part = model.M if isinstance(model, RLM) else model.family if isinstance(model, GLM) else None
    label = type(model).__name__ + ("" if part is None else f", {type(part).__name__}")
    if getattr(res, "cov_type", None) == "cluster":
        warn_user(f"{label} with cov_type='cluster': {CLUSTERED}", DataWarning)
    options = {**options, **(fit_options or {})}
    made = Refit(label, type(model), fixed, width, columns, call, options, span)
    return design, made, np.hstack([design.X, *per_row.values()])


def _check_response(model: Any, y: np.ndarray, span: Range) -> None:
    """Refuse responses that an interval says nothing of, and those that stand for several rows."""
    if span == _SHARE and np.all((y == 0) | (y == 1)):
        raise AssumptionError(
            f"{type(model).__name__} of a response that is 0 or 1 has no intervals: a set of labels says "
            "more, stabconf.fit(formula, data, loss='squared').conformal_set(new, [0, 1]); shares of "
            "several trials have intervals"
        )
    weights = getattr(model, "freq_weights", None)
    if weights is not None and np.any(np.asarray(weights) != 1.0):
        raise AssumptionError(
            f"{type(model).__name__} with freq_weights has rows that stand for several, which are held out "
            "one by one: repeat them, data.loc[data.index.repeat(freq)].reset_index(drop=True), and fit "
            "without freq_weights"
        )


def _made_with(model: Any, known: type | None) -> tuple[Options, dict[str, np.ndarray]]:
    """What a model was made with: the same for all rows, and per row, (n, q) each."""
    given = {name: value for name, value in model._get_init_kwds().items() if value is not None}
    if known is RLM:
        given["M"] = model.M
    if known is GEE:  # a structure that knows nothing of the training rows
        structure = type(model.cov_struct)
        if structure not in (Independence, Exchangeable):
            raise AssumptionError(
                f"GEE with {structure.__name__} is not fitted to parts of its rows, for rows within a "
                "cluster must be exchangeable: use cov_struct=Exchangeable() or Independence()"
            )
        given["cov_struct"] = structure()
    if known is MixedLM and model.k_vc:
        raise AssumptionError(
            "MixedLM with variance components (vc_formula) cannot be fitted to parts of its rows: use "
            "re_formula, or a GEE"
        )
    n, fixed, per_row = len(model.endog), {}, {}
    for name, value in given.items():
        if name in _PER_ROW:
            codes = np.unique(value, return_inverse=True)[1] if name == "groups" else value
            per_row[name] = np.array(codes, dtype=float).reshape(n, -1)
        elif name not in _NOT_GIVEN:
            fixed[name] = copy.deepcopy(value)
    return fixed, per_row
