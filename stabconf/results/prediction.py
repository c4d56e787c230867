"""Predictions and intervals side by side, as statsmodels' ``get_prediction`` gives them."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.frames import collected, copied, in_kind
from ..data.groups import as_ranking
from ..errors import AssumptionError, InputTypeError
from ..sets import FixedScale
from .options import Level, New, Numbers, Options, as_scale

if TYPE_CHECKING:
    from .base import BaseResults


class Prediction:
    """Predictions at some rows, with intervals on request; made by `Results.get_prediction`.

    ``alpha`` is by default what ``get_prediction`` was given.
    """

    def __init__(self, results: "BaseResults", exog: New, alpha: Numbers, options: Options) -> None:
        self._results = results
        self._exog = copied(collected(exog))
        self._alpha = alpha
        self._options = copied(options)
        self._units = {"units": options["units"]} if options.get("units") is not None else {}

    @property
    def predicted_mean(self) -> pd.Series:
        """Predictions of the fit to all training rows."""
        return self._results.predict(self._exog, **self._units)

    def conf_int(self, alpha: Numbers = None, obs: bool = True) -> pd.DataFrame:
        """Conformal intervals for new responses; ``obs=True`` says so, as in statsmodels."""
        if not obs:
            raise AssumptionError(
                "obs=False asks for an interval of the mean, which needs assumptions on the noise: "
                "conformal intervals are for new responses, obs=True"
            )
        alpha = self._alpha if alpha is None else alpha
        return self._results.conf_int_conformal(self._exog, alpha=alpha, **self._options)

    def summary_frame(self, alpha: Level = None) -> pd.DataFrame:
        """Prediction and interval side by side, under a column level for the response where several are.

        ``mean``, statsmodels' name for the prediction, is of the fit that made the interval (where rows are
        held out, not the fit to all of them; for folds the median of their fits). Beside it are the fitted
        quantiles, where several are; ``obs_ci_lower``, ``obs_ci_upper`` (and inner ends); with groups,
        weights or a fixed scale also ``group`` (or a column for each of several), ``weight`` and ``scale``.
        """
        given: Any = self._alpha if alpha is None else alpha
        if np.ndim(given) > 0:
            raise InputTypeError(f"alpha={given!r}: summary_frame takes one number; loop, or use conf_int")
        options = {name: value for name, value in self._options.items() if name != "to"}
        ends = self._results.conf_int_conformal(self._exog, alpha=given, centre=True, **options)
        if len(self._results._designs) > 1:
            each = {name: _named(ends[name]) for name in ends.attrs["response"]}
            frame = pd.concat(each, axis=1, names=["response", None])
        else:
            named = _named(ends)
            columns = self._results._prediction_columns(self._exog, **self._units)
            frame = pd.concat([columns.assign(mean=named.pop("mean")), named], axis=1)
            frame.columns.name = ends.columns.name
            for name, values in self._beside([*frame.columns]).items():
                frame[name] = values
        frame.attrs = ends.attrs
        return in_kind(frame, self._options.get("to") or "pandas")

    def _beside(self, taken: list[str]) -> dict[str, np.ndarray]:
        """Columns that say how new rows are ranked and scaled, beside those that are ``taken``."""
        design, options = self._results._design, self._options
        among = options.get("groups"), options.get("weights")
        ranking = as_ranking(*among, design, self._exog, self._results.nobs)
        out = ranking.columns([*taken, "scale", "weight"])
        if options.get("scale") is not None:
            complete = self._results._rows(self._exog)[0].complete
            found, complete = as_scale(options["scale"], design, self._exog, complete)
            if isinstance(found, FixedScale):  # others are learned for each interval alone
                out["scale"] = np.full(len(complete), np.nan)
                out["scale"][complete] = found.new
        return out


def _named(ends: pd.DataFrame) -> pd.DataFrame:
    """Prediction and ends by statsmodels' names."""
    named = ends.add_prefix("obs_ci_").rename(columns={"obs_ci_centre": "mean"})
    return named[["mean", *named.columns.drop("mean")]]
