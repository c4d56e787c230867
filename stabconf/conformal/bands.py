"""Conformalised quantile regression on all the data: exact sets and stable enclosures (theory, section 7).

Two quantile fits make a band; a response is scored by how far it lies outside. In a zone both fits follow
paths in the new response, and the set is read off them, whatever its shape. Location and scale are seen by
the penalty alone, so a zone or gap that the paths of a neighbour decide, with room for that difference, is
not looked at again: with many rows one or two zones are.
"""

from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from ..errors import InputError
from ..path import BandPath, BandRows, merge
from ..scores import Peers
from ..stability import new_rows, reach
from .conformity import refitted
from .exact import require_unique
from .exact.clipped import ClippedPieces
from .intervals import ranked_intervals
from .parallel import Work, in_chunks

__all__ = ["BandFits", "band_conformity", "exact_band", "stable_band"]

_CHUNK = 128  # rows that share the training rows which can decide
_ENTRIES = 2_000_000
_TIE = 1e-10  # scores nearer than this, relative to the scale, are tied
_BOUNDS = ("norm", "paper")
_TERMS = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}


class BandFits:
    """The zones of the response and the two fits in each.

    Parameters
    ----------
    lower, upper : ZoneFits
        Of the same rows with the same location: only the loss differs.
    """

    def __init__(self, lower, upper):
        self.fits = {-1: lower, 1: upper}
        self.zones, self.n, self.X, self.y = lower.zones, lower.n, lower.X, lower.y
        self.scale, self.reference = lower.scale, lower.reference

    def base(self, j):
        """The `ClippedFit`s of zone ``j``."""
        zone = self.zones[j]
        return {sign: fits.clipped(zone.centre, zone.scale) for sign, fits in self.fits.items()}

    @cached_property
    def penalty_norms(self):
        """Norms of the training rows in the inverse of P; 0 without a ridge part, which the location and
        the scale then do not enter (n,)."""
        return self.norms(self.X)

    def norms(self, rows):
        """The same for other rows."""
        ridge = self.fits[1].ridge
        return np.sqrt(np.square(rows) @ (1.0 / ridge)) if np.all(ridge > 0) else np.zeros(len(rows))


class _BandSets:
    """Sets of some new rows, from the zones that must be looked at."""

    def __init__(self, fits, rows, ranks, side):
        self.fits, self.rows, self.ranks, self.terms = fits, rows, ranks, _TERMS[side]
        self.solvers = {sign: ClippedPieces(each, "two-sided") for sign, each in fits.fits.items()}
        self.own = fits.norms(rows)
        self.paths = {}  # of the zones looked at: {zone: {row: [BandPath, ...]}}
        self.pieces = [[[] for _ in rows] for _ in ranks]

    @property
    def tilted(self):
        return sum(solver.tilted for solver in self.solvers.values())

    def run(self):
        """The set of each row as a list of intervals, for each rank."""
        zones = self.fits.zones
        plain = [j for j, zone in enumerate(zones) if not (zone.is_gap or zone.keep)]
        for j in plain + [j for j, zone in enumerate(zones) if zone.is_gap and not zone.keep]:
            verdicts = self._verdicts(j)
            unsure = [i for i in range(len(self.rows)) if any(one[i] is None for one in verdicts)]
            self.paths[j] = dict(zip(unsure, self.follow(j, unsure), strict=True))
            for a, one in enumerate(verdicts):
                for i, verdict in enumerate(one):
                    if verdict:
                        self.pieces[a][i].append((zones[j].lower, zones[j].upper))
                self._look(j, a, [i for i in unsure if one[i] is None])
        kept = [(zone.lower, zone.upper) for zone in zones if zone.keep]
        near = _TIE * self.fits.scale
        return [[merge(found + kept, near=near) for found in pieces] for pieces in self.pieces]

    def follow(self, j, which):
        """`BandPath`s of some rows in zone or gap ``j``; None where they could not be followed."""
        if not which:
            return []
        made = [self.solvers[sign].step_paths(j, self.rows[which]) for sign in (-1, 1)]
        return [
            None
            if low is None or high is None
            else [BandPath.of(*both) for both in zip(low, high, strict=True)]
            for low, high in zip(*made, strict=True)
        ]

    def _verdicts(self, j):
        """For each rank and row True, False or None: zone ``j`` is in, out, or must be looked at."""
        out = [[None] * len(self.rows) for _ in self.ranks]
        looked = [here for here, paths in self.paths.items() if paths and not self.fits.zones[here].is_gap]
        left = set(range(len(self.rows)))
        for here in sorted(looked, key=lambda here: abs(here - j)):
            which = sorted(left & set(self.paths[here]))
            left -= set(which)
            if not which:
                continue
            one, other = self.fits.zones[here], self.fits.zones[j]
            low, high = ((end - one.centre) / one.scale for end in (other.lower, other.upper))
            parts = [self.paths[here][i][0].between(low, high) for i in which]
            slack = self._slack(here, j, parts)
            for a in range(len(self.ranks)):
                rows, narrow = self._deciding(here, a, which, parts, slack)
                for i, part, ends in zip(which, parts, narrow, strict=True):
                    out[a][i] = part.decided(replace(rows, rank=ends), slack, slack * self.own[i])
        return out

    def _slack(self, here, there, parts):
        ridge = self.fits.fits[1].ridge
        length = max(part.largest(ridge) for part in parts)
        return self.fits.fits[1].drift(self.fits.zones[here], self.fits.zones[there], length)[0]

    def _look(self, j, a, which):
        """Add what the paths of zone or gap ``j`` say of some rows."""
        zone = self.fits.zones[j]
        known = [i for i in which if self.paths[j][i] is not None]
        for i in set(which) - set(known):
            self.pieces[a][i].append((zone.lower, zone.upper))
        if not known:
            return
        parts = [path for i in known for path in self.paths[j][i]]
        rows, narrow = self._deciding(j, a, known, parts, 0.0)
        for i, rank in zip(known, narrow, strict=True):
            for path in self.paths[j][i]:
                self.pieces[a][i] += zone.cut_scaled(path.pieces(replace(rows, rank=rank)))

    def _deciding(self, j, a, which, parts, slack):
        """The `BandRows` that can decide some paths around the fits of zone ``j``, and each row's rank."""
        base, rank = self.fits.base(j), self.ranks[a].take(which)
        fit = base[1]
        length = max(part.length(base) for part in parts)
        X, v, count = fit.X[: fit.count], fit.v[: fit.count], fit.count
        scores = np.max([sign * (v - X @ base[sign].theta) for sign in self.terms], axis=0)
        reach = length * fit.row_norms[:count] + slack * self.fits.penalty_norms + 1e-9
        rows, narrow = rank.window(scores - reach, scores + reach)
        ranks = [narrow.take(i) for i in range(len(which))]
        return BandRows(X[rows], v[rows], None, self.fits.penalty_norms[rows], self.terms), ranks


