"""A base fit whose rows come in blocks (theory, section 4).

As `BaseFit`, with a pass over the rows for each sum, largest value or order statistic of
something that has one entry per row.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from ..rank import Rank, Scoring, kth_of_blocks
from ..solvers import BlockProblem
from .base_fit import (
    STEEPEST,
    BaseFit,
    InverseRoot,
    Level,
    Metric,
    Norms,
    Values,
    inverse_root,
    made_metric,
)


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

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows (b, p) and residuals (b,)."""
        return self.blocks.residuals(self.solution.x)

    def parts(self) -> Iterator[tuple[np.ndarray, Norms]]:
        for X, r in self._blocks():
            yield r, partial(_norms, X)

    def kth(self, of: Values, *ranks: int) -> list[float]:
        X, v = self.blocks.sample
        sample = of(X, v - X @ self.solution.x)
        return kth_of_blocks(lambda: (of(*part) for part in self._blocks()), sample, self.n, ranks)

    def largest(self, of: Values) -> float:
        """The largest of values of all rows."""
        return max(float(np.max(of(*part))) for part in self._blocks())

    def _root(self, curvature: Values) -> InverseRoot:
        hessian = np.diag(self.problem.ridge)
        for X, r in self._blocks():
            part = X * np.sqrt(np.minimum(curvature(X, r), STEEPEST))[:, None]
            hessian = hessian + part.T @ part
        return inverse_root(hessian)

    @cached_property
    def base_root(self) -> InverseRoot:
        return self._root(lambda X, r: self.problem.loss.curvature(r))

    @cached_property
    def typical_width(self) -> float:
        middle = (self.n + 1) // 2, self.n // 2 + 1
        return float(np.mean(self.kth(lambda X, r: self.base_root.norms(X), *middle)))

    @cached_property
    def largest_width(self) -> float:
        return self.largest(lambda X, r: self.base_root.norms(X))

    def metric(self, kappa: float | None) -> Metric:
        if kappa not in self.metrics:
            self.metrics[kappa] = self._made(kappa)
        return self.metrics[kappa]

    def _made(self, kappa: float | None) -> Metric:
        loss = self.problem.loss
        if kappa is None or (math.isinf(kappa) and not loss.min_curvature(-np.inf, np.inf) > 0):
            return made_metric(self, kappa, inverse_root(self.problem.ridge), np.empty(0), 1.0, False)

        def least_curvature(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            d = np.inf if math.isinf(kappa) else kappa * self.base_root.norms(X)
            return loss.min_curvature(r - d, r + d)

        root = self._root(least_curvature)
        if math.isinf(kappa):
            return made_metric(self, kappa, root, np.empty(0), 1.0, True)

        def ratio(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            widths = self.base_root.norms(X)
            return np.divide(root.norms(X), widths, out=np.zeros(len(X)), where=widths > 0)

        return made_metric(self, kappa, root, np.empty(0), self.largest(ratio), True)

    def ceilings(self, score: Scoring, rank: Rank, metric: Metric) -> list[tuple[Level, Level]]:
        def norms(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            return score.norms(metric.root.norms(X))

        k = int(rank.mass)
        (rise,), (level,) = self.kth(norms, k), self.kth(lambda X, r: score.values(r), k)
        highest = self.largest(lambda X, r: np.where(norms(X, r) <= rise, score.values(r), -np.inf))
        return [(highest if k <= self.n else math.inf, rise), (level, self.largest(norms))]


def _norms(X: np.ndarray, metric: Metric, which: np.ndarray) -> np.ndarray:
    return metric.root.norms(X[which])
