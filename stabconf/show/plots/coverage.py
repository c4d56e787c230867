"""Coverage of new responses: against the level that was asked for, and along the predictions."""

import numpy as np

from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, RED, legend, new_axes, short, tidy

__all__ = ["draw_coverage", "draw_coverage_along"]


def draw_coverage(table, ax=None):
    """Coverage over levels, with the range in which it should fall if intervals cover as promised.

    Parameters
    ----------
    table : DataFrame
        From `coverage_table`.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax, 4.8, 4.6), "both")
    nominal = 1.0 - table["alpha"].to_numpy()
    count = int(table["count"].max())
    _expected_range(ax, nominal, table)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle="--", label="as asked for")
    ax.plot(nominal, table["coverage"], color=BLACK, marker="o", markersize=4.5, label=f"{count} new rows")
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
    share, place, nominal = table["coverage"], table["prediction"], 1.0 - attrs["alpha"]
    odd = (share < table["expected_lower"]) | (share > table["expected_upper"])
    _expected_range(ax, place, table)
    label = f"promised over all rows, {percent(nominal)}"
    ax.axhline(nominal, color=GREY, linewidth=1.0, linestyle="--", label=label)
    label = f"about {int(table['count'].median())} rows each"
    ax.plot(place[~odd], share[~odd], "o", color=BLUE, markersize=5, label=label)
    if odd.any():
        ax.plot(place[odd], share[odd], "D", color=RED, markersize=6, label="outside that range")
    low = float(np.nanmin([nominal, share.min(), table["expected_lower"].min()]))
    ax.set_ylim(max(0.0, np.floor(10 * low - 0.5) / 10), 1.01)
    ax.set_xlabel(f"prediction of {short(attrs['response'], 32)}, in parts of equal counts")
    ax.set_ylabel("share of new responses in their interval")
    legend(ax)
    return ax


def _expected_range(ax, x, table):
    """The expected range as a band, or as a bar where there is one place alone."""
    lower, upper = table["expected_lower"], table["expected_upper"]
    if lower.notna().any():
        label = "expected in 95 % of samples"
        width = 6.0 if len(table) == 1 else 0.0
        ax.fill_between(x, lower, upper, color=BAND, linewidth=width, label=label)
