"""A statsmodels result with conformal intervals: statsmodels' coefficients, stabconf's sets.

Without a penalty the sets do not depend on the units of columns and response, so the fits are made with
standardised columns and a scaled response, which only keeps rounding errors small. The rows of a weighted
model carry their weights (see `Rows`). `stabconf.conformal` makes these results.
"""

import inspect
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.frames import by_label
from ..data.units import ColumnKinds, column_units
from ..errors import DataWarning, InputError, warn_user
from ..losses import Loss
from ..results.asking import Rows
from ..results.options import New, Numbers, PerRow
from ..results.regression import ModelSpec, ObjectiveResults
from ..sets import Fits
from ..show.summary import FitSummary, summarise_model
from .adapters import Recipe

Found = TypeVar("Found")
_SOLVING: dict[str, Any] = {"solver": "auto", "tol": 1e-8, "max_iter": 1000}


def _taking_weights(method: Callable[..., Found]) -> Callable[..., Found]:
    """A method with ``wls_weights`` of new rows, without ``transductive``, which would fit again."""
    known = inspect.signature(method)
    rows = "exog" if "exog" in known.parameters else "new"

    @wraps(method)
    def weighted(self: "StatsmodelsResults", *args: Any, wls_weights: Any = None, **options: Any) -> Found:
        new = known.bind(self, *args, **options).arguments.get(rows)
        return method(self._weighted(new, wls_weights), *args, **options)

    taken = [each for each in known.parameters.values() if each.name != "transductive"]
    extra = inspect.signature(weighted, follow_wrapped=False).parameters["wls_weights"]
    taken.insert(len(taken) - (taken[-1].kind is inspect.Parameter.VAR_KEYWORD), extra)
    vars(weighted)["__signature__"] = known.replace(parameters=taken)
    return weighted


