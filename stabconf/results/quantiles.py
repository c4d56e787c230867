"""Results of several quantile regressions, and the conformal band between two (theory, section 7)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.frames import collected, in_kind
from ..data.response_units import as_units
from ..data.units import ColumnUnits
from ..errors import AssumptionError, DataWarning, InputError, InputTypeError, warn_user
from ..losses import Quantile
from ..penalties import Penalty
from ..sets import BAND_METHODS, BandFits, Fits, Intervals, band_conformity
from ..show.summary import FitSummary, summarise_quantiles
from .asking import Asked, PValues, ask_p_values
from .base import BaseResults
from .figures import Figures
from .options import New, Numbers, Side, Units, shows_options
from .regression import EachResults, ModelSpec, Results

_OPTIONS = ("groups", "weights", "conditional", "bound", "transductive", "unseen", "in_range", "units")
_WIDE = 2.0  # ranges of the training responses: a wider band is one that the new response decides


class QuantileResults(EachResults, Figures):
    """Fitted quantiles and the conformal band between two of them; made by `stabconf.fit_quantiles`.

    ``model`` says what was fitted; tables of coefficients and predictions have a column per quantile.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
    >>> res.predict({"income": [600.0, -900.0]}).round(1)
        0.05   0.50   0.95
    0  330.9  418.0  492.9
    1 -184.1 -420.3 -549.5
    >>> res.crossing({"income": [600.0, -900.0]}).tolist()
    [False, True]
    >>> ends = res.conf_int_conformal({"income": [500.0, 2000.0]}, alpha=0.1)
    >>> (ends["upper"] - ends["lower"]).round(0).tolist()
    [133.0, 692.0]
    >>> res.conformity({"income": [500.0]}, z=[330.0, 450.0])["p"].round(3).tolist()
    [0.275, 0.03]
    """

    def __init__(self, model: ModelSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        self._each = {
            level: Results(replace(model, loss=Quantile(level), quantiles=()), design, columns)
            for level in model.quantiles
        }

    @property
    def penalty(self) -> Penalty:
        """The penalty of each fit, as it was given."""
        return self.model.penalty

    @property
    def fit_quality(self) -> pd.DataFrame:
        """As in `Results.fit_quality`, a row per quantile; ``pseudo_r2`` is Koenker and Machado's R1."""
        return pd.DataFrame({level: fit.fit_quality for level, fit in self._each.items()}).T

    def predict(self, exog: New = None, units: Units = None) -> pd.DataFrame:
        """Fitted quantiles at new rows, a column each, by default at the training rows; ``units`` as in
        `conf_int_conformal`. They may cross: `crossing` says where.
        """
        if hasattr(type(exog), "map_partitions"):  # a frame of dask
            return self._by_partition(exog, "predict")
        X, index = self._new_rows(exog)
        made = as_units(units, self._design).back(super()._predictions(X))
        return pd.DataFrame(made, index, list(self._each))

    def crossing(self, exog: New = None) -> pd.Series:
        """Whether fitted quantiles cross at new rows (bools), a lower one above a higher one."""
        return (self.predict(exog).diff(axis=1).iloc[:, 1:] < 0).any(axis=1).rename("crossing")

    @shows_options(BaseResults.conf_int_conformal, (*_OPTIONS, "n_jobs", "progress", "to"))
    def conf_int_conformal(
        self,
        exog: New = None,
        alpha: Numbers = None,
        method: str | None = None,
        side: Side = "two-sided",
        *,
        pair: Sequence[float] | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Conformal prediction intervals: the band between two quantiles, widened or narrowed to cover.

        A response is scored by how far it lies outside the band, on whichever side; the sets are exact
        full conformal sets of that score, with both fits made anew for every candidate response.

        Parameters
        ----------
        method : {"auto", "exact", "stable"}
            "stable" encloses the exact set from one pair of fits for all rows, fit for many of them.
        side : {"two-sided", "upper", "lower"}
            One-sided intervals rank distances above the upper quantile, or below the lower one; their
            other end is infinite.
        pair : tuple of float, optional
            Levels of the band, of those fitted; by default the lowest and the highest.
        exog, alpha, **options
            As in `Results.conf_int_conformal`; ``bound`` is "norm" or "paper".

        Returns
        -------
        DataFrame
            As in `Results.conf_int_conformal`; its ``attrs`` also hold the ``pair`` and under ``crossing``
            the labels of the rows where it crosses, for which the guarantee holds too.
        """
        if hasattr(type(exog), "map_partitions"):  # a frame of dask
            return self._by_partition(exog, "conf_int_conformal")
        exog, to = collected(exog), options.pop("to", None)
        low, high = self._check_pair(pair, side)
        out = super().conf_int_conformal(exog, alpha, method, side, pair=pair, **options)
        made = self.predict(exog)
        crossed = made.index[(made[low] > made[high]).to_numpy()]
        out.attrs |= {"pair": (low, high), "crossing": crossed.tolist()}
        if len(crossed):
            rows = ", ".join(map(str, crossed[:5]))
            warn_user(
                f"quantiles {low:g} and {high:g} cross at {len(crossed)} of {len(made)} rows (the first "
                f"{rows}): intervals stay valid, but a set may be empty there; look at the formula, or "
                "raise penalty",
                DataWarning,
            )
        else:
            self._warn_of_wide(out, options.get("units"))
        return in_kind(out, to or "pandas")

    def _warn_of_wide(self, out: pd.DataFrame, units: Units) -> None:
        """Warn of exact bands, at the largest alpha, that are wider than the responses are apart."""
        if out.attrs["method"] != "exact" or out.attrs["side"] != "two-sided":
            return
        ends = out if out.columns.nlevels == 1 else out[float(np.max(out.attrs["alpha"]))]
        y = as_units(units, self._design).back(self._design.y)
        width = (ends["upper"] - ends["lower"]).to_numpy()
        wide = out.index[(width > _WIDE * np.ptp(y)) & np.isfinite(width)]
        if len(wide):
            rows = ", ".join(map(str, wide[:5]))
            warn_user(
                f"{len(wide)} of {len(out)} bands {'is' if len(wide) == 1 else 'are'} very wide (the first "
                f"{rows}): so few training rows are like these that the fitted quantiles follow any "
                "response; merge rare levels, raise penalty, or give in_range=True",
                DataWarning,
            )

    @shows_options(Figures.p_values, ("groups", "weights", "conditional"))
    def conformity(
        self,
        exog: New,
        z: Numbers,
        side: Side = "two-sided",
        *,
        pair: Sequence[float] | None = None,
        units: Units = None,
        **asked: Any,
    ) -> pd.DataFrame:
        """Exact p-values ``p`` of candidate responses, as in `Results.conformity`."""
        if asked.get("z_hat") is not None:
            raise InputTypeError("z_hat= goes with stability bounds, which p-values of bands lack: drop it")
        return ask_p_values(self, exog, z, ("p",), self._p_of(side, pair), units, **asked)

    def _p_of(self, side: Side, pair: Sequence[float] | None = None) -> PValues:
        return partial(band_conformity, self._band(pair, side), side=side)

    def predictive(self, exog: New = None, **options: Any) -> NoReturn:
        """Refuse: the lower and the upper end of a band have scores of their own, so that its one-sided
        intervals make no distribution."""
        raise AssumptionError(
            "a band has one score for its lower end and another for its upper one, which make no "
            "predictive distribution: use stabconf.fit(formula, data, "
            f"loss=stabconf.Quantile({self._central:g})).predictive(new)"
        )

    def _fit_summary(self) -> FitSummary:
        return summarise_quantiles(self)

    def _check_pair(self, pair: Any, side: str) -> tuple[float, float]:
        """Levels of the band, ascending; for one-sided sets one of them does not matter."""
        levels = self.model.quantiles
        if pair is None:
            if len(levels) < 2 and side == "two-sided":
                raise AssumptionError(
                    f"quantiles={levels!r} is one level, and a band has two: fit at least two, or use "
                    "side='upper' or 'lower'"
                )
            return levels[0], levels[-1]
        if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2:
            raise InputTypeError(f"pair={pair!r} is not a pair: give two levels such as (0.05, 0.95)")
        for level in pair:
            if level not in levels:
                raise InputError(f"pair={pair!r} has {level!r}, which was not fitted: choose from {levels}")
        if not pair[0] < pair[1]:
            raise InputError(f"pair={pair!r} is not ascending: give the lower level first")
        return float(pair[0]), float(pair[1])

    def _band(self, pair: Sequence[float] | None, side: str) -> BandFits:
        low, high = self._check_pair(pair, side)
        if (low, high) not in self._bands:
            self._bands[low, high] = BandFits(self._each[low]._fits, self._each[high]._fits)
        return self._bands[low, high]

    @cached_property
    def _bands(self) -> dict[tuple[float, float], BandFits]:
        """Pairs of fits that were asked for; a fit that changes its unit for one is made again."""
        return {}

    @property
    def _central(self) -> float:
        """The level nearest to the median."""
        assert isinstance(self.model.loss, Quantile)
        return self.model.loss.q

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return self._each[self._central]._predictions(X)

    @property
    def _fits(self) -> Fits:
        return self._each[self._central]._fits

    def _prediction_columns(self, exog: New, units: Units = None) -> pd.DataFrame:
        made = self.predict(exog, units)
        named = made.set_axis([f"q{level:g}" for level in made.columns], axis=1)
        named.insert(0, "mean", made[self._central])
        return named

    def _intervals(self, asked: Asked) -> list[Intervals]:
        options, method = dict(asked.options), asked.method
        band = self._band(options.pop("pair", None), asked.side)
        if method == "auto":
            method = "stable" if "bound" in options else "exact"
        return replace(asked, options=options, method=method).intervals(band, BAND_METHODS)
