"""Figures of the fit itself: its residuals, and how far single rows move it.

Drawn for ``plot_residuals`` and ``plot_influence``.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .style import BLACK, BLUE, GREY, RED, legend, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_influence", "draw_residuals"]

_PARTS = 10  # of the rows along the axis,
_PART_ROWS = 10  # with at least so many rows each
_NAMED = 5  # rows
_MANY = 1500  # points beyond which they are stored as a picture even in vector formats


def draw_residuals(
    x: np.ndarray, residuals: np.ndarray, name: str, response: str, ax: "Axes | None" = None
) -> "Axes":
    """Residuals (m,) over ``x`` (m,) called ``name``, with medians and quartiles of parts of equal counts;
    rows that lack either are left out."""
    ax = new_axes(ax)
    known = np.isfinite(x) & np.isfinite(residuals)
    x, residuals = x[known], residuals[known]
    size = float(np.clip(3000.0 / max(len(x), 1), 4.0, 18.0))
    ax.scatter(x, residuals, s=size, color=BLUE, linewidths=0, alpha=0.6, rasterized=len(x) > _MANY)
    ax.axhline(0.0, color=GREY, linewidth=1.0, linestyle="--")
    if len(x) >= 2 * _PART_ROWS:
        order = np.argsort(x, kind="stable")
        parts = np.array_split(order, min(len(x) // _PART_ROWS, _PARTS))
        centres = [float(np.mean(x[part])) for part in parts]
        low, middle, high = np.array([np.quantile(residuals[part], [0.25, 0.5, 0.75]) for part in parts]).T
        ax.vlines(centres, low, high, color=BLACK, linewidth=1.6, label="quartiles of a part of the rows")
        ax.plot(centres, middle, "o", color=BLACK, markersize=5, label="median")
        legend(ax)
    ax.set_xlabel(short(name))
    ax.set_ylabel(f"{short(response, 28)} less its prediction")
    return ax


def draw_influence(
    residuals: np.ndarray, moves: pd.Series, what: str, response: str, ax: "Axes | None" = None
) -> "Axes":
    """Moves (n,) of ``what`` by training rows over their residuals (n,); the largest are named."""
    ax = new_axes(ax)
    values = moves.to_numpy()
    size = float(np.clip(3000.0 / max(len(values), 1), 4.0, 18.0))
    ax.scatter(residuals, values, s=size, color=BLUE, linewidths=0, alpha=0.6)
    ax.axhline(0.0, color=GREY, linewidth=1.0, linestyle="--")
    places = np.argsort(-np.abs(values), kind="stable")[:_NAMED]
    places = places[values[places] != 0.0]
    ax.scatter(residuals[places], values[places], s=26, facecolors="none", edgecolors=RED)
    for at in places:
        side = -1 if residuals[at] > np.median(residuals) else 1  # towards the middle of the figure
        ax.annotate(
            short(moves.index[at], 18),
            (residuals[at], values[at]),
            xytext=(5 * side, 3),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            fontsize="small",
        )
    ax.set_xlabel(f"residual of {short(response, 28)}")
    ax.set_ylabel(f"move of {short(what, 28)} by the row")
    return ax
