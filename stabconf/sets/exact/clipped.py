"""Exact sets for losses with clipped slopes: LAD, quantile, Huber, squared; ridge or elastic net.

The fit no longer depends on the new response once its slope is at a bound, so one tilted fit per side gives
the end (theory, section 5); squared loss without an L1 part has a closed form. Where these do not decide
(an order statistic inside the bounds of the slope, a set that may have holes) the whole path of the new row
is swept.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...path import ClippedFit, Piece, Polyline, Tilted, both_ways, polylines, tilted_fits
from ...rank import Rank, kth_of_lines
from ..fits import Fits
from ..score import Score
from .closed import closed_residuals
from .contraction import contractions
from .ends import Ends

__all__ = ["ClippedSets"]

_FITS = 20
_MANY = 8  # ranks; fixed points of so many take longer than whole paths
_ROUNDING = 1e-12  # of the scale, where fixed points are found
_REACH = 1.0 + 1e-9
_BLUR = 1e-6  # of the scale: what vanishing ridge weights may change


class ClippedSets:
    """Sets by following paths."""

    def __init__(self, fits: Fits, score: Score) -> None:
        self.fits = fits
        self.score = score
        self.soft = fits.loss.kind == "line"
        self.linear = self.soft and np.isinf(fits.loss.lipschitz) and not fits.lasso.any()
        self.tilted = 0  # tilted fits made
        self._ways: tuple[np.ndarray, dict[int, Tilted]] | None = None  # of the rows that came last

    def ends(self, rows: np.ndarray, ranks: Sequence[Rank], direction: int, own: np.ndarray) -> Ends:
        """`Ends` of new rows (m, p) whose scales are ``own`` (m,)."""
        fit = self.fits.clipped
        if fit.hessian_inverse is None or (self.soft and self.fits.lasso.any()):
            return Ends.unknown(ranks, len(rows))  # only the whole path can tell
        if self.soft and not self.linear and len(ranks) > _MANY:
            return Ends.unknown(ranks, len(rows))  # which has the ends of all ranks at once
        if not self.linear:
            find = self._fixed_points if self.soft else self._tilted
        elif self.score.scale is None:
            find = self._closed
        else:
            return Ends.unknown(ranks, len(rows))
        return find(fit, rows, ranks, direction, own)

    def _bound(self, direction: int) -> float:
        """The steepest slope on one side."""
        down, up = self.fits.loss.slopes
        return up if direction > 0 else down

    def _tilted(
        self,
        fit: ClippedFit,
        rows: np.ndarray,
        ranks: Sequence[Rank],
        direction: int,
        own: np.ndarray,
    ) -> Ends:
        """Steps: one tilted fit per row, at the end of the slope range."""
        ways = self._at_bounds(fit, rows)
        found = ways[direction]
        k_th = own * found.order_statistics(fit, ranks, self.score)
        simple = k_th >= 0
        if self.score.sign:
            # Holes need an order statistic that is below 0 while the new row is fitted exactly or behind.
            for way in ways.values():
                simple &= self._least(fit, ranks, way) >= 0
        loose = np.where(found.followed, 0.0, found.radius)
        if loose.any():  # fresh fits, which are near the minimiser
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = fit.largest_penalty_norm + fit.penalty_norms(rows)
                loose = np.where(loose > 0, loose * reach, 0.0)
            k_th = k_th + loose
        eta = np.einsum("ij,ij->i", rows, fit.theta + found.move)
        ends = np.where(found.endless, direction * np.inf, eta + direction * k_th)
        known = found.endless & np.isfinite(loose)
        return Ends(ends, simple, np.broadcast_to(np.where(known, 0.0, 2.0 * loose), k_th.shape))

    def _at_bounds(self, fit: ClippedFit, rows: np.ndarray) -> dict[int, Tilted]:
        """`Tilted` fits at both ends of the slope range, kept; with corners for one-sided sets."""
        if self._ways is None or self._ways[0] is not rows:
            self.tilted += 2 * len(rows)
            slopes = self.fits.loss.slopes
            self._ways = rows, both_ways(fit, rows, slopes, self.fits.refit, bool(self.score.sign))
        return self._ways[1]

    def _least(self, fit: ClippedFit, ranks: Sequence[Rank], found: Tilted) -> np.ndarray:
        """Lower bounds on the order statistics on the way (len(ranks), m)."""
        length = np.full(len(found.corners), np.inf)
        for i, corners in enumerate(found.corners):
            if corners is not None:
                length[i] = np.max(fit.length(corners[1] - fit.theta)) * _REACH
        values = self.score.values(fit.r[: fit.count])
        norms = self.score.norms(fit.row_norms[: fit.count])
        return np.array([kth_of_lines(values, norms, rank, -length) for rank in ranks])

    def _fixed_points(
        self,
        fit: ClippedFit,
        rows: np.ndarray,
        ranks: Sequence[Rank],
        direction: int,
        own: np.ndarray,
    ) -> Ends:
        """Soft rows: the residual r that equals the order statistic of its tilted fit."""
        out = Ends.unknown(ranks, len(rows))
        bound = self._bound(direction)
        for a, rank in enumerate(ranks):
            for slow in contractions(self.fits.base, rows, rank, self.score, direction, own)[0]:
                known = rank.take(slow.which)
                scale = own[slow.which]
                r = np.minimum(scale * known.kth(self.score.values(fit.r[: fit.count])), slow.outer)
                left = np.arange(len(r))
                for _ in range(_FITS):
                    at = slow.which[left]
                    tilt = -direction * np.minimum(r[left], bound)
                    found = tilted_fits(fit, rows[at], tilt, self.fits.refit)
                    self.tilted += len(at)
                    (now,) = scale[left] * found.order_statistics(fit, [known.take(left)], self.score)
                    done = np.abs(now - r[left]) / (1.0 - slow.rate[left]) <= _ROUNDING
                    eta = np.einsum("ij,ij->i", rows[at], fit.theta + found.move)
                    out.ends[a, at[done]] = (eta + direction * now)[done]
                    out.simple[a, at[done]] = True
                    r[left] = np.clip(now, slow.least[left], slow.outer[left])
                    left = left[~done]
                    if not len(left):
                        break
        return out

    def _closed(
        self,
        fit: ClippedFit,
        rows: np.ndarray,
        ranks: Sequence[Rank],
        direction: int,
        own: np.ndarray,
    ) -> Ends:
        """Squared loss and ridge: residuals are linear in the new one."""
        r, lever, rate = closed_residuals(fit, rows, ranks, self.score.sign, direction)
        self.tilted += len(rows)
        ends = rows @ fit.theta + direction * r * (1.0 + lever)
        return Ends(ends, np.broadcast_to(rate < 1.0, r.shape).copy(), np.zeros(r.shape))

    def paths(self, rows: np.ndarray) -> list[Polyline | None]:
        """The `Polyline`s of new rows, None where there is no knowing; those that meet a Hessian without an
        inverse are followed again with vanishing ridge weights."""
        self.tilted += 2 * len(rows)
        out: list[Polyline | None] = [None] * len(rows)
        left = list(range(len(rows)))
        for vanishing, blur in ((False, 0.0), (True, _BLUR)):
            if not left:
                break
            fit = self.fits.held if vanishing else self.fits.clipped
            if fit is None or fit.hessian_inverse is None:
                continue
            found = polylines(fit, rows[left], self.fits.loss.slopes, self.fits.refit)
            for i, path in zip(left, found, strict=True):
                out[i] = None if path is None else replace(path, blur=blur)
            left = [i for i, path in zip(left, found, strict=True) if path is None or path.extent]
        return out

    def pieces(
        self, rows: np.ndarray, ranks: Sequence[Sequence[Rank]], own: np.ndarray
    ) -> list[list[tuple[list[Piece], float]]]:
        """For each new row (m, p) and each of its ranks (a list per row) the intervals that make up its
        set, and how far they may reach beyond it."""
        problem = self.fits.problem
        out = []
        for i, path in enumerate(self.paths(rows)):
            if path is None:
                out.append([([(-np.inf, np.inf)], np.inf)] * len(ranks[i]))
                continue
            found = path.pieces_of_each(problem.X, problem.v, ranks[i], self.score, own[i])
            loose = max(path.extent, 2.0 * path.blur)
            out.append([(pieces, loose) for pieces in found])
        return out

    def residuals(self, row: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...] | None:
        """Training residuals (g, n) and new ones (g,) of the augmented fits at responses, differences of
        scores that are ties (g,), and where all of them are known (bools); None where nothing is."""
        (path,) = self.paths(row[None])
        if path is None:
            return None
        theta, e = path.at(w)
        problem = self.fits.problem
        return problem.v - theta @ problem.X.T, e, path.ties(problem.X, theta), path.knows(w)
