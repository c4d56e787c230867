"""Interval methods: arrays in, `Intervals` out. A new method is one module and one line here."""

from .intervals import Intervals
from .stable import stable
from .zone_fits import ZoneFits

__all__ = ["Intervals", "METHODS", "ZoneFits", "choose_method"]

METHODS = {"stable": stable}


def choose_method(loss):
    """Name of the tightest certified method for a loss: what ``method="auto"`` means."""
    return "stable"
