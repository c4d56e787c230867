"""What the figures share: palette, axes, labels."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ..tables import shortened, told_apart

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

__all__ = [
    "BAND",
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALE",
    "PALE_PALETTE",
    "RED",
    "legend",
    "new_axes",
    "short",
    "shorts",
]

BLACK, ORANGE, GREEN, BLUE = "#000000", "#e69f00", "#009e73", "#0072b2"
RED, GREY = "#d55e00", "#767676"
BAND = "#b9d9ee"  # sky on white: light enough for dark points, dark enough for print
PALE = "#e2e2e2"
Grid = Literal["x", "y", "both"]
PALE_PALETTE = ("#66aad1", "#f0c566", "#66c5ab", "#e0afca", "#9ad2f2", "#e69e66")  # with 40 % white


def new_axes(ax: "Axes | None", width: float = 6.4, height: float = 4.0, grid: Grid = "y") -> "Axes":
    """The axes to draw in, the given ones or those of a new figure: no box, a faint grid behind."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color="#dddddd", linewidth=0.6)
    return ax


def legend(ax: "Axes", columns: int = 2, handles: "Sequence[Artist] | None" = None) -> None:
    """A legend above the axes, where it hides nothing."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    labels = [str(handle.get_label()) for handle in handles]
    ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=columns)


def short(text: object, width: int = 48) -> str:
    """A label that fits its axis; dollar signs are no mathematics here."""
    return _no_mathematics(shortened(text, width))


def shorts(texts: Iterable[object], width: int) -> list[str]:
    """Labels that fit, and differ where the texts do."""
    return list(map(_no_mathematics, told_apart(texts, width)))


def _no_mathematics(text: str) -> str:
    return text.replace("$", r"\$")
