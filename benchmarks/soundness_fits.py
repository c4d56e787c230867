"""Fits of `soundness.py`: minimisers with verified optimality conditions, by methods of its own.

A fit minimises sum l(v_i - x_i' theta) + ridge/2 |theta|^2 + sum lasso_j |theta_j|, the smallest norm among
tied minimisers. Rows are *inner* where the slope of the loss is a free unknown, *outer* where it is at one
of its ends; columns are in (with a sign) or out. Given that structure the optimality conditions are
linear, and are solved in double precision and refined in long double. A structure is guessed (from the
last fit, or by the interior-point method clarabel), corrected until no condition is violated, and a fit
counts as `sound` only where all of them hold. What cannot be verified is said, never used.
"""

from dataclasses import dataclass, field, replace

import clarabel
import numpy as np
from scipy import optimize, sparse
from soundness_losses import LONG, Clipped
from soundness_smooth import smooth_fit
from soundness_systems import (
    ROUNDS,
    TINY,
    Fitted,
    column_violations,
    interior_point,
    solve_structure,
    stationary,
)

# ridges that pick the smallest norm among tied minimisers
VANISHING = (1e-5, 1e-7, 1e-9, 1e-11, 1e-13, 1e-15)
KNOWN = 1e-6  # of scale and residual: with larger errors a fit is none to judge by


@dataclass
class Task:
    """A fit that is asked for again and again with other responses; it remembers its last structure."""

    A: np.ndarray
    loss: object
    ridge: float
    lasso: np.ndarray
    scale: float = 1.0  # of the responses of the training rows
    memory: dict = field(default_factory=dict)

    def __post_init__(self):
        self.long = self.A.astype(LONG)
        self.size = np.abs(self.A)
        self.alone, self.doubtful = np.zeros(len(self.A), dtype=bool), False
        if self.ridge == 0 and not self.lasso.any():
            self.alone, self.doubtful = independent_rows(self.A)

    def other(self, **changes):
        """The same task with other fields, and nothing remembered."""
        return replace(self, **changes, memory={})

    def fit(self, v):
        """The `Fitted` at responses (N,)."""
        v = np.asarray(v, dtype=LONG)
        if self.alone.any() and not _jumps(self.loss):
            return _without_alone(self, v)
        if isinstance(self.loss, Clipped):
            return _clipped_fit(self, v)
        return smooth_fit(self, v)


def _jumps(loss):
    return isinstance(loss, Clipped) and loss.soft == 0


def independent_rows(A):
    """Rows that are not in the span of the others, and whether that is in doubt.

    Without a penalty their residuals are 0.
    """
    scaled = A / np.maximum(np.max(np.abs(A), axis=0), 1e-300)
    rows = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
    left, singular, _ = np.linalg.svd(rows, full_matrices=True)
    rank = int(np.sum(singular > 1e-11 * singular[0]))
    share = np.linalg.norm(left[:, rank:], axis=1)
    doubtful = np.any((share > 1e-11) & (share < 1e-6))
    doubtful |= np.any((singular > 1e-14 * singular[0]) & (singular < 1e-9 * singular[0]))
    return share < 1e-8, bool(doubtful)


def _without_alone(task, v):
    """The fit of rows that depend on each other; the others pass through their responses."""
    n, p = task.A.shape
    rest = ~task.alone
    out = Fitted(np.zeros(n, dtype=LONG), np.zeros(n), task.alone.copy(), True, np.zeros(p, dtype=LONG))
    if not rest.any():
        return out
    if "rest" not in task.memory:
        task.memory["rest"] = task.other(A=task.A[rest])
    part = task.memory["rest"].fit(v[rest])
    out.residuals[rest], out.error[rest], out.zero[rest] = part.residuals, part.error, part.zero
    out.sound = part.sound and not task.doubtful
    return out


# Losses whose slope is a clipped line ---------------------------------------------------------------


def _clipped_fit(task, v):
    """Guess a structure, correct it, verify it."""
    loss = task.loss
    if np.isinf(loss.up) and not task.lasso.any():
        return _squared_fit(task, v)
    if loss.soft == 0 and task.ridge == 0:
        return _smallest_norm_fit(task, v)
    return _verified(task, v, task.ridge)


def _verified(task, v, ridge):
    """A fit from the structure of the last one, else from clarabel's."""
    best = None
    for guess in ("last", "clarabel"):
        if guess == "last" and ("structure", ridge) not in task.memory:
            continue
        if guess == "last":
            rows, signs = task.memory["structure", ridge]
        else:
            rows, signs = clarabel_structure(task, v, ridge)
        best = _corrected(task, v, ridge, rows, signs)
        if best.sound:
            return best
    return best


