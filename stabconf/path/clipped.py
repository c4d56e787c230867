"""Objectives whose slopes are clipped lines, so that their minimiser moves piecewise linearly (theory,
section 5).

For LAD, quantile, Huber and squared loss and the L1 penalty a row's slope is ``clip(r, -down, up)`` where
the row is soft, else a step from ``-down`` to ``up``. While it is strictly between its bounds the row is
*inner*: a step row is then fitted exactly (its residual is 0), and a soft one adds ``x x'`` to the Hessian.
Outer rows pull with a constant force. ``|theta_j|`` is a step row with ``x = e_j`` and response 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from ..solvers import Problem, Solution

Matrix = Callable[[int, np.ndarray], np.ndarray]  # of the system of a path, for some of its unknowns

_TERMS = 40, 0.5  # in all, and per unknown: above both an inverse is made anew


@dataclass(frozen=True)
class ClippedFit:
    """A minimiser of such an objective, from which paths start.

    Rows are the ``count`` data rows, then one for each coefficient with an L1 weight.
    """

    X: np.ndarray  # (n, p)
    v: np.ndarray  # (n,)
    down: np.ndarray  # (n,): slopes lie in [-down, up]
    up: np.ndarray
    soft: np.ndarray  # (n,) bools: slopes that are the residual itself between their bounds, not a step
    ridge: np.ndarray  # (p,): diagonal of P, vanishing weights included
    extra: np.ndarray  # (p,): what of ``ridge`` is vanishing: it breaks ties and bounds nothing
    theta: np.ndarray  # (p,): the minimiser,
    r: np.ndarray  # (n,): its residuals
    u: np.ndarray  # (n,): and the slopes
    side: np.ndarray  # (n,): 0 for inner rows, else 1 or -1: the bound that the slope is at
    tilt: np.ndarray  # (p,): linear term of the objective
    e: np.ndarray  # (p,): stationarity residual
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
        low = np.concatenate([np.full(n, down), lasso])
        high = np.concatenate([np.full(n, up), lasso])
        u = np.concatenate([solution.multipliers, -solution.l1_multipliers[corners]])
        r = np.concatenate([solution.r, -solution.x[corners]])
        slope = np.where(soft, r, u)
        side = np.where(slope >= high, 1, np.where(slope <= -low, -1, 0))
        u = np.where(side > 0, high, np.where(side < 0, -low, slope))
        r = np.where((side == 0) & ~soft, 0.0, r)
        e = problem.ridge * solution.x - X.T @ u + problem.tilt
        v = np.concatenate([problem.v, np.zeros(len(corners))])
        extra = np.zeros(p) if extra is None else extra
        return cls(X, v, low, high, soft, problem.ridge, extra, solution.x, r, u, side, problem.tilt, e, n)

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
        if not self.curvature.any():
            return np.diag(1.0 / self.ridge)
        scaled = hessian / scale[:, None] / scale
        singular = 1e-14 if self.extra.any() else 1e-12
        return None if np.linalg.eigvalsh(scaled)[0] < singular else _inverse(hessian)

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
        """Data rows that are step rows and inner: independent ones among the coefficients that the L1 part
        does not hold at 0, and those that depend on them."""
        inner = np.flatnonzero((self.side == 0) & ~self.soft)
        inner = inner[inner < self.count]
        size = np.sqrt(self.ridge + np.diag(self.curvature))
        rows = (self.X[inner] / size)[:, self.free]
        if not rows.size:
            return inner[:0], inner
        _, triangle, order = linalg.qr(rows.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(triangle))
        rank = int(np.count_nonzero(size > 1e-9 * size[0]))
        return inner[order[:rank]], inner[order[rank:]]

    @cached_property
    def free(self) -> np.ndarray:
        """Coefficients (f,) that the L1 part does not hold at 0."""
        held = self.X[self.count :][self.side[self.count :] == 0]
        return np.flatnonzero(~held.any(axis=0))

    @cached_property
    def system_inverse(self) -> np.ndarray:
        """Inverse (f + k, f + k) of the system of the coefficients ``free`` and the rows that are exact."""
        hessian = np.diag(self.ridge) + self.curvature
        rows = self.X[np.ix_(self.exact_rows[0], self.free)]
        return _inverse(system(hessian[np.ix_(self.free, self.free)], rows))

    @cached_property
    def _root(self) -> np.ndarray:
        """Cholesky factor of the data rows' Gram matrix plus P: the metric in which moves are measured."""
        data = self.X[: self.count]
        gram = data.T @ data + np.diag(self.ridge)
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-9
        gram.flat[:: len(gram) + 1] += 1e-12 * np.trace(gram)
        return np.linalg.cholesky(gram)

    def norms(self, rows: np.ndarray) -> np.ndarray:
        """Dual norms of rows (m, p): ``|x' d| <= norms(x) * length(d)``."""
        moved = linalg.solve_triangular(self._root, np.asarray(rows).T, lower=True, check_finite=False)
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


