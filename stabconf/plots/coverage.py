"""Coverage of new responses: against the level that was asked for, and along the predictions."""

import numpy as np

from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, legend, new_axes, short, tidy

__all__ = ["draw_coverage", "draw_coverage_along"]


def draw_coverage(table, ax=None):
    """Coverage over levels, with the range that is due to the number of new rows alone.

    Parameters
    ----------
    table : DataFrame
        ``alpha``, ``coverage``, ``band_lower``, ``band_upper`` and ``count``, a line a level, by alpha.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax, 4.8, 4.6), "both")
    nominal = 1.0 - table["alpha"].to_numpy()
    count = int(table["count"].max())
    label = f"95 % of draws of {count} rows"
    ax.fill_between(nominal, table["band_lower"], table["band_upper"], color=BAND, linewidth=0, label=label)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle="--", label="as asked for")
    ax.plot(nominal, table["coverage"], color=BLACK, marker="o", markersize=4.5, label="new rows")
    low = max(0.0, np.floor(10 * min(nominal.min(), table["coverage"].min()) - 0.5) / 10)
    ax.set_xlim(low, 1.0)
    ax.set_ylim(low, 1.01)
    ax.set_xlabel("coverage asked for, 1 - alpha")
    ax.set_ylabel("share of new responses in their interval")
    ax.legend(frameon=False, loc="upper left")
    return ax


def draw_coverage_along(table, attrs, ax=None):
    """Coverage at one level in parts of the rows by prediction.

    Parameters
    ----------
    table : DataFrame
        From `coverage_along`.
    attrs : dict
        Of the intervals.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax), "y")
    middle = table["coverage"]
    ends = [middle - table["coverage_lower"], table["coverage_upper"] - middle]
    label = f"share of about {int(table['count'].median())} rows, with its 95 % interval"
    ax.errorbar(
        table["prediction"], middle, ends, fmt="o", color=BLUE, markersize=5, capsize=3, label=label
    )
    nominal = 1.0 - attrs["alpha"]
    label = f"promised over all rows, {percent(nominal)}"
    ax.axhline(nominal, color=GREY, linewidth=1.0, linestyle="--", label=label)
    low = min(nominal, float(table["coverage_lower"].min()))
    ax.set_ylim(max(0.0, np.floor(10 * low - 0.5) / 10), 1.01)
    ax.set_xlabel(f"prediction of {short(attrs['response'], 32)}, in parts of equal counts")
    ax.set_ylabel("share of new responses in their interval")
    legend(ax)
    return ax
