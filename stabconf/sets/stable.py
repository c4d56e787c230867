"""The leave-one-out stable method (theory, section 4): one fit serves every new row.

On one side of the fit the new residual r fixes the tilt, \\|t\\| = \\|l'(r)\\|, and with it how far every
training score and the new prediction can move. So r can be in the set only if r <= G(r), the k-th smallest
upper bound at that tilt; G never decreases, and iterating it from above ends at (and never passes) the
largest such r. The inner set swaps the bounds. With a scale, G counts in units of the new row's.
"""

from dataclasses import dataclass

import numpy as np

from ..rank import Peers
from ..stability import needs_range, new_rows, reach
from .intervals import ranked_intervals
from .score import DIRECTIONS, Score

__all__ = ["outer_residuals", "stable"]

_ROUNDS, _ROUNDS_FROM_AFAR = 2, 60
_DOUBLINGS = 60
_HALVINGS = 24


def stable(fits, rows, alpha, *, side="two-sided", bound, inner=False, scale=None, peers=None):
    """Stable intervals for new rows.

    Parameters
    ----------
    fits : Fits, or anything with ``base``, ``loss``, ``y``, ``n`` and ``in_range``
    rows : (m, p) array
        New design rows, without missing values.
    alpha : float
    side : {"two-sided", "upper", "lower"}
    bound : str
        A key of `stabconf.stability.BOUNDS`.
    inner : bool
        Also find an interval contained in the exact set.
    scale : FixedScale, optional
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    Intervals
    """
    m, peers = len(rows), Peers(fits.n) if peers is None else peers
    ends = {-1: np.full(m, -np.inf), 1: np.full(m, np.inf)}
    surcharge, tau = np.zeros(m), np.zeros(m)
    inner_ends = (ends[-1], ends[1]) if inner else (None, None)
    if not np.all(peers.open(alpha)):
        score = Score.of(side, None if scale is None else scale.trained)
        own = 1.0 if scale is None else scale.new
        ask = _Ask.of(fits.base, rows, bound, peers.rank(alpha).within(), score, own)
        found = {direction: ask.outer(direction) for direction in DIRECTIONS[side]}
        for direction, each in found.items():
            ends[direction] = ask.prediction + direction * each.distance[ask.new.place]
            surcharge = surcharge + each.surcharge[ask.new.place]
            tau = np.maximum(tau, each.tau[ask.new.place])
        if inner:
            inner_ends = ask.inner(DIRECTIONS[side])
        if bound == "paper" and needs_range(fits.loss):
            ends[-1], ends[1], inner_ends = _within_range(fits, rows, ends[-1], ends[1], inner_ends)
    more = {"surcharge": surcharge, "tau": tau, "bound": bound}
    return ranked_intervals(ends[-1], ends[1], peers, alpha, side, "stable", inner=inner_ends, **more)


def _within_range(fits, rows, lower, upper, inner):
    """Outer ends beyond the range of the training responses, where the paper's constant says nothing, are
    opened, inner ones cut."""
    low, high = np.min(fits.y), np.max(fits.y)
    known = fits.in_range(rows)
    lower = np.where(known & (lower >= low), lower, -np.inf)
    upper = np.where(known & (upper <= high), upper, np.inf)
    if inner[0] is not None:
        inner = tuple(np.where(known, np.clip(end, low, high), np.nan) for end in inner)
    return lower, upper, inner


@dataclass(frozen=True)
class _Distances:
    """How far the end of a set lies from the prediction, an entry a norm of `NewRows`.

    Attributes
    ----------
    distance, surcharge, tau : (g,) arrays
        The distance, what of it is owed to stability, and the shift of the prediction in it; in units
        of the response.
    """

    distance: np.ndarray
    surcharge: np.ndarray
    tau: np.ndarray


@dataclass(frozen=True)
class _Ask:
    """New rows, how they are scored and ranked, and how far they can move the base fit.

    Attributes
    ----------
    base : BaseFit
    new : NewRows
    moves : NormReach
    prediction : (m,) array
    rank : Rank
    score : Score
    own : (g,) array or float
        Scales of the new rows.
    """

    base: object
    new: object
    moves: object
    prediction: np.ndarray
    rank: object
    score: Score
    own: np.ndarray | float

    @classmethod
    def of(cls, base, rows, bound, rank, score, own):
        new = new_rows(base, rows, bound, rank.shared and not np.ndim(own))
        return cls(base, new, reach(base, new, bound), base.predict(rows), rank, score, own)

    def quantile(self, t, direction, inner=False):
        """The order statistic of upper (``inner``: lower) bounds on the scores, in units of new rows
        (g,)."""
        return self.own * self.moves.quantile(self.score, self.rank, t, direction, inner)

    @property
    def plain(self):
        """The order statistic of the base fit itself."""
        return self.own * self.rank.kth(self.score.values(self.base.solution.r))

    def outer(self, direction):
        """The `_Distances` of the outer ends on one side."""
        r, shift = _largest_residual(self, direction)
        distance, scale = r + np.where(np.isinf(r), 0.0, shift), self.base.scale
        return _Distances(scale * distance, scale * (distance - self.plain), scale * shift)

    def inner(self, directions):
        """Ends of an interval whose every point is certainly in the set; NaN where there is none."""
        ends = {-1: np.full(len(self.prediction), -np.inf), 1: np.full(len(self.prediction), np.inf)}
        for direction in directions:
            distance = _inner_distance(self, direction)[self.new.place]
            ends[direction] = self.prediction + direction * self.base.scale * distance
        empty = ~(ends[-1] <= ends[1])
        return tuple(np.where(empty, np.nan, ends[direction]) for direction in (-1, 1))