def _corrected(task, v, ridge, rows, signs):
    """Correct a structure until no condition is violated; one change at a time once it cycles."""
    seen = set()
    single = False
    found = None
    for _ in range(ROUNDS):
        found = _Point.of(task, v, ridge, rows, signs)
        new_rows, new_signs, worst = found.changes()
        if worst is None or found.settled_by_multipliers():
            task.memory["structure", ridge] = rows, signs
            return found.fitted(True)
        key = rows.tobytes() + signs.tobytes()
        single = single or key in seen
        seen.add(key)
        rows, signs = worst if single else (new_rows, new_signs)
    return found.fitted(False)


@dataclass
class _Point:
    """The solution of a structure, and which conditions it violates."""

    task: Task
    v: np.ndarray
    ridge: float
    rows: np.ndarray
    signs: np.ndarray
    theta: np.ndarray
    slopes: np.ndarray
    residuals: np.ndarray
    error: np.ndarray
    slope_error: np.ndarray
    theta_error: np.ndarray

    @classmethod
    def of(cls, task, v, ridge, rows, signs):
        """Solve the optimality conditions of a structure."""
        loss, A = task.loss, task.long
        inner = rows == 0
        kept = (task.lasso == 0) | (signs != 0)
        ends = np.where(rows > 0, loss.up, np.where(rows < 0, -loss.down, 0.0)).astype(LONG)
        pull = A.T @ ends - task.lasso * signs
        one = np.ones(len(v), dtype=LONG)
        theta, wrong, u, u_error = solve_structure(A, inner, kept, ridge, one, loss.soft * one, v, pull)
        slopes = ends.copy()
        slopes[inner] = u
        fitted = A @ theta
        residuals = v - fitted
        noise = TINY * (np.abs(v) + task.size @ np.abs(theta)).astype(float)
        error = task.size @ wrong + noise
        slope_error = np.zeros(len(v))
        slope_error[inner] = u_error
        return cls(task, v, ridge, rows, signs, theta, slopes, residuals, error, slope_error, wrong)

    def changes(self):
        """The corrected structure, and that with the worst change alone (None if nothing is violated)."""
        loss, rows, signs = self.task.loss, self.rows, self.signs
        slack = 1e-15 * (np.abs(self.v) + self.task.size @ np.abs(self.theta)) + 10 * self.error
        room = 1e-12 * min(loss.up + loss.down, 1e300) + 10 * self.slope_error
        size = max(self.task.scale, 1e-300)
        span = min(loss.up + loss.down, 1e300)
        down, up = loss.down, loss.up
        inner = rows == 0
        high = np.where(inner & (self.slopes > up + room), (self.slopes - up) / span, 0)
        low = np.where(inner & (self.slopes < -down - room), (-down - self.slopes) / span, 0)
        knee = np.where(rows > 0, loss.soft * min(up, 1e300), loss.soft * min(down, 1e300))
        short = np.where(inner, 0, knee - rows * self.residuals)
        back = np.where(short > slack, short / size, 0)
        contradiction = np.where(inner, np.abs(self.residuals - loss.soft * self.slopes), 0)
        broken = contradiction > 1000 * slack
        back_signs, into = column_violations(
            self.task, self.theta, self.theta_error, self.slopes, self.slope_error, signs
        )
        new_rows = np.where(high > 0, 1, np.where(low > 0, -1, np.where(back > 0, 0, rows)))
        new_signs = np.where(back_signs > 0, 0, np.where(into != 0, np.sign(into), signs)).astype(int)
        if broken.any():  # inner rows that contradict each other: let go of one
            new_rows[np.argmax(np.where(inner, np.abs(self.slopes), -1))] = 1
            return new_rows, new_signs, (new_rows, signs)
        badness = np.concatenate([high, low, back, back_signs, np.abs(into)]).astype(float)
        if not np.any(badness > 0):
            return rows, signs, None
        return new_rows, new_signs, self._one_change(int(np.argmax(badness)), new_rows, new_signs)

    def _one_change(self, place, new_rows, new_signs):
        n = len(self.rows)
        rows, signs = self.rows.copy(), self.signs.copy()
        if place < 3 * n:
            rows[place % n] = new_rows[place % n]
        else:
            j = (place - 3 * n) % len(signs)
            signs[j] = new_signs[j]
        return rows, signs

    def settled_by_multipliers(self):
        """Whether theta is a minimiser though the slopes found are not feasible: others may be.

        Where several slopes satisfy the equations (rows that coincide), a linear program looks for
        feasible ones.
        """
        loss, task = self.task.loss, self.task
        if loss.soft > 0 or not np.any(self.rows == 0):
            return False
        slack = 1e-12 * (np.abs(self.v) + task.size @ np.abs(self.theta)) + 10 * self.error
        if np.any(np.where(self.rows == 0, np.abs(self.residuals), -self.rows * self.residuals) > slack):
            return False
        if np.any(self.signs * self.theta < -1e-12 * task.scale):
            return False
        if np.linalg.matrix_rank(task.A[self.rows == 0]) == np.sum(self.rows == 0):
            return False
        return feasible_slopes(task, self.rows, self.signs, self.ridge * self.theta)

    def fitted(self, sound):
        """The result."""
        inner = self.rows == 0
        residuals = np.where(inner, self.task.loss.soft * self.slopes, self.residuals)
        error = np.where(inner, self.task.loss.soft * self.slope_error, self.error)
        zero = inner & (self.task.loss.soft == 0)
        error = np.where(zero & ~self._strict(), 1e-11 * self.task.scale, error)
        zero = zero & self._strict()
        kept = (self.task.lasso == 0) | (self.signs != 0)
        exact = stationary(
            self.task, self.ridge, self.theta, self.slopes, self.signs, kept, self.slope_error
        )
        loss_jumps = self.task.loss.soft == 0
        known = np.all(error <= KNOWN * (self.task.scale + np.abs(residuals)))  # False for NaN too
        sound = sound and known and (exact or (inner.any() and loss_jumps))
        return Fitted(residuals, error, zero, sound and self._unique(), self.theta)

    def _strict(self):
        """Rows whose slope is strictly inside its range, or where slopes are not determined at all."""
        loss = self.task.loss
        room = 1e-8 * (loss.up + loss.down)
        inside = (self.slopes > room - loss.down) & (self.slopes < loss.up - room)
        inner = self.rows == 0
        beyond = inner & ((self.slopes < -room - loss.down) | (self.slopes > loss.up + room))
        return inside | beyond.any()

    def _unique(self):
        """Whether the residuals of outer rows are determined, where there is no ridge part (Huber)."""
        if self.ridge > 0 or self.task.loss.soft == 0:
            return True
        outer = self.rows != 0
        kept = (self.task.lasso == 0) | (self.signs != 0)
        inner_part = self.task.A[np.ix_(~outer, kept)]
        rank = np.linalg.matrix_rank(inner_part, tol=1e-10 * max(np.linalg.norm(inner_part), 1e-300))
        return not outer.any() or rank == np.sum(kept)


