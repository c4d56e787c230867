"""How far one new response can move every prediction: tau over the zones (theory, section 4)."""

import numpy as np

from ..stability import new_rows, reach

__all__ = ["row_tau"]


def row_tau(fits, row, bound, z=None):
    """Stability bounds of one new row (n + 1,), in units of the response; the last is its own.

    Parameters
    ----------
    fits : ZoneFits
    row : (1, p) array
    bound : str
    z : float, optional
        The bounds for this response; by default the worst over the zones.
    """
    which = [j for j, zone in enumerate(fits.zones) if not zone.keep] if z is None else [fits.at(z)]
    worst = np.zeros(fits.n + 1)
    for j in which:
        base, scale = fits.fit(j), fits.zones[j].scale
        moves = reach(base, new_rows(base, row, bound), bound)
        slope = np.array([max(base.steepest(-1), base.steepest(1))])
        if z is not None:
            size = np.abs(z - base.predict(row)) / scale + moves.before(np.zeros(1))
            slope = np.minimum(slope, np.maximum(base.slope(size, -1), base.slope(size, 1)))
        worst = np.maximum(worst, scale * np.append(moves.tau(slope)[0], moves.shift(slope)))
    return worst
