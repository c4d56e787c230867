"""The leave-one-out stable method (theory, section 4): one fit a zone serves every new row.

On one side of the fit the new residual r fixes the tilt, \\|t\\| = \\|l'(r)\\|, and with it how far every
training score and the new prediction can move. So r can be in the set only if r <= G(r), the k-th
smallest upper bound at that tilt; G never decreases, and iterating it from above ends at (and never
passes) the largest such r. The outer set is the union over zones, each cut to its zone; the inner set
swaps the bounds.
"""

from dataclasses import dataclass

import numpy as np

from ..scores import Peers
from ..stability import Score, needs_range, new_rows, reach
from .intervals import ranked_intervals

__all__ = ["far_ends", "inner_hull", "outer_residuals", "stable"]

_ROUNDS, _ROUNDS_FROM_AFAR = 2, 60
_DOUBLINGS = 60
_HALVINGS = 24
_BLOCK = 32_768


def stable(fits, rows, alpha, *, side="two-sided", bound, inner=False, peers=None):
    """Stable intervals for new rows.

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
        New design rows, without missing values.
    alpha : float
    side : {"two-sided", "upper", "lower"}
    bound : str
        A key of `stabconf.stability.BOUNDS`.
    inner : bool
        Also find an interval contained in the exact set.
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    Intervals
    """
    m, peers = len(rows), Peers(fits.n) if peers is None else peers
    lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
    surcharge, tau = np.zeros(m), np.zeros(m)
    inner_ends = (lower, upper) if inner else (None, None)
    if not np.all(peers.open(alpha)):
        reference, rank = fits.fit(fits.reference), peers.rank(alpha).within()
        new = new_rows(reference, rows, bound, rank.shared)
        shared = {}
        if side != "lower":
            upper, extra, tau = _hull_end(fits, new, rank, side, bound, 1, shared)
            surcharge = surcharge + extra
        if side != "upper":
            lower, extra, moved = _hull_end(fits, new, rank, side, bound, -1, shared)
            surcharge, tau = surcharge + extra, np.maximum(tau, moved)
        if inner:
            inner_ends = inner_hull(fits, rows, rank, side, bound, (lower, upper))
        if bound == "paper" and needs_range(fits.loss):
            lower, upper, inner_ends = _within_range(fits, rows, lower, upper, inner_ends)
    more = {"surcharge": surcharge, "tau": tau, "bound": bound}
    return ranked_intervals(lower, upper, peers, alpha, side, "stable", inner=inner_ends, **more)


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
    """How far the end of a zone's set lies from the prediction, an entry a norm of `NewRows`.

    Attributes
    ----------
    distance, surcharge, tau : (g,) arrays
        The distance, what of it is owed to stability, and the shift of the prediction in it; in units
        of the response.
    """

    distance: np.ndarray
    surcharge: np.ndarray
    tau: np.ndarray


def _hull_end(fits, new, rank, side, bound, direction, shared):
    """Outermost end of the union over zones on one side, the surcharge and the tau in it, each (m,).

    Many rows share the distances of a zone, kept in the dict ``shared``, and go through it in blocks
    that fit the cache. Where loss and score are symmetric both directions share them too.
    """
    symmetric = fits.loss.symmetric and side == "two-sided"

    def distances(j, rows, which, direction):
        if not new.rounded:
            return _distances(fits.fit(j), rows, rank.take(which), side, bound, direction)
        key = j, None if symmetric else direction
        if key not in shared:
            shared[key] = _distances(fits.fit(j), new, rank, side, bound, direction)
        return shared[key]

    size = _BLOCK if new.rounded else max(1, len(new))
    ends = np.empty((3, len(new)))
    for first in range(0, len(new), size):
        block = new.block(first, first + size)
        part = ends[:, first : first + size]
        _block_end(fits, block, side, bound, direction, rank.shared, distances, part)
    return ends


def _block_end(fits, new, side, bound, direction, shared, distances, ends):
    """Fill ``ends`` (3, b) for one block of rows: zones are visited from outside, and a row is done at
    the first zone that its set reaches. A set that reaches none is empty: NaN."""
    left = slice(None)
    order = range(len(fits.zones))
    for j in reversed(order) if direction > 0 else order:
        zone = fits.zones[j]
        outside, inside = (zone.upper, zone.lower) if direction > 0 else (zone.lower, zone.upper)
        if zone.keep:
            ends[0, left], ends[1:, left] = outside, 0.0
            return
        base, rows = fits.fit(j), new.rows[left]
        entries = new if new.rounded else new_rows(base, rows, bound, shared)
        place = new.place[left] if new.rounded else entries.place
        found = distances(j, entries, left, direction)
        prediction = base.predict(rows)
        far = prediction + direction * found.distance[place]
        reached = far >= inside if direction > 0 else far <= inside
        if side == "two-sided" and np.isfinite(outside):  # the set may lie wholly outside the zone
            beyond = np.flatnonzero(reached & (direction * (prediction - outside) > 0))
            if len(beyond):
                behind = distances(j, entries, left, -direction).distance[place[beyond]]
                reached[beyond] = direction * (prediction[beyond] - outside) <= behind
        ends[0, left] = np.minimum(far, outside) if direction > 0 else np.maximum(far, outside)
        ends[1, left], ends[2, left] = found.surcharge[place], found.tau[place]
        missed = np.flatnonzero(~reached)
        left = missed if isinstance(left, slice) else left[missed]
        if not len(left):
            return
    ends[0, left], ends[1:, left] = np.nan, 0.0