def exact_band(fits, rows, alphas, *, side="two-sided", peers=None, n_jobs=1, progress=None):
    """Exact intervals of conformalised quantile regression.

    Parameters
    ----------
    fits : BandFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
        One-sided sets rank distances above the upper fit, or below the lower one.
    peers : Peers, optional
        Training rows that new ones are ranked among; all by default.
    n_jobs, progress
        As in `exact`.

    Returns
    -------
    list of Intervals
    """
    for each in fits.fits.values():
        require_unique(each)
    peers = peers or Peers(fits.n)
    order = np.argsort(np.linalg.norm(rows, axis=1))  # rows that are alike share what can decide them
    work = Work(rows[order], [peers.take(order).rank(alpha).within() for alpha in alphas])
    chunk = partial(_chunk, fits, side)
    found = in_chunks(chunk, work, n_jobs, progress, size=_CHUNK) if len(rows) else []
    tilted = sum(count for _, count in found)
    out = []
    for a, alpha in enumerate(alphas):
        sets = [pieces for chunks, _ in found for pieces in chunks[a]]
        lower, upper, apart = np.full(len(rows), np.nan), np.full(len(rows), np.nan), {}
        for i, pieces in zip(order, sets, strict=True):
            if pieces:
                lower[i], upper[i] = pieces[0][0], pieces[-1][1]
            if len(pieces) > 1:
                apart[int(i)] = tuple(pieces)
        more = {"pieces": apart, "tilted_fits": tilted, "tol": 0.0}
        out.append(ranked_intervals(lower, upper, peers, alpha, side, "exact", **more))
    return out


def _chunk(fits, side, work):
    """Sets of some of the rows for each rank, and the number of tilted fits."""
    sets = _BandSets(fits, work.rows, work.ranks, side)
    return sets.run(), sets.tilted


