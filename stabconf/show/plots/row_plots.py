"""Figures of rows: their intervals with predictions and responses, and boxes of two responses.

Drawn for ``plot_intervals``, ``plot_pairs`` and written reports.
"""

from typing import Any

import numpy as np
import pandas as pd

from ..shown import Shown
from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, MANY, RED, Axes, legend, new_axes, point_size, short, shorts


def draw_intervals(
    shown: Shown, x: pd.Series | np.ndarray | None = None, name: str | None = None, ax: Axes | None = None
) -> Axes:
    """Intervals against ``x`` (m,) called ``name``: numbers, times, flags or categories; rows without a
    value are left out. By default rows are sorted by their prediction."""
    ax = new_axes(ax)
    kept = ~np.isnan(shown.lower)
    values = None if x is None else pd.Series(x)
    if values is not None:
        kept &= values.notna().to_numpy()
        values = values[kept]
    shown = shown.take(kept)
    places, levels = _places(values, shown.mean)
    limits = _limits(shown)
    _draw_ends(ax, shown, places, limits, levels is None)
    if shown.attrs["side"] == "two-sided":
        _mark_beyond(ax, shown, places, limits)
    if shown.y is not None:
        what = "training response" if shown.training else "response"
        inside = (shown.lower <= shown.y) & (shown.y <= shown.upper)
        _draw_judged(ax, places, shown.y, inside, what, point_size(len(places)))
    ax.set_xlabel("rows, by prediction" if x is None else short(name))
    ax.set_ylabel(short(shown.attrs["response"], 40))
    _scale_x(ax, levels, places)
    if len(places):
        ax.set_ylim(limits)
        legend(ax)
    return ax


