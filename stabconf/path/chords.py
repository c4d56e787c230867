"""Tilted fits of many rows at once for smooth losses: Newton steps with the base fit's Hessian.

The tilt of one row hardly changes the Hessian, so steps with a fixed one converge fast, and a batch of
rows shares two matrix products per step; where they do not, each row is solved for itself. How near a fit
is follows from its stationarity residual (theory, section 5).
"""

from dataclasses import replace

import numpy as np

from ..solvers import Problem, minimise

__all__ = ["chord_fits"]

_STEPS = 12
_ENOUGH, _ROUGH = 1e-11, 1e-8  # of the stationarity residual: to stop at, and to be content with


def chord_fits(
    problem: Problem, inverse: np.ndarray, tilts: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients (B, p), residuals (B, n) and stationarity residuals (B, p) of fits at ``tilts`` (B, p).

    The problem has no L1 part; ``inverse`` (p, p) is that of the base fit's Hessian, ``theta`` (B, p) are
    starts.
    """
    X = problem.X
    v = problem.v
    loss = problem.loss
    best = np.full(len(theta), np.inf)
    for left in range(_STEPS, -1, -1):
        r = v - theta @ X.T
        e = problem.ridge * theta - loss.derivative(r) @ X + tilts
        step = e @ inverse
        size = np.einsum("ij,ij->i", e, step)
        better = (size > _ENOUGH**2) & (size < 0.25 * best)
        if not (left and better.any()):
            break
        best = np.minimum(best, size)
        theta = np.where(better[:, None], theta - step, theta)
    for i in np.flatnonzero(size > _ROUGH**2):
        theta[i] = minimise(replace(problem, tilt=tilts[i]), theta[i]).x
        r[i] = v - X @ theta[i]
        e[i] = problem.ridge * theta[i] - X.T @ loss.derivative(r[i]) + tilts[i]
    return theta, r, e
