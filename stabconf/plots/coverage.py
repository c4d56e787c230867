"""Coverage of new responses against the level that was asked for."""

import numpy as np

from .style import BAND, BLACK, GREY, new_axes, tidy

__all__ = ["draw_coverage"]


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
