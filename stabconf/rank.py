"""Conformity scores and the conformal order statistic (theory, section 1).

p(z) = (1 + #{i : E_i >= E_N}) / N and the set is {z : p(z) > alpha}, which is E_N <= the k-th smallest
of E_1..E_n with k = ceil((1 - alpha) N). Within groups, or with weights for a shift of the covariates
(section 7), only some rows count, or each with its weight: `Peers` says which, and a `Rank` is the order
statistic that follows. Stability adds ``r * a_i`` to each score, with one number r per new row:
`kth_of_lines` finds the k-th smallest of such sums for many r at once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

Index = int | slice | np.ndarray
Some = slice | np.ndarray  # of the training rows
EVERY = slice(None)
_DIRECT = 16384  # sums to sort directly rather than to narrow down first


class Scoring(Protocol):
    """What stability bounds and paths ask of a score; `sets.score.Score` says what each of these is."""

    @property
    def sign(self) -> int: ...
    def values(self, r: np.ndarray, rows: Some = EVERY) -> np.ndarray: ...
    def norms(self, norms: np.ndarray, rows: Some = EVERY) -> np.ndarray: ...
    def range(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def lines(
        self, r: np.ndarray, rate: np.ndarray, rows: Some = EVERY
    ) -> list[tuple[np.ndarray, np.ndarray]]: ...
    def own_lines(self, e: float, rate: float, own: float = 1.0) -> list[tuple[float, float]]: ...


def ceil_rank(share: float, count: int) -> int:
    """``ceil(share * count)``, guarded against floating point: (1 - 0.7) * 10 counts as 3."""
    product = share * count
    return math.ceil(product - 1e-12 * max(1.0, product))


def conformal_rank(alpha: float, n: int) -> int:
    """k = ceil((1 - alpha)(n + 1)); larger than n where the set is the whole line.

    Examples
    --------
    >>> conformal_rank(0.1, 99), conformal_rank(0.05, 10)
    (90, 11)
    """
    return ceil_rank(1.0 - alpha, n + 1)


@dataclass(frozen=True)
class Rank:
    """An order statistic of the training scores: the smallest one up to which rows of a mass lie."""

    mass: int | float | np.ndarray  # k where every row counts once; else a weight, or one per new row (m,)
    which: np.ndarray | None = None  # the rows that count (c,); None for all
    weights: np.ndarray | None = None  # theirs (c,), positive; None where each counts once

    def of(self, values: np.ndarray) -> np.ndarray:
        """The values (..., n) of the rows that count (..., c)."""
        values = np.asarray(values)
        return values if self.which is None else values[..., self.which]

    def kth(self, values: np.ndarray) -> np.ndarray:
        """The order statistic of values (..., n), or (m, n) or (n,) for a mass of each new row; ``inf``
        where the rows have less than the mass."""
        values = self.of(values)
        if self.weights is None:
            return kth_smallest(values, int(self.mass))
        order = np.argsort(values, axis=-1)
        reached = np.cumsum(self.weights[order], axis=-1)
        if values.ndim == 1:
            return np.append(values[order], np.inf)[np.searchsorted(reached, self.mass)]
        place = np.sum(reached < np.asarray(self.mass)[..., None], axis=-1)
        padded = np.concatenate(
            [np.take_along_axis(values, order, axis=-1), np.full((*values.shape[:-1], 1), np.inf)], axis=-1
        )
        return np.take_along_axis(padded, place[..., None], axis=-1)[..., 0]

    def first(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows that count, by ascending values (c,), and the place of the first up to which rows have the
        mass; c where all have less."""
        order = np.argsort(self.of(values), kind="stable")
        reached = np.arange(1, len(order) + 1) if self.weights is None else np.cumsum(self.weights[order])
        return order if self.which is None else self.which[order], np.searchsorted(reached, self.mass)

    def window(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, "Rank"]:
        """The rows (w,) that can be the order statistic of scores between two bounds (n,), and the same
        order statistic among these alone."""
        low, high = self.of(low), self.of(high)
        masses = np.min(self.mass), np.max(self.mass)
        least, most = (replace(self, which=None, mass=mass) for mass in masses)
        below = high < least.kth(low)
        kept = np.flatnonzero(~below & (low <= most.kth(high)))
        gone = np.count_nonzero(below) if self.weights is None else float(np.sum(self.weights[below]))
        weights = None if self.weights is None else self.weights[kept]
        return kept if self.which is None else self.which[kept], Rank(self.mass - gone, None, weights)

    def take(self, rows: Index) -> "Rank":
        """The same for some of the new rows."""
        return replace(self, mass=self.mass[rows]) if isinstance(self.mass, np.ndarray) else self

    def alone(self) -> "Rank":
        """The same among the rows that count, whose values come without the others'."""
        return replace(self, which=None)

    def within(self) -> "Rank":
        """The same with no more mass than all rows have, so that the order statistic is finite."""
        if self.weights is None:
            return self
        return replace(self, mass=np.minimum(self.mass, (1.0 - 1e-12) * np.sum(self.weights)))

    @property
    def shared(self) -> bool:
        """Whether it is one for all new rows."""
        return np.ndim(self.mass) == 0