def _distances(base, new, rank, side, bound, direction):
    """The `_Distances` of one zone and direction."""
    score = Score(base.solution.r, absolute=side == "two-sided", sign=direction)
    moves = reach(base, new, bound)
    r, shift = _largest_residual(base, moves, score, rank, direction)
    distance = r + np.where(np.isinf(r), 0.0, shift)
    scale = base.zone.scale
    return _Distances(scale * distance, scale * (distance - rank.kth(score.values)), scale * shift)


def _largest_residual(base, moves, score, rank, direction):
    """Upper bounds on the new residuals r that pass ``r <= G(r)``, and on the shift that goes along.

    The tilt is followed down from the steepest, a fixed number of times, so that a row's answer does
    not depend on the others; every stage is valid.
    """
    steepest = base.steepest(direction)
    slope = np.full(moves.count, steepest)
    if np.isfinite(steepest):
        r, rounds = moves.quantile(score, rank, slope, direction), _ROUNDS
    else:
        r, rounds = _ceiling(base, moves, score, rank, direction), _ROUNDS_FROM_AFAR
    for _ in range(0 if base.problem.loss.piecewise_linear else rounds):
        lower = np.minimum(slope, base.slope(np.maximum(r, 0.0), direction))
        if np.array_equal(lower, slope):
            break
        slope = lower
        r = np.minimum(r, moves.quantile(score, rank, slope, direction))
    shift = moves.shift(slope)
    if np.any(r < 0):
        behind = _behind(base, moves, score, rank, direction)
        slope = base.slope(np.maximum(-behind, 0.0), -direction)
        # From T(0) the fit only moves towards the response, from a pinned one it may move either way.
        stays = moves.shift(slope) if base.pinned else moves.before(slope)
        r, shift = np.where(r < 0, behind, r), np.where(r < 0, stays, shift)
    return r, shift


def _ceiling(base, moves, score, rank, direction):
    """A residual beyond which none passes, for a loss that is not Lipschitz; ``inf`` if unknown.

    Where the slope is concave each ceiling line is crossed once, so a point above it settles all
    points beyond.
    """
    out = np.full(moves.count, np.inf)
    if not base.problem.loss.concave_slope:
        return out
    lines, move_at = moves.ceilings(score, rank)
    r = np.broadcast_to(np.maximum(1.0, 2.0 * np.abs(rank.kth(score.values))), moves.count)
    for _ in range(_DOUBLINGS):
        move = move_at(base.slope(r, direction))
        above = np.minimum.reduce([height + rise * move for height, rise in lines])
        out = np.where(np.isinf(out) & (above <= r), r, out)
        r = 2.0 * r
    return out


def _behind(base, moves, score, rank, direction):
    """One-sided scores below 0: the new response lies on the other side of the fit.

    There a larger r means a smaller tilt, so ``r - G(r)`` increases and bisection finds the end.
    """
    low = moves.quantile(score, rank, np.zeros(moves.count), -direction)
    low, high = np.minimum(low, 0.0), np.zeros(moves.count)
    for _ in range(_DOUBLINGS):
        middle = 0.5 * (low + high)
        slope = base.slope(-middle, -direction)
        passes = middle <= moves.quantile(score, rank, slope, -direction)
        low, high = np.where(passes, middle, low), np.where(passes, high, middle)
    at_zero = moves.quantile(score, rank, base.slope(np.zeros(moves.count), -direction), -direction)
    return np.where(at_zero >= 0, 0.0, high)


def far_ends(base, rows, rank, side, bound, direction):
    """Outer bounds on the far ends of the sets of new rows, were the whole line one zone (m,)."""
    new = new_rows(base, rows, bound, rank.shared)
    found = _distances(base, new, rank, side, bound, direction)
    return base.predict(rows) + direction * found.distance[new.place]


def outer_residuals(base, rows, rank, side, direction):
    """Upper bounds on the new residuals r in the set, were the whole line one zone, by curvature.

    Returns
    -------
    moves : CurvatureReach
    score : Score
    r : (m,) array
    """
    moves = reach(base, new_rows(base, rows, "curvature", rank.shared), "curvature")
    score = Score(base.solution.r, absolute=side == "two-sided", sign=direction)
    return moves, score, _largest_residual(base, moves, score, rank, direction)[0]


