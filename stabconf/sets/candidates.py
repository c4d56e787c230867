"""The conformity function: p-values of candidates, exact and between stability bounds (theory, section 6).

p(z) is that of the augmented fit at z, read off a path or refitted. The bounds need one fit alone: the
training rows', or that with the new row at some z_hat, the paper's pi_lo(z, z_hat) and pi_up(z, z_hat).
`joint_p` is the one place where a candidate's score is compared with the training rows'.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..path import ties_of
from ..rank import Peers
from ..stability import BaseFit, needs_range, reach
from ..threads import one_thread
from .enclosure import bound_of
from .fits import Fits
from .parallel import parts_of
from .pinned import PinnedFits
from .request import check_side
from .score import Score, Side
from .thresholds import Along

Term = tuple[Any, Score, float]  # fits, what of residuals is ranked, and one unit of the fits in scores


def check_bound(fits: Fits, bound: str | None, side: str) -> str | None:
    """The stability bound to use, by default the best that applies; None where none does."""
    check_side(side)
    if bound is None and fits.loss.kind == "step" and not np.all(fits.ridge > 0):
        return None
    return bound_of(fits, bound)


@one_thread
def conformity(
    fits: Fits,
    row: np.ndarray,
    z: np.ndarray,
    side: Side,
    bound: str | None,
    peers: Peers | None = None,
    along: Along | None = None,
    z_hat: np.ndarray | None = None,
) -> np.ndarray:
    """Exact p-values of a new row (p,) at finite candidates (g,), a lower and an upper bound on them, and
    the gap between these: (4, g). Bounds are those of the training fit, or the best of the fits with the
    new row at ``z_hat`` (b,); 0 and 1 where no stability bound applies, or it is infinite."""
    peers = Peers(fits.n) if peers is None else peers
    score = Score.of(side)
    (row,), (free,) = fits.coordinates(row[None])
    out = np.zeros((4, len(z)))
    if free:  # the fit goes through every response, and no other residual changes
        scores = score.values(fits.base.solution.r)
        out[:3] = peers.p(scores >= -ties_of(fits.problem.X, fits.base.solution.x))
        return out
    out[0] = joint_p([(fits, score, 1.0)], row, z, peers, along=along)
    out[2] = 1.0
    if along is None and bound is not None:
        known: list[Any] = [fits] if z_hat is None else [PinnedFits(fits, row, each) for each in z_hat]
        for part in parts_of(fits.n, len(z)):
            each = np.array([_bounds(one, row, z[part], score, bound, peers) for one in known])
            out[1, part] = np.max(each[:, 0], axis=0)
            out[2, part] = np.min(each[:, 1], axis=0)
    out[1] = np.minimum(out[1], out[0])  # they differ the other way by rounding alone
    out[2] = np.maximum(out[2], out[0])
    out[3] = out[2] - out[1]
    return out


def spread_out(y: np.ndarray, count: int) -> np.ndarray:
    """Candidates over the range of the training responses, half as long again."""
    margin = 0.25 * np.ptp(y)
    return np.linspace(np.min(y) - margin, np.max(y) + margin, count)


def joint_p(
    terms: Sequence[Term],
    row: np.ndarray,
    z: np.ndarray,
    peers: Peers,
    own: float = 1.0,
    refit: bool = False,
    along: Along | None = None,
) -> np.ndarray:
    """Exact p-values of a new row at candidates (g,), or (g, q) with a response for each of the terms, by
    the largest of which rows are scored; among its peers or along a design. ``refit`` makes every fit anew,
    as must be where no loss is known."""
    out = np.empty(len(z))
    responses = np.broadcast_to(z.T, (len(terms), len(z)))
    for part in parts_of(terms[0][0].n, len(z)):
        old, new = [], []
        for (fits, score, share), values in zip(terms, responses, strict=True):
            w = fits.responses(values[part])
            r, e, tie = (fits.refitted if refit or fits.loss is None else fits.residuals)(row, w)
            old.append(share * score.values(r))
            new.append(share * score.tied(e, own, tie, w))
        scores, least = np.max(old, axis=0), np.max(new, axis=0)
        out[part] = peers.p(scores >= least[:, None]) if along is None else along.p(scores, least)
    return out


def _slope_range(base: BaseFit, distance: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the slope of a new row can be below and above that of the base fit, whose prediction is known
    up to ``before``, for responses at a distance from it: where it grows the fit moves towards the
    response, so the residual is at most the distance; and the other way round."""
    loss = base.problem.loss
    low = loss.subgradient(distance - before)[0]
    high = loss.subgradient(distance + before)[1]
    return np.maximum(base.pinned - low, 0.0), np.maximum(high - base.pinned, 0.0)


@one_thread
def row_tau(fits: Fits, row: np.ndarray, bound: str, z: float | None = None) -> np.ndarray:
    """Stability bounds of one new row (1, p), in units of the response: those of the training rows and then
    its own (n + 1,). They hold for every response, or for ``z``."""
    row, (free,) = fits.coordinates(row)
    if free:
        return np.append(np.zeros(fits.n), np.inf)
    base = fits.base
    moves = reach(base, row, bound)
    slope = np.array([max(base.steepest(-1), base.steepest(1))])
    if z is not None:
        distance = (z - base.predict(row)) / fits.scale
        slope = np.minimum(slope, np.maximum(*_slope_range(base, distance, moves.before(np.zeros(1)))))
    return fits.scale * np.append(moves.tau(slope)[0], moves.shift(slope))


def _bounds(
    fits: Fits | PinnedFits, row: np.ndarray, z: np.ndarray, score: Score, bound: str, peers: Peers
) -> np.ndarray:
    """Lower and upper bounds on the p-values (2, g) from the base fit; 0 and 1 where they are infinite."""
    base = fits.base
    w = (z - base.centre) / base.scale
    moves = reach(base, np.repeat(row[None], len(w), axis=0), bound)
    distance = w - row @ base.solution.x
    before = moves.before(np.zeros(len(w)))
    down, up = _slope_range(base, distance, before)
    slope = np.maximum(down, up)
    with np.errstate(invalid="ignore"):
        tau, own = moves.tau(slope), moves.shift(slope)
        old = score.range(base.solution.r - tau, base.solution.r + tau)
        first, last = distance - own, distance + own
    if bound != "paper":  # whose proposition does not say which way the fit moves
        first = np.where(up > 0, first, distance - before)
        last = np.where(down > 0, last, distance + before)
        if not base.pinned:  # without the new row, the fit is on the same side of the response
            first = np.maximum(first, np.minimum(distance, 0.0) - before)
            last = np.minimum(last, np.maximum(distance, 0.0) + before)
    known = np.isfinite(own) & ~np.isnan(tau).any(axis=1)
    if bound == "paper" and needs_range(base.problem.loss):
        known &= fits.in_range(row[None]) & (np.min(fits.y) <= z) & (z <= np.max(fits.y))
    new = score.range(np.where(known, first, 0.0), np.where(known, last, 0.0))
    tie = ties_of(base.problem.X, base.solution.x)
    lower, upper = (peers.p(one >= two[:, None] - tie) for one, two in ((old[0], new[1]), (old[1], new[0])))
    return np.array([np.where(known, lower, 0.0), np.where(known, upper, 1.0)])
