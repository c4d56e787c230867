"""Rows on their way from a results object to the sets: plain arrays, and weights where a model has them.

A model with weights (WLS) is fitted to rows times the root of their weight, response included. Its sets are
found for such rows and divided by the root at the end.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..sets import Intervals
from ..sets.intervals import Pieces

__all__ = ["Rows"]


@dataclass(frozen=True)
class Rows:
    """Design rows in the units of the fit.

    Attributes
    ----------
    X : (m, p) array
        NaN where a row has a missing value.
    weight : (m,) array or None
        None for models without weights.
    """

    X: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def root(self) -> np.ndarray:
        """Roots of the weights (m,), 1 without weights."""
        return np.ones(len(self.X)) if self.weight is None else np.sqrt(self.weight)

    @property
    def complete(self) -> np.ndarray:
        """Which rows lack nothing (m,)."""
        return ~(np.isnan(self.X).any(axis=1) | np.isnan(self.root))

    @cached_property
    def as_fitted(self) -> np.ndarray:
        """Rows times the roots of their weights (m, p)."""
        return self.X if self.weight is None else self.X * self.root[:, None]

    def take(self, which: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.X[which], None if self.weight is None else self.weight[which])

    def responses_as_fitted(self, z: np.ndarray) -> np.ndarray:
        """Responses (m,) or (m, b) times the roots of the weights."""
        return (z.T * self.root).T

    def in_own_units(self, intervals: Intervals) -> Intervals:
        """`Intervals` of the rows as fitted in units of the response."""
        if self.weight is None:
            return intervals
        names = ("lower", "upper", "inner_lower", "inner_upper", "surcharge", "tau", "tol", "centre")
        values = {name: getattr(intervals, name) for name in names}
        made = {name: value / self.root for name, value in values.items() if value is not None}
        pieces: dict[int, Pieces] = {
            i: tuple((low / self.root[i], high / self.root[i]) for low, high in found)
            for i, found in intervals.pieces.items()
        }
        return replace(intervals, **made, pieces=pieces)
