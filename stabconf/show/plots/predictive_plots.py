"""The figure of one row's predictive distribution, drawn for `Predictive.plot`."""

from typing import TYPE_CHECKING

import numpy as np

from .style import BAND, BLACK, BLUE, GREY, RED, legend, new_axes, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_predictive"]

_TAILS = 0.01  # share of the steps on either side that need not be in sight
_MARGIN = 0.3  # of the range between them, to either side


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
