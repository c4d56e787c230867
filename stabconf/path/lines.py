"""Conformal sets where every score is the largest of a few lines.

A candidate is in the set if the training rows below it are fewer, or weigh less, than its rank. A row is
below it on open intervals whose ends are roots of lines: sorting the roots gives the set, whatever its
shape.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from ..rank import Rank

__all__ = ["TIES", "Piece", "cells", "decided_prefix", "merge", "ties_of", "uncovered", "union", "ways_of"]

Piece = tuple[float, float]  # a closed interval
Line = tuple[np.ndarray, np.ndarray]  # values at 0 and slopes, one per row
_PARALLEL = 1e-11  # lines whose slopes differ by less, relative to them, never part on a ray
TIES = 1e-10  # scores nearer than this are tied: rounding errors never exclude a candidate


def ties_of(X: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Differences of scores that are ties at coefficients (..., p), whose products with rows have rounding
    errors."""
    return TIES + 1e-11 * (np.abs(theta) @ np.max(np.abs(X), axis=0, initial=0.0))


def ways_of(X: np.ndarray, move: np.ndarray, length: float) -> np.ndarray:
    """``X @ move``; on a ray, where ``length`` is infinite, without rounding errors of rows that stay."""
    ways = X @ move
    if np.isinf(length):
        ways = np.where(np.abs(ways) <= _PARALLEL * (np.abs(X) @ np.abs(move)), 0.0, ways)
    return ways


def merge(pieces: Iterable[Piece], near: float = 0.0) -> list[Piece]:
    """The union of closed intervals in ascending order; those no further apart than ``near`` are joined."""
    out: list[Piece] = []
    for low, high in sorted(pieces):
        if out and low <= out[-1][1] + near:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def union(low: np.ndarray, high: np.ndarray) -> list[Piece]:
    """`merge` of intervals whose lower ends (c,) ascend."""
    if not len(low):
        return []
    high = np.maximum.accumulate(high)
    first = np.concatenate([[True], low[1:] > high[:-1]])
    last = np.append(first[1:], True)
    return list(zip(low[first].tolist(), high[last].tolist(), strict=True))


def uncovered(
    lines: Sequence[Line],
    own: Sequence[tuple[float, float]],
    length: float,
    rank: Rank,
    slack: np.ndarray | float,
) -> list[Piece]:
    """Parts of [0, length] where the rows with a smaller score than the new one lack the mass.

    A row's score is the largest of its ``lines``, the new row's that of its ``own``; ``length`` may be
    infinite, ``rank`` has one mass, and ``slack``, a number or (n,), is added to the new score.
    """
    out = []
    for ends, below in cells(lines, own, length, rank, slack):
        inside = below < rank.mass
        out += union(ends[:-1][inside], ends[1:][inside])
    return merge(out)


def cells(
    lines: Sequence[Line],
    own: Sequence[tuple[float, float]],
    length: float,
    rank: Rank,
    slack: np.ndarray | float,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """[0, length] in parts, as for `uncovered`: ends of cells (c + 1,), and in each how many rows have a
    smaller score than the new one, or what they weigh (c,). The mass of the rank does not matter."""
    cuts = {0.0, length}
    for (one, slope), (two, other) in combinations(own, 2):
        root = (two - one) / (slope - other) if slope != other else np.inf
        if 0 < root < length:
            cuts.add(root)
    for first, last in pairwise(sorted(cuts)):
        middle = 0.5 * (first + last) if np.isfinite(last) else first + 1.0
        value, change = max(own, key=lambda term: term[0] + middle * term[1])
        gaps = [(start - value + first * (rate - change) - slack, rate - change) for start, rate in lines]
        if np.isinf(last):
            gaps = [(start, _parting(slope, change)) for start, slope in gaps]
        ends, below = _below(gaps, last - first, rank)
        yield first + ends, below


def _parting(slope: np.ndarray, change: float) -> np.ndarray:
    """Slopes of gaps that are 0 but for rounding errors set to 0: a ray would make something of them."""
    return np.where(np.abs(slope) <= _PARALLEL * (np.abs(slope + change) + abs(change)), 0.0, slope)


def _below(lines: Sequence[Line], length: float, rank: Rank) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the cells of [0, length] (c + 1,), and how many rows have negative lines alone in each, or
    what they weigh (c,)."""
    first_below, last_below = _all_negative(lines)
    low, begun_mass = _heap(first_below, rank)
    high, over_mass = _heap(last_below, rank)
    inner = [end[(end > 0) & (end < length)] for end in (low, high)]
    ends = np.unique(np.concatenate([[0.0], *inner, [length]]))
    middles = 0.5 * (ends[:-1] + ends[1:])
    if np.isinf(length):
        middles[-1] = 2.0 * ends[-2] + 1.0
    begun = np.searchsorted(low, middles, side="left")
    over = np.searchsorted(high, middles, side="right")
    return ends, begun_mass[begun] - over_mass[over]


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


def _heap(ends: np.ndarray, rank: Rank) -> tuple[np.ndarray, np.ndarray]:
    """Ends in ascending order (c,), and the mass of the rows before each and of all (c + 1,)."""
    if rank.weights is None:
        return np.sort(ends), np.arange(len(ends) + 1)
    order = np.argsort(ends)
    return ends[order], np.concatenate([[0.0], np.cumsum(rank.weights[order])])


def decided_prefix(
    lines: Sequence[Line], own: Sequence[tuple[float, float]], error: np.ndarray, rank: Rank
) -> list[tuple[float, float, bool]]:
    """What is certain from t = 0 on about scores that are known up to errors, for t in [0, 1].

    ``error`` (n,) bounds the error of each training score plus that of the new one; the others are as in
    `uncovered`. Returns consecutive stretches ``(first, last, inside)`` from 0 up to the first point that
    is not decided.
    """
    surely = uncovered(lines, own, 1.0, rank, error)
    maybe = uncovered(lines, own, 1.0, rank, -error)
    starts = [0.0, *(high for _, high in maybe)]
    out_of_it = list(zip(starts, [*(low for low, _ in maybe), 1.0], strict=True))
    out = []
    at = 0.0
    while at < 1.0:
        for pieces, inside in ((surely, True), (out_of_it, False)):
            last = next((high for low, high in pieces if low <= at < high), None)
            if last is not None:
                out.append((at, last, inside))
                at = last
                break
        else:
            break
    return out
