"""How well a fit describes the rows that it was fitted to: errors, and a pseudo-R2 for the loss.

``fit_quality`` of the results and summaries show these. New rows are what intervals are about.
"""

import numpy as np
from scipy import linalg

from .fits import Fits

_HALVINGS = 80


def errors_of(residuals: np.ndarray) -> dict[str, float]:
    """Mean absolute and root mean squared error of residuals (n,), NaN left out."""
    known = residuals[~np.isnan(residuals)]
    if not len(known):
        return {"mae": np.nan, "rmse": np.nan}
    return {"mae": float(np.mean(np.abs(known))), "rmse": float(linalg.norm(known) / len(known) ** 0.5)}


def pseudo_r2(fits: Fits, constant: np.ndarray) -> float:
    """1 - loss of the fit / loss of the best constant, at the training rows; NaN for a constant response.
    ``constant`` (n,) is the column of a constant as the fits see it: ones, or roots of weights. This is R2
    for squared loss, and Koenker and Machado's R1 for quantile loss."""
    v = fits.whole.v
    ratios = v / constant
    low, high = float(np.min(ratios)), float(np.max(ratios))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):  # the slope of a convex function of the constant
            middle = 0.5 * (low + high)
            if np.sum(constant * fits.loss.derivative(v - middle * constant)) > 0:
                low = middle
            else:
                high = middle
        least = float(np.sum(fits.loss.value(v - 0.5 * (low + high) * constant)))
        made = float(np.sum(fits.loss.value(v - fits.X @ fits.start)))
    return 1.0 - made / least if least > 0 else np.nan
