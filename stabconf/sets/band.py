"""Conformalised quantile regression on all the data: exact sets and stable enclosures (theory, section 7).

Two quantile fits make a band; a response is scored by how far it lies outside. Both fits follow paths in
the new response, and the set is read off them, whatever its shape. `QuantileResults` calls this.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..losses import Loss
from ..path import BandEnds, BandPath, BandRows, ClippedFit, Piece, Polyline, ends_within
from ..rank import Peers, Rank, kth_of_lines
from ..stability import reach
from ..threads import one_thread
from .candidates import candidate_p, parts_of
from .fits import Fits
from .intervals import Intervals, Pieces, ranked_intervals
from .parallel import Work, in_chunks
from .request import Request
from .score import DIRECTIONS, Side
from .thresholds import Along

__all__ = ["BandFits", "band_conformity", "exact_band", "stable_band"]

_CHUNK = 512  # rows that share the training rows which can decide
_ENTRIES = 2_000_000
_BENDS = 20  # of a path, about
_REACH = 1.0 + 1e-9  # rounding errors of lengths
_MARGIN = 1e-9  # and of scores, in units of the fit
_BOUNDS = ("norm", "paper")


class BandFits:
    """The two fits of a band, of the same rows; loss and centre differ."""

    def __init__(self, lower: Fits, upper: Fits) -> None:
        self.fits = {-1: lower, 1: upper}
        self.n = lower.n
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

    @property
    def clipped(self) -> dict[int, ClippedFit]:
        """The `ClippedFit`s."""
        return {sign: fits.clipped for sign, fits in self.fits.items()}

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As for `Fits`; both fits have the same design and penalty."""
        return self.fits[1].coordinates(rows)

    def paths(self, rows: np.ndarray, terms: Sequence[int] = (-1, 1)) -> dict[int, list[Polyline]]:
        """`Polyline`s of new rows, under the sign of each term of the score."""
        out = {}
        for sign in terms:
            found = self.fits[sign].paths(rows)
            out[sign] = [path for path in found if path is not None]
            assert len(out[sign]) == len(rows)  # the paths of steps are always known somewhere
        return out


def exact_band(fits: BandFits, asked: Request) -> list[Intervals]:
    """Exact intervals of conformalised quantile regression.

    One-sided sets rank distances above the upper fit, or below the lower one.
    """
    rows, peers = asked.rows, asked.peers
    order = np.argsort(np.linalg.norm(rows, axis=1))  # rows that are alike share what can decide them
    work = Work(rows[order], [peers.take(order).rank(alpha).within() for alpha in asked.alphas])
    chunk = partial(_chunk, fits, asked.side)
    found = in_chunks(chunk, work, asked.n_jobs, asked.progress, size=_CHUNK) if len(rows) else []
    loose = np.zeros(len(rows))
    loose[order] = np.concatenate([each for _, each in found]) if found else 0.0
    centre = fits.fits[1].centre
    out = []
    for a, alpha in enumerate(asked.alphas):
        sets = [pieces for chunks, _ in found for pieces in chunks[a]]
        lower, upper = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        apart: dict[int, Pieces] = {}
        for i, pieces in zip(order, sets, strict=True):
            ends = [(centre + fits.scale * low, centre + fits.scale * high) for low, high in pieces]
            if ends:
                lower[i], upper[i] = ends[0][0], ends[-1][1]
            if len(ends) > 1:
                apart[int(i)] = tuple(ends)
        more: dict[str, Any] = {"tilted_fits": 4 * len(rows), "tol": fits.scale * loose, "wanted": 0.0}
        more["pieces"] = apart
        out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, "exact", **more))
    return out


