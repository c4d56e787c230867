"""One smooth stage of the solver: the objective with its kinks rounded off, and Newton's method on it.

`newton` calls it with envelopes that shrink around better and better multipliers (theory, section 4). Where
slope and curvature of the loss behave and there is no L1 part, the envelope is the objective itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from .problem import Problem

_WIDE, _MANY = 1.2, 100  # columns per row, and in all, from which on Newton systems are of the rows
_STEEP = 1e9  # curvature against the penalty above which they are not
_STEEPEST = 1e12  # curvature counted at most, where a loss has an infinite one
_CHUNK = 8192  # rows per block of a Gram matrix: bounds the extra memory, fits the cache
_PATIENCE = 25  # steps of a round after which each must go down
_LENGTHS = 60  # that are tried of a step

T = TypeVar("T")


class Point(NamedTuple):
    """Coefficients (p,), residuals (n,), multipliers of the rows (n,) and of the L1 part (p,)."""

    theta: np.ndarray
    r: np.ndarray
    u: np.ndarray
    u1: np.ndarray


@dataclass(frozen=True)
class Envelope:
    """The objective with every kink replaced by its Moreau envelope around the last multipliers."""

    problem: Problem
    last: Point  # of the last round, with its multipliers
    eps: float  # the envelope's width for the rows,
    l1_unit: np.ndarray  # (p,): and what it is times for the L1 part
    damp: np.ndarray  # (p,): weights of a proximal term where the penalty leaves Newton systems singular
    norms: np.ndarray  # (p,): of the columns
    floor: np.ndarray  # (p,): sizes of the gradient that rounding errors are relative to
    has_l1: bool
    has_prox: bool

    def point(self, theta: np.ndarray, r: np.ndarray) -> Point:
        """The point at ``theta`` with residuals ``r``: the envelope's slopes are its multipliers."""
        loss, lasso = self.problem.loss, self.problem.lasso
        u = loss.prox_slope(r + self.eps * self.last.u, self.eps) if self.has_prox else loss.derivative(r)
        u1 = self.last.u1
        if self.has_l1:
            u1 = np.clip(theta / (self.eps * self.l1_unit) + u1, -lasso, lasso)
        return Point(theta, r, u, u1)

    def pull(self, theta: np.ndarray) -> np.ndarray:
        """Gradient (p,) of the penalty's quadratic part and of the proximal term."""
        return self.problem.ridge * theta + self.damp * (theta - self.last.theta)

    def value(self, here: Point) -> float:
        """The smoothed objective, but for a constant."""
        problem = self.problem
        theta = here.theta
        r = here.r + self.eps * (self.last.u - here.u) if self.has_prox else here.r
        total = np.sum(problem.loss.value(r)) + theta @ (0.5 * problem.ridge * theta + problem.tilt)
        total += 0.5 * self.damp @ np.square(theta - self.last.theta)
        if self.has_prox:
            total += 0.5 * self.eps * (here.u @ here.u)
        eps = self.eps * self.l1_unit
        total += problem.lasso @ np.abs(theta + eps * (self.last.u1 - here.u1))
        return float(total + 0.5 * eps @ np.square(here.u1))

    def gradient(self, here: Point) -> np.ndarray:
        """The first derivative (p,)."""
        return self.pull(here.theta) + here.u1 + self.problem.tilt - self.problem.X.T @ here.u

    def hessian(self, here: Point) -> np.ndarray:
        """The second derivative (p, p)."""
        w, diagonal = self._curvature(here)
        return gram(self.problem.X, w) + np.diag(diagonal)

    def newton_step(self, here: Point, gradient: np.ndarray) -> np.ndarray:
        """The inverse of the second derivative, times the gradient (p,), by what suits the design."""
        X, sparse, (w, diagonal) = self.problem.X, self.problem.sparse, self._curvature(here)
        found = _wide_step(X, w, diagonal, gradient)
        if found is None and sparse is not None:
            found = sparse.newton_step(w, diagonal, gradient)
        return newton_step(gram(X, w) + np.diag(diagonal), gradient) if found is None else found

    def _curvature(self, here: Point) -> tuple[np.ndarray, np.ndarray]:
        """Curvatures of the rows (n,) and of the other parts (p,)."""
        loss = self.problem.loss
        w = loss.prox_curvature(here.u, self.eps) if self.has_prox else loss.curvature(here.r)
        inside = np.abs(here.u1) < self.problem.lasso
        l1 = np.where(inside, 1.0 / (self.eps * self.l1_unit), 0.0)
        return np.minimum(w, _STEEPEST), self.problem.ridge + self.damp + l1

    def gradient_size(self, pull: np.ndarray, here: Point) -> np.ndarray:
        """Sizes (p,) that rounding errors of the gradient are relative to (Cauchy-Schwarz in the rows)."""
        rows = self.norms * math.sqrt(here.u @ here.u) + 0.01 * self.floor
        if not self.norms.all():  # a column of zeros: nothing but the penalty moves its coefficient
            rows = np.where(self.norms > 0, rows, np.max(np.abs(pull)))
        return np.maximum(rows + np.abs(pull) + np.abs(here.u1) + np.abs(self.problem.tilt), 1e-300)

    def merit(self, here: Point) -> float:
        """Relative size of what a certificate would be: stationarity residual plus Fenchel-Young gaps."""
        problem = self.problem
        total = float(np.sum(problem.loss.value(here.r)))
        if not total < 1e200:  # a wide envelope tolerates residuals that the loss itself does not
            return math.inf
        e = problem.stationarity(here.theta, here.u, here.u1)
        size = self.gradient_size(problem.ridge * here.theta, here)
        slack = max(problem.slack(*here), 0.0)
        return float(np.max(np.abs(e) / size, initial=0.0)) + slack / max(1.0, total)


