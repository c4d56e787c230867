"""Newton's method on p x p systems, made exact for kinks by the method of multipliers (theory, section 4).

The default solver of `minimise`; for smooth losses it is Newton with a line search. Else each kink is
replaced by its Moreau envelope around the last multipliers; the envelope's width shrinks and the
multipliers are updated, which ends, for slopes that are steps, exactly at the active set. With many rows
only those near 0 can still change sign: the others are a linear term, and a fit costs a few passes.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from .envelope import Envelope, Point, envelope_of, minimise_envelope
from .problem import Problem, Solution, certify, vanishes

_SAMPLE = 1.5  # rows of the first, coarse fit, and of the working set, per root of n p
APPROACH, APPROACH_STEPS = 0.05, 3  # width and number of steps on all rows before a working set
_FINISH = 5e-4  # width from which on an exact finish is tried
_SMALLEST = 1e-6  # of the responses: residuals below are rounding errors, or near them
_ROUNDING = 1e-11  # of the responses: residuals below are rounding errors
_ROUNDS = 60  # of envelopes, at the most: where numbers overflow none is good
_SHRINK = 0.1  # factor between two envelope widths
_WIDEST, _ROUGH, _WARM, _NARROWEST = 0.3, 3e-2, 3e-3, 1e-6  # widths, relative to the residuals
_GOOD = 1e-14  # merit of a point that is good enough
_POLISH = 25  # Newton steps on the objective itself
_SINGULAR = 1e-12  # reciprocal condition below which a system is taken for singular
_EXACT = 1e-15  # merit of a point that is as good as rounding errors let it be


def by_newton(
    problem: Problem, start: np.ndarray | None = None, *, tol: float = 1e-8, max_iter: int = 1000
) -> Solution:
    """Minimise ``problem`` from ``start`` (p,)."""
    n, p = problem.X.shape
    sample = coarse_size(n, p)
    many_rows = n > max(4 * sample, 2000)
    nit = 0
    if start is not None and problem.lasso.any() and problem.loss.kind != "step":
        warm = _warm(problem, start, tol)
        if warm is not None:
            return warm
    if start is None:
        start = np.zeros(p)
        if many_rows:
            few = _subsample(problem, sample)
            coarse, nit = multipliers_method(few, start_at(few, start), max_iter, narrowest=_ROUGH)
            start = coarse.theta
    # Without a ridge part the rows near 0 alone need not have a minimiser.
    if many_rows and problem.loss.kind == "step" and np.all(problem.ridge > 0) and not vanishes(problem):
        found, steps = _working_set(problem, start, sample, max_iter)
    else:
        found, steps = multipliers_method(problem, start_at(problem, start), max_iter)
    return certified(problem, found, tol, nit + steps)


def certified(problem: Problem, found: Point, tol: float, nit: int) -> Solution:
    """The `Solution` at a point of the method of multipliers."""
    solution = certify(problem, found.theta, found.u, found.u1, tol=tol, nit=nit)
    tiny = (found.theta != 0) & (np.abs(found.u1) < problem.lasso)
    if tiny.any():  # an envelope leaves a coordinate near 0 that a kink holds at 0
        exact = certify(problem, np.where(tiny, 0.0, found.theta), found.u, found.u1, tol=tol, nit=nit)
        if exact.success or exact.gap <= solution.gap:
            return exact
    return solution


def _warm(problem: Problem, start: np.ndarray, tol: float) -> Solution | None:
    """The `Solution` where plain Newton steps lead to it from a start with the same zeros; else None."""
    r = problem.residuals(start)
    u = problem.loss.derivative(r)
    if not np.all(np.abs(u) < 1e100):
        return None
    gradient = problem.ridge * start - problem.X.T @ u + problem.tilt
    u1 = np.clip(-gradient, -problem.lasso, problem.lasso)
    u1 = np.where(start != 0, problem.lasso * np.sign(start), u1)
    here = Point(start, r, u, u1)
    found = _polish(problem, here)
    if not envelope_of(problem, here, 1.0).merit(found) <= _GOOD:
        return None
    return certify(problem, found.theta, found.u, found.u1, tol=tol, nit=1)


def coarse_size(n: int, p: int) -> int:
    """Rows of the first, coarse fit, and of the working set."""
    return int(_SAMPLE * math.sqrt(p * n)) + p


def _subsample(problem: Problem, size: int) -> Problem:
    """The problem on evenly spaced rows, weighted so that its minimiser is near the full one."""
    n = len(problem.v)
    rows = np.linspace(0, n - 1, size).astype(int)
    ridge, lasso, tilt = (each * (size / n) for each in (problem.ridge, problem.lasso, problem.tilt))
    return Problem(problem.X[rows], problem.v[rows], problem.loss, ridge, lasso, tilt)


def _working_set(problem: Problem, theta: np.ndarray, size: int, max_iter: int) -> tuple[Point, int]:
    """Solve with the rows near 0 alone, the rest as a linear term, until no sign is wrong; after a few
    smoothed steps on all rows, which bring ``theta`` so close that few rows are near."""
    X, v = problem.X, problem.v
    start = start_at(problem, theta)
    scale = typical(start.r)
    stage = envelope_of(problem, start, APPROACH * scale)
    here, nit = minimise_envelope(stage, 1e-3 * APPROACH, APPROACH_STEPS)
    theta, r, guess = here.theta, here.r, here.u
    near = np.zeros(len(v), dtype=bool)
    while True:
        near[np.argpartition(np.abs(r), size - 1)[:size]] = True
        u = np.where(near, 0.0, problem.loss.derivative(r))
        small = replace(problem, X=X[near], v=v[near], tilt=problem.tilt - X.T @ u)
        near_start = start_at(small, theta, guess[near])
        found, steps = multipliers_method(small, near_start, max_iter - nit, scale=scale)
        theta = found.theta
        guess[near] = found.u
        nit += steps
        r = problem.residuals(theta)
        wrong = ~near & (r * u < 0)
        if not wrong.any() or nit >= max_iter or near.all():
            u[near] = guess[near]
            return Point(theta, r, u, found.u1), nit
        near |= wrong
        size = min(2 * size, len(v))


def multipliers_method(
    problem: Problem,
    start: Point,
    max_iter: int,
    *,
    scale: float | None = None,
    narrowest: float = _NARROWEST,
    inner: Callable[[Envelope, float, int], tuple[Point, int]] = minimise_envelope,
) -> tuple[Point, int]:
    """Smooth problems, by ``inner``, and multiplier updates: the best point and the number of steps.

    ``scale`` is the residuals' typical size where ``start`` is already near the minimiser; the rounds end
    once the envelope is ``narrowest`` and nothing improves.
    """
    steps_only = problem.loss.kind == "step"
    loosest = 1e-4 if narrowest == _NARROWEST else 1e-2
    here = best = start
    # A start that fits every row leaves rounding errors, which are no size to go by.
    responses = typical(problem.v)
    size = scale or max(typical(here.r), _SMALLEST * responses)
    stage = envelope_of(problem, here, (_WARM if scale else _WIDEST) * size)
    one_stage = not (stage.has_prox or stage.has_l1 or stage.damp.any())
    finish = active_set if steps_only else _polish
    # Steep slopes (linex) need envelopes that are narrow against the slope, not only the residual.
    thinnest = narrowest * size * (1.0 if steps_only else 1e-6)
    least = math.inf
    nit = stalled = 0
    for _ in range(_ROUNDS):
        target = 1e-14 if one_stage else min(loosest, (stage.eps / size) ** 2)
        here, steps = inner(stage, target, max_iter - nit)
        nit += steps
        now = typical(here.r)
        if _ROUNDING * responses < now < 0.1 * size:  # a start far from responses far from 0
            size, thinnest = now, thinnest * now / size
        narrow = one_stage or stage.eps <= _FINISH * size
        candidates = [finish(problem, here), here] if narrow and not one_stage else [here]
        stalled += narrow and math.isfinite(least)
        for candidate in candidates:
            merit = stage.merit(candidate) if narrow else math.inf
            if merit <= least:
                stalled = 0 if merit < 0.5 * least else stalled
                least = merit
                best = candidate
            if merit <= _EXACT:
                break
        rough = narrowest > _NARROWEST and stage.eps <= narrowest * size
        if one_stage or rough or least <= _EXACT or stalled == 3 or nit >= max_iter:
            break
        stage = replace(stage, eps=max(stage.eps * _SHRINK, thinnest), last=here)
    return best, nit


def start_at(problem: Problem, theta: np.ndarray, u: np.ndarray | None = None) -> Point:
    """The point at ``theta`` with multipliers of its rows (zeros by default)."""
    n, p = problem.X.shape
    return Point(theta, problem.residuals(theta), np.zeros(n) if u is None else u, np.zeros(p))


def active_set(problem: Problem, here: Point) -> Point:
    """The exact solution, provided that rows and L1 coordinates strictly inside their slope range are at 0:
    with the others' slopes constant, one linear system in theta and the inner multipliers is left."""
    down, up = problem.loss.slopes
    u = here.u.copy()
    inner = np.flatnonzero((u > -down) & (u < up))
    zero = np.abs(here.u1) < problem.lasso
    free = np.flatnonzero(~zero)
    rows = problem.X[np.ix_(inner, free)]
    theta = np.where(zero, 0.0, here.theta)
    for _ in range(2):  # the second round only removes rounding errors
        e = problem.stationarity(theta, u, here.u1)
        off = problem.v[inner] - rows @ theta[free]
        change, pull = _exact_step(problem, inner, free, -e[free], off)
        theta[free] += change
        u[inner] = np.clip(u[inner] + pull, -down, up)
    held = np.clip(problem.X.T @ u - problem.tilt, -problem.lasso, problem.lasso)
    u1 = np.where(zero, held, here.u1)
    return Point(theta, problem.residuals(theta), u, u1)


