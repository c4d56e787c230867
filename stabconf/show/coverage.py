"""Coverage of new rows, and the range in which it should fall if the intervals keep their promise.

Given the training rows, coverage is a draw of Beta(k, n + 1 - k), with k the conformal rank among n
training rows (theory, section 1). Of m new rows a beta-binomial number is then covered, whose spread does
not vanish with m. This is exact for split conformal. Full conformal sets vary a little more the more
columns there are: of least squares with 20 columns and 100 rows 7 % of samples are outside the 95 %
limits, with 2 columns 5 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from ..rank import conformal_rank
from .tables import percent

if TYPE_CHECKING:
    from .shown import Shown

TAIL = 0.025  # on either side
_PARTS = 10  # along the predictions,
_PART_ROWS = 20  # with at least so many rows each, where there are as many


@dataclass(frozen=True)
class Ranks:
    """The order statistics that the intervals of m rows rest on: the k-th of n, for each group of training
    rows. ``place`` (m,) is where a row's are in ``k`` and ``n``; -1 for rows without one."""

    place: np.ndarray
    k: list[int]
    n: list[int]

    def take(self, rows: np.ndarray) -> "Ranks":
        """The same for some of the rows."""
        return Ranks(self.place[rows], self.k, self.n)

    def limits(self, tail: float = TAIL) -> tuple[int, int]:
        """Smallest and largest number of covered rows that is no surprise."""
        places, counts = np.unique(self.place, return_counts=True)
        return covered_counts(counts, [self.k[at] for at in places], [self.n[at] for at in places], tail)


@dataclass(frozen=True)
class Leverages:
    """What intervals of m rows that cover along a formula rest on (theory, section 7).

    Coverage of a part of the rows varies as that of an order statistic of n training rows does, with 1 / n
    the leverage of the part's mean row. The quantile regression fits as many scores exactly as it has
    columns, and these are covered: of the part's share of them, n times its mean leverage, all but one may
    raise the rank above k. ``rows`` (m, q) are those of the formula's design, in units in which the squared
    length of a row is its leverage; ``whole`` (m,) says which intervals are the whole line.
    """

    rows: np.ndarray
    whole: np.ndarray
    alpha: float

    def take(self, rows: np.ndarray) -> "Leverages":
        """The same for some of the rows."""
        return Leverages(self.rows[rows], self.whole[rows], self.alpha)

    def limits(self, tail: float = TAIL) -> tuple[int, int]:
        """Smallest and largest number of covered rows that is no surprise."""
        rows = self.rows[~self.whole]
        sure = len(self.rows) - len(rows)
        if not len(rows):
            return sure, sure
        size = max(1, round(1.0 / float(np.sum(np.mean(rows, axis=0) ** 2))))
        least = min(conformal_rank(self.alpha, size), size)
        fitted = size * float(np.mean(np.sum(rows**2, axis=1)))  # scores of the part, exactly
        most = min(least + max(round(fitted) - 1, 0), size)
        low, _ = covered_counts([len(rows)], [least], [size], tail)
        _, high = covered_counts([len(rows)], [most], [size], tail)
        return sure + low, sure + high


Basis: TypeAlias = Ranks | Leverages | None  # of the coverage of intervals


def covered_counts(
    counts: Sequence[int] | np.ndarray, k: Sequence[int], n: Sequence[int], tail: float = TAIL
) -> tuple[int, int]:
    """Smallest and largest number of covered new rows that is no surprise: each tail has at most 2.5 %, or
    what is given.

    Arguments have one number for each group of training rows: its new rows, rank and training rows. More
    new rows hardly narrow the range, more training rows do:

    >>> covered_counts([1000], [91], [100]), covered_counts([1000], [9001], [10000])
    ((833, 953), (880, 919))
    """
    from scipy.signal import fftconvolve  # they take long to import
    from scipy.stats import betabinom

    law = np.ones(1)
    for m, rank, size in zip(counts, k, n, strict=True):
        if rank > size:  # the whole line
            own = np.append(np.zeros(m), 1.0)
        else:
            own = betabinom.pmf(np.arange(m + 1), m, rank, size + 1 - rank)
        law = own if len(law) == 1 else fftconvolve(law, own)
    low, high = np.searchsorted(np.cumsum(law), [tail, 1.0 - tail])
    most = len(law) - 1
    return min(int(low), most), min(int(high), most)


def coverage_line(hits: np.ndarray, ranks: Basis) -> dict[str, float]:
    """``coverage`` of some rows, ``expected_lower`` and ``expected_upper``; NaN where not known.

    ``hits`` (m,) are 1 or 0, NaN where not known. No law of coverage is known without ``ranks``: the rows
    are then ranked by the weights of a shift.
    """
    known = ~np.isnan(hits)
    share = low = high = np.nan
    if known.any():
        share = float(np.mean(hits[known]))
        if ranks is not None:
            low, high = (end / int(known.sum()) for end in ranks.take(known).limits())
    return {"coverage": share, "expected_lower": low, "expected_upper": high}


def coverage_table(levels: "Sequence[Shown]") -> pd.DataFrame:
    """``alpha``, ``count`` and what `coverage_line` gives, one row per level; responses must be known."""
    lines = []
    for shown in levels:
        line = {"alpha": shown.attrs["alpha"], "count": int(np.sum(~np.isnan(shown.hits)))}
        lines.append(line | coverage_line(shown.hits, shown.ranks))
    return pd.DataFrame(lines)


def coverage_along(shown: "Shown") -> pd.DataFrame:
    """Coverage in parts of the new rows by prediction: the coverage promised is over all rows.

    Returns ``prediction`` (the mean of the part), ``count``, and what `coverage_line` gives: the range
    expected if intervals cover alike along the predictions. Parts have equal counts.
    """
    lines = []
    for places in parts_along(shown):
        part = shown.take(places)
        line = {"prediction": float(np.mean(part.mean)), "count": len(places)}
        lines.append(line | coverage_line(part.hits, part.ranks))
    return pd.DataFrame(lines)


def parts_along(shown: "Shown") -> list[np.ndarray]:
    """Places of the rows whose coverage is known, in parts of equal counts by their predictions."""
    known = np.flatnonzero(~np.isnan(shown.hits))
    order = known[np.argsort(shown.mean[known], kind="stable")]
    return np.array_split(order, int(np.clip(len(order) // _PART_ROWS, 1, _PARTS)))


def shortfalls(shown: "Shown", parts: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence for each part of the rows whose coverage falls short beyond chance.

    ``parts`` are places of rows, by a name. They share the level: if intervals cover alike everywhere, one
    sentence or more comes in at most 2.5 % of samples. None comes where no law of coverage is known.
    """
    made = []
    for name, places in parts.items():
        part = shown.take(places[~np.isnan(shown.hits[places])])
        if part.ranks is None or not len(part.mean):
            continue
        count, inside = len(part.mean), int(np.sum(part.hits))
        least, _ = part.ranks.limits(TAIL / len(parts))
        if inside < least:
            made.append(
                f"Coverage falls short for {name}: {inside} of {count} responses are inside "
                f"({percent(inside / count)}), where at least {least} are expected."
            )
    return made
