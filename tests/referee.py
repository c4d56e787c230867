"""Independent referees: the same problems in conic form for clarabel, and brute-force conformal p-values.

Nothing here calls the package's solvers: the referee writes each loss as cones of its own.
"""

import clarabel
import numpy as np
from scipy import sparse

from stabconf.losses import Huber

_EXACT = (1e-14, 1e-12)  # tolerances, the second where the first is not reached


class _Program:
    """minimise q'x + x'Px/2 subject to s = b - Ax in cones; variables are appended in blocks."""

    def __init__(self, p):
        self.count = p
        self.cost = [np.zeros(p)]
        self.rows, self.right, self.cones = [], [], []

    def variables(self, cost):
        first = self.count
        self.count += len(cost)
        self.cost.append(np.asarray(cost, dtype=float))
        return np.arange(first, self.count)

    def add(self, entries, right, cones):
        """``entries``: list of (row, column, value) arrays of A; ``right``: b."""
        self.rows.append((entries, len(right)))
        self.right.append(right)
        self.cones += cones

    def solve(self, quadratic):
        blocks = []
        for entries, height in self.rows:
            row = np.concatenate([np.ravel(e[0]) for e in entries])
            column = np.concatenate([np.ravel(e[1]) for e in entries])
            value = np.concatenate([np.ravel(e[2]) for e in entries])
            blocks.append(sparse.csc_matrix((value, (row, column)), shape=(height, self.count)))
        diagonal = np.zeros(self.count)
        diagonal[: len(quadratic)] = quadratic
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        for tolerance in _EXACT:
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
            solution = clarabel.DefaultSolver(
                sparse.diags(diagonal, format="csc"),
                np.concatenate(self.cost),
                sparse.vstack(blocks).tocsc(),
                np.concatenate(self.right),
                self.cones,
                settings,
            ).solve()
            if solution.status == clarabel.SolverStatus.Solved:
                break
        return np.array(solution.x)


def conic_minimiser(X, v, loss, ridge, lasso, tilt=None):
    """The minimiser of the problem by clarabel (p,)."""
    n, p = X.shape
    program = _Program(p)
    if tilt is not None:
        program.cost[0] = np.asarray(tilt, dtype=float)
    residual = program.variables(np.zeros(n))
    quadratic = np.concatenate([ridge, np.zeros(n)])
    i = np.arange(n)
    design = (np.repeat(i, p), np.tile(np.arange(p), n), X)
    program.add([design, (i, residual, np.ones(n))], v, [clarabel.ZeroConeT(n)])
    quadratic = _LOSSES[loss.name](program, residual, loss, quadratic)
    active = np.flatnonzero(lasso > 0)
    if len(active):
        size = program.variables(lasso[active])
        j, one = np.arange(len(active)), np.ones(len(active))
        zeros, cone = np.zeros(len(active)), [clarabel.NonnegativeConeT(len(active))]
        program.add([(j, active, one), (j, size, -one)], zeros, list(cone))
        program.add([(j, active, -one), (j, size, -one)], zeros, list(cone))
    theta = program.solve(quadratic)[:p]
    if loss.name in _CURVES and not len(active):
        theta = _polished(X, v, _CURVES[loss.name](loss), ridge, tilt, theta)
    if loss.kind == "step":
        theta = _exactly_fitted(X, v, loss, ridge, lasso, tilt, theta)
    return theta


def smallest_norm_of_huber(X, v, d):
    """The minimiser (p,) of smallest norm without a penalty. All minimisers have the slopes of one of them:
    they fit the rows within ``d`` alike, and leave the others on their sides of it."""
    n, p = X.shape
    none = np.zeros(p)
    one = conic_minimiser(X, v, Huber(d), none, none)
    r = v - X @ one
    inner, side = np.abs(r) < d - 1e-6, np.sign(r)
    program = _Program(p)
    i, columns = np.arange(n), np.tile(np.arange(p), n)
    for rows, factor, right, cone in (
        (inner, np.ones(n), X @ one, clarabel.ZeroConeT),
        (~inner, side, side * v - d + 1e-9, clarabel.NonnegativeConeT),
    ):
        count = int(np.sum(rows))
        if count:
            entry = (np.repeat(i[:count], p), columns[: count * p], factor[rows, None] * X[rows])
            program.add([entry], right[rows], [cone(count)])
    return program.solve(np.ones(p))[:p]


