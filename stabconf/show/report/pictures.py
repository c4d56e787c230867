"""The figures of a report as SVG: drawn without pyplot, so that no figure stays open."""

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...data.frames import check_duplicates
from ..drift import ExchangeabilityCheck
from ..plots.curve_plots import draw_coverage_along
from ..plots.row_plots import draw_intervals, draw_pairs
from ..plots.spread_plots import draw_widths
from ..plots.style import Axes
from ..shown import Shown
from ..tables import percent

_WIDTH = 6.8  # inches
_MARGIN = 0.1  # inches about a figure
_TICKS = 5
_GROUPS = 40  # whose widths are drawn
_DRAWN = 1500  # intervals
_SETTINGS = threading.Lock()  # matplotlib's are of the whole process: reports in threads take turns


@dataclass(frozen=True)
class Picture:
    """A figure: a file name without its suffix, what it shows, and SVG as bytes."""

    name: str
    caption: str
    svg: bytes


def interval_figure(shown: Shown, x: str | None) -> Picture:
    """Intervals against a column, or sorted by prediction."""
    how = "by prediction" if x is None else f"against {x}"
    caption = f"{percent(1 - shown.attrs['alpha'])} intervals {how}."
    count = len(shown.frame)
    if count > _DRAWN:
        places = np.argsort(shown.mean, kind="stable")[np.linspace(0, count - 1, _DRAWN).astype(int)]
        shown = shown.take(np.sort(places))
        caption += f" {_DRAWN} of {count} rows are drawn, evenly spaced by prediction."
    if x is not None:
        check_duplicates(shown.frame, [x], "new")
    values = None if x is None else shown.frame[x]
    return Picture("intervals", caption, _svg(lambda ax: draw_intervals(shown, values, x, ax), 4.2))


def pair_figure(pair: tuple[Shown, Shown], boxes: np.ndarray) -> Picture:
    """Two responses against each other, with the boxes of some rows (places)."""
    one, two = (each.attrs["response"] for each in pair)
    caption = f"{percent(1 - pair[0].attrs['alpha'])} boxes of {one} and {two} at {len(boxes)} of the rows."
    return Picture("pairs", caption, _svg(lambda ax: draw_pairs(pair, boxes, ax), 4.8))


def width_figure(shown: Shown, labels: pd.Categorical | None, name: str | None) -> Picture:
    """Widths in all or by group, by the largest groups where they are many."""
    widths, by, height = shown.widths, "", 3.4
    if labels is not None:
        by = f", by {name}: median, quartiles, 5 and 95 %"
        if len(labels.categories) > _GROUPS:
            by += f"; the {_GROUPS} largest of {len(labels.categories)} groups"
            largest = labels.value_counts().nlargest(_GROUPS).index
            drawn = labels.isin(largest)
            labels, widths = labels[drawn].remove_unused_categories(), widths[drawn]
        height = 1.5 + 0.5 * len(labels.categories)
    svg = _svg(lambda ax: draw_widths(widths, labels, name, shown.attrs, ax), height)
    return Picture("widths", f"Widths of the intervals{by}.", svg)


def coverage_figure(table: pd.DataFrame, attrs: dict[str, Any]) -> Picture:
    """Coverage along the predictions."""
    caption = f"Coverage of {int(table['count'].sum())} new responses, by their predictions."
    if table["expected_lower"].notna().any():
        caption += (
            " The band is where such shares fall in 95 % of samples if intervals cover alike everywhere."
        )
    return Picture("coverage", caption, _svg(lambda ax: draw_coverage_along(table, attrs, ax), 3.6))


def drift_figure(check: ExchangeabilityCheck) -> Picture:
    """Evidence against exchangeability over the new rows."""
    caption = (
        f"Evidence against exchangeability of {check.count} new rows, in their order: exchangeable rows "
        "reach the dotted lines in at most 1 of 20, or 1 of 100, samples. Their p-values have a mean of "
        "about 0.5."
    )
    return Picture("exchangeability", caption, _svg(check.plot, 3.8))


def _svg(draw: Callable[[Axes], Axes], height: float) -> bytes:
    """SVG of a figure; the same input gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    ax = figure.add_subplot()
    ax.locator_params(nbins=_TICKS)  # ticks take most of the time
    draw(ax)
    out = io.BytesIO()
    with _SETTINGS, rc_context({"svg.hashsalt": "stabconf", "svg.fonttype": "path"}):
        # Cut to what is drawn; a layout engine, or "tight", would draw it all once more to measure it.
        bounds = figure.get_tightbbox().padded(_MARGIN)
        undated = {"Date": None, "Creator": None}
        figure.savefig(out, format="svg", dpi=144, bbox_inches=bounds, metadata=undated)
    return out.getvalue()
