"""Split conformal intervals: one part of the training rows is fitted, the other calibrates."""

import math

import numpy as np

from ..checks import is_number
from ..errors import InputError
from .intervals import join, ranked_intervals
from .options import everyone, generator
from .scoring import as_scoring

__all__ = ["split"]


def split(
    fits,
    rows,
    alphas,
    *,
    side="two-sided",
    calibration=0.5,
    random_state=0,
    score=None,
    scale=None,
    parts=None,
):
    """Split conformal intervals.

    Parameters
    ----------
    fits : Fits or EstimatorFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    calibration : float
        Share of the training rows that calibrate.
    random_state : int or numpy Generator
        Decides which.
    score : str or ResidualScore, optional
    scale : FixedScale or LearnedScale, optional
    parts : list of (int array, Peers), optional
        Groups of new rows and the training rows that each is ranked among; all by default.

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
    groups = [(which, peers.among(held)) for which, peers in parts or everyone(fits, rows)]
    for alpha in alphas:
        each = []
        for which, peers in groups:
            level = np.broadcast_to(peers.rank(alpha).kth(scores), len(which))
            low, high = scoring.interval(level, new[which])
            each.append(
                ranked_intervals(centre[which] + low, centre[which] + high, peers, alpha, side, "split")
            )
        out.append(join(each, [which for which, _ in groups]))
    return out