def _chunk(fits: BandFits, side: Side, work: Work) -> tuple[list[list[list[Piece]]], np.ndarray]:
    """Sets of some of the rows for each rank, in units of the upper fit, and how far they may be too
    wide."""
    terms = DIRECTIONS[side]
    paths = fits.paths(work.rows, terms)
    base = fits.clipped
    n = fits.n
    m = len(work.rows)
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
    for rank in work.ranks:
        rows, near = rank.window(scores - moved, scores + moved)
        window = BandRows(X[rows], {sign: each[rows] for sign, each in v.items()}, near, terms)
        least = kth_of_lines(scores, norms, rank, -_REACH * length)
        most = np.full(m, np.inf)
        doubtful = np.flatnonzero(straight & (least - _MARGIN <= peak))
        for part in np.array_split(doubtful, 1 + len(doubtful) * len(rows) * _BENDS // _ENTRIES):
            if len(part):
                least[part], most[part] = window.range(paths, part)
        sets, decided = _decided(ways, window, straight & (least - _MARGIN > peak), most < -_MARGIN)
        every = np.arange(n) if rank.which is None else rank.which
        for i in np.flatnonzero(~decided).tolist():
            if i not in joint:
                joint[i] = BandPath.of({sign: each[i] for sign, each in paths.items()}, fits.shift)
            # A fit that follows the response without end leaves every window.
            which, own = (rows, near) if straight[i] else (every, rank.alone())
            some = BandRows(X[which], {sign: each[which] for sign, each in v.items()}, own.take(i), terms)
            sets[i] = joint[i].pieces(some)
        out.append(sets)
    return out, np.array([joint[i].extent if i in joint else 0.0 for i in range(m)])


def _decided(
    ways: dict[int, BandEnds], window: BandRows, outside: np.ndarray, inside: np.ndarray
) -> tuple[list[list[Piece]], np.ndarray]:
    """Sets that need no path, and for which rows they are known (m,).

    Where no order statistic on the way is below the new score, the set ends beyond the paths
    (``outside``). Where all are negative, as new scores are between the paths alone, it ends there
    (``inside``).
    """
    ends = {
        way: each.ends(window) if way in window.terms else np.full(len(outside), way * np.inf)
        for way, each in ways.items()
    }
    low, high, room = ends_within(ways, window)
    low = np.where(outside, ends[-1], low)
    high = np.where(outside, ends[1], high)
    sets = [
        [(one, two)] if one <= two else [] for one, two in zip(low.tolist(), high.tolist(), strict=True)
    ]
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
    out = np.empty(len(z))
    for part in parts_of(fits.n, len(z)):
        scores, new, tie = [], [], np.zeros(1)
        for sign in DIRECTIONS[side]:
            fit = fits.fits[sign]
            r, e, near = fit.residuals(row, fit.responses(z[part]))
            scores.append(sign * r)
            new.append(sign * e)
            tie = np.maximum(tie, near)
        out[part] = candidate_p(np.max(scores, axis=0), np.max(new, axis=0) - tie, peers, along)
    return out


def stable_band(fits: BandFits, asked: Request) -> list[Intervals]:
    """Stable enclosures: each fit may move by its own tau, which is added to its own term of the score."""
    bound = asked.bound or _BOUNDS[0]
    if bound not in _BOUNDS:
        raise InputError(f"bound={bound!r} is unknown here: give one of {', '.join(_BOUNDS)}")
    moved = {sign: _Moved(fits.fits[sign], asked.rows, bound, sign) for sign in DIRECTIONS[asked.side]}
    out = []
    for alpha in asked.alphas:
        ends, surcharge = _stable_ends(fits, moved, asked.peers.rank(alpha), len(asked.rows))
        tau = np.max([term.own for term in moved.values()], axis=0)
        more = {"bound": bound, "surcharge": surcharge, "tau": tau}
        out.append(ranked_intervals(*ends, asked.peers, alpha, asked.side, "stable", **more))
    return out


class _Moved:
    """One term of the score and how far new rows can move it, at the steepest tilt.

    ``scores`` (n,) are those of the training rows and ``norms`` how far each moves per unit of ``moves``
    (g,), of which the new rows have those at ``place``; ``own`` (m,) are the moves of their own predictions
    ``eta``.
    """

    def __init__(self, fits: Fits, rows: np.ndarray, bound: str, sign: int) -> None:
        base = fits.base
        found = reach(base, rows, bound)
        slope = np.full(found.count, max(base.steepest(-1), base.steepest(1)))
        ((_, metric, _, self.moves),) = found.groups(slope)
        self.place = found.place
        self.own = fits.scale * found.shift(slope)[found.place]
        self.eta = base.predict(rows)
        self.scores = sign * base.solution.r
        self.norms = metric.rows


def _stable_ends(
    fits: BandFits, moved: dict[int, _Moved], rank: Rank, m: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Ends (m,) of the sets at one level, and what they owe to stability."""
    terms = list(moved.values())
    place = terms[0].place
    moves = [term.moves for term in terms]
    if not rank.shared:  # one mass per row
        moves = [each[place] for each in moves]
        place = np.arange(m)
    level = np.empty(len(moves[0]))
    size = max(1, _ENTRIES // fits.n)
    for first in range(0, len(level), size):
        part = np.arange(first, min(first + size, len(level)))
        parts = [
            term.scores + move[part, None] * term.norms for term, move in zip(terms, moves, strict=True)
        ]
        level[part] = rank.take(part).kth(np.max(parts, axis=0))
    level = fits.scale * level[place]
    scores = np.max([term.scores for term in terms], axis=0)
    plain = fits.scale * rank.kth(np.broadcast_to(scores, (m, fits.n)))
    low = moved[-1].eta - moved[-1].own - level if -1 in moved else np.full(m, -np.inf)
    high = moved[1].eta + moved[1].own + level if 1 in moved else np.full(m, np.inf)
    with np.errstate(invalid="ignore"):
        extra = len(terms) * (level - plain) + sum(term.own for term in terms)
    some = low <= high
    ends = np.where(some, low, np.nan), np.where(some, high, np.nan)
    return ends, np.where(np.isnan(extra), 0.0, extra)
