"""What a penalty does: widths by method over a path, and the criterion that chose one."""

import numpy as np

from .style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, legend, new_axes, short, tidy

__all__ = ["draw_criterion", "draw_stability"]

_LINES = {
    "exact": {"color": BLACK, "marker": "o", "linestyle": "-"},
    "stable": {"color": BLUE, "marker": "s", "linestyle": "--"},
    "ball": {"color": ORANGE, "marker": "^", "linestyle": "-."},
}


def draw_stability(path, chosen, alpha, response, ax=None):
    """Mean width of exact, stable and ball intervals over penalties, and the share due to stability.

    Parameters
    ----------
    path : DataFrame
        ``penalty``, ``exact``, ``stable``, ``ball`` (mean widths, NaN where there are none) and ``share``.
    chosen : float
        Penalty to mark.
    alpha : float
    response : str
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax))
    x = path["penalty"].to_numpy()
    for name, look in _LINES.items():
        values = path[name].to_numpy()
        if np.isfinite(values).any():
            ax.plot(x, np.where(np.isinf(values), np.nan, values), markersize=5, label=name, **look)
    _penalty_axis(ax, x, chosen)
    drawn = path[list(_LINES)].to_numpy()
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) and drawn.max() > 8 * drawn.min():
        ax.set_yscale("log")
    ax.set_ylabel(f"mean width for {short(response, 24)}, alpha = {alpha:g}")
    share = ax.twinx()
    share.spines["top"].set_visible(False)
    share.plot(
        x, 100 * path["share"], color=GREY, linestyle=":", marker=".", label="share due to stability"
    )
    share.set_ylim(0, 100)
    share.set_ylabel("due to stability, % of the stable width", color=GREY)
    share.tick_params(axis="y", colors=GREY)
    legend(ax, 3, [*ax.get_legend_handles_labels()[0], *share.get_legend_handles_labels()[0]])
    return ax


def draw_criterion(path, chosen, label, ax=None):
    """The criterion over penalties, the chosen one marked, with a standard error each way.

    Parameters
    ----------
    path : DataFrame
        ``penalty``, ``criterion`` and ``se``.
    chosen : float
    label : str
        What the criterion is, in words.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax))
    x, y, se = (path[name].to_numpy() for name in ("penalty", "criterion", "se"))
    ax.fill_between(x, y - se, y + se, color="#e2e2e2", linewidth=0, label="one standard error")
    ax.plot(x, y, color=GREEN, marker="o", markersize=5, label="on the pilot rows")
    _penalty_axis(ax, x, chosen)
    ax.set_ylabel(label)
    legend(ax, 3)
    return ax


def _penalty_axis(ax, x, chosen):
    positive = x[x > 0]
    if len(positive):
        ax.set_xscale("symlog" if (x == 0).any() else "log", **_linear_part(x, positive))
    ax.axvline(chosen, color=RED, linewidth=1.2, linestyle="--", label=f"chosen: {chosen:g}")
    ax.set_xlabel("penalty")


def _linear_part(x, positive):
    return {"linthresh": positive.min(), "linscale": 0.5} if (x == 0).any() else {}
