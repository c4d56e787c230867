"""What the figures share: palette, axes, points, labels."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..tables import shortened, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # matplotlib takes long to import

BLACK, BLUE, RED, GREY = "#000000", "#0072b2", "#d55e00", "#767676"
BAND = "#b9d9ee"  # sky on white: light enough for dark points, dark enough for print
DASHED: dict[str, Any] = {"color": GREY, "linewidth": 1.0, "linestyle": "--"}
Grid = Literal["x", "y", "both"]
MANY = 1500  # points beyond which they are stored as a picture even in vector formats


def new_axes(ax: Axes | None, width: float = 6.4, height: float = 4.0, grid: Grid = "y") -> Axes:
    """The axes to draw in, the given ones or those of a new figure: no box, a faint grid behind."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color="#dddddd", linewidth=0.6)
    return ax


def legend(ax: Axes, columns: int = 2, right: Axes | None = None) -> None:
    """A legend above the axes, where it hides nothing; of the axes on the right too."""
    handles = [handle for each in (ax, right) if each for handle in each.get_legend_handles_labels()[0]]
    labels = [str(handle.get_label()) for handle in handles]
    ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=columns)


def point_size(count: int) -> float:
    """The size of so many points that they stay apart."""
    return float(np.clip(3000.0 / max(count, 1), 4.0, 18.0))


def short(text: object, width: int = 48) -> str:
    """A label that fits its axis; dollar signs are no mathematics here."""
    return shortened(text, width).replace("$", r"\$")


def shorts(texts: Iterable[object], width: int) -> list[str]:
    """Labels that fit, and differ where the texts do."""
    return [text.replace("$", r"\$") for text in told_apart(texts, width)]
