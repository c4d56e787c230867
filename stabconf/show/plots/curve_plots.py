"""Figures of one number over another: coverage over levels, widths over penalties, evidence over rows, and
of the response of one row its p-values and its predictive distribution.

Drawn for ``plot_coverage``, ``plot_stability``, ``plot_conformity``, `Predictive.plot`, `Selection.plot`,
`ExchangeabilityCheck.plot` and written reports.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..tables import percent
from .style import BAND, BLACK, BLUE, DASHED, GREY, RED, Axes, legend, new_axes, short, shorts

_ORANGE, _GREEN, _PALE, _PALE_ORANGE = "#e69f00", "#009e73", "#e2e2e2", "#f0c566"
_SHARE = "share of new responses in their interval"
_METHODS = ("exact", "stable", "ball")
_LOOKS: tuple[dict[str, Any], ...] = (  # of three lines
    {"color": BLACK, "linestyle": "-"},
    {"color": BLUE, "linestyle": "--"},
    {"color": _ORANGE, "linestyle": "-."},
)
_LIMITS = ((20.0, "1/20", ":"), (100.0, "1/100", (0, (1, 3))))
_KINDS = ((BLUE, BAND, "o"), (RED, _PALE_ORANGE, "D"))  # of intervals: point, range, marker
_TAILS = 0.01  # share of the steps on either side that need not be in sight
_MARGIN = 0.3  # of the range between them, to either side


def draw_coverage(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Coverage over levels, from `coverage_table`, with the range in which it should fall."""
    ax = new_axes(ax, 4.8, 4.6, grid="both")
    nominal = 1.0 - table["alpha"].to_numpy()
    _expected_range(ax, nominal, table)
    ax.plot([0, 1], [0, 1], label="as asked for", **DASHED)
    label = f"{int(table['count'].max())} new rows"
    ax.plot(nominal, table["coverage"], color=BLACK, marker="o", markersize=4.5, label=label)
    low = _rounded_down(min(nominal.min(), table["coverage"].min()))
    ax.set(xlim=(low, 1.0), ylim=(low, 1.01), xlabel="coverage asked for, 1 - alpha", ylabel=_SHARE)
    ax.legend(frameon=False, loc="upper left")
    return ax


