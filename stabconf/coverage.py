"""Coverage over levels and along predictions, and how far it may stray with so many new rows."""

import numpy as np
import pandas as pd
from scipy.stats import binom

from .widths import coverage_line

__all__ = ["coverage_along", "coverage_table"]

_PARTS = 10  # along the predictions,
_PART_ROWS = 20  # with at least so many rows each, where there are as many


def coverage_table(levels):
    """Coverage a level, with the range that holds it in 95 % of draws of so many rows.

    Parameters
    ----------
    levels : list of Bands
        With responses, in the order of alpha.

    Returns
    -------
    DataFrame
        ``alpha``, ``count``, ``coverage``, ``band_lower``, ``band_upper``.
    """
    lines = []
    for bands in levels:
        hits = bands.hits[~np.isnan(bands.hits)]
        alpha, count = bands.attrs["alpha"], len(hits)
        ends = binom.ppf([0.025, 0.975], count, 1.0 - alpha) / count if count else [np.nan, np.nan]
        lines.append(
            {
                "alpha": alpha,
                "count": count,
                "coverage": float(np.mean(hits)) if count else np.nan,
                "band_lower": ends[0],
                "band_upper": ends[1],
            }
        )
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
        ``prediction`` (the mean of the part), ``count``, ``coverage``, ``coverage_lower``,
        ``coverage_upper`` (an exact 95 % interval), by prediction; parts have equal counts.
    """
    known = np.flatnonzero(~np.isnan(bands.hits))
    order = known[np.argsort(bands.mean[known], kind="stable")]
    parts = np.array_split(order, int(np.clip(len(order) // _PART_ROWS, 1, _PARTS)))
    lines = [
        {
            "prediction": float(np.mean(bands.mean[part])),
            "count": len(part),
            **coverage_line(bands.hits[part]),
        }
        for part in parts
    ]
    return pd.DataFrame(lines)
