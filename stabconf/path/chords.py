"""Tilted fits of many rows at once for smooth losses: Newton steps with the base fit's Hessian.

The tilt of one row hardly changes the Hessian, so steps with a fixed one converge fast, and a batch of
rows shares two matrix products a step. How near a fit is follows from its stationarity residual.
"""

import numpy as np

__all__ = ["chord_fits"]

_STEPS = 12
_ENOUGH = 1e-11


def chord_fits(problem, inverse, tilts, theta):
    """Coefficients (B, p), residuals (B, n) and stationarity residuals (B, p) of tilted fits.

    Parameters
    ----------
    problem : Problem
        Without L1 part.
    inverse : (p, p) array
        Inverse of the Hessian at the base fit.
    tilts : (B, p) array
    theta : (B, p) array
        Starts.
    """
    X, v, loss = problem.X, problem.v, problem.loss
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
    return theta, r, e
