"""Joint sets of several responses: boxes by the largest of the components' scores (theory, section 8).

Each response has a fit of its own, of the same design. A row is scored by the largest of its residuals in
units of their scales s_j, and that one score is ranked. `SeveralResults` calls these methods by name; those
that hold rows out are in `heldout`. Every method gives one record per level and response, level by level.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..data.units import MAD_TO_SD, location_scale
from ..errors import AssumptionError
from ..losses import Loss
from ..path import Polyline
from ..rank import Peers, Rank
from ..stability import needs_range, reach
from ..threads import one_thread
from .candidates import joint_p
from .enclosure import bound_of
from .fits import Fits
from .intervals import Intervals, ranked_intervals
from .parallel import parts_of
from .request import Request
from .score import FixedScale, Score

_PERFECT = 1e-6  # of the response's scale: residuals below it are rounding errors of a perfect fit
_ENTRIES = 2_000_000
_CHUNK = 64  # rows, also the step of the progress bar
_ROUNDS, _ROUNDS_FROM_AFAR = 2, 60  # of following the level down
_DOUBLINGS = 60
_HALVINGS = 60


def score_unit(sigma: float, y: np.ndarray) -> float:
    """s_j: the residual scale ``sigma`` of responses (n,), or their own scale where the fit is perfect."""
    scale = location_scale(y)[1]
    return sigma if sigma > _PERFECT * scale else scale


@dataclass(frozen=True)
class SpreadScale(FixedScale):
    """The residual scale of the rows that a part was fitted to, one number for all rows; ``y`` (n,)."""

    y: np.ndarray = field(default_factory=lambda: np.empty(0))

    def scales(self, which: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        unit = score_unit(MAD_TO_SD * float(np.median(np.abs(r))), self.y[which])
        return unit * self.trained, unit * self.new


class SeveralFits:
    """The fits of q responses, of the same rows and with the same penalty.

    ``units`` (q,) are the s_j, in units of the responses; ``learned`` says whether they are statistics of
    the training rows.
    """

    def __init__(self, each: Sequence[Fits], units: Sequence[float], learned: bool) -> None:
        self.each = list(each)
        self.units = np.array(units)
        self.learned = learned
        self.n = self.each[0].n
        self.loss: Loss = self.each[0].loss

    @property
    def given(self) -> str:
        """As for `Fits`."""
        return self.each[0].given

    @property
    def shares(self) -> np.ndarray:
        """One unit of each fit in units of the scores (q,)."""
        return np.array([fits.scale for fits in self.each]) / self.units

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As for `Fits`; all fits have the same design and penalty."""
        return self.each[0].coordinates(rows)

    def part_scale(self, fits: Fits, count: int) -> FixedScale:
        """The scale by which fits to parts of the rows score one of the responses, and ``count`` new
        rows."""
        ones = np.ones(self.n), np.ones(count)
        return SpreadScale(*ones, y=fits.y) if self.learned else FixedScale(*ones)


# Stable -----------------------------------------------------------------------------------------------


def stable_boxes(fits: SeveralFits, asked: Request) -> list[Intervals]:
    """Boxes that enclose the exact sets, from one fit of each response for all new rows.

    A new score u means residuals of at most s_j u and so tilts of at most the slope there. They bound how
    far all scores move: u can be in the set only if it is at most G(u), the k-th smallest bound. G never
    decreases, so that iterating it from above ends at (and never passes) the largest such u.
    """
    bound = bound_of(fits.each[0], asked.bound)
    if bound == "paper" and needs_range(fits.loss):
        raise AssumptionError(
            f"bound='paper' says nothing of loss {fits.loss.describe()} beyond the range of the training "
            "responses: use bound='curvature'"
        )
    m, q = len(asked.rows), len(fits.each)
    out = []
    for alpha in asked.alphas:
        level, plain, shift = np.empty(m), np.empty(m), np.empty((m, q))
        for part in parts_of(fits.n * q, 0 if np.all(asked.peers.open(alpha)) else m):
            ask = _Joint(fits, asked.rows[part], bound, asked.peers.take(part).rank(alpha).within())
            level[part], shift[part], plain[part] = ask.level()
        for j, one in enumerate(fits.each):
            half = fits.units[j] * level + one.scale * shift[:, j]
            centre = one.base.predict(asked.rows)
            ends = centre - half, centre + half
            with np.errstate(invalid="ignore"):
                extra = 2.0 * (half - fits.units[j] * plain)
            more = {"surcharge": extra, "tau": one.scale * shift[:, j], "bound": bound}
            out.append(ranked_intervals(*ends, asked.peers, alpha, asked.side, "stable", **more))
    return out


