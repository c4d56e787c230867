"""Centre and scale of design columns (theory, section 2)."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Standardizer", "column_scales"]


@dataclass(frozen=True)
class Standardizer:
    """Centre and scale of the design columns: ``(X - mean) / scale``.

    Attributes
    ----------
    mean, scale : (p,) arrays
    """

    mean: np.ndarray
    scale: np.ndarray

    def apply(self, X):
        """Standardised copy of ``X``."""
        out = X - self.mean
        out /= self.scale
        return out

    def coefficients(self, theta, centre, scale, intercept):
        """Coefficients in the units of the design columns from standardised ones."""
        beta = scale * theta / self.scale
        if intercept is not None:
            slopes = np.delete(beta * self.mean, intercept).sum()
            beta[intercept] = centre + scale * theta[intercept] - slopes
        return beta


def column_scales(X, intercept, standardize=True):
    """The `Standardizer` of a design, and which of its columns are constant.

    With an intercept columns are centred and divided by their standard deviation; without one they
    are only divided by their root mean square. A column that is constant keeps scale 1.
    """
    p = X.shape[1]
    mean, scale, flat = np.zeros(p), np.ones(p), np.zeros(p, dtype=bool)
    if not standardize:
        return Standardizer(mean, scale), flat
    if intercept is not None:
        mean = X.mean(axis=0)
        mean[intercept] = 0.0
    spread = np.sqrt(np.mean(np.square(X - mean), axis=0))
    flat = spread <= 1e-13 * np.max(np.abs(X), axis=0)
    scale = np.where(flat, 1.0, spread)
    if intercept is not None:
        scale[intercept], flat[intercept] = 1.0, False
    return Standardizer(mean, scale), flat