class Systems:
    """B systems of up to q unknowns, each of those that are ``inside`` (B, q), and their solutions ``x``.

    With H the Hessian and Z the data rows that are fitted exactly, a force moves the minimiser by
    ``H d - X_Z' dm = force`` and ``X_Z d = 0``: one system K = [[H, X_Z'], [X_Z, 0]] among the coefficients
    that the L1 part does not hold at 0 and the rows Z. A row that changes sides changes the inverse of K by
    a term of rank one: one inverse (k, k) of the unknowns ``at`` (k,) is shared, and each path has terms.
    ``matrix`` makes the matrix (k, k) of one system anew, given its number and unknowns.
    """

    def __init__(
        self, at: np.ndarray, inverse: np.ndarray, inside: np.ndarray, force: np.ndarray, matrix: Matrix
    ) -> None:
        self.matrix = matrix
        self.inside = inside
        self.force = force
        self.bases = [(at, inverse)]
        self.base = np.zeros(len(inside), dtype=int)
        self.terms = np.zeros((len(inside), 8, inside.shape[1]))
        self.factors = np.zeros((len(inside), 8))
        self.count = np.zeros(len(inside), dtype=int)  # of terms
        self.x = self.solve(force)

    def keep(self, which: np.ndarray) -> None:
        """Go on with some of the systems only (bools)."""
        for name in ("inside", "force", "base", "terms", "factors", "count", "x"):
            setattr(self, name, getattr(self, name)[which])

    def solve(self, right: np.ndarray, unit: np.ndarray | None = None) -> np.ndarray:
        """Solutions (B, q); right sides (B, k) are 0 beyond the first k unknowns, or 1 at one unknown of
        each alone, ``unit`` (B,), where that is not -1."""
        count = right.shape[1]
        right = np.where(self.inside[:, :count], right, 0.0)
        out = np.zeros(self.inside.shape)
        size = self.count.max(initial=0)
        terms = self.terms[:, :size]
        shares = (terms[..., :count] @ right[..., None])[..., 0]
        for each in np.unique(self.base) if len(self.bases) > 1 else (0,):
            at, inverse = self.bases[each]
            cut = at.searchsorted(count)
            some = (self.base == each).nonzero()[0]
            out[some[:, None], at] = right[some[:, None], at[:cut]] @ inverse[:cut]
            if unit is not None:
                some = some[unit[some] >= 0]
                shares[some] = terms[some, :, unit[some]]
                place = at.searchsorted(unit[some])
                known = np.append(at, -1)[place] == unit[some]
                out[some[known, None], at] = inverse[place[known]]
        with np.errstate(invalid="ignore"):  # a singular system, whose path is given up
            out += ((shares * self.factors[:, :size])[:, None] @ terms)[:, 0]
        return np.where(self.inside, out, 0.0)

    def change(self, lines: np.ndarray, term: np.ndarray, value: np.ndarray) -> None:
        """Take ``term term' / value`` (b, q), (b,) from the inverses ``lines`` (b,)."""
        count = self.count[lines]
        if count.max(initial=0) == self.terms.shape[1]:
            self.terms = np.concatenate([self.terms, np.zeros_like(self.terms)], axis=1)
            self.factors = np.concatenate([self.factors, np.zeros_like(self.factors)], axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            factor = -1.0 / value
            pull = factor * np.einsum("ij,ij->i", term[:, : self.force.shape[1]], self.force[lines])
            self.x[lines] = np.where(self.inside[lines], self.x[lines] + pull[:, None] * term, 0.0)
        self.terms[lines, count] = term
        self.factors[lines, count] = factor
        self.count[lines] += 1

    def worn(self) -> np.ndarray:
        """Systems whose inverse has so many terms that a fresh one is quicker."""
        many = (self.count > _TERMS[0]).nonzero()[0]
        return many[self.count[many] > _TERMS[1] * np.count_nonzero(self.inside[many], axis=1)]

    def renew(self, lines: np.ndarray) -> None:
        """Make the inverses and solutions of some systems (b,) anew."""
        for line in lines:
            at = np.flatnonzero(self.inside[line])
            if not self.base[line]:
                self.base[line] = len(self.bases)
                self.bases.append((at, np.zeros(0)))
            self.bases[self.base[line]] = at, _inverse(self.matrix(line, at))
            self.terms[line] = 0.0
            self.count[line] = 0
        if len(lines):
            self.x[lines] = self.solve(self.force)[lines]


def system(hessian: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The matrix of the system of a Hessian (f, f) and rows (k, f) that are fitted exactly."""
    return np.block([[hessian, rows.T], [rows, np.zeros((len(rows), len(rows)))]])


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """The inverse of a symmetric matrix (k, k), in units in which its rows are alike; NaN if singular."""
    size = np.sqrt(np.abs(matrix.diagonal()))
    rows = size == 0  # of the constraints: measured by the units of the others
    unit = 1.0 / np.where(rows, 1.0, size)
    longest = np.max(np.abs(matrix[rows] * unit), axis=1, initial=0.0)
    unit[rows] = 1.0 / np.where(longest > 0, longest, 1.0)
    try:
        return np.linalg.inv(matrix * unit[:, None] * unit) * unit[:, None] * unit
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def largest(values: np.ndarray) -> np.ndarray:
    """The largest size in each row (B,)."""
    return np.abs(values).max(axis=1, initial=0.0)