def inner_hull(fits, rows, rank, side, bound, outer):
    """The longest unbroken union of the zones' inner pieces; NaN where there is none.

    ``outer`` are the ends (lower, upper) of sets that contain the rows' exact ones.
    """
    m = len(rows)
    best = np.full(m, np.nan), np.full(m, np.nan)
    start, stop = np.full(m, np.nan), np.full(m, np.nan)
    for j, zone in enumerate(fits.zones):
        low, high = np.full(m, np.nan), np.full(m, np.nan)
        near = np.flatnonzero((outer[0] <= zone.upper) & (outer[1] >= zone.lower))
        if len(near) and not zone.keep:
            low[near], high[near] = _inner_zone(fits.fit(j), rows[near], rank.take(near), side, bound)
            low, high = np.maximum(low, zone.lower), np.minimum(high, zone.upper)
            empty = ~(low <= high)
            low, high = np.where(empty, np.nan, low), np.where(empty, np.nan, high)
        joined = (stop == zone.lower) & (low == zone.lower)
        start, stop = np.where(joined, start, low), high
        with np.errstate(invalid="ignore"):
            longer = ~np.isnan(start) & ~(stop - start <= best[1] - best[0])
        if side == "upper":
            longer &= np.isneginf(start)
        elif side == "lower":
            longer &= np.isposinf(stop)
        best = np.where(longer, start, best[0]), np.where(longer, stop, best[1])
    return best


def _inner_zone(base, rows, rank, side, bound):
    """Ends of an interval whose every point is certainly in the set, if z is in this zone."""
    zone, ends = base.zone, {}
    prediction = base.predict(rows)
    new = new_rows(base, rows, bound, rank.shared)
    for direction in (-1, 1):
        if side in ("upper", "lower") and direction != (1 if side == "upper" else -1):
            ends[direction] = np.full(len(rows), direction * np.inf)
            continue
        score = Score(base.solution.r, absolute=side == "two-sided", sign=direction)
        end = zone.upper if direction > 0 else zone.lower
        enough = np.max(direction * (end - prediction) / zone.scale, initial=0.0)
        distance = _inner_distance(base, reach(base, new, bound), score, rank, direction, enough)
        ends[direction] = prediction + direction * zone.scale * distance[new.place]
    return ends[-1], ends[1]


def _inner_distance(base, moves, score, rank, direction, enough):
    """Largest certified distance from the prediction (m,); NaN where even 0 is not certified.

    At distance u the new score is at most u (the fit only moves towards the response), and the test at u
    holds for every smaller distance too, whose tilt is smaller. Nothing beyond ``enough`` is asked for.
    A fit that is pinned to another response may move away, so its own move counts too.
    """
    if base.pinned:
        slope = np.full(moves.count, max(base.steepest(-1), base.steepest(1)))
        with np.errstate(invalid="ignore"):
            sure = np.minimum.reduce(
                [moves.quantile(score, rank, slope, way, inner=True) for way in (-1, 1)]
            ) - moves.shift(slope)
        return np.where(sure >= 0, sure, np.nan)

    def holds(u):
        start = moves.before(base.slope(u, direction))
        slope = base.slope(u + 2.0 * start, direction)
        start_there = moves.before(slope)
        bound = moves.quantile(score, rank, slope, direction, inner=True)
        return (start_there <= 2.0 * start) & (u + start_there <= bound)

    low = np.zeros(moves.count)
    certified = holds(low)
    if not score.absolute:
        # Everything behind the fit must be in as well, up to the steepest tilt on that side.
        certified &= _all_behind(base, moves, score, rank, direction)
    if np.isfinite(base.steepest(direction)):
        slope = np.full(moves.count, base.steepest(direction))
        sure = moves.quantile(score, rank, slope, direction, inner=True) - moves.before(slope)
        low = np.maximum(sure, 0.0)
    if not base.problem.loss.piecewise_linear:
        high = np.minimum(np.maximum(low, rank.kth(score.values)), np.maximum(low, enough))
        low = np.where(holds(high), high, low)
        for _ in range(_HALVINGS):
            if not np.any(high > low):
                break
            middle = 0.5 * (low + high)
            ok = holds(middle)
            low, high = np.where(ok, middle, low), np.where(ok, high, middle)
    return np.where(certified, low, np.nan)


def _all_behind(base, moves, score, rank, direction):
    steepest = base.steepest(-direction)
    if not np.isfinite(steepest):
        return np.zeros(moves.count, dtype=bool)
    slope = np.full(moves.count, steepest)
    return moves.shift(slope) <= moves.quantile(score, rank, slope, -direction, inner=True)
