"""A certified scan of a new row's set, where nothing better applies (theory, section 5).

Tilted fits are made from the outermost new residual inward, on one side and then on the other. Each
certifies its neighbours to be in the set or out of it: its derivative predicts the fits nearby, and the
stability lemma, in the curvature metric of the fit, turns the prediction's stationarity residual into a
bound on every residual. That is quadratic in the distance, so few fits close in on an end. What is
undecided at the tolerance, or when the budget of fits is used up, is kept.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..losses import Loss
from ..path import Piece, decided_prefix, merge, runs_away
from ..rank import Rank
from ..solvers import gram, minimise
from ..stability import BaseFit
from .enclosure import Enclosure
from .fits import Fits
from .score import Score

_FAR = 1000.0  # a residual, in scales, where no finite end is certain
_STEEP = 1e6  # or one with this slope, if that is nearer
_GROWTH = 10.0  # of the length that is tried first at the next fit
_DOUBLINGS = 40
_WORK = 3e10  # multiplications for one row, at most
_STEP = 1e7  # those that the smallest Newton step takes as long as
_LEAST = 50  # Newton steps for one row, whatever they take
_SHRINK = 3.0
_NEWTON = 150  # steps of a fit: one that takes more has slopes beyond measure, and its bounds say so
_CORNERS = 100  # of the L1 part on one path
_STEEPEST = 1e6  # curvature counted at most
_BOUND = 3  # Newton steps that take as long as the bounds of a region
OUT, IN, UNKNOWN = "out", "in", "unknown"  # what is beyond the residuals that are looked at


@dataclass(frozen=True)
class _Segment:
    """A stretch between two corners of a path."""

    first: float  # share of the path, at one corner
    last: float  # and at the other
    begin: np.ndarray  # predicted changes of the rows' residuals (n,) at one
    end: np.ndarray  # and at the other


class TiltedPoint:
    """The fit of the training rows tilted as a new residual ``at`` of a ``row`` (p,) tilts it. ``at`` may
    be infinite, for the steepest tilt; ``start`` (p,) is where the fit starts from."""

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

    @cached_property
    def _hessian(self) -> np.ndarray:
        """Second derivative, but for the L1 part (p, p)."""
        return np.diag(self.problem.ridge) + gram(self.problem.X, self.curvature)

    def segments(self, force: np.ndarray) -> Iterator[_Segment]:
        """The path of the fit's quadratic model, from corner to corner of the L1 part. ``force`` (p,) is
        the change of minus the linear term over the whole path."""
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
            yield _Segment(at, at + step, begin, -(X @ move))
            at += step
            if at >= 1.0:
                return
            u = np.where(free, u, u + step * rate)
            free[j] = not free[j]
            sign[j] = (-1.0 if up[j] <= down[j] else 1.0) if free[j] else 0.0
            if not free[j]:
                u[j] = (-1.0 if d[j] < 0 else 1.0) * lasso[j]

    def remainder(self, changes: Iterable[np.ndarray]) -> np.ndarray:
        """How far each row's slope may be from its prediction up to some changes of the residuals. The
        slope bends once on each side of 0: while the residual keeps its sign the largest change is the
        worst; else monotony bounds it."""
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


def _slope_change(loss: Loss, first: float, last: float) -> tuple[float, float]:
    """Change of the slope from ``first`` to ``last``, and how far it may be from a line in between. On one
    side of 0 slopes are convex or concave, so their graph lies in the triangle of its chord and the
    tangents at its ends."""
    change = float(loss.derivative(last) - loss.derivative(first))
    ends = [abs(float(loss.curvature(at)) * (last - first) - change) for at in (first, last)]
    low, high = sorted(ends)
    if math.isinf(high):
        return change, low if math.isfinite(low) else abs(change)
    return change, low * high / (low + high) if high > 0 else 0.0


class _Walk:
    """Pieces of a set that are found, what is kept for want of a decision, and the fits it took."""

    def __init__(
        self, fits: Fits, row: np.ndarray, rank: Rank, score: Score, own: float, tol: float
    ) -> None:
        self.fits, self.row, self.rank, self.score, self.own, self.tol = fits, row, rank, score, own, tol
        self.pieces: list[Piece] = []
        self.sure: list[Piece] = []  # those of the pieces that are decided
        self.count = 0
        self.theta = fits.base.solution.x
        n, p = fits.problem.X.shape
        self.most = max(_WORK / (_STEP + p * p * (n + p)), _LEAST) / 2
        self.middle = self.point(0.0).w
        if not score.sign:  # a size of 0 is the smallest
            self.sure.append((self.middle, self.middle))

    def point(self, at: float, start: np.ndarray | None = None) -> TiltedPoint:
        self.count += 1
        return TiltedPoint(self.fits, self.row, at, self.theta if start is None else start)

    def keep(self, one: float, other: float, decided: bool = True) -> None:
        """Put responses between two of them into the set."""
        piece = min(one, other), max(one, other)
        self.pieces.append(piece)
        if decided:
            self.sure.append(piece)

    @property
    def loose(self) -> float:
        """How far the pieces and their hull may reach beyond the set and its hull."""
        unsure = [high - low for low, high in set(self.pieces) - set(self.sure)]
        if not unsure:
            return self.tol
        if not self.sure:
            return math.inf
        every, sure = merge(self.pieces), merge(self.sure)
        ends = (every[0][0], sure[0][0]), (every[-1][1], sure[-1][1])
        beyond = [0.0 if one == other else abs(one - other) for one, other in ends]
        return max(self.tol, *unsure, *beyond)

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
            reached, inside, length = self._decide(here, length, least)
            small = reached < least
            if small:
                reached, inside, length = min(least, abs(at)), True, max(length, least)
            at = direction * max(min(abs(at) - reached, math.nextafter(abs(at), 0.0)), 0.0)
            fits, work = fits + 1, work + last.work
            if (fits > budget or work > self.most) and at:
                self.keep(last.w, self.middle, decided=False)
                return
            if at:
                here = self.point(at, last.theta)
            if inside:
                self.keep(last.w, here.w if at else self.middle, decided=not small)

    def _decide(self, here: TiltedPoint, length: float, least: float) -> tuple[float, bool, float]:
        """How far towards 0 all is in the set or all is out of it, which of them, and the length tried.
        Shorter lengths are tried as long as they may lead farther and are longer than ``least``."""
        best, inside = 0.0, False
        failed, tried = math.inf, length
        while length > max(best, least):
            reached, kind = self._decided(here, length)
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

    def _decided(self, here: TiltedPoint, length: float) -> tuple[float, bool]:
        """`_decide` for one length."""
        reached, inside = 0.0, None
        rank, score = self.rank, self.score
        rows = slice(None) if rank.which is None else rank.which
        towards = -math.copysign(length, here.at)
        pull, bend = _slope_change(self.fits.loss, here.at, here.at + towards)
        for part in here.segments(pull * self.row):
            moved = np.maximum(np.abs(part.begin), np.abs(part.end))
            error = here.base.held(moved, here.remainder((part.begin, part.end)), bend, self.row)
            if error is None:
                break
            r, rate, share = here.solution.r + part.begin, part.end - part.begin, part.last - part.first
            lines = score.lines(r[rows], rate[rows], rows)
            new = score.own_lines(here.at + part.first * towards, share * towards, self.own)
            found = decided_prefix(lines, new, score.norms(error[rows], rows), rank.alone())
            if found is None or inside not in (None, found[1]):
                break
            inside = found[1]
            reached = part.first + found[0] * share
            if found[0] < 1.0:
                break
        return reached * length, bool(inside)

    def _response(self, direction: int, far: float) -> float:
        """A response, times ``direction``, beyond those of new residuals up to a size, by the penalty."""
        base = self.fits.base
        metric = base.metric(None)
        lever = float(metric.root.norms(self.row[None])[0])
        with np.errstate(invalid="ignore"):
            move = (float(base.slope(far, direction)) * lever + metric.start) * lever
        end = direction * float(self.row @ base.solution.x) + far + move
        return end if math.isfinite(end) else math.inf

    def _farthest(self, direction: int) -> tuple[float, str]:
        """A size of the new residual up to which to look, and what is beyond it."""
        behind = self.score.sign == -direction
        far = self._behind(direction) if behind else self._end(direction)
        if math.isfinite(far):
            return far, IN if behind else OUT
        with np.errstate(invalid="ignore", divide="ignore"):
            steep = float(np.abs(self.fits.loss.inverse_derivative(direction * _STEEP)))
        return min(_FAR, steep if steep > 0 else _FAR), UNKNOWN

    def _behind(self, direction: int) -> float:
        """A size of the new residual behind a one-sided set beyond which all are in it; inf where unknown.
        Where slopes grow no faster than the residual, what holds at one size holds at all larger ones."""
        base, far = self.fits.base, 1.0
        metric, loss = base.metric(None), self.fits.loss
        lever = float(metric.root.norms(self.row[None])[0])
        grows_slowly = loss.concave_slope or math.isfinite(base.steepest(direction))
        for _ in range(_DOUBLINGS if grows_slowly and math.isfinite(lever) else 0):
            slope = float(base.slope(far, direction))
            moved = np.abs(base.solution.r) + (slope * lever + metric.start) * metric.rows
            if self.own * np.max(self.score.norms(moved)) <= far:
                return far
            far *= 2.0
        return math.inf

    def _end(self, direction: int) -> float:
        """A size of the new residual beyond which none is in the set; inf where unknown. Where slopes are
        bounded, all fits of large residuals are near the one with the steepest tilt."""
        base = self.fits.base
        ask = Enclosure(base, self.row[None], "curvature", self.rank, self.score, np.array([self.own]))
        outer = max(float(ask.largest_residual(direction)[0][0]), 0.0)
        steepest = base.steepest(direction)
        if not math.isfinite(steepest):
            return outer
        last = self.point(direction * math.inf)
        scores, still = self.score.values(last.solution.r), np.zeros(self.fits.n)
        far = max(self.own * float(self.rank.kth(scores)), 1.0)
        for _ in range(_DOUBLINGS):
            short = steepest - abs(float(self.fits.loss.derivative(direction * far)))
            error = last.base.held(still, still, max(short, 0.0), self.row)
            if error is not None and self.own * self.rank.kth(scores + self.score.norms(error)) < far:
                return min(far, outer)
            far *= 1.5
        return outer


def scanned_set(
    fits: Fits, row: np.ndarray, rank: Rank, score: Score, own: float, tol: float, budget: int
) -> tuple[list[Piece], float, int]:
    """The set of a new row (p,) whose scale is ``own``: its intervals, how far they may reach beyond it,
    and the number of fits, ``budget`` at most. ``rank`` has one mass, ``tol`` is in units of the fit."""
    walk = _Walk(fits, row, rank, score, own, tol)
    for direction in (1, -1):
        walk.side(direction, budget // 2)
    return merge(walk.pieces, near=0.1 * tol), walk.loose, walk.count
