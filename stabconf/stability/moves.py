"""Stability bounds: how far a tilt moves every training score and the new prediction (theory, section 4).

`reach` makes one of these classes by its name, for new rows around a base fit. They differ in the metric
(the penalty alone, or with the loss's curvature where the fit provably stays) and in using norm or ball.
What depends on a new row through its norm alone is computed once per entry of ``grid``, and rows look it up
by ``place``. Norms of many rows are rounded up by at most 0.4 % to an absolute grid, so that a million rows
have some thousand entries; otherwise every row is its own entry.
"""

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ..errors import AssumptionError, InputError
from ..losses import Loss
from ..rank import Rank, Scoring, kth_of_lines
from .base_fit import BaseFit, Metric

Group = tuple[slice | np.ndarray, Metric, np.ndarray, np.ndarray]  # which, metric, norms, move

_FINE, _COARSE, _FEW = 1.5, 4.0, 5000  # growth of curvature regions up to so many rows, and above
WORN = 64.0  # curvature regions grow until norms are this many times those at the fit
_BALL_ENTRIES = 2_000_000
_MANY = 10_000  # rows from which on norms are rounded up
_GRID = 250  # grid points per factor e


class Reach:
    """Moves of size ``t |x_N| + start`` in one metric, the penalty's: tau_i = tbar a_i a_N.

    A move is the same kind of number for every row: a training row's score can change by ``move`` times
    its norm, the new row's prediction by ``move`` times its own. Rows that share a metric are treated
    together, as a group ``(which, metric, norms, move)``. Arrays have one entry per norm of ``grid`` (g,),
    ``inf`` where the metric says nothing about a row; ``place`` (m,) has each row's position there.
    """

    name = "norm"
    widest: float | None = None  # the region whose metric is valid for every move
    by_norm = True  # whether rows are no more than their norms

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        """tau_i in the symbols of the theory, for a loss and with or without a ridge penalty."""
        return f"{_steepest(loss)} a_i a_N"

    def __init__(self, base: BaseFit, rows: np.ndarray, shared: bool) -> None:
        self.base = base
        self.rows = rows
        self.grid = self._norms(rows)
        self.place = np.arange(len(rows))
        if shared and self.by_norm and len(rows) > _MANY:
            points = np.ceil(_GRID * np.log(np.maximum(self.grid, 1e-300)))
            points, self.place = np.unique(points, return_inverse=True)
            self.grid = np.exp(points / _GRID)
        self.count = len(self.grid)
        self._groups_at: tuple[np.ndarray, list[Group]] | None = None

    def _norms(self, rows: np.ndarray) -> np.ndarray:
        """Norms of new rows (m,) in the metric of the base fit; refuses where assumptions fail."""
        problem = self.base.problem
        if not np.all(problem.ridge > 0):
            raise AssumptionError(
                f"the stable method with bound={self.name!r} and loss {problem.loss.describe()} gets its "
                "strong convexity from the ridge part of the penalty, which is 0 here: use penalty > 0 "
                "with l1_ratio < 1, or a loss with curvature such as 'huber' and bound='curvature'"
            )
        return self.base.metric(None).root.norms(rows)

    @property
    def residuals(self) -> np.ndarray:
        """Training residuals of the base fit (n,)."""
        return self.base.solution.r

    @property
    def _widest_norms(self) -> np.ndarray:
        return self.grid

    def groups(self, t: np.ndarray) -> list[Group]:
        """The groups at tilts ``t`` (g,); the last answer is kept, for it is asked for repeatedly."""
        if self._groups_at is None or not np.array_equal(self._groups_at[0], t):
            self._groups_at = (t, list(self._make_groups(t)))
        return self._groups_at[1]

    def _make_groups(self, t: np.ndarray) -> Iterator[Group]:
        yield slice(None), self.metric, self._widest_norms, self.moves_at(t)

    def moves_at(self, t: np.ndarray) -> np.ndarray:
        """Moves at tilts ``t`` (g,) in the metric that is valid for every move."""
        return _move(t, self._widest_norms, self.metric.start)

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
            with np.errstate(invalid="ignore"):
                out[which] = metric.start * norms
        return out

    def quantile(
        self, score: Scoring, rank: Rank, t: np.ndarray, direction: int, inner: bool = False
    ) -> np.ndarray:
        """The order statistic of upper (``inner``: lower) bounds on the training scores (g,); with a rank
        that is not shared norms must not be rounded."""
        out = np.empty(self.count)
        for which, metric, _, move in self.groups(t):
            move = np.where(move > metric.holds, np.inf, move)
            move = -move if inner else move
            norms = score.norms(metric.rows)
            out[which] = kth_of_lines(score.values(self.residuals), norms, rank.take(which), move)
        return np.maximum(out, 0.0) if not score.sign else out

    def tau(self, t: np.ndarray) -> np.ndarray:
        """Bounds on the movement of every training row's prediction (g, n)."""
        out = np.empty((self.count, len(self.base.problem.v)))
        for which, metric, _, move in self.groups(t):
            out[which] = move[:, None] * metric.rows
        return out

    @property
    def metric(self) -> Metric:
        """The metric that is valid for every move."""
        return self.base.metric(self.widest)