def _exact_step(
    problem: Problem, inner: np.ndarray, free: np.ndarray, force: np.ndarray, off: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Changes of the coefficients ``free`` (f,) and of the multipliers of the rows ``inner`` (k,) that
    balance ``force`` (f,) and move the rows' predictions by ``off`` (k,)."""
    if problem.sparse is not None and len(inner):
        found = problem.sparse.take(inner, free).solve(problem.ridge[free], force, off)
        if found is not None:
            return found
    count = len(free)
    rows = problem.X[np.ix_(inner, free)]
    # Where most responses tie, so many rows are fitted exactly that only their span is worth solving in.
    span, few = linalg.qr(rows, mode="economic") if len(inner) > count else (np.eye(len(inner)), rows)
    system = np.zeros((count + len(few), count + len(few)))
    system[:count, :count] = np.diag(problem.ridge[free])
    system[:count, count:] = -few.T
    system[count:, :count] = few
    right = np.concatenate([force, span.T @ off])
    change = _solution(system, right)
    return change[:count], span @ change[count:]


def _solution(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution (k,) of a system (k, k); that of least norm where it is singular but for rounding."""
    if not len(right):
        return right
    factors, _, found, info = lapack.dgesv(system, right)
    if not info:
        conditioned, _ = lapack.dgecon(factors, np.abs(system).sum(axis=0).max(initial=0.0))
        if conditioned > _SINGULAR:
            return found
    return linalg.lstsq(system, right, lapack_driver="gelsy", check_finite=False)[0]


def _polish(problem: Problem, here: Point) -> Point:
    """Newton's method on the objective itself and the coordinates that are not 0. Multipliers are slopes
    of the loss itself, so the certificate has no slack."""
    free = np.flatnonzero(np.abs(here.u1) >= problem.lasso)
    theta = np.zeros(len(here.theta))
    theta[free] = here.theta[free]
    tilt = (problem.tilt + here.u1)[free]
    part = Problem(problem.X[:, free], problem.v, problem.loss, problem.ridge[free], 0.0 * tilt, tilt)
    stage = envelope_of(part, start_at(part, theta[free]), 1.0)
    if not np.all(np.abs(problem.loss.derivative(stage.last.r)) < 1e100):  # as exponentials may be
        return here
    stage = replace(stage, has_prox=False, damp=0.0 * stage.damp)
    found, _ = minimise_envelope(stage, 1e-15, _POLISH)
    theta[free] = found.theta
    u = problem.loss.derivative(found.r)
    u1 = np.clip(problem.X.T @ u - problem.ridge * theta - problem.tilt, -problem.lasso, problem.lasso)
    u1[free] = here.u1[free]
    return Point(theta, found.r, u, u1)


def typical(r: np.ndarray) -> float:
    """A typical size of the residuals (of a thousand of them) that are not 0 but for rounding errors."""
    size = np.abs(r[:: max(1, len(r) // 1000)])
    size = size[size > 1e-9 * np.max(size, initial=0.0)]
    return float(np.median(size)) if len(size) else 1.0
