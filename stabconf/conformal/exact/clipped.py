"""Exact sets for losses with clipped slopes: LAD, quantile, Huber, squared; ridge or elastic net.

In a zone the fit no longer depends on the new response once its slope is at a bound, so one tilted fit a
side gives the end (theory, section 5); squared loss without an L1 part has a closed form. Where these do
not decide (an order statistic inside the bounds of the slope, a set that may have holes) the whole path
of the new response is swept. Paths also lead across gaps, while location and scale move.
"""

import numpy as np

from ...path import Gap, PathError, Tilted, gap_path, merge, response_path, tilted_fits
from ...scores import kth_of_lines, kth_smallest
from ...solvers import minimise
from .pieces import Pieces, ZoneEnds

__all__ = ["ClippedPieces"]

_ENTRIES = 2_000_000


class ClippedPieces(Pieces):
    """`Pieces` by following paths."""

    def __init__(self, fits, side):
        super().__init__(fits, side)
        self.soft = fits.loss.softness > 0
        self.linear = self.soft and np.isinf(fits.loss.lipschitz) and not fits.lasso.any()

    def _fit(self, zone):
        return self.fits.clipped(zone.centre, zone.scale)

    # Zones ---------------------------------------------------------------------------------------

    def ends(self, j, rows, ranks, direction):
        zone = self.fits.zones[j]
        fit = self._fit(zone)
        if fit.hessian_inverse is None:
            distance, theta = np.full((len(ranks), len(rows)), np.nan), np.tile(fit.theta, (len(rows), 1))
            simple = np.zeros(distance.shape, dtype=bool)
        else:
            find = self._closed if self.linear else self._tilted
            distance, theta, simple = find(fit, rows, ranks, direction, zone)
        eta = np.einsum("ij,ij->i", rows, theta)
        return ZoneEnds(
            ends=zone.centre + zone.scale * (eta + direction * distance),
            prediction=zone.centre + zone.scale * eta,
            simple=simple,
            theta=theta,
        )

    def _tilted(self, fit, rows, ranks, direction, zone):
        """One tilted fit a row, at the end of the slope range."""
        down, up = self.fits.loss.slopes
        bound = up if direction > 0 else down
        if np.isinf(bound):  # squared loss with an L1 part: the whole path decides
            shape = len(ranks), len(rows)
            return np.full(shape, np.nan), np.tile(fit.theta, (len(rows), 1)), np.zeros(shape, dtype=bool)
        self.tilted += len(rows)
        found = tilted_fits(fit, rows, -direction * bound, self._refit(zone))
        k_th = found.order_statistics(fit, ranks, self.score)
        simple = k_th >= (bound if self.soft else 0.0)
        if self.soft or self.sign:
            # Holes need an order statistic that falls below what is smaller than it in the middle.
            reach = -2.0 * fit.length(found.move)
            values, norms = self.score(fit.r[: fit.count]), fit.row_norms[: fit.count]
            least = np.array([kth_of_lines(values, norms, k, reach) for k in ranks])
            simple &= least >= (bound if self.soft else 0.0)
        if fit.penalised:
            k_th = k_th + found.radius * self._looseness(fit, rows)
        return k_th, fit.theta + found.move, simple

    def _refit(self, zone):
        """Fresh fits where a path cannot be trusted: coefficients and certified radius."""

        def refit(tilt):
            solution = minimise(self.fits.problem(zone.centre, zone.scale, tilt), self._fit(zone).theta)
            return solution.x, solution.radius

        return refit

    def _looseness(self, fit, rows):
        """How far an end can move per unit of a fit's radius, in the P norm."""
        norms = [np.sqrt(np.square(x) @ (1.0 / fit.ridge)) for x in (fit.X[: fit.count], rows)]
        return np.max(norms[0]) + norms[1]

    def _closed(self, fit, rows, ranks, direction, zone):
        """Squared loss and ridge: residuals are linear in the new one, r_i - r b_i."""
        towards = rows @ fit.hessian_inverse
        own = np.einsum("ij,ij->i", towards, rows)
        r, X = fit.r[: fit.count], fit.X[: fit.count]
        out, simple = np.empty((len(ranks), len(rows))), np.ones((len(ranks), len(rows)), dtype=bool)
        size = max(1, _ENTRIES // fit.count)
        for first in range(0, len(rows), size):
            part = slice(first, first + size)
            pull = towards[part] @ X.T
            simple[:, part] = np.max(np.abs(pull), axis=1) < 1
            turn = direction * (np.where(r >= 0, 1.0, -1.0) if not self.sign else self.sign)
            with np.errstate(divide="ignore", invalid="ignore"):
                largest = self.score(r) / (1.0 + turn * pull)
            for a, k in enumerate(ranks):
                out[a, part] = kth_smallest(largest, k)
        self.tilted += len(rows)
        return out * (1.0 + own), np.tile(fit.theta, (len(rows), 1)), simple

    def pieces(self, j, row, k):
        zone = self.fits.zones[j]
        if zone.keep:
            return [(zone.lower, zone.upper)]
        paths = self._gap_paths if zone.is_gap else self._zone_paths
        try:
            found = paths(zone, row, self._fit(zone))
        except PathError:  # a degenerate corner: what cannot be decided is kept
            return [(zone.lower, zone.upper)]
        return merge([piece for path in found for piece in self._clip(path, zone, k)])

    def _zone_paths(self, zone, row, fit):
        self.tilted += 2
        return [response_path(fit, row, self.fits.loss.slopes)]

    def _gap_paths(self, zone, row, fit):
        """From the middle of a gap to its ends."""
        self.tilted += 2
        middle = 0.5 * (zone.lower + zone.upper)
        out = []
        for end, centre, scale in zip((zone.lower, zone.upper), zone.centres, zone.scales, strict=True):
            force = np.zeros(len(row))
            if self.fits.intercept is not None:
                lever = self.fits.intercept
                force[lever] = self.fits.ridge[lever] * (centre - zone.centre) / zone.scale
            gap = Gap(
                w=(middle - zone.centre) / zone.scale,
                move=(end - middle) / zone.scale,
                force=force,
                growth=scale / zone.scale - 1.0,
            )
            out.append(gap_path(fit, row, self.fits.loss.slopes, gap))
        return out

    def residuals(self, j, row, z):
        zone = self.fits.zones[j]
        if zone.keep:
            return None
        paths = self._gap_paths if zone.is_gap else self._zone_paths
        w, X = (z - zone.centre) / zone.scale, np.vstack([self.fits.X, row])
        v = (self.fits.y - zone.centre) / zone.scale
        out = np.empty((len(z), len(X)))
        try:
            for path in paths(zone, row, self._fit(zone)):
                at = path.covers(w)
                responses = np.column_stack([np.tile(v, (np.count_nonzero(at), 1)), w[at]])
                out[at] = zone.scale * (responses - path.at(w[at]) @ X.T)
        except PathError:
            return None
        return out

    def _clip(self, path, zone, k):
        """The set along a path, in units of the response and cut to the zone."""
        centre, scale = zone.centre, zone.scale
        pieces = path.pieces(self.fits.X, (self.fits.y - centre) / scale, k, self.sign)
        pieces = [(centre + scale * low, centre + scale * high) for low, high in pieces]
        cut = [(max(low, zone.lower), min(high, zone.upper)) for low, high in pieces]
        return [(low, high) for low, high in cut if low <= high]

    # Gaps ----------------------------------------------------------------------------------------

    def may_reach(self, j, rows, k, direction, outer):
        if self.soft:
            return super().may_reach(j, rows, k, direction, outer)
        zone, found = self.fits.zones[j], np.zeros(len(rows), dtype=bool)
        for here in np.unique(outer.zone):
            which = np.flatnonzero(outer.zone == here)
            ends = self._drifted(here, [here, j], rows[which], outer.take(which), k, direction, 1)
            edge = zone.lower if direction > 0 else zone.upper
            found[which] = direction * (ends - edge) >= 0
        return found

    def surely_in(self, rows, k, low, high):
        if self.soft:
            return super().surely_in(rows, k, low, high)
        out = np.empty((2, len(rows)))
        for first, last in set(zip(low.zone.tolist(), high.zone.tolist(), strict=True)):
            which = np.flatnonzero((low.zone == first) & (high.zone == last))
            over = range(first, last + 1)
            for line, outer, here, direction in ((0, low, first, -1), (1, high, last, 1)):
                ends = self._drifted(here, over, rows[which], outer.take(which), k, direction, -1)
                out[line, which] = ends
        return out

    def _drifted(self, here, over, rows, outer, k, direction, way):
        """Bounds on the far ends while location and scale move from zone ``here`` over others (m,).

        ``way`` is 1 for the outermost, -1 for the innermost. The penalty alone sees location and scale: it
        moves a fit by ``|(1 - rho) theta - delta e_0|`` in the P norm, so a row by no more than that
        times its own length.
        """
        zones = [self.fits.zones[j] for j in over]
        if any(zone.keep or zone.is_gap for zone in (self.fits.zones[here],)):
            return outer.ends if way < 0 else np.full(len(rows), direction * np.inf)
        zone = self.fits.zones[here]
        fit = self._fit(zone)
        ratio = max(abs(scale / zone.scale - 1.0) for other in zones for scale in other.scales)
        shift = max(abs(centre - zone.centre) for other in zones for centre in other.centres) / zone.scale
        slack = ratio * np.linalg.norm(outer.theta, axis=1) + shift
        moved = Tilted.of(outer.theta - fit.theta)
        (k_th,) = moved.order_statistics(fit, [k], self.score, way * slack)
        eta = np.einsum("ij,ij->i", rows, outer.theta)
        distance = k_th + way * slack * np.linalg.norm(rows, axis=1)
        return zone.centre + zone.scale * (eta + direction * distance)
