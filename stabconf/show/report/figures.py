"""The figures of a report as SVG: drawn without pyplot, so that no figure stays open."""

import io

from ..plots import draw_coverage_along, draw_intervals, draw_widths
from ..tables import percent
from .parts import Picture

__all__ = ["coverage_figure", "interval_figure", "width_figure"]

_MARGIN = 0.1  # inches about a figure
_TICKS = 5


def interval_figure(bands, x):
    """Intervals against a column, or sorted by prediction."""
    values = None if x is None else bands.column(x)
    svg = _svg(lambda ax: draw_intervals(bands, values, x, ax))
    how = "by prediction" if x is None else f"against {x}"
    return Picture("intervals", f"{percent(1 - bands.attrs['alpha'])} intervals {how}.", svg)


def width_figure(bands, labels, name):
    """Widths in all or by group."""
    height = 3.4 if labels is None else 1.5 + 0.5 * len(labels.categories)
    svg = _svg(lambda ax: draw_widths(bands.widths, labels, name, bands.attrs, ax), height=height)
    by = "" if labels is None else f", by {name}: median, quartiles, 5 and 95 %"
    return Picture("widths", f"Widths of the intervals{by}.", svg)


def coverage_figure(table, attrs):
    """Coverage along the predictions."""
    svg = _svg(lambda ax: draw_coverage_along(table, attrs, ax), height=3.6)
    caption = f"Coverage of {int(table['count'].sum())} new responses, by their predictions."
    if table["expected_lower"].notna().any():
        caption += (
            " The band is where such shares fall in 95 % of samples if intervals cover alike everywhere."
        )
    return Picture("coverage", caption, svg)


def _svg(draw, width=6.8, height=4.2):
    """SVG of a figure; the same input gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    ax = figure.add_subplot()
    ax.locator_params(nbins=_TICKS)  # ticks take most of the time
    draw(ax)
    out = io.BytesIO()
    with rc_context({"svg.hashsalt": "stabconf", "svg.fonttype": "path"}):
        # Cut to what is drawn; a layout engine, or "tight", would draw it all once more to measure it.
        bounds = figure.get_tightbbox().padded(_MARGIN)
        figure.savefig(
            out, format="svg", dpi=144, bbox_inches=bounds, metadata={"Date": None, "Creator": None}
        )
    return out.getvalue()
