"""Arrays in, `Solution` out: the minimiser of loss + penalty + tilt with a certified radius.

`minimise` finds a minimiser; `solve` the one that is meant where several tie (theory, sections 2 and 4).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..threads import one_thread
from .blocks import BlockProblem, minimise_blocks
from .borrowed import by_scipy, by_statsmodels
from .envelope import gram
from .newton import by_newton
from .problem import Problem, Solution, TieBreak, certify, column_rank, is_only, patchy, smallest_norm

Finish = Callable[[Problem, Solution, np.ndarray | None], Solution]

SOLVERS: dict[str, Callable[..., Solution]] = {
    "auto": by_newton,
    "newton": by_newton,
    "scipy": by_scipy,
    "statsmodels": by_statsmodels,
}


@one_thread
def minimise(
    problem: Problem,
    start: np.ndarray | None = None,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Solution:
    """Minimise a `Problem`.

    Parameters
    ----------
    problem : Problem
    start : (p,) array, optional
        Warm start.
    solver : {"auto", "newton", "scipy", "statsmodels"}
        "newton" is the default; "scipy" takes `scipy.optimize` (a linear programme where the problem is
        one, else trust regions), "statsmodels" its QuantReg, where it applies.
    tol : float
        Relative duality gap at which the solution counts as converged.
    max_iter : int
        Steps of the solver, at the most.

    Examples
    --------
    >>> from stabconf.losses import LAD
    >>> X, v = np.ones((3, 1)), np.array([0.0, 1.0, 5.0])
    >>> minimise(Problem(X, v, LAD(), ridge=np.array([1e-3]), lasso=np.zeros(1))).x.round(6)
    array([1.])
    """
    if solver not in SOLVERS:
        raise InputError(f"solver={solver!r} is unknown: give one of {', '.join(SOLVERS)}")
    with np.errstate(over="ignore", invalid="ignore"):  # of steep slopes: such points are never the best
        return SOLVERS[solver](problem, start, tol=tol, max_iter=max_iter)


@one_thread
def solve(problem: Problem, finish: Finish | None = None, *, tol: float = 1e-8, **solving: Any) -> Solution:
    """The minimiser of smallest norm where several tie; ``solving`` are options of `minimise`.

    ``finish`` may better the solution of the problem that has one minimiser; its third argument are the
    vanishing ridge weights (p,), or None.

    Examples
    --------
    >>> from stabconf.losses import Squared
    >>> none = np.zeros(2)
    >>> solve(Problem(np.ones((3, 2)), np.full(3, 4.0), Squared(), none, none)).x.round(6)
    array([2., 2.])
    """
    ties = smallest_norm(problem)
    found = _found(problem, ties, finish, tol=tol, **solving)
    if patchy(problem) and not is_only(ties.apply(problem), found.multipliers, found.l1_multipliers):
        ties = smallest_norm(problem, vanishing=True)
        found = _found(problem, ties, finish, tol=tol, **solving)
    return ties.lift(problem, found, tol)


def _found(problem: Problem, ties: TieBreak, finish: Finish | None, **solving: Any) -> Solution:
    """The `Solution` of the problem that has one minimiser."""
    unique = ties.apply(problem)
    # Without a penalty so many orthonormal columns lead through every row.
    through = ties.basis is not None and not ties.beyond and unique.X.shape[0] == unique.X.shape[1]
    found = minimise(unique, unique.X.T @ unique.v if through else None, **solving)
    return found if finish is None else finish(unique, found, ties.extra)
