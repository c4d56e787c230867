"""Figures: records and plain data in, with ``ax=None``; Axes out.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines and markers differ too, so
that print in black and white stays legible. Nothing global is changed.
"""

from .box_plots import comparison_size, draw_comparison, draw_widths
from .curve_plots import (
    draw_coverage,
    draw_coverage_along,
    draw_coverage_by,
    draw_criterion,
    draw_stability,
)
from .drift_plots import draw_drift
from .pair_plots import draw_pairs
from .predictive_plots import draw_predictive
from .residual_plots import draw_influence, draw_residuals
from .row_plots import draw_conformity, draw_intervals

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
