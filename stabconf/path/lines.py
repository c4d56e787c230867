"""Conformal sets where every score is the largest of a few lines, along one path (theory, section 5).

A candidate is in the set if the training rows below it are fewer, or weigh less, than its rank. Most
stretches of a path are decided by the scores at their ends. On the others a row is below the candidate on
open intervals whose ends are roots of lines: sorting the roots gives the set, whatever its shape.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..rank import Rank

Piece = tuple[float, float]  # a closed interval
Line = tuple[np.ndarray, np.ndarray]  # values at 0 and slopes, one per row
PARALLEL = 1e-11  # lines whose slopes differ by less, relative to them, never part on a ray
_TIES = 1e-10  # scores nearer than this are tied: rounding errors never exclude a candidate
_ROUNDING, _GATHERED = 1e-13, 1e-11  # shares of a prediction
_ENTRIES = 500_000  # of arrays with one row per stretch


def ties_of(X: np.ndarray, theta: np.ndarray, refitted: bool = False) -> np.ndarray:
    """Differences of scores that are ties at coefficients (..., p), for rounding errors of predictions:
    what paths gather, or less where the coefficients are those of fits made anew."""
    share = _ROUNDING if refitted else _GATHERED
    return _TIES + share * (np.abs(theta) @ np.max(np.abs(X), axis=0, initial=0.0))


def ways_of(X: np.ndarray, move: np.ndarray) -> np.ndarray:
    """``X @ move`` on a ray, without rounding errors of rows that stay."""
    if not move.any():
        return np.zeros(len(X))
    ways = X @ move
    return np.where(np.abs(ways) <= PARALLEL * (np.abs(X) @ np.abs(move)), 0.0, ways)


def merge(pieces: Iterable[Piece], near: float = 0.0) -> list[Piece]:
    """The union of closed intervals in ascending order; those no further apart than ``near`` are joined."""
    low, high = np.array(sorted(pieces)).reshape(-1, 2).T
    return _union(low, high, near)


def _union(low: np.ndarray, high: np.ndarray, near: float = 0.0) -> list[Piece]:
    """`merge` of intervals whose lower ends (c,) ascend."""
    if not len(low):
        return []
    high = np.maximum.accumulate(high)
    first = np.concatenate([[True], low[1:] > high[:-1] + near])
    last = np.append(first[1:], True)
    return list(zip(low[first].tolist(), high[last].tolist(), strict=True))


@dataclass(frozen=True)
class PathScores:
    """Scores along a path, of training rows and of the new one, each the largest of a few terms."""

    w: np.ndarray  # (K,): responses at the corners, ascending; in between the terms are straight
    old: np.ndarray  # (L, K, n): terms of the training rows at the corners
    new: np.ndarray  # (M, K): of the new row, less what is allowed for ties
    # Changes of the terms (L, n) and (M,), and of the response, per unit beyond the first and the last
    # corner; with 0 for the response a ray leads nowhere.
    rays: tuple[tuple[np.ndarray, np.ndarray, float], ...]
    unknown: np.ndarray  # (K - 1,) bools: stretches that nothing is known of are in every set
    open: tuple[bool, bool]  # whether nothing is known beyond the first and the last corner

    def pieces(self, ranks: Sequence[Rank], near: float = 0.0) -> list[list[Piece]]:
        """Intervals of responses that make up the sets of several ranks, of one mass each, as `merge`d."""
        rank = max(ranks, key=lambda each: each.mass)
        w = self.w
        below = np.max(self.old, axis=0) < np.max(self.new, axis=0)[:, None]
        mass = np.count_nonzero(below, axis=1) if rank.weights is None else below @ rank.weights
        found = [(w, w, mass)]  # corners may be in the set where no stretch around them is
        inside, unsure = self._decided(rank, min(ranks, key=lambda each: each.mass))
        found.append((w[:-1][inside], w[1:][inside], np.full(np.count_nonzero(inside), -1)))
        blocks = -(-len(unsure) * self.old.shape[2] // _ENTRIES)
        for part in np.array_split(unsure, blocks) if blocks else ():
            lines = [(term[part], term[part + 1] - term[part]) for term in self.old]
            own = [(term[part], term[part + 1] - term[part]) for term in self.new]
            which, low, high, count = cells(lines, own, np.ones(len(part)), rank)
            first, last = w[part][which], w[part + 1][which]
            ends = np.where(high == 1.0, last, first + (last - first) * high)
            found.append((first + (last - first) * low, ends, count))
        for corner, way, ray, unknown in zip((0, -1), (-np.inf, np.inf), self.rays, self.open, strict=True):
            if unknown:
                found.append((w[[corner]], np.array([way]), np.array([-1])))
            elif ray[2] and rank.weights is None and not ray[0].any():
                still = np.max(self.old[:, corner], axis=0)
                low, high, count = _up_to(still, self.new[:, corner], ray[1], ranks)
                found.append((w[corner] + ray[2] * low, w[corner] + ray[2] * high, count))
            elif ray[2]:
                lines = list(zip(self.old[:, corner, None], ray[0][:, None], strict=True))
                own = list(zip(self.new[:, corner, None], ray[1][:, None], strict=True))
                _, low, high, count = cells(lines, own, np.array([np.inf]), rank)
                found.append((w[corner] + ray[2] * low, w[corner] + ray[2] * high, count))
        low, high, count = (np.concatenate(parts) for parts in zip(*found, strict=True))
        low, high = np.minimum(low, high), np.maximum(low, high)
        order = np.argsort(low, kind="stable")
        low, high, count = low[order], high[order], count[order]
        return [_union(low[count < each.mass], high[count < each.mass], near) for each in ranks]

    def _decided(self, most: Rank, least: Rank) -> tuple[np.ndarray, np.ndarray]:
        """Stretches that are in the sets of all ranks (bools), and those that their ends do not decide: the
        larger of lines is largest at an end, and no smaller than the larger of their least values."""
        low, first = (np.minimum(each[:, :-1], each[:, 1:]).max(axis=0) for each in (self.old, self.new))
        high, last = (np.maximum(each[:, :-1], each[:, 1:]).max(axis=0) for each in (self.old, self.new))
        inside = (last <= least.kth(low)) | self.unknown
        return inside, np.flatnonzero(~inside & (first <= most.kth(high)) & (np.diff(self.w) > 0))


def _up_to(
    old: np.ndarray, new: np.ndarray, rates: np.ndarray, ranks: Sequence[Rank]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `cells`, without the stretch, on a ray on which scores (n,) stay and the new one is the largest of
    lines (M,); for each of the ranks, which are no weights."""
    mass = np.sort([each.mass for each in ranks])
    level = np.append(np.sort(old), np.inf)[np.minimum(mass.astype(int) - 1, len(old)), None]
    with np.errstate(divide="ignore", invalid="ignore"):
        at = (level - new) / rates
    low = np.max(np.where(rates < 0, at, 0.0), axis=1).clip(0.0)
    high = np.min(np.where(rates > 0, at, np.where((rates < 0) | (new <= level), np.inf, -np.inf)), axis=1)
    some = low <= high
    return low[some], high[some], np.append(-1.0, mass[:-1])[some]


