"""Figures: records and plain data in, with ``ax=None``; Axes out.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines and markers differ too, so
that print in black and white stays legible. Nothing global is changed.
"""

from .candidate_plots import draw_conformity, draw_predictive
from .curve_plots import (
    draw_coverage,
    draw_coverage_along,
    draw_coverage_by,
    draw_criterion,
    draw_drift,
    draw_stability,
)
from .row_plots import draw_intervals, draw_pairs
from .spread_plots import comparison_size, draw_comparison, draw_influence, draw_residuals, draw_widths

__all__ = [
    "comparison_size",
    "draw_comparison",
    "draw_conformity",
    "draw_coverage",
    "draw_coverage_along",
    "draw_coverage_by",
    "draw_criterion",
    "draw_drift",
    "draw_influence",
    "draw_intervals",
    "draw_pairs",
    "draw_predictive",
    "draw_residuals",
    "draw_stability",
    "draw_widths",
]
