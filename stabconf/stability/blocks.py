"""A base fit whose rows come in blocks, and its tables for stable intervals (theory, section 4).

As `BaseFit` and `frozen_fit`, with a pass over the rows for each sum, largest value or order statistic of
something that has one entry per row.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..rank import Rank, Scoring, kth_of_blocks
from ..solvers import BlockProblem
from .base_fit import STEEPEST, BaseFit, InverseRoot, Level, Metric, inverse_root, made_metric
from .frozen import FrozenFit, Nearest, assembled, kept_count, least_move, metrics_for

Values = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of rows (b, p) and residuals (b,)


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
        """Rows (b, p) and residuals (b,)."""
        return self.blocks.residuals(self.solution.x)

    def kth(self, of: Values, *ranks: int) -> list[float]:
        """Order statistics of values of all rows."""
        X, v = self.blocks.sample
        sample = of(X, v - X @ self.solution.x)
        return kth_of_blocks(lambda: (of(*part) for part in self.parts()), sample, self.n, ranks)

    def largest(self, of: Values) -> float:
        """The largest of values of all rows."""
        return max(float(np.max(of(*part))) for part in self.parts())

    def _root(self, curvature: Values) -> InverseRoot:
        hessian = np.diag(self.problem.ridge)
        for X, r in self.parts():
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


def frozen_from_blocks(
    base: BlockFit, bound: str, score: Scoring, rank: Rank, entries: int
) -> tuple[FrozenFit, int]:
    """As `frozen_fit`."""
    metrics = metrics_for(base, bound)
    count = min(kept_count(metrics, entries), base.n)
    (level,) = base.kth(lambda X, r: score.values(r), int(rank.mass))
    (cut,) = base.kth(lambda X, r: np.abs(score.values(r) - level), count)
    X_near, r_near = [], []
    below, above, left = 0, math.inf, count
    stay: dict[float | None, float] = dict.fromkeys(metrics, math.inf)
    for X, r in base.parts():
        values = score.values(r)
        kept = np.flatnonzero(np.abs(values - level) <= cut)[:left]
        left -= len(kept)
        X_near.append(X[kept])
        r_near.append(r[kept])
        lower = values < level
        lower[kept] = False
        upper = values >= level
        upper[kept] = False
        below += int(lower.sum())
        above = min(above, float(np.min(values[upper], initial=math.inf)))
        for kappa, metric in metrics.items():
            rates = score.norms(metric.root.norms(X[lower]))
            stay[kappa] = min(stay[kappa], least_move(level - values[lower], rates))
    X = np.vstack(X_near)
    slim = {kappa: replace(metric, rows=metric.root.norms(X)) for kappa, metric in metrics.items()}
    near = Nearest(np.concatenate(r_near), below, above, stay)
    return assembled(base, bound, slim, score, rank, near), below
