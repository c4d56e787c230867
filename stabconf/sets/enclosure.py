"""The stable method: enclosures by bounds on how far a new response can move a fit (theory, section 4).

`enclose` is the closed form, where one bound tau holds for every response (section 6; the paper's Algorithm
2). `Enclosure` follows the tilt: on one side of the fit the new residual r fixes it, |t| = |l'(r)|. So r
can be in the set only if r <= G(r), the k-th smallest upper bound at that tilt; G never decreases, and
iterating it from above ends at (and never passes) the largest such r. The inner set swaps the bounds.
"""

from typing import Any

import numpy as np

from ..rank import Rank
from ..stability import BaseFit, default_bound, needs_range, reach
from .intervals import Intervals, nonempty, ranked_intervals
from .parallel import parts_of
from .request import Request
from .score import DIRECTIONS, Ends, Floats, Score

_ROUNDS = 2
_ROUNDS_FROM_AFAR = 60
_DOUBLINGS = 60
_HALVINGS = 24


def enclose(
    score: Score,
    rank: Rank,
    prediction: np.ndarray,
    r: np.ndarray,
    tau: np.ndarray,
    own_tau: np.ndarray,
    own: np.ndarray,
) -> tuple[Ends, Ends, np.ndarray]:
    """Ends of the outer and of the inner interval (NaN for none) of new rows, from one bound for all
    responses, and what of the outer one's width is due to it. ``r`` (n,) are training residuals, ``tau``
    (m, n) bounds on their moves; ``own_tau`` and ``own`` (m,) the new rows' own bounds, and scales."""
    least, most = score.range(r - tau, r + tau)
    now = np.broadcast_to(score.values(r), tau.shape)
    with np.errstate(invalid="ignore"):  # both may be infinite
        ways = (now, np.zeros(len(tau))), (most, own_tau), (least, -own_tau)
        plain, outer, inner = (score.own_ends(rank.kth(each), own, prediction, off) for each, off in ways)
        grown = np.array([plain[0] - outer[0], outer[1] - plain[1]])
    return outer, nonempty(*inner), np.sum(np.where(np.isnan(grown), 0.0, grown), axis=0)


