"""p-values of candidate responses, exact and between stability bounds: the conformity function (theory,
section 6).

p(z) is that of the augmented fit at z. Where slopes are clipped all candidates are read off one path; else
the augmented sample is refitted, warm. The bounds need the base fit alone. `exact_p` is the one place where
a candidate's score is compared with the training rows'.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..path import ties_of
from ..rank import Peers
from ..stability import BaseFit, default_bound, new_rows, reach
from ..threads import one_thread
from .exact import make_sets
from .fits import Fits, Residuals
from .request import check_side
from .score import Score, Side
from .thresholds import Along

__all__ = ["check_bound", "conformity", "exact_p", "known_or_refitted", "row_tau", "spread_out"]

_ENTRIES = 2_000_000


def check_bound(fits: Fits, bound: str | None, side: str) -> str | None:
    """The stability bound to use, by default the best that applies; None where none does."""
    check_side(side)
    if bound is None and not (fits.loss.kind != "step" or np.all(fits.ridge > 0)):
        return None
    bound = bound or default_bound(fits.loss)
    new_rows(fits.base, fits.problem.X[:1], bound)  # refuses where its assumptions fail
    return bound


@one_thread
def conformity(
    fits: Fits,
    row: np.ndarray,
    z: np.ndarray,
    side: Side,
    bound: str | None,
    peers: Peers | None = None,
    along: Along | None = None,
) -> np.ndarray:
    """Exact p-values of a new row (p,) at finite candidates ``z`` (g,), and bounds on them: a (3, g) array.

    ``bound`` is None where no stability bound applies: the bounds are then those of any p-value.
    """
    peers = Peers(fits.n) if peers is None else peers
    score = Score.of(side)
    (row,), (free,) = fits.coordinates(row[None])
    out = np.empty((3, len(z)))
    if free:  # the fit goes through every response, and no other residual changes
        scores = score.values(fits.base.solution.r)
        out[:] = peers.p(scores >= -ties_of(fits.problem.X, fits.base.solution.x))
        return out
    out[0] = exact_p(fits, row, z, score, peers, along=along)
    if along is not None:
        out[1], out[2] = 0.0, 1.0  # bounds of any p-value
        return out
    for part in parts_of(fits.n, len(z)):
        out[1:, part] = _bounds(fits.base, row, fits.responses(z[part]), score, bound, peers)
    return out


def parts_of(n: int, count: int) -> Iterator[slice]:
    """Candidates, a few at a time: arrays have an entry for each of them and each training row."""
    size = max(1, _ENTRIES // n)
    for first in range(0, count, size):
        yield slice(first, first + size)


def spread_out(y: np.ndarray, count: int) -> np.ndarray:
    """Candidates over the range of the training responses, half as long again."""
    margin = 0.25 * np.ptp(y)
    return np.linspace(np.min(y) - margin, np.max(y) + margin, count)


def exact_p(
    fits: Any,
    row: np.ndarray,
    z: np.ndarray,
    score: Score,
    peers: Peers,
    own: float = 1.0,
    refit: bool = False,
    along: Along | None = None,
) -> np.ndarray:
    """Exact p-values of a new row at candidates (g,), among its peers or along a design; ``refit`` makes
    every fit anew, as must be where no loss is known."""
    solver = None if refit or fits.loss is None else make_sets(fits, score)
    out = np.empty(len(z))
    for part in parts_of(fits.n, len(z)):
        w = fits.responses(z[part])
        r, e, tie = known_or_refitted(fits, None if solver is None else solver.residuals(row, w), row, w)
        out[part] = candidate_p(score.values(r), score.tied(e, own, tie, w), peers, along)
    return out


def candidate_p(scores: np.ndarray, own: np.ndarray, peers: Peers, along: Along | None) -> np.ndarray:
    """p-values (g,) from the scores of the training rows (g, n) and of the new row (g,), ties taken off."""
    return peers.p(scores >= own[:, None]) if along is None else along.p(scores, own)


def known_or_refitted(
    fits: Fits, found: tuple[np.ndarray, ...] | None, row: np.ndarray, w: np.ndarray
) -> Residuals:
    """Residuals and ties at responses from what a path knows, ``(r, e, tie, known)`` or None, and from
    refits where it does not."""
    if found is None:
        return fits.refitted(row, w)
    r, e, tie, known = found
    if not known.all():
        r[~known], e[~known], tie[~known] = fits.refitted(row, w[~known])
    return r, e, tie


def _slope_at(base: BaseFit, distance: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Largest tilts of new rows whose responses lie at a distance from their prediction."""
    size = np.abs(distance) + before
    slope = np.where(distance > 0, base.slope(size, 1), base.slope(size, -1))
    return np.minimum(slope, np.where(distance > 0, base.steepest(1), base.steepest(-1)))


@one_thread
def row_tau(fits: Fits, row: np.ndarray, bound: str, z: float | None = None) -> np.ndarray:
    """Stability bounds of one new row (1, p), in units of the response: those of the training rows and then
    its own (n + 1,). They hold for every response, or for ``z``."""
    row, (free,) = fits.coordinates(row)
    if free:
        return np.append(np.zeros(fits.n), np.inf)
    base = fits.base
    moves = reach(base, new_rows(base, row, bound), bound)
    slope = np.array([max(base.steepest(-1), base.steepest(1))])
    if z is not None:
        distance = (z - base.predict(row)) / fits.scale
        slope = np.minimum(slope, _slope_at(base, distance, moves.before(np.zeros(1))))
    return fits.scale * np.append(moves.tau(slope)[0], moves.shift(slope))


def _bounds(
    base: BaseFit, row: np.ndarray, w: np.ndarray, score: Score, bound: str | None, peers: Peers
) -> np.ndarray:
    """Lower and upper bounds on the p-values (2, g) from the base fit."""
    n = len(base.problem.v)
    least, most = (peers.p(np.full((len(w), n), which)) for which in (False, True))
    if bound is None:
        return np.array([least, most])
    moves = reach(base, new_rows(base, np.repeat(row[None], len(w), axis=0), bound), bound)
    distance = w - row @ base.solution.x
    before = moves.before(np.zeros(len(w)))
    slope = _slope_at(base, distance, before)
    with np.errstate(invalid="ignore"):
        tau, own = moves.tau(slope), moves.shift(slope)
        # The new residual lies between 0 and its distance to the base prediction: the fit moves towards z.
        near = np.sign(distance) * np.maximum(np.abs(distance) - own, 0.0)
        ends = np.array([near - before, distance + before, near + before, distance - before])
        low, high = base.solution.r - tau, base.solution.r + tau
    known = np.isfinite(ends).all(axis=0) & ~np.isnan(tau).any(axis=1)
    ends = np.where(known, np.sort(ends, axis=0), 0.0)
    new = score.range(ends[0], ends[-1])
    old = score.range(np.where(known[:, None], low, -np.inf), np.where(known[:, None], high, np.inf))
    tie = ties_of(base.problem.X, base.solution.x)
    lower, upper = (peers.p(one >= two[:, None] - tie) for one, two in ((old[0], new[1]), (old[1], new[0])))
    return np.array([np.where(known, lower, least), np.where(known, upper, most)])