def _exactly_fitted(X, v, loss, ridge, lasso, tilt, theta):
    """The best of a solution of cones and of those that make its small residuals, and its small
    coefficients under an L1 penalty, exactly 0: cones end near a corner, the minimiser is at it."""
    pull = np.zeros(len(theta)) if tilt is None else np.asarray(tilt)
    down, up = loss.slopes

    def value(point):
        return objective(X, v, loss, ridge, lasso, point) + pull @ point

    best = theta
    for small in 10.0 ** np.arange(-9.0, -1.0):
        r = v - X @ theta
        flat = np.flatnonzero((lasso > 0) & (np.abs(theta) < small))
        on = np.abs(r) < small * max(1.0, np.abs(v).max())
        if np.sum(on) > 10 * len(theta):  # more than a corner has, duplicates included
            break
        fixed = np.vstack([X[on], np.eye(len(theta))[flat]])
        right = np.concatenate([v[on], np.zeros(len(flat))])
        slope = np.where(r > 0, up, -down)
        linear = pull + lasso * np.sign(theta) - X[~on].T @ slope[~on]
        system = np.block([[np.diag(ridge), fixed.T], [fixed, np.zeros((len(fixed), len(fixed)))]])
        point = np.linalg.lstsq(system, np.concatenate([-linear, right]), rcond=None)[0][: len(theta)]
        best = min(best, point, key=value)
    return best


def _polished(X, v, curve, ridge, tilt, theta):
    """Newton steps from a solution of cones, which are accurate to some 1e-6 for exponentials."""
    pull = np.zeros(len(theta)) if tilt is None else np.asarray(tilt)
    best = np.inf
    for _ in range(8):
        slope, curvature = curve(v - X @ theta)
        gradient = ridge * theta - X.T @ slope + pull
        if not np.linalg.norm(gradient) < best:
            break
        best, kept = np.linalg.norm(gradient), theta
        theta = theta - np.linalg.lstsq((X.T * curvature) @ X + np.diag(ridge), gradient, rcond=None)[0]
    return kept


# Slope and curvature of losses, written out again.
_CURVES = {
    "logcosh": lambda loss: (
        lambda r: (
            np.tanh(r / loss.g),
            (1.0 - np.tanh(r / loss.g) ** 2) / loss.g,
        )
    ),
    "pseudo_huber": lambda loss: (
        lambda r: (
            r / np.sqrt(1 + (r / loss.d) ** 2),
            (1 + (r / loss.d) ** 2) ** -1.5,
        )
    ),
    "linex": lambda loss: (
        lambda r: (
            loss.g * (np.exp(loss.g * r) - 1.0),
            loss.g**2 * np.exp(loss.g * r),
        )
    ),
}


def _above(program, i, column, factor, bound):
    """``bound >= factor * column`` row by row."""
    n = len(i)
    program.add(
        [(i, column, np.full(n, factor)), (i, bound, -np.ones(n))],
        np.zeros(n),
        [clarabel.NonnegativeConeT(n)],
    )


def _squared(program, residual, loss, quadratic):
    return np.concatenate([quadratic[: residual[0]], np.ones(len(residual))])


def _pinball(program, residual, loss, quadratic):
    down, up = loss.slopes
    n = len(residual)
    bound = program.variables(np.ones(n))
    _above(program, np.arange(n), residual, up, bound)
    _above(program, np.arange(n), residual, -down, bound)
    return quadratic


def _huber(program, residual, loss, quadratic):
    """inf over a of (r - a)^2 / 2 + d |a|."""
    n = len(residual)
    inside, size, i = program.variables(np.zeros(n)), program.variables(np.full(n, loss.d)), np.arange(n)
    one = np.ones(n)
    for sign in (1.0, -1.0):  # size >= |r - inside|
        program.add(
            [(i, residual, sign * one), (i, inside, -sign * one), (i, size, -one)],
            np.zeros(n),
            [clarabel.NonnegativeConeT(n)],
        )
    return np.concatenate([quadratic, one])