class StatsmodelsResults(ObjectiveResults):
    """A fitted statsmodels model and its conformal intervals; made by `stabconf.conformal`.

    ``alpha`` and ``method`` default to what `conformal` was given, and new rows are a frame with the
    columns that the formula uses, or rows of the model's design where it was made from arrays. Where a
    model has weights (WLS), ``wls_weights`` are those of the new rows: a number, one per row (a Series is
    matched by label) or a column. By default they are 1, with a `DataWarning` unless all training rows have
    weight 1: intervals of rows with another weight than the one they are given may be far too narrow. The
    model is not fitted again (`can_refit` is False), which `plot_stability` would need. ``recipe`` has
    loss, penalty, weights and what is held fixed.

    Examples
    --------
    >>> import stabconf
    >>> import statsmodels.formula.api as smf
    >>> from statsmodels.datasets import engel
    >>> res = smf.ols("foodexp ~ income", engel.load_pandas().data).fit()
    >>> stabconf.conformal(res).conf_int_conformal({"income": [500.0]}, alpha=0.1).round(0)
       lower  upper
    0  238.0  543.0
    """

    can_refit = False  # weights, scale and penalty are those of the statsmodels fit

    def __init__(self, design: Design, recipe: Recipe, params: Any, alpha: Numbers, method: str) -> None:
        names = list(design.names)
        spec = (design.formula, recipe.loss, recipe.penalty, False, "drop")
        model = ModelSpec(*spec, **_SOLVING, endog_names=design.response, exog_names=names)
        shrunk = any(np.any(weights) for weights in recipe.penalty.weights(1, np.ones(len(names), bool)))
        kinds = ColumnKinds.numeric(len(names), design.intercept)
        # A penalty sees the units of the columns: they stay as they are.
        super().__init__(model, design, column_units(design.X, kinds, not shrunk)[0])
        self.recipe = recipe
        self.default_alpha = alpha
        self.default_method = method
        self._own = np.array(params, dtype=float)
        self._new_weights: np.ndarray | None = None

    @property
    def params(self) -> pd.Series:
        """statsmodels' coefficients."""
        return pd.Series(self._own, index=self._design.names, name="params")

    @property
    def mismatch(self) -> float:
        """Largest difference at a training row between the predictions of statsmodels' coefficients and
        those of the minimiser, in units of the response's scale."""
        found = self._X @ (self._fits.solution.x - self._fits.start)
        return float(np.max(np.abs(found), initial=0.0))

    conf_int_conformal = _taking_weights(ObjectiveResults.conf_int_conformal)
    get_prediction = _taking_weights(ObjectiveResults.get_prediction)
    conformity = _taking_weights(ObjectiveResults.conformity)
    conformal_set = _taking_weights(ObjectiveResults.conformal_set)
    predictive = _taking_weights(ObjectiveResults.predictive)
    tau = _taking_weights(ObjectiveResults.tau)
    p_values = _taking_weights(ObjectiveResults.p_values)
    augment = _taking_weights(ObjectiveResults.augment)
    check_exchangeability = _taking_weights(ObjectiveResults.check_exchangeability)
    width_report = _taking_weights(ObjectiveResults.width_report)
    report = _taking_weights(ObjectiveResults.report)
    plot_intervals = _taking_weights(ObjectiveResults.plot_intervals)
    plot_conformity = _taking_weights(ObjectiveResults.plot_conformity)
    plot_widths = _taking_weights(ObjectiveResults.plot_widths)
    plot_coverage = _taking_weights(ObjectiveResults.plot_coverage)

    @cached_property
    def _theta(self) -> np.ndarray:
        """statsmodels' coefficients of the columns in the units of the fit, and of the response (p,)."""
        theta = self._own * self._columns.scale
        if self._design.intercept is not None:
            theta[self._design.intercept] += self._own @ self._columns.mean
        return theta

    @property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Ridge and lasso weights, two (p,) arrays."""
        slopes = np.arange(len(self._design.names)) != self._design.intercept
        return self.model.penalty.weights(self.nobs, slopes)

    @property
    def _objective(self) -> tuple[Loss, np.ndarray, float]:
        return self.recipe.loss, self._weights[0], self.recipe.scale

    @cached_property
    def _fits(self) -> Fits:
        recipe, design = self.recipe, self._design
        rows, _ = self._rows(None)
        ridge, lasso = self._weights
        lasso = lasso / recipe.scale  # an L1 weight has the unit of the response
        data = rows.as_fitted, rows.responses_as_fitted(design.y)
        start = self._theta / recipe.scale
        return Fits(*data, recipe.loss, ridge, lasso, 0.0, recipe.scale, start, _SOLVING)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return X @ self._theta

    def _described(self) -> str:
        return f"{self.recipe.label}, {self.recipe.penalty.describe()}"

    def _fit_summary(self) -> FitSummary:
        return summarise_model(self)

    def _rows(self, exog: New) -> tuple[Rows, pd.Index]:
        X, index = self._new_rows(exog)
        weight = self.recipe.weights
        if weight is None:
            return Rows(X), index
        if exog is not None:
            weight = np.ones(()) if self._new_weights is None else self._new_weights
            if weight.ndim and len(weight) != len(X):
                raise InputError(f"wls_weights has {len(weight)} values for {len(X)} rows: give one a row")
        return Rows(X, np.broadcast_to(weight, len(X))), index

    def _weighted(self, exog: New, weights: PerRow) -> "StatsmodelsResults":
        """Itself with weights for the new rows, 1 by default; a warning says so where that matters."""
        trained = self.recipe.weights
        if weights is None:
            if exog is None or trained is None or self._new_weights is not None:
                return self
            if np.any(trained != 1.0):
                warn_user(
                    "wls_weights is not given, so that new rows have weight 1, and those of the training "
                    f"rows lie between {np.min(trained):.3g} and {np.max(trained):.3g}: the intervals are "
                    "right for rows of weight 1 alone; give wls_weights, made as the weights of the "
                    "training rows were",
                    DataWarning,
                )
            weights = 1.0
        if trained is None:
            raise InputError(
                f"wls_weights go with a weighted model, and this one is {self.recipe.label}: drop them"
            )
        if exog is None:
            raise InputError("wls_weights are those of new rows; the training rows have theirs: give exog")
        frame = self._design.frame_of(exog)
        if isinstance(weights, str):
            if weights not in frame.columns:
                raise InputError(f"wls_weights={weights!r} is no column of exog: add it, or give numbers")
            weights = frame[weights]
        values = np.asarray(by_label(weights, frame.index, "wls_weights"), dtype=float)
        if values.ndim > 1 or np.any(values <= 0) or np.any(np.isinf(values)):
            raise InputError("wls_weights must be positive and finite: give a number, or one a row")
        return self._copy(_new_weights=values, _kept={})
