"""The figure of two responses: joint boxes over the points that they are to hold; for ``plot_pairs``."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..shown import Shown
from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, RED, legend, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_pairs"]


def draw_pairs(pair: tuple[Shown, Shown], boxes: np.ndarray, ax: "Axes | None" = None) -> "Axes":
    """Two responses against each other: all known responses as faint points, and at the rows ``boxes``
    (places) the box, its prediction, and its own response, a cross where the box misses it."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    ax = new_axes(ax, 5.6, 4.8, grid="both")
    one, two = pair
    rest = np.setdiff1d(np.arange(len(one.mean)), boxes)
    if one.y is not None and two.y is not None and len(rest):
        what = "other training responses" if one.training else "other responses"
        ax.scatter(one.y[rest], two.y[rest], s=9, color=GREY, linewidths=0, label=what, zorder=2)
    mine = one.take(boxes), two.take(boxes)
    x, y = (_ends(each) for each in mine)
    corners = np.stack([x[[0, 1, 1, 0]].T, y[[0, 0, 1, 1]].T], axis=-1)
    label = f"{percent(1 - one.attrs['alpha'])} box, all responses at once"
    look: dict[str, Any] = {"facecolors": to_rgba(BAND, 0.3), "edgecolors": BLUE, "linewidths": 0.8}
    ax.add_collection(PolyCollection(list(corners), label=label, zorder=1.5, **look))
    ax.scatter(mine[0].mean, mine[1].mean, s=22, color=BLUE, marker="D", label="prediction", zorder=3)
    if one.y is not None and two.y is not None:
        _draw_own(ax, *mine)
    ax.autoscale_view()
    ax.set_xlabel(short(one.attrs["response"], 40))
    ax.set_ylabel(short(two.attrs["response"], 40))
    legend(ax)
    return ax


def _ends(shown: Shown) -> np.ndarray:
    """Ends (2, m); infinite ones go beyond all that is finite."""
    ends = np.array([shown.lower, shown.upper])
    known = np.concatenate([ends.ravel(), shown.mean, [] if shown.y is None else shown.y])
    known = known[np.isfinite(known)]
    margin = 0.1 * float(np.ptp(known)) or 1.0
    return np.clip(ends, known.min() - margin, known.max() + margin)


def _draw_own(ax: "Axes", one: Shown, two: Shown) -> None:
    """The responses of the boxes' own rows, each with a line to its prediction."""
    assert one.y is not None and two.y is not None
    known = ~(np.isnan(one.y) | np.isnan(two.y))
    inside = np.ones(len(known), dtype=bool)
    for each in (one, two):
        assert each.y is not None
        inside &= (each.lower <= each.y) & (each.y <= each.upper)
    ways = np.stack([[one.mean, two.mean], [one.y, two.y]])[:, :, known]
    ax.plot(*np.moveaxis(ways, 1, 0), color=BLACK, linewidth=0.6, zorder=2)
    dot: dict[str, Any] = {"color": BLACK, "marker": "o", "s": 20}
    cross: dict[str, Any] = {"color": RED, "marker": "x", "s": 32}
    for words, these, look in (("inside", known & inside, dot), ("outside", known & ~inside, cross)):
        if these.any():
            label = f"response {words} ({int(these.sum())})"
            ax.scatter(one.y[these], two.y[these], label=label, zorder=3.5, **look)
