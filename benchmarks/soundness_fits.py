"""Fits of `soundness.py`: minimisers with verified optimality conditions, by methods of its own.

A fit minimises sum l(v_i - x_i' theta) + ridge/2 |theta|^2 + sum lasso_j |theta_j|, the smallest norm among
tied minimisers. Rows are *inner* where the slope of the loss is a free unknown, *outer* where it is at one
of its ends; columns are in (with a sign) or out. Given that structure the optimality conditions are
linear, and are solved in double precision and refined in long double. A structure is guessed (from the
last fit, or by the interior-point method clarabel), corrected until no condition is violated, and a fit
counts as `sound` only where all of them hold. What cannot be verified is said, never used.
"""

import warnings
from dataclasses import dataclass, field

import clarabel
import numpy as np
from scipy import linalg, optimize, sparse
from soundness_losses import LONG, Clipped

ROUNDS = 60  # corrections of a structure
STEPS = 200  # of Newton's method
VANISHING = (
    1e-5,
    1e-7,
    1e-9,
    1e-11,
    1e-13,
    1e-15,
)  # ridges that pick the smallest norm among tied minimisers
TINY = 1e-18


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
        self.alone = np.zeros(len(self.A), dtype=bool)
        if self.ridge == 0 and not self.lasso.any():
            self.alone = independent_rows(self.A)

    def fit(self, v):
        """The `Fitted` at responses (N,)."""
        v = np.asarray(v, dtype=LONG)
        if self.alone.any() and not _jumps(self.loss):
            return _without_alone(self, v)
        if isinstance(self.loss, Clipped):
            return _clipped_fit(self, v)
        return _smooth_fit(self, v)


def _jumps(loss):
    return isinstance(loss, Clipped) and loss.soft == 0


def independent_rows(A):
    """Rows that are not in the span of the others: without a penalty their residuals are 0."""
    rows = A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-300)
    left, singular, _ = np.linalg.svd(rows, full_matrices=True)
    rank = int(np.sum(singular > 1e-11 * singular[0])) if len(singular) else 0
    null = left[:, rank:]
    return np.linalg.norm(null, axis=1) < 1e-7


def _without_alone(task, v):
    """The fit of rows that depend on each other; the others pass through their responses."""
    n, p = task.A.shape
    rest = ~task.alone
    out = Fitted(np.zeros(n, dtype=LONG), np.zeros(n), task.alone.copy(), True, np.zeros(p, dtype=LONG))
    if not rest.any():
        return out
    if "rest" not in task.memory:
        task.memory["rest"] = Task(task.A[rest], task.loss, task.ridge, task.lasso, task.scale)
    part = task.memory["rest"].fit(v[rest])
    out.residuals[rest], out.error[rest], out.zero[rest] = part.residuals, part.error, part.zero
    out.sound = part.sound
    return out


# Linear systems -----------------------------------------------------------------------------------


def refined_solve(M, b):
    """Solution of M x = b (or of least norm) in long double, and the size of the last correction."""
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
        back_signs, into = self._columns()
        new_rows = np.where(high > 0, 1, np.where(low > 0, -1, np.where(back > 0, 0, rows)))
        new_signs = np.where(back_signs > 0, 0, np.where(into != 0, np.sign(into), signs)).astype(int)
        if broken.any():  # inner rows that contradict each other: let go of one
            new_rows[np.argmax(np.where(inner, np.abs(self.slopes), -1))] = 1
            return new_rows, new_signs, (new_rows, signs)
        badness = np.concatenate([high, low, back, back_signs, np.abs(into)]).astype(float)
        if not np.any(badness > 0):
            return rows, signs, None
        return new_rows, new_signs, self._one_change(int(np.argmax(badness)), new_rows, new_signs)

    def _columns(self):
        """Columns whose coefficient has the wrong sign, and columns that should come in (signed)."""
        lasso, signs = self.task.lasso, self.signs
        gradient = (self.task.long.T @ self.slopes).astype(float)
        room = 1e-11 * (lasso + self.task.size.T @ np.abs(self.slopes).astype(float))
        room = room + 10 * self.task.size.T @ self.slope_error
        wrong = -signs * self.theta
        slack = 1e-14 * self.task.scale + 10 * self.theta_error
        back = np.where((signs != 0) & (wrong > slack), wrong / self.task.scale, 0.0)
        out = (signs == 0) & (lasso > 0)
        excess = np.abs(gradient) - lasso
        into = np.where(out & (excess > room), np.sign(gradient) * excess / np.maximum(lasso, 1e-300), 0.0)
        return back.astype(float), into

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
        sound = sound and np.all(np.isfinite(error)) and (exact or (inner.any() and loss_jumps))
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
    solution = _clarabel(
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


def _clarabel(quadratic, cost, constraints, right, cones, tolerance=1e-13):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    matrix = sparse.diags(quadratic, format="csc")
    return clarabel.DefaultSolver(matrix, cost, constraints.tocsc(), right, cones, settings).solve()


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


# Losses whose slope bends ---------------------------------------------------------------------------


def _smooth_fit(task, v):
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
        task.memory["clipped"] = Task(task.A, near, task.ridge, task.lasso, task.scale)
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
    found = _clarabel(quadratic, cost, constraints, np.append(np.zeros(2 * k), right), cones, 1e-12)
    theta, dual = np.array(found.x)[:p], np.array(found.z)
    inside = np.minimum(dual[:k], dual[k : 2 * k]) > 1e-5 * task.lasso[slopes]
    signs = np.zeros(p, dtype=int)
    signs[slopes] = np.where(inside, 0, np.sign(theta[slopes]))
    theta = np.where((task.lasso > 0) & (signs == 0), 0, theta).astype(LONG)
    return theta, _start_slopes(loss, v - task.long @ theta), signs


def stationary(task, ridge, theta, slopes, signs, kept, error):
    """Whether the gradient of the objective vanishes in the columns that are in."""
    left = ridge * theta - task.long.T @ slopes + task.lasso * signs
    size = ridge * np.abs(theta) + task.size.T @ (np.abs(slopes) + 1e10 * error) + task.lasso
    return bool(np.all(np.where(kept, np.abs(left) <= 1e-10 * size, True)))


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
        point = _Point(
            task, v, task.ridge, None, signs, theta, u, residuals, error, 0 * error, np.abs(step)
        )
        point.slope_error = 1e-15 * np.abs(u).astype(float)
        back, into = point._columns()
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
