"""The conformity score of a residual: its size, or the residual itself for one-sided sets.

Residuals may be divided by a scale, a fixed positive number a row. All that methods ask of a score is here:
values, how fast they change, their range, and the lines that they are along a path. What `side` means is
said here alone.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["DIRECTIONS", "SIDES", "Score"]

SIDES = {"two-sided": 0, "upper": 1, "lower": -1}
DIRECTIONS = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}  # of the ends that are looked for


@dataclass(frozen=True)
class Score:
    """``|r| / scale``, or ``sign * r / scale``.

    Attributes
    ----------
    sign : {0, 1, -1}
        0 for sizes; 1 ranks residuals, -1 their negatives.
    scale : (n,) array or None
        Of the training rows; None for 1.
    """

    sign: int = 0
    scale: np.ndarray | None = None

    @classmethod
    def of(cls, side, scale=None):
        """The score of a side, with the scales of the training rows."""
        return cls(SIDES[side], scale)

    def _signed(self, r):
        return self.sign * r if self.sign else np.abs(r)

    def values(self, r, rows=slice(None)):
        """Scores of residuals (..., n) of the training rows, or (..., c) of some of them."""
        return self._signed(r) if self.scale is None else self._signed(r) / self.scale[rows]

    def norms(self, norms, rows=slice(None)):
        """How fast scores change where residuals change as fast as ``norms``."""
        return norms if self.scale is None else norms / self.scale[rows]

    def range(self, low, high):
        """Smallest and largest scores of residuals between two bounds (..., n)."""
        ends = self.values(low), self.values(high)
        least = np.minimum(*ends)
        if not self.sign:
            least = np.where((low <= 0) & (high >= 0), 0.0, least)
        return least, np.maximum(*ends)

    def lines(self, r, rate, rows=slice(None)):
        """The score as the largest of lines, where residuals ``r`` change at ``rate`` (two (c,) arrays)."""
        ways = (self.sign,) if self.sign else (1.0, -1.0)
        return [(self.norms(way * r, rows), self.norms(way * rate, rows)) for way in ways]

    # The new row, whose scale is ``own`` ------------------------------------------------------------

    def own_values(self, e, own=1.0):
        """Scores of the new row's residuals."""
        return self._signed(e) / own

    def own_lines(self, e, rate, own=1.0):
        """`lines` of the new row."""
        ways = (self.sign,) if self.sign else (1.0, -1.0)
        return [(way * e / own, way * rate / own) for way in ways]
