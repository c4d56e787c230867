"""Stability bounds: how far a tilt moves every training score and the new prediction (theory, section 4).

`reach` makes one of these classes by its name, for new rows around a base fit. The enclosures of sets, and
fixed points of exact ones, ask for order statistics of bounds on the training scores.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from ..losses import Loss
from ..rank import Rank, Scoring, kth_of_lines, window_lines
from .base_fit import BaseFit, Level, Metric
from .row_norms import NewRows

__all__ = ["WORN", "BallReach", "Ceilings", "CurvatureReach", "Group", "NormReach", "region_growth"]

Group = tuple[slice | np.ndarray, Metric, np.ndarray, np.ndarray]  # which, metric, norms, move
_Window = tuple[Scoring, float, float, tuple[np.ndarray, np.ndarray, Rank]]  # low and high move, lines
Ceilings = tuple[list[tuple[Level, Level]], Callable[[np.ndarray], np.ndarray]]

_FINE, _COARSE, _FEW = 1.5, 4.0, 5000  # growth of curvature regions up to so many rows, and above
WORN = 64.0  # curvature regions grow until norms are this many times those at the fit
_BALL_ENTRIES = 2_000_000


class NormReach:
    """Moves of size ``t |x_N| + start`` in one metric, the penalty's: tau_i = tbar a_i a_N.

    A move is the same kind of number for every row: a training row's score can change by ``move`` times
    its norm, the new row's prediction by ``move`` times its own. Rows that share a metric are treated
    together, as a group ``(which, metric, norms, move)``. Arrays have one entry per norm of `NewRows`.
    """

    widest: float | None = None  # the region whose metric is valid for every move

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        """tau_i in the symbols of the theory, for a loss and with or without a ridge penalty."""
        return f"{_steepest(loss)} a_i a_N"

    def __init__(self, base: BaseFit, new: NewRows) -> None:
        self.base = base
        self.new = new
        self.count = len(new.grid)
        self._groups_at: tuple[np.ndarray, list[Group]] | None = None
        self._windows: dict[float, _Window] = {}

    @property
    def residuals(self) -> np.ndarray:
        """Training residuals of the base fit (n,)."""
        return self.base.solution.r

    @property
    def _widest_norms(self) -> np.ndarray:
        return self.new.grid

    def groups(self, t: np.ndarray) -> list[Group]:
        """The groups at tilts ``t`` (g,); the last answer is kept, for it is asked for repeatedly."""
        if self._groups_at is None or not np.array_equal(self._groups_at[0], t):
            self._groups_at = (t, list(self._make_groups(t)))
        return self._groups_at[1]

    def _make_groups(self, t: np.ndarray) -> Iterator[Group]:
        metric = self.base.metric(self.widest)
        yield slice(None), metric, self._widest_norms, _move(t, self._widest_norms, metric.start)

    def shift(self, t: np.ndarray) -> np.ndarray:
        """Bound on the movement of each new row's own prediction (g,)."""
        out = np.empty(self.count)
        for which, _, norms, move in self.groups(t):
            out[which] = move * norms
        return out

    def before(self, t: np.ndarray) -> np.ndarray:
        """The part of `shift` that is there whatever the new response is (g,)."""
        out = np.empty(self.count)
        for which, metric, norms, _ in self.groups(t):
            out[which] = metric.start * norms
        return out

    def quantile(
        self, score: Scoring, rank: Rank, t: np.ndarray, direction: int, inner: bool = False
    ) -> np.ndarray:
        """The order statistic of upper (``inner``: lower) bounds on the training scores (g,).

        A rank that is not shared has one mass per new row, so norms must not be rounded.
        """
        out = np.empty(self.count)
        for which, metric, _, move in self.groups(t):
            move = np.where(move > metric.holds, np.inf, move)
            move = -move if inner else move
            values, rates, near = self._lines(score, rank, metric, move)
            out[which] = kth_of_lines(values, rates, near.take(which), move)
        return np.maximum(out, 0.0) if not score.sign else out

    def _lines(
        self, score: Scoring, rank: Rank, metric: Metric, move: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Rank]:
        """Lines of the training scores that matter for these moves, remembered for smaller ones.

        The tilt is followed down, so later moves in a metric lie between its start and the first ones.
        """
        low = float(np.min(move, initial=metric.start))
        high = float(np.max(move, initial=metric.start))
        values = score.values(self.residuals)
        norms = score.norms(metric.rows)
        if not (np.isfinite(low) and np.isfinite(high)):
            return values, norms, rank
        known = self._windows.get(metric.kappa)
        if known is None or known[0] is not score or low < known[1] or high > known[2]:
            known = (score, low, high, window_lines(values, norms, rank, low, high))
            self._windows[metric.kappa] = known
        return known[3]

    def tau(self, t: np.ndarray) -> np.ndarray:
        """Bounds on the movement of every training row's prediction (g, n)."""
        out = np.empty((self.count, len(self.base.problem.v)))
        for which, metric, _, move in self.groups(t):
            out[which] = move[:, None] * metric.rows
        return out

    def ceilings(self, score: Scoring, rank: Rank) -> Ceilings:
        """Lines above the order statistic of upper bounds, and a function from t to their moves."""
        metric = self._metric
        return self.base.ceilings(score, rank, metric), lambda t: _move(t, self._widest_norms, metric.start)

    @property
    def _metric(self) -> Metric:
        """The metric that is valid for every move."""
        return self.base.metric(self.widest)


