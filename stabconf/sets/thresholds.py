"""Thresholds of scores along a design: what coverage along a formula ranks by (theory, section 7).

For every new row the scores of the training rows are regressed on Phi by quantile regression, tilted as a
new row with a score beyond the fit tilts it: the fit at the new row is the largest score that is in the
set. Many such regressions, each with scores of its own, are solved at once by the simplex method with long
steps, from the basis of one regression that all of them resemble. `conditional` calls this.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

_HAIR = 1e-9  # by which the level is lowered: of fits that tie the lowest is meant, as ceil does for ranks
_FEASIBLE = 1e-11  # excess of a multiplier that is none
_JITTER = 1e-12  # of the largest score: no two rows are tied
_STEPS = 50  # per column and watched row before a regression is given up
_FEW = 64  # rows that are watched at least
_SOME = 8  # every so many rows are regressed on before all of them
_LEVELS = 200  # that p-values are looked for among
_HALVINGS = 25
_CHUNK = 256  # new rows at a time


@dataclass(frozen=True)
class Scores:
    """Scores of the training rows, of their own for each of m new rows. The score of row i differs from
    that in ``base`` by at most ``norms[i] * length``."""

    base: np.ndarray  # (n,): scores of one fit that all of them resemble
    norms: np.ndarray  # (n,)
    length: np.ndarray  # (m,)
    at: Callable[[np.ndarray, np.ndarray], np.ndarray]  # scores (b, w) of new rows (b,), training rows (w,)
    unit: float = 0.0  # size that scores are of, where those of the base may all be 0

    @classmethod
    def fixed(cls, scores: np.ndarray, count: int) -> "Scores":
        """The same scores (n,) for every new row."""
        none = np.zeros(len(scores))
        return cls(scores, none, np.zeros(count), lambda new, rows: np.tile(scores[rows], (len(new), 1)))

    @classmethod
    def each(cls, scores: np.ndarray, unit: float = 0.0) -> "Scores":
        """Scores (m, n) that are known for every new row."""
        base, norms = scores[0], np.ones(scores.shape[1])
        length = np.max(np.abs(scores - base), axis=1)
        return cls(base, norms, length, lambda new, rows: scores[np.ix_(new, rows)], unit)

    def take(self, which: np.ndarray) -> "Scores":
        """The same for some of the new rows, as often as they are named."""
        return replace(self, length=self.length[which], at=lambda new, rows: self.at(which[new], rows))


@dataclass(frozen=True)
class Along:
    """The design Phi that coverage is asked for along, (n, d) and (m, d)."""

    trained: np.ndarray
    new: np.ndarray
    formula: str = "~ 1"

    def take(self, rows: np.ndarray | slice) -> "Along":
        """The same for some of the new rows."""
        other = Along(self.trained, self.new[rows], self.formula)
        other.__dict__.update(_space=self._space, _basis=self._basis)
        return other

    def among(self, rows: np.ndarray) -> "Along":
        """The same where only some training rows have scores, in this order."""
        return Along(self.trained[rows], self.new, self.formula)

    def guarantee(self, alpha: float, n: int) -> str:
        """The coverage statement, in words."""
        columns = self._space[0].shape[1]
        return (
            f"covers with probability at least {1 - alpha:g}, and at most {columns / (n + 1):.2g} more, "
            f"within every group and under every shift of the rows that {self.formula!r} can express, "
            "if rows are exchangeable"
        )

    @cached_property
    def _space(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthogonal coordinates of the training rows (n, q), and the map of rows to them (d, q)."""
        left, size, right = linalg.svd(self.trained, full_matrices=False)
        kept = size > 1e-10 * size[0]
        unit = np.sqrt(len(left))
        return left[:, kept] * unit, right[kept].T / size[kept] * unit

    @cached_property
    def _basis(self) -> list[np.ndarray]:
        """The rows that the last regression fitted exactly (q,), from which the next one starts."""
        return []

    @property
    def outside(self) -> np.ndarray:
        """Which new rows have a part that no training row has (m,): nothing bounds their score."""
        _, to = self._space
        missed = np.linalg.norm(self.new - self.new @ to @ np.linalg.pinv(to), axis=1)
        return missed > 1e-8 * (1e-300 + np.linalg.norm(self.new, axis=1))

    def thresholds(self, scores: Scores, alpha: float | np.ndarray) -> np.ndarray:
        """The largest score in the set of each new row (m,), at one level or at one each. ``inf`` where
        nothing bounds it: a group that is too small, a row outside of what Phi spans."""
        X, to = self._space
        pull = self.new @ to
        level = np.broadcast_to(1.0 - np.asarray(alpha) - _HAIR, len(pull))
        out = np.full(len(pull), np.inf)
        known = np.flatnonzero(~self.outside & (level > 0))
        out[level <= 0] = -np.inf
        if not len(known):
            return out
        middle = np.median(level[known], keepdims=True)
        basis = self._basis or [_first_basis(X, scores.base, middle[0])]
        own = Scores.fixed(scores.base, 1)
        self._basis[:] = _regress(X, own, basis[0], np.zeros(1, dtype=int), middle, 0.0 * pull[:1])[2]
        order = known[np.argsort(scores.length[known], kind="stable")]
        for first in range(0, len(order), _CHUNK):
            part = order[first : first + _CHUNK]
            tilt = level[part, None] * pull[part]
            gamma, bounded, _ = _regress(X, scores, self._basis[0], part, level[part], tilt)
            out[part] = np.where(bounded, np.einsum("ij,ij->i", pull[part], gamma), np.inf)
        return out

    def p(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """p-values (g,) of one new row at candidates, where training rows have ``scores`` (g, n) and it has
        ``own`` (g,): the largest alpha at which each candidate is in the set. Quantile regressions of
        different levels may cross, so that a candidate can be out at a smaller alpha and in at a larger
        one: levels are tried one by one before the last stretch is halved."""
        known = Scores.each(scores)

        def inside(which: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            """Whether candidates (b,) are in the set at levels (b,)."""
            each = self.take(np.zeros(len(which), dtype=int))
            return own[which] <= each.thresholds(known.take(which), alpha)

        every = np.arange(len(own))
        grid = np.arange(1, _LEVELS) / _LEVELS
        on_grid = inside(np.repeat(every, len(grid)), np.tile(grid, len(own))).reshape(len(own), -1)
        low = np.max(np.where(on_grid, grid, 0.0), axis=1)
        high = low + 1.0 / _LEVELS
        for _ in range(_HALVINGS):
            alpha = 0.5 * (low + high)
            now = inside(every, alpha)
            low = np.where(now, alpha, low)
            high = np.where(now, high, alpha)
        return high


def _first_basis(X: np.ndarray, v: np.ndarray, level: float) -> np.ndarray:
    """Rows (q,) that are fitted exactly by the regression of some of the scores ``v`` (n,)."""
    basis = linalg.qr(X.T, mode="r", pivoting=True)[1][: X.shape[1]]
    rows = np.union1d(basis, np.arange(0, len(X), _SOME))
    start = np.searchsorted(rows, basis)
    _, _, found = _simplex(X[rows], v[None, rows], np.array([level]), np.zeros((1, X.shape[1])), start)
    return rows[found[0]]


def _regress(
    X: np.ndarray, scores: Scores, near: np.ndarray, new: np.ndarray, level: np.ndarray, pull: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_simplex`, on X (n, q) for the scores of new rows (b,), from the rows ``near`` (q,) that a fit to
    the base scores has as its basis. Only rows near that fit are watched, with all others on the side where
    they are; where one has not kept it more rows are watched."""
    spread = np.arange(len(X)) * 0.6180339887498949 % 1.0  # all different, the same in every run
    jitter = _JITTER * np.max(np.abs(scores.base), initial=scores.unit) * spread
    v = scores.base + jitter
    fit = np.linalg.solve(X[near], v[near])
    side = v - X @ fit
    gamma = np.zeros(pull.shape)
    bounded = np.zeros(len(new), dtype=bool)
    basis = np.tile(near, (len(new), 1))
    left = np.arange(len(new))
    nearest = np.argsort(np.abs(side))
    count = max(_FEW, 8 * X.shape[1])
    far = np.ones(len(X), dtype=bool)
    while len(left) and far.any():
        watched = np.union1d(nearest[:count], basis[left])
        far[:] = True
        far[watched] = False
        still = level[left, None] * np.sum(X[far], axis=0) - np.sum(X[far & (side <= 0)], axis=0)
        at = scores.at(new[left], watched) + jitter[watched]
        start = np.searchsorted(watched, basis[left])
        found, ends, places = _simplex(X[watched], at, level[left], pull[left] + still, start)
        basis[left] = watched[places]
        moved = np.max(np.linalg.norm(found[ends] - fit, axis=1), initial=0.0)
        reach = scores.norms * np.max(scores.length[new[left]], initial=0.0)
        look = np.flatnonzero(far & ~(np.abs(side) > reach + moved * np.linalg.norm(X, axis=1)))
        r = scores.at(new[left], look) + jitter[look] - found @ X[look].T
        good = ends & np.all((r > 0) == (side[look] > 0), axis=1)
        gamma[left[good]] = found[good]
        bounded[left[good]] = True
        left = left[~good]
        count *= 4
    return gamma, bounded, basis


def _simplex(
    X: np.ndarray, v: np.ndarray, level: np.ndarray, pull: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise ``sum of check losses of v - X g, less pull'g``, for right sides (B, n), levels, and pulls.
    A basis is q rows that are fitted exactly. While a multiplier of one is out of bounds it leaves, and the
    fit moves on until the slope along the way turns: the row that is reached there enters. Returns
    coefficients (B, q), which of them are minimisers (B,), and bases (B, q)."""
    count, (n, q) = len(v), X.shape
    basis = np.array(np.broadcast_to(start, (count, q)))
    inverse = np.linalg.inv(X[basis])
    fresh = np.ones(count, dtype=bool)  # inverses without the rounding errors of updates
    bounded = np.zeros(count, dtype=bool)
    live = np.arange(count)
    for _ in range(_STEPS * (q + n)):
        lines = np.arange(len(live))
        fitted = np.take_along_axis(v[live], basis[live], axis=1)
        r = v[live] - np.einsum("bij,bj->bi", inverse[live], fitted) @ X.T
        high = level[live, None]
        u = np.where(r > 0, high, high - 1.0)
        np.put_along_axis(u, basis[live], 0.0, axis=1)
        m = np.einsum("bji,bj->bi", inverse[live], -(u @ X) - pull[live])
        over = np.maximum(m - high, high - 1.0 - m)
        leaving = np.argmax(over, axis=1)
        excess = over[lines, leaving]
        column = inverse[live, :, leaving]
        rate = np.where(m[lines, leaving] > high[:, 0], 1.0, -1.0)[:, None] * (column @ X.T)
        enter, turns = _turning(r, rate, basis[live], excess)
        bounded[live] = excess <= _FEASIBLE
        going = ~bounded[live] & turns
        done = ~going & fresh[live]
        again = live[~going & ~done]
        inverse[again] = np.linalg.inv(X[basis[again]])
        fresh[again] = True
        on, gone, row = live[going], leaving[going], X[enter[going]]
        basis[on, gone] = enter[going]
        change = np.einsum("bi,bij->bj", row, inverse[on])
        pivot = change[np.arange(len(on)), gone]
        change[np.arange(len(on)), gone] -= 1.0
        inverse[on] -= column[going][:, :, None] * (change / pivot[:, None])[:, None, :]
        fresh[on] = False
        live = live[~done]
        if not len(live):
            break
    return np.einsum("bij,bj->bi", inverse, np.take_along_axis(v, basis, axis=1)), bounded, basis


def _turning(
    r: np.ndarray, rate: np.ndarray, basis: np.ndarray, excess: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The row at which the slope along each way turns (B,), and whether one does (B,). Each row that is
    passed adds its rate to the slope, which begins at minus ``excess``."""
    lines = np.arange(len(r))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = r / -rate
    step[~(step > 0)] = np.inf
    np.put_along_axis(step, basis, np.inf, axis=1)
    order = np.argsort(step, axis=1)
    heap = np.cumsum(np.abs(rate[lines[:, None], order]), axis=1)
    place = np.minimum(np.sum(heap < excess[:, None], axis=1), r.shape[1] - 1)
    enter = order[lines, place]
    return enter, np.isfinite(step[lines, enter])
