"""Newton's method on p x p systems, made exact for kinks by the method of multipliers.

Where slope and curvature of the loss behave, this is Newton with a line search on the derivative. For
LAD, the quantile loss, power, linex and the L1 penalty each kink is replaced by its Moreau envelope
around the last multipliers; the envelope's width shrinks and the multipliers are updated, which ends,
for the piecewise-linear losses, exactly at the active set (a handful of steps). With many rows, only
those near 0 can still change sign: the others are a linear term, so a fit costs little more than a few
passes over the design.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from .problem import certify

__all__ = ["newton"]

_CHUNK = 8192  # rows per block of a Gram matrix: bounds the extra memory, fits the cache
_SAMPLE = 1.5  # rows of the first, coarse fit, and of the working set, per root of n p
_APPROACH = (0.05, 3)  # width and number of steps on all rows before a working set
_PATIENCE = 25  # steps of a round after which each must go down
_FINISH = 5e-4  # width from which on an exact finish is tried
_SMALLEST = 1e-6  # of the responses: residuals below are rounding errors, or near them
_WIDE, _MANY = 1.2, 100  # columns a row, and in all, from which on systems are of the rows
_STEEP = 1e9  # curvature against the penalty above which they are not
_ROUNDS = 60  # of envelopes, at the most: where numbers overflow none is good
_SHRINK = 0.1  # factor between two envelope widths
_WIDEST, _ROUGH, _WARM, _NARROWEST = 0.3, 3e-2, 3e-3, 1e-6  # widths, relative to the residuals


def newton(problem, start=None, *, tol=1e-8, max_iter=1000):
    """Minimise ``problem`` from ``start``; see the module's docstring.

    Returns
    -------
    Solution
    """
    n, p = problem.X.shape
    sample = int(_SAMPLE * math.sqrt(p * n)) + p
    many_rows = n > max(4 * sample, 2000)
    nit = 0
    if start is not None and problem.lasso.any() and not problem.loss.piecewise_linear:
        found = _warm(problem, start, tol)
        if found is not None:
            return found
    if start is None:
        start = np.zeros(p)
        if many_rows:
            coarse = _subsample(problem, sample)
            start, _, _, nit = _multipliers_method(coarse, start, max_iter, narrowest=_ROUGH)
    # Without a ridge part the rows near 0 alone need not have a minimiser.
    if many_rows and problem.loss.piecewise_linear and np.all(problem.ridge > 0):
        theta, u, u1, steps = _working_set(problem, start, sample, max_iter)
    else:
        theta, u, u1, steps = _multipliers_method(problem, start, max_iter)
    solution = certify(problem, theta, u, u1, tol=tol, nit=nit + steps)
    tiny = (theta != 0) & (np.abs(u1) < problem.lasso)
    if tiny.any():  # an envelope leaves a coordinate near 0 that a kink holds at 0
        exact = certify(problem, np.where(tiny, 0.0, theta), u, u1, tol=tol, nit=nit + steps)
        solution = exact if exact.success or exact.gap <= solution.gap else solution
    return solution


def _warm(problem, start, tol):
    """The `Solution` where plain Newton steps lead to it from a start whose coefficients are 0 where its
    are; None where they do not."""
    r = problem.v - problem.X @ start
    u = problem.loss.derivative(r)
    if not np.all(np.abs(u) < 1e100):
        return None
    gradient = problem.ridge * start - problem.X.T @ u + problem.tilt
    u1 = np.clip(-gradient, -problem.lasso, problem.lasso)
    u1 = np.where(start != 0, problem.lasso * np.sign(start), u1)
    stage = _stage(problem, start, 1.0)
    found = _polish(problem, start, u, u1)
    if not _merit(problem, stage.norms, stage.floor, *found) <= 1e-14:
        return None
    return certify(problem, *found, tol=tol, nit=1)


def _subsample(problem, size):
    """The problem on evenly spaced rows, weighted so that its minimiser is near the full one."""
    n = len(problem.v)
    rows = np.linspace(0, n - 1, size).astype(int)
    share = size / n
    return replace(
        problem,
        X=problem.X[rows],
        v=problem.v[rows],
        ridge=problem.ridge * share,
        lasso=problem.lasso * share,
        tilt=problem.tilt * share,
    )


def _working_set(problem, theta, size, max_iter):
    """Solve with the rows near 0 alone, the rest as a linear term, until no sign is wrong.

    A few smoothed steps on all rows come first: they bring ``theta`` so close that few rows are near.
    """
    X, v, loss = problem.X, problem.v, problem.loss
    r = v - X @ theta
    scale = _typical(r)
    width, most = _APPROACH
    stage = _stage(problem, theta, width * scale)
    theta, r, guess, _, nit = _minimise(problem, stage, theta, r, 1e-3 * width, most)
    near = np.zeros(len(v), dtype=bool)
    while True:
        near[np.argpartition(np.abs(r), size - 1)[:size]] = True
        u = np.where(near, 0.0, loss.derivative(r))
        small = replace(problem, X=X[near], v=v[near], tilt=problem.tilt - X.T @ u)
        theta, guess[near], u1, steps = _multipliers_method(
            small, theta, max_iter - nit, scale=scale, u=guess[near]
        )
        nit += steps
        r = v - X @ theta
        wrong = ~near & (r * u < 0)
        if not wrong.any() or nit >= max_iter or near.all():
            u[near] = guess[near]
            return theta, u, u1, nit
        near |= wrong
        size = min(2 * size, len(v))


@dataclass(frozen=True)
class _Envelope:
    """The objective with every kink replaced by its Moreau envelope around the last multipliers.

    ``eps`` is the envelope's width for the rows, times ``l1_unit`` (p,) for the L1 part; ``u``, ``u1`` are
    the multipliers and ``theta`` the point of the last round; ``damp`` (p,) weighs a proximal term that
    keeps the Newton system regular where the penalty does not; ``norms`` (p,) are the column norms
    and ``floor`` (p,) sizes of the gradient that rounding errors are relative to.
    """

    eps: float
    l1_unit: np.ndarray
    u: np.ndarray
    u1: np.ndarray
    theta: np.ndarray
    damp: np.ndarray
    norms: np.ndarray
    floor: np.ndarray
    has_l1: bool

    def point(self, problem, theta, r):
        """The `_Point` at ``theta`` with residuals ``r``."""
        loss, u1 = problem.loss, self.u1
        u = loss.prox_slope(r + self.eps * self.u, self.eps) if loss.needs_prox else loss.derivative(r)
        if self.has_l1:
            u1 = np.clip(theta / (self.eps * self.l1_unit) + u1, -problem.lasso, problem.lasso)
        return _Point(theta, r, u, u1)

    def newton_step(self, problem, here, gradient):
        """The inverse of the second derivative at a `_Point`, times the gradient (p,)."""
        loss = problem.loss
        w = loss.prox_curvature(here.u, self.eps) if loss.needs_prox else loss.curvature(here.r)
        diagonal = problem.ridge + self.damp
        if self.has_l1:
            inside = np.abs(here.u1) < problem.lasso
            diagonal = diagonal + np.where(inside, 1.0 / (self.eps * self.l1_unit), 0.0)
        found = _solve_wide(problem.X, w, diagonal, gradient)
        if found is None:
            hessian = _gram(problem.X, w)
            hessian.flat[:: len(hessian) + 1] += diagonal
            found = _solve(hessian, gradient)
        return found


def _stage(problem, theta, width, u=None):
    """The `_Envelope` of a given width around a point and multipliers of its rows (zeros by default)."""
    n, p = problem.X.shape
    loss, lasso = problem.loss, problem.lasso
    norms = np.sqrt(np.einsum("ij,ij->j", problem.X, problem.X))
    column = np.where(norms > 0, norms, 1.0) / math.sqrt(n)
    # Where a fit is nearly perfect its slopes vanish, but not their rounding errors.
    floor = norms * (0.0 if loss.needs_prox else np.linalg.norm(loss.derivative(problem.v)))
    return _Envelope(
        eps=width,
        l1_unit=1.0 / (column * np.where(lasso > 0, lasso, 1.0)),
        u=np.zeros(n) if u is None else u,
        u1=np.zeros(p),
        theta=theta,
        damp=np.where(problem.ridge > 0, 0.0, 1e-7 * n * column**2),
        norms=norms,
        floor=floor,
        has_l1=bool(lasso.any()),
    )


def _multipliers_method(problem, theta, max_iter, *, scale=None, u=None, narrowest=_NARROWEST):
    """Newton inside, multiplier updates outside; returns theta, multipliers, L1 multipliers, steps.

    ``scale`` is the residuals' typical size where ``theta`` is already near the minimiser, ``u`` a
    guess of the multipliers; the rounds end once the envelope is ``narrowest`` and nothing improves.
    """
    loss = problem.loss
    most = 1e-4 if narrowest == _NARROWEST else 1e-2
    r = problem.v - problem.X @ theta
    # A start that fits every row leaves rounding errors, which are no size to go by.
    size = scale or max(_typical(r), _SMALLEST * _typical(problem.v))
    stage = _stage(problem, theta, (_WARM if scale else _WIDEST) * size, u)
    one_stage = not (loss.needs_prox or stage.has_l1 or stage.damp.any())
    finish = _active_set if loss.piecewise_linear else _polish
    # Steep slopes (linex) need envelopes that are narrow against the slope, not only the residual.
    thinnest = narrowest * size * (1.0 if loss.piecewise_linear else 1e-6)
    best, nit, stalled = (math.inf, theta, stage.u, stage.u1), 0, 0
    for _ in range(_ROUNDS):
        target = 1e-14 if one_stage else min(most, (stage.eps / size) ** 2)
        theta, r, u, u1, steps = _minimise(problem, stage, theta, r, target, max_iter - nit)
        nit += steps
        candidates = [(theta, u, u1)]
        narrow = one_stage or stage.eps <= _FINISH * size
        if narrow and not one_stage:
            candidates.append(finish(problem, theta, u, u1))
        stalled += narrow and math.isfinite(best[0])
        for candidate in reversed(candidates):
            merit = _merit(problem, stage.norms, stage.floor, *candidate) if narrow else math.inf
            if merit <= best[0]:
                stalled = 0 if merit < 0.5 * best[0] else stalled
                best = (merit, *candidate)
            if merit <= 1e-15:
                break
        rough = narrowest > _NARROWEST and stage.eps <= narrowest * size
        if one_stage or rough or best[0] <= 1e-15 or stalled == 3 or nit >= max_iter:
            break
        stage = replace(stage, eps=max(stage.eps * _SHRINK, thinnest), theta=theta, u=u, u1=u1)
    return *best[1:], nit


def _active_set(problem, theta, u, u1):
    """The exact solution, provided that the rows with inner multipliers are those fitted exactly.

    Rows (and L1 coordinates) strictly inside their slope range must be at 0; with the others' slopes
    constant, what is left is one linear system in theta and the inner multipliers.
    """
    down, up = problem.loss.slopes
    inner = np.flatnonzero((u > -down) & (u < up))
    zero = np.abs(u1) < problem.lasso
    free = np.flatnonzero(~zero)
    count = len(free)
    rows = problem.X[np.ix_(inner, free)]
    system = np.zeros((count + len(inner), count + len(inner)))
    system[:count, :count] = np.diag(problem.ridge[free])
    system[:count, count:] = -rows.T
    system[count:, :count] = rows
    theta = np.where(zero, 0.0, theta)
    u = u.copy()
    for _ in range(2):  # the second round only removes rounding errors
        e = problem.ridge * theta - problem.X.T @ u + u1 + problem.tilt
        off = problem.v[inner] - rows @ theta[free]
        right = np.concatenate([-e[free], off])
        change = linalg.lstsq(system, right, lapack_driver="gelsy", check_finite=False)[0]
        theta[free] += change[:count]
        u[inner] = np.clip(u[inner] + change[count:], -down, up)
    held = np.clip(problem.X.T @ u - problem.tilt, -problem.lasso, problem.lasso)
    u1 = np.where(zero, held, u1)
    return theta, u, u1


def _polish(problem, theta, u, u1):
    """Plain Newton steps on the coordinates that are not 0, for losses with slopes of their own.

    The result has slopes of the loss itself as multipliers, so its certificate has no slack.
    """
    free = np.abs(u1) >= problem.lasso
    theta, signs = np.where(free, theta, 0.0), np.where(free, u1, 0.0)
    best = (math.inf, theta, u, u1)
    for _ in range(4):
        r = problem.v - problem.X @ theta
        u = problem.loss.derivative(r)
        if not np.all(np.abs(u) < 1e100):  # exponential slopes far from the minimiser
            break
        gradient = problem.ridge * theta - problem.X.T @ u + problem.tilt
        u1 = np.where(free, signs, np.clip(-gradient, -problem.lasso, problem.lasso))
        error = float(np.max(np.abs(gradient + u1), initial=0.0))
        if not error < best[0]:
            break
        best = (error, theta, u, u1)
        curvature = np.minimum(problem.loss.curvature(r), 1e12)
        hessian = _gram(problem.X, curvature)[np.ix_(free, free)]
        hessian.flat[:: len(hessian) + 1] += problem.ridge[free]
        theta = theta.copy()
        if free.any():
            theta[free] -= _solve(hessian, (gradient + u1)[free])
    return best[1:]


def _merit(problem, norms, floor, theta, u, u1):
    """Relative size of what a certificate would be: stationarity residual plus Fenchel-Young gaps."""
    r = problem.v - problem.X @ theta
    total = np.sum(problem.loss.value(r))
    if not total < 1e200:  # a wide envelope tolerates residuals that the loss itself does not
        return math.inf
    e = problem.ridge * theta - problem.X.T @ u + u1 + problem.tilt
    slack = np.sum(problem.loss.fenchel_gap(r, u)) + problem.lasso @ np.abs(theta) - u1 @ theta
    size = _gradient_size(problem, norms, floor, problem.ridge * theta, u, u1)
    return np.max(np.abs(e) / size, initial=0.0) + max(slack, 0.0) / max(1.0, total)


def _minimise(problem, stage, theta, r, target, max_iter):
    """Newton's method on the envelope, to a relative gradient of ``target`` or to rounding errors."""
    noise = 1e-15
    if problem.loss.needs_prox:
        noise += 1e-16 * float(np.max(np.abs(problem.v), initial=0.0)) / stage.eps
    target, previous = max(target, noise), math.inf
    here = stage.point(problem, theta, r)
    for steps in range(max_iter + 1):
        shrink = problem.ridge * here.theta + stage.damp * (here.theta - stage.theta)
        gradient = shrink + here.u1 + problem.tilt - problem.X.T @ here.u
        size = _gradient_size(problem, stage.norms, stage.floor, shrink, here.u, here.u1)
        error = (np.abs(gradient) / size).max(initial=0.0)
        if error <= target or steps == max_iter or (error <= 1e-9 and error > 0.5 * previous):
            break
        previous = error
        step = -stage.newton_step(problem, here, gradient)
        most = 0.5 if steps < _PATIENCE else 0.0
        found = _line_search(problem, stage, here, step, gradient, most)
        if found is None:
            break
        here = found
    return here.theta, problem.v - problem.X @ here.theta, here.u, here.u1, steps