def steepest_moves(base: BaseFit, rows: np.ndarray, bound: str) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the moves of training rows (m, n) and of new rows themselves (m,), for every response."""
    moves = reach(base, rows, bound, shared=False)
    slope = np.full(moves.count, max(base.steepest(-1), base.steepest(1)))
    return moves.tau(slope), moves.shift(slope)


class Enclosure:
    """New rows (m, p), how they are ranked and scored, and how far they can move the base fit.

    ``own`` are scales of the new rows, (m,) or one for all. Arrays have one entry per norm of `Reach` (g,).
    """

    def __init__(
        self, base: BaseFit, rows: np.ndarray, bound: str, rank: Rank, score: Score, own: Floats
    ) -> None:
        self.base, self.rank, self.score, self.own = base, rank, score, own
        self.moves = reach(base, rows, bound, rank.shared and not np.ndim(own))
        self.prediction = base.predict(rows)

    def quantile(self, t: np.ndarray, direction: int, inner: bool = False) -> np.ndarray:
        """The order statistic of upper (``inner``: lower) bounds on the scores, in new rows' units (g,)."""
        return self.own * self.moves.quantile(self.score, self.rank, t, direction, inner)

    @property
    def plain(self) -> np.ndarray:
        """The order statistic of the base fit itself."""
        return self.own * self.rank.kth(self.score.values(self.base.solution.r))

    def outer(self, direction: int) -> list[np.ndarray]:
        """Distances (m,) of the outer ends on one side from the predictions, what of them is due to
        stability, and the predictions' own moves in it, in units of the response."""
        r, shift = self.largest_residual(direction)
        distance = r + np.where(np.isinf(r), 0.0, shift)
        each = distance, distance - self.plain, shift
        return [(self.base.scale * one)[self.moves.place] for one in each]

    def inner(self, direction: int) -> np.ndarray:
        """Distances (m,) up to which all is certainly in the set, likewise; NaN where nothing is."""
        return self.base.scale * self._inner_distance(direction)[self.moves.place]

    def largest_residual(self, direction: int) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds on the new residuals r that pass ``r <= G(r)``, and on the shift that goes along.
        The tilt is followed down from the steepest a fixed number of times: a row's answer does not depend
        on the others', and every stage is valid."""
        base, moves = self.base, self.moves
        slope = self._steepest(direction)
        if np.isfinite(base.steepest(direction)):
            r, rounds = self.quantile(slope, direction), _ROUNDS
        else:
            r, rounds = self._ceiling(direction), _ROUNDS_FROM_AFAR
        for _ in range(0 if base.problem.loss.kind == "step" else rounds):
            lower = np.minimum(slope, base.slope(np.maximum(r, 0.0), direction))
            if np.array_equal(lower, slope):
                break
            slope = lower
            r = np.minimum(r, self.quantile(slope, direction))
        shift = moves.shift(slope)
        if np.any(r < 0):
            behind = self._behind(direction)
            slope = base.slope(np.maximum(-behind, 0.0), -direction)
            # From T(0) the fit only moves towards the response, from a pinned one it may move either way.
            stays = moves.shift(slope) if base.pinned else moves.before(slope)
            shift = np.where(r < 0, stays, shift)
            r = np.where(r < 0, behind, r)
        return r, shift

    def _steepest(self, *directions: int) -> np.ndarray:
        """The largest tilt on some sides (g,)."""
        return np.full(self.moves.count, max(map(self.base.steepest, directions)))

    def _ceiling(self, direction: int) -> np.ndarray:
        """A residual beyond which none passes, for a loss that is not Lipschitz; ``inf`` if unknown. Where
        the slope is concave each ceiling line is crossed once, so a point above it settles all beyond."""
        out = np.full(self.moves.count, np.inf)
        if not self.base.problem.loss.concave_slope:
            return out
        lines = self.base.ceilings(self.score, self.rank, self.moves.metric)
        r = np.broadcast_to(np.maximum(1.0, 2.0 * np.abs(self.plain)), self.moves.count)
        for _ in range(_DOUBLINGS):
            move = self.moves.moves_at(self.base.slope(r, direction))
            above = self.own * np.minimum.reduce([height + rise * move for height, rise in lines])
            out = np.where(np.isinf(out) & (above <= r), r, out)
            r = 2.0 * r
        return out

    def _behind(self, direction: int) -> np.ndarray:
        """One-sided scores below 0, of responses on the other side of the fit: there a larger r means a
        smaller tilt, so ``r - G(r)`` increases and bisection finds the end."""
        none = np.zeros(self.moves.count)
        low, high = np.minimum(self.quantile(none, -direction), 0.0), none
        for _ in range(_DOUBLINGS):
            middle = 0.5 * (low + high)
            passes = middle <= self.quantile(self.base.slope(-middle, -direction), -direction)
            low, high = np.where(passes, middle, low), np.where(passes, high, middle)
        at_zero = self.quantile(self.base.slope(none, -direction), -direction)
        return np.where(at_zero >= 0, 0.0, high)

    def _inner_distance(self, direction: int) -> np.ndarray:
        """Largest certified distance from the prediction (g,); NaN where even 0 is not certified. At
        distance u the new score is at most u (the fit only moves towards the response), and the test at u
        holds for every smaller distance too, whose tilt is smaller."""
        base, moves = self.base, self.moves
        if base.pinned:
            return self._pinned_distance()
        low = np.zeros(moves.count)
        certified = self._holds(low, direction)
        if self.score.sign:
            certified &= self._all_behind(direction)
        if np.isfinite(base.steepest(direction)):
            slope = self._steepest(direction)
            sure = self.quantile(slope, direction, inner=True) - moves.before(slope)
            low = np.maximum(sure, 0.0)
        if base.problem.loss.kind != "step":
            high = np.maximum(low, self.plain)
            low = np.where(self._holds(high, direction), high, low)
            for _ in range(_HALVINGS):
                if not np.any(high > low):
                    break
                middle = 0.5 * (low + high)
                ok = self._holds(middle, direction)
                low, high = np.where(ok, middle, low), np.where(ok, high, middle)
        return np.where(certified, low, np.nan)

    def _holds(self, u: np.ndarray, direction: int) -> np.ndarray:
        """Whether distances ``u`` (g,) are certainly in the set."""
        start = self.moves.before(self.base.slope(u, direction))
        slope = self.base.slope(u + 2.0 * start, direction)
        start_there = self.moves.before(slope)
        bound = self.quantile(slope, direction, inner=True)
        return (start_there <= 2.0 * start) & (u + start_there <= bound)

    def _pinned_distance(self) -> np.ndarray:
        """`_inner_distance` of a fit that is pinned to a response, and may move away from it."""
        slope = self._steepest(-1, 1)
        with np.errstate(invalid="ignore"):
            sure = np.minimum.reduce([self.quantile(slope, way, inner=True) for way in (-1, 1)])
            sure = sure - self.moves.shift(slope)
        return np.where(sure >= 0, sure, np.nan)

    def _all_behind(self, direction: int) -> np.ndarray:
        """Whether everything behind the fit is in a one-sided set, up to the steepest tilt there (g,)."""
        slope = self._steepest(-direction)
        if not np.all(np.isfinite(slope)):
            return np.zeros(len(slope), dtype=bool)
        return self.moves.shift(slope) <= self.quantile(slope, -direction, inner=True)