def envelope_of(problem: Problem, last: Point, width: float) -> Envelope:
    """The `Envelope` of a given width around a point."""
    n = len(problem.v)
    loss, lasso = problem.loss, problem.lasso
    norms = np.sqrt(np.einsum("ij,ij->j", problem.X, problem.X))
    column = np.where(norms > 0, norms, 1.0) / math.sqrt(n)
    # Where a fit is nearly perfect its slopes vanish, but not their rounding errors.
    floor = norms * (0.0 if loss.needs_prox else np.linalg.norm(loss.derivative(problem.v)))
    return Envelope(
        problem,
        last,
        eps=width,
        l1_unit=1.0 / (column * np.where(lasso > 0, lasso, 1.0)),
        damp=np.where(problem.ridge > 0, 0.0, 1e-7 * n * column**2),
        norms=norms,
        floor=floor,
        has_l1=bool(lasso.any()),
        has_prox=loss.needs_prox,
    )


def minimise_envelope(stage: Envelope, target: float, max_iter: int) -> tuple[Point, int]:
    """Newton's method from the last point, to a relative gradient of ``target`` or to rounding errors."""
    problem = stage.problem
    noise = 1e-15
    if stage.has_prox:
        noise += 1e-16 * float(np.max(np.abs(problem.v), initial=0.0)) / stage.eps
    target = max(target, noise)
    previous = math.inf
    here = stage.point(stage.last.theta, stage.last.r)
    for steps in range(max_iter + 1):
        gradient = stage.gradient(here)
        size = stage.gradient_size(stage.pull(here.theta), here)
        error = (np.abs(gradient) / size).max(initial=0.0)
        if error <= target or steps == max_iter or (error <= 1e-9 and error > 0.5 * previous):
            break
        previous = error
        step = -stage.newton_step(here, gradient)
        if not np.all(np.isfinite(step)):
            break
        found = _along(stage, here, step, float(gradient @ step), 0.5 if steps < _PATIENCE else 0.0)
        if found is None:
            break
        here = found
    return here._replace(r=problem.residuals(here.theta)), steps


def _along(stage: Envelope, here: Point, step: np.ndarray, start: float, beyond: float) -> Point | None:
    """The point that `line_search` finds along ``step``."""
    problem = stage.problem
    move = problem.X @ step
    # The penalty's quadratic part and the tilt: a line in the step's length.
    first = step @ (stage.pull(here.theta) + problem.tilt)
    second = step @ ((problem.ridge + stage.damp) * step)

    def at(length: float) -> tuple[Point, float]:
        with np.errstate(over="ignore", invalid="ignore"):  # exponential slopes far from the minimiser
            point = stage.point(here.theta + length * step, here.r - length * move)
            return point, first + length * second + step @ point.u1 - move @ point.u

    return line_search(at, start, beyond)


def line_search(at: Callable[[float], tuple[T, float]], start: float, beyond: float = 0.5) -> T | None:
    """A point where the slope is at most half its size at the ``start``; None if there is none.

    ``at`` gives the point at a length, and the slope there. The function is convex and values are never
    compared, so the search works down to rounding errors. A slope above 0 means a point beyond the minimum,
    quick where the function is nearly quadratic; up to ``beyond`` of the size at the start is accepted.
    """
    low, low_slope = 0.0, start
    high, high_slope = math.inf, math.inf
    length = 1.0
    best = None
    for _ in range(_LENGTHS if -math.inf < start < 0 else 0):
        point, slope = at(length)
        if 0.5 * start <= slope <= -beyond * start:
            return point
        if slope < 0:
            low, low_slope, best = length, slope, point
        else:
            high, high_slope = length, slope
        if math.isinf(high):
            length = 4.0 * low
        elif not math.isfinite(high_slope):
            length = 0.5 * (low + high)
        else:
            length = low + (high - low) * min(max(low_slope / (low_slope - high_slope), 0.1), 0.9)
    return best


def gram(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """``X' diag(w) X`` (p, p), skipping rows of weight 0, in blocks."""
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


def newton_step(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The solution (p,) of the Newton system; Jacobi scaling first, least squares where it is singular."""
    scale = np.sqrt(hessian.diagonal())
    scale[~(scale > 0)] = 1.0
    scaled = hessian / scale[:, None] / scale
    _, solution, info = lapack.dposv(scaled, gradient / scale, lower=True)
    if info:
        solution = linalg.lstsq(scaled, gradient / scale, check_finite=False)[0]
    with np.errstate(over="ignore"):
        return solution / scale


def _wide_step(
    X: np.ndarray, w: np.ndarray, diagonal: np.ndarray, gradient: np.ndarray
) -> np.ndarray | None:
    """The solution (p,) of ``(diag(diagonal) + X' diag(w) X) x = gradient`` by a system of the rows; None
    where that is no smaller, or would lose digits."""
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
