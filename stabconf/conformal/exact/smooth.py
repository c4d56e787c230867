"""Exact sets, to a tolerance, for losses whose slope bends: a certified walk in the tilt.

The new residual r fixes the tilt, and r is in the set if r <= Q, the k-th smallest score of the tilted
fit. From one tilted fit the curvature bound limits Q at every other tilt, so each fit moves a certified
outer bound to its fixed point; Q changes with the tilt as slowly as a leverage, so a few fits reach the
tolerance (theory, section 5). Where that contraction cannot be shown the candidate itself is scanned.
"""

import numpy as np

from ...path import chord_fits
from .contraction import contractions
from .pieces import Pieces, ZoneEnds
from .scan import scan

__all__ = ["SmoothPieces"]

_ENTRIES = 1_000_000
_FITS = 12


class SmoothPieces(Pieces):
    """`Pieces` by tilted fits with certified bounds in between.

    Parameters
    ----------
    tol : float
        Relative to the scale of the response.
    """

    def __init__(self, fits, side, tol):
        super().__init__(fits, side)
        self.tol = tol

    def pieces(self, j, rows, rank):
        zone = self.fits.zones[j]
        if zone.keep:
            return [[(zone.lower, zone.upper)]] * len(rows)
        out = []
        for i, row in enumerate(rows):
            found, count = scan(self.fits, j, row, rank.take(i), self.side, self.tol)
            self.tilted += count
            out.append(found)
        return out

    def ends(self, j, rows, ranks, direction):
        base = self.fits.fit(j)
        shape = len(ranks), len(rows)
        distance, simple = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        eta = rows @ base.solution.x
        for a, rank in enumerate(ranks):
            if not base.problem.lasso.any():
                distance[a], simple[a] = self._distances(base, rows, rank, direction)
        return ZoneEnds(
            ends=base.zone.centre + base.zone.scale * (eta + direction * distance),
            prediction=np.broadcast_to(base.predict(rows), shape),
            simple=simple,
            theta=np.zeros((*shape, rows.shape[1])),
            tilt=np.zeros(shape),
            gain=np.ones(shape),
        )

    def _distances(self, base, rows, rank, direction):
        """Distances of the ends from the base prediction, and whether the walk settles them (m,)."""
        groups, endless = contractions(base, rows, rank, self.side, direction)
        out, simple = np.where(endless, np.inf, np.nan), endless.copy()
        size = max(1, _ENTRIES // self.fits.n)
        for slow in groups:
            for first in range(0, len(slow.which), size):
                part = slice(first, first + size)
                at = slow.which[part]
                inside = slow.outer[part].copy(), slow.least[part], slow.norms[part]
                out[at], simple[at] = self._walk(
                    base, slow.metric, rows[at], *inside, rank.take(at), direction
                )
        return out, simple

    def _walk(self, base, metric, rows, outer, least, norms, rank, direction):
        """Distances of the ends, certified from outside, and whether they are within the tolerance."""
        loss, inverse = base.problem.loss, base.base_root.W.T @ base.base_root.W
        theta = np.repeat(base.solution.x[None], len(rows), axis=0)
        plain = rank.kth(self.score(base.solution.r))
        r = np.clip(np.broadcast_to(plain, len(rows)), least, outer)
        limit = metric.kappa * base.widths
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
            scores, here, near = self.score(residuals), r[left], rank.take(left)
            now = near.kth(scores)

            def move(at):
                """Move of the fits between the tilt of ``here`` and that of a residual ``at``."""
                return error + np.abs(loss.derivative(direction * at) - slope) * norms[left]  # noqa: B023

            def bound(at):
                """Upper bound on the order statistic between them."""
                return near.kth(scores + move(at)[:, None] * metric.rows)  # noqa: B023

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
