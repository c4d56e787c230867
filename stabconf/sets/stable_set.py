"""The leave-one-out stable method (theory, section 4): one fit encloses the exact sets of all new rows.

With a score that ranks residuals by something else than their size (theory, section 6; the paper's
Algorithm 2) one bound must hold for every response, so the loss must be Lipschitz.
"""

from typing import Any

import numpy as np

from ..stability import default_bound, needs_range, reach
from .enclosure import Enclosure, enclose, steepest_moves
from .intervals import Intervals, ranked_intervals
from .request import Request
from .score import DIRECTIONS

__all__ = ["enclosed", "stable"]


def stable(fits: Any, asked: Request) -> list[Intervals]:
    """Stable intervals for new rows, one record per alpha; ``fits`` are `Fits`."""
    bound = asked.bound or default_bound(fits.loss)
    reach(fits.base, fits.base.problem.X[:1], bound)  # refuses where its assumptions fail
    return [enclosed(fits, asked, alpha, bound) for alpha in asked.alphas]


def enclosed(fits: Any, asked: Request, alpha: float, bound: str) -> Intervals:
    """Stable intervals at one level, from the base fit of `Fits` or `PinnedFits`."""
    if not asked.score.ranks_sizes:
        return _scored(fits, asked, alpha, bound)
    m = len(asked.rows)
    peers = asked.peers
    directions = DIRECTIONS[asked.side]
    ends = {-1: np.full(m, -np.inf), 1: np.full(m, np.inf)}
    inner = (ends[-1], ends[1]) if asked.inner else None
    surcharge = np.zeros(m)
    tau = np.zeros(m)
    if not np.all(peers.open(alpha)):
        own = 1.0 if asked.scale is None else asked.own
        ask = Enclosure.of(fits.base, asked.rows, bound, peers.rank(alpha).within(), asked.score, own)
        for direction in directions:
            each = ask.outer(direction)
            ends[direction] = ask.prediction + direction * each.distance[ask.moves.place]
            surcharge = surcharge + each.surcharge[ask.moves.place]
            tau = np.maximum(tau, each.tau[ask.moves.place])
        if inner is not None:
            inner = ask.inner(directions)
        if bound == "paper" and needs_range(fits.loss):
            ends, inner = _within_range(fits, asked.rows, ends, inner)
    more = {"surcharge": surcharge, "tau": tau, "bound": bound}
    return ranked_intervals(ends[-1], ends[1], peers, alpha, asked.side, "stable", inner=inner, **more)


def _within_range(
    fits: Any,
    rows: np.ndarray,
    ends: dict[int, np.ndarray],
    inner: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[dict[int, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Outer ends beyond the range of the training responses, where the paper's constant says nothing, are
    opened, inner ones cut."""
    low = np.min(fits.y)
    high = np.max(fits.y)
    known = fits.in_range(rows)
    lower = np.where(known & (ends[-1] >= low), ends[-1], -np.inf)
    upper = np.where(known & (ends[1] <= high), ends[1], np.inf)
    if inner is not None:
        first, last = (np.where(known, np.clip(end, low, high), np.nan) for end in inner)
        inner = first, last
    return {-1: lower, 1: upper}, inner


def _scored(fits: Any, asked: Request, alpha: float, bound: str) -> Intervals:
    """The same for a score that is not the size of the residual, one row at a time."""
    base, score = fits.base, asked.score
    rank = asked.peers.rank(alpha)
    eta = asked.rows @ base.solution.x
    plain = rank.kth(np.broadcast_to(score.values(base.solution.r), (len(eta), len(base.solution.r))))
    low, high = score.own_interval(plain, asked.own, eta)
    ends = np.empty((5, len(eta)))
    for i in range(len(eta)):
        tau, own_tau = steepest_moves(base, asked.rows[i : i + 1], bound)
        which = slice(i, i + 1)
        outer, inner = enclose(
            score, rank.take(which), eta[which], base.solution.r, tau, own_tau, asked.own[which]
        )
        ends[:, i] = np.ravel([*outer, *inner, own_tau])
    with np.errstate(invalid="ignore"):  # both may be infinite
        surcharge = base.scale * np.nan_to_num((ends[1] - ends[0]) - (high - low), nan=0.0)
    lower, upper, *inner = base.centre + base.scale * ends[:4]
    more = {"bound": bound, "surcharge": surcharge, "tau": base.scale * ends[4]}
    more["inner"] = inner if asked.inner else None
    return ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "stable", **more)
