"""What the figures share: palette, axes, labels."""

from ..tables import shortened

__all__ = [
    "BAND",
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "RED",
    "legend",
    "new_axes",
    "short",
    "tidy",
]

BLACK, ORANGE, SKY, GREEN, BLUE = "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2"
RED, PURPLE, GREY = "#d55e00", "#cc79a7", "#767676"
BAND = "#b9d9ee"  # sky on white: light enough for dark points, dark enough for print
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)


def new_axes(ax, width=6.4, height=4.0):
    """The axes to draw in: the given ones, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def tidy(ax, grid="y"):
    """No box, a faint grid behind what is drawn."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color="#dddddd", linewidth=0.6)
    return ax


def legend(ax, columns=2, handles=None):
    """A legend above the axes, where it hides nothing."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else handles
    labels = [handle.get_label() for handle in handles]
    ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=columns)


def short(text, width=48):
    """A label that fits its axis; dollar signs are no mathematics here."""
    return shortened(text, width).replace("$", r"\$")
