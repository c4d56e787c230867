"""What tables and figures show: predictions and intervals at some rows, as one record.

`results.showing` makes it from one call of ``conf_int_conformal``; this room asks results for no more.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.bins import group_labels
from ..errors import InputError
from .coverage import Ranks
from .widths import WidthReport, width_report

__all__ = ["Shown"]


@dataclass(frozen=True)
class Shown:
    """Intervals of one level at m rows.

    Attributes
    ----------
    frame : DataFrame
        The rows as the user gave them, or the training rows.
    mean, lower, upper : (m,) arrays
        NaN for rows with a missing value.
    y : (m,) array or None
        Responses, where known.
    attrs : dict
        Of the interval frame: response, alpha, side, method, guarantee, ...
    training : bool
        Whether these are the training rows.
    ranks : Ranks or None
        The order statistics that the intervals rest on; None with weights of a shift.
    """

    frame: pd.DataFrame
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None
    attrs: dict[str, Any]
    training: bool
    ranks: Ranks | None = None

    @property
    def widths(self) -> np.ndarray:
        """Widths (m,); distances of the end from the prediction where one-sided."""
        low = self.mean if self.attrs["side"] == "upper" else self.lower
        high = self.mean if self.attrs["side"] == "lower" else self.upper
        return high - low

    @property
    def judged(self) -> bool:
        """Whether coverage can be judged: there are responses, and they have not shaped the fit."""
        return self.y is not None and not self.training

    @property
    def hits(self) -> np.ndarray:
        """1 or 0 (m,), whether each interval holds its response; NaN where that cannot be judged."""
        if self.y is None or self.training:
            return np.full(len(self.mean), np.nan)
        known = ~(np.isnan(self.lower) | np.isnan(self.y))
        return np.where(known, (self.lower <= self.y) & (self.y <= self.upper), np.nan)

    def column(self, name: Hashable) -> np.ndarray | pd.Categorical:
        """A column (m,) as figures take it, None or NaN where missing; categories keep their order."""
        values = self.frame[name]
        if values.ndim > 1:
            raise InputError(f"new has more than one column {name!r}: rename or drop the duplicates")
        dtype = values.dtype
        if isinstance(dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_localize(None)
        if isinstance(dtype, pd.CategoricalDtype):
            return values.array
        if pd.api.types.is_datetime64_any_dtype(dtype):
            return values.to_numpy()
        if pd.api.types.is_bool_dtype(dtype):
            return pd.Categorical(values.astype(object).map(str, na_action="ignore"))
        if pd.api.types.is_numeric_dtype(dtype):
            return values.to_numpy(dtype=float, na_value=np.nan)
        return values.astype(object).where(values.notna(), None).to_numpy()

    def groups(self, by: Any, terms: Callable[[str], dict[str, np.ndarray]]) -> pd.DataFrame | None:
        """Labels of groups, one column per grouping; None without any."""
        return None if by is None else group_labels(by, self.frame, terms)

    def report(self, groups: pd.DataFrame | None) -> WidthReport:
        """The `WidthReport` by these groups."""
        hits = self.hits if self.judged else None
        return width_report(self.widths, hits, groups, self.attrs, self.ranks)
