"""Conformal sets: arrays in, `Intervals` out. A new method is one function and one row of a table here.

`make_intervals` is what results call: it makes the `Request`, asks the method, and joins groups of new
rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from .band import BandFits, band_conformity, exact_band, stable_band
from .boxes import SeveralFits, box_conformity, exact_boxes, score_unit, stable_boxes
from .candidates import check_bound, conformity, row_tau
from .clusters import Clusters
from .conditional import conditional_band, conditional_set
from .enclosure import stable
from .estimator import TAUS, EstimatorFits, estimator_conformity, refit_p, tau_in_words
from .exact import exact_set
from .exchangeability import STREAMS, Evidence, check_rows
from .fits import Fits
from .frozen import FROZEN_METHODS, FrozenSets
from .heldout import cross, cv_plus, jackknife_plus, split
from .interpolated import interpolation
from .intervals import Intervals, clipped, cut, join, opened
from .parallel import progress_bar
from .pinned import batch, replace_one
from .refit import grid, root
from .request import Method, Part, Request, check_side, generator
from .score import SCORES, FixedScale, LearnedScale, Score, Side, as_score
from .thresholds import Along
from .user_score import PairScore, UserScore

__all__ = [
    "BAND_METHODS",
    "ESTIMATOR_METHODS",
    "FROZEN_METHODS",
    "HELD_OUT_METHODS",
    "METHODS",
    "SCORES",
    "SEVERAL_METHODS",
    "STREAMS",
    "TAUS",
    "BandFits",
    "Clusters",
    "EstimatorFits",
    "Evidence",
    "Fits",
    "FixedScale",
    "FrozenSets",
    "Intervals",
    "LearnedScale",
    "Method",
    "PairScore",
    "Request",
    "Score",
    "SeveralFits",
    "UserScore",
    "Along",
    "band_conformity",
    "box_conformity",
    "check_bound",
    "check_rows",
    "clipped",
    "conformity",
    "cut",
    "estimator_conformity",
    "generator",
    "make_intervals",
    "progress_bar",
    "refit_p",
    "row_tau",
    "score_unit",
    "tau_in_words",
]

_SCORE = ("score", "scale")
_WORK = ("n_jobs", "progress")
_HELD_OUT = ("score of any fit",)
_STABLE = ("bound", "inner", *_SCORE)
_BOUNDED = ("fixed scale", "steady score", "lipschitz or sizes")


def _exact(fits: Fits, asked: Request) -> list[Intervals]:
    return exact_set(fits, asked) if asked.conditional is None else conditional_set(fits, asked)


def _exact_band(fits: BandFits, asked: Request) -> list[Intervals]:
    return exact_band(fits, asked) if asked.conditional is None else conditional_band(fits, asked)


METHODS = {
    "exact": Method(
        _exact,
        ("conditional", "tol", "budget", *_WORK, *_SCORE),
        needs=("sizes", "fixed scale", "bends once", "clipped where conditional", "alone if conditional"),
    ),
    "stable": Method(stable, _STABLE, needs=(*_BOUNDED, "no dual")),
    "replace_one": Method(
        replace_one, ("z_hat", *_STABLE, *_WORK), needs=(*_BOUNDED, "no ball", "smooth if dual")
    ),
    "batch": Method(batch, ("z_hat", *_STABLE, *_WORK), needs=(*_BOUNDED, "no ball", "smooth if dual")),
    "interpolation": Method(interpolation, ("queries", "bound", "inner"), needs=("lipschitz", "no dual")),
    "root": Method(root, ("tol", *_WORK, *_SCORE), needs=("fixed scale",)),
    "grid": Method(grid, ("points", *_WORK, *_SCORE), needs=("fixed scale",)),
    "split": Method(
        split,
        ("conditional", "calibration", "folds", "random_state", *_SCORE),
        needs=(*_HELD_OUT, "alone if conditional"),
        together=True,
    ),
    "cross": Method(
        cross, ("folds", "random_state", *_WORK, *_SCORE), needs=(*_HELD_OUT, "no weights"), together=True
    ),
    "cv+": Method(
        cv_plus, ("folds", "random_state", *_WORK, *_SCORE), needs=(*_HELD_OUT, "no weights"), together=True
    ),
    "jackknife+": Method(jackknife_plus, (*_WORK, *_SCORE), needs=_HELD_OUT, together=True),
}

HELD_OUT_METHODS = {name: METHODS[name] for name in ("split", "cross", "cv+", "jackknife+")}

ESTIMATOR_METHODS = {
    **HELD_OUT_METHODS,
    "replace_one": Method(replace_one, ("z_hat", "inner", *_WORK, *_SCORE), needs=("fixed scale",)),
    "batch": Method(batch, ("z_hat", "inner", *_WORK, *_SCORE), needs=("fixed scale",)),
    **{name: METHODS[name] for name in ("root", "grid")},
}

BAND_METHODS = {
    "exact": Method(_exact_band, ("conditional", *_WORK), needs=("alone if conditional",)),
    "stable": Method(stable_band, ("bound",)),
}

SEVERAL_METHODS = {  # one record per level and response
    "exact": Method(exact_boxes, ("tol", "n_jobs", "progress")),
    "stable": Method(stable_boxes, ("bound",)),
    "split": replace(METHODS["split"], options=("conditional", "calibration", "random_state")),
    "cross": replace(METHODS["cross"], options=("folds", "random_state")),
    "cv+": replace(METHODS["cv+"], options=("folds", "random_state")),
    "jackknife+": replace(METHODS["jackknife+"], options=()),
}


def _auto(fits: Any, side: Side, options: Mapping[str, Any], methods: Mapping[str, Method]) -> str:
    """The tightest certified method that has all options."""
    if "exact" not in methods:
        return "split"
    only = set(methods["stable"].options) - set(methods["exact"].options)
    sizes = as_score(options.get("score"), fits.loss, side).ranks_sizes
    return "exact" if sizes and fits.loss.bends_once and not set(options) & only else "stable"


def make_intervals(
    fits: Any,
    rows: np.ndarray,
    alphas: Sequence[float],
    method: str,
    side: Side,
    options: Mapping[str, Any],
    parts: Sequence[Part] | None = None,
    methods: Mapping[str, Method] = METHODS,
) -> list[Intervals]:
    """`Intervals` by a method's name, one record per alpha.

    "auto" is the exact method, unless an option asks for what only the stable one has; for an estimator it
    is split. ``parts`` are groups of new rows with the `Peers` that each is ranked among; None for all
    among all.
    """
    check_side(side)
    given = {name: value for name, value in options.items() if value is not None}
    name = _auto(fits, side, given, methods) if method == "auto" else method
    if name not in methods:
        reason = "is unknown" if name not in METHODS else "is not for these results"
        if name in METHODS and methods is BAND_METHODS:
            reason = "is not for bands of quantiles"
        if name == "stable" and methods is ESTIMATOR_METHODS:
            reason = "leaves the new row out of the fit, and tau bounds what replacing its response does"
        raise InputError(f"method={method!r} {reason}: give 'auto' or one of {', '.join(methods)}")
    chosen = methods[name]
    chosen.check_options(name, given)
    if chosen.together:
        asked = Request.of(fits, rows, alphas, side=side, parts=parts, **given)
        chosen.check(name, fits, asked)
        return chosen.run(fits, asked)
    rows, free = fits.coordinates(rows)
    asked = Request.of(fits, rows, alphas, side=side, parts=parts, **given)
    chosen.check(name, fits, asked)
    each = [chosen.run(fits, asked.take(which, peers)) for which, peers in asked.parts]
    made = [join(one, [which for which, _ in asked.parts]) for one in zip(*each, strict=True)]
    made = [replace(one, guarantee=f"{one.guarantee}{fits.given}") for one in made]
    return [opened(one, free) for one in made] if free.any() else made