class CurvatureReach(Reach):
    """As `Reach`, with the loss's own curvature on the smallest region that holds the move; norms are those
    of the base Hessian, which a metric's `inflation` turns into upper bounds on its own."""

    name = "curvature"
    widest = math.inf

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        return f"{_steepest(loss)} |x_i| |x_N| in the norm of (P + sum_j m_j x_j x_j')^-1"

    def _norms(self, rows: np.ndarray) -> np.ndarray:
        loss = self.base.problem.loss
        if loss.kind == "step":
            raise AssumptionError(
                f"bound='curvature' needs a loss with curvature; {loss.describe()} has none: use "
                "bound='norm' or 'ball'"
            )
        return self.base.base_root.norms(rows)

    @cached_property
    def _widest_norms(self) -> np.ndarray:
        return _move(self.metric.inflation, self.grid)

    def _make_groups(self, t: np.ndarray) -> Iterator[Group]:
        if self.base.problem.loss.min_curvature(-np.inf, np.inf) > 0:  # the same everywhere
            yield from super()._make_groups(t)
            return
        regions, level = self._regions(_move(t, self.grid))
        for j, metric in enumerate([*regions, self.metric]):
            which = np.flatnonzero(level == j)
            if len(which):
                norms = _move(metric.inflation, self.grid[which])
                yield which, metric, norms, _move(t[which], norms, metric.start)

    def _regions(self, pull: np.ndarray) -> tuple[list[Metric], np.ndarray]:
        """Metrics of growing regions, and the index of the first that holds each pull ``t |x_N|``, or their
        number. A region below the pull cannot hold it, and one that has lost most of its curvature is the
        last: the answer for a row does not depend on the other rows."""
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


