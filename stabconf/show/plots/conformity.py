"""The conformity function of one row, between its stability bounds, with the set marked."""

import numpy as np

from ..tables import percent
from .style import BLACK, BLUE, GREY, RED, legend, new_axes, short, tidy

__all__ = ["draw_conformity"]


def draw_conformity(z, p, p_lo, p_up, pieces, alpha, prediction, response, ax=None):
    """p-values over candidate responses.

    Parameters
    ----------
    z, p, p_lo, p_up : (g,) arrays
        Candidates, p-values and their bounds (NaN where there are none).
    pieces : sequence of (lower, upper)
        The conformal set.
    alpha : float
    prediction : float
    response : str
        Label.
    ax : Axes, optional
    """
    ax = tidy(new_axes(ax))
    if np.any(p_up > p_lo):  # bounds that say something
        ax.fill_between(z, p_lo, p_up, color="#e2e2e2", linewidth=0, label="between p_lo and p_up")
        ax.plot(z, p_lo, color=GREY, linewidth=0.9, linestyle="--")
        ax.plot(z, p_up, color=GREY, linewidth=0.9, linestyle="--")
    ax.plot(z, p, color=BLACK, linewidth=1.5, label="p, exact")
    ax.axhline(alpha, color=RED, linewidth=1.0, linestyle=":", label=f"alpha = {alpha:g}")
    label = f"{percent(1 - alpha)} set"
    for low, high in pieces:
        ends = np.clip([low, high], z[0], z[-1])
        ax.plot(ends, [alpha, alpha], color=BLUE, linewidth=5, solid_capstyle="butt", label=label, zorder=3)
        ax.vlines(ends[np.isfinite([low, high])], 0, alpha, color=BLUE, linewidth=1.0)
        label = "_said"
    ax.axvline(prediction, color=BLUE, linewidth=0.9, linestyle="-.", label="prediction")
    ax.set_xlim(z[0], z[-1])
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(f"candidate for {short(response, 40)}")
    ax.set_ylabel("p-value")
    legend(ax, 3)
    return ax
