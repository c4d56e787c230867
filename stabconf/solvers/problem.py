"""What a solver is given and what it must return (theory, section 4).

`Problem` is loss + penalty + tilt in plain arrays; `Solution` is a point with a certificate. The
certificate does not depend on how the point was found: from any dual candidate (one multiplier per row)
it bounds the distance to the minimiser by the duality gap. Intervals are widened by that distance, so they
stay valid whatever the solver did.

Where several minimisers tie the one of smallest norm is meant (section 2), and `TieBreak` makes it unique.
It lies in the row space of the design and is the limit of a vanishing ridge penalty, which LAD and quantile
loss reach at a small weight already; Huber loss has weights only where fits tie. Without a penalty the row
space is given coordinates in which the design is orthogonal, whatever its units and offsets are; the norm
of the coefficients is a diagonal there.

A ridge penalty alone keeps the minimiser in the row space too. Where columns outnumber rows that space,
with one more coordinate for the part of a new row outside of it, is a smaller problem with the same fits.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from ..losses import Loss
from .sparse import SparseDesign

# Ridge weight per row, in units of the columns, that stands for one tending to 0; and beside an L1 part,
# where most fits are unique anyway, of losses whose slopes are steep far out.
_VANISHING, _BESIDE_L1 = 1e-9, 1e-10
# The same where columns are orthogonal, and the least share of it: below, fits would lose their digits.
_ORTHOGONAL = {"step": (1e-8, 1e-6), "line": (1e-9, 1e-4)}
_SMALLEST = 1e-10  # of such weights where responses are far from 0
_NEGLIGIBLE = 20.0  # in units of the weights that vanish, which depend on the rows
_BELOW_L1 = 1e-4
_DEPENDENT = 1e-10  # columns of length 1 that are nearer than this to the span of others depend on them
_FEW = 100  # columns up to which a smaller space is not worth having
_ROUNDING = 1e-12  # share of a row that is outside of the row space for rounding errors alone
_INSIDE = 1e-9  # distance from its bounds of a slope that is within them
_HELD = 1e-7  # ridge weights that hold a coefficient, in units of the columns
_OUTSIDE = 1e-8  # share of a row outside of the row space


@dataclass(frozen=True)
class Problem:
    """Minimise ``sum l(v - X theta) + theta' P theta / 2 + lasso' |theta| + tilt' theta``.

    ``X`` (n, p) and ``v`` (n,) are rows and responses in units of the fit, ``ridge`` (p,) is the diagonal
    of P, ``lasso`` (p,) are the L1 weights and ``tilt`` (p,) is zeros for a plain fit.
    """

    X: np.ndarray
    v: np.ndarray
    loss: Loss
    ridge: np.ndarray
    lasso: np.ndarray
    tilt: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.tilt):
            object.__setattr__(self, "tilt", np.zeros(self.X.shape[1]))

    @cached_property
    def sparse(self) -> SparseDesign | None:
        """The design as a sparse one, where it is that."""
        return SparseDesign.of(self.X)

    def residuals(self, theta: np.ndarray) -> np.ndarray:
        """Residuals (n,) at ``theta``."""
        return self.v - self.X @ theta

    def value(self, theta: np.ndarray, r: np.ndarray | None = None) -> float:
        """Objective at ``theta`` (residuals ``r`` may be passed in)."""
        r = self.residuals(theta) if r is None else r
        return float(
            np.sum(self.loss.value(r))
            + 0.5 * self.ridge @ np.square(theta)
            + self.lasso @ np.abs(theta)
            + self.tilt @ theta
        )

    def stationarity(self, theta: np.ndarray, u: np.ndarray, u1: np.ndarray) -> np.ndarray:
        """Stationarity residual (p,) at ``theta`` with multipliers ``u`` (n,) and ``u1`` (p,)."""
        return self.ridge * theta - self.X.T @ u + u1 + self.tilt

    def slack(self, theta: np.ndarray, r: np.ndarray, u: np.ndarray, u1: np.ndarray) -> float:
        """Sum of the Fenchel-Young gaps of residuals and multipliers, L1 part included."""
        return float(np.sum(self.loss.fenchel_gap(r, u)) + self.lasso @ np.abs(theta) - u1 @ theta)


@dataclass(frozen=True)
class Solution:
    """A point, its certificate and how it was found; field names follow scipy's `OptimizeResult`."""

    x: np.ndarray  # (p,): the coefficients theta
    r: np.ndarray  # (n,): the residuals
    multipliers: np.ndarray  # (n,): slopes of the loss
    l1_multipliers: np.ndarray  # (p,): slopes of the L1 part, within [-lasso, lasso]
    e: np.ndarray  # (p,): the stationarity residual
    gap: float  # the duality gap; inf where P is singular
    fun: float  # objective
    success: bool
    message: str  # what is amiss where it did not converge
    nit: int  # Newton (or quasi-Newton) steps
    ties: "TieBreak | None" = None  # what makes the minimiser that `solve` found unique,
    unique: "Solution | None" = None  # and the solution of that problem

    @property
    def radius(self) -> float:
        """Certified distance to the minimiser in the P norm; ``inf`` where P is singular."""
        return math.sqrt(2.0 * self.gap)


