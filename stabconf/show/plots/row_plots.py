"""Figures of rows: their intervals with predictions and responses, and the p-values of one of them.

Drawn for ``plot_intervals``, ``plot_conformity`` and written reports.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..shown import Shown
from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, PALE, RED, legend, new_axes, short, shorts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_conformity", "draw_intervals"]

_MANY = 1500  # points beyond which they are stored as a picture even in vector formats


def draw_intervals(
    shown: Shown,
    x: pd.Series | np.ndarray | None = None,
    name: str | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
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
        _mark_infinite(ax, shown, places, limits)
    if shown.y is not None:
        _draw_responses(ax, shown, places, shown.y)
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


def _limits(shown: Shown) -> tuple[float, float]:
    """Limits of the y axis that hold all that is finite."""
    values = np.concatenate([shown.mean, shown.lower, shown.upper, [] if shown.y is None else shown.y])
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def _draw_ends(
    ax: "Axes", shown: Shown, places: np.ndarray, limits: tuple[float, float], numeric: bool
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
    many = len(mean) > _MANY
    ax.vlines(places, lower, upper, color=BAND, linewidth=thick, label=label, rasterized=many)
    look: dict[str, Any] = {"color": BLUE, "marker": "D", "rasterized": many, "zorder": 2.5}
    ax.scatter(places, mean, s=size, label="prediction", **look)


def _is_curve(mean: np.ndarray) -> bool:
    """Whether predictions in the order of x turn a few times at most."""
    steps = np.diff(mean)
    ups = np.sign(steps[np.abs(steps) > 1e-9 * np.ptp(mean)])
    return int(np.sum(ups[1:] != ups[:-1])) <= 4 + len(mean) // 50


def _mark_infinite(ax: "Axes", shown: Shown, places: np.ndarray, limits: tuple[float, float]) -> None:
    """Triangles where an end is infinite."""
    label = f"goes on to infinity ({int(np.sum(np.isinf(shown.widths)))})"
    for ends, height, marker in ((shown.upper, limits[1], "^"), (shown.lower, limits[0], "v")):
        at = np.sort(places[np.isinf(ends)])
        if len(at):
            at = at[:: max(1, len(at) // 25)]  # a few say it
            look: dict[str, Any] = {"marker": marker, "color": BLUE, "clip_on": False, "zorder": 4}
            ax.scatter(at, np.full(len(at), height), s=36, label=label, **look)
            label = "_said"


def _draw_responses(ax: "Axes", shown: Shown, places: np.ndarray, y: np.ndarray) -> None:
    """Known responses as points: dots in the interval, crosses outside."""
    inside = (shown.lower <= y) & (y <= shown.upper)
    what = "training response" if shown.training else "response"
    size = float(np.clip(3000.0 / max(len(y), 1), 4.0, 18.0))
    dot: dict[str, Any] = {"s": size, "color": BLACK, "marker": "o", "linewidths": 0}
    cross: dict[str, Any] = {"s": 1.6 * size, "color": RED, "marker": "x", "linewidths": 1.2}
    for words, these, look in (("inside", inside, dot), ("outside", ~inside, cross)):
        mine = these & ~np.isnan(y)
        if mine.any():
            label = f"{what} {words} ({int(mine.sum())})"
            ax.scatter(places[mine], y[mine], zorder=3, label=label, rasterized=len(y) > _MANY, **look)


def _scale_x(ax: "Axes", levels: list[str] | None, places: np.ndarray) -> None:
    """Names of the levels, or limits with a small margin."""
    if levels is not None:
        ax.set_xticks(range(len(levels)), shorts(levels, 18))
        ax.set_xlim(-0.6, len(levels) - 0.4)
        if len(levels) > 6:
            ax.tick_params(axis="x", rotation=45)
    elif len(places) and np.issubdtype(places.dtype, np.floating) and np.ptp(places) > 0:
        margin = 0.02 * np.ptp(places)
        ax.set_xlim(places.min() - margin, places.max() + margin)


def draw_conformity(
    z: np.ndarray,
    p: np.ndarray,
    p_lo: np.ndarray,
    p_up: np.ndarray,
    pieces: Sequence[tuple[float, float]],
    alpha: float,
    prediction: float,
    response: str,
    ax: "Axes | None" = None,
    z_hat: Sequence[float] = (),
) -> "Axes":
    """p-values over candidate responses z (g,), between their bounds (theory, section 4), with the set,
    the union of ``pieces``, and the responses ``z_hat`` of the fits that the bounds are from marked."""
    ax = new_axes(ax)
    if np.any(p_up > p_lo):  # bounds that say something
        ax.fill_between(z, p_lo, p_up, color=PALE, linewidth=0, label="between p_lo and p_up")
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
    ax.set_xlim(z[0], z[-1])
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"candidate for {short(response, 40)}")
    ax.set_ylabel("p-value")
    legend(ax, 3)
    return ax
