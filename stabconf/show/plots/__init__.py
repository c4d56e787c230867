"""Figures: records and plain data in, with ``ax=None``; Axes out.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines and markers differ too, so
that print in black and white stays legible. Nothing global is changed.
"""
