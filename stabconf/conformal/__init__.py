"""Interval methods: arrays in, `Intervals` out. A new method is one module and one line here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, InputTypeError
from ..stability import default_bound, new_rows
from .conformity import conformity
from .exact import exact
from .intervals import Intervals
from .movement import row_tau
from .stable import stable
from .zone_fits import ZoneFits

__all__ = [
    "Intervals",
    "METHODS",
    "ZoneFits",
    "check_bound",
    "conformity",
    "exact",
    "make_intervals",
    "row_tau",
    "stable",
]

_SIDES = ("two-sided", "upper", "lower")


def _stable(fits, rows, alphas, *, bound=None, **options):
    bound = bound or default_bound(fits.loss)
    return [stable(fits, rows, alpha, bound=bound, **options) for alpha in alphas]


@dataclass(frozen=True)
class _Method:
    """A method: ``run(fits, rows, alphas, side=..., **options)``, and the options it takes."""

    run: Callable
    options: tuple


METHODS = {
    "exact": _Method(exact, ("tol", "n_jobs", "progress")),
    "stable": _Method(_stable, ("bound", "inner")),
}


def check_bound(fits, bound, side):
    """The stability bound to use, by default the best that applies; None where none does."""
    _check_side(side)
    if bound is None and not (fits.loss.has_curvature or np.all(fits.ridge > 0)):
        return None
    bound = bound or default_bound(fits.loss)
    new_rows(fits.fit(fits.reference), fits.X[:1], bound)  # refuses where its assumptions fail
    return bound


def _check_side(side):
    if side not in _SIDES:
        raise InputError(f"side={side!r} is unknown: give one of {', '.join(_SIDES)}")


def make_intervals(fits, rows, alphas, method, side, options):
    """One `Intervals` an alpha, by a method's name.

    "auto" is the exact method, unless an option asks for what only the stable one has.
    """
    _check_side(side)
    options = {name: value for name, value in options.items() if value is not None}
    name = method
    if method == "auto":
        name = "stable" if set(options) & set(METHODS["stable"].options) else "exact"
    if name not in METHODS:
        raise InputError(f"method={method!r} is unknown: give 'auto' or one of {', '.join(METHODS)}")
    chosen = METHODS[name]
    for option in options:
        if option not in chosen.options:
            raise InputTypeError(
                f"option {option!r} is unknown to method {name!r}: its options are "
                f"{' and '.join([', '.join(chosen.options[:-1]), chosen.options[-1]])}"
            )
    return chosen.run(fits, rows, alphas, side=side, **options)
