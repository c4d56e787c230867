"""Distributions of widths: a histogram, or a box and points a group."""

import numpy as np

from ..tables import percent
from .style import BAND, BLACK, BLUE, new_axes, short, tidy

__all__ = ["draw_widths"]

_FEW = 300  # points a group up to which each is drawn


def draw_widths(widths, labels, name, attrs, ax=None):
    """Widths in all or by group.

    Parameters
    ----------
    widths : (m,) array
        NaN for rows without an interval; infinite ones are counted beside the group's name.
    labels : Categorical or None
        Groups.
    name : str or None
        What the groups are of.
    attrs : dict
        Of the intervals.
    ax : Axes, optional
    """
    groups = [] if labels is None else list(labels.categories)
    ax = tidy(new_axes(ax, height=4.0 if labels is None else 1.5 + 0.5 * len(groups)), "x")
    what = "width" if attrs["side"] == "two-sided" else "margin"
    ax.set_xlabel(
        f"{what} of the {percent(1 - attrs['alpha'])} interval for {short(attrs['response'], 32)}"
    )
    if labels is None:
        _histogram(ax, widths)
    elif groups:
        _boxes(ax, [widths[labels == group] for group in groups], groups)
    if labels is not None:
        ax.set_ylabel(short(name, 32))
    return ax


def _histogram(ax, widths):
    finite = widths[np.isfinite(widths)]
    spread = float(np.ptp(finite)) if len(finite) else 0.0
    if len(finite):
        middle = float(np.median(finite))
        flat = spread <= 1e-6 * abs(middle)  # all the same but for rounding
        limits = (0.9 * middle, 1.1 * middle) if flat and middle else None
        bins = int(np.clip(np.sqrt(len(finite)), 8, 40))  # not "auto": a far width would make millions
        ax.hist(finite, bins, range=limits, color=BAND, edgecolor=BLUE, linewidth=0.7)
        ax.axvline(middle, color=BLACK, linewidth=1.4, linestyle="--", label=f"median {middle:.4g}")
        mean = float(np.mean(finite))
        ax.axvline(mean, color=BLACK, linewidth=1.4, linestyle=":", label=f"mean {mean:.4g}")
    infinite = int(np.sum(np.isinf(widths)))
    if infinite:
        ax.plot([], [], " ", label=f"{infinite} infinite, not drawn")
    if len(finite) or infinite:
        ax.legend(frameon=False, loc="best")
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_ylabel("intervals")


def _boxes(ax, values, groups):
    finite = [each[np.isfinite(each)] for each in values]
    places = np.arange(len(groups), 0, -1)
    drawn = ax.boxplot(finite, orientation="horizontal", positions=places, widths=0.5, **_BOX)
    for box in drawn["boxes"]:
        box.set(facecolor=BAND, edgecolor=BLUE)
    for place, each in zip(places, finite, strict=True):
        if len(each) <= _FEW:
            spread = 0.18 * np.sin(2.4 * np.arange(len(each)))  # the golden angle: no two beside each other
            ax.scatter(each, place + spread, s=6, color=BLACK, linewidths=0, zorder=3)
    names = []
    for group, each in zip(groups, values, strict=True):
        infinite = int(np.sum(np.isinf(each)))
        count = int(np.sum(~np.isnan(each)))
        more = f", {infinite} infinite" if infinite else ""
        names.append(f"{short(group, 24)}\n(n = {count}{more})")
    ax.set_yticks(places, names)


_BOX = {
    "patch_artist": True,
    "showfliers": False,
    "whis": (5, 95),
    "medianprops": {"color": BLACK, "linewidth": 1.6},
    "whiskerprops": {"color": BLUE},
    "capprops": {"color": BLUE},
}
