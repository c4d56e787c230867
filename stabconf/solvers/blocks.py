"""Minimisers over rows that come in blocks, more of them than memory holds (theory, section 4).

Value, slope and curvature of a smooth objective with a ridge penalty are sums over the blocks, so Newton's
method takes a pass over the rows a step. For LAD and the quantile loss the rows far from 0 are a linear
term, as in `newton`: those near 0 are kept, and a pass says whether any other has changed its side.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..losses import Loss
from .envelope import gram, line_search, newton_step
from .newton import APPROACH, APPROACH_STEPS, coarse_size, multipliers_method, start_at, typical
from .problem import Problem, Solution, verdict

Blocks = Iterator[tuple[np.ndarray, np.ndarray]]
_SETTLED = 1e-9  # relative gradient from which on a step must halve it


@dataclass(frozen=True)
class BlockProblem:
    """As `Problem`, without lasso and tilt."""

    rows: Callable[[], Blocks]  # rows (b, p) and responses (b,) in units of the fit, the same in each pass
    n: int  # number of rows
    loss: Loss
    ridge: np.ndarray  # (p,), positive
    sample: tuple[np.ndarray, np.ndarray]  # some of the rows (m, p) and responses (m,)

    def residuals(self, theta: np.ndarray) -> Blocks:
        """Rows (b, p) and residuals (b,), block by block."""
        for X, v in self.rows():
            yield X, v - X @ theta


class _Sums(NamedTuple):
    """Where they are (p,), gradient (p,), sizes that its rounding errors are relative to (p,), Hessian
    (p, p), objective."""

    theta: np.ndarray
    gradient: np.ndarray
    size: np.ndarray
    hessian: np.ndarray
    fun: float


def minimise_blocks(problem: BlockProblem, *, tol: float = 1e-8, max_iter: int = 1000) -> Solution:
    """The minimiser; residuals and multipliers of the rows are left out of the `Solution`."""
    X, v = problem.sample
    none = np.zeros(X.shape[1])
    few = Problem(X, v, problem.loss, problem.ridge * len(v) / problem.n, none)
    coarse, nit = multipliers_method(few, start_at(few, none), max_iter, narrowest=0.03)
    if problem.loss.kind == "step":
        return _by_near_rows(problem, coarse.theta, tol, max_iter, nit)
    here, steps = _newton(problem, coarse.theta, None, max_iter)
    return _solution(problem, here.theta, here.gradient, 0.0, here.fun, tol, nit + steps)


def _solution(
    problem: BlockProblem, theta: np.ndarray, e: np.ndarray, slack: float, fun: float, tol: float, nit: int
) -> Solution:
    """The `Solution` with the certificate of `certify`, from sums over the rows."""
    gap = slack + 0.5 * float(np.sum(np.square(e) / problem.ridge))
    success = gap <= tol * max(1.0, abs(fun))
    none, l1 = np.empty(0), np.zeros(len(theta))
    return Solution(theta, none, none, l1, e, gap, fun, success, verdict(success, gap, tol), nit)


def _sums(problem: BlockProblem, theta: np.ndarray, eps: float | None) -> _Sums:
    """Sums over the rows at ``theta``; of the loss's Moreau envelope of width ``eps`` where it is given."""
    loss, p = problem.loss, len(theta)
    pull, squares, hessian = np.zeros(p), np.zeros(p), np.diag(problem.ridge)
    slopes = 0.0
    fun = 0.5 * float(problem.ridge @ np.square(theta))
    for X, r in problem.residuals(theta):
        u = loss.derivative(r) if eps is None else loss.prox_slope(r, eps)
        w = loss.curvature(r) if eps is None else loss.prox_curvature(u, eps)
        pull += X.T @ u
        hessian += gram(X, w)
        squares += np.einsum("ij,ij->j", X, X)
        slopes += float(u @ u)
        fun += float(np.sum(loss.value(r)))
    shrink = problem.ridge * theta
    size = np.maximum(np.sqrt(squares * slopes) + np.abs(shrink), 1e-300)
    return _Sums(theta, shrink - pull, size, hessian, fun)


