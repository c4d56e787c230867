"""Exact sets, to a tolerance, for losses whose slope bends: a certified walk in the tilt.

The new residual r fixes the tilt, and r is in the set if r <= Q, the k-th smallest score of the tilted
fit. From one tilted fit the curvature bound limits Q at every other tilt, so each fit moves a certified
outer bound to its fixed point; Q changes with the tilt as slowly as a leverage, so a few fits reach the
tolerance (theory, section 5). Where that contraction cannot be shown the new residual is scanned.
"""

from dataclasses import replace

import numpy as np

from ...path import chord_fits
from ..stable import outer_residuals
from .contraction import contractions
from .ends import Ends
from .scan import scan

__all__ = ["SmoothSets"]

_ENTRIES = 1_000_000
_FITS = 12


class SmoothSets:
    """Sets by tilted fits with certified bounds in between.

    Parameters
    ----------
    fits : Fits
    score : Score
    tol : float
        Relative to the scale of the response.
    budget : int
        Tilted fits a row.
    """

    def __init__(self, fits, score, tol, budget):
        self.fits, self.score, self.tol, self.budget = fits, score, tol, budget
        self.tilted = 0  # tilted fits made

    def pieces(self, rows, ranks, own):
        """For each new row (m, p) and each of its ranks (a list per row) the intervals that make up its
        set, and how far they may reach beyond it."""
        return [
            [self._scanned(row, rank, scale) for rank in each]
            for row, each, scale in zip(rows, ranks, own, strict=True)
        ]

    def _scanned(self, row, rank, own):
        found, loose, count = scan(self.fits, row, rank, self.score, own, self.tol, self.budget)
        self.tilted += count
        return found, loose

    def residuals(self, row, w):
        """None: the augmented fits at responses must be made one by one."""
        return None

    def ends(self, rows, ranks, direction, own):
        """`Ends` of new rows (m, p) whose scales are ``own`` (m,)."""
        out = self._ahead(rows, ranks, direction, own)
        if self.score.sign and ranks and ranks[0].weights is None and not out.simple.all():
            self._behind(out, rows, ranks, direction, own)
        return out

    def _behind(self, out, rows, ranks, direction, own):
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

    def _ahead(self, rows, ranks, direction, own):
        """`Ends` that lie ahead of the fit."""
        out = Ends.unknown(ranks, len(rows))
        base = self.fits.base
        if base.problem.lasso.any():
            return out
        eta = rows @ base.solution.x
        for a, rank in enumerate(ranks):
            groups, endless = contractions(base, rows, rank, self.score, direction, own)
            out.ends[a, endless] = direction * np.inf
            out.simple[a, endless] = True
            out.tol[a, endless] = np.inf
            for slow in groups:
                self._settle(out, a, slow, base, rows, eta, rank, direction, own)
        return out

    def _settle(self, out, a, slow, base, rows, eta, rank, direction, own):
        """Fill in the ends of rows that contract, a few at a time."""
        size = max(1, _ENTRIES // self.fits.n)
        for first in range(0, len(slow.which), size):
            part = slice(first, first + size)
            at = slow.which[part]
            distance, settled = self._walk(
                base,
                slow.metric,
                rows[at],
                slow.outer[part].copy(),
                slow.least[part],
                slow.norms[part],
                rank.take(at),
                direction,
                own[at],
            )
            out.ends[a, at] = eta[at] + direction * distance
            out.simple[a, at] = settled
            out.tol[a, at] = self.tol

    def _walk(self, base, metric, rows, outer, least, norms, rank, direction, own):
        """Distances of the ends from the base prediction, certified from outside, and whether they are
        within the tolerance."""
        loss, inverse = base.problem.loss, base.base_root.W.T @ base.base_root.W
        theta = np.repeat(base.solution.x[None], len(rows), axis=0)
        plain = own * rank.kth(self.score.values(base.solution.r))
        r = np.clip(plain, least, outer)
        limit, rises = metric.kappa * base.widths, self.score.norms(metric.rows)
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
            scores, here, near, scale = self.score.values(residuals), r[left], rank.take(left), own[left]
            now = scale * near.kth(scores)

            def move(at):
                """Move of the fits between the tilt of ``here`` and that of a residual ``at``."""
                return error + np.abs(loss.derivative(direction * at) - slope) * norms[left]  # noqa: B023

            def bound(at):
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
            distance[at], settled[at] = far[done], True
            r[left] = np.clip(now, least[left], outer[left])
            left = left[~done & inside]
            if not len(left):
                break
        return distance, settled
