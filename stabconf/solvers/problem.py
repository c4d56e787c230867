"""What a solver is given and what it must return (theory, section 4).

`Problem` is loss + penalty + tilt in plain arrays; `Solution` is a point with a certificate. The
certificate does not depend on how the point was found: from any dual candidate (one multiplier a row)
it bounds the distance to the minimiser by the duality gap, so that an interval can be widened by it
and stays valid whatever the solver did.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from ..losses import Loss

__all__ = ["Problem", "Solution", "certify"]


@dataclass(frozen=True)
class Problem:
    """Minimise ``sum l(v - X theta) + theta' P theta / 2 + lasso' |theta| + tilt' theta``.

    Attributes
    ----------
    X : (n, p) array
    v : (n,) array
        Standardised responses.
    loss : Loss
    ridge, lasso : (p,) arrays
        Diagonal of P, and the L1 weights.
    tilt : (p,) array
        Linear term; zeros for a plain fit.
    """

    X: np.ndarray
    v: np.ndarray
    loss: Loss
    ridge: np.ndarray
    lasso: np.ndarray
    tilt: np.ndarray = field(default=None)

    def __post_init__(self):
        if self.tilt is None:
            object.__setattr__(self, "tilt", np.zeros(self.X.shape[1]))

    def value(self, theta, r=None):
        """Objective at ``theta`` (residuals ``r`` may be passed in)."""
        r = self.v - self.X @ theta if r is None else r
        return float(
            np.sum(self.loss.value(r))
            + 0.5 * self.ridge @ np.square(theta)
            + self.lasso @ np.abs(theta)
            + self.tilt @ theta
        )


@dataclass(frozen=True)
class Solution:
    """A point, its certificate and how it was found; field names follow scipy's `OptimizeResult`.

    Attributes
    ----------
    x : (p,) array
        The coefficients theta.
    r : (n,) array
        Residuals ``v - X theta``.
    multipliers : (n,) array
        Dual variables, one a row; ``l'(r)`` for smooth losses.
    l1_multipliers : (p,) array
        Subgradients of the L1 part, within ``[-lasso, lasso]``.
    e : (p,) array
        ``P theta - X' multipliers + l1_multipliers + tilt``: the stationarity residual.
    slack : float
        Sum of the Fenchel-Young gaps of residuals and multipliers; 0 where the multipliers are slopes.
    radius : float
        Certified distance to the minimiser in the P norm; ``inf`` where P is singular.
    gap : float
        Duality gap that ``radius`` comes from.
    fun : float
        Objective.
    success : bool
    status : int
        0 converged, 1 tolerance not reached.
    message : str
    nit : int
        Newton (or quasi-Newton) steps.
    """

    x: np.ndarray
    r: np.ndarray
    multipliers: np.ndarray
    l1_multipliers: np.ndarray
    e: np.ndarray
    slack: float
    radius: float
    gap: float
    fun: float
    success: bool
    status: int
    message: str
    nit: int


def certify(problem, theta, multipliers, l1_multipliers, *, tol, nit):
    """The `Solution` at ``theta`` with the certificate that the given dual candidate yields.

    The multipliers must be slopes of the loss (within its slope range); any others would not bound
    anything. With ``e`` the stationarity residual and ``slack`` the Fenchel-Young gaps, the duality
    gap is at most ``|e|^2 / 2`` in the inverse P norm plus ``slack``, and strong convexity turns a gap
    into a distance.
    """
    r = problem.v - problem.X @ theta
    pull = problem.X.T @ multipliers
    e = problem.ridge * theta - pull + l1_multipliers + problem.tilt
    slack = float(
        np.sum(problem.loss.fenchel_gap(r, multipliers))
        + problem.lasso @ np.abs(theta)
        - l1_multipliers @ theta
    )
    fun = problem.value(theta, r)
    slack = max(slack, 0.0) if math.isfinite(fun) else math.inf  # overflow certifies nothing
    gap = _half_square(e, problem.ridge) + slack
    if not math.isfinite(fun):
        success = False
    elif np.all(problem.ridge > 0):
        success = gap <= tol * max(1.0, abs(fun))
    else:
        first = np.minimum(np.abs(problem.loss.derivative(problem.v)), np.abs(problem.v) + 1.0)
        size = np.abs(problem.X).T @ (np.abs(multipliers) + first) + np.abs(problem.ridge * theta)
        stationary = np.all(np.abs(e) <= tol * np.maximum(size, 1e-300))
        success = bool(stationary and slack <= tol * max(1.0, abs(fun)))
    return Solution(
        x=theta,
        r=r,
        multipliers=multipliers,
        l1_multipliers=l1_multipliers,
        e=e,
        slack=slack,
        radius=math.sqrt(2.0 * gap),
        gap=gap,
        fun=fun,
        success=bool(success),
        status=0 if success else 1,
        message="converged" if success else f"duality gap {gap:.2g} is above the tolerance {tol:g}",
        nit=nit,
    )


def _half_square(e, ridge):
    """Half the squared norm of ``e`` in the inverse P norm; ``inf`` where P is singular."""
    if not np.all(ridge > 0):
        return math.inf
    return float(0.5 * np.sum(np.square(e) / ridge))
