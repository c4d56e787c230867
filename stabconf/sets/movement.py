"""How far one new response can move every prediction: tau (theory, section 4)."""

import numpy as np

from ..stability import new_rows, reach

__all__ = ["row_tau"]


def row_tau(fits, row, bound, z=None):
    """Stability bounds of one new row (n + 1,), in units of the response; the last is its own.

    Parameters
    ----------
    fits : Fits
    row : (1, p) array
    bound : str
    z : float, optional
        The bounds for this response; by default for every one.
    """
    row, (free,) = fits.coordinates(row)
    if free:
        return np.append(np.zeros(fits.n), np.inf)
    base = fits.base
    moves = reach(base, new_rows(base, row, bound), bound)
    slope = np.array([max(base.steepest(-1), base.steepest(1))])
    if z is not None:
        size = np.abs(z - base.predict(row)) / fits.scale + moves.before(np.zeros(1))
        slope = np.minimum(slope, np.maximum(base.slope(size, -1), base.slope(size, 1)))
    return fits.scale * np.append(moves.tau(slope)[0], moves.shift(slope))
