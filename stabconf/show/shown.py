"""Predictions and intervals at some rows, as tables and figures want them: one record, one call."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..data.bins import group_labels
from ..errors import InputError
from .coverage import Ranks
from .widths import covered, width_report, widths_of

__all__ = ["Bands"]


@dataclass(frozen=True)
class Bands:
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
    attrs: dict
    training: bool
    ranks: Ranks | None = None

    @property
    def widths(self):
        """Widths (m,); distances of the end from the prediction where one-sided."""
        return widths_of(self.lower, self.upper, self.mean, self.attrs["side"])

    @property
    def hits(self):
        """Whether each interval holds its response (m,); None where responses are not known.

        Training rows have shaped the fit, so that they say nothing about coverage.
        """
        return None if self.y is None or self.training else covered(self.lower, self.upper, self.y)

    def column(self, name):
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

    def groups(self, by, terms):
        """Labels of groups (DataFrame), or None."""
        return None if by is None else group_labels(by, self.frame, terms)

    def report(self, groups):
        """The `WidthReport` by these groups."""
        return width_report(self.widths, self.hits, groups, self.attrs, self.ranks)
