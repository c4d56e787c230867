"""What a solver is given and what it must return (theory, section 4).

`Problem` is loss + penalty + tilt in plain arrays; `Solution` is a point with a certificate. The
certificate does not depend on how the point was found: from any dual candidate (one multiplier per row)
it bounds the distance to the minimiser by the duality gap. Intervals are widened by that distance, so they
stay valid whatever the solver did.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from ..losses import Loss


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
    """A point, its certificate and how it was found; field names follow scipy's `OptimizeResult`.

    Attributes
    ----------
    x, r : (p,) and (n,) arrays
        The coefficients theta, and the residuals.
    multipliers, l1_multipliers : (n,) and (p,) arrays
        Slopes of the loss, one per row, and of the L1 part, within ``[-lasso, lasso]``.
    e : (p,) array
        The stationarity residual.
    radius, gap : float
        Certified distance to the minimiser in the P norm (``inf`` where P is singular), and the duality gap
        that it comes from.
    fun : float
        Objective.
    success, message : bool, str
        Whether it converged, and what is amiss where it did not.
    nit : int
        Newton (or quasi-Newton) steps.
    """

    x: np.ndarray
    r: np.ndarray
    multipliers: np.ndarray
    l1_multipliers: np.ndarray
    e: np.ndarray
    radius: float
    gap: float
    fun: float
    success: bool
    message: str
    nit: int


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
    return Solution(
        x=theta,
        r=r,
        multipliers=u,
        l1_multipliers=u1,
        e=e,
        radius=math.sqrt(2.0 * gap),
        gap=gap,
        fun=fun,
        success=success,
        message="converged" if success else f"duality gap {gap:.2g} is above the tolerance {tol:g}",
        nit=nit,
    )
