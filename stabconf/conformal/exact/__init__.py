"""Exact full conformal sets (theory, section 5).

On each side the zones are visited from outside; a row is done at the first zone or gap that its set
reaches. Rows whose set might have holes are gone through piece by piece.
"""

import numpy as np

from ...path import merge
from ...scores import conformal_rank
from ..intervals import Intervals
from .clipped import ClippedPieces
from .pieces import OuterEnds
from .smooth import SmoothPieces

__all__ = ["exact"]

_JOIN = 1e-9  # of the scale: pieces nearer than this are one
_DIRECTIONS = {"two-sided": (1, -1), "upper": (1,), "lower": (-1,)}


def exact(fits, rows, alphas, *, side="two-sided", tol=1e-6):
    """Exact intervals for new rows, one `Intervals` an alpha.

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    tol : float
        For losses whose slope is not clipped: ends are within this much of the exact ones, relative to
        the scale of the response.
    """
    ranks = [conformal_rank(alpha, fits.n) for alpha in alphas]
    finite = sorted({k for k in ranks if k <= fits.n})
    clipped = fits.loss.softness is not None
    solver = ClippedPieces(fits, side) if clipped else SmoothPieces(fits, side, tol)
    found = dict(zip(finite, _sets(solver, rows, finite, side), strict=True))
    return found, solver


def _sets(solver, rows, ranks, side):
    """Lower ends, upper ends and the pieces of sets that were taken apart, for each rank."""
    sides = {direction: _ends(solver, rows, ranks, direction) for direction in _DIRECTIONS[side]}
    out, zones = [], solver.fits.zones
    for a, k in enumerate(ranks):
        ends = {direction: side_ends[a] for direction, side_ends in sides.items()}
        lower = ends[-1].ends.copy() if -1 in ends else np.full(len(rows), -np.inf)
        upper = ends[1].ends.copy() if 1 in ends else np.full(len(rows), np.inf)
        careful = np.any([side_ends.zone < 0 for side_ends in ends.values()], axis=0)
        if side == "two-sided":
            sure = np.flatnonzero(~careful)
            low, high = ends[-1].take(sure), ends[1].take(sure)
            careful[sure] = ~solver.unbroken(rows[sure], k, low, high)
        pieces = {}
        for i in np.flatnonzero(careful):
            found = [piece for j in range(len(zones)) for piece in solver.pieces(j, rows[i], k)]
            pieces[i] = merge(found, near=_JOIN * solver.fits.scale)
            lower[i], upper[i] = (pieces[i][0][0], pieces[i][-1][1]) if pieces[i] else (np.nan, np.nan)
        out.append((lower, upper, pieces))
    return out


def _ends(solver, rows, ranks, direction):
    """`OuterEnds` on one side, for each rank; their zone is -1 where the set must be taken apart."""
    m, zones = len(rows), solver.fits.zones
    ends, size, where = np.full((len(ranks), m), np.nan), np.zeros((len(ranks), m)), np.full((len(ranks), m), -1)
    left = np.ones((len(ranks), m), dtype=bool)
    outer = [OuterEnds(ends[a].copy(), size[a].copy(), where[a].copy()) for a in range(len(ranks))]
    for j in range(len(zones) - 1, -1, -1) if direction > 0 else range(len(zones)):
        zone = zones[j]
        far, near = (zone.upper, zone.lower) if direction > 0 else (zone.lower, zone.upper)
        if zone.keep:
            ends[left], where[left] = far, j
            break
        if zone.is_gap:
            for a, k in enumerate(ranks):
                for i in _reaching(solver, j, rows, k, direction, np.flatnonzero(left[a]), outer[a]):
                    found = solver.pieces(j, rows[i], k)
                    if found:
                        ends[a, i] = found[-1][1] if direction > 0 else found[0][0]
                        where[a, i], size[a, i], left[a, i] = j, outer[a].size[i], False
            continue
        which = np.flatnonzero(left.any(axis=0))
        if not len(which):
            break
        found = solver.ends(j, rows[which], ranks, direction)
        beyond = direction * (found.prediction - far) > 0  # the set may lie wholly outside the zone
        for a in range(len(ranks)):
            waits = left[a, which]
            outer[a].ends[which], outer[a].size[which], outer[a].zone[which] = found.ends[a], found.size, j
            with np.errstate(invalid="ignore"):
                reached = direction * (found.ends[a] - near) >= 0
            unclear = waits & (~found.simple[a] | (reached & beyond))
            done = waits & reached & ~unclear
            at = which[done]
            ends[a, at] = direction * np.minimum(direction * found.ends[a, done], direction * far)
            size[a, at], where[a, at] = found.size[done], j
            left[a, which[done | unclear]] = False
    return [OuterEnds(ends[a], size[a], where[a]) for a in range(len(ranks))]


def _reaching(solver, j, rows, k, direction, left, outer):
    """Rows among ``left`` whose set may reach into gap ``j``."""
    if not len(left):
        return left
    return left[solver.may_reach(j, rows[left], k, direction, outer.take(left))]
