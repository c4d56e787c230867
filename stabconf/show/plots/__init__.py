"""Figures: plain data and ``ax=None`` in, Axes out.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines and markers differ too, so
that print in black and white stays legible. Nothing global is changed.
"""

from .conformity import draw_conformity
from .coverage import draw_coverage, draw_coverage_along
from .intervals import draw_intervals
from .paths import draw_criterion, draw_stability
from .style import PALETTE
from .widths import draw_widths

__all__ = [
    "PALETTE",
    "draw_conformity",
    "draw_coverage",
    "draw_coverage_along",
    "draw_criterion",
    "draw_intervals",
    "draw_stability",
    "draw_widths",
]
