"""Exact sets of residuals divided by a scale, for losses whose slopes are steps (theory, section 7).

A learned scale takes two regressions for every candidate response: of the response, then of the sizes of
its residuals on the columns of the scale, with the same loss and penalty. Once the new response is beyond
the first fit that fit stays, and with it all other residuals; the new one's size alone moves the second
fit, along a path that ends once the size is beyond the second fit too. So a side of a zone takes one
tilted fit and one short path. Across a gap both fits move at once, from corner to corner of either. A
fixed scale is the same with a second fit that never moves.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ...path import ClippedFit, PathError, ResponsePath, merge, moving_fit, step_paths
from ...solvers import Problem, minimise
from .clipped import ClippedPieces

__all__ = ["FLOOR", "FixedRows", "ScaleRows", "ScaledSets"]

FLOOR = 0.01  # of the scale of the response: smaller learned scales count as this
_GROWTH = 0.5  # a scale that changes by more is not bounded
_TIES = 1e-9  # scores nearer than this are tied: rounding errors never exclude a candidate


@dataclass(frozen=True)
class ScaleRows:
    """Columns that the scale depends on, standardised, and the weights of their penalty.

    Attributes
    ----------
    trained, new : (n, q) and (m, q) arrays
    ridge, lasso : (q,) arrays
    """

    trained: np.ndarray
    new: np.ndarray
    ridge: np.ndarray
    lasso: np.ndarray
    floor: ClassVar[float] = FLOOR

    def problem(self, sizes, loss, shrink=1.0, extra=None):
        """The second regression: of ``sizes`` (n,), or (n + 1,) with the row ``extra`` (q,) at the end."""
        X = self.trained if extra is None else np.vstack([self.trained, extra])
        return Problem(X, sizes, loss, shrink * self.ridge, self.lasso)

    def path(self, i, sizes, loss):
        """The second fit as a function of new row ``i``'s size, given those of the training rows."""
        problem = self.problem(sizes, loss)
        solution = minimise(problem)

        def refit(tilt):
            made = minimise(replace(problem, tilt=tilt), solution.x)
            return made.x, made.radius

        return step_paths(ClippedFit.of(problem, solution), self.new[i][None], loss.slopes, refit)[0]

    def moving(self, i, sizes, ratio, length, loss):
        """Corners of the second fit while the sizes (2, N) of all rows and the scale's ratio (2,) move."""
        problem = self.problem(sizes[0], loss, 1.0 / ratio[0], self.new[i])
        rates, growth = (sizes[1] - sizes[0]) / length, (ratio[1] / ratio[0] - 1.0) / length
        return moving_fit(ClippedFit.of(problem, minimise(problem)), rates, growth, length)

    def move(self, phi, total, growth, loss):
        """How far the second fit may move, in the norm of its penalty, if sizes change by ``total`` in all
        and the scale by a share ``growth``; None where nothing is known."""
        if not np.all(self.ridge > 0):
            return None
        length = float(np.sqrt(np.square(phi) @ self.ridge))
        return (2.0 * math.sqrt(max(loss.slopes) * total) + growth * length) / (1.0 - growth)

    def norms(self, rows):
        """Norms of scale columns in which `move` is measured."""
        return np.sqrt(np.square(rows) @ (1.0 / self.ridge))


@dataclass(frozen=True)
class FixedRows:
    """Scales that are given: one column, with a coefficient of 1 that never moves.

    Attributes
    ----------
    trained, new : (n, 1) and (m, 1) arrays
    """

    trained: np.ndarray
    new: np.ndarray
    floor: ClassVar[float] = 0.0

    def path(self, i, sizes, loss):
        """As in `ScaleRows`."""
        return ResponsePath(self.new[i], np.zeros(1), np.ones((1, 1)), np.zeros(1), np.zeros(1))

    def moving(self, i, sizes, ratio, length, loss):
        """As in `ScaleRows`."""
        return np.array([0.0, length]), np.ones((2, 1))

    def move(self, phi, total, growth, loss):
        """As in `ScaleRows`."""
        return 0.0

    def norms(self, rows):
        """As in `ScaleRows`."""
        return np.zeros(len(rows))


