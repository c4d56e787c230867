"""A certified scan of a new row's set, where nothing better applies (theory, section 5).

Fits are made from the top of a zone down to its bottom; each certifies a stretch below it to be in the
set or out of it, up to a point near the next end. In a zone the scan goes along the new residual, of
which the response is an increasing function: a row that the fit follows closely has a long range of
responses but a short one of residuals. In a gap it goes along the response. What is undecided at the
tolerance is kept.
"""

import math
from functools import partial

import numpy as np

from ...path import merge
from ..stable import outer_residuals
from .local import CandidatePoint, TiltedPoint

__all__ = ["scan"]

_FITS = 2000
_FAR = 1000.0  # a residual, in scales, where no finite end is certain
_STEEP = 1e6  # or one with this slope, if that is nearer
_GROWTH = 3.0
_DOUBLINGS = 40


def scan(fits, j, row, rank, side, tol):
    """The set of a new row in zone or gap ``j``: a list of intervals, and the number of fits.

    Parameters
    ----------
    fits : ZoneFits
    j : int
    row : (p,) array
    rank : Rank
        With one mass.
    side : {"two-sided", "upper", "lower"}
    tol : float
        Relative to the scale of the response.
    """
    zone, start = fits.zones[j], fits.fit(j).solution.x
    if zone.is_gap:
        point, ends = partial(CandidatePoint, fits, zone, row), (zone.upper, zone.lower, zone.lower)
        pieces, count = _walk(point, *ends, zone.scale, start, rank, side, tol)
        return merge(pieces, near=0.1 * tol * zone.scale), count
    point = partial(TiltedPoint, fits, zone, row)
    high, above = _range_end(fits, j, row, rank, side, 1)
    low, below = _range_end(fits, j, row, rank, side, -1)
    if not low < high:
        return merge(above + below), 2
    bottom = zone.lower if math.isfinite(zone.lower) else point(low, start).z
    pieces, count = _walk(point, high, low, bottom, max(1.0, abs(high)), start, rank, side, tol)
    return merge(zone.cut(pieces + above + below), near=0.1 * tol * zone.scale), count + 2


def _walk(point, high, low, bottom, length, theta, rank, side, tol):
    """Pieces of the set between two ends of a range, and the number of fits.

    ``point(at, start)`` makes the point at a place of the range; ``bottom`` is the response at ``low``.
    """
    marks, kept, at = [], [], high
    while at > low and len(marks) < _FITS:
        here = point(at, theta)
        theta, least = here.theta, here.shortest(0.1 * tol)
        length = here.most(min(at - low, _GROWTH * length))
        reached, inside, length = here.decide(length, least, rank, side)
        if reached < least:
            reached, inside, length = least, True, max(length, least)
        marks.append(here.z)
        kept.append(inside)
        at = min(at - reached, float(np.nextafter(at, -math.inf)))
    if at > low:  # given up
        kept[-1] = True
    ends = [*marks, bottom]
    return [(ends[i + 1], ends[i]) for i in np.flatnonzero(kept)], len(marks)


def _range_end(fits, j, row, rank, side, direction):
    """The new residual at one end of what must be looked at in zone ``j``, and what is kept beyond."""
    zone, base = fits.zones[j], fits.fit(j)
    edge = zone.upper if direction > 0 else zone.lower
    if math.isfinite(edge):
        return float(CandidatePoint(fits, zone, row, edge, base.solution.x).solution.r[-1]), []
    if side == "two-sided" or side == ("upper" if direction > 0 else "lower"):
        far = _farthest(fits, j, row, rank, side, direction)
        if math.isfinite(far):
            return direction * far, []
    with np.errstate(invalid="ignore", divide="ignore"):
        steep = float(np.abs(fits.loss.inverse_derivative(direction * _STEEP)))
    far = direction * min(_FAR, steep if steep > 0 else _FAR)
    z = TiltedPoint(fits, zone, row, far, base.solution.x).z
    return far, [(z, math.inf) if direction > 0 else (-math.inf, z)]


def _end_of_ray(fits, zone, row, rank, side, direction, start):
    """The same for squared loss, whose path goes on in a line after its last corner."""
    last = TiltedPoint(fits, zone, row, direction * _FAR, start)
    still, error = np.zeros(fits.n), None
    for segment in last.segments(still, direction * row, 0.0, math.inf):
        if math.isinf(segment.last):
            error = last.bounds(still, still)
            break
    if error is None:
        return math.inf
    r, rate = last.solution.r + segment.begin, segment.end - segment.begin
    if side == "two-sided":
        r, rate = np.abs(r), np.abs(rate)
    else:
        r, rate = direction * r, direction * rate
    far = _FAR + segment.first
    for _ in range(_DOUBLINGS):
        # Rows that are below the new score and rise no faster stay there.
        if rank.passed((r + error < far) & (rate <= 1.0)):
            return far
        r, far = r + far * rate, 2.0 * far
    return math.inf


def _farthest(fits, j, row, rank, side, direction):
    """A size of the new residual beyond which none is in the set; inf where unknown.

    Where slopes are bounded, all fits of large residuals are near the one with the steepest tilt.
    """
    zone, base = fits.zones[j], fits.fit(j)
    outer = float(outer_residuals(base, row[None], rank, side, direction)[2][0])
    steepest = base.steepest(direction)
    if not math.isfinite(steepest):
        if math.isinf(outer) and fits.loss.softness:
            outer = _end_of_ray(fits, zone, row, rank, side, direction, base.solution.x)
        return max(outer, 0.0)
    last = TiltedPoint(fits, zone, row, direction * math.inf, base.solution.x)
    r = last.solution.r
    scores = np.abs(r) if side == "two-sided" else direction * r
    far, still = max(float(rank.kth(scores)), fits.scale / zone.scale), np.zeros(len(r))
    for _ in range(_DOUBLINGS):
        short = steepest - abs(float(fits.loss.derivative(direction * far)))
        error = last.bounds(still, still, max(short, 0.0), row)
        if error is not None and rank.kth(scores + error) < far:
            return min(far, max(outer, 0.0))
        far *= 1.5
    return max(outer, 0.0)
