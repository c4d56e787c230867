"""A fit and what it certifies about its neighbours (theory, sections 4 and 5).

The derivative of a fit predicts the fits nearby, and the stability lemma, in the curvature metric of the
fit, turns the prediction's stationarity residual into a bound on every residual. That remainder is
quadratic in the distance, so few fits close in on an end of a set. `TiltedPoint` goes along the new
residual, where the training rows alone are fitted; `CandidatePoint` along the new response, while location
and scale move too.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...path import decided_prefix
from ...response import Zone
from ...solvers import Problem, minimise
from ...stability import BaseFit

__all__ = ["CandidatePoint", "TiltedPoint"]

_GROWTH = 3.0
_CORNERS = 100  # of the L1 part on one path
_STEEPEST = 1e6  # curvature counted at most


@dataclass(frozen=True)
class _Segment:
    """Predicted residuals between two corners of a path, linear in the share of it.

    Attributes
    ----------
    first, last : float
        Shares of the whole path.
    begin, end : (n,) arrays
        Predicted changes of the rows' residuals there; a segment that never ends has its ``end`` one
        unit after its begin.
    """

    first: float
    last: float
    begin: np.ndarray
    end: np.ndarray


class _Point:
    """What the two kinds of points share."""

    def __init__(self, fits, zone, centre, scale, rows, y, tilt, start):
        self.zone, self.loss, self.intercept = zone, fits.loss, fits.intercept
        self.centre, self.scale = centre, scale
        self.problem = Problem(rows, (y - centre) / scale, fits.loss, fits.ridge, fits.lasso, tilt)
        self.solution = minimise(self.problem, start)
        self.theta = self.solution.x
        here = Zone(zone.lower, zone.upper, centre, scale, (centre,) * 2, (scale,) * 2)
        self.base = BaseFit(here, self.problem, self.solution, self.intercept)
        self.curvature = np.minimum(fits.loss.curvature(self.solution.r), _STEEPEST)

    def decide(self, length, least, k, side):
        """How far downwards all is in the set or all is out of it, which of them, and the length tried.

        Shorter lengths are tried as long as they may lead farther and are longer than ``least``.
        """
        best, inside, tried = 0.0, True, length
        while length > max(best, least):
            reached, kind = self._decided(length, k, side)
            if reached > best:
                best, inside = reached, kind
            tried, length = length, length / _GROWTH
        return best, inside, tried

    def _decided(self, length, k, side):
        """The same for one length."""
        reached, inside = 0.0, None
        for segment, lines in self.lines(length):
            found = next(iter(decided_prefix(*lines, k, side)), None)
            if found is None or inside not in (None, found[2]):
                break
            inside = found[2]
            reached = segment.first + found[1] * (segment.last - segment.first)
            if found[1] < 1.0:
                break
        return reached * length, inside

    @cached_property
    def _hessian(self):
        """Second derivative, but for the L1 part (p, p)."""
        X = self.problem.X
        return np.diag(self.problem.ridge) + (X * self.curvature[:, None]).T @ X

    def segments(self, response, force, growth, limit=1.0):
        """The path of the fit's quadratic model, from corner to corner of the L1 part.

        ``response`` (n,) and ``force`` (p,) are the changes of the responses and of minus the linear term
        over the whole path, ``growth`` the relative change of the L1 weights; ``limit`` is the share of
        the path to follow, which may be infinite.
        """
        X, lasso = self.problem.X, self.problem.lasso
        theta, u = self.theta.copy(), -self.solution.l1_multipliers
        free, sign = (theta != 0) | (lasso == 0), np.sign(theta)
        at, move = 0.0, np.zeros(len(theta))
        for _ in range(_CORNERS):
            d = np.zeros(len(theta))
            try:
                d[free] = np.linalg.solve(
                    self._hessian[np.ix_(free, free)], (force - growth * lasso * sign * free)[free]
                )
            except np.linalg.LinAlgError:
                return
            rate = self._hessian @ d - force  # of u, where the coordinate is 0
            room = lasso * (1.0 + growth * at)
            with np.errstate(divide="ignore", invalid="ignore"):
                leave = np.where(free & (lasso > 0) & (sign * d < 0), -theta / d, np.inf)
                up = np.where(rate - growth * lasso > 0, (room - u) / (rate - growth * lasso), np.inf)
                down = np.where(-rate - growth * lasso > 0, (room + u) / (-rate - growth * lasso), np.inf)
            enter = np.where(free, np.inf, np.minimum(up, down))
            j = int(np.argmin(np.minimum(leave, enter)))
            step = min(max(min(leave[j], enter[j]), 0.0), limit - at)
            begin = at * response - X @ move
            if math.isinf(step):
                yield _Segment(at, step, begin, begin + response - X @ d)
                return
            move = move + step * d
            yield _Segment(at, at + step, begin, (at + step) * response - X @ move)
            at += step
            if at >= limit:
                return
            theta, u = np.where(free, theta + step * d, 0.0), np.where(free, u, u + step * rate)
            free[j] = not free[j]
            sign[j] = (-1.0 if up[j] <= down[j] else 1.0) if free[j] else 0.0
            if not free[j]:
                theta[j], u[j] = 0.0, (-1.0 if d[j] < 0 else 1.0) * lasso[j] * (1.0 + growth * at)

    def remainder(self, changes, growth):
        """How far each row's slope may be from its prediction up to some changes of the residuals.

        As the change grows the slope rho l'(r / rho) has a second derivative of one sign as long as the
        residual keeps its own, so the largest is the worst; else monotony bounds it.
        """
        r, loss, worst = self.solution.r, self.loss, 0.0
        slope = loss.derivative(r)
        for share, change in changes:
            rho, there = 1.0 + share * growth, r + change
            end = rho * loss.derivative(there / rho)
            linear = self.curvature * change + share * growth * (slope - r * self.curvature)
            exact = (r * there > 0) & (loss.curvature(r) <= _STEEPEST)
            with np.errstate(invalid="ignore"):
                anywhere = np.abs(end - slope) + np.abs(linear) + abs(share * growth) * np.abs(slope)
                worst = np.maximum(worst, np.where(exact, np.abs(end - slope - linear), anywhere))
        return worst

    def bounds(self, moved, off, pull=0.0, row=None):
        """Bounds on the rows' errors in the smallest curvature region that surely holds them; None if
        there is none.

        ``moved`` are the rows' predicted moves, ``off`` their stationarity residuals, ``pull`` that along
        a new ``row``.
        """
        base = self.base
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max(np.where(base.widths > 0, moved / base.widths, 0.0)))
        kappa = max(2.0 * needed, base.finest_region)
        for _ in range(4):
            metric = base.metric(2.0 ** math.ceil(math.log2(kappa)))
            with np.errstate(invalid="ignore"):  # a region without curvature bounds nothing
                size = metric.start + float(off @ metric.rows)
            if pull:
                size += pull * float(metric.root.norms(row[None])[0])
            if not math.isfinite(size):
                return None
            if np.all(moved + metric.rows * size < metric.kappa * base.widths + (base.widths == 0)):
                return metric.rows * size
            kappa *= 4.0
        return None


class TiltedPoint(_Point):
    """The fit of the training rows tilted as a new residual ``at`` tilts it, within a zone."""

    def __init__(self, fits, zone, row, at, start):
        self.at, self.row = at, row
        down, up = fits.loss.slopes
        slope = float(fits.loss.derivative(at)) if math.isfinite(at) else (up if at > 0 else -down)
        super().__init__(fits, zone, zone.centre, zone.scale, fits.X, fits.y, -slope * row, start)

    @property
    def z(self):
        """The response whose residual is ``at``."""
        return float(self.centre + self.scale * (self.row @ self.theta + self.at))

    def most(self, length):
        """A length that does not lead across 0, where the slope may change its shape."""
        return min(length, self.at) if self.at > 0 else length

    def shortest(self, tol):
        """A length over which the response changes by no more than ``tol`` times the scale."""
        curvature = min(float(self.loss.curvature(self.at)), _STEEPEST)
        own = float(self.base.base_root.norms(self.row[None])[0]) ** 2
        return tol / (1.0 + own * curvature) if math.isfinite(own) else tol

    def lines(self, length):
        """Segments of a length below, each with the lines that `decided_prefix` takes."""
        r, still = self.solution.r, np.zeros(len(self.solution.r))
        pull, bend = _slope_change(self.loss, self.at, self.at - length)
        for segment in self.segments(still, pull * self.row, 0.0):
            ends = (segment.first, segment.begin), (segment.last, segment.end)
            moved = np.maximum(np.abs(segment.begin), np.abs(segment.end))
            error = self.bounds(moved, self.remainder(ends, 0.0), bend, self.row)
            if error is None:
                return
            new = self.at - segment.first * length, -(segment.last - segment.first) * length
            yield segment, (r + segment.begin, segment.end - segment.begin, *new, error)


def _slope_change(loss, first, last):
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


class CandidatePoint(_Point):
    """The fit of the augmented sample at a response ``z``; across a gap location and scale move."""

    def __init__(self, fits, zone, row, z, start):
        self.z = z
        centre, scale = _location_scale(zone, z)
        super().__init__(
            fits, zone, centre, scale, np.vstack([fits.X, row]), np.append(fits.y, z), None, start
        )

    def most(self, length):
        """Any length will do."""
        return length

    def shortest(self, tol):
        """A length of ``tol`` times the scale."""
        return tol * self.scale

    def lines(self, length):
        """Segments of a length below, each with the lines that `decided_prefix` takes."""
        X, r = self.problem.X, self.solution.r
        centre, scale = _location_scale(self.zone, self.z - length)
        growth, shift = scale / self.scale - 1.0, (centre - self.centre) / self.scale
        response = np.zeros(len(r))
        response[-1] = -length / self.scale
        slope = self.loss.derivative(r)
        force = X.T @ (self.curvature * response + growth * (slope - r * self.curvature))
        if self.intercept is not None:
            force[self.intercept] += self.problem.ridge[self.intercept] * shift
        for segment in self.segments(response, force, growth):
            ends = (segment.first, segment.begin), (segment.last, segment.end)
            moved = np.max([np.abs(change - share * response) for share, change in ends], axis=0)
            error = self.bounds(moved, self.remainder(ends, growth))
            if error is None:
                return
            start, change = r + segment.begin, segment.end - segment.begin
            new = start[-1], change[-1]
            yield segment, (start[:-1], change[:-1], *new, error[:-1] + error[-1])


def _location_scale(zone, z):
    """Location and scale at a response in a zone or gap."""
    if not zone.is_gap:
        return zone.centre, zone.scale
    share = (z - zone.lower) / (zone.upper - zone.lower)
    centre, scale = ((1 - share) * low + share * high for low, high in (zone.centres, zone.scales))
    return centre, scale