def band_conformity(fits, row, z, side, peers):
    """Exact p-values of a new row at candidates (g,)."""
    sets, out = _BandSets(fits, row[None], [], side), np.empty(len(z))
    zone = np.array([fits.fits[1].at(candidate) for candidate in z], dtype=int)
    size = max(1, _ENTRIES // fits.n)
    for j in np.unique(zone):
        paths = None if fits.zones[j].keep else sets.follow(j, [0])[0]
        which = np.flatnonzero(zone == j)
        for first in range(0, len(which), size):
            part = which[first : first + size]
            residuals = {sign: _residuals(fits, j, row, z[part], sign, paths) for sign in sets.terms}
            scores = np.max([sign * r for sign, r in residuals.items()], axis=0)
            out[part] = peers.p(scores[:, :-1] >= scores[:, -1:] - _TIE * fits.scale)
    return out


def _residuals(fits, j, row, z, sign, paths):
    """Residuals of one of the fits at candidates in zone or gap ``j`` (g, N): off the paths where they are
    known, else refitted."""
    zone, out = fits.zones[j], np.empty((len(z), fits.n + 1))
    w, left = (z - zone.centre) / zone.scale, np.ones(len(z), dtype=bool)
    for path in paths or ():
        at = np.flatnonzero(left & path.covers(w))
        fitted = path.at(w[at], sign) @ np.vstack([fits.X, row]).T
        out[at] = np.append(fits.y, 0.0) - zone.centre - zone.scale * fitted
        out[at, -1] += z[at]
        left[at] = False
    if left.any():
        out[left] = refitted(fits.fits[sign], row, z[left])[0]
    return out


def stable_band(fits, rows, alphas, *, side="two-sided", peers=None, bound="norm"):
    """Stable enclosures: each fit may move by its own tau, which is added to its own term of the score.

    Parameters
    ----------
    fits, rows, alphas, side, peers
        As in `exact_band`.
    bound : {"norm", "paper"}

    Returns
    -------
    list of Intervals
    """
    if bound not in _BOUNDS:
        raise InputError(f"bound={bound!r} is unknown here: give one of {', '.join(_BOUNDS)}")
    peers, m = peers or Peers(fits.n), len(rows)
    out = []
    for alpha in alphas:
        ends, surcharge, tau = np.full((2, m), np.nan), np.zeros(m), np.zeros(m)
        for j, zone in enumerate(fits.zones):
            low, high = np.full(m, zone.lower), np.full(m, zone.upper)
            if not zone.keep:
                low, high, extra, moved = _stable_zone(fits, j, rows, peers.rank(alpha), side, bound)
                low, high = np.maximum(low, zone.lower), np.minimum(high, zone.upper)
                some = low <= high
                low, high = np.where(some, low, np.nan), np.where(some, high, np.nan)
                surcharge, tau = np.maximum(surcharge, extra), np.maximum(tau, moved)
            ends = np.array([np.fmin(ends[0], low), np.fmax(ends[1], high)])
        more = {"bound": bound, "surcharge": surcharge, "tau": tau}
        out.append(ranked_intervals(*ends, peers, alpha, side, "stable", **more))
    return out


def _stable_zone(fits, j, rows, rank, side, bound):
    """Ends in one zone as if it were the whole line, what they owe to stability, and the largest tau."""
    scale, m, entries, terms = fits.zones[j].scale, len(rows), {}, _TERMS[side]
    moves, own, eta = {}, {}, {}
    for sign in terms:
        base = fits.fits[sign].fit(j)
        new = new_rows(base, rows, bound)
        found = reach(base, new, bound)
        slope = np.full(found.count, max(base.steepest(-1), base.steepest(1)))
        ((_, metric, _, moves[sign]),) = found.groups(slope)
        own[sign], eta[sign] = scale * found.shift(slope)[new.place], base.predict(rows)
        entries[sign] = sign * base.solution.r, metric.rows
    place, count = new.place, found.count
    if not rank.shared:  # one mass a row
        moves, place, count = {sign: move[new.place] for sign, move in moves.items()}, np.arange(m), m
    level = np.empty(count)
    for first in range(0, count, max(1, _ENTRIES // fits.n)):
        part = np.arange(first, min(first + max(1, _ENTRIES // fits.n), count))
        parts = [entries[sign][0] + moves[sign][part, None] * entries[sign][1] for sign in terms]
        level[part] = rank.take(part).kth(np.max(parts, axis=0))
    level = scale * level[place]
    plain = scale * rank.kth(
        np.broadcast_to(np.max([entries[sign][0] for sign in terms], axis=0), (m, fits.n))
    )
    low = eta[-1] - own[-1] - level if -1 in terms else np.full(m, -np.inf)
    high = eta[1] + own[1] + level if 1 in terms else np.full(m, np.inf)
    with np.errstate(invalid="ignore"):
        extra = len(terms) * (level - plain) + sum(own.values())
    return low, high, np.where(np.isnan(extra), 0.0, extra), np.max(list(own.values()), axis=0)
