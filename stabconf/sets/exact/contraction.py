"""Where the order statistic moves so slowly with the new residual that it has one fixed point.

The new residual r is in the set if r <= Q(r), the k-th smallest score of the tilted fit. The curvature
bound limits how fast Q can change; where that is less than half as fast as r itself, the set has one end
on the side, and fixed-point steps close in on it (theory, section 5).
"""

from dataclasses import dataclass

import numpy as np

from ...rank import Rank, kth_of_lines
from ...stability import BaseFit, Metric
from ..enclosure import outer_residuals
from ..score import Score

__all__ = ["Slow", "contractions"]

_RATE = 0.5


@dataclass(frozen=True)
class Slow:
    """New rows that share a metric and for which Q changes slowly.

    Attributes
    ----------
    which : (b,) array of int
        The rows.
    metric : Metric
    norms : (b,) array
        Norms of the rows in it.
    least, outer : (b,) arrays
        Residuals up to ``least`` are in the set, those above ``outer`` are not.
    rate : (b,) array
        Bound on the change of Q per unit of r between them.
    """

    which: np.ndarray
    metric: Metric
    norms: np.ndarray
    least: np.ndarray
    outer: np.ndarray
    rate: np.ndarray

    def take(self, part: slice) -> "Slow":
        """The same for some of the rows."""
        return Slow(
            self.which[part],
            self.metric,
            self.norms[part],
            self.least[part],
            self.outer[part],
            self.rate[part],
        )


def contractions(
    base: BaseFit, rows: np.ndarray, rank: Rank, score: Score, direction: int, own: np.ndarray
) -> tuple[list[Slow], np.ndarray]:
    """The rows that contract, in groups (a list of `Slow`), and those without a certain end (bools)."""
    outer, ask = outer_residuals(base, rows, rank, score, direction, own)
    endless = np.isposinf(outer) & np.isinf(base.steepest(direction))
    slope = base.slope(np.maximum(outer, 0.0), direction)
    values = score.values(base.solution.r)
    out = []
    for some, metric, norms, move in ask.moves.groups(slope):
        which = np.arange(len(rows))[some]
        lines = score.norms(metric.rows)
        least = own[which] * kth_of_lines(values, lines, rank.take(which), -move)
        least = np.maximum(least, 0.0)
        farthest = np.where(np.isfinite(outer[which]), outer[which], 0.0)
        ends = np.sort(direction * np.array([least, np.maximum(farthest, least)]), axis=0)
        steepest = base.problem.loss.max_curvature(*ends)
        with np.errstate(invalid="ignore"):
            rate = own[which] * np.max(lines) * norms * steepest
        good = (rate < _RATE) & (least > 0) & np.isfinite(outer[which])
        if good.any():
            out.append(Slow(which[good], metric, norms[good], least[good], outer[which[good]], rate[good]))
    return out, endless
