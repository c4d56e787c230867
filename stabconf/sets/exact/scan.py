"""A certified scan of a new row's set, where nothing better applies (theory, section 5).

Tilted fits are made from the outermost new residual inward, first on one side and then on the other; each
certifies a stretch to be in the set or out of it, up to a point near the next end. The scan goes along the
new residual, of which the response is an increasing function: a row that the fit follows closely has a long
range of responses but a short one of residuals. What is undecided at the tolerance, or when the budget of
fits is used up, is kept.
"""

import math

import numpy as np

from ...path import Piece, merge
from ...rank import Rank
from ..enclosure import outer_residuals
from ..fits import Fits
from ..score import Score
from .local import TiltedPoint

__all__ = ["scanned_set"]

_FAR = 1000.0  # a residual, in scales, where no finite end is certain
_STEEP = 1e6  # or one with this slope, if that is nearer
_GROWTH = 10.0  # of the length that is tried first at the next fit
_DOUBLINGS = 40
_WORK = 3e10  # multiplications for one row, at most
_STEP = 1e7  # those that the smallest Newton step takes as long as
_LEAST = 50  # Newton steps for one row, whatever they take
OUT, IN, UNKNOWN = "out", "in", "unknown"  # what is beyond the residuals that are looked at


def scanned_set(
    fits: Fits, row: np.ndarray, rank: Rank, score: Score, own: float, tol: float, budget: int
) -> tuple[list[Piece], float, int]:
    """The set of a new row (p,) whose scale is ``own``: its intervals, how far they may reach beyond it,
    and the number of fits, ``budget`` at most. ``rank`` has one mass, ``tol`` is in units of the fit."""
    walk = _Walk(fits, row, rank, score, own, tol)
    for direction in (1, -1):
        walk.side(direction, budget // 2)
    return merge(walk.pieces, near=0.1 * tol), walk.loose, walk.count


class _Walk:
    """Pieces of a set that are found, what is kept for want of a decision, and the fits it took."""

    def __init__(
        self, fits: Fits, row: np.ndarray, rank: Rank, score: Score, own: float, tol: float
    ) -> None:
        self.fits, self.row, self.rank, self.score, self.own, self.tol = fits, row, rank, score, own, tol
        self.pieces: list[Piece] = []
        self.loose = tol
        self.count = 0
        self.theta = fits.base.solution.x
        n, p = fits.problem.X.shape
        self.most = max(_WORK / (_STEP + p * p * (n + p)), _LEAST) / 2
        self.middle = self.point(0.0).w

    def point(self, at: float, start: np.ndarray | None = None) -> TiltedPoint:
        self.count += 1
        return TiltedPoint(self.fits, self.row, at, self.theta if start is None else start)

    def keep(self, one: float, other: float, decided: bool = True) -> None:
        """Put responses between two of them into the set."""
        self.pieces.append((min(one, other), max(one, other)))
        if not decided:
            self.loose = max(self.loose, abs(other - one))

    def side(self, direction: int, budget: int) -> None:
        """Look at the new residuals on one side of 0, from the outermost inward."""
        far, beyond = self._farthest(direction)
        at = direction * far
        here = self.point(at)
        if here.runs_away or not here.solution.success:
            end = math.inf if here.runs_away or beyond != OUT else self._response(direction, far)
            self.keep(self.middle, direction * end, decided=False)
            return
        if beyond != OUT:
            self.keep(here.w, direction * math.inf, decided=beyond == IN)
        length, fits, work = max(1.0, far), 1, 0
        while at:
            last, least = here, here.shortest(0.1 * self.tol)
            length = min(abs(at), _GROWTH * length)
            reached, inside, length = here.decide(length, least, self.rank, self.score, self.own)
            small = reached < least
            if small:
                reached, inside, length = min(least, abs(at)), True, max(length, least)
            at = direction * max(min(abs(at) - reached, math.nextafter(abs(at), 0.0)), 0.0)
            fits, work = fits + 1, work + last.work
            if (fits > budget or work > self.most) and at:
                self.keep(last.w, self.middle, decided=False)
                return
            if at:
                here = self.point(at, last.ahead(at))
            if inside:
                self.keep(last.w, here.w if at else self.middle)

    def _response(self, direction: int, far: float) -> float:
        """A response, times ``direction``, that no new residual up to a size goes with one beyond; by the
        penalty alone."""
        base = self.fits.base
        metric = base.metric(None)
        lever = float(metric.root.norms(self.row[None])[0])
        with np.errstate(invalid="ignore"):
            move = (float(base.slope(far, direction)) * lever + metric.start) * lever
        end = direction * float(self.row @ base.solution.x) + far + move
        return end if math.isfinite(end) else math.inf

    def _farthest(self, direction: int) -> tuple[float, str]:
        """A size of the new residual up to which to look, and whether none beyond it is in the set."""
        if self.score.sign == -direction:
            return self._behind(direction)
        far = self._end(direction)
        return (far, OUT) if math.isfinite(far) else (self._as_far_as_can_be(direction), UNKNOWN)

    def _as_far_as_can_be(self, direction: int) -> float:
        """A size of the new residual up to which to look where no end of it is certain."""
        with np.errstate(invalid="ignore", divide="ignore"):
            steep = float(np.abs(self.fits.loss.inverse_derivative(direction * _STEEP)))
        return min(_FAR, steep if steep > 0 else _FAR)

    def _behind(self, direction: int) -> tuple[float, str]:
        """The same behind a one-sided set, where far responses are in it.

        Slopes that grow no faster than the residual move a training row by a share of it, so that what
        holds at one size holds at all larger ones.
        """
        base, far = self.fits.base, 1.0
        metric, loss = base.metric(None), self.fits.loss
        lever = float(metric.root.norms(self.row[None])[0])
        grows_slowly = loss.concave_slope or math.isfinite(base.steepest(direction))
        for _ in range(_DOUBLINGS if grows_slowly and math.isfinite(lever) else 0):
            slope = float(base.slope(far, direction))
            moved = np.abs(base.solution.r) + (slope * lever + metric.start) * metric.rows
            if self.own * np.max(self.score.norms(moved)) <= far:
                return far, IN
            far *= 2.0
        return self._as_far_as_can_be(direction), UNKNOWN

    def _end(self, direction: int) -> float:
        """A size of the new residual beyond which none is in the set; inf where unknown.

        Where slopes are bounded, all fits of large residuals are near the one with the steepest tilt.
        """
        base = self.fits.base
        own = np.array([self.own])
        found, _ = outer_residuals(base, self.row[None], self.rank, self.score, direction, own)
        outer = max(float(found[0]), 0.0)
        steepest = base.steepest(direction)
        if not math.isfinite(steepest):
            return outer
        last = self.point(direction * math.inf)
        scores, still = self.score.values(last.solution.r), np.zeros(self.fits.n)
        far = max(self.own * float(self.rank.kth(scores)), 1.0)
        for _ in range(_DOUBLINGS):
            short = steepest - abs(float(self.fits.loss.derivative(direction * far)))
            error = last.bounds(still, still, max(short, 0.0), self.row)
            if error is not None and self.own * self.rank.kth(scores + self.score.norms(error)) < far:
                return min(far, outer)
            far *= 1.5
        return outer
