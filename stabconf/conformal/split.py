"""Split conformal intervals: one part of the training rows is fitted, the other calibrates."""

import math

import numpy as np

from ..checks import is_number
from ..errors import InputError
from ..scores import conformal_rank, kth_smallest
from .intervals import simple_intervals
from .options import generator
from .scoring import as_scoring

__all__ = ["split"]


def split(fits, rows, alphas, *, side="two-sided", calibration=0.5, random_state=0, score=None, scale=None):
    """Split conformal intervals.

    Parameters
    ----------
    fits : ZoneFits or EstimatorFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    calibration : float
        Share of the training rows that calibrate.
    random_state : int or numpy Generator
        Decides which.
    score : str or ResidualScore, optional
    scale : FixedScale or LearnedScale, optional

    Returns
    -------
    list of Intervals
    """
    if not (is_number(calibration) and 0 < calibration < 1):
        raise InputError(f"calibration={calibration!r} is not allowed: give a share between 0 and 1")
    count = min(max(1, math.ceil(calibration * fits.n - 1e-9)), fits.n - 2)
    if count < 1:
        raise InputError(f"{fits.n} rows are too few to be split: use at least 3, or another method")
    order = generator(random_state).permutation(fits.n)
    held, fitted = order[:count], order[count:]
    scoring = as_scoring(score, scale, side, fits.loss, "split")
    predict = fits.predictor(fitted)
    r, centre = fits.y - predict(fits.X), predict(rows)
    trained, new = scoring.scales(fitted, r[fitted], fits.n, len(rows))
    scores, out = scoring.values(r[held], trained[held]), []
    for alpha in alphas:
        k = conformal_rank(alpha, count)
        low, high = scoring.interval(np.full(len(rows), float(kth_smallest(scores, k))), new)
        out.append(simple_intervals(centre + low, centre + high, k, count, alpha, side, "split"))
    return out
