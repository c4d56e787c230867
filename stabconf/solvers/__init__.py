"""Arrays in, `Solution` out: the minimiser of loss + penalty + tilt with a certified radius."""

from ..errors import InputError
from .newton import newton
from .problem import Problem, Solution, certify
from .quasi_newton import quasi_newton
from .ties import TieBreak, smallest_norm, vanishing_ridge

__all__ = [
    "Problem",
    "Solution",
    "SOLVERS",
    "TieBreak",
    "certify",
    "minimise",
    "smallest_norm",
    "vanishing_ridge",
]

SOLVERS = {"auto": newton, "newton": newton, "scipy": quasi_newton}


def minimise(problem, start=None, *, solver="auto", tol=1e-8, max_iter=1000):
    """Minimise a `Problem`.

    Parameters
    ----------
    problem : Problem
    start : (p,) array, optional
        Warm start.
    solver : {"auto", "newton", "scipy"}
        "newton" (the default) is exact for the piecewise-linear losses; "scipy" runs L-BFGS on the
        smoothed objective and is honest about the difference through its radius.
    tol : float
        Relative duality gap at which the solution counts as converged.
    max_iter : int

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from stabconf.losses import LAD
    >>> X, v = np.ones((3, 1)), np.array([0.0, 1.0, 5.0])
    >>> minimise(Problem(X, v, LAD(), ridge=np.array([1e-3]), lasso=np.zeros(1))).x.round(6)
    array([1.])
    """
    if solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is unknown: give one of {', '.join(SOLVERS)}")
    return SOLVERS[solver](problem, start, tol=tol, max_iter=max_iter)
