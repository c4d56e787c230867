"""The same problems through other people's optimisers, to the same certificate (theory, section 4).

LAD and quantile loss without a ridge part are linear programmes, which `scipy.optimize.linprog` (HiGHS)
solves in their dual form. Anything else goes through the envelopes of `newton`, each minimised by
`scipy.optimize.minimize` (trust-exact). statsmodels' QuantReg finds the rows that a quantile regression
goes through; multipliers for the certificate follow from them.
"""

import math
import warnings

import numpy as np

from ..errors import InputError
from .envelope import Envelope, Point
from .newton import active_set, certified, multipliers_method, start_at, typical
from .problem import Problem, Solution, is_only, vanishes

_TIGHT = 1e-10  # of HiGHS: the smallest tolerance that it takes
_ROUNDED = 1e-6  # of QuantReg: residuals below it weigh as if they were this large
_PATIENCE = 10  # steps without a move after which a trust region holds nothing better
_WIDEST = 1e15  # largest trust region, in units of the first


def by_scipy(
    problem: Problem, start: np.ndarray | None = None, *, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Minimise ``problem`` from ``start`` (p,) with `scipy.optimize`; ``max_iter`` counts the interior
    point's and the trust region's iterations together."""
    theta = np.zeros(problem.X.shape[1]) if start is None else np.asarray(start, dtype=float)
    linear = None
    nit = 0
    if problem.loss.kind == "step" and vanishes(problem):
        vertex, nit = _linear_programme(problem, max_iter)
        if vertex is not None:
            linear = certified(problem, active_set(problem, vertex), tol, nit)
            if linear.success and is_only(problem, vertex.u, vertex.u1):
                return linear
    here, steps = start_at(problem, theta), 0
    if nit < max_iter:
        here, steps = multipliers_method(problem, here, max_iter - nit, inner=_trust_region)
    solution = certified(problem, here, tol, nit + steps)
    return linear if linear is not None and linear.success and not solution.success else solution


def by_statsmodels(
    problem: Problem, start: np.ndarray | None = None, *, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Minimise ``problem`` with statsmodels' QuantReg, which starts anew. A tilt, which it does not know,
    goes to `by_scipy`, and so does what it leaves open: it cycles now and then, or finds one of several."""
    if problem.loss.kind != "step" or problem.lasso.any() or not vanishes(problem):
        raise InputError(
            "solver='statsmodels' is its QuantReg, for loss 'lad' or 'quantile' with penalty=0: give "
            "these, or solver='scipy'"
        )
    if not problem.tilt.any():
        from statsmodels.regression.quantile_regression import QuantReg

        down, up = problem.loss.slopes
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the certificate says whether it converged
            model = QuantReg(problem.v, problem.X)
            found = model.fit(q=up / (down + up), p_tol=_TIGHT, max_iter=max_iter)
        r = problem.residuals(found.params)
        u = np.clip(r / _ROUNDED, -1.0, 1.0) * np.where(r > 0, up, down)  # slopes of its last equations
        vertex = active_set(problem, Point(found.params, r, u, np.zeros(len(found.params))))
        solution = certified(problem, vertex, tol, found.iterations)
        if solution.success and is_only(problem, vertex.u, vertex.u1):
            return solution
    return by_scipy(problem, start, tol=tol, max_iter=max_iter)


def _linear_programme(problem: Problem, max_iter: int) -> tuple[Point | None, int]:
    """The minimiser without the ridge part, or None, and the number of iterations. The dual form: slopes u
    of the rows and u1 of the L1 part, within bounds, with ``X'u - u1 = tilt`` and the largest ``v'u``; the
    equations' multipliers are the coefficients."""
    from scipy import optimize  # it takes long to import

    n, p = problem.X.shape
    down, up = problem.loss.slopes
    norms = np.sqrt(np.einsum("ij,ij->j", problem.X, problem.X) + np.square(problem.lasso))
    unit = 1.0 / np.where(norms > 0, norms, 1.0)
    l1 = np.flatnonzero(problem.lasso)
    bound = problem.lasso[l1]
    found = optimize.linprog(
        np.concatenate([-problem.v, np.zeros(len(l1))]),
        A_eq=np.hstack([problem.X.T * unit[:, None], -np.diag(unit)[:, l1]]),
        b_eq=problem.tilt * unit,
        bounds=np.concatenate([np.tile([-down, up], (n, 1)), np.column_stack([-bound, bound])]),
        method="highs-ipm",
        options={
            "maxiter": max_iter,
            "primal_feasibility_tolerance": _TIGHT,
            "dual_feasibility_tolerance": _TIGHT,
        },
    )
    if not found.success:
        return None, found.nit
    theta = -unit * found.eqlin.marginals
    u = np.clip(found.x[:n], -down, up)
    u1 = np.zeros(p)
    u1[l1] = np.clip(found.x[n:], -bound, bound)
    return Point(theta, problem.residuals(theta), u, u1), found.nit


def _trust_region(stage: Envelope, target: float, max_iter: int) -> tuple[Point, int]:
    """As `minimise_envelope`, by `scipy.optimize.minimize`."""
    from scipy import optimize

    problem = stage.problem
    norms = np.sqrt(np.square(stage.norms) + problem.ridge + stage.damp)
    unit = 1.0 / np.where(norms > 0, norms, 1.0)
    rows = math.sqrt(len(problem.v))
    radius = rows * typical(problem.v)
    kept = stage.last.theta / unit
    waited = 0

    def at(x: np.ndarray) -> Point:
        return stage.point(x * unit, problem.residuals(x * unit))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        here = at(x)
        return stage.value(here), stage.gradient(here) * unit

    def hessian(x: np.ndarray) -> np.ndarray:
        return stage.hessian(at(x)) * unit[:, None] * unit

    def stop_where_nothing_moves(x: np.ndarray) -> None:
        nonlocal kept, waited
        waited = waited + 1 if np.array_equal(x, kept) else 0
        kept = x.copy()
        if waited == _PATIENCE:
            raise StopIteration

    with np.errstate(all="ignore"):  # values beyond all numbers are steps that are not taken
        found = optimize.minimize(
            objective,
            kept,
            jac=True,
            hess=hessian,
            method="trust-exact",
            callback=stop_where_nothing_moves,
            options={
                "gtol": target * rows,
                "maxiter": max(max_iter, 1),
                "initial_trust_radius": radius,
                "max_trust_radius": _WIDEST * radius,
            },
        )
    return at(found.x), found.nit