def certify(
    problem: Problem, theta: np.ndarray, u: np.ndarray, u1: np.ndarray, *, tol: float, nit: int
) -> Solution:
    """The `Solution` at ``theta`` with the certificate that multipliers ``u`` (n,), ``u1`` (p,) yield.

    They must be slopes of the loss and of the L1 part: others would not bound anything. The duality gap is
    at most half the squared stationarity residual in the inverse P norm plus the slack, and strong
    convexity turns a gap into a distance.
    """
    r = problem.residuals(theta)
    e = problem.stationarity(theta, u, u1)
    slack = max(problem.slack(theta, r, u, u1), 0.0)
    fun = problem.value(theta, r)
    strongly_convex = bool(np.all(problem.ridge > 0))
    if not math.isfinite(fun):  # overflow certifies nothing
        slack = math.inf
    gap = slack + float(0.5 * np.sum(np.square(e) / problem.ridge)) if strongly_convex else math.inf
    if not math.isfinite(fun):
        success = False
    elif strongly_convex:
        success = gap <= tol * max(1.0, abs(fun))
    else:
        first = np.minimum(np.abs(problem.loss.derivative(problem.v)), np.abs(problem.v) + 1.0)
        size = np.abs(problem.X).T @ (np.abs(u) + first) + np.abs(problem.ridge * theta)
        stationary = bool(np.all(np.abs(e) <= tol * np.maximum(size, 1e-300)))
        success = stationary and slack <= tol * max(1.0, abs(fun))
    return Solution(theta, r, u, u1, e, gap, fun, success, verdict(success, gap, tol), nit)


def verdict(success: bool, gap: float, tol: float) -> str:
    """Whether a duality gap is small enough, in words."""
    return "converged" if success else f"duality gap {gap:.2g} is above the tolerance {tol:g}"


@dataclass(frozen=True)
class TieBreak:
    """What makes the minimiser of a problem unique.

    ``basis`` (p, r), whose columns are orthogonal, leads from coordinates of the row space to coefficients;
    None for all coefficients as they are. ``extra`` (r,) are vanishing ridge weights of the coordinates,
    None where there are none. ``beyond`` says that a last coordinate is the part of a row outside the row
    space, which a ridge penalty holds; fits have one new row each, so one will do.
    """

    basis: np.ndarray | None = None
    extra: np.ndarray | None = None
    beyond: bool = False

    @cached_property
    def unit(self) -> np.ndarray:
        """An orthonormal basis (p, r) of the row space."""
        assert self.basis is not None
        return linalg.qr(self.basis, mode="economic", check_finite=False)[0]

    def apply(self, problem: Problem) -> Problem:
        """The problem with one minimiser."""
        extra = 0.0 if self.extra is None else self.extra
        if self.basis is None:
            return problem if self.extra is None else replace(problem, ridge=problem.ridge + extra)
        X = problem.X @ self.basis
        if self.beyond:
            X = np.column_stack([X, np.zeros(len(X))])
        none = np.zeros(X.shape[1])
        ridge = none + problem.ridge[0] + extra
        return replace(problem, X=X, ridge=ridge, lasso=none, tilt=self.coordinates(problem.tilt))

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Rows (..., p) as the problem of `apply` sees them."""
        if self.basis is None:
            return rows
        inside = rows @ self.basis
        if not self.beyond:
            return inside
        rest = np.linalg.norm(rows - (rows @ self.unit) @ self.unit.T, axis=-1, keepdims=True)
        whole = np.linalg.norm(rows, axis=-1, keepdims=True)
        rest = np.where(rest > _ROUNDING * whole, rest, 0.0)
        return np.concatenate([inside, rest], axis=-1)

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Coefficients (p,) in the coordinates of `apply`."""
        if self.basis is None:
            return theta
        inside = np.linalg.lstsq(self.unit.T @ self.basis, theta @ self.unit, rcond=None)[0]
        return np.append(inside, 0.0) if self.beyond else inside

    def moves(self, moves: np.ndarray) -> np.ndarray:
        """Points or moves (..., r) in these coordinates as those of the coefficients (..., p)."""
        return moves if self.basis is None else moves[..., : self.basis.shape[1]] @ self.basis.T

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """Which rows (m, p) have a part that no training row has (bools)."""
        if self.basis is None or self.beyond or np.equal(*self.basis.shape):
            return np.zeros(len(rows), dtype=bool)
        rest = rows - (rows @ self.unit) @ self.unit.T
        return np.linalg.norm(rest, axis=1) > _OUTSIDE * np.linalg.norm(rows, axis=1)

    def lift(self, problem: Problem, solution: Solution, tol: float) -> Solution:
        """The `Solution` of the problem itself from that of the problem with one minimiser."""
        if self.basis is None and self.extra is None:
            return replace(solution, ties=self, unique=solution)
        theta = self.moves(solution.x)
        l1 = solution.l1_multipliers if self.basis is None else np.zeros(len(theta))
        made = certify(problem, theta, solution.multipliers, l1, tol=tol, nit=solution.nit)
        # Multipliers carry the vanishing weights: whether it converged is known with them.
        success, message = solution.success, solution.message
        return replace(made, success=success, message=message, ties=self, unique=solution)


