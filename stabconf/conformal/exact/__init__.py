"""Exact full conformal sets (theory, section 5).

On each side the zones are visited from outside; a row is done at the first zone or gap that its set
reaches. Rows whose set may have holes are gone through piece by piece.
"""

from functools import partial

import numpy as np

from ...errors import AssumptionError
from ...path import merge
from ...scores import Peers
from ..intervals import ranked_intervals
from ..options import check_tol
from ..parallel import Work, in_chunks
from .clipped import ClippedPieces
from .pieces import OuterEnds
from .smooth import SmoothPieces

__all__ = ["exact", "make_pieces", "require_unique"]

_JOIN = 1e-9  # of the scale: pieces nearer than this are one
_DIRECTIONS = {"two-sided": (1, -1), "upper": (1,), "lower": (-1,)}


def exact(fits, rows, alphas, *, side="two-sided", tol=1e-6, n_jobs=1, progress=None, peers=None):
    """Exact intervals for new rows.

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
        New design rows, without missing values.
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    tol : float
        For losses whose slope bends (log-cosh, pseudo-Huber, linex, power): how far an end may be from
        the exact one, relative to the scale of the response, and always outside it. The other losses
        are exact but for rounding errors.
    n_jobs : int
        Processes that share the rows; -1 for one a core.
    progress : bool or None
        Show a progress bar; None shows one in a terminal once the work takes long.
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
        One an alpha; the fits are shared, so more alphas cost little.
    """
    check_tol(tol)
    require_unique(fits)
    peers = Peers(fits.n) if peers is None else peers
    finite = [alpha for alpha in alphas if not np.all(peers.open(alpha))]
    work = Work(rows, [peers.rank(alpha).within() for alpha in finite])
    found = in_chunks(partial(_chunk, fits, side, tol), work, n_jobs, progress) if finite else []
    sets = {alpha: [chunk[a] for chunk, _ in found] for a, alpha in enumerate(finite)}
    more = {
        "tilted_fits": sum(count for _, count in found),
        "tol": 0.0 if fits.loss.softness is not None else tol * fits.scale,
    }
    return [_intervals(len(rows), alpha, peers, side, sets.get(alpha, []), more) for alpha in alphas]


def make_pieces(fits, side, tol):
    """The `Pieces` that suit the loss."""
    if fits.loss.softness is None:
        return SmoothPieces(fits, side, tol)
    return ClippedPieces(fits, side)


def require_unique(fits):
    """Raise `AssumptionError` where the fit may not be unique, so that its set is not defined."""
    if np.all(fits.ridge_of_fits > 0):
        return
    zone = fits.zones[fits.reference]
    if fits.loss.softness is None:
        unique = np.all(np.isfinite(fits.fit(fits.reference).base_root.W))
    else:
        unique = fits.clipped(zone.centre, zone.scale).is_unique
    if not unique:
        raise AssumptionError(
            f"the minimiser with loss {fits.loss.describe()} is not unique without the ridge part of the "
            "penalty, so its conformal set is not defined: use penalty > 0 with l1_ratio < 1"
        )


def _chunk(fits, side, tol, work):
    """Sets of some rows, ``(lower, upper, pieces)`` a rank, and the number of tilted fits."""
    solver = make_pieces(fits, side, tol)
    rows, ranks = work.rows, work.ranks
    closed = solver.closed(rows, ranks, _DIRECTIONS[side])
    found = (
        _sets(solver, rows, ranks, side) if closed is None else _closed(solver, rows, ranks, side, *closed)
    )
    return found, solver.tilted


def _intervals(m, alpha, peers, side, chunks, more):
    """The `Intervals` of one alpha, put together from chunks of rows."""
    lower, upper, pieces, first = np.full(m, -np.inf), np.full(m, np.inf), {}, 0
    for low, high, apart in chunks:
        last = first + len(low)
        lower[first:last], upper[first:last] = low, high
        pieces |= {first + i: tuple(found) for i, found in apart.items() if len(found) > 1}
        first = last
    return ranked_intervals(lower, upper, peers, alpha, side, "exact", pieces=pieces, **more)


def _closed(solver, rows, ranks, side, ends, simple):
    """`_sets` from ends that are known but for rows that are not ``simple``, which are taken apart."""
    rest = np.flatnonzero(~simple)
    left = [rank.take(rest) for rank in ranks]
    apart = _sets(solver, rows[rest], left, side) if len(rest) else [()] * len(ranks)
    out, known = [], dict(zip(_DIRECTIONS[side], ends, strict=True))
    for a, found in enumerate(apart):
        lower = known[-1][a].copy() if -1 in known else np.full(len(rows), -np.inf)
        upper = known[1][a].copy() if 1 in known else np.full(len(rows), np.inf)
        pieces = {}
        if len(rest):
            lower[rest], upper[rest], some = found
            pieces = {int(rest[i]): each for i, each in some.items()}
        out.append((lower, upper, pieces))
    return out


