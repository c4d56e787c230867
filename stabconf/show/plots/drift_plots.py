"""The figure of evidence against exchangeability over new rows, in their order.

Drawn for `ExchangeabilityCheck.plot` and written reports.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .style import BLACK, BLUE, GREY, ORANGE, RED, legend, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_drift"]

_LOOKS: dict[str, dict[str, Any]] = {
    "level": {"color": BLACK, "linestyle": "-"},
    "spread": {"color": BLUE, "linestyle": "--"},
    "covariates": {"color": ORANGE, "linestyle": "-."},
}
_BESIDE: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": RED, "fontsize": "small"}
_LIMITS = ((20.0, "1/20", ":"), (100.0, "1/100", (0, (1, 3))))


def draw_drift(
    paths: pd.DataFrame, p: pd.Series, since: tuple[int, Hashable] | None, ax: "Axes | None" = None
) -> "Axes":
    """log10 of the evidence ``paths`` (m, 3) over rows, its limits, and the running mean of p-values (m,)
    on the right axis. ``since`` is the position and label of the row where a rise began, if one did."""
    ax = new_axes(ax)
    rows = np.arange(1, len(paths) + 1)
    for name, look in _LOOKS.items():
        ax.plot(rows, paths[name], linewidth=1.5, label=name, **look)
    for value, words, line in _LIMITS:
        ax.axhline(np.log10(value), color=RED, linewidth=1.0, linestyle=line)
        place = (1.0, np.log10(value))
        ax.annotate(words, place, (-2, 2), xycoords=("axes fraction", "data"), **_BESIDE)
    if since is not None:
        label = f"rises from about row {short(since[1], 16)}"
        ax.axvline(since[0] + 1, color=RED, linewidth=1.2, linestyle="--", label=label)
    ax.set_ylim(top=max(2.3, 1.05 * float(np.max(paths.to_numpy()))))
    ax.set_xlabel("new rows, in their order")
    ax.set_ylabel("evidence, log10")
    right = ax.twinx()
    right.spines["top"].set_visible(False)
    known = p.to_numpy()[p.notna().to_numpy()]
    window = max(10, len(known) // 8)
    mean = pd.Series(known).rolling(window, min_periods=min(5, len(known))).mean()
    label = f"mean p of {p.name}, last {window} rows"
    right.plot(rows[p.notna().to_numpy()], mean, color=GREY, linewidth=1.0, label=label)
    right.axhline(0.5, color=GREY, linewidth=0.6)
    right.set_ylim(0, 1)
    right.set_ylabel("mean p", color=GREY)
    right.tick_params(axis="y", colors=GREY)
    legend(ax, 2, [*ax.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]])
    return ax
