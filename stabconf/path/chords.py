"""Tilted fits of many rows at once for smooth losses: Newton steps with the base fit's Hessian.

The tilt of one row hardly changes the Hessian, so steps with a fixed one converge fast, and a batch of
rows shares two matrix products per step; where they do not, each row is solved for itself. How near a fit
is follows from its stationarity residual (theory, section 5).
"""

from dataclasses import replace

import numpy as np

from ..solvers import Problem, minimise

_STEPS = 12
_PIVOT = 1e-6  # least share of a row's weight that others have too, in a step without it
_ENOUGH, _ROUGH = 1e-11, 1e-8  # of the stationarity residual: to stop at, and to be content with


def chord_fits(
    problem: Problem,
    inverse: np.ndarray,
    tilts: np.ndarray,
    theta: np.ndarray,
    without: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients (B, p), residuals (B, n) and stationarity residuals (B, p) of fits at ``tilts`` (B, p).

    The problem has no L1 part; ``inverse`` (p, p) is that of the base fit's Hessian, ``theta`` (B, p)
    are starts. ``without`` (B,) are rows, one for each fit, that it does not see.
    """
    X, v, loss = problem.X, problem.v, problem.loss
    lines = np.arange(len(theta))
    best = np.full(len(theta), np.inf)

    def state(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals and stationarity residuals."""
        r = v - theta @ X.T
        slope = loss.derivative(r)
        if without is not None:
            slope[lines, without] = 0.0
        return r, problem.ridge * theta - slope @ X + tilts

    def newton(e: np.ndarray) -> np.ndarray:
        """Steps of the base fit's Hessian, less the rows that are not seen."""
        step = e @ inverse
        if without is not None:
            step = step + (np.einsum("ij,ij->i", X[without], step) * lever)[:, None] * towards
        return step

    if without is not None:
        towards = X[without] @ inverse
        curvature = loss.curvature(v[without] - np.einsum("ij,ij->i", X[without], theta))
        rest = 1.0 - curvature * np.einsum("ij,ij->i", X[without], towards)
        lever = curvature / np.maximum(rest, _PIVOT)
    for left in range(_STEPS, -1, -1):
        r, e = state(theta)
        step = newton(e)
        size = np.einsum("ij,ij->i", e, step)
        better = (size > _ENOUGH**2) & (size < 0.25 * best)
        if not (left and better.any()):
            break
        best = np.minimum(best, size)
        theta = np.where(better[:, None], theta - step, theta)
    rough = np.flatnonzero(size > _ROUGH**2)
    for i in rough:
        seen = slice(None) if without is None else np.delete(np.arange(len(v)), without[i])
        theta[i] = minimise(replace(problem, X=X[seen], v=v[seen], tilt=tilts[i]), theta[i]).x
    if len(rough):
        r, e = state(theta)
    return theta, r, e