def uncovered(
    lines: Sequence[Line],
    own: Sequence[tuple[float, float]],
    length: float,
    rank: Rank,
    slack: np.ndarray | float,
) -> list[Piece]:
    """As `cells`, for one stretch, which may be infinite, and a rank of one mass; ``slack``, a number or
    (n,), is added to the new score."""
    rows = [((start - slack)[None], rate[None]) for start, rate in lines]
    new = [(np.array([value]), np.array([change])) for value, change in own]
    return _union(*cells(rows, new, np.array([length]), rank)[1:3])


def cells(
    lines: Sequence[Line], own: Sequence[Line], length: np.ndarray, rank: Rank
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Parts of S stretches [0, length] (S,) where the rows with a smaller score than the new one lack the
    mass: the stretch, both ends, and how many such rows there are, or what they weigh (C,).

    A row's score is the largest of its ``lines``, (S, n) arrays, the new one's that of its ``own``, (S,)
    arrays; a length may be infinite.
    """
    which, first, last = _where_one_is_largest(own, length)
    endless = np.isinf(last)
    middle = np.where(endless, first + 1.0, 0.5 * (first + np.where(endless, 0.0, last)))
    values, changes = (np.array(each)[:, which] for each in zip(*own, strict=True))
    largest = np.argmax(values + middle * changes, axis=0), np.arange(len(which))
    value, change = values[largest][:, None], changes[largest][:, None]
    gaps = []
    for start, rate in lines:
        slope = rate[which] - change
        gap = start[which] - value + first[:, None] * slope
        # A ray would make something of slopes that are 0 but for rounding errors.
        parallel = np.abs(slope) <= PARALLEL * (np.abs(rate[which]) + np.abs(change))
        gaps.append((gap, np.where(endless[:, None] & parallel, 0.0, slope)))
    span = (last - first)[:, None]
    begins, ends = (np.clip(end, 0.0, span) for end in _all_negative(gaps))
    marks = np.concatenate([np.zeros(span.shape), begins, ends, span], axis=1)
    order = np.argsort(marks, axis=1)
    marks = np.take_along_axis(marks, order, axis=1)
    weights = np.ones(begins.shape[1], dtype=int) if rank.weights is None else rank.weights
    count = np.cumsum(np.concatenate([[0], weights, -weights, [0]])[order], axis=1)[:, :-1]
    part, j = np.nonzero((marks[:, 1:] > marks[:, :-1]) & (count < rank.mass))
    return which[part], first[part] + marks[part, j], first[part] + marks[part, j + 1], count[part, j]


def _where_one_is_largest(
    own: Sequence[Line], length: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stretches [0, length] (S,) cut where lines, (S,) arrays, meet: the stretch, and both ends (C,)."""
    cuts = [np.zeros(len(length)), length]
    for (one, slope), (two, other) in combinations(own, 2):
        with np.errstate(divide="ignore", invalid="ignore"):
            root = (two - one) / (slope - other)
        cuts.append(np.where((root > 0) & (root < length), root, length))
    edges = np.sort(cuts, axis=0)
    j, which = np.nonzero(edges[1:] > edges[:-1])
    order = np.argsort(which, kind="stable")
    j, which = j[order], which[order]
    return which, edges[j, which], edges[j + 1, which]


def _all_negative(lines: Sequence[Line]) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the open intervals, one per row, where all of its lines are negative; inf if empty."""
    low = np.array(-np.inf)
    high = np.array(np.inf)
    for start, slope in lines:
        with np.errstate(divide="ignore", invalid="ignore"):
            root = -start / slope
        never = (slope == 0) & (start >= 0)
        low = np.maximum(low, np.where(slope < 0, root, np.where(never, np.inf, -np.inf)))
        high = np.minimum(high, np.where(slope > 0, root, np.inf))
    some = low < high
    return np.where(some, low, np.inf), np.where(some, high, np.inf)


def decided_prefix(
    lines: Sequence[Line], own: Sequence[tuple[float, float]], error: np.ndarray, rank: Rank
) -> tuple[float, bool] | None:
    """Up to where in [0, 1] it is certain whether the rows with a smaller score lack the mass, and whether
    they do; None where that is not certain at 0.

    ``error`` (n,) bounds the error of each training score plus that of the new one; see `uncovered`.
    """
    for low, high in uncovered(lines, own, 1.0, rank, error):
        if low <= 0.0 < high:
            return high, True
    maybe = uncovered(lines, own, 1.0, rank, -error)
    first = maybe[0][0] if maybe else 1.0
    return (first, False) if first > 0.0 else None
