"""Checks of what a user asks of the intervals, and warnings about what they got."""

import warnings

import numpy as np

from .errors import InputError, InputTypeError, SampleSizeWarning, StabilityWarning

__all__ = ["check_alpha", "warn_about"]


def check_alpha(alpha):
    """Alphas as a list, and whether a single number was given."""
    single = np.isscalar(alpha) or alpha is None
    values = [alpha] if single else list(alpha)
    if not values:
        raise InputError("alpha=[] is empty: give a number such as 0.05, or several")
    for value in values:
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number:
            raise InputTypeError(f"alpha={value!r} is a {type(value).__name__}: give a number such as 0.05")
        if not 0 < value < 1:
            raise InputError(f"alpha={value!r} is not allowed: give a miscoverage between 0 and 1")
    return [float(value) for value in values], single


def warn_about(made, model, zones):
    """At most one warning of each kind about a call's intervals."""
    n = made[0].n
    short = [intervals.alpha for intervals in made if intervals.k > n]
    if short:
        needed = int(np.ceil(1.0 / min(short) - 1e-9)) - 1
        warnings.warn(
            f"{n} rows are too few for alpha={min(short):g}, so the intervals are infinite: use at least "
            f"{needed} rows, or alpha of at least {1.0 / (n + 1):.3g}",
            SampleSizeWarning,
            stacklevel=4,
        )
        return
    if any(zone.keep and np.isinf(zone.upper - zone.lower) for zone in zones):
        warnings.warn(
            f"{n} rows are too few for the location (level {model.loss.level:g}) and scale of the "
            "response to be free of the new one, so one end is infinite: use more rows, or a level "
            "nearer to the median",
            SampleSizeWarning,
            stacklevel=4,
        )
        return
    endless = [m for m in made if m.side == "two-sided" and np.any(np.isinf(m.width))]
    if endless:
        fix = (
            "use a loss whose slope is bounded, such as 'huber'"
            if not model.loss.concave_slope
            else "raise penalty, add rows, or use a robust loss such as 'huber'"
        )
        warnings.warn(
            f"{int(np.isinf(endless[0].width).sum())} intervals are infinite: with loss "
            f"{model.loss.describe()} and penalty {model.penalty.describe()} a far response can pull the "
            f"fit along at n = {n}; {fix}",
            StabilityWarning,
            stacklevel=4,
        )
        return
    share = max(intervals.stability_share for intervals in made)
    if share > 0.5:
        fix = "raise penalty, add rows"
        if not model.loss.has_curvature:
            fix += ", or use a loss with curvature (loss='huber')"
        warnings.warn(
            f"stability makes up {share:.0%} of the mean width at penalty "
            f"{model.penalty.describe()} and n = {n}: {fix}",
            StabilityWarning,
            stacklevel=4,
        )
