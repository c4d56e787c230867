"""Fits of `soundness.py` for losses whose slope bends: Newton's method with corrections of the columns.

Rows are solved for the residual, or, where the slope changes faster than the residual, for the slope.
Starts are the last fit, a fit with a loss whose slope is a clipped line, and clarabel's solution of a cone
program.
"""

import clarabel
import numpy as np
from scipy import sparse
from soundness_losses import LONG, Clipped
from soundness_systems import (
    ROUNDS,
    TINY,
    Fitted,
    column_violations,
    interior_point,
    solve_structure,
    stationary,
)

STEPS = 200  # of Newton's method


def smooth_fit(task, v):
    """Newton's method for the columns that are in, and corrections of that set; from several starts."""
    best = None
    for make in (_last_start, _clipped_start, _conic_start):
        start = make(task, v)
        if start is None:
            continue
        best = _smooth_corrected(task, v, *start)
        if best.sound:
            return best
    return best


def _last_start(task, v):
    """Coefficients, slopes and signs of the last fit."""
    return task.memory.get("smooth")


def _clipped_start(task, v):
    """Those of a fit with a loss whose slope is a clipped line: Huber's, or the squared one."""
    loss = task.loss
    end = loss.parameter if loss.name == "pseudo_huber" else 1.0 if loss.name == "logcosh" else np.inf
    soft = loss.parameter if loss.name == "logcosh" else 1.0
    if "clipped" not in task.memory:
        near = Clipped(soft, end, end)
        task.memory["clipped"] = task.other(loss=near)
    found = task.memory["clipped"].fit(v)
    signs = np.where(task.lasso > 0, np.sign(found.theta), 0).astype(int)
    return found.theta, _start_slopes(loss, found.residuals), signs


def _start_slopes(loss, residuals):
    if loss.name == "linex":
        residuals = np.minimum(residuals, 3 / LONG(loss.parameter))
    return loss.slope(residuals)


def _conic_start(task, v):
    """Those of clarabel's solution of the problem in conic form."""
    loss, A = task.loss, task.A
    n, p = A.shape
    if loss.name == "logcosh":
        return None
    value, a = v.astype(float), loss.parameter
    k = int(np.sum(task.lasso > 0))
    slopes = np.flatnonzero(task.lasso > 0)
    left, right = np.zeros((3 * n, p + n + k)), np.zeros(3 * n)
    sizes = np.arange(p, p + n)
    cost = np.concatenate([np.zeros(p), np.ones(n), task.lasso[slopes]])
    factor = a if loss.name == "linex" else 1.0
    place, other = (0, 2) if loss.name == "linex" else (2, 0)
    left[place::3, :p], right[place::3] = factor * A, factor * value
    left[np.arange(other, 3 * n, 3), sizes] = -1.0
    right[1::3] = a if loss.name == "pseudo_huber" else 1.0
    if loss.name == "linex":
        cost[:p] = a * np.sum(A, axis=0)
        cones = [clarabel.ExponentialConeT()] * n
    elif loss.name == "power":
        cones = [clarabel.PowerConeT(1.0 / a)] * n
    else:
        cost[p : p + n] = a
        cones = [clarabel.SecondOrderConeT(3)] * n
    bounds = np.zeros((2 * k, p + n + k))
    bounds[np.arange(k), slopes], bounds[np.arange(k, 2 * k), slopes] = 1.0, -1.0
    bounds[:, p + n :] = -np.vstack([np.eye(k), np.eye(k)])
    cones = [clarabel.NonnegativeConeT(2 * k), *cones]
    quadratic = np.concatenate([np.full(p, task.ridge), np.zeros(n + k)])
    constraints = sparse.csc_matrix(np.vstack([bounds, left]))
    found = interior_point(quadratic, cost, constraints, np.append(np.zeros(2 * k), right), cones, 1e-12)
    theta, dual = np.array(found.x)[:p], np.array(found.z)
    inside = np.minimum(dual[:k], dual[k : 2 * k]) > 1e-5 * task.lasso[slopes]
    signs = np.zeros(p, dtype=int)
    signs[slopes] = np.where(inside, 0, np.sign(theta[slopes]))
    theta = np.where((task.lasso > 0) & (signs == 0), 0, theta).astype(LONG)
    return theta, _start_slopes(loss, v - task.long @ theta), signs