def _pseudo_huber(program, residual, loss, quadratic):
    """t >= sqrt(d^2 + r^2), cost d t - d^2."""
    n = len(residual)
    size, i = program.variables(np.full(n, loss.d)), np.arange(n)
    right = np.zeros(3 * n)
    right[1::3] = loss.d
    entries = [(3 * i, size, -np.ones(n)), (3 * i + 2, residual, -np.ones(n))]
    program.add(entries, right, [clarabel.SecondOrderConeT(3)] * n)
    return quadratic


def _linex(program, residual, loss, quadratic):
    n = len(residual)
    size, i = program.variables(np.ones(n)), np.arange(n)
    program.cost[1] = program.cost[1] - loss.g  # the residuals are the first block after theta
    right = np.zeros(3 * n)
    right[1::3] = 1.0
    entries = [(3 * i, residual, np.full(n, -loss.g)), (3 * i + 2, size, -np.ones(n))]
    program.add(entries, right, [clarabel.ExponentialConeT()] * n)
    return quadratic


def _logcosh(program, residual, loss, quadratic):
    """g (t - log 2) with exp(r/g - t) + exp(-r/g - t) <= 1."""
    n = len(residual)
    top, i, one = program.variables(np.full(n, loss.g)), np.arange(n), np.ones(n)
    parts = [program.variables(np.zeros(n)) for _ in range(2)]
    for part, sign in zip(parts, (1.0, -1.0), strict=True):
        right = np.zeros(3 * n)
        right[1::3] = 1.0
        entries = [
            (3 * i, residual, np.full(n, -sign / loss.g)),
            (3 * i, top, one),
            (3 * i + 2, part, -one),
        ]
        program.add(entries, right, [clarabel.ExponentialConeT()] * n)
    program.add([(i, part, one) for part in parts], one, [clarabel.NonnegativeConeT(n)])
    return quadratic


def _power(program, residual, loss, quadratic):
    if loss.q == 2:
        return 2.0 * _squared(program, residual, loss, quadratic * 0.5)
    n = len(residual)
    size, i = program.variables(np.ones(n)), np.arange(n)
    right = np.zeros(3 * n)
    right[1::3] = 1.0
    entries = [(3 * i, size, -np.ones(n)), (3 * i + 2, residual, -np.ones(n))]
    program.add(entries, right, [clarabel.PowerConeT(1.0 / loss.q)] * n)
    return quadratic


_LOSSES = {
    "squared": _squared,
    "lad": _pinball,
    "quantile": _pinball,
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
    "linex": _linex,
    "logcosh": _logcosh,
    "power": _power,
}


def objective(X, v, loss, ridge, lasso, theta):
    """The objective, from the definitions."""
    r = v - X @ theta
    return np.sum(loss.value(r)) + 0.5 * ridge @ theta**2 + lasso @ np.abs(theta)


def training_location_scale(y, level):
    """c and s of theory section 2, written out again; from the training responses."""
    ordered = np.sort(y)
    count = len(ordered)

    def statistic(share):
        return ordered[int(np.ceil(share * count - 1e-9)) - 1]

    centre = 0.0 if level is None else statistic(level)
    scale = (statistic(0.75) - statistic(0.25)) / 1.349
    if scale == 0:
        scale = 1.2533 * np.mean(np.abs(y - centre))
    return centre, (scale if scale > 0 else 1.0)


def refit(X, y, x_new, z, loss, ridge, lasso, standardize=True, intercept=True):
    """Residuals (N,) in units of the response, coefficients, centre and scale of the augmented fit at z."""
    rows, responses = np.vstack([X, x_new]), np.append(y, z)
    centre, scale = 0.0, 1.0
    if standardize:
        centre, scale = training_location_scale(y, loss.level if intercept else None)
    v = (responses - centre) / scale
    theta = conic_minimiser(rows, v, loss, ridge, lasso)
    return scale * (v - rows @ theta), theta, centre, scale


def p_value(residuals, score=np.abs, slack=0.0):
    """p(z) from the residuals of the augmented fit; ``slack`` counts near-ties for (or against) z."""
    scores = score(residuals)
    return (1 + np.sum(scores[:-1] >= scores[-1] - slack)) / len(scores)
