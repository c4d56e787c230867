"""Figures of the response of one row: p-values of candidates, and its predictive distribution.

Drawn for ``plot_conformity`` and `Predictive.plot`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tables import percent
from .style import BAND, BLACK, BLUE, GREY, PALE, RED, legend, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TAILS = 0.01  # share of the steps on either side that need not be in sight
_MARGIN = 0.3  # of the range between them, to either side


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
    gap = p_up - p_lo
    if np.any(gap > 0) and np.mean(gap) < 0.95:  # bounds that say something
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


def draw_predictive(
    lower: np.ndarray,
    upper: np.ndarray,
    prediction: float,
    response: str,
    y: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """The band between two cdfs of one response: a step up of the upper one at each of ``lower`` (n,), of
    the lower one at each of ``upper`` (n,), where finite. ``y`` is a response to mark. Steps far out in the
    tails may be out of sight."""
    ax = new_axes(ax, grid="both")
    count = len(lower) + 1
    marks = np.array([prediction] if y is None else [prediction, y])
    finite = np.concatenate([each[np.isfinite(each)] for each in (lower, upper, marks)])
    ends = _in_sight(finite, marks)
    at = np.unique(np.concatenate([ends, finite]))
    below = np.searchsorted(np.sort(upper), at, side="right") / count
    above = (1 + np.searchsorted(np.sort(lower), at, side="right")) / count
    ax.fill_between(at, below, above, step="post", color=BAND, linewidth=0, label="between the steps")
    ax.step(at, above, where="post", color=BLUE, linewidth=1.1, linestyle="--", label="upper cdf")
    ax.step(at, below, where="post", color=BLACK, linewidth=1.1, label="lower cdf")
    ax.axvline(prediction, color=GREY, linewidth=1.1, linestyle="-.", label="prediction")
    if y is not None:
        ax.axvline(y, color=RED, linewidth=1.1, linestyle=":", label="response")
    ax.set_xlim(*ends)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel(short(response, 40))
    ax.set_ylabel("probability of a response up to here")
    legend(ax, 3)
    return ax


def _in_sight(finite: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """Ends of the axis (2,): all but the farthest steps, all marks, and a margin."""
    low, high = np.quantile(finite, [_TAILS, 1.0 - _TAILS])
    margin = _MARGIN * (high - low) or 1.0
    room = 0.04 * np.ptp(finite) or 1.0
    low, high = max(low - margin, finite.min() - room), min(high + margin, finite.max() + room)
    return np.array([min(low, marks.min() - 0.1 * margin), max(high, marks.max() + 0.1 * margin)])
