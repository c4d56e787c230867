"""Stability bounds by name: how far a tilt can move every training score and the new prediction."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import AssumptionError
from ..scores import kth_of_lines, kth_smallest

__all__ = ["BallReach", "CurvatureReach", "NormReach", "PaperReach", "Score"]

_KAPPA_STEPS = 2  # curvature regions per doubling
_KAPPA_TRIES = 12  # regions tried before falling back to the penalty alone
_BALL_ENTRIES = 2_000_000


@dataclass(frozen=True)
class Score:
    """A conformity score of the residuals: ``|r|``, or ``sign * r`` where ``absolute`` is False.

    Attributes
    ----------
    r : (n,) array
        Residuals of the base fit, standardised.
    absolute : bool
    sign : int
        1 or -1; with an absolute score, the side of the set that is being decided.
    """

    r: np.ndarray
    absolute: bool
    sign: int

    @cached_property
    def values(self):
        return np.abs(self.r) if self.absolute else self.sign * self.r


class NormReach:
    """Moves of size ``t |x_N| + start`` in one metric, the penalty's: tau_i = tbar a_i a_N."""

    factor = 1.0
    widest = None  # the metric that is valid for every move

    def __init__(self, base, rows):
        self.base = base
        self.count = len(rows)
        self._rows = rows
        self._norms = {}

    def norms(self, kappa, which):
        """Norms of the new rows ``which`` in one metric, remembered."""
        if kappa not in self._norms:
            self._norms[kappa] = np.full(self.count, np.nan)
        known = self._norms[kappa]
        todo = which[np.isnan(known[which])]
        if len(todo):
            known[todo] = self.base.metric(kappa).root.norms(self._rows[todo])
        return known[which]

    def _groups(self, t):
        """Yield ``which, metric, norms, move``: rows that share a metric, and how far they move."""
        which = np.arange(self.count)
        metric, norms = self.base.metric(None), self.norms(None, which)
        yield which, metric, norms, _move(self.factor * t, norms, metric)

    def shift(self, t):
        """Bound on the movement of each new row's own prediction (m,)."""
        out = np.empty(self.count)
        for which, _, norms, move in self._groups(t):
            out[which] = move * norms
        return out

    def before(self, t):
        """The part of `shift` that is there whatever the new response is (m,)."""
        out = np.empty(self.count)
        for which, metric, norms, _ in self._groups(t):
            out[which] = metric.start * norms
        return out

    def quantile(self, score, k, t, direction, inner=False):
        """k-th smallest upper (``inner``: lower) bound of the training scores (m,)."""
        out = np.empty(self.count)
        for which, metric, _, move in self._groups(t):
            move = -move if inner else move
            out[which] = kth_of_lines(score.values, metric.rows, k, move)
        return np.maximum(out, 0.0) if score.absolute else out

    def tau(self, t):
        """Bounds on the movement of every training row's prediction (m, n)."""
        out = np.empty((self.count, len(self.base.problem.v)))
        for which, metric, _, move in self._groups(t):
            out[which] = move[:, None] * metric.rows
        return out

    def ceilings(self, score, k):
        """Lines ``height + rise * move`` above the k-th smallest upper bound, and their moves.

        Returns the lines and a function from t to the moves that go with them. Any k rows bound the
        order statistic from above: those with the smallest norms give the line that rises least.
        """
        metric = self.base.metric(self.widest)
        flat = np.argpartition(metric.rows, k - 1)[:k]
        lines = [
            (float(np.max(score.values[flat])), float(np.max(metric.rows[flat]))),
            (float(kth_smallest(score.values, k)), float(np.max(metric.rows))),
        ]
        norms = self.norms(self.widest, np.arange(self.count))
        return lines, lambda t: _move(t, norms, metric)


class PaperReach(NormReach):
    """The paper's replace-one constant, with the norm of the new row: tau_i = 2 rho a_i a_N."""

    factor = 2.0

    def __init__(self, base, rows):
        super().__init__(base, rows)
        if math.isinf(base.problem.loss.lipschitz):
            raise AssumptionError(
                f"bound='paper' assumes a Lipschitz loss; {base.problem.loss.describe()} is not: use "
                "bound='curvature' or 'norm', or a Lipschitz loss such as 'huber'"
            )

    def _groups(self, t):
        return super()._groups(np.full(self.count, max(self.base.steepest(-1), self.base.steepest(1))))


