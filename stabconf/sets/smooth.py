"""Exact sets, to a tolerance, for losses whose slope bends: a certified walk in the tilt.

The new residual r fixes the tilt, and r is in the set if r <= Q(r), the k-th smallest score of the tilted
fit. Where the curvature bound shows that Q changes less than half as fast as r, the set has one end on the
side, and a few fixed-point steps close in on it from outside (theory, section 5). Elsewhere the new
residual is scanned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..path import Piece, chord_fits
from ..rank import Rank, kth_of_lines
from ..stability import BaseFit, Metric
from .enclosure import Enclosure
from .fits import Fits
from .parallel import parts_of
from .scan import scanned_set
from .score import Score

# Ends on one side in units of the fit, one row per rank (len(ranks), m): infinite where a set has none, NaN
# where it must be taken apart piece by piece; and how far outside of the exact one an end may be.
Ends = tuple[np.ndarray, np.ndarray]

_FITS = 12
_RATE = 0.5


def unknown(ranks: Sequence[Rank], m: int) -> Ends:
    """Nothing known of m rows."""
    return np.full((len(ranks), m), np.nan), np.zeros((len(ranks), m))


@dataclass(frozen=True)
class Slow:
    """New rows (b,) that share a metric and for which Q changes slowly."""

    metric: Metric
    which: np.ndarray  # the rows
    norms: np.ndarray  # of the rows, in the metric
    least: np.ndarray  # residuals up to this are in the set
    outer: np.ndarray  # those above this are not
    rate: np.ndarray  # bound on the change of Q per unit of r between them

    def take(self, part: slice | np.ndarray) -> "Slow":
        """The same for some of the rows."""
        each = self.which, self.norms, self.least, self.outer, self.rate
        return Slow(self.metric, *(values[part] for values in each))


def contractions(
    base: BaseFit, rows: np.ndarray, rank: Rank, score: Score, direction: int, own: np.ndarray
) -> tuple[list[Slow], np.ndarray]:
    """The rows that contract, in groups (a list of `Slow`), and those without a certain end (bools)."""
    ask = Enclosure(base, rows, "curvature", rank, score, own)
    outer, _ = ask.largest_residual(direction)
    endless = np.isposinf(outer) & np.isinf(base.steepest(direction))
    slope = base.slope(np.maximum(outer, 0.0), direction)
    values = score.values(base.solution.r)
    out = []
    for some, metric, norms, move in ask.moves.groups(slope):
        which = np.arange(len(rows))[some]
        lines = score.norms(metric.rows)
        least = np.maximum(own[which] * kth_of_lines(values, lines, rank.take(which), -move), 0.0)
        farthest = np.where(np.isfinite(outer[which]), outer[which], 0.0)
        ends = np.sort(direction * np.array([least, np.maximum(farthest, least)]), axis=0)
        steepest = base.problem.loss.max_curvature(*ends)
        with np.errstate(invalid="ignore"):
            rate = own[which] * np.max(lines) * norms * steepest
        good = np.flatnonzero((rate < _RATE) & (least > 0) & np.isfinite(outer[which]))
        if len(good):
            out.append(Slow(metric, which, norms, least, outer[which], rate).take(good))
    return out, endless


class SmoothSets:
    """Sets of new rows (m, p), whose scales are ``own`` (m,), by tilted fits with certified bounds in
    between; ``tol`` is in units of the fit, ``budget`` the number of tilted fits per row."""

    def __init__(
        self, fits: Fits, score: Score, rows: np.ndarray, own: np.ndarray, tol: float, budget: int
    ) -> None:
        self.fits, self.score, self.rows, self.own = fits, score, rows, own
        self.tol, self.budget = tol, budget
        self.tilted = 0  # tilted fits made

    def pieces(
        self, which: Sequence[int], ranks: Sequence[Sequence[Rank]]
    ) -> list[list[tuple[list[Piece], float]]]:
        """As for `ClippedSets`, by scans."""
        out = []
        for i, each in zip(which, ranks, strict=True):
            how = self.score, self.own[i], self.tol, self.budget
            found = [scanned_set(self.fits, self.rows[i], rank, *how) for rank in each]
            self.tilted += sum(count for _, _, count in found)
            out.append([(pieces, loose) for pieces, loose, _ in found])
        return out

    def ends(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Ends on one side, NaN where the new residual must be scanned."""
        ends, tol = self._ahead(ranks, direction)
        for a, rank in enumerate(ranks if self.score.sign else []):
            left = np.flatnonzero(np.isnan(ends[a]))
            if len(left) and rank.weights is None:
                some = self.rows[left], "curvature", rank, self.score, self.own[left]
                left = left[Enclosure(self.fits.base, *some).largest_residual(direction)[0] < 0]
                ends[a, left] = self._behind(left, rank, direction)
                tol[a, left] = self.tol
        return ends, tol

    def _behind(self, which: np.ndarray, rank: Rank, direction: int) -> np.ndarray:
        """Ends of one-sided sets that lie behind the fit, of rows ``which`` of whose sets no residual ahead
        of it is part. The opposite set has rank c + 1 - k among c rows, and ends where this one does."""
        score = replace(self.score, sign=-self.score.sign)
        other = SmoothSets(self.fits, score, self.rows[which], self.own[which], self.tol, self.budget)
        count = self.fits.n if rank.which is None else len(rank.which)
        (ends,), _ = other._ahead([replace(rank, mass=count + 1 - rank.mass)], -direction)
        self.tilted += other.tilted
        # Ends are certified from outside: this set's lies further on by the tolerance at most.
        return np.where(np.isfinite(ends), ends + direction * self.tol, np.nan)

    def _ahead(self, ranks: Sequence[Rank], direction: int) -> Ends:
        """Ends that lie ahead of the fit."""
        ends, tol = unknown(ranks, len(self.rows))
        base = self.fits.base
        if base.problem.lasso.any():
            return ends, tol
        eta = self.rows @ base.solution.x
        for a, rank in enumerate(ranks):
            groups, endless = contractions(base, self.rows, rank, self.score, direction, self.own)
            ends[a, endless] = direction * np.inf
            tol[a, endless] = np.inf
            for slow in groups:
                for part in map(slow.take, parts_of(self.fits.n, len(slow.which))):
                    at = part.which
                    ends[a, at] = eta[at] + direction * self._walk(part, rank.take(at), direction)
                    tol[a, at] = self.tol
        return ends, tol

    def _walk(self, slow: Slow, rank: Rank, direction: int) -> np.ndarray:
        """Distances (b,) of the ends from the base prediction, from outside; NaN if not within ``tol``."""
        base = self.fits.base
        rows, own = self.rows[slow.which], self.own[slow.which]
        metric, norms, least, outer = slow.metric, slow.norms, slow.least, slow.outer.copy()
        loss = base.problem.loss
        inverse = base.base_root.W.T @ base.base_root.W
        theta = np.repeat(base.solution.x[None], len(rows), axis=0)
        plain = own * rank.kth(self.score.values(base.solution.r))
        r = np.clip(plain, least, outer)
        limit = metric.kappa * base.widths
        rises = self.score.norms(metric.rows)
        distance = np.full(len(rows), np.nan)
        left = np.arange(len(rows))
        for _ in range(_FITS):
            slope = loss.derivative(direction * r[left])
            theta[left], residuals, e = chord_fits(
                base.problem, inverse, -slope[:, None] * rows[left], theta[left]
            )
            self.tilted += len(left)
            inside = np.all(np.abs(residuals - base.solution.r) <= limit, axis=1)
            error = metric.inflation * np.sqrt(np.einsum("ij,jk,ik->i", e, inverse, e))
            scores = self.score.values(residuals)
            here = r[left]
            near = rank.take(left)
            scale = own[left]
            now = scale * near.kth(scores)

            def move(at: np.ndarray) -> np.ndarray:
                """Move of the fits between the tilt of ``here`` and that of a residual ``at``."""
                return error + np.abs(loss.derivative(direction * at) - slope) * norms[left]  # noqa: B023

            def bound(at: np.ndarray) -> np.ndarray:
                """Upper bound on the order statistic between them."""
                return scale * near.kth(scores + move(at)[:, None] * rises)  # noqa: B023

            farthest = outer[left]
            for _ in range(2):  # from above, down to here
                farthest = np.maximum(here, np.minimum(farthest, bound(farthest)))
            nearest = np.minimum(now, here)
            below = np.where(farthest > here, farthest, np.maximum(bound(nearest), nearest))
            outer[left] = np.where(inside, np.minimum(farthest, below), outer[left])
            slack = norms[left] * move(outer[left])
            done = inside & (outer[left] - now + slack <= 0.5 * self.tol)
            eta = np.einsum("ij,ij->i", rows[left], theta[left] - base.solution.x)
            distance[left[done]] = (direction * eta + outer[left] + slack)[done]
            r[left] = np.clip(now, least[left], outer[left])
            left = left[~done & inside]
            if not len(left):
                break
        return distance