def _smooth_corrected(task, v, theta, u, signs):
    seen = set()
    single = False
    found = Fitted(v, np.full(len(v), np.inf), np.zeros(len(v), dtype=bool), False, theta)
    for _ in range(ROUNDS):
        kept = (task.lasso == 0) | (signs != 0)
        theta = np.where(kept, theta, 0)
        theta, u, step, done = _newton(task, v, theta, u, signs, kept)
        residuals = v - task.long @ theta
        error = np.abs(task.long @ step).astype(float)
        error = error + TINY * (np.abs(v) + task.size @ np.abs(theta)).astype(float)
        slope_error = 1e-15 * np.abs(u).astype(float)
        back, into = column_violations(task, theta, np.abs(step), u, slope_error, signs)
        if not done:
            return found
        if not np.any(back > 0) and not np.any(into != 0):
            noise = np.where(task.loss.by_slope(residuals), 0, task.loss.curvature(residuals) * error)
            if not stationary(task, task.ridge, theta, u, signs, kept, 10 * noise):
                return found
            task.memory["smooth"] = theta, u, signs
            return Fitted(residuals, error, np.zeros(len(v), dtype=bool), True, theta)
        single = single or signs.tobytes() in seen
        seen.add(signs.tobytes())
        new = np.where(back > 0, 0, np.where(into != 0, np.sign(into), signs)).astype(int)
        if single:
            j = np.argmax(np.maximum(back, np.abs(into)))
            new = np.where(np.arange(len(new)) == j, new, signs)
        signs = new
    return found


def _newton(task, v, theta, u, signs, kept):
    """Newton's method on the optimality conditions of the columns that are in.

    Rows are solved for the residual, or, where the loss says so, for the slope. Returns theta, slopes, the
    last step and whether it converged.
    """
    loss = task.loss
    step = np.zeros(len(theta), dtype=LONG)
    theta, u = theta.copy(), u.copy()
    u = _consistent(loss, v - task.long @ theta, u)
    for _ in range(STEPS):
        step, change = _newton_step(task, v, theta, u, signs, kept)
        if not np.all(np.isfinite(step)):
            return theta, u, step, False
        share = _line_search(task, v, theta, u, step, change, signs, kept)
        moved = task.size @ np.abs(step)
        theta = theta + share * step
        residuals = v - task.long @ theta
        u = _consistent(loss, residuals, u + share * change)
        noise = 1e-17 * (np.abs(v) + task.size @ np.abs(theta)) + 1e-16 * task.scale
        if share == 1 and np.all(moved <= noise + 1e-14 * np.abs(residuals)):
            return theta, u, step, True
        if share == 0:
            return theta, u, step, bool(np.all(moved <= 1e-10 * (task.scale + np.abs(residuals))))
    return theta, u, step, bool(np.all(moved <= 1e-12 * (task.scale + np.abs(residuals))))


def _consistent(loss, residuals, u):
    """Slopes of the residuals; those of rows that are solved for the slope are kept."""
    keep = loss.by_slope(residuals)
    if loss.name == "linex":
        u = np.where(u > 0, u, loss.slope(np.minimum(residuals, 1 / LONG(loss.parameter))))
    slopes = loss.slope(np.where(keep, 0, residuals))
    return np.where(keep, u, slopes)


def _equations(task, v, theta, u, signs, kept):
    """What the optimality conditions leave over: of the rows (N,) and of the columns that are in (p,)."""
    residuals = v - task.long @ theta
    keep = task.loss.by_slope(residuals)
    made = task.loss.inverse(np.where(keep, u, 0))
    rows = np.where(keep, residuals - made, 0)
    gradient = task.long.T @ u - task.ridge * theta - task.lasso * signs
    return rows, np.where(kept, gradient, 0), residuals, keep


def _newton_step(task, v, theta, u, signs, kept):
    """Steps of theta and of the slopes."""
    rows, gradient, residuals, keep = _equations(task, v, theta, u, signs, kept)
    weight = np.where(keep, 1, task.loss.curvature(np.where(keep, 1, residuals)))
    soft = np.where(keep, task.loss.softness(np.where(keep, u, 1)), 1)
    everyone = np.ones(len(v), dtype=bool)
    step, _, change, _ = solve_structure(
        task.long, everyone, kept, LONG(task.ridge), weight, soft, rows, gradient
    )
    return step, change


def _line_search(task, v, theta, u, step, change, signs, kept):
    """Share of the step to go, such that the objective falls; all of it where slopes are unknowns."""
    if task.loss.name in ("power", "linex"):
        return LONG(1)
    measure = _objective(task, v, theta, signs)
    slope = -np.sum(step * (task.long.T @ u - task.ridge * theta - task.lasso * signs) * kept)
    share = LONG(1)
    for _ in range(60):
        value = _objective(task, v, theta + share * step, signs)
        if value <= measure + 1e-4 * share * slope + 1e-18 * np.abs(measure):
            return share
        share = share / 2
    return LONG(0)


def _objective(task, v, theta, signs):
    residuals = v - task.long @ theta
    penalty = task.ridge / 2 * np.sum(theta * theta) + np.sum(task.lasso * signs * theta)
    return np.sum(task.loss.value(residuals)) + penalty
