"""The scipy route: L-BFGS on the smoothed objective, with the same certificate.

Kinks are replaced by Moreau envelopes whose width shrinks over a few rounds. The point is less exact
than Newton's; its certified radius says by how much, and the intervals are widened by it.
"""

import numpy as np
from scipy import optimize

from .problem import certify

__all__ = ["quasi_newton"]

_WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4)  # relative to the spread of the responses


def quasi_newton(problem, start=None, *, tol=1e-8, max_iter=1000):
    """Minimise ``problem`` with `scipy.optimize.minimize` (L-BFGS-B); returns a `Solution`.

    ``max_iter`` bounds the iterations of each round in scores, for they are far cheaper than
    Newton's.
    """
    p = problem.X.shape[1]
    smooth = not (problem.loss.needs_prox or problem.lasso.any())
    norms = np.sqrt(np.einsum("ij,ij->j", problem.X, problem.X) + problem.ridge)
    unit = 1.0 / np.where(norms > 0, norms, 1.0)  # preconditions unscaled columns
    theta = np.zeros(p) if start is None else np.asarray(start, dtype=float)
    spread = float(np.median(np.abs(problem.v - np.median(problem.v)))) or 1.0
    nit = 0
    for width in (1.0,) if smooth else _WIDTHS:
        eps = width * spread

        def objective(scaled):
            point = scaled * unit
            value, u, u1 = _smoothed(problem, point, eps)  # noqa: B023
            gradient = problem.ridge * point - problem.X.T @ u + u1 + problem.tilt
            return value, gradient * unit

        result = optimize.minimize(
            objective,
            theta / unit,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": 20 * max_iter,
                "maxfun": 40 * max_iter,
                "ftol": 1e-16,
                "gtol": 1e-10,
            },
        )
        theta, nit = result.x * unit, nit + result.nit
    _, u, u1 = _smoothed(problem, theta, eps)
    return certify(problem, theta, u, u1, tol=tol, nit=nit)


def _smoothed(problem, theta, eps):
    """Smoothed objective at ``theta``, with the slopes of its rows and of its L1 part."""
    r = problem.v - problem.X @ theta
    if problem.loss.needs_prox:
        u = problem.loss.prox_slope(r, eps)
        value = np.sum(problem.loss.value(r - eps * u)) + 0.5 * eps * (u @ u)
    else:
        u, value = problem.loss.derivative(r), np.sum(problem.loss.value(r))
    share = np.clip(theta / eps, -1.0, 1.0)
    size = np.where(np.abs(share) < 1, 0.5 * theta * share, np.abs(theta) - 0.5 * eps)
    value += problem.lasso @ size + 0.5 * problem.ridge @ theta**2 + problem.tilt @ theta
    return value, u, problem.lasso * share