def outer_residuals(base, rows, rank, score, direction, own):
    """Upper bounds on the new residuals r in the set, by curvature (m,), and the `_Ask` they come from."""
    ask = _Ask.of(base, rows, "curvature", rank, score, own)
    return _largest_residual(ask, direction)[0], ask


def _largest_residual(ask, direction):
    """Upper bounds on the new residuals r that pass ``r <= G(r)``, and on the shift that goes along.

    The tilt is followed down from the steepest, a fixed number of times, so that a row's answer does
    not depend on the others; every stage is valid.
    """
    base, moves = ask.base, ask.moves
    steepest = base.steepest(direction)
    slope = np.full(moves.count, steepest)
    if np.isfinite(steepest):
        r, rounds = ask.quantile(slope, direction), _ROUNDS
    else:
        r, rounds = _ceiling(ask, direction), _ROUNDS_FROM_AFAR
    for _ in range(0 if base.problem.loss.piecewise_linear else rounds):
        lower = np.minimum(slope, base.slope(np.maximum(r, 0.0), direction))
        if np.array_equal(lower, slope):
            break
        slope = lower
        r = np.minimum(r, ask.quantile(slope, direction))
    shift = moves.shift(slope)
    if np.any(r < 0):
        behind = _behind(ask, direction)
        slope = base.slope(np.maximum(-behind, 0.0), -direction)
        # From T(0) the fit only moves towards the response, from a pinned one it may move either way.
        stays = moves.shift(slope) if base.pinned else moves.before(slope)
        r, shift = np.where(r < 0, behind, r), np.where(r < 0, stays, shift)
    return r, shift


def _ceiling(ask, direction):
    """A residual beyond which none passes, for a loss that is not Lipschitz; ``inf`` if unknown.

    Where the slope is concave each ceiling line is crossed once, so a point above it settles all
    points beyond.
    """
    out = np.full(ask.moves.count, np.inf)
    if not ask.base.problem.loss.concave_slope:
        return out
    lines, move_at = ask.moves.ceilings(ask.score, ask.rank)
    r = np.broadcast_to(np.maximum(1.0, 2.0 * np.abs(ask.plain)), ask.moves.count)
    for _ in range(_DOUBLINGS):
        move = move_at(ask.base.slope(r, direction))
        above = ask.own * np.minimum.reduce([height + rise * move for height, rise in lines])
        out = np.where(np.isinf(out) & (above <= r), r, out)
        r = 2.0 * r
    return out


def _behind(ask, direction):
    """One-sided scores below 0: the new response lies on the other side of the fit.

    There a larger r means a smaller tilt, so ``r - G(r)`` increases and bisection finds the end.
    """
    none = np.zeros(ask.moves.count)
    low, high = np.minimum(ask.quantile(none, -direction), 0.0), none
    for _ in range(_DOUBLINGS):
        middle = 0.5 * (low + high)
        passes = middle <= ask.quantile(ask.base.slope(-middle, -direction), -direction)
        low, high = np.where(passes, middle, low), np.where(passes, high, middle)
    at_zero = ask.quantile(ask.base.slope(none, -direction), -direction)
    return np.where(at_zero >= 0, 0.0, high)


def _inner_distance(ask, direction):
    """Largest certified distance from the prediction (g,); NaN where even 0 is not certified.

    At distance u the new score is at most u (the fit only moves towards the response), and the test at u
    holds for every smaller distance too, whose tilt is smaller. A fit that is pinned to another response
    may move away, so its own move counts too.
    """
    base, moves = ask.base, ask.moves
    if base.pinned:
        slope = np.full(moves.count, max(base.steepest(-1), base.steepest(1)))
        with np.errstate(invalid="ignore"):
            sure = np.minimum.reduce([ask.quantile(slope, way, inner=True) for way in (-1, 1)])
            sure = sure - moves.shift(slope)
        return np.where(sure >= 0, sure, np.nan)

    def holds(u):
        start = moves.before(base.slope(u, direction))
        slope = base.slope(u + 2.0 * start, direction)
        start_there = moves.before(slope)
        bound = ask.quantile(slope, direction, inner=True)
        return (start_there <= 2.0 * start) & (u + start_there <= bound)

    low = np.zeros(moves.count)
    certified = holds(low)
    if ask.score.sign:
        # Everything behind the fit must be in as well, up to the steepest tilt on that side.
        certified &= _all_behind(ask, direction)
    if np.isfinite(base.steepest(direction)):
        slope = np.full(moves.count, base.steepest(direction))
        sure = ask.quantile(slope, direction, inner=True) - moves.before(slope)
        low = np.maximum(sure, 0.0)
    if not base.problem.loss.piecewise_linear:
        high = np.maximum(low, ask.plain)
        low = np.where(holds(high), high, low)
        for _ in range(_HALVINGS):
            if not np.any(high > low):
                break
            middle = 0.5 * (low + high)
            ok = holds(middle)
            low, high = np.where(ok, middle, low), np.where(ok, high, middle)
    return np.where(certified, low, np.nan)


def _all_behind(ask, direction):
    steepest = ask.base.steepest(-direction)
    if not np.isfinite(steepest):
        return np.zeros(ask.moves.count, dtype=bool)
    slope = np.full(ask.moves.count, steepest)
    return ask.moves.shift(slope) <= ask.quantile(slope, -direction, inner=True)
