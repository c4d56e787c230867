"""Exact full conformal sets (theory, section 5).

On each side one end is looked for, for many rows at once. Rows whose set may have holes, or whose end does
not settle, are gone through piece by piece. Losses that bend are for `smooth`. Those with clipped slopes
(LAD, quantile, Huber, squared; ridge or elastic net) are for `ClippedSets`: the fit no longer depends on
the new response once its slope is at a bound, so one tilted fit per side gives the end; squared loss
without an L1 part has a closed form. Where these do not decide the whole path of the new row is swept.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from ..errors import AssumptionError
from ..path import ClippedFit, Piece, Tilted, both_ways, merge, tilted_fits
from ..rank import Rank, kth_of_lines
from .enclosure import bound_of, enclosed
from .fits import Fits
from .intervals import Intervals, Pieces, ranked_intervals
from .parallel import parts_of
from .request import Request
from .score import DIRECTIONS, Score
from .smooth import Ends, SmoothSets, contractions, unknown

_LOOSE = 1e-4  # of the scale: ends that are looser are worth a warning
_JOIN = 1e-9  # in units of the fit: pieces nearer than this are one
_FITS = 20  # steps towards a fixed point, before the whole path is swept
_MANY = 8  # ranks; fixed points of more take longer than whole paths
_ROUNDING = 1e-12  # of the scale, where fixed points are found
_REACH = 1.0 + 1e-9  # rounding errors of the lengths of moves
_ROWS = 1024  # new rows that share a window of training rows, at most
_GUARD = 1.0 + 1e-9  # rounding errors of the leverages


def exact_set(fits: Fits, asked: Request) -> list[Intervals]:
    """Exact intervals for new rows, one record per alpha; the fits are shared, so more alphas cost
    little."""
    m, peers = len(asked.rows), asked.peers
    finite = [alpha for alpha in asked.alphas if not np.all(peers.open(alpha))]
    some = replace(asked, alphas=tuple(finite))
    found = asked.in_chunks(partial(_chunk, fits), some) if finite else []
    tilted = sum(count for _, _, count in found)
    out = []
    for alpha in asked.alphas:
        lower, upper, loose = np.full(m, -np.inf), np.full(m, np.inf), np.zeros(m)
        pieces: dict[int, Pieces] = {}
        first = 0
        for ends, apart, _ in found if alpha in finite else []:
            a, part = finite.index(alpha), slice(first, first + ends.shape[-1])
            lower[part], upper[part] = fits.centre + fits.scale * ends[a, :2]
            loose[part] = fits.scale * ends[a, 2]
            for i, each in apart[a].items():
                pieces[first + i] = tuple(map(tuple, (fits.centre + fits.scale * np.array(each)).tolist()))
            first = part.stop
        more = {"pieces": pieces, "tilted_fits": tilted, "tol": loose, "wanted": _LOOSE * fits.scale}
        made = ranked_intervals(lower, upper, peers, alpha, asked.side, "exact", **more)
        out.append(_within_stable(fits, asked, made) if made.loose.any() else made)
    return out


def _within_stable(fits: Fits, asked: Request, made: Intervals) -> Intervals:
    """`Intervals` whose loose ends are no wider than those of the stable method, which encloses the set."""
    which = np.flatnonzero(made.loose)
    lower, upper, tol = (np.array(each) for each in (made.lower, made.upper, made.tol))
    for bound in ("curvature", "norm"):
        try:
            bound_of(fits, bound)
        except AssumptionError:
            continue
        known = enclosed(fits, asked.take(which, asked.peers.take(which)), made.alpha, bound)
        lower[which] = np.maximum(lower[which], known.lower)  # of an empty set NaN stays NaN
        upper[which] = np.minimum(upper[which], known.upper)
    with np.errstate(invalid="ignore"):  # ends that are infinite as they were
        moved = np.array([lower - made.lower, made.upper - upper])[:, which]
    moved = moved[[(1 + direction) // 2 for direction in DIRECTIONS[asked.side]]]
    least = np.min(np.where(np.isnan(moved), 0.0, moved), axis=0)
    tol[which] -= np.where(np.isinf(tol[which]), 0.0, least)
    pieces = {i: found for i, found in made.pieces.items() if not made.loose[i]}
    for i in set(made.pieces) - set(pieces):
        inside = [(max(low, lower[i]), min(high, upper[i])) for low, high in made.pieces[i]]
        inside = [(low, high) for low, high in inside if low <= high]
        if len(inside) > 1:
            pieces[i] = tuple(inside)
    return replace(made, lower=lower, upper=upper, tol=tol, pieces=pieces)


def _chunk(fits: Fits, asked: Request) -> tuple[np.ndarray, list[dict[int, list[Piece]]], int]:
    """Lower and upper ends of some rows for each rank, in units of the fit, and how far they may be outside
    (len(alphas), 3, m); for each rank the pieces of sets that have several; the number of tilted fits."""
    known = fits, asked.score, asked.rows, asked.own
    solver: SmoothSets | ClippedSets = ClippedSets(*known)
    if fits.loss.kind == "bending":
        solver = SmoothSets(*known, asked.tol, asked.budget)
    of_all = asked.ranks
    out = np.empty((len(of_all), 3, len(asked)))
    out[:] = np.array([-np.inf, np.inf, 0.0])[:, None]
    for direction in DIRECTIONS[asked.side]:
        ends, loose = solver.ends(of_all, direction)
        out[:, (1 + direction) // 2] = ends
        out[:, 2] = np.maximum(out[:, 2], loose)
    doubtful = np.any(np.isnan(out[:, :2]), axis=1)
    which = np.flatnonzero(np.any(doubtful, axis=0)).tolist()
    levels = [np.flatnonzero(doubtful[:, i]).tolist() for i in which]
    ranks = [[of_all[a].take(i) for a in some] for i, some in zip(which, levels, strict=True)]
    apart: list[dict[int, list[Piece]]] = [{} for _ in of_all]
    for i, some, found in zip(which, levels, solver.pieces(which, ranks) if which else (), strict=True):
        for a, (pieces, off) in zip(some, found, strict=True):
            pieces = merge(pieces, near=_JOIN)
            out[a, :, i] = (pieces[0][0], pieces[-1][1], off) if pieces else (np.nan, np.nan, off)
            if len(pieces) > 1:
                apart[a][i] = pieces
    return out, apart, solver.tilted


class ClippedSets:
    """Sets of new rows (m, p), whose scales are ``own`` (m,), by following paths."""

    def __init__(self, fits: Fits, score: Score, rows: np.ndarray, own: np.ndarray) -> None:
        self.fits, self.score, self.rows, self.own = fits, score, rows, own
        self.tilted = 0  # tilted fits made

    def ends(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Ends on one side, NaN where only the whole path can tell."""
        loss, l1 = self.fits.loss, bool(self.fits.lasso.any())
        soft = loss.kind == "line"
        if self.fits.clipped.hessian_inverse is not None and not (soft and l1):
            if not soft:
                return self._from_bounds(ranks, direction)
            if np.isfinite(loss.lipschitz):
                if len(ranks) <= _MANY:  # the whole path has the ends of all ranks at once
                    return self._fixed_points(ranks, direction)
            elif self.score.scale is None:
                return self._closed(ranks, direction)
        return unknown(ranks, len(self.rows))

    @cached_property
    def _at_bounds(self) -> dict[int, Tilted]:
        """`Tilted` fits at both ends of the slope range; with corners for one-sided sets."""
        fits = self.fits
        self.tilted += 2 * len(self.rows)
        return both_ways(fits.clipped, self.rows, fits.loss.slopes, fits.refit, bool(self.score.sign))

    def _from_bounds(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Slopes that are steps (LAD, quantile): one tilted fit per row, at the end of the slope range."""
        fit, found = self.fits.clipped, self._at_bounds[direction]
        k_th = self.own * found.order_statistics(fit, ranks, self.score)
        simple = k_th >= 0
        if self.score.sign:
            # Holes need an order statistic that is below 0 while the new row is fitted exactly or behind.
            for way in self._at_bounds.values():
                simple &= self._least(fit, ranks, way) >= 0
        loose = found.loose(fit, self.rows)
        k_th = k_th + loose
        eta = np.einsum("ij,ij->i", self.rows, fit.theta + found.move)
        ends = np.where(found.endless, direction * np.inf, eta + direction * k_th)
        known = found.endless & np.isfinite(loose)
        return np.where(simple, ends, np.nan), np.where(known, 0.0, 2.0 * loose)

    def _least(self, fit: ClippedFit, ranks: Sequence[Rank], found: Tilted) -> np.ndarray:
        """Lower bounds on the order statistics on the way (len(ranks), m)."""
        length = np.full(len(found.corners), np.inf)
        for i, corners in enumerate(found.corners):
            if corners is not None:
                length[i] = np.max(fit.length(corners[1] - fit.theta)) * _REACH
        values = self.score.values(fit.r[: fit.count])
        norms = self.score.norms(fit.row_norms[: fit.count])
        return np.array([kth_of_lines(values, norms, rank, -length) for rank in ranks])

    def _fixed_points(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Huber loss: the residual r that equals the order statistic of its tilted fit."""
        fits, fit, score, rows = self.fits, self.fits.clipped, self.score, self.rows
        ends, tol = unknown(ranks, len(rows))
        bound = fits.loss.slopes[1 if direction > 0 else 0]
        for a, rank in enumerate(ranks):
            for slow in contractions(fits.base, rows, rank, score, direction, self.own)[0]:
                known = rank.take(slow.which)
                scale = self.own[slow.which]
                r = np.minimum(scale * known.kth(score.values(fit.r[: fit.count])), slow.outer)
                left = np.arange(len(r))
                for _ in range(_FITS):
                    at = slow.which[left]
                    tilt = -direction * np.minimum(r[left], bound)
                    found = tilted_fits(fit, rows[at], tilt, fits.refit)
                    self.tilted += len(at)
                    (now,) = scale[left] * found.order_statistics(fit, [known.take(left)], score)
                    done = np.abs(now - r[left]) / (1.0 - slow.rate[left]) <= _ROUNDING
                    eta = np.einsum("ij,ij->i", rows[at], fit.theta + found.move)
                    ends[a, at[done]] = (eta + direction * now)[done]
                    r[left] = np.clip(now, slow.least[left], slow.outer[left])
                    left = left[~done]
                    if not len(left):
                        break
        return ends, tol

    def _closed(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Squared loss and ridge: residuals are linear in the new one."""
        fit = self.fits.clipped
        r, lever, rate = closed_residuals(fit, self.rows, ranks, self.score.sign, direction)
        self.tilted += len(self.rows)
        ends = self.rows @ fit.theta + direction * r * (1.0 + lever)
        return np.where(rate < 1.0, ends, np.nan), np.zeros(r.shape)

    def pieces(
        self, which: Sequence[int], ranks: Sequence[Sequence[Rank]]
    ) -> list[list[tuple[list[Piece], float]]]:
        """For some new rows and each of their ranks (a list per row) the intervals that make up the set,
        and how far they may reach beyond it."""
        self.tilted += 2 * len(which)
        problem = self.fits.problem
        out = []
        for i, path, each in zip(which, self.fits.paths(self.rows[which]), ranks, strict=True):
            if path is None:
                out.append([([(-np.inf, np.inf)], np.inf)] * len(each))
                continue
            found = path.pieces(problem.X, problem.v, each, self.score, self.own[i])
            out.append([(pieces, path.extent) for pieces in found])
        return out


def closed_residuals(
    fit: ClippedFit, rows: np.ndarray, ranks: Sequence[Rank], sign: int, direction: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New residuals at the ends of the sets (len(ranks), m), leverages and rates (m,) of new rows (m, p).

    The fit is of squared loss, without L1 part. Its augmented residuals are linear in the new one, ``r_i -
    r b_i`` with ``b_i = x_N' H^-1 x_i``: a new residual of size r is in the set if r is at most the order
    statistic of ``|r_i| / (1 +- b_i)``. By Cauchy's inequality ``|b_i| <= sqrt(h_N h_i)``, so only the
    training rows near the k-th residual can decide a new row: new rows of like leverage h_N share one short
    window, and no array grows with n times m. Rates bound ``|b_i|`` over the training rows, sharply (but
    for rounding errors) where they are not below 1; where they are, the set is an interval and its residual
    valid.
    """
    assert fit.hessian_inverse is not None
    lever = fit.leverages
    towards = rows @ fit.hessian_inverse
    own = np.maximum(np.einsum("ij,ij->i", towards, rows), 0.0)
    rate = np.sqrt(own * np.max(lever, initial=0.0)) * _GUARD
    doubtful = np.flatnonzero(rate >= 1.0)
    rate[doubtful] = _largest_pulls(fit, towards[doubtful])
    out = np.empty((len(ranks), len(rows)))
    order = np.argsort(own) if len(rows) > _ROWS else np.arange(len(rows))
    for first in range(0, len(rows), _ROWS):
        part = order[first : first + _ROWS]
        bound = np.sqrt(np.max(own[part]) * lever) * _GUARD
        for a, rank in enumerate(ranks):
            out[a, part] = _block(fit, towards[part], bound, rank.take(part), sign, direction)
    return out, own, rate


def _block(
    fit: ClippedFit, towards: np.ndarray, bound: np.ndarray, rank: Rank, sign: int, direction: int
) -> np.ndarray:
    """`closed_residuals` of new rows whose ``|b_i|`` are at most ``bound`` (n,), for one rank."""
    r = fit.r[: fit.count]
    score = sign * r if sign else np.abs(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = score / (1.0 + bound)
        other = np.where(bound < 1.0, score / (1.0 - bound), np.sign(score) * np.inf)
        window, near = rank.window(np.fmin(one, other), np.fmax(one, other))
        pull = towards @ fit.X[window].T
        turn = sign or np.where(r[window] >= 0, 1.0, -1.0)
        return near.kth(score[window] / (1.0 + direction * turn * pull))


def _largest_pulls(fit: ClippedFit, towards: np.ndarray) -> np.ndarray:
    """Largest ``|b_i|`` over the training rows (m,), a few new rows at a time."""
    X = fit.X[: fit.count]
    out = np.empty(len(towards))
    for part in parts_of(len(X), len(towards)):
        out[part] = np.max(np.abs(towards[part] @ X.T), axis=1, initial=0.0) * _GUARD
    return out