def _sets(solver, rows, ranks, side):
    """Lower ends, upper ends and the pieces of sets that were taken apart, for each rank."""
    sides = {direction: _ends(solver, rows, ranks, direction) for direction in _DIRECTIONS[side]}
    out, zones = [], solver.fits.zones
    for a, rank in enumerate(ranks):
        ends = {direction: side_ends[a] for direction, side_ends in sides.items()}
        lower = ends[-1].ends.copy() if -1 in ends else np.full(len(rows), -np.inf)
        upper = ends[1].ends.copy() if 1 in ends else np.full(len(rows), np.inf)
        doubt = np.zeros((len(zones), len(rows)), dtype=bool)
        doubt[:, np.any([side_ends.zone < 0 for side_ends in ends.values()], axis=0)] = True
        if side == "two-sided":
            sure = np.flatnonzero(~doubt.any(axis=0))
            outer = ends[-1].take(sure), ends[1].take(sure)
            doubt[:, sure] = solver.doubtful(rows[sure], rank.take(sure), *outer)
        for side_ends in ends.values():  # an end that is not known says nothing about holes before it
            open_rows = np.flatnonzero(doubt.any(axis=0) & np.isinf(side_ends.ends) & (side_ends.zone >= 0))
            doubt[side_ends.zone[open_rows], open_rows] = True
        known = _settle_zones(solver, rows, rank, doubt, side)
        apart = {i: [] for i in np.flatnonzero(doubt.any(axis=0))}
        for j, zone in enumerate(zones):
            whole = [i for i in apart if doubt[j, i] and (j, i) not in known]
            for i in apart:
                if (j, i) in known or not doubt[j, i]:
                    apart[i] += zone.cut([known.get((j, i), (lower[i], upper[i]))])
            taken = solver.pieces(j, rows[whole], rank.take(whole)) if whole else ()
            for i, found in zip(whole, taken, strict=True):
                apart[i] += found
        pieces = {}
        for i, found in apart.items():
            pieces[i] = merge(found, near=_JOIN * solver.fits.scale)
            lower[i], upper[i] = (pieces[i][0][0], pieces[i][-1][1]) if pieces[i] else (np.nan, np.nan)
        out.append((lower, upper, pieces))
    return out


def _settle_zones(solver, rows, rank, doubt, side):
    """Two-sided sets in doubtful zones, where their ends tell all: ``{(j, i): (lower, upper)}``."""
    out = {}
    for j, zone in enumerate(solver.fits.zones):
        which = np.flatnonzero(doubt[j])
        if zone.keep or zone.is_gap or side != "two-sided" or not len(which):
            continue
        low, high = (solver.ends(j, rows[which], [rank.take(which)], direction) for direction in (-1, 1))
        known = np.isfinite(low.ends[0]) & np.isfinite(high.ends[0])
        simple = low.simple[0] & high.simple[0] & known
        ends = zip(which[simple], low.ends[0, simple], high.ends[0, simple], strict=True)
        out |= {(j, i): (lower, upper) for i, lower, upper in ends}
    return out


def _ends(solver, rows, ranks, direction):
    """`OuterEnds` on one side, for each rank; their zone is -1 where the set must be taken apart."""
    m, zones = len(rows), solver.fits.zones
    done, outer = ([OuterEnds.unknown(*rows.shape) for _ in ranks] for _ in range(2))
    left = np.ones((len(ranks), m), dtype=bool)
    for j in range(len(zones) - 1, -1, -1) if direction > 0 else range(len(zones)):
        zone = zones[j]
        if zone.keep:
            far = zone.upper if direction > 0 else zone.lower
            for a in range(len(ranks)):
                done[a].ends[left[a]], done[a].zone[left[a]] = far, j
            break
        if zone.is_gap:
            for a, rank in enumerate(ranks):
                _visit_gap(solver, j, rows, rank, direction, left[a], outer[a], done[a])
            continue
        which = np.flatnonzero(left.any(axis=0))
        if not len(which):
            break
        found = solver.ends(j, rows[which], [rank.take(which) for rank in ranks], direction)
        for a in range(len(ranks)):
            here = found.of_rank(a, j)
            outer[a].put(which, here, j)
            beyond = direction * (found.prediction[a] - (zone.upper if direction > 0 else zone.lower)) > 0
            _visit_zone(zone, j, here, found.simple[a], beyond, which, direction, left[a], done[a])
    return done


def _visit_zone(zone, j, here, simple, beyond, which, direction, left, done):
    """Settle the rows whose set reaches zone ``j``, or which must be taken apart.

    ``beyond`` are the rows whose prediction lies outside the zone, so that the set may do so wholly.
    """
    far, near = (zone.upper, zone.lower) if direction > 0 else (zone.lower, zone.upper)
    with np.errstate(invalid="ignore"):
        reached = direction * (here.ends - near) >= 0
    unclear = left[which] & (~simple | (reached & beyond))
    settled = left[which] & reached & ~unclear
    done.put(which[settled], here.take(settled), j)
    done.ends[which[settled]] = direction * np.minimum(direction * here.ends[settled], direction * far)
    left[which[settled | unclear]] = False


def _visit_gap(solver, j, rows, rank, direction, left, outer, done):
    """Settle the rows whose set reaches gap ``j``."""
    may = np.flatnonzero(left)
    if len(may):
        may = may[solver.may_reach(j, rows[may], rank.take(may), direction, outer.take(may))]
    taken = solver.pieces(j, rows[may], rank.take(may)) if len(may) else ()
    for i, found in zip(may, taken, strict=True):
        if found:
            done.put(i, outer.take(i), j)
            done.ends[i] = found[-1][1] if direction > 0 else found[0][0]
            left[i] = False
