"""A fit and what it certifies about its neighbours (theory, sections 4 and 5).

The derivative of a fit predicts the fits nearby, and the stability lemma, in the curvature metric of the
fit, turns the prediction's stationarity residual into a bound on every residual. That remainder is
quadratic in the distance, so few fits close in on an end of a set. The new residual is what changes: the
training rows alone are fitted, tilted.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...losses import Loss
from ...path import decided_prefix, runs_away
from ...rank import Rank
from ...solvers import minimise
from ...stability import BaseFit
from ..fits import Fits
from ..score import Score

__all__ = ["TiltedPoint"]

_SHRINK = 3.0
_HALVINGS = 12
_NEWTON = 150  # steps of a fit: one that takes more has slopes beyond measure, and its bounds say so
_CORNERS = 100  # of the L1 part on one path
_STEEPEST = 1e6  # curvature counted at most
_BOUND = 3  # Newton steps that take as long as the bounds of a region


@dataclass(frozen=True)
class _Segment:
    """Predicted residuals between two corners of a path, linear in the share of it.

    Attributes
    ----------
    first, last : float
        Shares of the whole path.
    begin, end : (n,) arrays
        Predicted changes of the rows' residuals there.
    theta : (p,) array
        Predicted coefficients at the end.
    """

    first: float
    last: float
    begin: np.ndarray
    end: np.ndarray
    theta: np.ndarray


Lined = tuple[_Segment, np.ndarray, np.ndarray, float, float, np.ndarray]  # see `TiltedPoint.lines`


class TiltedPoint:
    """The fit of the training rows tilted as a new residual ``at`` tilts it.

    Parameters
    ----------
    fits : Fits
    row : (p,) array
    at : float
        May be infinite, for the steepest tilt.
    start : (p,) array
    """

    def __init__(self, fits: Fits, row: np.ndarray, at: float, start: np.ndarray) -> None:
        self.at, self.row, self.loss, self.extra = at, row, fits.loss, fits.ties.extra
        down, up = fits.loss.slopes
        slope = float(fits.loss.derivative(at)) if math.isfinite(at) else (up if at > 0 else -down)
        self.problem = replace(fits.problem, tilt=-slope * row)
        self.solution = minimise(self.problem, start, max_iter=_NEWTON)
        self.solves = self.solution.nit
        self.theta = self.solution.x
        self.base = BaseFit(self.problem, self.solution, 0.0, 1.0)
        self.curvature = np.minimum(fits.loss.curvature(self.solution.r), _STEEPEST)

    @property
    def runs_away(self) -> bool:
        """Whether vanishing weights alone hold the fit, so that it follows far responses without end."""
        return self.extra is not None and runs_away(self.extra, self.theta, self.problem.tilt)

    @property
    def work(self) -> int:
        """What it took, in Newton steps or what takes about as long."""
        return self.solves + _BOUND * len(self.base.metrics)

    @property
    def w(self) -> float:
        """The response whose residual is ``at``, in units of the fit."""
        return float(self.row @ self.theta + self.at)

    def shortest(self, tol: float) -> float:
        """A length over which the response changes by no more than ``tol``."""
        curvature = min(float(self.loss.curvature(self.at)), _STEEPEST)
        lever = float(self.base.base_root.norms(self.row[None])[0]) ** 2
        return tol / (1.0 + lever * curvature) if math.isfinite(lever) else tol

    def decide(
        self, length: float, least: float, rank: Rank, score: Score, own: float
    ) -> tuple[float, bool, float]:
        """How far towards 0 all is in the set or all is out of it, which of them, and the length tried.

        Shorter lengths are tried as long as they may lead farther and are longer than ``least``.
        """
        best, inside = self._far_off(length, rank, score, own), False
        failed, tried = math.inf, length
        while length > max(best, least):
            reached, kind = self._decided(length, rank, score, own)
            if reached > best:
                best, inside = reached, kind
            if reached < length:
                failed = length
            tried = length
            if best < 0.5 * failed and reached < length:
                length = length / _SHRINK
            elif best < 0.8 * failed < math.inf:
                length = 0.5 * (best + failed)
            else:
                break
        return best, inside, tried

    def _far_off(self, length: float, rank: Rank, score: Score, own: float) -> float:
        """How far towards 0 all is out of the set by the penalty alone, which holds the fit whatever it
        does.

        A tilt that changes by t moves row i by at most ``t a_i a_N``: far from the fit, where slopes are
        nearly constant, that reaches farther than the curvature here.
        """
        metric = self.base.metric(None)
        lever = float(metric.root.norms(self.row[None])[0])
        if not math.isfinite(lever + metric.start) or self.at * score.sign < 0:
            return 0.0
        values, norms = score.values(self.solution.r), score.norms(metric.rows)
        here = float(self.loss.derivative(self.at))

        def is_out(size: float) -> bool:
            """Whether a new residual of this size is above its order statistic; so are then all up to here,
            for which the tilt changes less."""
            change = abs(here - float(self.loss.derivative(math.copysign(size, self.at))))
            return size > own * float(rank.kth(values + (change * lever + metric.start) * norms))

        inner, outer = abs(self.at) - length, abs(self.at)
        if not is_out(outer):
            return 0.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (inner + outer)
            inner, outer = (inner, middle) if is_out(middle) else (middle, outer)
        return abs(self.at) - outer

    def _decided(self, length: float, rank: Rank, score: Score, own: float) -> tuple[float, bool]:
        """The same for one length."""
        reached, inside = 0.0, None
        rows = slice(None) if rank.which is None else rank.which
        for segment, r, rate, e, change, error in self.lines(length):
            lines, new = score.lines(r[rows], rate[rows], rows), score.own_lines(e, change, own)
            found = decided_prefix(lines, new, score.norms(error[rows], rows), rank.alone())
            if not found or inside not in (None, found[0][2]):
                break
            inside = found[0][2]
            reached = segment.first + found[0][1] * (segment.last - segment.first)
            if found[0][1] < 1.0:
                break
        return reached * length, bool(inside)

    def ahead(self, at: float) -> np.ndarray:
        """Predicted coefficients (p,) where the new residual is ``at``; those here if they are better."""
        pull, _ = _slope_change(self.loss, self.at, at)
        problem = replace(self.problem, tilt=self.problem.tilt - pull * self.row)
        theta = self.theta
        for segment in self.segments(pull * self.row):
            theta = segment.theta
        with np.errstate(over="ignore", invalid="ignore"):
            better = problem.value(theta) <= problem.value(self.theta)
        return theta if better else self.theta

    def lines(self, length: float) -> Iterator[Lined]:
        """Segments of a length towards 0; for each the training residuals and their changes, the new row's,
        and bounds on errors."""
        r = self.solution.r
        towards = -math.copysign(length, self.at)
        pull, bend = _slope_change(self.loss, self.at, self.at + towards)
        for segment in self.segments(pull * self.row):
            ends = segment.begin, segment.end
            moved = np.maximum(np.abs(segment.begin), np.abs(segment.end))
            error = self.bounds(moved, self.remainder(ends), bend, self.row)
            if error is None:
                return
            e, change = self.at + segment.first * towards, (segment.last - segment.first) * towards
            yield segment, r + segment.begin, segment.end - segment.begin, e, change, error

    @cached_property
    def _hessian(self) -> np.ndarray:
        """Second derivative, but for the L1 part (p, p)."""
        rows = self.problem.X * np.sqrt(self.curvature[:, None])
        return np.diag(self.problem.ridge) + rows.T @ rows

    def segments(self, force: np.ndarray) -> Iterator[_Segment]:
        """The path of the fit's quadratic model, from corner to corner of the L1 part.

        ``force`` (p,) is the change of minus the linear term over the whole path.
        """
        X, lasso = self.problem.X, self.problem.lasso
        theta, u = self.theta.copy(), -self.solution.l1_multipliers
        free, sign = (theta != 0) | (lasso == 0), np.sign(theta)
        at, move = 0.0, np.zeros(len(theta))
        for _ in range(_CORNERS):
            d = np.zeros(len(theta))
            self.solves += 1
            try:
                d[free] = np.linalg.solve(self._hessian[np.ix_(free, free)], force[free])
            except np.linalg.LinAlgError:
                return
            rate = self._hessian @ d - force  # of u, where the coordinate is 0
            with np.errstate(divide="ignore", invalid="ignore"):
                leave = np.where(free & (lasso > 0) & (sign * d < 0), -theta / d, np.inf)
                up = np.where(rate > 0, (lasso - u) / rate, np.inf)
                down = np.where(rate < 0, (lasso + u) / -rate, np.inf)
            enter = np.where(free, np.inf, np.minimum(up, down))
            j = int(np.argmin(np.minimum(leave, enter)))
            step = min(max(min(leave[j], enter[j]), 0.0), 1.0 - at)
            begin = -(X @ move)
            move = move + step * d
            theta = np.where(free, theta + step * d, 0.0)
            if at + step < 1.0 and free[j]:
                theta[j] = 0.0
            yield _Segment(at, at + step, begin, -(X @ move), theta.copy())
            at += step
            if at >= 1.0:
                return
            u = np.where(free, u, u + step * rate)
            free[j] = not free[j]
            sign[j] = (-1.0 if up[j] <= down[j] else 1.0) if free[j] else 0.0
            if not free[j]:
                u[j] = (-1.0 if d[j] < 0 else 1.0) * lasso[j]

    def remainder(self, changes: Iterable[np.ndarray]) -> np.ndarray:
        """How far each row's slope may be from its prediction up to some changes of the residuals.

        The slope bends once on each side of 0: while the residual keeps its sign the largest change is the
        worst; else monotony bounds it.
        """
        r = self.solution.r
        loss = self.loss
        worst = np.zeros(len(r))
        slope = loss.derivative(r)
        for change in changes:
            end = loss.derivative(r + change)
            linear = self.curvature * change
            exact = (r * (r + change) > 0) & (loss.curvature(r) <= _STEEPEST)
            with np.errstate(invalid="ignore"):
                anywhere = np.abs(end - slope) + np.abs(linear)
                worst = np.maximum(worst, np.where(exact, np.abs(end - slope - linear), anywhere))
        return worst

    def bounds(
        self, moved: np.ndarray, off: np.ndarray, pull: float = 0.0, row: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Bounds on the rows' errors in the smallest curvature region that surely holds them; None if
        there is none.

        ``moved`` are the rows' predicted moves, ``off`` their stationarity residuals, ``pull`` that along
        a new ``row``.
        """
        found = self.base.held(moved, off, pull, row)
        return None if found is None else found[0].rows * found[1]


def _slope_change(loss: Loss, first: float, last: float) -> tuple[float, float]:
    """Change of the slope from ``first`` to ``last``, and how far it may be from a line in between.

    On one side of 0 slopes are convex or concave, so their graph lies in the triangle of its chord and
    the tangents at its ends.
    """
    change = float(loss.derivative(last) - loss.derivative(first))
    ends = [abs(float(loss.curvature(at)) * (last - first) - change) for at in (first, last)]
    low, high = sorted(ends)
    if math.isinf(high):
        return change, low if math.isfinite(low) else abs(change)
    return change, low * high / (low + high) if high > 0 else 0.0
