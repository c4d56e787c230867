"""Conformal sets: arrays in, `Intervals` out. A new method is one function and one row of a table here."""

from dataclasses import replace

from .band import BandFits, band_conformity, exact_band, stable_band
from .boxes import SeveralFits, box_conformity, exact_boxes, score_unit, stable_boxes
from .candidates import check_bound, conformity, row_tau
from .clusters import Clusters
from .conditional import conditional_set
from .enclosure import stable
from .estimator import TAUS, EstimatorFits, estimator_conformity, refit_p, tau_in_words
from .exact import exact_set
from .exchangeability import STREAMS, Evidence, check_rows
from .fits import Fits
from .frozen import FROZEN_METHODS, FrozenSets
from .heldout import cross, cv_plus, jackknife_plus, split
from .intervals import Intervals, clipped, cut
from .parallel import progress_bar
from .pinned import batch, interpolation, replace_one
from .refit import grid, root
from .request import (
    BAND_METHODS,
    ESTIMATOR_METHODS,
    METHODS,
    SEVERAL_METHODS,
    Method,
    Request,
    generator,
    make_intervals,
)
from .score import SCORES, FixedScale, LearnedScale, Score
from .thresholds import Along
from .user_score import PairScore, UserScore

_SCORE = ("score", "scale")
_WORK = ("n_jobs", "progress")
_FOLDS = ("folds", "random_state", *_WORK, *_SCORE)
_STABLE = ("bound", "inner", *_SCORE)
_BOUNDED = ("fixed scale", "steady score", "lipschitz or sizes")
_PINNED = (*_BOUNDED, "no ball", "ridge if dual", "smooth if dual", "plain if dual")
_NO_WEIGHTS = ("score of any fit", "no weights")

METHODS |= {
    "exact": Method(
        exact_set,
        ("conditional", "tol", "budget", *_WORK, *_SCORE),
        needs=("sizes", "fixed scale", "bends once", "clipped where conditional", "alone if conditional"),
        along=conditional_set,
    ),
    "stable": Method(stable, _STABLE, needs=(*_BOUNDED, "no dual")),
    "replace_one": Method(replace_one, ("z_hat", *_STABLE, *_WORK), needs=_PINNED),
    "batch": Method(batch, ("z_hat", *_STABLE, *_WORK), needs=_PINNED),
    "interpolation": Method(interpolation, ("queries", "bound", "inner"), needs=("lipschitz", "no dual")),
    "root": Method(root, ("tol", *_WORK, *_SCORE), needs=("fixed scale",)),
    "grid": Method(grid, ("points", *_WORK, *_SCORE), needs=("fixed scale",)),
    "split": Method(
        split,
        ("conditional", "calibration", "folds", "random_state", *_SCORE),
        needs=("score of any fit", "alone if conditional"),
        together=True,
    ),
    "cross": Method(cross, _FOLDS, needs=_NO_WEIGHTS, together=True),
    "cv+": Method(cv_plus, _FOLDS, needs=_NO_WEIGHTS, together=True),
    "jackknife+": Method(jackknife_plus, (*_WORK, *_SCORE), needs=("score of any fit",), together=True),
}

HELD_OUT_METHODS = {name: METHODS[name] for name in ("split", "cross", "cv+", "jackknife+")}

ESTIMATOR_METHODS |= {
    **HELD_OUT_METHODS,
    "replace_one": Method(replace_one, ("z_hat", "inner", *_WORK, *_SCORE), needs=("fixed scale",)),
    "batch": Method(batch, ("z_hat", "inner", *_WORK, *_SCORE), needs=("fixed scale",)),
    **{name: METHODS[name] for name in ("root", "grid")},
}

BAND_METHODS |= {
    "exact": Method(
        exact_band, ("conditional", *_WORK), needs=("alone if conditional",), along=conditional_set
    ),
    "stable": Method(stable_band, ("bound",)),
}

SEVERAL_METHODS |= {  # one record per level and response
    "exact": Method(exact_boxes, ("tol", *_WORK)),
    "stable": Method(stable_boxes, ("bound",)),
    "split": replace(METHODS["split"], options=("conditional", "calibration", "random_state")),
    "cross": replace(METHODS["cross"], options=("folds", "random_state")),
    "cv+": replace(METHODS["cv+"], options=("folds", "random_state")),
    "jackknife+": replace(METHODS["jackknife+"], options=()),
}
