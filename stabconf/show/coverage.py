"""Coverage of new rows, and the range in which it should fall if the intervals keep their promise.

Intervals cover with probability 1 - alpha over training and new rows together. Given the training rows,
coverage is some number near it: a draw of Beta(k, n + 1 - k), with k the conformal rank among n training
rows. Of m new rows a beta-binomial number is then covered, whose spread does not vanish with m: n training
rows leave it. This is exact for split conformal. Full conformal sets vary a little more the more columns
there are: of least squares with 20 columns and 100 rows 7 % of samples are outside the 95 % limits, with 2
columns 5 %.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.signal import fftconvolve
from scipy.stats import betabinom

__all__ = ["Ranks", "coverage_along", "coverage_line", "coverage_table", "covered_counts"]

_TAIL = 0.025  # on either side
_PARTS = 10  # along the predictions,
_PART_ROWS = 20  # with at least so many rows each, where there are as many


@dataclass(frozen=True)
class Ranks:
    """The order statistics that the intervals of m rows rest on.

    Attributes
    ----------
    place : (m,) array of int
        Where a row's order statistic is in ``k`` and ``n``; -1 for rows without one.
    k, n : lists of int
        Rank, and number of training rows that it is among; one for each group of training rows.
    """

    place: np.ndarray
    k: list
    n: list

    def take(self, rows):
        """The same for some of the rows."""
        return Ranks(self.place[rows], self.k, self.n)


def covered_counts(counts, k, n):
    """Smallest and largest number of covered new rows that is no surprise: each tail has at most 2.5 %.

    Parameters
    ----------
    counts, k, n : sequences of int
        New rows, rank and training rows, one for each group of training rows.

    Examples
    --------
    Of 1,000 new rows between 833 and 953 are covered in 95 % of samples with 100 training rows. More new
    rows hardly narrow that, more training rows do:

    >>> covered_counts([1000], [91], [100]), covered_counts([1000], [9001], [10000])
    ((833, 953), (880, 919))
    """
    law = np.ones(1)
    for m, rank, size in zip(counts, k, n, strict=True):
        if rank > size:  # the whole line
            own = np.append(np.zeros(m), 1.0)
        else:
            own = betabinom.pmf(np.arange(m + 1), m, rank, size + 1 - rank)
        law = own if len(law) == 1 else fftconvolve(law, own)
    ends = np.searchsorted(np.cumsum(law), [_TAIL, 1.0 - _TAIL])
    return tuple(int(end) for end in np.minimum(ends, len(law) - 1))


def coverage_line(hits, ranks):
    """Coverage of some rows and its expected range.

    Parameters
    ----------
    hits : (m,) array
        1 or 0, NaN where not known.
    ranks : Ranks or None
        None where the rows are ranked by weights of a shift: no law of their coverage is known.

    Returns
    -------
    dict
        ``coverage``, ``expected_lower``, ``expected_upper``; NaN where not known.
    """
    known = ~np.isnan(hits)
    line = dict.fromkeys(("coverage", "expected_lower", "expected_upper"), np.nan)
    if not known.any():
        return line
    line["coverage"] = float(np.mean(hits[known]))
    if ranks is None:
        return line
    places, counts = np.unique(ranks.place[known], return_counts=True)
    ends = covered_counts(counts, [ranks.k[at] for at in places], [ranks.n[at] for at in places])
    line["expected_lower"], line["expected_upper"] = (end / int(known.sum()) for end in ends)
    return line


def coverage_table(levels):
    """Coverage at each level, with its expected range.

    Parameters
    ----------
    levels : list of Bands
        With responses, in the order of alpha.

    Returns
    -------
    DataFrame
        ``alpha``, ``count``, and what `coverage_line` gives.
    """
    lines = [
        {
            "alpha": bands.attrs["alpha"],
            "count": int(np.sum(~np.isnan(bands.hits))),
            **coverage_line(bands.hits, bands.ranks),
        }
        for bands in levels
    ]
    return pd.DataFrame(lines)


def coverage_along(bands):
    """Coverage at one level in parts of the new rows by prediction: the coverage promised is over all rows.

    Parameters
    ----------
    bands : Bands
        With responses.

    Returns
    -------
    DataFrame
        ``prediction`` (the mean of the part), ``count``, and what `coverage_line` gives: the range expected
        if intervals cover alike along the predictions. By prediction; parts have equal counts.
    """
    known = np.flatnonzero(~np.isnan(bands.hits))
    order = known[np.argsort(bands.mean[known], kind="stable")]
    parts = np.array_split(order, int(np.clip(len(order) // _PART_ROWS, 1, _PARTS)))
    lines = [
        {
            "prediction": float(np.mean(bands.mean[part])),
            "count": len(part),
            **coverage_line(bands.hits[part], None if bands.ranks is None else bands.ranks.take(part)),
        }
        for part in parts
    ]
    return pd.DataFrame(lines)