class BallReach(Reach):
    """The ball form with the penalty's metric, which knows on which side each row moves: a tilt of size t
    towards ``direction`` moves row i by ``direction * t * (g_i +- a_i a_N) / 2``."""

    name = "ball"
    by_norm = False

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        return f"{_steepest(loss)} (|x_i' P^-1 x_N| + a_i a_N) / 2"

    def _span(self, which: np.ndarray, t: np.ndarray, direction: int) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest movement of every training row, for the new rows ``which``."""
        metric = self.base.metric(None)
        towards = (self.rows[which] @ metric.root.W.T) @ (self.base.problem.X @ metric.root.W.T).T
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
        size = max(1, _BALL_ENTRIES // self.base.n)
        for first in range(0, self.count, size):
            which = np.arange(first, min(first + size, self.count))
            low, high = self._span(which, np.where(np.isfinite(t), t, 0.0), direction)
            ends = self.residuals - high, self.residuals - low
            bound = score.range(*ends)[0 if inner else 1]
            out[which] = rank.take(which).kth(bound)
        unknown = -np.inf if score.sign else 0.0
        return np.where(np.isfinite(t), out, unknown if inner else np.inf)

    def tau(self, t: np.ndarray) -> np.ndarray:
        spans = [self._span(np.arange(self.count), t, direction) for direction in (-1, 1)]
        return np.maximum.reduce([np.abs(end) for span in spans for end in span])


class PaperReach(Reach):
    """The paper's own constants, with their assumptions; they bound the move between the fits at any two
    responses, so they do not depend on the tilt.

    A ridge penalty takes a Lipschitz loss, or a nu-smooth one with nu a_N^2 < 1 ("nu < lambda") and losses
    of at most C, that of the range of the training responses: slopes are then at most sqrt(2 nu C). Without
    penalty a strongly convex loss is bounded in prediction space, all rows alike. `formula` has each tau_i.
    """

    name = "paper"

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        slope = "sqrt(2 nu C)" if needs_range(loss) else "rho"
        if not penalised:
            return f"2 {slope} / mu, mu the least curvature of the loss"
        return f"2 {slope} a_i a_N" + (" / (1 - nu a_N^2)" if needs_range(loss) else "")

    def __init__(self, base: BaseFit, rows: np.ndarray, shared: bool) -> None:
        super().__init__(base, rows, shared)
        loss = base.problem.loss
        if needs_range(loss) and self._penalised and np.any(loss.smoothness * self.grid**2 >= 1.0):
            raise AssumptionError(
                f"bound='paper' for the smooth loss {loss.describe()} assumes nu < lambda: nu times the "
                "squared norm of each new row must be below n times the penalty: raise penalty, or use "
                "bound='curvature'"
            )

    @property
    def _penalised(self) -> bool:
        return bool(np.all(self.base.problem.ridge > 0))

    def _norms(self, rows: np.ndarray) -> np.ndarray:
        problem = self.base.problem
        loss = problem.loss
        if self._penalised:
            if not needs_range(loss) or math.isfinite(loss.smoothness):
                return super()._norms(rows)
            raise AssumptionError(
                f"bound='paper' assumes a Lipschitz loss or a smooth one; {loss.describe()} is neither: "
                "use bound='curvature' or 'norm', or a loss such as 'huber'"
            )
        if problem.ridge.any() or problem.lasso.any() or not loss.min_curvature(-np.inf, np.inf) > 0:
            raise AssumptionError(
                "bound='paper' without the ridge part of the penalty assumes a strongly convex loss and no "
                f"penalty at all; loss {loss.describe()} with this penalty is not that: use penalty > 0 "
                "with l1_ratio < 1, or bound='curvature'"
            )
        return np.ones(len(rows))  # predictions themselves are what moves

    def moves_at(self, t: np.ndarray) -> np.ndarray:
        loss = self.base.problem.loss
        factor: np.ndarray | float = 2.0 * loss.lipschitz
        if needs_range(loss):
            worst = largest_loss(loss, float(np.ptp(self.base.problem.v)))
            factor = 2.0 * math.sqrt(2.0 * loss.smoothness * worst)
            if self._penalised:
                factor = factor / (1.0 - loss.smoothness * self.grid**2)
            else:
                factor = factor / float(loss.min_curvature(-np.inf, np.inf))
        return factor * self.grid + self.metric.start

    @property
    def metric(self) -> Metric:
        base = self.base
        if self._penalised:
            return base.metric(None)
        start = float(base.base_root.norms(base.residual[None])[0])
        return Metric(base.base_root, math.inf, np.ones(base.n), 1.0, start)


BOUNDS = {each.name: each for each in (CurvatureReach, Reach, BallReach, PaperReach)}


def default_bound(loss: Loss) -> str:
    """The bound used when none is named: "curvature" where the loss has any, else "norm"."""
    return "norm" if loss.kind == "step" else "curvature"


def reach(base: BaseFit, rows: np.ndarray, bound: str, shared: bool = True) -> Reach:
    """The stability bound by name for new rows (m, p) around a base fit; `AssumptionError` where it does
    not apply. ``shared`` is False where rows are more to the caller than their norms, which are then not
    rounded."""
    if bound not in BOUNDS:
        raise InputError(f"bound={bound!r} is unknown: give one of {', '.join(BOUNDS)}")
    return BOUNDS[bound](base, rows, shared)


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


def needs_range(loss: Loss) -> bool:
    """Whether the constants hold only for responses in the range of the training ones."""
    return math.isinf(loss.lipschitz)


def largest_loss(loss: Loss, spread: float) -> float:
    """C: the largest loss of a response in the range of the training ones, and of a prediction in it."""
    return float(np.max(loss.value(np.array([-spread, spread]))))


def named_constants(loss: Loss, ridge: np.ndarray, spread: float, n: int) -> dict[str, float]:
    """Constants of the mean loss over N = n + 1 rows plus ``lambda |b|^2``, by name.

    ``ridge`` (p,) are the weights of half the squared coefficients in the sum over rows, and ``spread`` is
    the range of the responses in units of the fit.

    Examples
    --------
    >>> from stabconf.losses import LAD
    >>> named_constants(LAD(), np.full(2, 3.0), 4.0, 14)
    {'rho': 1.0, 'nu': inf, 'gamma': 1.0, 'lambda': 0.1, 'L_Phi': 1.0, 'C': 4.0}
    """
    return {
        "rho": float(loss.lipschitz),
        "nu": float(loss.smoothness),
        "gamma": 1.0,
        "lambda": float(np.min(ridge)) / (2.0 * (n + 1)),
        "L_Phi": 1.0,
        "C": largest_loss(loss, spread),
    }