@dataclass(frozen=True)
class _Stretch:
    """Numerators and denominators of all scores along a stretch on which they are lines.

    Attributes
    ----------
    ends : (2,) array
        Candidates, ascending.
    size, sigma : (2, N) arrays
        Residuals (or their sizes) and learned scales at the ends; the new row's last.
    floor : (2,) array
    """

    ends: np.ndarray
    size: np.ndarray
    sigma: np.ndarray
    floor: np.ndarray

    def parts(self, rank):
        """The parts of it that are in the set (a list of pairs)."""
        cuts = {0.0, 1.0}
        for line in (self.sigma[:, -1] - self.floor, self.size[:, -1]):
            if line[0] * line[1] < 0:
                cuts.add(float(line[0] / (line[0] - line[1])))
        found = [part for shares in pairwise(sorted(cuts)) for part in self._parts(rank, *shares)]
        length = self.ends[1] - self.ends[0]
        return [
            (float(self.ends[0] + low * length), float(self.ends[0] + high * length)) for low, high in found
        ]

    def _parts(self, rank, first, last):
        """The same between two shares of the stretch, with the new scale on one side of the floor.

        A row is below if its size times the new scale is less than the new size times its own scale,
        which is the larger of a line and the floor: two quadratics.
        """
        shares = np.array([first, 0.5 * (first + last), last])
        size, sigma, floor = (_along(values, shares) for values in (self.size, self.sigma, self.floor))
        new = np.maximum(sigma[:, -1], floor)[:, None]
        tie = _TIES * new.max() * np.maximum(sigma[:, :-1].max(axis=0), floor.max())
        scales = sigma[:, :-1], floor[:, None]
        gaps = np.array([size[:, :-1] * new - size[:, -1:] * scale + tie for scale in scales])
        # The graph of a quadratic lies in the hull of its ends and one more point.
        bend = 2.0 * gaps[:, 1] - 0.5 * (gaps[:, 0] + gaps[:, 2])
        hull = np.stack([gaps[:, 0], bend, gaps[:, 2]])
        both = np.any if size[1, -1] >= 0 else np.all  # dividing by a negative new size turns it round
        surely, perhaps = both(hull.max(axis=0) < 0, axis=0), both(hull.min(axis=0) < 0, axis=0)
        if rank.passed(surely):
            return []
        if not rank.passed(perhaps):
            return [(first, last)]
        unsure = np.flatnonzero(perhaps & ~surely)
        roots = _roots(hull[:, :, unsure])
        points = np.concatenate([[0.0], roots, [1.0]])
        inside = []
        for low, high in pairwise(points):
            middle = 0.5 * (low + high)
            value = _bernstein(hull[:, :, unsure], middle)
            below = surely.copy()
            below[unsure] = both(value < 0, axis=0)
            if not rank.passed(below):
                inside.append((first + low * (last - first), first + high * (last - first)))
        return inside


def _along(values, shares):
    """Values at shares of a stretch, from those at its ends."""
    shares = shares.reshape(-1, *[1] * (np.ndim(values) - 1))
    return (1.0 - shares) * values[0] + shares * values[1]


def _bernstein(hull, share):
    """Quadratics at a share, from their control points (3, ...)."""
    return (1 - share) ** 2 * hull[0] + 2 * share * (1 - share) * hull[1] + share**2 * hull[2]


