"""Coverage over levels, and how far it may stray with so many new rows."""

import numpy as np
import pandas as pd
from scipy.stats import binom

__all__ = ["coverage_table"]


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
