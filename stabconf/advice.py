"""Checks of what a user asks of the intervals, and warnings about what they got."""

import warnings

import numpy as np

from .checks import is_number
from .errors import InputError, InputTypeError, SampleSizeWarning, StabilityWarning

__all__ = ["check_alpha", "check_candidates", "warn_about"]


def check_alpha(alpha):
    """Alphas as a list, and whether a single number was given."""
    single = np.isscalar(alpha) or alpha is None
    values = [alpha] if single else list(alpha)
    if not values:
        raise InputError("alpha=[] is empty: give a number such as 0.05, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"alpha={value!r} is a {type(value).__name__}: give a number such as 0.05")
        if not 0 < value < 1:
            raise InputError(f"alpha={value!r} is not allowed: give a miscoverage between 0 and 1")
    return [float(value) for value in values], single


def check_candidates(z):
    """Candidate responses as an array of finite numbers."""
    values = [z] if np.isscalar(z) or z is None else list(z)
    if not values:
        raise InputError("z=[] is empty: give a candidate response, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"z={value!r} is a {type(value).__name__}: give numbers")
        if not np.isfinite(value):
            raise InputError(f"z={value!r} is not allowed: give finite candidate responses")
    return np.array(values, dtype=float)


def warn_about(made, model, zones):
    """Warn, once and of the gravest thing alone, about a call's intervals."""
    n = made[0].n
    short = [intervals.alpha for intervals in made if intervals.k > n]
    open_rows = max(intervals.open_rows for intervals in made)
    share = max(intervals.stability_share for intervals in made)
    where = f"loss {model.loss.describe()}, penalty {model.penalty.describe()} and n = {n}"
    if short:
        needed = int(np.ceil(1.0 / min(short) - 1e-9)) - 1
        _warn(
            f"{n} rows are too few for alpha={min(short):g}, so the intervals are infinite: use at least "
            f"{needed} rows, or alpha of at least {1.0 / (n + 1):.3g}",
            SampleSizeWarning,
        )
    elif open_rows and any(zone.keep and np.isinf(zone.upper - zone.lower) for zone in zones):
        _warn(
            f"{n} rows are too few for the location (level {model.loss.level:g}) and scale of the "
            "response to be free of the new one, so one end is infinite: use more rows, or a level "
            "nearer to the median",
            SampleSizeWarning,
        )
    elif open_rows:
        fix = "raise penalty, add rows, or use a robust loss such as 'huber'"
        if not model.loss.concave_slope:
            fix = "use a loss whose slope is bounded, such as 'huber', or side='lower'"
        _warn(
            f"{open_rows} intervals are infinite, for with {where} a far response can pull the fit "
            f"along: {fix}",
            StabilityWarning,
        )
    elif share > 0.5:
        fix = "use method='exact', raise penalty or add rows"
        _warn(f"stability makes up {share:.0%} of the mean width with {where}: {fix}", StabilityWarning)


def _warn(message, category):
    warnings.warn(message, category, stacklevel=4)  # points at the user's call
