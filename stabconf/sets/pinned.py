"""Replace-one, batch, interpolation: sets from fits with the new row at some z_hat (theory, section 6).

The fits at z and at z_hat are both tilted fits of the training rows, so the bounds are those of the stable
method, from a base fit that is tilted as z_hat tilts it. An estimator's fits are pinned in the same way.
With ``bound="dual"`` what a fit rules out lies around its z_hat; fits may also be interpolated between
responses, and held beyond the outermost.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..checks import check_numbers, is_count
from ..errors import InputError
from ..path import Piece, Polyline, merge
from ..rank import Rank
from ..solvers import certify
from ..stability import BaseFit, default_bound
from .enclosure import enclosed, steepest_moves
from .fits import Fits
from .intervals import Intervals, Pieces, hulls, join, nonempty, ranked_intervals
from .request import Request
from .score import Score, level_ends

_SPREAD = (-1.0, 0.0, 1.0)  # default responses of a batch: the prediction, and a scale to either side
_PUBLISHED = 3.0  # times tau where fits are interpolated, in the paper
_ROUNDING = 1e-13


class PinnedFits:
    """`Fits` of one new row (p,) whose base fit contains it with response ``z_hat``."""

    def __init__(self, fits: Fits, row: np.ndarray, z_hat: float) -> None:
        self._fits, self._row, self._z_hat = fits, row, z_hat
        self.y = fits.y

    def in_range(self, rows: np.ndarray) -> np.ndarray:
        """As for `Fits`; the response that pins the fit must be in the range too."""
        return self._fits.in_range(rows) & (np.min(self.y) <= self._z_hat <= np.max(self.y))

    @cached_property
    def base(self) -> BaseFit:
        """The `BaseFit`."""
        fits, row = self._fits, self._row
        found = fits.augmented(row, float(fits.responses(self._z_hat)), fits.base.solution.x)
        fits.check_refit(found)
        pull = float(found.multipliers[-1])
        tilted = replace(fits.base.problem, tilt=-pull * row)
        parts = found.x, found.multipliers[:-1], found.l1_multipliers
        solution = certify(tilted, *parts, tol=fits.solving["tol"], nit=found.nit)
        return BaseFit(tilted, solution, fits.centre, fits.scale, pull)

    def enclosed(self, asked: Request, alpha: float) -> Intervals:
        """The interval of the row, which is all that is ``asked`` for."""
        return enclosed(self, asked, alpha, asked.bound or default_bound(self._fits.loss))


def replace_one(fits: Any, asked: Request) -> list[Intervals]:
    """The paper's Algorithm 1: one fit per new row, at ``z_hat`` (m,), by default the prediction. The bound
    "paper" has the constant as published, twice that of leaving the row out."""
    z_hat = fits.predict(asked.rows) if asked.z_hat is None else asked.z_hat
    if np.shape(z_hat) != (len(asked.rows),):
        raise InputError("z_hat has several values a row: use method='batch', or give one")
    return _at(fits, asked, z_hat[:, None], "replace_one")


def batch(fits: Any, asked: Request) -> list[Intervals]:
    """Replace-one sets of several responses per row, ``z_hat`` (m, b), intersected. By default these are
    the prediction, and the scale of the response to either side of it."""
    z_hat = asked.z_hat
    if z_hat is None:
        z_hat = fits.predict(asked.rows)[:, None] + fits.spread * np.array(_SPREAD)
    return _at(fits, asked, z_hat if z_hat.ndim > 1 else z_hat[:, None], "batch")


def _at(fits: Any, asked: Request, z_hat: np.ndarray, method: str) -> list[Intervals]:
    """`Intervals` of all rows from the fits at b responses a row (m, b), one record per alpha."""
    if asked.bound == "dual":
        return _dual_sets(fits, asked, z_hat, method)
    found = asked.in_chunks(partial(_of_rows, fits), replace(asked, z_hat=z_hat), size=1)
    rows = [row for part in found for row in part]
    if not rows:
        none = np.empty(0)
        inner = (none, none) if asked.inner else None
        ends = none, none, asked.peers
        return [ranked_intervals(*ends, alpha, asked.side, method, inner=inner) for alpha in asked.alphas]
    places = list(np.arange(len(rows))[:, None])
    out = []
    for a, alpha in enumerate(asked.alphas):
        made = join([row[a] for row in rows], places)
        out.append(replace(made, k=asked.peers.place(alpha), n=asked.peers.size, method=method))
    return out


def _of_rows(fits: Any, asked: Request) -> list[list[Intervals]]:
    """`Intervals` of some rows, by row and alpha."""
    pin = partial(PinnedFits, fits) if isinstance(fits, Fits) else fits.pinned
    out = []
    for one in asked:
        assert one.z_hat is not None
        pinned = [pin(one.rows[0], z) for z in one.z_hat[0]]
        out.append([_together([fixed.enclosed(one, alpha) for fixed in pinned]) for alpha in one.alphas])
    return out


def _together(each: Sequence[Intervals]) -> Intervals:
    """The intersection of several outer sets of one row, and the longest inner one in their union."""
    if len(each) == 1:
        return each[0]
    lower = np.max([one.lower for one in each], axis=0)
    upper = np.min([one.upper for one in each], axis=0)
    ends: dict[str, Any] = {}
    ends["lower"], ends["upper"] = nonempty(lower, upper)
    if each[0].inner_lower is not None:
        sure = np.array([[one.inner_lower, one.inner_upper] for one in each], dtype=float)[..., 0]
        pieces = merge((low, high) for low, high in sure.tolist() if low <= high)
        ends["inner_lower"], ends["inner_upper"] = np.array(_longest(pieces))[:, None]
    return replace(each[int(np.argmin([one.width for one in each]))], **ends)


def _longest(pieces: Pieces) -> Piece:
    """The longest of some pieces, NaN where there are none."""
    return max(pieces, key=lambda piece: piece[1] - piece[0], default=(np.nan, np.nan))


# The duality gap --------------------------------------------------------------------------------------


def _dual_sets(fits: Fits, asked: Request, z_hat: np.ndarray, method: str) -> list[Intervals]:
    """The hulls of what no fit at responses (m, b) rules out, with the pieces."""
    each = zip(asked.rows, z_hat, strict=True)
    known = [[PinnedFits(fits, row, z).base for z in at] for row, at in each]
    out = []
    for alpha in asked.alphas:
        rank = asked.peers.rank(alpha)
        sets = []
        for i, bases in enumerate(known):
            own = rank.take(slice(i, i + 1))
            found = [_ruled_out(base, asked.rows[i], own, asked.score) for base in bases]
            sets.append(_rest([one for one in found if one is not None]))
        lower, upper, pieces = hulls(sets)
        more: dict[str, Any] = {"bound": "dual", "pieces": pieces}
        out.append(ranked_intervals(lower, upper, asked.peers, alpha, asked.side, method, **more))
    return out


def _ruled_out(base: BaseFit, row: np.ndarray, rank: Rank, score: Score) -> Piece | None:
    """The responses, between two ends, that are surely not in the set; None where there are none. If one is
    in, the new row and one of the k training rows with the smallest slopes have changed places; two entries
    of a vector cannot come nearer by more than sqrt(2) times the length of its move."""
    loss = base.problem.loss
    slopes = np.append(base.solution.multipliers, base.pinned)
    slopes = score.sign * slopes if score.sign else np.abs(slopes)
    room = float(slopes[-1] - rank.kth(slopes[None, :-1])[0]) / math.sqrt(2.0)
    level = 0.5 * room**2 / loss.smoothness - base.solution.gap
    if not (room > 0 and level > 0):
        return None
    e = np.atleast_1d(loss.inverse_derivative(base.pinned))
    if not np.isfinite(e).all():  # at the bound of the slopes but for rounding
        e = np.atleast_1d(loss.inverse_derivative(np.nextafter(base.pinned, 0.0)))

    def added(to: np.ndarray) -> np.ndarray:
        """What a new residual adds to the duality gap, if its slope is that of the fitted one."""
        parts = np.array([loss.value(to), -loss.value(e), -base.pinned * (to - e)])
        exact = np.sum(parts, axis=0) + _ROUNDING * np.sum(np.abs(parts), axis=0)
        return np.fmin(loss.fenchel_gap(to, np.full(to.shape, base.pinned)), exact)

    ends = level_ends(added, e, np.array([level]))
    low, high = base.predict(row[None]) + base.scale * np.ravel(ends)
    return float(low), float(high)


def _rest(out_of: Sequence[Piece]) -> list[Piece]:
    """The line without some open intervals, as closed ones; where two of them touch a point is left."""
    pieces = []
    end = -math.inf
    for low, high in sorted(out_of):
        if end <= low and low > -math.inf:
            pieces.append((end, low))
        end = max(end, high)
    return pieces if end == math.inf else [*pieces, (end, math.inf)]


# Interpolation ----------------------------------------------------------------------------------------


def interpolation(fits: Fits, asked: Request) -> list[Intervals]:
    """Sets from interpolated fits; a number of ``queries`` is spread over the range of the responses."""
    queries = _queries(fits, asked.queries)
    bound = asked.bound or default_bound(fits.loss)
    paths = [_path(fits, row, queries, bound) for row in asked.rows]
    X, v = fits.problem.X, fits.problem.v
    out = []
    for alpha in asked.alphas:
        rank = asked.peers.rank(alpha)
        sets, sure = [], []
        for i, (path, slack) in enumerate(paths):
            ranks = [rank.take(i)]
            sets += path.pieces(X, v, ranks, asked.score, slack=-slack)
            inside = path.pieces(X, v, ranks, asked.score, slack=slack)[0] if asked.inner else []
            sure.append(_longest(merge(inside, near=1e-12)))
        ends = np.array([*hulls(sets)[:2], *np.reshape(sure, (-1, 2)).T])
        lower, upper, *inner = fits.centre + fits.scale * ends
        more: dict[str, Any] = {"inner": inner if asked.inner else None, "bound": bound}
        out.append(ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "interpolation", **more))
    return out


def _queries(fits: Fits, queries: int | Sequence[float]) -> np.ndarray:
    if isinstance(queries, int) and is_count(queries):
        return np.unique(np.linspace(np.min(fits.y), np.max(fits.y), queries))
    fix = "give a number of responses, or a list of responses"
    values, single = check_numbers(queries, "queries", np.isfinite, fix)
    if single:
        raise InputError(f"queries={queries!r} is not allowed: {fix}")
    return np.unique(values)


def _path(fits: Fits, row: np.ndarray, queries: np.ndarray, bound: str) -> tuple[Polyline, np.ndarray]:
    """Interpolated fits as a `Polyline`, and the bounds on its scores."""
    known = [PinnedFits(fits, row, z).base for z in queries]
    theta = np.array([base.solution.x for base in known])
    e = fits.responses(queries) - theta @ row
    # How far the fit at any response can be from each of these, at the training rows and the new one.
    moves = [steepest_moves(base, row[None], bound) for base in known]
    tau, own = (np.max(np.concatenate(each), axis=0) for each in zip(*moves, strict=True))
    still = np.zeros(len(row))
    rays = (still, -1.0), (still, 1.0)
    path = Polyline(row, theta, e, rays, np.zeros(len(queries) - 1, dtype=bool))
    return path, (_PUBLISHED if bound == "paper" else 1.0) * (tau + own)
