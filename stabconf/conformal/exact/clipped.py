"""Exact sets for losses with clipped slopes: LAD, quantile, Huber, squared; ridge or elastic net.

In a zone the fit no longer depends on the new response once its slope is at a bound, so one tilted fit a
side gives the end (theory, section 5); squared loss without an L1 part has a closed form. Where these do
not decide (an order statistic inside the bounds of the slope, a set that may have holes) the whole path
of the new response is swept. Paths also lead across gaps, while location and scale move.
"""

from dataclasses import dataclass

import numpy as np

from ...path import (
    Gap,
    PathError,
    Tilted,
    drift_lengths,
    gap_paths,
    merge,
    response_path,
    step_paths,
    tilted_fits,
)
from ...scores import kth_of_lines
from ...solvers import minimise
from .closed import closed_residuals
from .contraction import contractions
from .pieces import Pieces, ZoneEnds
from .scan import scan

__all__ = ["ClippedPieces"]

_FITS = 20
_TOL = 1e-8  # of the scale, where a path is replaced by a scan
_ROUNDING = 1e-12  # of the scale, where fixed points are found


@dataclass(frozen=True)
class _Decided:
    """New residuals at the ends, the fits that decide them and their tilts; a line a rank."""

    r: np.ndarray
    theta: np.ndarray
    simple: np.ndarray
    tilt: np.ndarray
    gain: np.ndarray

    @classmethod
    def none(cls, fit, rows, ranks):
        """Nothing decided yet."""
        shape = len(ranks), len(rows)
        theta = np.tile(fit.theta, (*shape, 1))
        nothing = np.full(shape, np.nan), theta, np.zeros(shape, dtype=bool)
        return cls(*nothing, np.zeros(shape), np.ones(shape))


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
        if fit.hessian_inverse is None or (self.soft and self.fits.lasso.any()):
            # Only the whole path can tell.
            found = _Decided.none(fit, rows, ranks)
        else:
            find = self._closed if self.linear else self._fixed_points if self.soft else self._tilted
            found = find(fit, rows, ranks, direction, j)
        eta = np.einsum("ij,aij->ai", rows, found.theta)
        return ZoneEnds(
            ends=zone.centre + zone.scale * (eta + direction * found.r),
            prediction=zone.centre + zone.scale * eta,
            simple=found.simple,
            theta=found.theta,
            tilt=found.tilt,
            gain=found.gain,
        )

    def _tilted(self, fit, rows, ranks, direction, j):
        """Steps: one tilted fit a row, at the end of the slope range."""
        bound = self._bound(direction)
        self.tilted += len(rows)
        tilt = np.full(len(rows), -direction * bound)
        found = tilted_fits(fit, rows, tilt, self._refit(j))
        k_th = found.order_statistics(fit, ranks, self.score)
        simple = k_th >= 0
        if self.sign:
            # Holes need an order statistic that falls below 0 while the new row is fitted exactly.
            reach = -2.0 * fit.length(found.move)
            values, norms = self.score(fit.r[: fit.count]), fit.row_norms[: fit.count]
            simple &= np.array([kth_of_lines(values, norms, rank, reach) for rank in ranks]) >= 0
        if fit.penalised:
            k_th = k_th + found.radius * self._looseness(fit, rows)
        theta = np.repeat((fit.theta + found.move)[None], len(ranks), axis=0)
        return _Decided(k_th, theta, simple, np.tile(tilt, (len(ranks), 1)), np.ones(k_th.shape))

    def _bound(self, direction):
        down, up = self.fits.loss.slopes
        return up if direction > 0 else down

    def _fixed_points(self, fit, rows, ranks, direction, j):
        """Soft rows: the residual r that equals the order statistic of its tilted fit."""
        out = _Decided.none(fit, rows, ranks)
        base, bound = self.fits.fit(j), self._bound(direction)
        for a, rank in enumerate(ranks):
            for slow in contractions(base, rows, rank, self.side, direction)[0]:
                known = rank.take(slow.which)
                r = np.minimum(known.kth(self.score(fit.r[: fit.count])), slow.outer)
                left = np.arange(len(r))
                for _ in range(_FITS):
                    at = slow.which[left]
                    tilt = -direction * np.minimum(r[left], bound)
                    found = tilted_fits(fit, rows[at], tilt, self._refit(j))
                    self.tilted += len(at)
                    (now,) = found.order_statistics(fit, [known.take(left)], self.score)
                    off = np.abs(now - r[left]) / (1.0 - slow.rate[left])
                    done = off <= _ROUNDING
                    at = at[done]
                    out.r[a, at], out.simple[a, at], out.tilt[a, at] = now[done], True, tilt[done]
                    out.theta[a, at] = fit.theta + found.move[done]
                    own = np.square(slow.norms[left[done]])  # the prediction moves with the tilt
                    out.gain[a, at] = (1.0 + own) / (1.0 - slow.rate[left[done]])
                    r[left] = np.clip(now, slow.least[left], slow.outer[left])
                    left = left[~done]
                    if not len(left):
                        break
        return out

    def _refit(self, j):
        """Fresh fits where a path cannot be trusted: coefficients and certified radius."""
        zone = self.fits.zones[j]

        def refit(tilt):
            solution = minimise(self.fits.problem(zone.centre, zone.scale, tilt), self._fit(zone).theta)
            return solution.x, solution.radius

        return refit

    def _looseness(self, fit, rows):
        """How far an end can move per unit of a fit's radius, in the P norm."""
        return fit.largest_penalty_norm + fit.penalty_norms(rows)

    def _closed(self, fit, rows, ranks, direction, j):
        """Squared loss and ridge: residuals are linear in the new one."""
        (r,), towards, own, rate = closed_residuals(fit, rows, ranks, self.sign, [direction])
        self.tilted += len(rows)
        shape = r.shape
        gain = (1.0 + own) / np.maximum(1.0 - rate, 1e-6)
        with np.errstate(invalid="ignore"):
            theta = fit.theta + (direction * r)[..., None] * towards
        simple = np.broadcast_to(rate < 1.0, shape).copy()
        return _Decided(r, theta, simple, -direction * r, np.broadcast_to(gain, shape).copy())

    def closed(self, rows, ranks, directions):
        """Ends of the sets where there is one zone and they have a closed form; None where not.

        Returns
        -------
        ends : (len(directions), len(ranks), m) array
        simple : (m,) array of bool
            False where the set may not be an interval, and its ends are not known.
        """
        zones = self.fits.zones
        if not self.linear or len(zones) > 1 or zones[0].keep:
            return None
        fit = self._fit(zones[0])
        if fit.hessian_inverse is None:
            return None
        r, _, own, rate = closed_residuals(fit, rows, ranks, self.sign, directions)
        self.tilted += len(rows) * len(directions)
        away = np.array(directions)[:, None, None] * r * (1.0 + own)
        return zones[0].centre + zones[0].scale * (rows @ fit.theta + away), rate < 1.0

    def pieces(self, j, rows, rank):
        zone = self.fits.zones[j]
        out = [[(zone.lower, zone.upper)]] * len(rows)
        if zone.keep:
            return out
        for i, paths in enumerate(self._paths(zone, rows)):
            if paths is not None:
                out[i] = merge([piece for path in paths for piece in self._clip(path, zone, rank.take(i))])
            elif self.soft:  # a degenerate corner; for steps what cannot be decided is kept
                out[i], count = scan(self.fits, j, rows[i], rank.take(i), self.side, _TOL)
                self.tilted += count
        return out

    def _paths(self, zone, rows):
        """For each row the paths that make up a zone or gap; None where they cannot be followed."""
        self.tilted += 2 * len(rows)
        if zone.is_gap:
            return self._gap_paths(zone, rows)
        return [self._zone_path(zone, row) for row in rows]

    def _zone_path(self, zone, row):
        try:
            return [response_path(self._fit(zone), row, self.fits.loss.slopes)]
        except PathError:
            return None

    def _gap_paths(self, zone, rows):
        """From the middle of a gap to its ends."""
        middle, gaps = 0.5 * (zone.lower + zone.upper), []
        for end, centre, scale in zip((zone.lower, zone.upper), zone.centres, zone.scales, strict=True):
            force = self._force((centre - zone.centre) / zone.scale)
            gaps.append(Gap((end - middle) / zone.scale, force, scale / zone.scale - 1.0))
        w = (middle - zone.centre) / zone.scale
        return gap_paths(self._fit(zone), rows, self.fits.loss.slopes, w, gaps)

    def step_paths(self, j, rows):
        """For each row the paths that make up zone or gap ``j``, where slopes are steps.

        A zone has one path, of which at least the ends are known; a gap has one to each end, or None.
        """
        zone = self.fits.zones[j]
        self.tilted += 2 * len(rows)
        if zone.is_gap:
            return self._gap_paths(zone, rows)
        made = step_paths(self._fit(zone), rows, self.fits.loss.slopes, self._refit(j))
        return [[path] for path in made]

    def residuals(self, j, row, z):
        zone = self.fits.zones[j]
        if zone.keep:
            return None
        (paths,) = self._paths(zone, row[None])
        if paths is None:
            return None
        w, X = (z - zone.centre) / zone.scale, np.vstack([self.fits.X, row])
        v = (self.fits.y - zone.centre) / zone.scale
        out = np.empty((len(z), len(X)))
        for path in paths:
            at = path.covers(w)
            responses = np.column_stack([np.tile(v, (np.count_nonzero(at), 1)), w[at]])
            out[at] = zone.scale * (responses - path.at(w[at]) @ X.T)
        return out

    def _clip(self, path, zone, rank):
        """The set along a path, in units of the response and cut to the zone."""
        v = (self.fits.y - zone.centre) / zone.scale
        return zone.cut_scaled(path.pieces(self.fits.X, v, rank, self.sign))

    # Gaps ----------------------------------------------------------------------------------------

    def may_reach(self, j, rows, rank, direction, outer):
        zone, ends = self.fits.zones[j], np.full(len(rows), direction * np.inf)
        edge = zone.lower if direction > 0 else zone.upper
        for here in np.unique(outer.zone):
            which = np.flatnonzero(outer.zone == here)
            known = outer.take(which), here, j, rank.take(which)
            ends[which] = self._drifted(rows[which], *known, direction, 1, edge)
        return direction * (ends - edge) >= 0

    def surely_in(self, rows, rank, low, high):
        out = np.array([low.ends, high.ends])
        for first, last in set(zip(low.zone.tolist(), high.zone.tolist(), strict=True)):
            which = np.flatnonzero((low.zone == first) & (high.zone == last))
            if first == last:
                continue
            edges = self.fits.zones[first].upper, self.fits.zones[last].lower
            ways = (low, first, last, -1, edges[0]), (high, last, first, 1, edges[1])
            for line, (outer, here, there, direction, edge) in enumerate(ways):
                known = outer.take(which), here, there, rank.take(which)
                out[line, which] = self._drifted(rows[which], *known, direction, -1, edge)
        return out

    def _drifted(self, rows, outer, here, there, rank, direction, way, edge):
        """Bounds on the far ends while location and scale move from zone ``here`` to ``there`` (m,).

        ``way`` is 1 for the outermost, -1 for the innermost; rough where they need not be near to show
        on which side of ``edge`` they are. The fits with the tilt of the end are followed on; an end
        moves as its prediction and its order statistic do, and the tilt adapts.
        """
        zone, out = self.fits.zones[here], np.full(len(rows), way * direction * np.inf)
        if zone.keep or zone.is_gap or any(self.fits.zones[j].keep for j in _between(here, there)):
            return out
        fit = self._fit(zone)
        rough = outer.ends + way * direction * self._rough_drift(rows, outer, zone, _between(here, there))
        decided = way * direction * (rough - edge) < 0
        out[decided] = rough[decided]
        left = np.flatnonzero(~decided)
        if not len(left):
            return out
        rows, outer, rank = rows[left], outer.take(left), rank.take(left)
        length = drift_lengths(fit, rows, outer.tilt, self._stages(zone, here, there))
        known = np.isfinite(length)
        length = np.where(known, length, 0.0)
        moved = Tilted.of(outer.theta - fit.theta)
        (k_th,), (bent,) = (
            moved.order_statistics(fit, [rank], self.score, slack) for slack in (None, way * length)
        )
        change = np.abs(bent - k_th) * outer.gain + length * fit.norms(rows)
        eta = np.einsum("ij,ij->i", rows, outer.theta)
        ends = zone.centre + zone.scale * (eta + direction * (k_th + way * change))
        out[left[known]] = ends[known]
        return out

    def _rough_drift(self, rows, outer, zone, over):
        """A quick bound on how far ends move over other zones, for steps; inf for soft rows.

        The penalty alone sees location and scale: it moves a fit by ``|(1 - rho) theta - delta e_0|`` in
        the P norm, so a row by no more than that times its own length.
        """
        if self.soft:
            return np.inf
        zones = [self.fits.zones[j] for j in over]
        scale = max((abs(s - zone.scale) for other in zones for s in other.scales), default=0.0)
        shift = max((abs(c - zone.centre) for other in zones for c in other.centres), default=0.0)
        lengths = self.fits.longest_row + np.linalg.norm(rows, axis=1)
        return lengths * (scale * np.linalg.norm(outer.theta, axis=1) + shift)

    def _force(self, shift):
        """P times a shift of the location (p,): the intercept is shrunk towards it."""
        force = np.zeros_like(self.fits.ridge)
        if self.fits.intercept is not None:
            force[self.fits.intercept] = self.fits.ridge[self.fits.intercept] * shift
        return force

    def _stages(self, zone, here, there):
        """Forces and growths over the gaps from zone ``here`` to ``there``, in the units of ``here``."""
        stages, centre, scale = [], zone.centre, zone.scale
        for j in _between(here, there):
            other = self.fits.zones[j]
            end = 0 if there < here else 1
            if not other.is_gap:
                continue
            force = self._force((other.centres[end] - centre) / zone.scale)
            stages.append((force, (other.scales[end] - scale) / zone.scale))
            centre, scale = other.centres[end], other.scales[end]
        return stages


def _between(here, there):
    """Indices of the zones after ``here`` up to ``there``."""
    return range(here + 1, there + 1) if there > here else range(here - 1, there - 1, -1)
