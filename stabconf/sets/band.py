"""Conformalised quantile regression on all the data: exact sets and stable enclosures (theory, section 7).

Two quantile fits make a band; a response is scored by how far it lies outside. Both fits follow paths in
the new response, and the set is read off them, whatever its shape.
"""

from functools import partial

import numpy as np

from ..errors import InputError
from ..path import BandPath, BandRows
from ..rank import Peers
from ..stability import new_rows, reach
from .candidates import known_or_refitted
from .exact.clipped import ClippedSets
from .intervals import ranked_intervals
from .parallel import Work, in_chunks
from .score import DIRECTIONS, Score

__all__ = ["BandFits", "band_conformity", "exact_band", "stable_band"]

_CHUNK = 128  # rows that share the training rows which can decide
_ENTRIES = 2_000_000
_BOUNDS = ("norm", "paper")


class BandFits:
    """The two fits of a band.

    Parameters
    ----------
    lower, upper : Fits
        Of the same rows; loss and centre differ.
    """

    def __init__(self, lower, upper):
        self.fits = {-1: lower, 1: upper}
        self.n, self.scale = lower.n, lower.scale
        self.loss = upper.loss

    @property
    def given(self):
        """As for `Fits`."""
        return self.fits[1].given

    @property
    def shift(self):
        """How much larger responses are in units of the lower fit."""
        return (self.fits[1].centre - self.fits[-1].centre) / self.scale

    @property
    def clipped(self):
        """The `ClippedFit`s."""
        return {sign: fits.clipped for sign, fits in self.fits.items()}

    def coordinates(self, rows):
        """As for `Fits`; both fits have the same design and penalty."""
        return self.fits[1].coordinates(rows)

    def paths(self, rows):
        """`BandPath`s of new rows."""
        made = {sign: ClippedSets(fits, Score()).paths(rows) for sign, fits in self.fits.items()}
        return [BandPath.of(*both, self.shift) for both in zip(made[-1], made[1], strict=True)]


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
    peers = peers or Peers(fits.n)
    order = np.argsort(np.linalg.norm(rows, axis=1))  # rows that are alike share what can decide them
    work = Work(rows[order], [peers.take(order).rank(alpha).within() for alpha in alphas])
    found = in_chunks(partial(_chunk, fits, side), work, n_jobs, progress, size=_CHUNK) if len(rows) else []
    loose = np.zeros(len(rows))
    loose[order] = np.concatenate([each for _, each in found]) if found else 0.0
    centre = fits.fits[1].centre
    out = []
    for a, alpha in enumerate(alphas):
        sets = [pieces for chunks, _ in found for pieces in chunks[a]]
        lower, upper, apart = np.full(len(rows), np.nan), np.full(len(rows), np.nan), {}
        for i, pieces in zip(order, sets, strict=True):
            ends = [tuple(centre + fits.scale * end for end in piece) for piece in pieces]
            if ends:
                lower[i], upper[i] = ends[0][0], ends[-1][1]
            if len(ends) > 1:
                apart[int(i)] = tuple(ends)
        more = {"pieces": apart, "tilted_fits": 4 * len(rows), "tol": fits.scale * loose, "wanted": 0.0}
        out.append(ranked_intervals(lower, upper, peers, alpha, side, "exact", **more))
    return out


def _chunk(fits, side, work):
    """Sets of some of the rows for each rank, in units of the upper fit, and how far they may be too
    wide."""
    paths = fits.paths(work.rows)
    loose = np.array([path.extent for path in paths])
    fit, base = fits.clipped[1], fits.clipped
    X, v = fit.X[: fit.count], {sign: each.v[: fit.count] for sign, each in base.items()}
    terms = DIRECTIONS[side]
    scores = np.max([sign * base[sign].r[: fit.count] for sign in terms], axis=0)
    longest = max(path.length({sign: base[sign] for sign in terms}) for path in paths)
    reach = np.max([each.row_norms[: fit.count] for each in base.values()], axis=0) * longest + 1e-9
    straight = [all(not move.any() for sign in terms for move, _ in path.rays[sign]) for path in paths]
    out = []
    for rank in work.ranks:
        rows, near = rank.window(scores - reach, scores + reach)
        every = np.arange(fit.count) if rank.which is None else rank.which
        sets = []
        for i, path in enumerate(paths):
            # A fit that follows the response without end leaves every window.
            which, own = (rows, near) if straight[i] else (every, rank.alone())
            known = BandRows(X[which], {sign: each[which] for sign, each in v.items()}, own.take(i), terms)
            sets.append(path.pieces(known))
        out.append(sets)
    return out, loose


def band_conformity(fits, row, z, side, peers):
    """Exact p-values of a new row at candidates (g,)."""
    (row,), _ = fits.coordinates(row[None])
    out, size = np.empty(len(z)), max(1, _ENTRIES // fits.n)
    for first in range(0, len(z), size):
        part = z[first : first + size]
        scores, new, tie = [], [], 0.0
        for sign in DIRECTIONS[side]:
            r, e, near = _residuals(fits.fits[sign], row, part)
            scores.append(sign * r)
            tie = np.maximum(tie, near)
            new.append(sign * e)
        above = np.max(scores, axis=0) >= (np.max(new, axis=0) - tie)[:, None]
        out[first : first + size] = peers.p(above)
    return out


def _residuals(fits, row, z):
    """Residuals of a fit at candidates, of the training rows (g, n) and of the new one (g,), in its units,
    and differences of scores that are ties (g,)."""
    w = fits.responses(z)
    return known_or_refitted(fits, ClippedSets(fits, Score()).residuals(row, w), row, w)


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
    peers, out = peers or Peers(fits.n), []
    for alpha in alphas:
        low, high, surcharge, tau = _stable_ends(fits, rows, peers.rank(alpha), side, bound)
        more = {"bound": bound, "surcharge": surcharge, "tau": tau}
        out.append(ranked_intervals(low, high, peers, alpha, side, "stable", **more))
    return out


def _stable_ends(fits, rows, rank, side, bound):
    """Ends, what they owe to stability, and the largest tau, each (m,)."""
    scale, m, entries, terms = fits.scale, len(rows), {}, DIRECTIONS[side]
    moves, own, eta = {}, {}, {}
    for sign in terms:
        base = fits.fits[sign].base
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
    some = low <= high
    low, high = np.where(some, low, np.nan), np.where(some, high, np.nan)
    return low, high, np.where(np.isnan(extra), 0.0, extra), np.max(list(own.values()), axis=0)
