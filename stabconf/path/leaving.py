"""All leave-one-out fits from the fit to all rows (theory, section 8.1).

Taking row i out of a fit whose slopes are clipped lines is a tilt by its own slope times its row, with the
row itself held out of what may change: n short paths instead of n fits. `Fits.leave_one_out` calls this.
"""

import numpy as np

from .clipped import ClippedFit
from .tilted import tilted_fits

__all__ = ["leave_one_out"]

_PIVOT = 1e-6  # share of a row's weight that others have too, below which its removal loses digits


def leave_one_out(fit: ClippedFit) -> tuple[np.ndarray, np.ndarray]:
    """Moves of the coefficients when each data row goes (n, p), and which of them are known (n,).

    The penalty's weights stay as they are. A move is not known where the other rows do not determine the
    fit, or a path cannot be trusted.
    """
    n = fit.count
    if fit.hessian_inverse is None:
        return np.zeros((n, len(fit.theta))), np.zeros(n, dtype=bool)
    if np.all(fit.soft) and np.all(np.isinf(fit.up)):  # squared loss: one straight step
        rest = 1.0 - fit.leverages
        known = rest > _PIVOT
        pull = np.where(known, fit.r[:n], 0.0) / np.where(known, rest, 1.0)
        return -pull[:, None] * (fit.X[:n] @ fit.hessian_inverse), known
    found = tilted_fits(fit, fit.X[:n], fit.u[:n], None, without=np.arange(n))
    return found.move, found.followed
