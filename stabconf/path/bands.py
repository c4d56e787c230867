"""Conformal sets of two quantile fits at once (theory, section 7).

The score of a response is how far it lies outside the band between a lower and an upper fit: the larger
of ``q_lo - y`` and ``y - q_hi``. As the new response w moves, both fits move on paths with corners; between
two corners of either every residual is a line in w, so all scores are the larger of two lines. Most
stretches are decided by the scores at their ends; the others by sorting the roots of lines.
"""

from dataclasses import dataclass

import numpy as np

from ..rank import Rank
from .clipped import ClippedFit
from .lines import Piece, merge, ties_of, uncovered, ways_of
from .polyline import Polyline, Ray

__all__ = ["BandPath", "BandRows"]


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
    def of(cls, lower: Polyline, upper: Polyline, shift: float) -> "BandPath":
        """From the `Polyline`s of the two fits; the lower one's responses are larger by ``shift``."""
        paths = {-1: lower, 1: upper}
        shifts = {-1: shift, 1: 0.0}
        w = np.union1d(lower.w - shift, upper.w)
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
        lost = (lower.open[0] or upper.open[0], lower.open[1] or upper.open[1])
        return cls(w, theta, e, rays, unknown, lost)

    @property
    def extent(self) -> float:
        """Length of the longest part that nothing is known of."""
        return np.inf if any(self.open) else float(np.max(np.diff(self.w)[self.unknown], initial=0.0))

    def length(self, fits: dict[int, ClippedFit]) -> float:
        """Longest move from the base fits (a dict of `ClippedFit`) between the corners, in their metric."""
        return max(float(np.max(fit.length(self.theta[sign] - fit.theta))) for sign, fit in fits.items())

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
            lines = [
                (old[j, corner], -sign * ways_of(rows.X, move, np.inf))
                for j, (sign, move, _) in enumerate(rays)
            ]
            own = [(new[j, corner], sign * change) for j, (sign, _, change) in enumerate(rays)]
            for a, b in uncovered(lines, own, np.inf, rows.rank, -tie[corner]):
                out.append(_ordered(self.w[corner] + way * a, self.w[corner] + way * b))
        here = ~rows.rank.passed(old.max(axis=0) < (new.max(axis=0) - tie)[:, None])
        return merge([*out, *((w, w) for w in self.w[here])], near=1e-12)


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
