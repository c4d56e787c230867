"""Linear systems and optimality conditions that the fits of `soundness.py` share.

Systems are solved in double precision and refined in long double. A *task* (`soundness_fits.Task`) has the
design ``A`` (``long`` and ``size``: in long double, absolute values), ``ridge``, ``lasso`` (p,), ``scale``.
"""

import warnings
from dataclasses import dataclass

import clarabel
import numpy as np
from scipy import linalg, sparse
from soundness_losses import LONG

ROUNDS = 60  # corrections of a structure
TINY = 1e-18  # rounding of long double, with something to spare


@dataclass
class Fitted:
    """Residuals (N,) of a fit in long double, what is known about them, and whether they are verified.

    Attributes
    ----------
    residuals, error : (N,) arrays
        ``error`` is an estimate of the numerical error.
    zero : (N,) array of bool
        Residuals that the optimality conditions say are 0.
    sound : bool
    theta : (p,) array
    """

    residuals: np.ndarray
    error: np.ndarray
    zero: np.ndarray
    sound: bool
    theta: np.ndarray


def refined_solve(M, b):
    """Solution of M x = b (or of least norm) in long double, and the size of the last correction."""
    if not len(b):  # no column is in and no row is inner
        return np.zeros(0, dtype=LONG), np.zeros(0)
    high = np.asarray(M, dtype=LONG)
    low = high.astype(float)
    apply = _solver(low)
    x = np.zeros(len(b), dtype=LONG)
    last = np.full(len(b), np.inf)
    for _ in range(8):
        step = apply((b - high @ x).astype(float)).astype(LONG)
        if not np.all(np.isfinite(step)):
            return x, np.full(len(b), np.inf)
        size = np.abs(step).astype(float)
        if np.max(size) > 0.5 * np.max(last):
            break
        x = x + step
        last = size
        if np.max(size) == 0:
            break
    return x, last + 1e-19 * np.abs(x).astype(float)


def _solver(M):
    """A function that solves with M, equilibrated; by least norm where M is singular."""
    rows = 1.0 / np.maximum(np.max(np.abs(M), axis=1), 1e-300)
    scaled = M * rows[:, None]
    columns = 1.0 / np.maximum(np.max(np.abs(scaled), axis=0), 1e-300)
    scaled = scaled * columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a singular matrix is seen below
        factor = linalg.lu_factor(scaled, check_finite=False)
    rcond = _rcond(factor[0], np.max(np.sum(np.abs(scaled), axis=0)))
    if rcond > 1e-15:
        return lambda b: columns * linalg.lu_solve(factor, rows * b, check_finite=False)
    inverse = np.linalg.pinv(M, rcond=1e-12)
    return lambda b: inverse @ b


def _rcond(lu, norm):
    if not np.all(np.isfinite(lu)) or np.any(np.diag(lu) == 0):
        return 0.0
    return linalg.lapack.dgecon(lu, norm)[0]


def solve_structure(A, inner, kept, ridge, weight, soft, target, pull):
    """theta and slopes of the inner rows, given which rows are inner and which columns are in.

    Solves ``weight_i x_i' theta + soft_i u_i = target_i`` for inner rows and
    ``ridge theta - A_inner' u = pull`` for columns that are in.
    """
    J, I = np.flatnonzero(kept), np.flatnonzero(inner)  # noqa: E741
    p, m = len(J), len(I)
    part = A[np.ix_(I, J)]
    M = np.zeros((p + m, p + m), dtype=LONG)
    M[:p, :p] = ridge * np.eye(p)
    M[:p, p:] = -part.T
    M[p:, :p] = weight[I, None] * part
    M[np.arange(p, p + m), np.arange(p, p + m)] = soft[I]
    x, error = refined_solve(M, np.concatenate([pull[J], target[I]]))
    theta = np.zeros(A.shape[1], dtype=LONG)
    wrong = np.zeros(A.shape[1])
    theta[J], wrong[J] = x[:p], error[:p]
    return theta, wrong, x[p:], error[p:]


def column_violations(task, theta, theta_error, slopes, slope_error, signs):
    """Columns whose coefficient has the wrong sign, and columns that should come in (signed)."""
    lasso = task.lasso
    gradient = (task.long.T @ slopes).astype(float)
    room = 1e-11 * (lasso + task.size.T @ np.abs(slopes).astype(float))
    room = room + 10 * task.size.T @ slope_error
    wrong = -signs * theta
    slack = 1e-14 * task.scale + 10 * theta_error
    back = np.where((signs != 0) & (wrong > slack), wrong / task.scale, 0.0)
    out = (signs == 0) & (lasso > 0)
    excess = np.where(out, np.abs(gradient) - lasso, 0.0) / np.where(out, lasso, 1.0)
    into = np.where(excess * lasso > room, np.sign(gradient) * excess, 0.0)
    return back.astype(float), into


def stationary(task, ridge, theta, slopes, signs, kept, error):
    """Whether the gradient of the objective vanishes in the columns that are in."""
    left = ridge * theta - task.long.T @ slopes + task.lasso * signs
    size = ridge * np.abs(theta) + task.size.T @ (np.abs(slopes) + 1e10 * error) + task.lasso
    return bool(np.all(np.where(kept, np.abs(left) <= 1e-10 * size, True)))


def interior_point(quadratic, cost, constraints, right, cones, tolerance=1e-13):
    """clarabel's solution of a cone program."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    matrix = sparse.diags(quadratic, format="csc")
    return clarabel.DefaultSolver(matrix, cost, constraints.tocsc(), right, cones, settings).solve()
