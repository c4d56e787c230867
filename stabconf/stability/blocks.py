"""A base fit whose rows come in blocks (theory, section 4).

As `BaseFit`, with a pass over the rows for each sum, largest value or order statistic of
something that has one entry per row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..rank import Rank, Scoring, kth_of_blocks
from ..solvers import BlockProblem
from .base_fit import BaseFit, Level, Metric, Values


@dataclass(frozen=True)
class BlockFit(BaseFit):
    """A `BaseFit` whose ``problem`` and ``solution`` have no rows, and whose metrics have no norms."""

    blocks: BlockProblem = field(kw_only=True)

    @property
    def n(self) -> int:
        return self.blocks.n

    @property
    def residual(self) -> np.ndarray:
        return self.solution.e

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self.blocks.residuals(self.solution.x)

    def widths_of(self, X: np.ndarray) -> np.ndarray:
        return self.base_root.norms(X)

    def norms_of(self, X: np.ndarray, metric: Metric) -> np.ndarray:
        return metric.root.norms(X)

    def kth(self, of: Values, *ranks: int) -> list[float]:
        X, v = self.blocks.sample
        sample = of(X, v - X @ self.solution.x)
        return kth_of_blocks(lambda: (of(*part) for part in self.parts()), sample, self.n, ranks)

    def ceilings(self, score: Scoring, rank: Rank, metric: Metric) -> list[tuple[Level, Level]]:
        def norms(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            return score.norms(self.norms_of(X, metric))

        k = int(rank.mass)
        (rise,), (level,) = self.kth(norms, k), self.kth(lambda X, r: score.values(r), k)
        highest = self.largest(lambda X, r: np.where(norms(X, r) <= rise, score.values(r), -np.inf))
        return [(highest if k <= self.n else math.inf, rise), (level, self.largest(norms))]