def feasible_slopes(task, rows, signs, ridge_part):
    """Whether slopes of the inner rows exist that satisfy all conditions, by a linear program."""
    loss, A = task.loss, task.A
    inner = np.flatnonzero(rows == 0)
    ends = np.where(rows > 0, loss.up, np.where(rows < 0, -loss.down, 0.0))
    fixed = A.T @ ends
    kept = (task.lasso == 0) | (signs != 0)
    size = np.maximum(np.sum(np.abs(A), axis=0), 1e-300)
    equal = (A[np.ix_(inner, kept)] / size[kept]).T
    right = ((ridge_part + task.lasso * signs).astype(float)[kept] - fixed[kept]) / size[kept]
    out = ~kept
    inside = (A[np.ix_(inner, out)] / size[out]).T
    upper = np.concatenate([task.lasso[out] - fixed[out], task.lasso[out] + fixed[out]])
    upper = upper / np.tile(size[out], 2)
    # the smallest violation t of all conditions
    m = len(inner)
    left = np.vstack([equal, -equal, inside, -inside])
    left = np.hstack([left, -np.ones((len(left), 1))])
    bounds = [(-loss.down, loss.up)] * m + [(0, None)]
    cost = np.append(np.zeros(m), 1.0)
    found = optimize.linprog(cost, left, np.concatenate([right, -right, upper]), bounds=bounds)
    return found.status == 0 and found.fun <= 1e-10