@dataclass(frozen=True)
class Peers:
    """The training rows that new rows are ranked among, and how much each counts (theory, section 7)."""

    count: int  # number of training rows
    which: np.ndarray | None = None  # those that count (c,): a group's; None for all
    weights: np.ndarray | None = None  # likelihood ratios there (c,), >= 0; None where each counts once
    own: np.ndarray | None = None  # the same at the new rows (m,)

    @property
    def size(self) -> int:
        """Number of rows that count."""
        return self.count if self.which is None else len(self.which)

    def rank(self, alpha: float) -> Rank:
        """The `Rank` up to which new scores are in the set."""
        if self.weights is None or self.own is None:
            return Rank(conformal_rank(alpha, self.size), self.which)
        total = float(np.sum(self.weights)) + self.own
        some = self.weights > 0
        which = np.arange(self.count) if self.which is None else self.which
        # Guarded against floating point as `ceil_rank` is.
        return Rank((1.0 - alpha - 1e-12) * total, which[some], self.weights[some])

    def place(self, alpha: float) -> int | np.ndarray:
        """The rank k, an integer; with weights one per new row, in units of the mean weight and not whole.
        Larger than `size` where the set is the whole line."""
        if self.weights is None:
            return conformal_rank(alpha, self.size)
        with np.errstate(divide="ignore"):
            return self.rank(alpha).mass * (self.size / np.sum(self.weights))

    def among(self, rows: np.ndarray) -> "Peers":
        """The same where only some training rows have scores, in this order."""
        if self.which is None:
            weights = None if self.weights is None else self.weights[rows]
            return replace(self, count=len(rows), weights=weights)
        place = np.full(self.count, -1)
        place[rows] = np.arange(len(rows))
        place = place[self.which]
        kept = place >= 0
        weights = None if self.weights is None else self.weights[kept]
        return Peers(len(rows), place[kept], weights, self.own)

    def open(self, alpha: float) -> bool | np.ndarray:
        """Which new rows have the whole line as their set (m,), or one flag for all."""
        return self.place(alpha) > self.size

    def p(self, above: np.ndarray) -> np.ndarray:
        """p-values of new rows, one each or one for all, from whether the training scores are no smaller
        than the new one (..., n)."""
        above = above if self.which is None else above[..., self.which]
        if self.weights is None:
            return (1.0 + np.sum(above, axis=-1)) / (self.size + 1.0)
        return (self.own + above @ self.weights) / (np.sum(self.weights) + self.own)

    def take(self, rows: Index) -> "Peers":
        """The same for some of the new rows."""
        return self if self.own is None else replace(self, own=self.own[rows])


def kth_smallest(values: np.ndarray, k: int) -> np.ndarray:
    """k-th smallest along the last axis, k from 1; ``inf`` where k exceeds its length."""
    values = np.asarray(values)
    if k > values.shape[-1]:
        return np.full(values.shape[:-1], np.inf)
    return np.partition(values, k - 1, axis=-1)[..., k - 1]


def kth_of_lines(offset: np.ndarray, slope: np.ndarray, rank: Rank, r: np.ndarray) -> np.ndarray:
    """The exact order statistic of ``offset + r_j * slope`` (n,), slopes not negative, for every r (m,).

    The r are sorted and halved; between two of them only the lines that reach the window of the order
    statistic can be it, so each half goes on with few lines. Cost and memory grow with n + m, not
    with n times m.
    """
    r = np.asarray(r, dtype=float)
    finite = np.isfinite(r)
    out = np.where(r > 0, np.inf, -np.inf)
    order = np.flatnonzero(finite)[np.argsort(r[finite])]
    out[order] = _narrow(np.asarray(offset), np.asarray(slope), rank.take(order), r[order])
    return out


def _narrow(offset: np.ndarray, slope: np.ndarray, rank: Rank, r: np.ndarray) -> np.ndarray:
    """`kth_of_lines` for ascending ``r``."""
    if len(r) * len(offset) <= _DIRECT:
        return rank.kth(offset + r[:, None] * slope)
    if r[0] == r[-1]:
        return np.broadcast_to(rank.kth(offset + r[0] * slope), len(r))
    rows, near = rank.window(offset + r[0] * slope, offset + r[-1] * slope)
    half = len(r) // 2
    halves = slice(None, half), slice(half, None)
    return np.concatenate([_narrow(offset[rows], slope[rows], near.take(part), r[part]) for part in halves])


def kth_of_blocks(
    blocks: Callable[[], Iterable[np.ndarray]], sample: np.ndarray, n: int, ranks: Sequence[int]
) -> list[float]:
    """Order statistics of n values that come in blocks, as often as asked; ``inf`` for a rank above n.

    ``sample`` (m,) are some of the values, that tell between which others an order statistic is likely to
    lie. Those in between are kept, each once, the others counted: exact, mostly in one pass.
    """
    ordered = np.concatenate([[-np.inf], np.sort(sample), [np.inf]])
    found = {rank: math.inf for rank in ranks if rank > n}
    away = 4.0
    while left := [rank for rank in ranks if rank not in found]:
        ends = []
        for rank in left:
            share = (rank - 0.5) / n
            off = away * math.sqrt(share * (1.0 - share) * len(sample)) + 1.0
            place = share * len(sample) + 0.5 + off * np.array([-1.0, 1.0])
            ends.append(ordered[np.clip([place[0], place[1] + 1.0], 0, len(ordered) - 1).astype(int)])
        below = np.zeros(len(left), dtype=int)
        inside: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in left]
        for values in blocks():
            for j, (low, high) in enumerate(ends):
                below[j] += np.count_nonzero(values < low)
                near = values[(values >= low) & (values <= high)]
                inside[j].append(np.unique(near, return_counts=True))
        for j, rank in enumerate(left):
            kept, times = (np.concatenate(each) for each in zip(*inside[j], strict=True))
            if below[j] < rank <= below[j] + np.sum(times):
                found[rank] = float(Rank(rank - below[j], weights=times).kth(kept))
        away *= 8.0
    return [found[rank] for rank in ranks]
