"""Intervals with predictions, and responses where they are known."""

import numpy as np

from ..tables import percent
from .style import BAND, BLACK, BLUE, RED, legend, new_axes, short, tidy

__all__ = ["draw_intervals"]

_MANY = 1500  # points beyond which they are stored as a picture even in vector formats


def draw_intervals(bands, x=None, name=None, ax=None):
    """Intervals against a column, or sorted by prediction.

    Parameters
    ----------
    bands : Bands
    x : (m,) array or Categorical, optional
        Numbers, times, flags or categories, None or NaN where missing; by default rows are sorted by
        their prediction.
    name : str, optional
        Label of ``x``.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax))
    kept = ~np.isnan(bands.lower)
    if x is not None:
        kept &= np.array([value == value and value is not None for value in x], dtype=bool)
    mean, lower, upper = (values[kept] for values in (bands.mean, bands.lower, bands.upper))
    y = None if bands.y is None else bands.y[kept]
    places, levels = _places(None if x is None else x[kept], mean)
    low, high = _limits(mean, lower, upper, y)
    ends = np.clip(lower, low, high), np.clip(upper, low, high)
    kind = {"two-sided": "interval"}.get(bands.attrs["side"], f"{bands.attrs['side']} bound")
    label = f"{percent(1 - bands.attrs['alpha'])} {kind}"
    _draw_bands(ax, places, mean, *ends, levels is None, label)
    if bands.attrs["side"] == "two-sided":
        _mark_infinite(ax, places, np.isinf(lower), np.isinf(upper), low, high)
    if y is not None:
        _draw_responses(ax, places, y, (lower <= y) & (y <= upper), bands.training)
    if len(mean):
        ax.set_ylim(low, high)
    _label_x(ax, levels, places, name, x is None)
    ax.set_ylabel(short(bands.attrs["response"], 40))
    if len(mean):
        legend(ax)
    return ax


def _places(x, mean):
    """Positions on the x axis, and the levels where it is categorical."""
    if x is None:
        places = np.empty(len(mean))
        places[np.argsort(mean, kind="stable")] = np.arange(1, len(mean) + 1)
        return places, None
    if np.issubdtype(np.asarray(x).dtype, np.datetime64):
        return np.asarray(x), None
    if np.asarray(x).dtype != bool:
        try:
            return np.asarray(x, dtype=float), None
        except (TypeError, ValueError):
            pass
    levels = [str(level) for level in getattr(x, "categories", sorted({str(value) for value in x}))]
    codes = np.array([levels.index(str(value)) for value in x])
    places = codes.astype(float)
    for code in range(len(levels)):  # spread by prediction, so that no row hides another
        mine = np.flatnonzero(codes == code)
        order = mine[np.argsort(mean[mine], kind="stable")]
        places[order] += np.linspace(-0.35, 0.35, len(mine)) if len(mine) > 1 else 0.0
    return places, levels


def _limits(mean, lower, upper, y):
    """Limits of the y axis that hold all that is finite."""
    values = np.concatenate([mean, lower, upper, [] if y is None else y])
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def _draw_bands(ax, places, mean, lower, upper, numeric, label):
    """A band where the intervals follow x smoothly, else one bar a row."""
    order = np.argsort(places, kind="stable")
    if numeric and len(mean) > 25 and _is_curve(mean[order]):
        ax.fill_between(places[order], lower[order], upper[order], color=BAND, linewidth=0, label=label)
        for ends in (lower, upper):
            ax.plot(places[order], ends[order], color=BLUE, linewidth=0.6)
        ax.plot(places[order], mean[order], color=BLUE, linewidth=1.8, label="prediction")
        return
    thick = float(np.clip(240.0 / max(len(mean), 1), 0.8, 6.0))
    many = len(mean) > _MANY
    ax.vlines(places, lower, upper, color=BAND, linewidth=thick, label=label, rasterized=many)
    size = float(np.clip(500.0 / max(len(mean), 1), 3.0, 26.0))
    ax.scatter(
        places, mean, s=size, color=BLUE, marker="D", label="prediction", rasterized=many, zorder=2.5
    )


def _is_curve(mean):
    """Whether predictions in the order of x turn a few times at most."""
    steps = np.diff(mean)
    ups = np.sign(steps[np.abs(steps) > 1e-9 * np.ptp(mean)])
    return int(np.sum(ups[1:] != ups[:-1])) <= 4 + len(mean) // 50


def _mark_infinite(ax, places, below, above, low, high):
    """Triangles where an end is infinite."""
    label = f"goes on to infinity ({int(np.sum(below | above))})"
    for ends, height, marker in ((above, high, "^"), (below, low, "v")):
        at = places[ends]
        if len(at):
            at = np.sort(at)[:: max(1, len(at) // 25)]  # a few say it
            ax.scatter(
                at,
                np.full(len(at), height),
                marker=marker,
                s=36,
                color=BLUE,
                clip_on=False,
                zorder=4,
                label=label,
            )
            label = "_said"


def _draw_responses(ax, places, y, inside, training):
    """Responses as points: dots in the interval, crosses outside."""
    known = ~np.isnan(y)
    size = float(np.clip(3000.0 / max(len(y), 1), 4.0, 18.0))
    what = "training response" if training else "response"
    many = len(y) > _MANY
    for hit, marker, colour, words in ((True, "o", BLACK, "inside"), (False, "x", RED, "outside")):
        mine = known & (inside == hit)
        if mine.any():
            ax.scatter(
                places[mine],
                y[mine],
                s=size if hit else 1.6 * size,
                color=colour,
                marker=marker,
                linewidths=0 if hit else 1.2,
                zorder=3,
                label=f"{what} {words} ({int(mine.sum())})",
                rasterized=many,
            )


def _label_x(ax, levels, places, name, by_prediction):
    if by_prediction:
        ax.set_xlabel("rows, by prediction")
    else:
        ax.set_xlabel(short(name))
    if levels is not None:
        ax.set_xticks(range(len(levels)), [short(level, 18) for level in levels])
        ax.set_xlim(-0.6, len(levels) - 0.4)
        if len(levels) > 6:
            ax.tick_params(axis="x", rotation=45)
    elif len(places) and np.issubdtype(places.dtype, np.floating) and np.ptp(places) > 0:
        margin = 0.02 * np.ptp(places)
        ax.set_xlim(places.min() - margin, places.max() + margin)