def smallest_norm(problem: Problem, vanishing: bool = False) -> TieBreak:
    """The `TieBreak` of a problem; ``vanishing`` asks for weights also where slopes are flat in places."""
    if np.all(problem.ridge > 0):
        return _row_space(problem)
    loss, p = problem.loss, problem.X.shape[1]
    flat = vanishing or loss.kind == "step"
    triangle = linalg.qr(problem.X, mode="r")[0][:p]
    rank = column_rank(triangle)
    if problem.ridge.any() or problem.lasso.any() or not rank:
        return vanishing_ridge(problem) if flat or rank < p else TieBreak()
    if loss.kind == "bending" and rank == p:
        return TieBreak()
    basis = _orthogonal(triangle, rank)
    if not flat:
        return TieBreak(basis)
    beyond = loss.kind == "step" and rank < p
    weight = np.append(np.square(basis).sum(axis=0), [1.0] * beyond)
    size, least = _ORTHOGONAL[loss.kind]
    if loss.kind == "step":  # what weights pull with goes with the coefficients
        size = max(size / max(1.0, np.mean(np.abs(problem.v))), _SMALLEST)
    return TieBreak(basis, size * np.maximum(weight / weight.max(), least), beyond)


def patchy(problem: Problem) -> bool:
    """Whether slopes are flat in places, so that some fits have one minimiser and others need weights."""
    loss = problem.loss
    return loss.kind == "line" and math.isfinite(loss.lipschitz) and not np.all(problem.ridge > 0)


def is_only(problem: Problem, u: np.ndarray, u1: np.ndarray) -> bool:
    """Whether the minimiser with these multipliers is the only one: the rows whose slopes are within their
    bounds leave no direction among the coefficients that neither the L1 part nor a ridge weight holds."""
    down, up = problem.loss.slopes
    rows = problem.X[(u > _INSIDE - down) & (u < up - _INSIDE)]
    held = np.abs(u1) < problem.lasso * (1.0 - _INSIDE)
    held |= problem.ridge > _HELD * np.square(problem.X).sum(axis=0)
    return column_rank(rows[:, ~held]) == np.count_nonzero(~held)


def _orthogonal(triangle: np.ndarray, rank: int) -> np.ndarray:
    """Coordinates of the row space, orthogonal in the coefficients (p, rank), in which the columns of a
    design with this triangular factor are orthonormal."""
    _, values, rows = linalg.svd(triangle)
    basis = rows[:rank].T / values[:rank]
    _, values, rows = linalg.svd(triangle @ basis)  # 1 but for rounding errors, which this takes back
    return basis @ (rows[:rank].T / values[:rank]) @ rows[:rank]


def _row_space(problem: Problem) -> TieBreak:
    """The `TieBreak` of a problem that has one minimiser already: a smaller space where there is one."""
    n, p = problem.X.shape
    if p <= max(n + 1, _FEW) or problem.lasso.any() or np.ptp(problem.ridge) > 0:
        return TieBreak()
    return TieBreak(basis=linalg.qr(problem.X.T, mode="economic")[0], beyond=True)


def vanishing_ridge(problem: Problem) -> TieBreak:
    """The `TieBreak` that adds vanishing ridge weights where there are none."""
    squares = np.einsum("ij,ij->j", problem.X, problem.X)
    most = float(np.max(squares, initial=0.0))
    least = float(np.min(squares[squares > 0], initial=most))
    lasso = problem.lasso[problem.lasso > 0]
    size = _BESIDE_L1 if len(lasso) and math.isinf(problem.loss.lipschitz) else _VANISHING
    weight = size * (max(least, 1e-8 * most) or 1.0)
    weight = min(weight, _BELOW_L1 * np.min(lasso, initial=np.inf))  # against which it must vanish too
    return TieBreak(extra=np.where(problem.ridge > 0, 0.0, weight))


def vanishes(problem: Problem) -> bool:
    """Whether the ridge part of a problem is none, or does no more than break ties."""
    alone = vanishing_ridge(replace(problem, ridge=np.zeros(len(problem.ridge))))
    return alone.extra is not None and bool(np.all(problem.ridge <= _NEGLIGIBLE * alone.extra))


def column_rank(X: np.ndarray) -> int:
    """Number of columns that do not depend on others, whatever their units."""
    norms = np.linalg.norm(X, axis=0)
    columns = X[:, norms > 0] / norms[norms > 0]
    if not columns.size:
        return 0
    triangle = linalg.qr(columns, mode="r", pivoting=True)[0]
    return int(np.count_nonzero(np.abs(np.diag(triangle)) > _DEPENDENT))
