"""Interval methods: arrays in, `Intervals` out. A new method is one module and one line here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, InputTypeError
from ..stability import default_bound, new_rows
from .conformity import conformity, refitted
from .cross import cross, cv_plus, jackknife_plus
from .estimator import TAUS, EstimatorFits, user_stable
from .exact import exact
from .interpolation import interpolation
from .intervals import Intervals
from .movement import row_tau
from .parallel import progress_bar
from .pinned import batch, replace_one
from .refits import grid, root
from .split import split
from .stable import stable
from .zone_fits import ZoneFits

__all__ = [
    "batch",
    "check_bound",
    "conformity",
    "cross",
    "cv_plus",
    "ESTIMATOR_METHODS",
    "EstimatorFits",
    "exact",
    "grid",
    "interpolation",
    "Intervals",
    "jackknife_plus",
    "make_intervals",
    "Method",
    "METHODS",
    "progress_bar",
    "refitted",
    "replace_one",
    "root",
    "row_tau",
    "split",
    "stable",
    "TAUS",
    "ZoneFits",
]

_SIDES = ("two-sided", "upper", "lower")


def _stable(fits, rows, alphas, *, bound=None, **options):
    bound = bound or default_bound(fits.loss)
    return [stable(fits, rows, alpha, bound=bound, **options) for alpha in alphas]


@dataclass(frozen=True)
class Method:
    """A method: ``run(fits, rows, alphas, side=..., **options)``, and the options it takes."""

    run: Callable
    options: tuple


METHODS = {
    "exact": Method(exact, ("tol", "n_jobs", "progress")),
    "stable": Method(_stable, ("bound", "inner")),
    "replace_one": Method(replace_one, ("z_hat", "bound", "inner")),
    "batch": Method(batch, ("z_hat", "bound", "inner")),
    "interpolation": Method(interpolation, ("queries", "bound", "inner")),
    "root": Method(root, ("tol", "progress")),
    "grid": Method(grid, ("points", "progress")),
    "split": Method(split, ("calibration", "random_state")),
    "cross": Method(cross, ("folds", "random_state")),
    "cv+": Method(cv_plus, ("folds", "random_state")),
    "jackknife+": Method(jackknife_plus, ()),
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


ESTIMATOR_METHODS = {
    "stable": Method(user_stable, ("inner",)),
    **{name: METHODS[name] for name in ("split", "cross", "cv+", "jackknife+")},
}


def make_intervals(fits, rows, alphas, method, side, options, methods=METHODS):
    """One `Intervals` an alpha, by a method's name.

    "auto" is the exact method, unless an option asks for what only the stable one has.
    """
    _check_side(side)
    options = {name: value for name, value in options.items() if value is not None}
    name = method
    if method == "auto":
        name = "stable" if set(options) & set(methods["stable"].options) else "exact"
    if name not in methods:
        reason = "is not for any estimator" if name in METHODS else "is unknown"
        raise InputError(f"method={method!r} {reason}: give 'auto' or one of {', '.join(methods)}")
    chosen = methods[name]
    for option in options:
        if option not in chosen.options:
            known = _listed(chosen.options)
            raise InputTypeError(
                f"option {option!r} is unknown to method {name!r}: its options are {known}"
            )
    return chosen.run(fits, rows, alphas, side=side, **options)


def _listed(options):
    """Options in words."""
    if not options:
        return "none"
    return " and ".join([", ".join(options[:-1]), options[-1]]) if len(options) > 1 else options[0]
