"""Exact sets, to a tolerance, for losses whose slope bends: a certified walk in the tilt.

The new residual r fixes the tilt, and r is in the set if r <= Q, the k-th smallest score of the tilted
fit. From one tilted fit the curvature bound limits Q at every other tilt, so each fit moves a certified
outer bound to its fixed point; Q changes with the tilt as slowly as a leverage, so a few fits reach the
tolerance (theory, section 5). Where that contraction cannot be shown the new residual is scanned.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...path import Piece, chord_fits
from ...rank import Rank
from ..enclosure import outer_residuals
from ..fits import Fits
from ..score import Score
from .contraction import Slow, contractions
from .ends import Ends
from .scan import scanned_set

__all__ = ["SmoothSets"]

_ENTRIES = 1_000_000
_FITS = 12


class SmoothSets:
    """Sets by tilted fits with certified bounds in between; ``tol`` is relative to the scale of the
    response, ``budget`` the number of tilted fits per row."""

    def __init__(self, fits: Fits, score: Score, tol: float, budget: int) -> None:
        self.fits = fits
        self.score = score
        self.tol = tol
        self.budget = budget
        self.tilted = 0  # tilted fits made

    def pieces(
        self, rows: np.ndarray, ranks: Sequence[Sequence[Rank]], own: np.ndarray
    ) -> list[list[tuple[list[Piece], float]]]:
        """For each new row (m, p) and each of its ranks (a list per row) the intervals that make up its
        set, and how far they may reach beyond it."""
        return [
            [self._scanned(row, rank, scale) for rank in each]
            for row, each, scale in zip(rows, ranks, own, strict=True)
        ]

    def _scanned(self, row: np.ndarray, rank: Rank, own: float) -> tuple[list[Piece], float]:
        found, loose, count = scanned_set(self.fits, row, rank, self.score, own, self.tol, self.budget)
        self.tilted += count
        return found, loose

    def residuals(self, row: np.ndarray, w: np.ndarray) -> None:
        """None: the augmented fits at responses must be made one by one."""
        return None

    def ends(self, rows: np.ndarray, ranks: Sequence[Rank], direction: int, own: np.ndarray) -> Ends:
        """`Ends` of new rows (m, p) whose scales are ``own`` (m,)."""
        out = self._ahead(rows, ranks, direction, own)
        if self.score.sign and ranks and ranks[0].weights is None and not out.simple.all():
            self._behind(out, rows, ranks, direction, own)
        return out

    def _behind(
        self, out: Ends, rows: np.ndarray, ranks: Sequence[Rank], direction: int, own: np.ndarray
    ) -> None:
        """Fill in ends of one-sided sets that lie behind the fit.

        The opposite set has rank c + 1 - k among c rows, and ends where this one does if no residual ahead
        of the fit is in this one.
        """
        opposite = SmoothSets(self.fits, replace(self.score, sign=-self.score.sign), self.tol, self.budget)
        for a, rank in enumerate(ranks):
            left = np.flatnonzero(~out.simple[a])
            if not len(left):
                continue
            outer, _ = outer_residuals(self.fits.base, rows[left], rank, self.score, direction, own[left])
            left = left[outer < 0]
            count = self.fits.n if rank.which is None else len(rank.which)
            found = opposite._ahead(
                rows[left], [replace(rank, mass=count + 1 - rank.mass)], -direction, own[left]
            )
            good = found.simple[0] & np.isfinite(found.ends[0])
            # Ends are certified from outside: this set's lies further on by the tolerance at most.
            out.ends[a, left[good]] = found.ends[0][good] + direction * found.tol[0][good]
            out.simple[a, left[good]] = True
            out.tol[a, left[good]] = found.tol[0][good]
        self.tilted += opposite.tilted

    def _ahead(self, rows: np.ndarray, ranks: Sequence[Rank], direction: int, own: np.ndarray) -> Ends:
        """`Ends` that lie ahead of the fit."""
        out = Ends.unknown(ranks, len(rows))
        base = self.fits.base
        if base.problem.lasso.any():
            return out
        for a, rank in enumerate(ranks):
            groups, endless = contractions(base, rows, rank, self.score, direction, own)
            out.ends[a, endless] = direction * np.inf
            out.simple[a, endless] = True
            out.tol[a, endless] = np.inf
            for slow in groups:
                self._settle(out, a, slow, rows, rank, direction, own)
        return out

    def _settle(
        self,
        out: Ends,
        a: int,
        slow: Slow,
        rows: np.ndarray,
        rank: Rank,
        direction: int,
        own: np.ndarray,
    ) -> None:
        """Fill in the ends of rows that contract, for the rank at ``a``, a few at a time."""
        size = max(1, _ENTRIES // self.fits.n)
        eta = rows @ self.fits.base.solution.x
        for first in range(0, len(slow.which), size):
            part = slow.take(slice(first, first + size))
            at = part.which
            distance, settled = self._walk(part, rows[at], rank.take(at), direction, own[at])
            out.ends[a, at] = eta[at] + direction * distance
            out.simple[a, at] = settled
            out.tol[a, at] = self.tol

    def _walk(
        self, slow: Slow, rows: np.ndarray, rank: Rank, direction: int, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances of the ends from the base prediction (b,), certified from outside, and whether they are
        within the tolerance."""
        base = self.fits.base
        metric = slow.metric
        norms = slow.norms
        least = slow.least
        outer = slow.outer.copy()
        loss = base.problem.loss
        inverse = base.base_root.W.T @ base.base_root.W
        theta = np.repeat(base.solution.x[None], len(rows), axis=0)
        plain = own * rank.kth(self.score.values(base.solution.r))
        r = np.clip(plain, least, outer)
        limit = metric.kappa * base.widths
        rises = self.score.norms(metric.rows)
        settled = np.zeros(len(rows), dtype=bool)
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
            far = direction * eta + outer[left] + slack
            at = left[done]
            distance[at] = far[done]
            settled[at] = True
            r[left] = np.clip(now, least[left], outer[left])
            left = left[~done & inside]
            if not len(left):
                break
        return distance, settled