class CurvatureReach(NormReach):
    """As `NormReach`, with the loss's own curvature on the smallest region that holds the move."""

    widest = math.inf

    def _groups(self, t):
        everywhere = self.base.metric(self.widest)
        left = np.arange(self.count)
        if self.base.problem.loss.min_curvature(-np.inf, np.inf) > 0:  # the same everywhere
            norms = self.norms(self.widest, left)
            yield left, everywhere, norms, _move(t, norms, everywhere)
            return
        first = self._first_region(t)
        for attempt in range(_KAPPA_TRIES):
            rest = []
            for level in np.unique(first[left]):
                which = left[first[left] == level]
                if level < np.iinfo(int).max:
                    kappa = 2.0 ** ((level + attempt) / _KAPPA_STEPS)
                    metric = self.base.metric(kappa)
                    norms = self.norms(kappa, which)
                    move = _move(t[which], norms, metric)
                    inside = move * metric.stretch < kappa
                    if inside.any():
                        yield which[inside], metric, norms[inside], move[inside]
                    which = which[~inside]
                rest.append(which)
            left = np.sort(np.concatenate(rest)) if rest else left[:0]
        if len(left):
            norms = self.norms(self.widest, left)
            yield left, everywhere, norms, _move(t[left], norms, everywhere)

    def _first_region(self, t):
        """Index of the smallest region that could hold each move; no region holds an infinite one."""
        base = self.base.metric(0.0)
        move = _move(t, self.norms(0.0, np.arange(self.count)), base)
        level = np.full(self.count, np.iinfo(int).max)
        ok = np.isfinite(move)
        size = np.maximum(move[ok], 1e-12)
        level[ok] = np.floor(_KAPPA_STEPS * np.log2(size)).astype(int) + 1
        return level


class BallReach(NormReach):
    """The ball form with the penalty's metric: it knows on which side each row moves.

    A tilt of size t towards ``direction`` moves row i by ``direction * t * (g_i +- a_i a_N) / 2``. Cost
    grows with n times m, memory does not.
    """

    def _span(self, which, t, direction):
        """Lowest and highest movement of every training row, for the new rows ``which``."""
        metric = self.base.metric(None)
        towards = (self._rows[which] @ metric.root.W.T) @ (self.base.problem.X @ metric.root.W.T).T
        size = np.outer(self.norms(None, which), metric.rows)
        t = t[which, None]
        far, near = t * (towards + size) / 2.0, t * np.minimum(towards - size, 0.0) / 2.0
        start = metric.start * metric.rows
        return (near - start, far + start) if direction > 0 else (-far - start, -near + start)

    def quantile(self, score, k, t, direction, inner=False):
        out = np.empty(self.count)
        for which in self._blocks():
            low, high = self._span(which, np.where(np.isfinite(t), t, 0.0), direction)
            if score.absolute:
                ends = np.abs(score.r - low), np.abs(score.r - high)
                bound = np.minimum(*ends) if inner else np.maximum(*ends)
                if inner:
                    bound = np.where((score.r - low) * (score.r - high) <= 0, 0.0, bound)
            else:
                ends = score.sign * (score.r - low), score.sign * (score.r - high)
                bound = np.minimum(*ends) if inner else np.maximum(*ends)
            out[which] = kth_smallest(bound, k)
        unknown = 0.0 if score.absolute else -np.inf
        return np.where(np.isfinite(t), out, unknown if inner else np.inf)

    def tau(self, t):
        spans = [self._span(np.arange(self.count), t, direction) for direction in (-1, 1)]
        return np.maximum.reduce([np.abs(end) for span in spans for end in span])

    def _blocks(self):
        size = max(1, _BALL_ENTRIES // max(1, len(self.base.problem.v)))
        for first in range(0, self.count, size):
            yield np.arange(first, min(first + size, self.count))


def _move(t, norms, metric):
    """Size of a move: tilt times the new row's norm, plus what is there before."""
    with np.errstate(invalid="ignore"):
        move = t * norms + metric.start
    return np.where(np.isnan(move), np.where(norms == 0, metric.start, np.inf), move)