def _roots(hull):
    """All roots of quadratics strictly between 0 and 1, ascending."""
    c, b, a = hull[0], 2.0 * (hull[1] - hull[0]), hull[0] - 2.0 * hull[1] + hull[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        far = -0.5 * (b + np.where(b >= 0, 1.0, -1.0) * np.sqrt(b * b - 4.0 * a * c))
        found = np.concatenate([np.ravel(far / a), np.ravel(c / far)])
    return np.unique(found[(found > 0) & (found < 1)])


class ScaledSets:
    """Hulls of the sets of some new rows, zone by zone from outside.

    Parameters
    ----------
    fits : ZoneFits
        Of a loss whose slopes are steps.
    scale : ScaleRows
    rows : (m, p) array
    side : {"two-sided", "upper", "lower"}
    """

    def __init__(self, fits, scale, rows, side):
        self.fits, self.scale, self.rows = fits, scale, rows
        self.sign = {"two-sided": 0, "upper": 1, "lower": -1}[side]
        self.solver = ClippedPieces(fits, "two-sided")
        self._first, self._second, self._gaps = {}, {}, {}

    def hull(self, i, rank):
        """Ends of row ``i``'s set; NaN where it is empty."""
        ends = [-math.inf, math.inf]
        for place, direction in ((0, -1), (1, 1)):
            if self.sign in (0, direction):
                ends[place] = self._end(i, rank, direction)
        return tuple(ends)

    def _end(self, i, rank, direction):
        """The outermost candidate in the set on one side."""
        zones, outside = self.fits.zones, None
        for j in range(len(zones) - 1, -1, -1) if direction > 0 else range(len(zones)):
            zone = zones[j]
            if zone.keep:
                found = [(zone.lower, zone.upper)]
            elif not zone.is_gap:
                found, outside = self._zone(j, i, rank, direction), j
            elif outside is not None and self._gap_is_out(j, outside, i, rank):
                continue
            else:
                found = self._gap(j, i, rank)
            if found:
                return max(high for _, high in found) if direction > 0 else min(low for low, _ in found)
        return math.nan

    # Zones ---------------------------------------------------------------------------------------

    def _paths(self, j, i):
        """First paths of row ``i`` in zone ``j``, or in the two halves of a gap; None if not followed.

        Zones are followed for all rows at once, gaps, which few rows look into, row by row.
        """
        if self.fits.zones[j].is_gap:
            return self.solver.step_paths(j, self.rows[i : i + 1])[0]
        if j not in self._first:
            self._first[j] = self.solver.step_paths(j, self.rows)
        return self._first[j][i]

    def _zone(self, j, i, rank, direction):
        """The set in zone ``j``; at least its part that lies farthest in ``direction``."""
        zone, (path,) = self.fits.zones[j], self._paths(j, i)
        low, high = ((end - zone.centre) / zone.scale for end in (zone.lower, zone.upper))
        for way in (direction, 0, -direction):
            if way == 0:
                found = [(path.w[0], path.w[-1])]  # the new residual is 0 (one-sided: kept)
            elif self.sign and way != self.sign:
                found = [(path.w[-1], math.inf) if way > 0 else (-math.inf, path.w[0])]  # behind: kept
            elif (high <= path.w[-1]) if way > 0 else (low >= path.w[0]):
                continue
            else:
                found = self._beyond(j, i, way, rank)
            found = zone.cut_scaled(found)
            if found:
                return found
        return []

    def _beyond(self, j, i, way, rank):
        """The set where the new response is beyond the first fit, as if the zone were the whole line."""
        (path,) = self._paths(j, i)
        middle = path.w[-1] if way > 0 else path.w[0]
        r, second = self._second_path(j, i, way)
        sizes = np.abs(r) if not self.sign else self.sign * r
        g, G, floor = self.scale.new[i], self.scale.trained, self.scale.floor
        first, last, out = max(second.w[0], 0.0), max(second.w[-1], 0.0), []
        for phi, low, high in ((second.theta[0], 0.0, first), (second.theta[-1], last, math.inf)):
            level = rank.kth(sizes / np.maximum(G @ phi, floor))
            out.append((low, min(high, level * max(float(g @ phi), floor) + _TIES)))
        corners = np.union1d([first, last], second.w[(second.w > first) & (second.w < last)])
        if second.broken:
            out.append((first, last))
            corners = corners[:1]
        phi = second.at(corners)
        sigma = np.column_stack([phi @ G.T, phi @ g])
        for k in range(len(corners) - 1):
            pair = slice(k, k + 2)
            size = np.column_stack([np.tile(sizes, (2, 1)), corners[pair]])
            out += _Stretch(corners[pair], size, sigma[pair], np.full(2, floor)).parts(rank)
        found = [(low, high) for low, high in out if low <= high]
        return merge([tuple(sorted((middle + way * low, middle + way * high))) for low, high in found])

    def _second_path(self, j, i, way):
        """Residuals of the first fit at the end of its tilt, and the second fit's path in the new size."""
        if (j, i, way) not in self._second:
            zone, (path,) = self.fits.zones[j], self._paths(j, i)
            theta = path.theta[-1] if way > 0 else path.theta[0]
            r = (self.fits.y - zone.centre) / zone.scale - self.fits.X @ theta
            self._second[j, i, way] = r, self.scale.path(i, np.abs(r), self.fits.loss)
        return self._second[j, i, way]

    # Gaps ----------------------------------------------------------------------------------------

    def _gap_is_out(self, j, here, i, rank):
        """Whether no candidate in gap ``j`` is in the set, by the fits of zone ``here``.

        Location and scale are seen by the penalties alone, which moves the first fit by a known length.
        A change of the sizes by delta in all changes the second objective by at most rho times that, and
        so its minimiser by at most 2 sqrt(rho delta) in the norm of its penalty.
        """
        zone, gap, ridge = self.fits.zones[here], self.fits.zones[j], self.fits.ridge
        (path,) = self._paths(here, i)
        way = 1 if gap.lower >= zone.centre + zone.scale * path.w[-1] else -1
        if not np.all(ridge > 0) or (self.sign and way != self.sign):
            return False
        middle, theta = (path.w[-1], path.theta[-1]) if way > 0 else (path.w[0], path.theta[0])
        near, far = sorted(
            way * ((end - zone.centre) / zone.scale - middle) for end in (gap.lower, gap.upper)
        )
        if near <= 0:
            return False
        r, second = self._second_path(here, i, way)
        if near < second.w[-1]:
            return False
        moved, growth = self.fits.drift(zone, gap, float(np.sqrt(np.square(theta) @ ridge)))
        if growth >= _GROWTH:
            return False
        delta = moved * np.sqrt(np.square(np.vstack([self.fits.X, self.rows[i]])) @ (1.0 / ridge))
        phi, G = second.theta[-1], np.vstack([self.scale.trained, self.scale.new[i]])
        move = self.scale.move(phi, float(np.sum(delta)) + far - near, growth, self.fits.loss)
        if move is None:
            return False
        sigma, error = G @ phi, move * self.scale.norms(G)
        floor = self.scale.floor * np.array([1.0 - growth, 1.0 + growth])
        sizes = (np.abs(r) if not self.sign else np.maximum(self.sign * r, 0.0)) + delta[:-1]
        with np.errstate(divide="ignore"):
            level = rank.kth(sizes / np.maximum(sigma[:-1] - error[:-1], floor[0]))
        return (near - delta[-1]) / max(sigma[-1] + error[-1], floor[1]) > level

    def _gap(self, j, i, rank):
        """The set in gap ``j``; all of it where the fits could not be followed."""
        if (j, i) not in self._gaps:
            try:
                self._gaps[j, i] = list(self._gap_stretches(j, i))
            except PathError:
                self._gaps[j, i] = None
        zone, stretches = self.fits.zones[j], self._gaps[j, i]
        if stretches is None:
            return [(zone.lower, zone.upper)]
        found = [part for stretch in stretches for part in stretch.parts(rank)]
        return zone.cut_scaled(merge(found, near=_TIES))

    def _gap_stretches(self, j, i):
        """`_Stretch`es of a gap, in the units of its middle."""
        zone, paths = self.fits.zones[j], self._paths(j, i)
        if paths is None:
            raise PathError("the first fit could not be followed")
        X, v = np.vstack([self.fits.X, self.rows[i]]), (self.fits.y - zone.centre) / zone.scale
        low, high = ((end - zone.centre) / zone.scale for end in (zone.lower, zone.upper))
        ratios = [scale / zone.scale for scale in zone.scales]
        for path in paths:
            r = np.column_stack([np.tile(v, (len(path.w), 1)), path.w]) - path.theta @ X.T
            r[np.abs(r) <= 1e-12] = 0.0
            for k in range(len(path.w) - 1):
                if path.w[k + 1] <= path.w[k]:
                    continue
                for w, pair in _between_flips(path.w[k : k + 2], r[k : k + 2]):
                    growth = np.interp(w, [low, high], ratios)
                    yield from self._stretches(i, w, pair, growth)

    def _stretches(self, i, w, r, ratio):
        """The same on a stretch where residuals (2, N) are lines that keep their signs."""
        length = w[1] - w[0]
        positions, phi = self.scale.moving(i, np.abs(r), ratio, length, self.fits.loss)
        share = (positions / length)[:, None]
        scores = np.abs(r) if not self.sign else self.sign * r
        size = scores[0] + share * (scores[1] - scores[0])
        sigma = phi @ np.vstack([self.scale.trained, self.scale.new[i]]).T
        floor = self.scale.floor * (ratio[0] + share[:, 0] * (ratio[1] - ratio[0]))
        for k in range(len(positions) - 1):
            pair = slice(k, k + 2)
            yield _Stretch(w[0] + positions[pair], size[pair], sigma[pair], floor[pair])


def _between_flips(w, r):
    """Parts of a stretch on which residuals keep their signs: ends (2,) and residuals (2, N)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        flips = r[0] / (r[0] - r[1])
    flips = flips[(r[0] * r[1] < 0) & (flips > 1e-12) & (flips < 1 - 1e-12)]
    cuts = np.concatenate([[0.0], np.unique(flips), [1.0]])
    for pair in pairwise(cuts):
        shares = np.array(pair)
        yield w[0] + shares * (w[1] - w[0]), r[0] + shares[:, None] * (r[1] - r[0])