class _Joint:
    """New rows and how far they can move the scores of all rows, which are in units of the s_j."""

    def __init__(self, fits: SeveralFits, rows: np.ndarray, bound: str, rank: Rank) -> None:
        self.shares = fits.shares
        self.rank = rank
        self.moves = [reach(one.base, rows, bound, shared=False) for one in fits.each]
        self.m = len(rows)

    def level(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Upper bounds on the scores in the sets (m,), the moves of the new predictions that go along in
        units of the fits (m, q), and the order statistic of the fits themselves (m,)."""
        sizes = [np.abs(move.residuals) * by for move, by in zip(self.moves, self.shares, strict=True)]
        plain = self.rank.kth(np.broadcast_to(np.max(sizes, axis=0), (self.m, len(sizes[0]))))
        bases = [move.base for move in self.moves]
        slopes = [np.full(self.m, max(base.steepest(-1), base.steepest(1))) for base in bases]
        if np.all(np.isfinite(slopes)):
            u, rounds = self._order(slopes), _ROUNDS
        else:
            u, rounds = self._ceiling(plain), _ROUNDS_FROM_AFAR
        steps = all(base.problem.loss.kind == "step" for base in bases)
        for _ in range(0 if steps else rounds):
            lower = [np.minimum(*each) for each in zip(slopes, self._slopes(u), strict=True)]
            if np.array_equal(lower, slopes):
                break
            slopes = lower
            u = np.fmin(u, self._order(slopes))
        far = np.isinf(u)
        ends = zip(self.moves, slopes, strict=True)
        shift = [np.where(far, 0.0, move.shift(np.where(far, 0.0, slope))) for move, slope in ends]
        return u, np.column_stack(shift), plain

    def _slopes(self, u: np.ndarray) -> list[np.ndarray]:
        """Largest tilts of each fit at scores of the new rows (m,)."""
        return [
            np.maximum(*(move.base.slope(u / share, way) for way in (-1, 1)))
            for move, share in zip(self.moves, self.shares, strict=True)
        ]

    def _order(self, slopes: list[np.ndarray]) -> np.ndarray:
        """G: the order statistic of upper bounds on the scores at these tilts (m,)."""
        ways = zip(self.moves, slopes, self.shares, strict=True)
        with np.errstate(invalid="ignore"):  # an infinite tilt at a row of length 0
            most = [share * (np.abs(move.residuals) + move.tau(slope)) for move, slope, share in ways]
        return self.rank.kth(np.maximum.reduce(most))

    def _ceiling(self, plain: np.ndarray) -> np.ndarray:
        """A score beyond which none passes ``u <= G(u)``, for losses without a largest slope (m,); ``inf``
        if unknown.

        Rows that have the mass bound G from above: component by component their highest residual plus their
        largest norm times a move, which is concave in u where the slope is, and so crossed once.
        """
        out = np.full(self.m, np.inf)
        if not all(move.base.problem.loss.concave_slope for move in self.moves):
            return out
        sizes = np.array([np.abs(move.residuals) for move in self.moves]) * self.shares[:, None]
        norms = np.array([move.base.metric(move.widest).rows for move in self.moves])
        norms = norms * self.shares[:, None]
        for order in (np.max(norms, axis=0), np.max(sizes, axis=0)):
            u = np.maximum(1e-3, 2.0 * plain)
            rows, last = self.rank.first(order)
            last = np.minimum(last, len(rows) - 1)
            high, rise = (np.maximum.accumulate(each[:, rows], axis=1)[:, last] for each in (sizes, norms))
            for _ in range(_DOUBLINGS):
                ways = zip(high, rise, self.moves, self._slopes(u), strict=True)
                above = np.maximum.reduce([top + rate * move.moves_at(t) for top, rate, move, t in ways])
                out = np.where(np.isinf(out) & (above <= u), u, out)
                u = 2.0 * u
        return out


# Exact ------------------------------------------------------------------------------------------------


def exact_boxes(fits: SeveralFits, asked: Request) -> list[Intervals]:
    """The smallest boxes around the exact sets of LAD and quantile loss.

    Beyond its fit a response no longer changes it, and along the way from one end tilt to the other its own
    residual is 0. So the upper end of response j is its upper tilted fit plus s_j times the largest order
    statistic over all points of the other responses' paths.
    """
    if fits.loss.kind != "step":
        raise AssumptionError(
            f"method='exact' for several responses needs loss 'lad' or 'quantile', for it rests on fits "
            f"that a far response no longer moves; with {fits.loss.name} use method='stable', which "
            "encloses the exact set"
        )
    rows, peers, q = asked.rows, asked.peers, len(fits.each)
    ends = np.zeros((len(asked.alphas), q, 3, len(rows)))
    finite = [a for a, alpha in enumerate(asked.alphas) if not np.all(peers.open(alpha))]
    if finite and len(rows):
        some = replace(asked, alphas=tuple(asked.alphas[a] for a in finite))
        ends[finite] = np.concatenate(asked.in_chunks(partial(_chunk, fits), some, _CHUNK), axis=3)
    unknown = np.isnan(ends[:, :, 0])
    if unknown.any():
        ends[:, :, :2] = np.where(unknown[:, :, None], _enclosing(fits, asked), ends[:, :, :2])
        ends[:, :, 2] = np.where(unknown, np.inf, ends[:, :, 2])
    out = []
    for a, alpha in enumerate(asked.alphas):
        for one, (lower, upper, tol) in zip(fits.each, ends[a], strict=True):
            more = {"tol": tol, "wanted": 2.0 * asked.tol * one.scale, "tilted_fits": 2 * len(rows)}
            out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, "exact", **more))
    return out


def _enclosing(fits: SeveralFits, asked: Request) -> np.ndarray:
    """Ends of stable boxes (len(alphas), q, 2, m), infinite where there are none."""
    shape = len(asked.alphas), len(fits.each), 2, len(asked.rows)
    try:
        made = stable_boxes(fits, asked)
    except AssumptionError:
        return np.broadcast_to(np.array([-np.inf, np.inf])[:, None], shape)
    return np.array([[each.lower, each.upper] for each in made]).reshape(shape)


def _chunk(fits: SeveralFits, asked: Request) -> np.ndarray:
    """Lower and upper ends and how far these may be too wide, (len(alphas), q, 3, m); NaN where a path is
    not known."""
    paths = [one.paths(asked.rows) for one in fits.each]
    ranks = asked.ranks
    out = np.full((len(ranks), len(fits.each), 3, len(asked)), np.nan)
    for i in range(len(asked)):
        known = [path for path in (each[i] for each in paths) if path is not None and path.straight]
        if len(known) < len(paths):
            continue
        scores = [
            share * _residuals(one, path)
            for one, path, share in zip(fits.each, known, fits.shares, strict=True)
        ]
        for a, rank in enumerate(ranks):
            for j, (one, path) in enumerate(zip(fits.each, known, strict=True)):
                others = scores[:j] + scores[j + 1 :]
                gaps = []
                for side, (corner, sign) in enumerate(((0, -1.0), (-1, 1.0))):
                    level, gap = _largest(
                        np.abs(scores[j][corner]), others, rank.take(i), asked.tol * fits.shares[j]
                    )
                    end = one.centre + one.scale * path.w[corner]
                    out[a, j, side, i] = end + sign * fits.units[j] * level
                    gaps.append(gap)
                out[a, j, 2, i] = fits.units[j] * max(gaps)
    return out


def _residuals(fits: Fits, path: Polyline) -> np.ndarray:
    """Residuals of the training rows at the corners of a path (K, n), K at least 2."""
    problem = fits.problem
    theta = path.theta if len(path.theta) > 1 else np.repeat(path.theta, 2, axis=0)
    return problem.v - theta @ problem.X.T


def _largest(own: np.ndarray, others: Sequence[np.ndarray], rank: Rank, tol: float) -> tuple[float, float]:
    """The largest order statistic of scores over all points of the other responses' paths, and how far it
    may be too large.

    ``own`` (n,) are sizes of the response itself, ``others`` signed scores at the corners (K, n) of the
    other responses' paths. Sizes are convex between corners, so the ends of a part of the paths bound it
    from above and are reached themselves; parts that can still hold the largest are halved.
    """
    if not others:
        return float(rank.kth(own)), 0.0
    low, high = own, own
    for each in others:
        size = np.abs(each)
        crossed = np.signbit(each[:-1]) != np.signbit(each[1:])
        low = np.maximum(low, np.min(np.where(crossed, 0.0, np.minimum(size[:-1], size[1:])), axis=0))
        high = np.maximum(high, np.max(size, axis=0))
    rows, near = rank.window(low, high)  # which can be the order statistic
    own, others = own[rows], [each[:, rows] for each in others]
    best, ceiling = 0.0, 0.0
    parts = [np.arange(len(each) - 1) for each in others]
    most = _ENTRIES // max(1, len(rows))  # parts that are looked at together
    if np.prod([len(each) for each in parts], dtype=float) > most:
        return float(rank.kth(high)), float(rank.kth(high) - rank.kth(low))
    first = np.array(list(itertools.product(*parts)), dtype=float)
    last = first + 1.0
    for _ in range(_HALVINGS):
        ends = [[_at(each, t[:, j]) for j, each in enumerate(others)] for t in (first, last)]
        reached = [near.kth(np.maximum.reduce([np.broadcast_to(own, at[0].shape), *at])) for at in ends]
        best = max(best, float(np.max(reached)))
        upper = near.kth(np.maximum.reduce([np.broadcast_to(own, ends[0][0].shape), *ends[0], *ends[1]]))
        live = upper > best + tol
        ceiling = max(ceiling, float(np.max(upper[~live], initial=0.0)))
        if not live.any() or 2 * np.count_nonzero(live) > most:
            break
        first, last = _halved(first[live], last[live])
    else:
        live = np.ones(len(first), dtype=bool)
    if live.any():
        ceiling = max(ceiling, float(np.max(upper)))
    return max(best, ceiling), max(ceiling - best, 0.0)


def _at(scores: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Sizes of scores at points ``t`` (c,) of a path with corners (K, w), by number of the corner."""
    start = np.minimum(t.astype(int), len(scores) - 2)
    share = (t - start)[:, None]
    return np.abs((1.0 - share) * scores[start] + share * scores[start + 1])


def _halved(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts (c, d) of paths cut in two along their longest side."""
    axis = np.argmax(last - first, axis=1)
    each = np.arange(len(first))
    middle = 0.5 * (first[each, axis] + last[each, axis])
    lower, upper = last.copy(), first.copy()
    lower[each, axis] = middle
    upper[each, axis] = middle
    return np.concatenate([first, upper]), np.concatenate([lower, last])


@one_thread
def box_conformity(fits: SeveralFits, row: np.ndarray, z: np.ndarray, peers: Peers) -> np.ndarray:
    """Exact p-values of a new row (p,) at candidates (g, q)."""
    (row,), _ = fits.coordinates(row[None])
    terms = [(one, Score(), float(share)) for one, share in zip(fits.each, fits.shares, strict=True)]
    return joint_p(terms, row, z, peers)
