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
from .coverage import Leverages, Ranks
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
    ranks : Ranks, Leverages or None
        What the coverage of the intervals rests on; None with weights of a shift.
    """

    frame: pd.DataFrame
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None
    attrs: dict[str, Any]
    training: bool
    ranks: Ranks | Leverages | None = None

    @property
    def widths(self) -> np.ndarray:
        """Widths (m,); distances of the end from the prediction where one-sided."""
        low = self.mean if self.attrs["side"] == "upper" else self.lower
        high = self.mean if self.attrs["side"] == "lower" else self.upper
        return high - low

    @property
    def hits(self) -> np.ndarray:
        """1 or 0 (m,), whether each interval holds its response; NaN where that cannot be judged, as at the
        training rows, which have shaped the fit."""
        if self.y is None or self.training:
            return np.full(len(self.mean), np.nan)
        known = ~(np.isnan(self.lower) | np.isnan(self.y))
        return np.where(known, (self.lower <= self.y) & (self.y <= self.upper), np.nan)

    def take(self, rows: np.ndarray) -> "Shown":
        """The same of some rows, by bools (m,) or places."""
        ends = self.mean[rows], self.lower[rows], self.upper[rows]
        y = None if self.y is None else self.y[rows]
        ranks = None if self.ranks is None else self.ranks.take(rows)
        return Shown(self.frame.iloc[rows], *ends, y, self.attrs, self.training, ranks)

    def column(self, name: Hashable) -> pd.Series:
        """A column (m,)."""
        values = self.frame[name]
        if values.ndim > 1:
            raise InputError(f"new has more than one column {name!r}: rename or drop the duplicates")
        return values

    def groups(self, by: Any, terms: Callable[[str], dict[str, np.ndarray]]) -> pd.DataFrame | None:
        """Labels of groups, one column per grouping; None without any."""
        return None if by is None else group_labels(by, self.frame, terms)

    def report(self, groups: pd.DataFrame | None) -> WidthReport:
        """The `WidthReport` by these groups."""
        hits = None if self.y is None or self.training else self.hits
        return width_report(self.widths, hits, groups, self.attrs, self.ranks)
