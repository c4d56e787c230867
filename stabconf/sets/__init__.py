"""Interval methods: arrays in, `Intervals` out. A new method is one module and one line here."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import AssumptionError, InputError, InputTypeError
from ..stability import default_bound, new_rows
from .band import BandFits, band_conformity, exact_band, stable_band
from .candidates import conformity, refitted
from .cross import cross, cv_plus, jackknife_plus
from .estimator import TAUS, EstimatorFits, user_stable
from .exact import exact
from .fits import Fits
from .interpolation import interpolation
from .intervals import Intervals, join, opened, simple_intervals
from .movement import row_tau
from .options import generator
from .parallel import progress_bar
from .pinned import batch, replace_one
from .refits import grid, root
from .score import SIDES
from .scored import scored_stable
from .scoring import FixedScale, LearnedScale, as_scoring
from .split import split
from .stable import stable

__all__ = [
    "band_conformity",
    "BAND_METHODS",
    "BandFits",
    "batch",
    "check_bound",
    "conformity",
    "cross",
    "cv_plus",
    "ESTIMATOR_METHODS",
    "EstimatorFits",
    "Fits",
    "FixedScale",
    "exact",
    "exact_band",
    "generator",
    "grid",
    "interpolation",
    "Intervals",
    "LearnedScale",
    "jackknife_plus",
    "make_intervals",
    "Method",
    "METHODS",
    "progress_bar",
    "refitted",
    "replace_one",
    "root",
    "row_tau",
    "simple_intervals",
    "split",
    "stable",
    "stable_band",
    "TAUS",
]

_SCORE = ("score", "scale")


def _stable(fits, rows, alphas, *, side, bound=None, inner=False, score=None, scale=None, peers=None):
    scoring = as_scoring(score, scale, side, fits.loss, "stable", learned=False)
    if not scoring.same_sets:
        if inner:
            raise AssumptionError("inner=True goes with score='absolute': drop one of them")
        return scored_stable(fits, rows, alphas, scoring, bound, peers)
    bound = check_bound(fits, bound or default_bound(fits.loss), side)
    rest = {"side": side, "bound": bound, "inner": inner, "scale": scale, "peers": peers}
    return [stable(fits, rows, alpha, **rest) for alpha in alphas]


def _exact(fits, rows, alphas, *, side, score=None, scale=None, **options):
    if not as_scoring(score, scale, side, fits.loss, "exact", learned=False).same_sets:
        raise AssumptionError(
            "method='exact' ranks residuals by their size: with this score use method='stable', 'root', "
            "'split' or 'cv+'"
        )
    return exact(fits, rows, alphas, side=side, scale=scale, **options)


def _auto(fits, side, options, methods):
    """The tightest certified method that has all options."""
    only = set(methods["stable"].options) - set(methods["exact"].options)
    same = as_scoring(options.get("score"), None, side, fits.loss, "auto", learned=False).same_sets
    bends = fits.loss.softness is None and not fits.loss.bends_once
    return "exact" if same and not bends and not set(options) & only else "stable"


@dataclass(frozen=True)
class Method:
    """A method: ``run(fits, rows, alphas, side=..., **options)``, and the options it takes.

    Where new rows are ranked among some training rows alone, or by weight, it is also given ``peers``, once
    a group of new rows; or, if it is ``together``, all groups at once as ``parts``, pairs of new rows and
    their `Peers`, so that fits to parts of the rows are made once.
    """

    run: Callable
    options: tuple
    together: bool = False


METHODS = {
    "exact": Method(_exact, ("tol", "budget", "n_jobs", "progress", *_SCORE)),
    "stable": Method(_stable, ("bound", "inner", *_SCORE)),
    "replace_one": Method(replace_one, ("z_hat", "bound", "inner")),
    "batch": Method(batch, ("z_hat", "bound", "inner")),
    "interpolation": Method(interpolation, ("queries", "bound", "inner")),
    "root": Method(root, ("tol", "progress", *_SCORE)),
    "grid": Method(grid, ("points", "progress", *_SCORE)),
    "split": Method(split, ("calibration", "random_state", *_SCORE), together=True),
    "cross": Method(cross, ("folds", "random_state", *_SCORE), together=True),
    "cv+": Method(cv_plus, ("folds", "random_state", *_SCORE), together=True),
    "jackknife+": Method(jackknife_plus, _SCORE, together=True),
}


def check_bound(fits, bound, side):
    """The stability bound to use, by default the best that applies; None where none does."""
    _check_side(side)
    if bound is None and not (fits.loss.has_curvature or np.all(fits.ridge > 0)):
        return None
    bound = bound or default_bound(fits.loss)
    new_rows(fits.base, fits.problem.X[:1], bound)  # refuses where its assumptions fail
    return bound


def _check_side(side):
    if side not in SIDES:
        raise InputError(f"side={side!r} is unknown: give one of {', '.join(SIDES)}")


ESTIMATOR_METHODS = {
    "stable": Method(user_stable, ("inner",)),
    **{name: METHODS[name] for name in ("split", "cross", "cv+", "jackknife+")},
}


BAND_METHODS = {
    "exact": Method(exact_band, ("n_jobs", "progress")),
    "stable": Method(stable_band, ("bound",)),
}


def make_intervals(fits, rows, alphas, method, side, options, parts=None, methods=METHODS):
    """One `Intervals` an alpha, by a method's name.

    "auto" is the exact method, unless an option asks for what only the stable one has. ``parts`` are
    groups of new rows with the `Peers` that each is ranked among; None for all among all.
    """
    _check_side(side)
    options = {name: value for name, value in options.items() if value is not None}
    name = method
    if method == "auto":
        name = _auto(fits, side, options, methods)
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
    if chosen.together:
        more = {} if parts is None else {"parts": parts}
        return chosen.run(fits, rows, alphas, side=side, **more, **options)
    rows, free = fits.coordinates(rows)
    if parts is None:
        made = chosen.run(fits, rows, alphas, side=side, **options)
    else:
        each = [
            chosen.run(fits, rows[which], alphas, side=side, peers=peers, **_taken(options, which))
            for which, peers in parts
        ]
        made = [join(one, [which for which, _ in parts]) for one in zip(*each, strict=True)]
    made = [replace(each, guarantee=f"{each.guarantee}{fits.given}") for each in made]
    return [opened(intervals, free) for intervals in made] if free.any() else made


def _taken(options, which):
    """Options for some of the new rows."""
    per_row = {"scale": lambda scale: scale.take(which), "z_hat": lambda z_hat: z_hat[which]}
    return {name: per_row.get(name, lambda same: same)(value) for name, value in options.items()}


def _listed(options):
    """Options in words."""
    if not options:
        return "none"
    return " and ".join([", ".join(options[:-1]), options[-1]]) if len(options) > 1 else options[0]
