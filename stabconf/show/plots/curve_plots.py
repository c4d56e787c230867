"""Figures of one number over another: coverage over levels, widths over penalties, evidence over rows.

Drawn for ``plot_coverage``, ``plot_stability``, `Selection.plot`, `ExchangeabilityCheck.plot` and written
reports.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..tables import percent
from .style import (
    BAND,
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PALE_PALETTE,
    RED,
    legend,
    new_axes,
    right_axes,
    short,
    shorts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_METHODS: dict[str, dict[str, Any]] = {
    "exact": {"color": BLACK, "marker": "o", "linestyle": "-"},
    "stable": {"color": BLUE, "marker": "s", "linestyle": "--"},
    "ball": {"color": ORANGE, "marker": "^", "linestyle": "-."},
}
_SCORES: dict[str, dict[str, Any]] = {
    "level": {"color": BLACK, "linestyle": "-"},
    "spread": {"color": BLUE, "linestyle": "--"},
    "covariates": {"color": ORANGE, "linestyle": "-."},
}
_BESIDE: dict[str, Any] = {
    "textcoords": "offset points",
    "ha": "right",
    "color": RED,
    "fontsize": "small",
}
_LIMITS = ((20.0, "1/20", ":"), (100.0, "1/100", (0, (1, 3))))
_KINDS = (  # of intervals beside each other: colours of point and range, and the marker
    (BLUE, BAND, "o"),
    (RED, PALE_PALETTE[1], "D"),
)


def draw_coverage(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Coverage over levels, from `coverage_table`, with the range in which it should fall."""
    ax = new_axes(ax, 4.8, 4.6, grid="both")
    nominal = 1.0 - table["alpha"].to_numpy()
    _expected_range(ax, nominal, table)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle="--", label="as asked for")
    label = f"{int(table['count'].max())} new rows"
    ax.plot(nominal, table["coverage"], color=BLACK, marker="o", markersize=4.5, label=label)
    low = _rounded_down(min(nominal.min(), table["coverage"].min()))
    ax.set_xlim(low, 1.0)
    ax.set_ylim(low, 1.01)
    ax.set_xlabel("coverage asked for, 1 - alpha")
    ax.set_ylabel("share of new responses in their interval")
    ax.legend(frameon=False, loc="upper left")
    return ax


def draw_coverage_along(table: pd.DataFrame, attrs: dict[str, Any], ax: "Axes | None" = None) -> "Axes":
    """Coverage in parts of the rows by prediction, from `coverage_along`; ``attrs`` are the intervals'."""
    ax = new_axes(ax)
    share, place, nominal = table["coverage"], table["prediction"], 1.0 - attrs["alpha"]
    _expected_range(ax, place, table)
    label = f"promised over all rows, {percent(nominal)}"
    ax.axhline(nominal, color=GREY, linewidth=1.0, linestyle="--", label=label)
    odd = (share < table["expected_lower"]) | (share > table["expected_upper"])
    label = f"about {int(table['count'].median())} rows each"
    ax.plot(place[~odd], share[~odd], "o", color=BLUE, markersize=5, label=label)
    if odd.any():
        ax.plot(place[odd], share[odd], "D", color=RED, markersize=6, label="outside that range")
    low = float(np.nanmin([nominal, share.min(), table["expected_lower"].min()]))
    ax.set_ylim(_rounded_down(low), 1.01)
    ax.set_xlabel(f"prediction of {short(attrs['response'], 32)}, in parts of equal counts")
    ax.set_ylabel("share of new responses in their interval")
    legend(ax)
    return ax


def draw_coverage_by(
    tables: dict[str, pd.DataFrame], attrs: dict[str, Any], ax: "Axes | None" = None
) -> "Axes":
    """Coverage by group, from `WidthReport` tables, of one or two kinds of intervals, with the ranges in
    which it should fall; ``attrs`` are the intervals'. Groups without a judged row are left out."""
    first = next(iter(tables.values()))
    known = [
        label for label in first.index if any(table["coverage"].notna()[label] for table in tables.values())
    ]
    ax = new_axes(ax, height=2.0 + (0.35 + 0.2 * len(tables)) * len(known), grid="x")
    places = np.arange(len(known), 0, -1)
    nominal = 1.0 - attrs["alpha"]
    lowest = nominal
    for at, ((name, table), (colour, pale, marker)) in enumerate(zip(tables.items(), _KINDS, strict=False)):
        made = table.loc[known]
        y = places - 0.32 * (at - 0.5 * (len(tables) - 1))
        ends = made["expected_lower"], made["expected_upper"]
        if ends[0].notna().any():
            label = "_" if at else "bars: expected in 95 % of samples"
            ax.hlines(y, *ends, color=pale, linewidth=7.0, label=label)
        ax.plot(made["coverage"], y, marker, color=colour, markersize=6, label=short(name, 44), zorder=3)
        lowest = float(np.nanmin([lowest, made["coverage"].min(), ends[0].min()]))
    label = f"as asked for, {percent(nominal)}"
    ax.axvline(nominal, color=GREY, linewidth=1.0, linestyle="--", label=label)
    counts = first["count"].loc[known].astype(int)
    named = zip(shorts(known, 24), counts, strict=True)
    names = [f"{group}\n(n = {count})" for group, count in named]
    ax.set_yticks(places, names)
    ax.set_ylim(0.4, len(known) + 0.6)
    ax.set_xlim(_rounded_down(lowest), 1.01)
    ax.set_ylabel(short(first.index.name, 32))
    ax.set_xlabel("share of new responses in their interval")
    legend(ax, 1 if len(tables) > 1 else 2)
    return ax


