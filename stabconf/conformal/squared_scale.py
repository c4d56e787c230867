"""Certified enclosures of scaled residuals for squared loss (theory, section 7).

Both fits are linear: with rho the new residual, the others are ``r_i - rho b_i``, and the scales are linear
in the sizes. So on any stretch of rho every size is known up to half its change, and every scale up to the
length of these halves (the second Hessian is at least the Gram matrix of its rows). Stretches are left out
where that suffices and halved where it does not, from outside inwards. Beyond 1 the search goes along
1 / rho, for ranks do not change if all residuals are divided by rho, so that it reaches infinity. A fixed
scale is the same without the second fit.
"""

import math

import numpy as np

from ..errors import AssumptionError
from .exact.learned import ScaleRows

__all__ = ["SquaredSearch"]

_TIES = 1e-10
_TOL = 1e-7  # relative: shorter stretches that are not decided are kept
_STRETCHES = 5000


class SquaredSearch:
    """The farthest new residuals that may be in the set of one new row, in one zone.

    Parameters
    ----------
    base : BaseFit
        Of squared loss without an L1 part.
    columns : ScaleRows or FixedRows
    row : (p,) array
    g : (q,) array
        The new row's scale columns.
    side : {"two-sided", "upper", "lower"}
    """

    def __init__(self, base, columns, row, g, side):
        if base.problem.lasso.any():
            raise AssumptionError(
                "a scale with squared loss needs a penalty without L1 part: use l1_ratio=0, or loss='lad', "
                "whose sets are exact"
            )
        metric = base.metric(math.inf)
        inverse = base.base_root.W.T @ base.base_root.W
        self.r, self.side = base.solution.r, side
        self.b, self.own = base.problem.X @ (inverse @ row), float(row @ inverse @ row)
        self.error = metric.start * metric.rows  # solver, and drift of location and scale over a gap
        self.own_error = metric.start * float(metric.root.norms(row[None])[0])
        self.G, self.g, self.floor = columns.trained, g, columns.floor * np.array(base.ratios)
        self.learned = isinstance(columns, ScaleRows)
        if not self.learned:
            return
        hessian = np.diag(columns.ridge) + self.G.T @ self.G + np.outer(g, g)
        self.inverse = np.linalg.pinv(hessian, hermitian=True)
        self.norms = np.sqrt(np.einsum("ij,jk,ik->i", self.G, self.inverse, self.G))
        self.g_norm = math.sqrt(max(float(g @ self.inverse @ g), 0.0))

    def farthest(self, rank, direction, nearest, limit):
        """The largest rho between two that may be in the set; NaN if there is none.

        ``direction`` is the sign of the new residual; ``limit`` may be infinite.
        """
        beyond = [(1.0 / limit if limit > 0 else math.inf, 1.0 / max(nearest, 1.0))]  # in 1 / rho
        for inverted, stretches in ((True, beyond), (False, [(nearest, min(limit, 1.0))])):
            left, count = [pair for pair in stretches if pair[0] <= pair[1]], 0
            while left:
                low, high = left.pop()
                if self._out(rank, direction, low, high, inverted):
                    continue
                count += 1
                if high - low <= _TOL * high or count > _STRETCHES:
                    if not inverted:
                        return high
                    return 1.0 / low if low > 0 else math.inf
                middle = 0.5 * (low + high)
                halves = [(low, middle), (middle, high)]
                left += halves[::-1] if inverted else halves  # the farther one comes next
        return math.nan

    def _out(self, rank, direction, low, high, inverted):
        """Whether no rho of a stretch is in the set."""
        one, two = ((low, 1.0), (high, 1.0)) if inverted else ((1.0, low), (1.0, high))
        ends = np.array([share * self.r - direction * rho * self.b for share, rho in (one, two)])
        error = max(one[0], two[0]) * self.error
        least, most = ends.min(axis=0) - error, ends.max(axis=0) + error
        small = np.where(least * most <= 0, 0.0, np.minimum(np.abs(least), np.abs(most)))
        large = np.maximum(np.abs(least), np.abs(most))
        new = np.array([one[1], two[1]])
        floor = np.outer([one[0], two[0]], self.floor)
        low_scale, high_scale, own_scale = self._scales(small, large, new, floor.min(), floor.max())
        top = large if self.side == "two-sided" else (most if direction > 0 else -least)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scores = np.where(top > 0, top / low_scale, top / high_scale)
            own = new[0] / own_scale
        return own * (1.0 - _TIES) - _TIES > rank.kth(np.nan_to_num(scores, nan=np.inf))

    def _scales(self, small, large, new, least, most):
        """Smallest and largest scales of the training rows (n,), and the new row's largest."""
        if not self.learned:
            return self.G[:, 0], self.G[:, 0], float(self.g[0])
        half = math.sqrt(float(np.sum(np.square(0.5 * (large - small)))) + (0.5 * np.ptp(new)) ** 2)
        phi = self.inverse @ (self.G.T @ (0.5 * (small + large)) + self.g * np.mean(new))
        sigma, error = self.G @ phi, half * self.norms
        own = max(float(self.g @ phi) + half * self.g_norm, most)
        return np.maximum(sigma - error, least), np.maximum(sigma + error, most), own