def clarabel_structure(task, v, ridge):
    """Which rows are inner and which columns are in, by an interior-point method.

    minimise ridge/2 |theta|^2 + soft/2 |w|^2 + up a + down b + lasso t
    subject to A theta + soft w + a - b = v, |theta| <= t, a >= 0 and b >= 0.
    """
    loss, A = task.loss, task.A
    n, p = A.shape
    size = max(float(np.median(np.abs(v))), task.scale, 1e-300)
    response = (v / size).astype(float)
    capped = np.isfinite(loss.up)
    up, down = (loss.up, loss.down) if capped else (1.0, 1.0)
    if loss.soft > 0:  # everything in units of ``size``
        up, down = (up / size, down / size) if capped else (up, down)
        curve, lasso = ridge, task.lasso / size
    else:
        curve, lasso = ridge * size, task.lasso
    slopes = np.flatnonzero(lasso > 0)
    k = len(slopes)
    outer = n if capped else 0
    eye = sparse.identity(n, format="csc")
    first = [sparse.csc_matrix(A), loss.soft * eye, eye[:, :outer], -eye[:, :outer]]
    equal = sparse.hstack([*first, sparse.csc_matrix((n, k))], format="csc")
    pick = sparse.csc_matrix((np.ones(k), (np.arange(k), slopes)), shape=(k, p))
    none = sparse.csc_matrix((k, n + 2 * outer))
    sizes = sparse.identity(k, format="csc")
    above = sparse.hstack([pick, none, -sizes])
    below = sparse.hstack([-pick, none, -sizes])
    positive = sparse.hstack(
        [
            sparse.csc_matrix((2 * outer, p + n)),
            -sparse.identity(2 * outer),
            sparse.csc_matrix((2 * outer, k)),
        ]
    )
    quadratic = np.concatenate([np.full(p, curve), np.full(n, loss.soft), np.zeros(2 * outer + k)])
    cost = np.concatenate([np.zeros(p + n), np.full(outer, up), np.full(outer, down), lasso[slopes]])
    solution = interior_point(
        quadratic,
        cost,
        sparse.vstack([equal, above, below, positive]),
        np.concatenate([response, np.zeros(2 * k + 2 * outer)]),
        [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2 * k + 2 * outer)],
    )
    x, dual = np.array(solution.x), np.array(solution.z)
    rows = np.zeros(n, dtype=int)
    if capped:
        a, b = x[p + n : p + 2 * n], x[p + 2 * n : p + 3 * n]
        slack_a, slack_b = dual[n + 2 * k : 2 * n + 2 * k], dual[2 * n + 2 * k :]
        rows = np.where(a > slack_a / (up + down), 1, np.where(b > slack_b / (up + down), -1, 0))
    signs = np.zeros(p, dtype=int)
    over, under = dual[n : n + k], dual[n + k : n + 2 * k]
    coefficient = x[slopes]
    active = np.abs(coefficient) > np.minimum(over, under) / lasso[slopes]
    signs[slopes] = np.where(active, np.sign(coefficient), 0).astype(int)
    return rows, signs


def _squared_fit(task, v):
    """Squared loss without an L1 part: residuals are linear in the responses.

    Solved once for each of the responses that change; the last row alone does from call to call.
    """
    if "linear" not in task.memory:
        task.memory["linear"] = {}
    made = task.memory["linear"]
    key = v[:-1].tobytes()
    rows, signs = np.zeros(len(v), dtype=int), np.zeros(task.A.shape[1], dtype=int)
    if key not in made:
        base = np.append(v[:-1], LONG(0))
        unit = np.append(np.zeros(len(v) - 1, dtype=LONG), LONG(1))
        made[key] = [_Point.of(task, r, task.ridge, rows, signs).fitted(True) for r in (base, unit)]
    base, unit = made[key]
    z = v[-1]
    error = base.error + np.abs(float(z)) * unit.error
    residuals = base.residuals + z * unit.residuals
    error = error + TINY * (np.abs(base.residuals) + np.abs(z * unit.residuals)).astype(float)
    theta = base.theta + z * unit.theta
    zero = np.zeros(len(v), dtype=bool)
    return Fitted(residuals, error, zero, base.sound and unit.sound, theta)


def _smallest_norm_fit(task, v):
    """LAD and quantile loss without a ridge part: the smallest norm among tied minimisers.

    theta is it if 0 and -e theta, for some e > 0, are both subgradients of the objective at theta: the
    first says that theta is a minimiser, the second that no other one is shorter. A fit with the small
    ridge e has the second property, and is checked for the first.
    """
    found = None
    for share in VANISHING:
        ridge = share / max(task.scale, 1e-300)
        found = _verified(task, v, ridge)
        if not found.sound:
            continue
        rows, signs = task.memory["structure", ridge]
        if feasible_slopes(task, rows, signs, np.zeros(len(found.theta))):
            return found
    found.sound = False
    return found