def _newton(problem: BlockProblem, theta: np.ndarray, eps: float | None, most: int) -> tuple[_Sums, int]:
    """Newton's method from ``theta``, until rounding errors or for ``most`` steps."""

    def at(here: _Sums, step: np.ndarray, length: float) -> tuple[_Sums, float]:
        made = _sums(problem, here.theta + length * step, eps)
        return made, float(made.gradient @ step)

    here = _sums(problem, theta, eps)
    previous = math.inf
    for steps in range(most + 1):
        error = float(np.max(np.abs(here.gradient) / here.size))
        if error <= 1e-15 or steps == most or (error <= _SETTLED and error > 0.5 * previous):
            break
        previous = error
        step = -newton_step(here.hessian, here.gradient)
        found = line_search(partial(at, here, step), float(here.gradient @ step))
        if found is None:
            break
        here = found
    return here, steps


def _by_near_rows(
    problem: BlockProblem, theta: np.ndarray, tol: float, max_iter: int, nit: int
) -> Solution:
    """The minimiser for slopes that are steps, with the rows near 0 alone in memory."""
    loss = problem.loss
    X, v = problem.sample
    scale = typical(v - X @ theta)
    width = APPROACH * scale
    here, steps = _newton(problem, theta, width, APPROACH_STEPS)
    theta, nit = here.theta, nit + steps
    size = coarse_size(problem.n, len(theta))
    near: dict[int, np.ndarray] = {}
    while True:
        far = np.sort(np.abs(v - X @ theta))
        cut = far[min(math.ceil(size * len(far) / problem.n), len(far) - 1)]
        small, constant = _near(problem, theta, cut, near)
        guess = loss.prox_slope(small.residuals(theta), width)
        found, steps = multipliers_method(small, start_at(small, theta, guess), max_iter, scale=scale)
        nit += steps
        slack = _slack(problem, theta, found.theta, near)
        theta = found.theta
        if slack == 0 or nit >= max_iter:
            e = small.stationarity(theta, found.u, found.u1)
            fun = small.value(theta, found.r) + constant + slack
            return _solution(problem, theta, e, slack + max(small.slack(*found), 0.0), fun, tol, nit)
        size *= 2


def _near(
    problem: BlockProblem, theta: np.ndarray, cut: float, near: dict[int, np.ndarray]
) -> tuple[Problem, float]:
    """The problem of the rows whose residuals are at most ``cut`` or that are ``near``, by block, which is
    brought up to date, with the others as its tilt; and what these add while none changes its side."""
    X_near, v_near = [], []
    tilt, constant = np.zeros(len(theta)), 0.0
    for place, (X, v) in enumerate(problem.rows()):
        r = v - X @ theta
        close = np.abs(r) <= cut
        close[near.get(place, [])] = True
        slopes = np.where(close, 0.0, problem.loss.derivative(r))
        tilt -= X.T @ slopes
        constant += float(v @ slopes)
        near[place] = np.flatnonzero(close)
        X_near.append(X[close])
        v_near.append(v[close])
    rows, responses = np.vstack(X_near), np.concatenate(v_near)
    return Problem(rows, responses, problem.loss, problem.ridge, 0.0 * theta, tilt), constant


def _slack(
    problem: BlockProblem, before: np.ndarray, theta: np.ndarray, near: dict[int, np.ndarray]
) -> float:
    """Sum of the Fenchel-Young gaps at ``theta`` of the rows that were not near ``before``: 0 where none
    has changed its side. Those that have are near then."""
    slack = 0.0
    for place, (X, v) in enumerate(problem.rows()):
        gaps = problem.loss.fenchel_gap(v - X @ theta, problem.loss.derivative(v - X @ before))
        gaps[near[place]] = 0.0
        near[place] = np.union1d(near[place], np.flatnonzero(gaps))
        slack += float(np.sum(gaps))
    return slack
