"""The augmented fit along one new row's path, and the conformal set on it (theory, section 5).

The path is a polyline: at each corner stand the coefficients and the new row's own residual; between two
corners, and on the two rays beyond, both are linear. The tilt is what the path is followed by, so a row of
extreme leverage loses no digits: its residual is the tilt itself, not a small difference of large numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..rank import Rank, Scoring
from .clipped import ClippedFit
from .lines import PARALLEL, PathScores, Piece, ties_of, ways_of
from .tilted import Refit, Tilted, both_ways

Ray = tuple[np.ndarray, float]  # movement of the coefficients (p,) and of the new residual per unit


@dataclass(frozen=True)
class Polyline:
    """A path over the whole line of responses, in units of the fit."""

    x: np.ndarray  # (p,): the new design row
    theta: np.ndarray  # (K, p): coefficients at the corners
    e: np.ndarray  # (K,): residuals of the new row there
    rays: tuple[Ray, Ray]  # beyond the first and the last corner
    unknown: np.ndarray  # (K - 1,) bools: stretches of which only the ends are known
    open: tuple[bool, bool] = (False, False)  # whether nothing is known beyond the first and last corner

    @cached_property
    def w(self) -> np.ndarray:
        """Responses at the corners (K,), ascending."""
        return np.maximum.accumulate(self.theta @ self.x + self.e)

    @cached_property
    def speeds(self) -> tuple[float, ...]:
        """Change of the response per unit of each ray; 0 where a ray does not lead anywhere."""
        return tuple(float(move @ self.x) + change for move, change in self.rays)

    def at(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (g, p) and new residuals (g,) at responses ``w``."""
        corners = self.w
        place = np.clip(np.searchsorted(corners, w), 1, max(len(corners) - 1, 1))
        last = np.minimum(place, len(corners) - 1)
        one = corners[place - 1]
        two = corners[last]
        # From the nearer corner: the other may be so far that its digits end above those of this place.
        near = np.where(w - one < two - w, place - 1, last)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(two > one, (np.clip(w, one, two) - corners[near]) / (two - one), 0.0)
        theta = self.theta[near] + share[:, None] * (self.theta[last] - self.theta[place - 1])
        e = self.e[near] + share * (self.e[last] - self.e[place - 1])
        for beyond, length, (move, change) in self._beyond(w):
            theta[beyond] += length[:, None] * move
            e[beyond] += length * change
        return theta, e

    def _beyond(self, w: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, Ray]]:
        """Places of the responses beyond each end, how far out on its ray they are, and the ray."""
        for ray, speed, end, way in zip(self.rays, self.speeds, self.w[[0, -1]], (-1, 1), strict=True):
            beyond = np.flatnonzero(way * (w - end) > 0) if speed else np.arange(0)
            yield beyond, np.abs(w[beyond] - end) / abs(speed or 1.0), ray

    def residuals(self, X: np.ndarray, v: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
        """Residuals at responses ``w`` of the training rows (g, n) and of the new one (g,), and differences
        of scores that are ties (g,); far out on lines from the last corner, as in `pieces`."""
        theta, _ = self.at(np.clip(w, self.w[0], self.w[-1]))
        r, e, tie = v - theta @ X.T, self.at(w)[1], ties_of(X, theta)
        for beyond, length, (move, change) in self._beyond(w):
            r[beyond] -= length[:, None] * ways_of(X, move)
            tie[beyond] += PARALLEL * length * abs(change)
        return r, e, tie

    def knows(self, w: np.ndarray) -> np.ndarray:
        """Whether the fits at responses ``w`` (g,) are known."""
        corners = self.w
        inside = (w > corners[0]) & (w < corners[-1])
        known = ~((w < corners[0]) & self.open[0]) & ~((w > corners[-1]) & self.open[1])
        if not self.unknown.any():
            return known
        place = np.clip(np.searchsorted(corners, w) - 1, 0, len(self.unknown) - 1)
        return known & ~(inside & self.unknown[place])

    @property
    def straight(self) -> bool:
        """Whether all of it is known, and the coefficients stay as they are beyond both ends."""
        return not (self.extent > 0 or any(move.any() for move, _ in self.rays))

    @property
    def extent(self) -> float:
        """Length of the longest part that nothing is known of."""
        return np.inf if any(self.open) else float(np.max(np.diff(self.w)[self.unknown], initial=0.0))

    def pieces(
        self,
        X: np.ndarray,
        v: np.ndarray,
        ranks: Sequence[Rank],
        score: Scoring,
        own: float = 1.0,
        slack: np.ndarray | None = None,
    ) -> list[list[Piece]]:
        """Intervals of responses that make up the sets of several ranks.

        ``X`` (n, p) and ``v`` (n,) are the training rows, ``ranks`` have one mass each, all among the same
        rows, and ``own`` is the scale of the new row. ``slack`` (n,) is added to the new score where it is
        compared with a row's, instead of a tolerance for ties.
        """
        rows = slice(None) if ranks[0].which is None else ranks[0].which
        X = X[rows]
        v = v[rows]
        r = v - self.theta @ X.T
        old = np.array([start for start, _ in score.lines(r, r, rows)])
        signs = np.array([start for start, _ in score.own_lines(1.0, 1.0, own)])
        new = signs[:, None] * self.e
        if slack is None:
            new = new - ties_of(X, self.theta)
        else:
            old = old - slack[rows]
        rays = []
        for (move, change), speed in zip(self.rays, self.speeds, strict=True):
            rate = -ways_of(X, move)
            rates = np.array([slope for _, slope in score.lines(rate, rate, rows)])
            rays.append((rates, signs * change, speed))
        made = PathScores(self.w, old, new, (rays[0], rays[1]), self.unknown, self.open)
        return made.pieces([rank.alone() for rank in ranks])


def polylines(
    fit: ClippedFit, rows: np.ndarray, slopes: tuple[float, float], refit: Refit
) -> list[Polyline | None]:
    """The `Polyline`s of new rows (m, p); None for a path that could not be followed at all.

    ``slopes`` are ``(down, up)`` of the loss; ``refit`` is asked where a path cannot be trusted.
    """
    soft = bool(fit.soft[0])
    ways = list(both_ways(fit, rows, slopes, refit, corners=True).values())
    return [_joined(fit, x, i, ways, slopes, soft) for i, x in enumerate(rows)]


def _joined(
    fit: ClippedFit, x: np.ndarray, i: int, ways: list[Tilted], slopes: tuple[float, float], soft: bool
) -> Polyline | None:
    """The path of one row from its two sides; None where one that has no end could not be followed."""
    if any(found.corners[i] is None and np.isinf(slope) for found, slope in zip(ways, slopes, strict=True)):
        return None
    theta, e, rays, unknown, lost = [], [], [], [], []
    for direction, found, slope in zip((-1, 1), ways, slopes, strict=True):
        corners = found.corners[i]
        if corners is None:
            size = np.array([0.0, slope])
            bends = np.array([fit.theta, fit.theta + found.move[i]])
        else:
            size, bends = corners
        theta.append(bends[::direction] if direction < 0 else bends[1:])
        residual = direction * size if soft else np.zeros(len(size))
        e.append(residual[::direction] if direction < 0 else residual[1:])
        unknown.append(np.full(len(size) - 1, corners is None))
        rays.append(_ray(found, i, x, direction, slope))
        lost.append(bool(found.endless[i]) and corners is None)
    return Polyline(
        x=x,
        theta=np.concatenate(theta),
        e=np.concatenate(e),
        rays=(rays[0], rays[1]),
        unknown=np.concatenate(unknown),
        open=(lost[0], lost[1]),
    )


def _ray(found: Tilted, i: int, x: np.ndarray, direction: int, slope: float) -> Ray:
    """Movement of coefficients and new residual beyond the last corner on one side."""
    move = found.direction[i]
    if found.endless[i]:  # the fit follows the response; its size is that of the response
        speed = abs(move @ x)
        return (move / speed, 0.0) if speed > 0 else (np.zeros(len(x)), 0.0)
    if np.isinf(slope):
        return move, float(direction)
    return np.zeros(len(x)), float(direction)
