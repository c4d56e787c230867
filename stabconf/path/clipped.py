"""Objectives whose slopes are clipped lines, so that their minimiser moves piecewise linearly.

LAD, quantile, Huber and squared loss and the L1 penalty are all of one kind: a row's slope is
``clip(r, -down, up)`` where the row is soft, else a step from ``-down`` to ``up``. A row is *inner* while
its slope is strictly between its bounds: a step row is then fitted exactly (its residual is 0), and a soft
one adds ``x x'`` to the Hessian. Outer rows pull with a constant force. ``|theta_j|`` is one more step row,
with ``x = e_j`` and response 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from ..solvers import Problem, Solution

__all__ = ["ClippedFit"]


@dataclass(frozen=True)
class ClippedFit:
    """A minimiser of such an objective, from which paths start.

    Attributes
    ----------
    X, v : (n, p) and (n,) arrays
        Data rows, then one row for each coefficient with an L1 weight.
    down, up : (n,) arrays
        Slopes lie in ``[-down, up]``.
    soft : (n,) array of bool
        True where the slope is the residual itself between its bounds, False for a step.
    ridge : (p,) array
        Diagonal of P, vanishing weights included.
    extra : (p,) array
        What of ``ridge`` is vanishing: it breaks ties and bounds nothing.
    theta, r, u : (p,), (n,) and (n,) arrays
        The minimiser, its residuals and the slopes.
    side : (n,) array of int
        0 for inner rows, else 1 or -1: the bound that the slope is at.
    tilt : (p,) array
        Linear term of the objective.
    e : (p,) array
        Stationarity residual.
    count : int
        Number of data rows.
    """

    X: np.ndarray
    v: np.ndarray
    down: np.ndarray
    up: np.ndarray
    soft: np.ndarray
    ridge: np.ndarray
    extra: np.ndarray
    theta: np.ndarray
    r: np.ndarray
    u: np.ndarray
    side: np.ndarray
    tilt: np.ndarray
    e: np.ndarray
    count: int

    @classmethod
    def of(cls, problem: Problem, solution: Solution, extra: np.ndarray | None = None) -> "ClippedFit":
        """From a `Problem`, its `Solution` and what of its ridge weights is vanishing."""
        loss = problem.loss
        n, p = problem.X.shape
        down, up = loss.slopes
        corners = np.flatnonzero(problem.lasso)
        lasso = problem.lasso[corners]
        soft = np.concatenate([np.full(n, loss.kind == "line"), np.zeros(len(corners), dtype=bool)])
        X = np.vstack([problem.X, np.eye(p)[corners]]) if len(corners) else problem.X
        lower = np.concatenate([np.full(n, down), lasso])
        upper = np.concatenate([np.full(n, up), lasso])
        u = np.concatenate([solution.multipliers, -solution.l1_multipliers[corners]])
        r = np.concatenate([solution.r, -solution.x[corners]])
        slope = np.where(soft, r, u)
        side = np.where(slope >= upper, 1, np.where(slope <= -lower, -1, 0))
        u = np.where(side > 0, upper, np.where(side < 0, -lower, slope))
        r = np.where((side == 0) & ~soft, 0.0, r)
        e = problem.ridge * solution.x - X.T @ u + problem.tilt
        v = np.concatenate([problem.v, np.zeros(len(corners))])
        extra = np.zeros(p) if extra is None else extra
        return cls(
            X, v, lower, upper, soft, problem.ridge, extra, solution.x, r, u, side, problem.tilt, e, n
        )

    @cached_property
    def curvature(self) -> np.ndarray:
        """Gram matrix of the inner soft rows (p, p)."""
        rows = self.X[(self.side == 0) & self.soft]
        return rows.T @ rows

    @cached_property
    def hessian_inverse(self) -> np.ndarray | None:
        """Inverse of P + `curvature` (p, p); None where it is singular."""
        hessian = np.diag(self.ridge) + self.curvature
        scale = np.sqrt(np.diag(hessian))
        if not np.all(scale > 0):
            return None
        scaled = hessian / scale[:, None] / scale
        if np.linalg.eigvalsh(scaled)[0] < 1e-12:
            return None
        return np.linalg.inv(scaled) / scale[:, None] / scale

    @cached_property
    def leverages(self) -> np.ndarray:
        """``x_i' H^-1 x_i`` of the data rows (n,), where H is not singular."""
        assert self.hessian_inverse is not None
        data = self.X[: self.count]
        return np.maximum(np.einsum("ij,ij->i", data @ self.hessian_inverse, data), 0.0)

    @cached_property
    def gross_pull(self) -> float:
        """Largest sum over the rows of the sizes of their pulls on a coefficient."""
        return float(np.max(np.abs(self.u) @ np.abs(self.X), initial=0.0))

    @cached_property
    def exact_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Independent step rows that are inner, and the inner ones that depend on them."""
        inner = np.flatnonzero((self.side == 0) & ~self.soft)
        if not len(inner):
            return inner, inner
        rows = self.X[inner] / np.sqrt(self.ridge + np.diag(self.curvature))
        _, triangle, order = linalg.qr(rows.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(triangle))
        rank = int(np.count_nonzero(size > 1e-9 * size[0]))
        return inner[order[:rank]], inner[order[rank:]]

    @cached_property
    def _root(self) -> np.ndarray:
        """Cholesky factor of the data rows' Gram matrix plus P: the metric in which moves are measured."""
        data = self.X[: self.count]
        gram = data.T @ data + np.diag(self.ridge)
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-9
        gram.flat[:: len(gram) + 1] += 1e-12 * np.trace(gram)
        return np.linalg.cholesky(gram)

    def penalty_norms(self, rows: np.ndarray) -> np.ndarray:
        """Norms of rows (m, p) in the inverse of P."""
        return np.sqrt(np.square(rows) @ (1.0 / self.ridge))

    @cached_property
    def largest_penalty_norm(self) -> float:
        """The largest of the data rows'."""
        return float(np.max(self.penalty_norms(self.X[: self.count])))

    def norms(self, rows: np.ndarray) -> np.ndarray:
        """Dual norms of rows (m, p): ``|x' d| <= norms(x) * length(d)``."""
        moved = np.linalg.solve(self._root, np.asarray(rows).T)
        return np.sqrt(np.einsum("ij,ij->j", moved, moved))

    def length(self, moves: np.ndarray) -> np.ndarray:
        """Lengths of moves (m, p) of theta."""
        moved = moves @ self._root
        return np.sqrt(np.einsum("ij,ij->i", moved, moved))

    @cached_property
    def row_norms(self) -> np.ndarray:
        """`norms` of the rows (n,)."""
        return self.norms(self.X)

    @cached_property
    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest residuals with which the rows keep their sides (n,)."""
        up = np.where(self.soft, self.up, 0.0)
        down = np.where(self.soft, -self.down, 0.0)
        low = np.where(self.side > 0, up, np.where(self.side < 0, -np.inf, down))
        high = np.where(self.side < 0, down, np.where(self.side > 0, np.inf, up))
        return low, high

    @cached_property
    def order(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows by the smallest length of a move after which their side may differ, and those lengths."""
        low, high = self.range
        distance = np.minimum(self.r - low, high - self.r)
        with np.errstate(divide="ignore", invalid="ignore"):
            key = np.where(distance > 0, distance / self.row_norms, 0.0)
        order = np.argsort(key, kind="stable")
        return order, key[order]