class _Point(NamedTuple):
    """A point of the envelope: theta, residuals, slopes of the rows and of the L1 part."""

    theta: np.ndarray
    r: np.ndarray
    u: np.ndarray
    u1: np.ndarray


def _line_search(problem, stage, here, step, gradient, most):
    """A point along ``step`` where the slope is at most half its size at ``here``; None if there is none.

    The function is convex and values are never compared, so the search works down to rounding errors.
    A slope above 0 means a point beyond the minimum, quick where the function is nearly quadratic; up to
    ``most`` of the size at ``here`` is accepted. With 0 every step goes down.
    """
    start = gradient @ step
    if not start < 0:
        return None
    move = problem.X @ step
    # The penalty's quadratic part and the tilt: a line in the step's length.
    shrink = problem.ridge * here.theta + stage.damp * (here.theta - stage.theta) + problem.tilt
    first, second = step @ shrink, step @ ((problem.ridge + stage.damp) * step)
    low, high, length = 0.0, math.inf, 1.0
    low_slope, high_slope, best = start, math.inf, None
    for _ in range(60):
        point = stage.point(problem, here.theta + length * step, here.r - length * move)
        slope = first + length * second + step @ point.u1 - move @ point.u
        if 0.5 * start <= slope <= -most * start:
            return point
        if slope < 0:
            low, low_slope, best = length, slope, point
        else:
            high, high_slope = length, slope
        if math.isinf(high):
            length = 4.0 * length
        elif math.isfinite(high_slope):
            share = low_slope / (low_slope - high_slope)
            length = low + (high - low) * min(max(share, 0.1), 0.9)
        else:
            length = 0.5 * (low + high)
    return best


