"""Conformal sets of two quantile fits at once (theory, section 7).

The score of a response is how far it lies outside the band between a lower and an upper fit: the larger
of ``q_lo - y`` and ``y - q_hi``. As the new response w moves, both fits move on paths with corners; between
two corners of either every residual is a line in w, so all scores are the larger of two lines. Most
stretches are decided by the scores at their ends; the others by sorting the roots of lines.
"""

from dataclasses import dataclass

import numpy as np

from ..rank import Rank
from .lines import Piece, merge, ties_of, uncovered, ways_of
from .polyline import Polyline, Ray

__all__ = ["BandEnds", "BandPath", "BandRows", "ends_within"]


@dataclass(frozen=True)
class BandRows:
    """Training rows that can decide, and the terms of their scores.

    Attributes
    ----------
    X : (c, p) array
    v : dict
        Responses (c,) in the units of the lower fit under -1, of the upper one under 1.
    rank : Rank
        Of the order statistic, among these rows.
    terms : tuple of int
        Terms of the score: -1 for ``q_lo - y``, 1 for ``y - q_hi``.
    """

    X: np.ndarray
    v: dict[int, np.ndarray]
    rank: Rank
    terms: tuple[int, ...]

    def scores(self, band: "BandPath") -> tuple[np.ndarray, np.ndarray]:
        """The terms at the corners of a `BandPath`: training (L, K, c), new (L, K)."""
        old = [sign * (self.v[sign] - band.theta[sign] @ self.X.T) for sign in self.terms]
        new = [sign * band.e[sign] for sign in self.terms]
        return np.array(old), np.array(new)

    def range(self, paths: dict[int, list[Polyline]], new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds on the order statistic between the ends of the paths of some new rows."""
        low, high = [], []
        for sign in self.terms:
            theta = [paths[sign][i].theta for i in new.tolist()]
            first = np.cumsum([0, *(len(each) for each in theta)])[:-1]
            scores = sign * (self.v[sign] - np.concatenate(theta) @ self.X.T)
            low.append(np.minimum.reduceat(scores, first))
            high.append(np.maximum.reduceat(scores, first))
        rank = self.rank.take(new)
        return rank.kth(np.max(low, axis=0)), rank.kth(np.max(high, axis=0))

    def level(self, theta: dict[int, np.ndarray]) -> np.ndarray:
        """The order statistic where the fits have coefficients (m, p) under the signs of terms, ties
        allowed for."""
        scores = [sign * (self.v[sign] - theta[sign] @ self.X.T) for sign in self.terms]
        tie = np.max([ties_of(self.X, theta[sign]) for sign in self.terms], axis=0)
        return self.rank.kth(np.max(scores, axis=0)) + tie


@dataclass(frozen=True)
class BandEnds:
    """Both fits where their paths end on one side, for many new rows.

    Attributes
    ----------
    way : int
        -1 for responses below both paths, 1 for those above.
    theta : dict
        Coefficients (m, p) under the sign of each term of the score.
    w : dict
        Responses (m,) at which each path ends, in units of the upper fit.
    edge : (m,) array
        The farther of these.
    """

    way: int
    theta: dict[int, np.ndarray]
    w: dict[int, np.ndarray]
    edge: np.ndarray

    @classmethod
    def of(cls, paths: dict[int, list[Polyline]], way: int, shift: float) -> "BandEnds":
        """From the `Polyline`s of each term's fit; the lower one's responses are larger by ``shift``."""
        at = 0 if way < 0 else -1
        theta = {sign: np.array([path.theta[at] for path in each]) for sign, each in paths.items()}
        off = {-1: shift, 1: 0.0}
        w = {sign: np.array([path.w[at] for path in each]) - off[sign] for sign, each in paths.items()}
        return cls(way, theta, w, way * np.max([way * each for each in w.values()], axis=0))

    @property
    def peak(self) -> np.ndarray:
        """The new score at the edge, or 0 (m,): between the edges of both sides it is no larger than the
        larger of theirs."""
        own = self.w.get(self.way, self.edge)
        return self.way * (self.edge - own)

    def ends(self, rows: BandRows) -> np.ndarray:
        """Ends of sets that hold the edge (m,)."""
        return self.edge + self.way * (rows.level(self.theta) - self.peak)


def ends_within(ways: dict[int, BandEnds], rows: BandRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of sets that lie between the paths of both fits (m,), and whether there is such a place (m,)."""
    theta = {sign: ways[-sign].theta[sign] for sign in rows.terms}
    inner = {sign: ways[-sign].w[sign] for sign in rows.terms}
    level = rows.level(theta)
    none = np.full(len(level), np.inf)
    low = inner.get(-1, -none)
    high = inner.get(1, none)
    return low - level, high + level, low <= high


@dataclass(frozen=True)
class BandPath:
    """Both fits of the augmented sample as functions of the new response.

    Attributes
    ----------
    w : (K,) array
        Responses at the corners of either path, ascending, in units of the upper fit.
    theta, e : dict
        Coefficients (K, p) and new residuals (K,) of the lower fit under -1 and of the upper one under 1.
    rays : dict
        Movements ``(theta, e)`` per unit of response, below the first and above the last corner.
    unknown : (K - 1,) array of bool
        Stretches that nothing is known of.
    open : pair of bool
        Whether nothing is known beyond the first and the last corner.
    """

    w: np.ndarray
    theta: dict[int, np.ndarray]
    e: dict[int, np.ndarray]
    rays: dict[int, list[Ray]]
    unknown: np.ndarray
    open: tuple[bool, bool]

    @classmethod
    def of(cls, paths: dict[int, Polyline], shift: float) -> "BandPath":
        """From the `Polyline` of each term's fit; the lower one's responses are larger by ``shift``."""
        shifts = {-1: shift, 1: 0.0}
        w = np.unique(np.concatenate([path.w - shifts[sign] for sign, path in paths.items()]))
        unknown = np.zeros(max(len(w) - 1, 0), dtype=bool)
        theta, e, rays = {}, {}, {}
        middles = 0.5 * (w[:-1] + w[1:])
        for sign, path in paths.items():
            theta[sign], e[sign] = path.at(w + shifts[sign])
            unknown |= ~path.knows(middles + shifts[sign])
            rays[sign] = [
                (move / abs(speed), change / abs(speed)) if speed else (move, change)
                for (move, change), speed in zip(path.rays, path.speeds, strict=True)
            ]
        lost = [any(path.open[which] for path in paths.values()) for which in (0, 1)]
        return cls(w, theta, e, rays, unknown, (lost[0], lost[1]))

    @property
    def extent(self) -> float:
        """Length of the longest part that nothing is known of."""
        return np.inf if any(self.open) else float(np.max(np.diff(self.w)[self.unknown], initial=0.0))

    def pieces(self, rows: BandRows) -> list[Piece]:
        """Intervals of w that make up the set."""
        old, new = rows.scores(self)
        tie = np.max([ties_of(rows.X, self.theta[sign]) for sign in rows.terms], axis=0)
        low, high, least, most = _spans(old, new)
        inside = (most <= rows.rank.kth(low)) | self.unknown
        unsure = ~inside & (least - np.maximum(tie[:-1], tie[1:]) <= rows.rank.kth(high))
        out = [(self.w[j], self.w[j + 1]) for j in np.flatnonzero(inside)]
        for j in np.flatnonzero(unsure):
            first = self.w[j]
            width = self.w[j + 1] - first
            lines = [(term[j], term[j + 1] - term[j]) for term in old]
            growth = tie[j + 1] - tie[j]
            own = [(term[j], term[j + 1] - term[j] - growth) for term in new]
            for a, b in uncovered(lines, own, 1.0, rows.rank, -tie[j]):
                out.append((first + width * a, self.w[j + 1] if b == 1.0 else first + width * b))
        for corner, way, which in ((0, -1.0, 0), (-1, 1.0, 1)):
            if self.open[which]:
                out.append(_ordered(self.w[corner], way * np.inf))
                continue
            rays = [(sign, *self.rays[sign][which]) for sign in rows.terms]
            own = [(new[j, corner], sign * change) for j, (sign, _, change) in enumerate(rays)]
            if not any(move.any() for _, move, _ in rays):
                level = float(rows.rank.kth(old[:, corner].max(axis=0)))
                found = _at_most(own, level + tie[corner])
            else:
                lines = [
                    (old[j, corner], -sign * ways_of(rows.X, move, np.inf))
                    for j, (sign, move, _) in enumerate(rays)
                ]
                found = uncovered(lines, own, np.inf, rows.rank, -tie[corner])
            for a, b in found:
                out.append(_ordered(self.w[corner] + way * a, self.w[corner] + way * b))
        here = ~rows.rank.passed(old.max(axis=0) < (new.max(axis=0) - tie)[:, None])
        return merge([*out, *((w, w) for w in self.w[here])], near=1e-12)


def _at_most(own: list[tuple[float, float]], level: float) -> list[Piece]:
    """Where on [0, inf) lines, given by their values at 0 and slopes, are all at most ``level``."""
    first, last = 0.0, np.inf
    for value, slope in own:
        room = level - value
        if slope > 0:
            last = min(last, room / slope)
        elif slope < 0:
            first = max(first, room / slope)
        elif room < 0:
            return []
    return [(first, last)] if first <= last else []


def _ordered(one: float, other: float) -> Piece:
    """The interval between two ends."""
    return min(one, other), max(one, other)


def _spans(old: np.ndarray, new: np.ndarray) -> list[np.ndarray]:
    """Smallest and largest training scores on each stretch (K - 1, c), and the new one's (K - 1,).

    The larger of lines is largest at an end; it is no smaller than the larger of their smallest values.
    """
    spans = []
    for terms in (old, new):
        low = np.minimum(terms[:, :-1], terms[:, 1:]).max(axis=0)
        high = np.maximum(terms[:, :-1], terms[:, 1:]).max(axis=0)
        spans += [low, high]
    return spans
