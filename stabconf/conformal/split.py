"""Split conformal intervals: one part of the training rows is fitted, the other calibrates."""

import math

import numpy as np

from ..checks import is_number
from ..errors import InputError
from ..scores import conformal_rank, kth_smallest
from .intervals import simple_intervals

__all__ = ["split"]


def split(fits, rows, alphas, *, side="two-sided", calibration=0.5, random_state=0):
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

    Returns
    -------
    list of Intervals
    """
    if not (is_number(calibration) and 0 < calibration < 1):
        raise InputError(f"calibration={calibration!r} is not allowed: give a share between 0 and 1")
    count = min(max(1, math.ceil(calibration * fits.n - 1e-9)), fits.n - 2)
    if count < 1:
        raise InputError(f"{fits.n} rows are too few to be split: use at least 3, or another method")
    order = np.random.default_rng(random_state).permutation(fits.n)
    held, fitted = order[:count], order[count:]
    predict = fits.predictor(fitted)
    r, centre = fits.y[held] - predict(fits.X[held]), predict(rows)
    return [_around(centre, r, alpha, side) for alpha in alphas]


def _around(centre, r, alpha, side):
    """The predictions widened by the order statistic of calibration residuals ``r``."""
    k, open_end = conformal_rank(alpha, len(r)), np.full(len(centre), np.inf)
    lower, upper = -open_end, open_end
    if side != "lower":
        upper = centre + kth_smallest(np.abs(r) if side == "two-sided" else r, k)
    if side != "upper":
        lower = centre - kth_smallest(np.abs(r) if side == "two-sided" else -r, k)
    return simple_intervals(lower, upper, k, len(r), alpha, side, "split")
