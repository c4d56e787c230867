"""The scipy route: L-BFGS on the smoothed objective, with the same certificate.

`minimise` calls it for ``solver="scipy"``. Kinks are replaced by Moreau envelopes whose width shrinks over
a few rounds. The point is less exact than Newton's; its certified radius says by how much, and the
intervals are widened by it.
"""

import numpy as np
from scipy import optimize

from .problem import Problem, Solution, certify

__all__ = ["by_scipy"]

_WIDTHS = (1e-1, 1e-2, 1e-3, 1e-4)  # relative to the spread of the responses


def by_scipy(
    problem: Problem, start: np.ndarray | None = None, *, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Minimise ``problem`` from ``start`` (p,) with `scipy.optimize.minimize` (L-BFGS-B).

    Each round may take 20 times ``max_iter`` iterations, for they are far cheaper than Newton's.
    """
    smooth = not (problem.loss.needs_prox or problem.lasso.any())
    norms = np.sqrt(np.einsum("ij,ij->j", problem.X, problem.X) + problem.ridge)
    unit = 1.0 / np.where(norms > 0, norms, 1.0)  # preconditions unscaled columns
    theta = np.zeros(problem.X.shape[1]) if start is None else np.asarray(start, dtype=float)
    spread = float(np.median(np.abs(problem.v - np.median(problem.v)))) or 1.0
    options = {"maxiter": 20 * max_iter, "maxfun": 40 * max_iter, "ftol": 1e-16, "gtol": 1e-10}
    nit = 0

    def objective(scaled: np.ndarray, eps: float) -> tuple[float, np.ndarray]:
        value, u, u1 = _smoothed(problem, scaled * unit, eps)
        return value, problem.stationarity(scaled * unit, u, u1) * unit

    for width in (1.0,) if smooth else _WIDTHS:
        eps = width * spread
        found = optimize.minimize(
            objective, theta / unit, (eps,), jac=True, method="L-BFGS-B", options=options
        )
        theta = found.x * unit
        nit += found.nit
    _, u, u1 = _smoothed(problem, theta, eps)
    return certify(problem, theta, u, u1, tol=tol, nit=nit)


def _smoothed(problem: Problem, theta: np.ndarray, eps: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Smoothed objective at ``theta``, with the slopes of its rows (n,) and of its L1 part (p,)."""
    r = problem.residuals(theta)
    if problem.loss.needs_prox:
        u = problem.loss.prox_slope(r, eps)
        value = np.sum(problem.loss.value(r - eps * u)) + 0.5 * eps * (u @ u)
    else:
        u = problem.loss.derivative(r)
        value = np.sum(problem.loss.value(r))
    share = np.clip(theta / eps, -1.0, 1.0)
    size = np.where(np.abs(share) < 1, 0.5 * theta * share, np.abs(theta) - 0.5 * eps)
    value += problem.lasso @ size + 0.5 * problem.ridge @ theta**2 + problem.tilt @ theta
    return value, u, problem.lasso * share
