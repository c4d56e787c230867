"""Conformalised quantile regression on all the data: exact sets and stable enclosures (theory, section 7).

Two quantile fits make a band; a response is scored by how far it lies outside. Both fits follow paths in
the new response, and the set is read off them, whatever its shape. `QuantileResults` calls this.
"""

from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..losses import Loss
from ..path import BandEnds, BandPath, BandRows, ClippedFit, Piece, Polyline, ends_within
from ..rank import Peers, kth_of_lines
from ..stability import reach
from ..threads import one_thread
from .candidates import joint_p
from .fits import Fits
from .intervals import Intervals, hulls, nonempty, ranked_intervals
from .parallel import parts_of
from .request import Request
from .score import DIRECTIONS, Score, Side
from .thresholds import Along

_CHUNK = 512  # rows that share the training rows which can decide
_ENTRIES = 2_000_000
_BENDS = 20  # of a path, about
_REACH = 1.0 + 1e-9  # rounding errors of lengths
_MARGIN = 1e-9  # and of scores, in units of the fit
_BOUNDS = ("norm", "paper")


class BandFits:
    """The two fits of a band, of the same rows: loss and centre differ, the scale is that of the upper."""

    def __init__(self, lower: Fits, upper: Fits) -> None:
        self.fits = {-1: lower.in_unit(upper.scale), 1: upper}
        self.n = upper.n
        self.centre, self.scale = upper.centre, upper.scale  # the units of sets
        self.loss: Loss = upper.loss

    @property
    def given(self) -> str:
        """As for `Fits`."""
        return self.fits[1].given

    @property
    def shift(self) -> float:
        """How much larger responses are in units of the lower fit."""
        return (self.fits[1].centre - self.fits[-1].centre) / self.scale

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As for `Fits`; both fits have the same design and penalty."""
        return self.fits[1].coordinates(rows)


def exact_band(fits: BandFits, asked: Request) -> list[Intervals]:
    """Exact intervals of conformalised quantile regression. One-sided sets rank distances above the upper
    fit, or below the lower one."""
    rows, peers = asked.rows, asked.peers
    order = np.argsort(np.linalg.norm(rows, axis=1))  # rows that are alike share what can decide them
    ordered = asked.take(order, peers.take(order))
    found = asked.in_chunks(partial(_chunk, fits), ordered, _CHUNK) if len(rows) else []
    loose = np.zeros(len(rows))
    loose[order] = np.concatenate([each for _, each in found]) if found else 0.0
    more: dict[str, Any] = {"tilted_fits": 4 * len(rows), "tol": fits.scale * loose, "wanted": 0.0}
    out = []
    for a, alpha in enumerate(asked.alphas):
        sets = [pieces for chunks, _ in found for pieces in chunks[a]]
        lower, upper, apart = hulls([sets[j] for j in np.argsort(order)])
        lower, upper = (fits.centre + fits.scale * end for end in (lower, upper))
        several = {i: (fits.centre + fits.scale * np.array(each)).tolist() for i, each in apart.items()}
        more["pieces"] = {i: tuple(map(tuple, each)) for i, each in several.items()}
        out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, "exact", **more))
    return out


def _chunk(fits: BandFits, asked: Request) -> tuple[list[list[list[Piece]]], np.ndarray]:
    """Sets of some rows for each rank, in units of the upper fit, and how much too wide they may be."""
    terms = DIRECTIONS[asked.side]
    base = {sign: one.clipped for sign, one in fits.fits.items()}
    n, m = fits.n, len(asked)
    every = {sign: fits.fits[sign].paths(asked.rows) for sign in terms}
    paths = {sign: [path for path in found if path is not None] for sign, found in every.items()}
    assert all(len(found) == m for found in paths.values())  # those of steps are always known somewhere
    X = base[1].X[:n]
    v = {sign: fit.v[:n] for sign, fit in base.items()}
    scores = np.max([sign * base[sign].r[:n] for sign in terms], axis=0)
    norms = np.max([fit.row_norms[:n] for fit in base.values()], axis=0)
    length = np.max([_lengths(base[sign], paths[sign]) for sign in terms], axis=0)
    moved = norms * np.max(length) + _MARGIN
    straight = np.all([[path.straight for path in paths[sign]] for sign in terms], axis=0)
    ways = {way: BandEnds.of(paths, way, fits.shift) for way in (-1, 1)}
    peak = np.max([each.peak for each in ways.values()], axis=0)
    joint: dict[int, BandPath] = {}
    out = []
    for rank in asked.ranks:
        rows, near = rank.window(scores - moved, scores + moved)
        window = BandRows(X[rows], {sign: each[rows] for sign, each in v.items()}, near, terms)
        least = kth_of_lines(scores, norms, rank, -_REACH * length)
        most = np.full(m, np.inf)
        doubtful = np.flatnonzero(straight & (least - _MARGIN <= peak))
        for part in np.array_split(doubtful, 1 + len(doubtful) * len(rows) * _BENDS // _ENTRIES):
            if len(part):
                least[part], most[part] = window.range(paths, part)
        sets, decided = _decided(ways, window, straight & (least - _MARGIN > peak), most < -_MARGIN)
        all_rows = np.arange(n) if rank.which is None else rank.which
        for i in np.flatnonzero(~decided).tolist():
            if i not in joint:
                joint[i] = BandPath.of({sign: each[i] for sign, each in paths.items()}, fits.shift)
            # A fit that follows the response without end leaves every window.
            which, own = (rows, near) if straight[i] else (all_rows, rank.alone())
            some = BandRows(X[which], {sign: each[which] for sign, each in v.items()}, own.take(i), terms)
            sets[i] = joint[i].pieces(some)
        out.append(sets)
    return out, np.array([joint[i].extent if i in joint else 0.0 for i in range(m)])


def _decided(
    ways: dict[int, BandEnds], window: BandRows, outside: np.ndarray, inside: np.ndarray
) -> tuple[list[list[Piece]], np.ndarray]:
    """Sets that need no path, and for which rows they are known (m,). Where no order statistic on the way
    is below the new score, the set ends beyond the paths (``outside``). Where all are negative, as new
    scores are between the paths alone, it ends there (``inside``)."""
    *ends, room = ends_within(ways, window)
    for j, way in enumerate((-1, 1)):
        beyond = ways[way].ends(window) if way in window.terms else way * np.inf
        ends[j] = np.where(outside, beyond, ends[j])
    sets = [[(low, high)] if low <= high else [] for low, high in np.transpose(ends).tolist()]
    return sets, outside | (inside & room)


def _lengths(fit: ClippedFit, paths: list[Polyline]) -> np.ndarray:
    """Longest moves from the base fit between the corners of each path, in its metric (m,)."""
    first = np.cumsum([0, *(len(path.theta) for path in paths)])[:-1]
    moves = np.concatenate([path.theta for path in paths]) - fit.theta
    return np.maximum.reduceat(fit.length(moves), first)


@one_thread
def band_conformity(
    fits: BandFits, row: np.ndarray, z: np.ndarray, side: Side, peers: Peers, along: Along | None = None
) -> np.ndarray:
    """Exact p-values of a new row at candidates (g,)."""
    (row,), _ = fits.coordinates(row[None])
    terms = [(fits.fits[sign], Score(sign=sign), 1.0) for sign in DIRECTIONS[side]]
    return joint_p(terms, row, z, peers, along=along)


def stable_band(fits: BandFits, asked: Request) -> list[Intervals]:
    """Stable enclosures: each fit may move by its own tau, which is added to its own term of the score."""
    bound = asked.bound or _BOUNDS[0]
    if bound not in _BOUNDS:
        raise InputError(f"bound={bound!r} is unknown here: give one of {', '.join(_BOUNDS)}")
    signs = DIRECTIONS[asked.side]
    tau, eta, lines = {}, {}, []
    for sign in signs:
        base = fits.fits[sign].base
        found = reach(base, asked.rows, bound, shared=asked.peers.own is None)  # weights: a mass per row
        slope = np.full(found.count, max(base.steepest(-1), base.steepest(1)))
        ((_, metric, _, move),) = found.groups(slope)
        lines.append((sign * base.solution.r, metric.rows, move))
        tau[sign] = fits.scale * found.shift(slope)[found.place]
        eta[sign] = base.predict(asked.rows)
    m = len(asked.rows)
    scores = np.max([values for values, _, _ in lines], axis=0)
    out = []
    for alpha in asked.alphas:
        rank = asked.peers.rank(alpha)
        level = np.empty(len(move))
        for part in parts_of(fits.n, len(level)):
            terms = [values + move[part, None] * norms for values, norms, move in lines]
            level[part] = rank.take(part).kth(np.max(terms, axis=0))
        level = fits.scale * level[found.place]
        plain = fits.scale * rank.kth(np.broadcast_to(scores, (m, fits.n)))
        low = eta[-1] - tau[-1] - level if -1 in eta else np.full(m, -np.inf)
        high = eta[1] + tau[1] + level if 1 in eta else np.full(m, np.inf)
        with np.errstate(invalid="ignore"):
            extra = len(signs) * (level - plain) + sum(tau.values())
        more: dict[str, Any] = {"bound": bound, "surcharge": np.where(np.isnan(extra), 0.0, extra)}
        more["tau"] = np.max(list(tau.values()), axis=0)
        low, high = nonempty(low, high)
        out.append(ranked_intervals(low, high, asked.peers, alpha, asked.side, "stable", **more))
    return out
