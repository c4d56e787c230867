"""The fit that every bound starts from, and the metrics in which it is strongly convex.

A metric is a matrix H (the penalty's P, or P with the loss's curvature on a region around the fit)
together with what may move the fit before any new row does: the solver's stationarity residual.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from ..rank import Rank, Scoring, kth_of_blocks, kth_smallest
from ..solvers import BlockProblem, Problem, Solution, gram

Level = np.ndarray | float  # one per norm, or one for all
Values = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of rows (b, p) and residuals (b,)

_CHUNK = 16384  # rows per block
STEEPEST = 1e6  # curvature counted at most, where a loss has an infinite one
_FINEST, _FINER = 0.004, 8  # movement of a typical row in the finest region, and quarterings of it


@dataclass(frozen=True)
class BaseFit:
    """The fit from which every bound starts: T(0), or T(-pinned) for replace-one bounds.

    ``problem`` is in units of ``(y - centre) / scale``. ``pinned`` is the slope of a new row's loss at the
    response that it was fitted with, and its pull is then the tilt of ``problem``; 0 for the fit without
    it. ``metrics`` keeps those made for regions of a size. Rows come in `parts`: here all are one.
    """

    problem: Problem
    solution: Solution
    centre: float
    scale: float
    pinned: float = 0.0
    metrics: "dict[float | None, Metric]" = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def n(self) -> int:
        """Number of training rows."""
        return len(self.problem.v)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predictions at rows (m, p), in units of the response."""
        return self.centre + self.scale * (rows @ self.solution.x)

    def slope(self, r: ArrayLike, direction: int) -> np.ndarray:
        """Largest change of the tilt by a new row whose residual is between 0 and ``direction * r``."""
        low, high = self.problem.loss.subgradient(direction * np.asarray(r, dtype=float))
        return self._from_pinned(high if direction > 0 else -low, direction)

    def _from_pinned(self, slope: ArrayLike, direction: int) -> np.ndarray:
        """Largest distance of slopes between 0 and ``direction * slope`` from the pinned one."""
        slope = np.asarray(slope)
        return np.maximum(slope - direction * self.pinned, abs(self.pinned)) if self.pinned else slope

    def steepest(self, direction: int) -> float:
        """Largest change of the tilt on one side; ``inf`` where the loss is not Lipschitz there."""
        down, up = self.problem.loss.slopes
        return float(self._from_pinned(up if direction > 0 else down, direction))

    @cached_property
    def residual(self) -> np.ndarray:
        """Stationarity residual with slopes of the loss itself as multipliers (p,)."""
        problem = self.problem
        theta = self.solution.x
        u1 = np.where(theta != 0, problem.lasso * np.sign(theta), self.solution.l1_multipliers)
        return problem.stationarity(theta, problem.loss.derivative(self.solution.r), u1)

    def parts(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Rows (b, p) and their residuals (b,), part by part."""
        return [(self.problem.X, self.solution.r)]

    def widths_of(self, X: np.ndarray) -> np.ndarray:
        """The `widths` of a part (b,)."""
        return self.widths

    def norms_of(self, X: np.ndarray, metric: "Metric") -> np.ndarray:
        """The norms of a part (b,) in a metric."""
        return metric.rows

    def kth(self, of: Values, *ranks: int) -> list[float]:
        """Order statistics of values of all rows; ``inf`` for a rank above n."""
        values = of(self.problem.X, self.solution.r)
        return [float(kth_smallest(values, rank)) for rank in ranks]

    def largest(self, of: Values) -> float:
        """The largest of values of all rows."""
        return max(float(np.max(of(*part))) for part in self.parts())

    def metric(self, kappa: float | None) -> "Metric":
        """The `Metric` of a curvature region (``inf``: the whole line), or of the penalty alone (None)."""
        if kappa not in self.metrics:
            self.metrics[kappa] = self._made(kappa)
        return self.metrics[kappa]

    def _made(self, kappa: float | None) -> "Metric":
        loss, size = self.problem.loss, math.inf if kappa is None else kappa

        def least_curvature(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            d = np.inf if math.isinf(size) else size * self.widths_of(X)
            return loss.min_curvature(r - d, r + d)

        def stretched(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            widths = self.widths_of(X)
            with np.errstate(invalid="ignore"):  # both are infinite where nothing resists
                return np.divide(self.norms_of(X, made), widths, out=np.zeros(len(X)), where=widths > 0)

        flat = kappa is None or (math.isinf(kappa) and not loss.min_curvature(-np.inf, np.inf) > 0)
        root = inverse_root(self.problem.ridge) if flat else self._root(least_curvature)
        start = float(root.norms(self.residual[None])[0]) if np.any(self.residual) else 0.0
        if root.diagonal:  # without curvature: the duality-gap radius belongs to P
            start = self.solution.radius if loss.kind == "step" else min(start, self.solution.radius)
        inflation = 1.0 if kappa is None else root.inflation(self.base_root)
        made = Metric(root, size, root.norms(self.problem.X), 1.0, start, inflation)
        return made if math.isinf(size) else replace(made, stretch=self.largest(stretched))

    def _root(self, curvature: Values) -> "InverseRoot":
        """Inverse root of ``H = P + X' diag(curvature) X``; infinite norms where H is singular."""
        total = np.zeros((len(self.problem.ridge),) * 2)
        for X, r in self.parts():
            total += gram(X, np.minimum(curvature(X, r), STEEPEST))
        return inverse_root(np.diag(self.problem.ridge) + total if total.any() else self.problem.ridge)

    @cached_property
    def base_root(self) -> "InverseRoot":
        """Inverse root of the base Hessian."""
        return self._root(lambda X, r: self.problem.loss.curvature(r))

    @cached_property
    def finest_region(self) -> float:
        """Size of the smallest curvature region worth having, a power of 2: a typical row moves little in
        it, and its norms are those at the fit but for 1 %."""
        middle = (self.n + 1) // 2, self.n // 2 + 1
        typical = float(np.mean(self.kth(lambda X, r: self.widths_of(X), *middle)))
        if not 0 < typical < math.inf:
            return 1.0
        kappa = 2.0 ** round(math.log2(_FINEST / typical))
        for _ in range(_FINER):
            if self.metric(kappa).stretch <= 1.01:
                break
            kappa /= 4.0
        return kappa

    def held(self, moved: np.ndarray, off: np.ndarray, pull: float, row: np.ndarray) -> np.ndarray | None:
        """Bounds on the moves of the rows (n,), in the smallest curvature region that surely holds the fit
        of a changed problem; None if there is none. Their residuals move by ``moved`` (n,) besides, ``off``
        (n,) bounds the changes of their slopes at the fit, and ``pull`` the tilt along ``row`` (p,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max(np.where(self.widths > 0, moved / self.widths, 0.0)))
        kappa = max(2.0 * needed, self.finest_region)
        for _ in range(4 if 0 < kappa < math.inf else 0):
            metric = self.metric(2.0 ** math.ceil(math.log2(kappa)))
            with np.errstate(invalid="ignore"):  # a region without curvature bounds nothing
                move = metric.start + float(off @ metric.rows)
            if pull:
                move += pull * float(metric.root.norms(row[None])[0])
            if not math.isfinite(move):
                return None
            error = metric.rows * move
            if np.all(moved + error < metric.kappa * self.widths + (self.widths == 0)):
                return error
            kappa *= 4.0
        return None

    def ceilings(self, score: Scoring, rank: Rank, metric: "Metric") -> list[tuple[Level, Level]]:
        """Lines ``height + rise * move`` above the order statistic of upper bounds on the scores: any rows
        that have the mass bound it, those with the smallest norms by the line that rises least."""
        values = score.values(self.solution.r)
        norms = score.norms(metric.rows)
        flat, last = rank.first(norms)
        highest = np.append(np.maximum.accumulate(values[flat]), np.inf)
        return [
            (highest[last], np.append(norms[flat], 0.0)[last]),
            (rank.kth(values), float(np.max(norms))),
        ]

    @cached_property
    def widths(self) -> np.ndarray:
        """Shape of the curvature regions: row norms in the base Hessian's inverse norm (n,)."""
        return self.base_root.norms(self.problem.X)


@dataclass(frozen=True)
class BlockFit(BaseFit):
    """A `BaseFit` whose rows come in blocks, with a pass for each sum, largest value or order statistic.

    ``problem`` and ``solution`` have no rows, and metrics have no norms.
    """

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

    def norms_of(self, X: np.ndarray, metric: "Metric") -> np.ndarray:
        return metric.root.norms(X)

    def kth(self, of: Values, *ranks: int) -> list[float]:
        X, v = self.blocks.sample
        sample = of(X, v - X @ self.solution.x)
        return kth_of_blocks(lambda: (of(*part) for part in self.parts()), sample, self.n, ranks)

    def ceilings(self, score: Scoring, rank: Rank, metric: "Metric") -> list[tuple[Level, Level]]:
        def norms(X: np.ndarray, r: np.ndarray) -> np.ndarray:
            return score.norms(self.norms_of(X, metric))

        k = int(rank.mass)
        (rise,), (level,) = self.kth(norms, k), self.kth(lambda X, r: score.values(r), k)
        highest = self.largest(lambda X, r: np.where(norms(X, r) <= rise, score.values(r), -np.inf))
        return [(highest if k <= self.n else math.inf, rise), (level, self.largest(norms))]


@dataclass(frozen=True)
class InverseRoot:
    """A matrix W (p, p) with ``|x|_{H^-1} = |W x|``; ``diagonal`` spares the product with it."""

    W: np.ndarray
    diagonal: bool = False

    def norms(self, rows: np.ndarray) -> np.ndarray:
        """Norms of rows (m, p), ``inf`` where the metric says nothing about one."""
        out = np.empty(len(rows))
        with np.errstate(invalid="ignore"):
            for first in range(0, len(rows), _CHUNK):
                block = slice(first, first + _CHUNK)
                if self.diagonal:
                    out[block] = np.sqrt(np.square(rows[block]) @ np.square(np.diag(self.W)))
                else:
                    moved = rows[block] @ self.W.T
                    out[block] = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        return np.where(np.isnan(out), np.inf, out)

    def inflation(self, other: "InverseRoot") -> float:
        """Largest ratio of a norm here to the same vector's norm in ``other``."""
        if not (np.all(np.isfinite(self.W)) and np.all(np.isfinite(other.W))):
            return math.inf
        ratio = linalg.solve_triangular(other.W, self.W.T, trans="T", lower=True, check_finite=False)
        return math.sqrt(np.linalg.eigvalsh(ratio @ ratio.T)[-1])


def inverse_root(hessian: np.ndarray) -> InverseRoot:
    """Inverse root of a matrix (p, p), or of a diagonal one (p,)."""
    p = len(hessian)
    if hessian.ndim == 1:
        with np.errstate(divide="ignore"):
            return InverseRoot(np.diag(1.0 / np.sqrt(hessian)), diagonal=True)
    nothing = InverseRoot(np.full((p, p), np.inf))
    scale = np.sqrt(np.diag(hessian))
    if not np.all(scale > 0):
        return nothing
    try:
        root = np.linalg.cholesky(hessian / scale[:, None] / scale)
    except np.linalg.LinAlgError:
        return nothing
    if np.min(np.diag(root)) < 1e-7:  # numerically singular: its inverse certifies nothing
        return nothing
    return InverseRoot(linalg.solve_triangular(root, np.diag(1.0 / scale), lower=True, check_finite=False))


@dataclass(frozen=True)
class Metric:
    """A matrix H with which the objective is strongly convex near the base fit."""

    root: InverseRoot
    kappa: float  # valid while each row's prediction moves by less than this times its width
    rows: np.ndarray  # (n,): |x_i| in the inverse H norm
    stretch: float  # largest ratio of ``rows`` to the widths: a move M stays inside if M * stretch < kappa
    start: float  # norm of what may move the fit before any new row does: the solver's residual
    inflation: float = 1.0  # any norm is at most this many times the norm in the base Hessian
    holds: float = math.inf  # order statistics are known for moves up to this

    @property
    def worn(self) -> float:
        """How many times those at the fit its norms are."""
        return self.stretch * self.inflation

    @property
    def limit(self) -> float:
        """The region holds tilts whose size times the base norm of the new row is below this."""
        if not (np.isfinite(self.start) and np.isfinite(self.inflation)):
            return -math.inf
        room = self.kappa / self.stretch if self.stretch > 0 else math.inf  # no row moves at all
        return (room - self.start) / self.inflation