class CurvatureReach(NormReach):
    """As `NormReach`, with the loss's own curvature on the smallest region that holds the move.

    The norms of new rows are those of a reference Hessian; a metric's `inflation` and that of the
    reference turn them into upper bounds on its own.
    """

    widest = math.inf

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        return f"{_steepest(loss)} |x_i| |x_N| in the norm of (P + sum_j m_j x_j x_j')^-1"

    @cached_property
    def _norms(self) -> np.ndarray:
        return _move(self.base.base_root.inflation(self.new.root), self.new.grid)

    @cached_property
    def _widest_norms(self) -> np.ndarray:
        return _move(self.base.metric(self.widest).inflation, self._norms)

    def _make_groups(self, t: np.ndarray) -> Iterator[Group]:
        if self.base.problem.loss.min_curvature(-np.inf, np.inf) > 0:  # the same everywhere
            yield from super()._make_groups(t)
            return
        regions, level = self._regions(_move(t, self._norms))
        for j, metric in enumerate([*regions, self.base.metric(self.widest)]):
            which = np.flatnonzero(level == j)
            if len(which):
                norms = _move(metric.inflation, self._norms[which])
                yield which, metric, norms, _move(t[which], norms, metric.start)

    def _regions(self, pull: np.ndarray) -> tuple[list[Metric], np.ndarray]:
        """Metrics of growing regions, and the index of the first that holds each pull ``t |x_N|``.

        A region below the pull cannot hold it, and one that has lost most of its curvature is the last:
        the answer for a row does not depend on the other rows. The index is the number of metrics where
        none holds it.
        """
        known = pull[np.isfinite(pull)]
        regions: list[Metric] = []
        limits: list[float] = []
        if not (len(known) and 0 < self.base.finest_region < math.inf):
            return regions, np.zeros(len(pull), dtype=int)
        kappa = self.base.finest_region
        worn = 1.0
        growth = region_growth(self.base.n)
        while len(known) and worn < WORN and kappa < math.inf:
            # No region below ``worn`` times a pull can hold it: norms only grow with the region.
            least = float(np.min(known)) * worn
            kappa *= growth ** math.ceil(math.log(max(least, kappa) / kappa, growth))
            regions.append(self.base.metric(kappa))
            limits.append(regions[-1].limit)
            worn = regions[-1].worn
            known = known[known >= limits[-1]]
            kappa *= growth
        return regions, np.searchsorted(np.maximum.accumulate(limits), pull, side="right")


class BallReach(NormReach):
    """The ball form with the penalty's metric: it knows on which side each row moves.

    A tilt of size t towards ``direction`` moves row i by ``direction * t * (g_i +- a_i a_N) / 2``. Cost
    grows with n times m, memory does not.
    """

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        return f"{_steepest(loss)} (|x_i' P^-1 x_N| + a_i a_N) / 2"

    def _span(self, which: np.ndarray, t: np.ndarray, direction: int) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest movement of every training row, for the new rows ``which``."""
        metric = self.base.metric(None)
        towards = (self.new.rows[which] @ metric.root.W.T) @ (self.base.problem.X @ metric.root.W.T).T
        size = np.outer(self._widest_norms[which], metric.rows)
        t = t[which, None]
        far = t * (towards + size) / 2.0
        near = t * np.minimum(towards - size, 0.0) / 2.0
        start = metric.start * metric.rows
        return (near - start, far + start) if direction > 0 else (-far - start, -near + start)

    def quantile(
        self, score: Scoring, rank: Rank, t: np.ndarray, direction: int, inner: bool = False
    ) -> np.ndarray:
        out = np.empty(self.count)
        for which in self._blocks():
            low, high = self._span(which, np.where(np.isfinite(t), t, 0.0), direction)
            ends = self.residuals - high, self.residuals - low
            bound = score.range(*ends)[0 if inner else 1]
            out[which] = rank.take(which).kth(bound)
        unknown = -np.inf if score.sign else 0.0
        return np.where(np.isfinite(t), out, unknown if inner else np.inf)

    def tau(self, t: np.ndarray) -> np.ndarray:
        spans = [self._span(np.arange(self.count), t, direction) for direction in (-1, 1)]
        return np.maximum.reduce([np.abs(end) for span in spans for end in span])

    def _blocks(self) -> Iterator[np.ndarray]:
        size = max(1, _BALL_ENTRIES // max(1, len(self.base.problem.v)))
        for first in range(0, self.count, size):
            yield np.arange(first, min(first + size, self.count))


def region_growth(n: int) -> float:
    """Ratio of the sizes of one curvature region and the next."""
    return _FINE if n <= _FEW else _COARSE


def _steepest(loss: Loss) -> str:
    """The largest tilt: rho, or where the loss has none the slope at the distance of the response."""
    return "rho" if math.isfinite(loss.lipschitz) else "|l'(z - mu_0(x_N))|"


def _move(t: np.ndarray | float, norms: np.ndarray, start: float = 0.0) -> np.ndarray:
    """Size of a move: tilt times the new row's norm, plus what is there before."""
    with np.errstate(invalid="ignore"):
        move = t * norms + start
    return np.where(np.isnan(move), np.where(norms == 0, start, np.inf), move)