def _gradient_size(problem, norms, floor, shrink, u, u1):
    """The size that rounding errors of the gradient are relative to (Cauchy-Schwarz in the rows)."""
    rows = norms * math.sqrt(u @ u) + 0.01 * floor
    if not norms.all():  # a column of zeros: nothing but the penalty moves its coefficient
        rows = np.where(norms > 0, rows, np.max(np.abs(shrink)))
    return np.maximum(rows + np.abs(shrink) + np.abs(u1) + np.abs(problem.tilt), 1e-300)


def _gram(X, w):
    """``X' diag(w) X``, skipping rows of weight 0, in blocks."""
    p = X.shape[1]
    total = np.zeros((p, p))
    rows = (w != 0).nonzero()[0]  # several times faster than on floats
    sparse = len(rows) < 0.7 * len(w)
    count = len(rows) if sparse else len(w)
    for first in range(0, count, _CHUNK):
        block = rows[first : first + _CHUNK] if sparse else slice(first, first + _CHUNK)
        part = X[block] * np.sqrt(w[block, None])
        total += part.T @ part
    return total


def _solve(hessian, gradient):
    """Solve the Newton system; Jacobi scaling first, least squares where it is singular."""
    scale = np.sqrt(hessian.diagonal())
    scale[~(scale > 0)] = 1.0
    scaled = hessian / scale[:, None] / scale
    _, solution, info = lapack.dposv(scaled, gradient / scale, lower=True)
    if info:
        solution = linalg.lstsq(scaled, gradient / scale, check_finite=False)[0]
    return solution / scale


def _solve_wide(X, w, diagonal, gradient):
    """Solve ``(diag(diagonal) + X' diag(w) X) x = gradient`` by a system of the rows; None where that is no
    smaller, or where it would lose too many digits."""
    if X.shape[1] < max(_WIDE * len(X), _MANY) or not np.all(diagonal > 0):
        return None
    if not w.any():
        return gradient / diagonal
    rows = X[w > 0] * np.sqrt(w[w > 0, None])
    part = rows / np.sqrt(diagonal)
    system = part @ part.T
    if np.max(system.diagonal(), initial=0.0) > _STEEP:
        return None
    system.flat[:: len(system) + 1] += 1.0
    _, pull, info = lapack.dposv(system, rows @ (gradient / diagonal), lower=True)
    return None if info else (gradient - pull @ rows) / diagonal


def _typical(r):
    """A typical size of the residuals (of a thousand of them) that are not 0 but for rounding errors."""
    size = np.abs(r[:: max(1, len(r) // 1000)])
    size = size[size > 1e-9 * np.max(size, initial=0.0)]
    return float(np.median(size)) if len(size) else 1.0
