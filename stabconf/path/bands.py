"""Conformal sets of two quantile fits at once (theory, section 7).

The score of a response is how far it lies outside the band between a lower and an upper fit: the larger
of ``q_lo - y`` and ``y - q_hi``. As the new response w moves, both fits move on paths with corners; between
two corners of either every residual is a line in w, so all scores are the larger of two lines.
"""

from dataclasses import dataclass

import numpy as np

from ..rank import Rank
from .lines import PathScores, Piece, ties_of, ways_of
from .polyline import Polyline, Ray


@dataclass(frozen=True)
class BandRows:
    """Training rows that can decide, and their scores' terms: -1 for ``q_lo - y``, 1 for ``y - q_hi``."""

    X: np.ndarray  # (c, p)
    v: dict[int, np.ndarray]  # responses (c,) in units of the lower fit under -1, of the upper one under 1
    rank: Rank  # among these rows
    terms: tuple[int, ...]

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
        """The order statistic at coefficients (m, p) under the signs of terms, ties allowed for."""
        scores = [sign * (self.v[sign] - theta[sign] @ self.X.T) for sign in self.terms]
        tie = np.max([ties_of(self.X, theta[sign]) for sign in self.terms], axis=0)
        return self.rank.kth(np.max(scores, axis=0)) + tie


@dataclass(frozen=True)
class BandEnds:
    """Both fits where their paths end on one side, for many new rows."""

    way: int  # -1 for responses below both paths, 1 for those above
    theta: dict[int, np.ndarray]  # coefficients (m, p) under the sign of each term of the score
    w: dict[int, np.ndarray]  # responses (m,) at which each path ends, in units of the upper fit
    edge: np.ndarray  # (m,): the farther of these

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
        """The new score at the edge, or 0 (m,): between both edges it is no larger than at one of them."""
        return self.way * (self.edge - self.w.get(self.way, self.edge))

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

    What belongs to the lower fit is under -1, to the upper one under 1.
    """

    w: np.ndarray  # (K,): responses at the corners of either path, ascending, in units of the upper fit
    theta: dict[int, np.ndarray]  # coefficients (K, p)
    e: dict[int, np.ndarray]  # new residuals (K,)
    rays: dict[int, list[Ray]]  # movements per unit of response, below the first and above the last corner
    unknown: np.ndarray  # (K - 1,) bools: stretches that nothing is known of
    open: tuple[bool, bool]  # whether nothing is known beyond the first and the last corner

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
        signs = np.array(rows.terms)
        theta = np.array([self.theta[sign] for sign in rows.terms])
        v = np.array([rows.v[sign] for sign in rows.terms])
        old = signs[:, None, None] * (v[:, None] - theta @ rows.X.T)
        new = signs[:, None] * np.array([self.e[sign] for sign in rows.terms])
        tie = np.max(ties_of(rows.X, theta), axis=0)
        rays = []
        for which, way in ((0, -1.0), (1, 1.0)):
            rates = [-sign * ways_of(rows.X, self.rays[sign][which][0]) for sign in rows.terms]
            own = [sign * self.rays[sign][which][1] for sign in rows.terms]
            rays.append((np.array(rates), np.array(own), way))
        made = PathScores(self.w, old, new - tie, (rays[0], rays[1]), self.unknown, self.open)
        return made.pieces([rows.rank], near=1e-12)[0]