def _expected_range(ax: "Axes", x: np.ndarray | pd.Series, table: pd.DataFrame) -> None:
    """The expected range as a band, or as a bar where there is one place alone."""
    lower, upper = table["expected_lower"], table["expected_upper"]
    if lower.notna().any():
        label = "expected in 95 % of samples"
        width = 6.0 if len(table) == 1 else 0.0
        ax.fill_between(x, lower, upper, color=BAND, linewidth=width, label=label)


def _rounded_down(share: float) -> float:
    """Where an axis of shares begins, a little below the smallest."""
    return max(0.0, float(np.floor(10 * share - 0.5)) / 10)


def draw_stability(
    path: pd.DataFrame, chosen: float, alpha: float, response: str, ax: "Axes | None" = None
) -> "Axes":
    """Mean widths of ``exact``, ``stable`` and ``ball`` intervals over ``penalty``, NaN where there are
    none, and the ``share`` of the stable width that is owed to stability."""
    ax = new_axes(ax)
    x = path["penalty"].to_numpy()
    widths = path[list(_METHODS)].to_numpy()
    widths = np.where(np.isfinite(widths), widths, np.nan)
    for (name, look), values in zip(_METHODS.items(), widths.T, strict=True):
        if np.isfinite(values).any():
            ax.plot(x, values, markersize=5, label=name, **look)
    _penalty_axis(ax, x, chosen, "this fit")
    if np.isfinite(widths).any() and np.nanmax(widths) > 8 * np.nanmin(widths):
        ax.set_yscale("log")
    ax.set_ylabel(f"mean width for {short(response, 24)}, alpha = {alpha:g}")
    right = right_axes(ax, "due to stability, % of the stable width")
    label = "share due to stability"
    right.plot(x, 100 * path["share"], color=GREY, linestyle=":", marker=".", label=label)
    right.set_ylim(0, 100)
    legend(ax, 3, right)
    return ax


def draw_criterion(path: pd.DataFrame, chosen: float, label: str, ax: "Axes | None" = None) -> "Axes":
    """The ``criterion``, ``label`` in words, over ``penalty`` with a standard error ``se`` each way."""
    ax = new_axes(ax)
    x, y, se = (path[name].to_numpy() for name in ("penalty", "criterion", "se"))
    ax.fill_between(x, y - se, y + se, color=PALE, linewidth=0, label="one standard error")
    ax.plot(x, y, color=GREEN, marker="o", markersize=5, label="on the pilot rows")
    _penalty_axis(ax, x, chosen, "chosen")
    ax.set_ylabel(label)
    legend(ax, 3)
    return ax


def _penalty_axis(ax: "Axes", x: np.ndarray, marked: float, why: str) -> None:
    """A logarithmic axis, with room for a penalty of 0, and one penalty marked."""
    positive = x[x > 0]
    if len(positive) and (x == 0).any():
        ax.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
    elif len(positive):
        ax.set_xscale("log")
    ax.axvline(marked, color=RED, linewidth=1.2, linestyle="--", label=f"{why}: {marked:g}")
    ax.set_xlabel("penalty")


def draw_drift(
    paths: pd.DataFrame, p: pd.Series, since: tuple[int, Hashable] | None, ax: "Axes | None" = None
) -> "Axes":
    """log10 of the evidence ``paths`` (m, 3) over rows, its limits, and the running mean of p-values (m,)
    on the right axis. ``since`` is the position and label of the row where a rise began, if one did."""
    ax = new_axes(ax)
    rows = np.arange(1, len(paths) + 1)
    for name, look in _SCORES.items():
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
    right = right_axes(ax, "mean p")
    known = p.to_numpy()[p.notna().to_numpy()]
    window = max(10, len(known) // 8)
    mean = pd.Series(known).rolling(window, min_periods=min(5, len(known))).mean()
    label = f"mean p of {p.name}, last {window} rows"
    right.plot(rows[p.notna().to_numpy()], mean, color=GREY, linewidth=1.0, label=label)
    right.axhline(0.5, color=GREY, linewidth=0.6)
    right.set_ylim(0, 1)
    legend(ax, 2, right)
    return ax
