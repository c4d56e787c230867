"""Interval methods: arrays in, `Intervals` out. A new method is one module and one line here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import AssumptionError, InputError, InputTypeError
from ..stability import default_bound, new_rows
from .bands import BandFits, band_conformity, exact_band, stable_band
from .conformity import conformity, refitted
from .cross import cross, cv_plus, jackknife_plus
from .estimator import TAUS, EstimatorFits, user_stable
from .exact import exact
from .interpolation import interpolation
from .intervals import Intervals, join, simple_intervals
from .movement import row_tau
from .options import generator
from .parallel import progress_bar
from .pinned import batch, replace_one
from .refits import grid, root
from .scaled import exact_scaled, learned_scales, stable_scaled
from .scored import scored_stable
from .scoring import FixedScale, LearnedScale, as_scoring
from .split import split
from .stable import stable
from .zone_fits import ZoneFits

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
    "FixedScale",
    "exact",
    "exact_band",
    "generator",
    "grid",
    "interpolation",
    "Intervals",
    "LearnedScale",
    "jackknife_plus",
    "learned_scales",
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
    "ZoneFits",
]

_SIDES = ("two-sided", "upper", "lower")
_SCORE = ("score", "scale")


def _stable(fits, rows, alphas, *, side, bound=None, inner=False, score=None, scale=None, peers=None):
    if isinstance(scale, LearnedScale) or (scale is not None and _is_squared(fits.loss)):
        _require_plain_score(score, inner)
        return stable_scaled(fits, rows, alphas, scale, side=side, peers=peers, bound=bound)
    scoring = as_scoring(score, scale, side, fits.loss, "stable", learned=False)
    if not scoring.plain:
        if inner:
            raise AssumptionError("inner=True goes with the absolute score and no scale: drop one of them")
        return scored_stable(fits, rows, alphas, scoring, bound, peers)
    bound = check_bound(fits, bound or default_bound(fits.loss), side)
    rest = {"side": side, "bound": bound, "inner": inner, "peers": peers}
    return [stable(fits, rows, alpha, **rest) for alpha in alphas]


def _exact(fits, rows, alphas, *, side, score=None, scale=None, **options):
    if not as_scoring(score, None, side, fits.loss, "exact", learned=False).plain:
        raise AssumptionError(
            "method='exact' ranks residuals by their size: with this score use method='stable', 'root', "
            "'split' or 'cv+'"
        )
    if scale is None:
        return exact(fits, rows, alphas, side=side, **options)
    if not fits.loss.piecewise_linear:
        raise AssumptionError(
            f"method='exact' with a scale is for LAD and quantile loss, not {fits.loss.describe()}: use "
            "method='stable', which encloses the exact set"
        )
    options.pop("tol", None)  # these sets are exact but for rounding errors
    return exact_scaled(fits, rows, alphas, scale, side=side, **options)


def _is_squared(loss):
    return bool(loss.softness) and np.isinf(loss.lipschitz)


def _require_plain_score(score, inner):
    """These scales divide absolute or signed residuals."""
    if score not in (None, "absolute") or inner:
        raise AssumptionError(
            "a learned scale, or a scale with squared loss, goes with score='absolute' and without "
            "inner=True: drop score and inner"
        )


def _auto(fits, side, options, methods):
    """The tightest certified method that has all options."""
    score, scale = options.get("score"), options.get("scale")
    only = set(methods["stable"].options) - set(methods["exact"].options)
    plain = as_scoring(score, None, side, fits.loss, "auto", learned=False).plain
    exact_too = plain and (scale is None or fits.loss.piecewise_linear)
    return "exact" if exact_too and not set(options) & only else "stable"


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
    "exact": Method(_exact, ("tol", "n_jobs", "progress", *_SCORE)),
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
    new_rows(fits.fit(fits.reference), fits.X[:1], bound)  # refuses where its assumptions fail
    return bound


def _check_side(side):
    if side not in _SIDES:
        raise InputError(f"side={side!r} is unknown: give one of {', '.join(_SIDES)}")


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
    if parts is None:
        return chosen.run(fits, rows, alphas, side=side, **options)
    if chosen.together:
        return chosen.run(fits, rows, alphas, side=side, parts=parts, **options)
    made = [
        chosen.run(fits, rows[which], alphas, side=side, peers=peers, **_taken(options, which))
        for which, peers in parts
    ]
    return [join(each, [which for which, _ in parts]) for each in zip(*made, strict=True)]


def _taken(options, which):
    """Options for some of the new rows."""
    per_row = {"scale": lambda scale: scale.take(which), "z_hat": lambda z_hat: z_hat[which]}
    return {name: per_row.get(name, lambda same: same)(value) for name, value in options.items()}


def _listed(options):
    """Options in words."""
    if not options:
        return "none"
    return " and ".join([", ".join(options[:-1]), options[-1]]) if len(options) > 1 else options[0]
