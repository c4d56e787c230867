"""Figures of distributions: widths in all or by group, lengths by method, residuals, moves of the fit.

Drawn for ``plot_widths``, `Comparison.plot`, ``plot_residuals``, ``plot_influence`` and written reports.
"""

from typing import Any

import numpy as np
import pandas as pd

from ..shown import Shown
from ..tables import cell, percent
from .style import BAND, BLACK, BLUE, DASHED, MANY, RED, Axes, legend, new_axes, point_size, short, shorts

_FEW = 300  # points of a group up to which each is drawn
_PARTS = 10  # of the rows along the axis of residuals,
_PART_ROWS = 10  # with at least so many rows each
_NAMED = 5  # rows that move the fit most
_PALE = ("#66aad1", "#f0c566", "#66c5ab", "#e0afca", "#9ad2f2", "#e69e66")  # colours with 40 % white
_BOX: dict[str, Any] = {
    "patch_artist": True,
    "showfliers": False,
    "whis": (5, 95),
    "medianprops": {"color": BLACK, "linewidth": 1.6},
    "whiskerprops": {"color": BLUE},
    "capprops": {"color": BLUE},
}


def draw_widths(
    shown: Shown, labels: pd.Categorical | None, name: str | None, ax: Axes | None = None
) -> Axes:
    """A histogram of widths, or boxes by the groups ``labels`` (m,) that are called ``name``; infinite
    widths are counted beside the group's name."""
    attrs, widths = shown.attrs, shown.widths
    height = 4.0 if labels is None else 1.5 + 0.5 * len(labels.categories)
    ax = new_axes(ax, height=height, grid="x")
    what = f"{'width' if attrs['side'] == 'two-sided' else 'margin'} of the {percent(1 - attrs['alpha'])}"
    ax.set_xlabel(f"{what} interval for {short(attrs['response'], 32)}")
    if labels is None:
        _histogram(ax, widths)
        return ax
    values = [widths[labels == group] for group in labels.categories]
    names = []
    for group, each in zip(shorts(labels.categories, 24), values, strict=True):
        infinite = int(np.sum(np.isinf(each)))
        more = f", {infinite} infinite" if infinite else ""
        names.append(f"{group}\n(n = {int(np.sum(~np.isnan(each)))}{more})")
    if names:
        _boxes(ax, values, names, [BAND] * len(names))
    ax.set_ylabel(short(name, 32))
    return ax


def _histogram(ax: Axes, widths: np.ndarray) -> None:
    finite = widths[np.isfinite(widths)]
    if len(finite):
        middle, mean = float(np.median(finite)), float(np.mean(finite))
        flat = float(np.ptp(finite)) <= 1e-6 * abs(middle)  # all the same but for rounding
        limits = (0.9 * middle, 1.1 * middle) if flat and middle else None
        bins = int(np.clip(np.sqrt(len(finite)), 8, 40))  # not "auto": a far width would make millions
        bins += flat and bins % 2 == 0  # the one width is in the middle of a bar, not between two
        ax.hist(finite, bins, range=limits, color=BAND, edgecolor=BLUE, linewidth=0.7)
        ax.axvline(middle, color=BLACK, linewidth=1.4, linestyle="--", label=f"median {cell(middle)}")
        ax.axvline(mean, color=BLACK, linewidth=1.4, linestyle=":", label=f"mean {cell(mean)}")
    infinite = int(np.sum(np.isinf(widths)))
    if infinite:
        ax.plot([], [], " ", label=f"{infinite} infinite, not drawn")
    if len(finite) or infinite:
        legend(ax, 3)
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_ylabel("intervals")


def _boxes(ax: Axes, values: list[np.ndarray], names: list[str], colours: list[str]) -> None:
    """A box and points of the finite values of each group, from the top down."""
    finite = [each[np.isfinite(each)] for each in values]
    places = np.arange(len(names), 0, -1)
    drawn = ax.boxplot(finite, orientation="horizontal", positions=places, widths=0.5, **_BOX)
    for box, colour in zip(drawn["boxes"], colours, strict=True):
        box.set(facecolor=colour, edgecolor=BLUE)
    for place, each in zip(places, finite, strict=True):
        if len(each) <= _FEW:
            spread = 0.18 * np.sin(2.4 * np.arange(len(each)))  # the golden angle: no two beside each other
            alpha = float(np.clip(20.0 / max(len(each), 1), 0.2, 0.8))  # the box stays in sight
            ax.scatter(each, place + spread, s=6, color=BLACK, alpha=alpha, linewidths=0, zorder=3)
    ax.set_yticks(places, names)


