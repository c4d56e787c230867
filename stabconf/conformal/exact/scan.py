"""A certified scan of candidate responses, where nothing better applies (theory, sections 4 and 5).

At a candidate the augmented sample is fitted, and its derivative predicts the fits at smaller
candidates (across a gap location and scale move along). The stability lemma, in the curvature metric of
the fit, turns the prediction's stationarity residual into a bound on every score, so a stretch is
certified to be in the set or out of it up to a point near the next end; the residual is quadratic in the
length, so few fits close in on an end. What is undecided at the tolerance is kept.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...path import decided_prefix, merge
from ...response import Zone
from ...solvers import Problem, minimise
from ...stability import BaseFit
from ..stable import far_ends

__all__ = ["scan"]

_FITS = 150
_FAR = 1000.0  # scales from the prediction, where no finite end is certain
_TRIES = 10
_GROWTH = 4.0
_STEEPEST = 1e6  # curvature counted at most


def scan(fits, j, row, k, side, tol):
    """The set of a new row in zone or gap ``j``: a list of intervals, and the number of fits.

    Parameters
    ----------
    fits : ZoneFits
    j : int
    row : (p,) array
    k : int
    side : {"two-sided", "upper", "lower"}
    tol : float
        Relative to the scale of the response.
    """
    zone = fits.zones[j]
    low, high, pieces = _range(fits, j, row, k, side)
    z, theta, count = high, fits.fit(j).solution.x, 0
    smallest = 0.1 * tol * zone.scale
    length = zone.scale
    while z > low and count < _FITS:
        here = _Here(fits, zone, row, z, theta)
        theta, count = here.theta, count + 1
        found, length = here.decide(min(z - low, _GROWTH * length), k, side)
        reached = max((last for _, last, _ in found), default=0.0)
        pieces += [(max(z - last, low), z - first) for first, last, inside in found if inside]
        if reached < smallest:
            pieces.append((max(z - smallest, low), z - reached))
            reached = smallest
        z, length = z - reached, max(length, smallest)
    if z > low:
        pieces.append((low, z))
    return merge(pieces, near=smallest), count


def _range(fits, j, row, k, side):
    """Finite ends of the stretch to look at, and what is kept beyond them."""
    zone, base = fits.zones[j], fits.fit(j)
    ends, pieces = {-1: zone.lower, 1: zone.upper}, []
    for direction, end in ends.items():
        if np.isfinite(end):
            continue
        wanted = side == "two-sided" or side == ("upper" if direction > 0 else "lower")
        far = far_ends(base, row[None], k, side, "curvature", direction)[0] if wanted else np.nan
        if not np.isfinite(far):  # no finite end is certain: kept from afar
            far = base.predict(row[None])[0] + direction * _FAR * zone.scale
            pieces.append((far, np.inf) if direction > 0 else (-np.inf, far))
        ends[direction] = far
    low, high = ends[-1], ends[1]
    if np.isfinite(zone.lower):
        high = max(high, zone.lower)
    if np.isfinite(zone.upper):
        low = min(low, zone.upper)
    pieces = [(max(one, zone.lower), min(two, zone.upper)) for one, two in pieces]
    return low, high, [(one, two) for one, two in pieces if one <= two]


@dataclass(frozen=True)
class _Stretch:
    """Predicted residuals over a stretch below a candidate, linear in its share t in [0, 1].

    Attributes
    ----------
    change : (N,) array
        Change of the residuals over the whole stretch.
    error : (N,) array
        Bounds on the difference to the true ones, anywhere on it.
    """

    change: np.ndarray
    error: np.ndarray


class _Here:
    """The fit of the augmented sample at one candidate, and what it says about smaller ones."""

    def __init__(self, fits, zone, row, z, start):
        self.zone, self.z, self.loss = zone, z, fits.loss
        self.intercept = fits.intercept
        self.centre, self.scale = self._location_scale(z)
        X, y = np.vstack([fits.X, row]), np.append(fits.y, z)
        self.problem = Problem(X, (y - self.centre) / self.scale, fits.loss, fits.ridge, fits.lasso)
        self.solution = minimise(self.problem, start)
        self.theta = self.solution.x
        point = Zone(z, z, self.centre, self.scale, (self.centre,) * 2, (self.scale,) * 2)
        self.base = BaseFit(point, self.problem, self.solution, self.intercept)
        self.curvature = np.minimum(fits.loss.curvature(self.solution.r), _STEEPEST)
        self.free = (self.theta != 0) | (self.problem.lasso == 0)
        hessian = np.diag(self.problem.ridge) + (X * self.curvature[:, None]).T @ X
        self.hessian = hessian[np.ix_(self.free, self.free)]

    def _location_scale(self, z):
        zone = self.zone
        if not zone.is_gap:
            return zone.centre, zone.scale
        share = (z - zone.lower) / (zone.upper - zone.lower)
        centre, scale = ((1 - share) * low + share * high for low, high in (zone.centres, zone.scales))
        return centre, scale

    def decide(self, length, k, side):
        """Decided stretches [(first, last, inside), ...] below the candidate, and the length tried."""
        best, tried = [], length
        for _ in range(_TRIES):
            stretch = self._predict(length)
            if stretch is not None:
                r, change, error = self.solution.r, stretch.change, stretch.error
                lines = r[:-1], change[:-1], r[-1], change[-1]
                found = decided_prefix(*lines, error[:-1] + error[-1], k, side)
                found = [(first * length, last * length, inside) for first, last, inside in found]
                if found and (not best or found[-1][1] > best[-1][1]):
                    best, tried = found, length
                if best and best[-1][1] >= 0.25 * length:
                    break
            length /= _GROWTH
        return best, tried

    def _predict(self, length):
        """The `_Stretch` of a length below the candidate; None where no region holds it."""
        X, r, loss = self.problem.X, self.solution.r, self.loss
        centre, scale = self._location_scale(self.z - length)
        growth, shift = scale / self.scale - 1.0, (centre - self.centre) / self.scale
        slope = loss.derivative(r)
        response = np.zeros(len(r))
        response[-1] = -length / self.scale
        linear = self.curvature * response + growth * (slope - r * self.curvature)
        force = X.T @ linear - growth * self.solution.l1_multipliers
        if self.intercept is not None:
            force[self.intercept] += self.problem.ridge[self.intercept] * shift
        move = np.zeros(X.shape[1])
        try:
            move[self.free] = np.linalg.solve(self.hessian, force[self.free])
        except np.linalg.LinAlgError:
            return None
        change = response - X @ move
        off = self._remainder(change, growth)
        corner = self._corners(force, move, growth)
        return self._bounded(change, np.abs(X @ move), off, corner)

    def _remainder(self, change, growth):
        """How far each row's slope may be from its prediction, anywhere on the stretch (N,).

        Along the stretch the slope rho l'(r / rho) has a second derivative of one sign as long as the
        residual keeps its own, so the end is the worst; else monotony bounds it.
        """
        r, loss, rho = self.solution.r, self.loss, 1.0 + growth
        slope, there = loss.derivative(r), r + change
        end = rho * loss.derivative(there / rho)
        linear = self.curvature * change + growth * (slope - r * self.curvature)
        exact = (r * there > 0) & (loss.curvature(r) <= _STEEPEST)
        with np.errstate(invalid="ignore"):
            anywhere = np.abs(end - slope) + np.abs(linear) + abs(growth) * np.abs(slope)
            return np.where(exact, np.abs(end - slope - linear), anywhere)

    def _corners(self, force, move, growth):
        """Stationarity residual of the coordinates with an L1 weight (p,): 0 while none changes sides."""
        lasso, u1 = self.problem.lasso, self.solution.l1_multipliers
        pull = force + self.problem.X.T @ (self.curvature * -(self.problem.X @ move))
        there = u1 + np.where(self.free, 0.0, pull - self.problem.ridge * move + growth * u1)
        excess = np.where(self.free, 0.0, np.maximum(np.abs(there) - lasso * min(1.0, 1.0 + growth), 0.0))
        crossed = self.free & (lasso > 0) & (self.theta * (self.theta + move) <= 0)
        return np.where(crossed, 2.0 * lasso * max(1.0, 1.0 + growth), excess)

    def _bounded(self, change, moved, off, corner):
        """The `_Stretch` in the smallest curvature region that surely holds it."""
        base = self.base
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max(np.where(base.widths > 0, moved / base.widths, 0.0)))
        kappa = max(2.0 * needed, base.finest_region)
        for _ in range(4):
            metric = base.metric(2.0 ** math.ceil(math.log2(kappa)))
            units = metric.root.norms(np.eye(len(corner)))
            size = metric.start + float(off @ metric.rows + corner[corner > 0] @ units[corner > 0])
            if not math.isfinite(size):
                return None
            if np.all(moved + metric.rows * size < metric.kappa * base.widths + (base.widths == 0)):
                return _Stretch(change, metric.rows * size)
            kappa *= 4.0
        return None