def _places(x: pd.Series | None, mean: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Positions on the x axis (m,), and the levels where it is categorical."""
    if x is None:
        places = np.empty(len(mean))
        places[np.argsort(mean, kind="stable")] = np.arange(1, len(mean) + 1)
        return places, None
    if pd.api.types.is_datetime64_any_dtype(x.dtype):
        return x.dt.tz_localize(None).to_numpy(), None
    if not pd.api.types.is_bool_dtype(x.dtype):
        try:
            return np.asarray(x.astype(object), dtype=float), None
        except (TypeError, ValueError):
            pass
    categorical = isinstance(x.dtype, pd.CategoricalDtype)
    levels = [str(level) for level in (x.cat.categories if categorical else sorted(set(map(str, x))))]
    codes = np.array([levels.index(str(value)) for value in x])
    places = codes.astype(float)
    for code in range(len(levels)):  # spread by prediction, so that no row hides another
        mine = np.flatnonzero(codes == code)
        order = mine[np.argsort(mean[mine], kind="stable")]
        places[order] += np.linspace(-0.35, 0.35, len(mine)) if len(mine) > 1 else 0.0
    return places, levels


def _limits(shown: Shown, margin: float = 0.04) -> tuple[float, float]:
    """Limits of an axis, with a margin by the range, that hold predictions, responses and all ends but
    those far beyond them, which would leave nothing else to be seen."""
    core = np.concatenate([shown.mean, [] if shown.y is None else shown.y])
    core, ends = core[np.isfinite(core)], np.concatenate([shown.lower, shown.upper])
    ends = ends[np.isfinite(ends)]
    widths = shown.widths[np.isfinite(shown.widths)]
    if len(core) and len(widths):
        reach = 3.0 * max(float(np.ptp(core)), float(np.median(widths)))
        ends = ends[(core.min() - reach <= ends) & (ends <= core.max() + reach)]
    values = np.concatenate([core, ends])
    if len(values) == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = margin * (high - low) or 1.0
    return low - margin, high + margin


def _draw_ends(
    ax: Axes, shown: Shown, places: np.ndarray, limits: tuple[float, float], numeric: bool
) -> None:
    """A band where the intervals follow x smoothly, else one bar per row."""
    side, mean = shown.attrs["side"], shown.mean
    label = f"{percent(1 - shown.attrs['alpha'])} {'interval' if side == 'two-sided' else side + ' bound'}"
    lower, upper = np.clip(shown.lower, *limits), np.clip(shown.upper, *limits)
    order = np.argsort(places, kind="stable")
    if numeric and len(mean) > 25 and _is_curve(mean[order]):
        ax.fill_between(places[order], lower[order], upper[order], color=BAND, linewidth=0, label=label)
        for ends in (lower, upper):
            ax.plot(places[order], ends[order], color=BLUE, linewidth=0.6)
        ax.plot(places[order], mean[order], color=BLUE, linewidth=1.8, label="prediction")
        return
    thick = float(np.clip(240.0 / max(len(mean), 1), 0.8, 6.0))
    size = float(np.clip(500.0 / max(len(mean), 1), 3.0, 26.0))
    many = len(mean) > MANY
    ax.vlines(places, lower, upper, color=BAND, linewidth=thick, label=label, rasterized=many)
    look: dict[str, Any] = {"color": BLUE, "marker": "D", "rasterized": many, "zorder": 2.5}
    ax.scatter(places, mean, s=size, label="prediction", **look)


def _is_curve(mean: np.ndarray) -> bool:
    """Whether predictions in the order of x turn a few times at most."""
    steps = np.diff(mean)
    ups = np.sign(steps[np.abs(steps) > 1e-9 * np.ptp(mean)])
    return int(np.sum(ups[1:] != ups[:-1])) <= 4 + len(mean) // 50


def _mark_beyond(ax: Axes, shown: Shown, places: np.ndarray, limits: tuple[float, float]) -> None:
    """Triangles where an end is infinite, or beyond the axis."""
    below, above = shown.lower < limits[0], shown.upper > limits[1]
    rows = below | above
    where = "to infinity" if np.all(np.isinf(shown.widths[rows])) else "beyond the axis"
    label = f"goes on {where} ({int(np.sum(rows))})"
    for far, height, marker in ((above, limits[1], "^"), (below, limits[0], "v")):
        at = np.sort(places[far])
        if len(at):
            at = at[:: max(1, len(at) // 25)]  # a few say it
            look: dict[str, Any] = {"marker": marker, "color": BLUE, "clip_on": False, "zorder": 4}
            ax.scatter(at, np.full(len(at), height), s=36, label=label, **look)
            label = "_said"


def _draw_judged(
    ax: Axes, x: np.ndarray, y: np.ndarray, inside: np.ndarray, what: str, size: float
) -> None:
    """Points (m,) of responses, called ``what``: dots inside of their intervals, crosses outside."""
    dot: dict[str, Any] = {"s": size, "color": BLACK, "marker": "o", "linewidths": 0}
    cross: dict[str, Any] = {"s": 1.6 * size, "color": RED, "marker": "x", "linewidths": 1.2}
    for words, these, look in (("inside", inside, dot), ("outside", ~inside, cross)):
        mine = these & ~np.isnan(y)
        if mine.any():
            label = f"{what} {words} ({int(mine.sum())})"
            ax.scatter(x[mine], y[mine], zorder=3, label=label, rasterized=len(y) > MANY, **look)


def _scale_x(ax: Axes, levels: list[str] | None, places: np.ndarray) -> None:
    """Names of the levels, or limits with a small margin."""
    if levels is not None:
        ax.set_xticks(range(len(levels)), shorts(levels, 18))
        ax.set_xlim(-0.6, len(levels) - 0.4)
        if len(levels) > 6:
            ax.tick_params(axis="x", rotation=45)
    elif len(places) and np.issubdtype(places.dtype, np.floating) and np.ptp(places) > 0:
        margin = 0.02 * np.ptp(places)
        ax.set_xlim(places.min() - margin, places.max() + margin)


def draw_pairs(pair: tuple[Shown, Shown], boxes: np.ndarray, ax: Axes | None = None) -> Axes:
    """Two responses against each other: all known responses as faint points, and at the rows ``boxes``
    (places) the box, its prediction, and its own response, a cross where the box misses it."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    ax = new_axes(ax, 6.4, 4.8, grid="both")
    one, two = pair
    rest = np.setdiff1d(np.arange(len(one.mean)), boxes)
    if one.y is not None and two.y is not None and len(rest):
        what = "other training responses" if one.training else "other responses"
        ax.scatter(one.y[rest], two.y[rest], s=9, color=GREY, linewidths=0, label=what, zorder=2)
    one, two = one.take(boxes), two.take(boxes)
    x, y = (np.clip([each.lower, each.upper], *_limits(each, 0.1)) for each in (one, two))
    corners = np.stack([x[[0, 1, 1, 0]].T, y[[0, 0, 1, 1]].T], axis=-1)
    label = f"{percent(1 - one.attrs['alpha'])} box, all responses at once"
    look: dict[str, Any] = {"facecolors": to_rgba(BAND, 0.3), "edgecolors": BLUE, "linewidths": 0.8}
    ax.add_collection(PolyCollection(list(corners), label=label, zorder=1.5, **look))
    ax.scatter(one.mean, two.mean, s=22, color=BLUE, marker="D", label="prediction", zorder=3)
    if one.y is not None and two.y is not None:
        known = ~np.isnan(one.y + two.y)
        ways = np.stack([[one.mean, two.mean], [one.y, two.y]])[:, :, known]
        ax.plot(*np.moveaxis(ways, 1, 0), color=BLACK, linewidth=0.6, zorder=2)
        inside = (one.lower <= one.y) & (one.y <= one.upper) & (two.lower <= two.y) & (two.y <= two.upper)
        _draw_judged(ax, one.y, np.where(known, two.y, np.nan), inside, "response", 30.0)
    ax.autoscale_view()
    ax.set(xlabel=short(one.attrs["response"], 40), ylabel=short(two.attrs["response"], 40))
    legend(ax)
    return ax