def comparison_size(lines: int) -> tuple[float, float]:
    """Width and height in inches of a figure that compares so many methods and penalties."""
    return 7.0, 1.2 + 0.34 * lines


def draw_comparison(table: pd.DataFrame, runs: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Boxes of the mean length over the repeats in ``runs``, one per method and penalty of ``table``."""
    from matplotlib.patches import Patch

    ax = new_axes(ax, *comparison_size(len(table)), grid="x")
    # An estimator's table has no penalties, for there is one fit.
    values = table["penalty"] if "penalty" in table else [runs["penalty"].iloc[0]] * len(table)
    penalties = list(dict.fromkeys(values))
    colours = {value: _PALE[at % len(_PALE)] for at, value in enumerate(penalties)}
    lengths, names = [], []
    for line, value in zip(table.itertuples(), values, strict=True):
        mine = (runs["method"] == line.method) & (runs["penalty"] == value)
        lengths.append(runs.loc[mine, "length"].to_numpy())
        share = f", {line.infinite:.0%} infinite" if line.infinite else ""
        names.append(f"{line.method}  (covers {line.coverage:.2f}, {line.time:.3g} fits{share})")
    _boxes(ax, lengths, names, [colours[value] for value in values])
    ax.set_xlabel("mean length of the intervals")
    ax.set_title(f"Conformal methods, alpha = {runs['alpha'].iloc[0]:g}")
    if len(penalties) > 1:
        handles = [Patch(color=each, label=f"penalty {value:g}") for value, each in colours.items()]
        ax.legend(handles=handles, loc="best")
    return ax


def draw_residuals(
    x: np.ndarray, residuals: np.ndarray, name: str, response: str, ax: Axes | None = None
) -> Axes:
    """Residuals (m,) over ``x`` (m,) called ``name``, with medians and quartiles of parts of equal counts;
    rows that lack either are left out."""
    ax = new_axes(ax)
    known = np.isfinite(x) & np.isfinite(residuals)
    x, residuals = x[known], residuals[known]
    _cloud(ax, x, residuals)
    if len(x) >= 2 * _PART_ROWS:
        order = np.argsort(x, kind="stable")
        parts = np.array_split(order, min(len(x) // _PART_ROWS, _PARTS))
        centres = [float(np.mean(x[part])) for part in parts]
        low, middle, high = np.array([np.quantile(residuals[part], [0.25, 0.5, 0.75]) for part in parts]).T
        ax.vlines(centres, low, high, color=BLACK, linewidth=1.6, label="quartiles of a part of the rows")
        ax.plot(centres, middle, "o", color=BLACK, markersize=5, label="median")
        legend(ax)
    ax.set(xlabel=short(name), ylabel=f"{short(response, 28)} less its prediction")
    return ax


def _cloud(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Points about a line at 0."""
    look: dict[str, Any] = {"color": BLUE, "linewidths": 0, "alpha": 0.6, "rasterized": len(x) > MANY}
    ax.scatter(x, y, s=point_size(len(x)), **look)
    ax.axhline(0.0, **DASHED)


def draw_influence(
    residuals: np.ndarray, moves: pd.Series, what: str, response: str, ax: Axes | None = None
) -> Axes:
    """Moves (n,) of ``what`` by training rows over their residuals (n,); the largest are named."""
    ax = new_axes(ax)
    values = moves.to_numpy()
    _cloud(ax, residuals, values)
    places = np.argsort(-np.abs(values), kind="stable")[:_NAMED]
    places = places[values[places] != 0.0]
    ax.scatter(residuals[places], values[places], s=26, facecolors="none", edgecolors=RED)
    places = places[np.argsort(values[places], kind="stable")]
    sides = np.where(residuals[places] > np.median(residuals), -1, 1)  # towards the middle of the figure
    for i in np.flatnonzero(np.diff(values[places]) < 0.05 * np.ptp(values)):  # at nearly one height: apart
        sides[i : i + 2] = (-1, 1) if residuals[places[i]] < residuals[places[i + 1]] else (1, -1)
    for at, side in zip(places, sides, strict=True):
        ha = "left" if side > 0 else "right"
        look: dict[str, Any] = {"textcoords": "offset points", "ha": ha, "fontsize": "small"}
        ax.annotate(short(moves.index[at], 18), (residuals[at], values[at]), (5 * int(side), 3), **look)
    ax.set(xlabel=f"residual of {short(response, 28)}", ylabel=f"move of {short(what, 28)} by the row")
    return ax