def stable(fits: Any, asked: Request) -> list[Intervals]:
    """Stable intervals for new rows, one record per alpha; ``fits`` are `Fits`."""
    bound = bound_of(fits, asked.bound)
    return [enclosed(fits, asked, alpha, bound) for alpha in asked.alphas]


def bound_of(fits: Any, bound: str | None = None) -> str:
    """The stability bound to use, by default the best for the loss; refused where its assumptions fail."""
    bound = bound or default_bound(fits.loss)
    reach(fits.base, fits.base.problem.X[:1], bound)
    return bound


def enclosed(fits: Any, asked: Request, alpha: float, bound: str) -> Intervals:
    """Stable intervals at one level, from the base fit of `Fits` or `PinnedFits`."""
    if not asked.score.ranks_sizes:
        return _scored(fits, asked, alpha, bound)
    m, peers = len(asked.rows), asked.peers
    ends = {-1: np.full(m, -np.inf), 1: np.full(m, np.inf)}
    inside = dict(ends)
    surcharge, tau = np.zeros((2, m))
    if not np.all(peers.open(alpha)):
        own = 1.0 if asked.scale is None else asked.own
        ask = Enclosure(fits.base, asked.rows, bound, peers.rank(alpha).within(), asked.score, own)
        for direction in DIRECTIONS[asked.side]:
            distance, extra, own_tau = ask.outer(direction)
            ends[direction] = ask.prediction + direction * distance
            surcharge = surcharge + extra
            tau = np.maximum(tau, own_tau)
            if asked.inner:
                inside[direction] = ask.prediction + direction * ask.inner(direction)
        inside[-1], inside[1] = nonempty(inside[-1], inside[1])
        if bound == "paper" and needs_range(fits.base.problem.loss):  # it says nothing beyond responses
            low, high, known = np.min(fits.y), np.max(fits.y), fits.in_range(asked.rows)
            ends[-1] = np.where(known & (ends[-1] >= low), ends[-1], -np.inf)
            ends[1] = np.where(known & (ends[1] <= high), ends[1], np.inf)
            inside = {way: np.where(known, np.clip(inside[way], low, high), np.nan) for way in inside}
    inner = (inside[-1], inside[1]) if asked.inner else None
    more = {"surcharge": surcharge, "tau": tau, "bound": bound}
    return ranked_intervals(ends[-1], ends[1], peers, alpha, asked.side, "stable", inner=inner, **more)


def _scored(fits: Any, asked: Request, alpha: float, bound: str) -> Intervals:
    """The same for a score that is not the size of the residual."""
    base, rank = fits.base, asked.peers.rank(alpha)
    eta = asked.rows @ base.solution.x
    ends = np.empty((6, len(eta)))
    for part in parts_of(base.n, len(eta)):
        tau, own_tau = steepest_moves(base, asked.rows[part], bound)
        moved = base.solution.r, tau, own_tau
        outer, inner, extra = enclose(asked.score, rank.take(part), eta[part], *moved, asked.own[part])
        ends[:, part] = [*outer, *inner, extra, own_tau]
    lower, upper, *inside = base.centre + base.scale * ends[:4]
    more = {"bound": bound, "surcharge": base.scale * ends[4], "tau": base.scale * ends[5]}
    more["inner"] = inside if asked.inner else None
    return ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "stable", **more)