def draw_coverage_along(table: pd.DataFrame, attrs: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Coverage in parts of the rows by prediction, from `coverage_along`; ``attrs`` are the intervals'."""
    ax = new_axes(ax)
    share, place, nominal = table["coverage"], table["prediction"], 1.0 - attrs["alpha"]
    _expected_range(ax, place, table)
    ax.axhline(nominal, label=f"promised over all rows, {percent(nominal)}", **DASHED)
    odd = (share < table["expected_lower"]) | (share > table["expected_upper"])
    label = f"about {int(table['count'].median())} rows each"
    ax.plot(place[~odd], share[~odd], "o", color=BLUE, markersize=5, label=label)
    if odd.any():
        ax.plot(place[odd], share[odd], "D", color=RED, markersize=6, label="outside that range")
    low = float(np.nanmin([nominal, share.min(), table["expected_lower"].min()]))
    xlabel = f"prediction of {short(attrs['response'], 32)}, in parts of equal counts"
    ax.set(ylim=(_rounded_down(low), 1.01), xlabel=xlabel, ylabel=_SHARE)
    legend(ax)
    return ax


def draw_coverage_by(
    tables: dict[str, pd.DataFrame], attrs: dict[str, Any], ax: Axes | None = None
) -> Axes:
    """Coverage by group, from `WidthReport` tables, of one or two kinds of intervals, with the ranges in
    which it should fall; ``attrs`` are the intervals'. Groups without a judged row are left out."""
    first = next(iter(tables.values()))
    judged = np.any([table["coverage"].notna() for table in tables.values()], axis=0)
    known = list(first.index[judged])
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
    ax.axvline(nominal, label=f"as asked for, {percent(nominal)}", **DASHED)
    counts = first["count"].loc[known].astype(int)
    named = zip(shorts(known, 24), counts, strict=True)
    ax.set_yticks(places, [f"{group}\n(n = {count})" for group, count in named])
    ax.set(xlim=(_rounded_down(lowest), 1.01), xlabel=_SHARE)
    ax.set(ylim=(0.4, len(known) + 0.6), ylabel=short(first.index.name, 32))
    legend(ax, 1 if len(tables) > 1 else 2)
    return ax


def _expected_range(ax: Axes, x: np.ndarray | pd.Series, table: pd.DataFrame) -> None:
    """The expected range as a band, or as a bar where there is one place alone."""
    lower, upper = table["expected_lower"], table["expected_upper"]
    if lower.notna().any():
        label = "expected in 95 % of samples"
        width = 6.0 if len(table) == 1 else 0.0
        ax.fill_between(x, lower, upper, color=BAND, linewidth=width, label=label)


def _rounded_down(share: float) -> float:
    """Where an axis of shares begins, a little below the smallest."""
    return max(0.0, float(np.floor(10 * share - 0.5)) / 10)


def _right_axes(ax: Axes, label: str) -> Axes:
    """Axes with a grey scale of their own on the right."""
    right = ax.twinx()
    right.spines["top"].set_visible(False)
    right.set_ylabel(label, color=GREY)
    right.tick_params(axis="y", colors=GREY)
    return right


def draw_stability(
    path: pd.DataFrame, chosen: float, alpha: float, response: str, ax: Axes | None = None
) -> Axes:
    """Mean widths of ``exact``, ``stable`` and ``ball`` intervals over ``penalty``, NaN where there are
    none, and the ``share`` of the stable width that is owed to stability."""
    ax = new_axes(ax)
    x = path["penalty"].to_numpy()
    widths = path[list(_METHODS)].to_numpy()
    widths = np.where(np.isfinite(widths), widths, np.nan)
    for name, values, look, marker in zip(_METHODS, widths.T, _LOOKS, "os^", strict=True):
        if np.isfinite(values).any():
            ax.plot(x, values, marker=marker, markersize=5, label=name, **look)
    _penalty_axis(ax, x, chosen, "this fit")
    if np.isfinite(widths).any() and np.nanmax(widths) > 8 * np.nanmin(widths):
        ax.set_yscale("log")
    ax.set_ylabel(f"mean width for {short(response, 24)}, alpha = {alpha:g}")
    right = _right_axes(ax, "due to stability, % of the stable width")
    label = "share due to stability"
    right.plot(x, 100 * path["share"], color=GREY, linestyle=":", marker=".", label=label)
    right.set_ylim(0, 100)
    legend(ax, 3, right)
    return ax


def draw_criterion(path: pd.DataFrame, chosen: float, label: str, ax: Axes | None = None) -> Axes:
    """The ``criterion``, ``label`` in words, over ``penalty`` with a standard error ``se`` each way."""
    ax = new_axes(ax)
    x, y, se = (path[name].to_numpy() for name in ("penalty", "criterion", "se"))
    ax.fill_between(x, y - se, y + se, color=_PALE, linewidth=0, label="one standard error")
    ax.plot(x, y, color=_GREEN, marker="o", markersize=5, label="on the pilot rows")
    _penalty_axis(ax, x, chosen, "chosen")
    ax.set_ylabel(label)
    legend(ax, 3)
    return ax


def _penalty_axis(ax: Axes, x: np.ndarray, marked: float, why: str) -> None:
    """A logarithmic axis, with room for a penalty of 0, and one penalty marked."""
    positive = x[x > 0]
    if len(positive) and (x == 0).any():
        ax.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
    elif len(positive):
        ax.set_xscale("log")
    ax.axvline(marked, color=RED, linewidth=1.2, linestyle="--", label=f"{why}: {marked:g}")
    ax.set_xlabel("penalty")


def draw_drift(
    paths: pd.DataFrame, p: pd.Series, since: tuple[int, Hashable] | None, ax: Axes | None = None
) -> Axes:
    """log10 of the evidence ``paths`` (m, 3) over rows, its limits, and the running mean of p-values (m,)
    on the right axis. ``since`` is the position and label of the row where a rise began, if one did."""
    ax = new_axes(ax)
    rows = np.arange(1, len(paths) + 1)
    for (name, path), look in zip(paths.items(), _LOOKS, strict=True):
        ax.plot(rows, path, linewidth=1.5, label=name, **look)
    beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "fontsize": "small"}
    for value, words, line in _LIMITS:
        ax.axhline(np.log10(value), color=RED, linewidth=1.0, linestyle=line)
        place = (1.0, np.log10(value))
        ax.annotate(words, place, (-2, 2), xycoords=("axes fraction", "data"), color=RED, **beside)
    if since is not None:
        label = f"rises from about row {short(since[1], 16)}"
        ax.axvline(since[0] + 1, color=RED, linewidth=1.2, linestyle="--", label=label)
    ax.set_ylim(top=max(2.3, 1.05 * float(np.max(paths.to_numpy()))))
    ax.set(xlabel="new rows, in their order", ylabel="evidence, log10")
    right = _right_axes(ax, "mean p")
    known = p.notna().to_numpy()
    window = max(10, int(known.sum()) // 8)
    mean = p[known].rolling(window, min_periods=min(5, int(known.sum()))).mean()
    label = f"mean p of {p.name}, last {window} rows"
    right.plot(rows[known], mean, color=GREY, linewidth=1.0, label=label)
    right.axhline(0.5, color=GREY, linewidth=0.6)
    right.set_ylim(0, 1)
    legend(ax, 2, right)
    return ax


def draw_conformity(
    z: np.ndarray,
    p: np.ndarray,
    p_lo: np.ndarray,
    p_up: np.ndarray,
    pieces: Sequence[tuple[float, float]],
    alpha: float,
    prediction: float,
    response: str,
    ax: Axes | None = None,
    z_hat: Sequence[float] = (),
) -> Axes:
    """p-values over candidate responses z (g,), between their bounds (theory, section 4), with the set,
    the union of ``pieces``, and the responses ``z_hat`` of the fits that the bounds are from marked."""
    ax = new_axes(ax)
    gap = p_up - p_lo
    if np.any(gap > 0) and np.mean(gap) < 0.95:  # bounds that say something
        ax.fill_between(z, p_lo, p_up, color=_PALE, linewidth=0, label="between p_lo and p_up")
        for bound in (p_lo, p_up):
            ax.plot(z, bound, color=GREY, linewidth=0.9, linestyle="--")
    ax.plot(z, p, color=BLACK, linewidth=1.5, label="p, exact")
    ax.axhline(alpha, color=RED, linewidth=1.0, linestyle=":", label=f"alpha = {alpha:g}")
    label = f"{percent(1 - alpha)} set"
    for piece in pieces:
        ends = np.clip(piece, z[0], z[-1])
        ax.plot(ends, [alpha, alpha], color=BLUE, linewidth=5, solid_capstyle="butt", label=label, zorder=3)
        ax.vlines(ends[np.isfinite(piece)], 0, alpha, color=BLUE, linewidth=1.0)
        label = "_said"
    ax.axvline(prediction, color=BLUE, linewidth=0.9, linestyle="-.", label="prediction")
    seen = [each for each in z_hat if z[0] <= each <= z[-1]]
    if seen:
        look: dict[str, Any] = {"color": RED, "s": 28, "marker": "^", "zorder": 4, "clip_on": False}
        ax.scatter(seen, np.zeros(len(seen)), label="z_hat", **look)
    xlabel = f"candidate for {short(response, 40)}"
    ax.set(xlim=(z[0], z[-1]), ylim=(0, 1.02), xlabel=xlabel, ylabel="p-value")
    legend(ax, 3)
    return ax


def draw_predictive(
    lower: np.ndarray,
    upper: np.ndarray,
    prediction: float,
    response: str,
    y: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The band between two cdfs of one response: a step up of the upper one at each of ``lower`` (n,), of
    the lower one at each of ``upper`` (n,), where finite. ``y`` is a response to mark. Steps far out in the
    tails may be out of sight."""
    ax = new_axes(ax, grid="both")
    count = len(lower) + 1
    marks = np.array([prediction] if y is None else [prediction, y])
    finite = np.concatenate([each[np.isfinite(each)] for each in (lower, upper, marks)])
    ends = _in_sight(finite, marks)
    at = np.unique(np.concatenate([ends, finite]))
    below = np.searchsorted(np.sort(upper), at, side="right") / count
    above = (1 + np.searchsorted(np.sort(lower), at, side="right")) / count
    ax.fill_between(at, below, above, step="post", color=BAND, linewidth=0, label="between the steps")
    ax.step(at, above, where="post", color=BLUE, linewidth=1.1, linestyle="--", label="upper cdf")
    ax.step(at, below, where="post", color=BLACK, linewidth=1.1, label="lower cdf")
    ax.axvline(prediction, color=GREY, linewidth=1.1, linestyle="-.", label="prediction")
    if y is not None:
        ax.axvline(y, color=RED, linewidth=1.1, linestyle=":", label="response")
    ax.set(xlim=ends, ylim=(0, 1.02), xlabel=short(response, 40))
    ax.set_ylabel("probability of a response up to here")
    legend(ax, 3)
    return ax


def _in_sight(finite: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Ends of the axis (2,): all but the farthest steps, all marks, and a margin."""
    low, high = np.quantile(finite, [_TAILS, 1.0 - _TAILS])
    margin = _MARGIN * (high - low) or 1.0
    room = 0.04 * np.ptp(finite) or 1.0
    low, high = max(low - margin, finite.min() - room), min(high + margin, finite.max() + room)
    return np.array([min(low, marks.min() - 0.1 * margin), max(high, marks.max() + 0.1 * margin)])
