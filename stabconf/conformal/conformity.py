"""The conformity function: p-values at candidate responses, and stability bounds on them.

p(z) is that of the augmented fit at z. Where slopes are clipped all candidates of a zone are read off
one path; else the augmented sample is refitted, warm. The bounds need the base fit alone (theory,
sections 4 and 6).
"""

import numpy as np

from ..scores import Peers
from ..solvers import minimise
from ..stability import new_rows, reach
from .exact import make_pieces

__all__ = ["conformity", "exact_p", "refitted"]

_TIE = 1e-10  # scores nearer than this, relative to the scale, are tied
_ENTRIES = 2_000_000


def conformity(fits, row, z, side, bound, peers=None):
    """Exact p-values of a new row at candidates and their lower and upper bounds.

    Parameters
    ----------
    fits : ZoneFits
    row : (p,) array
    z : (g,) array
        Finite candidates.
    side : {"two-sided", "upper", "lower"}
    bound : str or None
        None where no stability bound applies: the bounds are then those of any p-value.
    peers : Peers, optional
        The rows to rank among, for this new row; all by default.

    Returns
    -------
    (3, g) array
        p, lower bound, upper bound.
    """
    solver, peers = make_pieces(fits, side, tol=None), Peers(fits.n) if peers is None else peers
    out = np.empty((3, len(z)))
    for j, part, p in _by_zone(fits, row, z, solver, peers):
        out[0, part] = p
        out[1:, part] = _bounds(fits, j, row, z[part], solver, bound, peers)
    return out


def exact_p(fits, row, z, side, peers):
    """Exact p-values of a new row at candidates (g,)."""
    out = np.empty(len(z))
    for _, part, p in _by_zone(fits, row, z, make_pieces(fits, side, tol=None), peers):
        out[part] = p
    return out


def _by_zone(fits, row, z, solver, peers):
    """Zones, the candidates in them (a few at a time) and their p-values."""
    zone = np.array([fits.at(candidate) for candidate in z], dtype=int)
    size = max(1, _ENTRIES // fits.n)
    for j in np.unique(zone):
        which = np.flatnonzero(zone == j)
        for first in range(0, len(which), size):
            part = which[first : first + size]
            residuals = solver.residuals(j, row, z[part])
            if residuals is None:
                residuals, _ = refitted(fits, row, z[part])
            scores = solver.score(residuals)
            above = scores[:, :-1] >= scores[:, -1:] - _TIE * fits.scale
            yield j, part, peers.p(above)


def refitted(fits, row, z):
    """Residuals of augmented fits (g, N), in units of the response, and the scales of the fits (g,)."""
    X, out, start = np.vstack([fits.X, row]), np.empty((len(z), fits.n + 1)), None
    scales = np.empty(len(z))
    for i in np.argsort(z):
        problem, _, scales[i] = fits.standardised(X, np.append(fits.y, z[i]))
        solution = minimise(problem, start)
        out[i], start = scales[i] * solution.r, solution.x
    return out, scales


def _bounds(fits, j, row, z, solver, bound, peers):
    """Lower and upper bounds on the p-values (2, g) from the base fit of the zone."""
    zone = fits.zones[j]
    if bound is None or zone.keep:
        return np.array([peers.p(np.full((len(z), fits.n), which)) for which in (False, True)])
    base = fits.fit(j)
    moves = reach(base, new_rows(base, np.repeat(row[None], len(z), axis=0), bound), bound)
    distance = (z - base.predict(row[None])) / zone.scale
    before = moves.before(np.zeros(len(z)))
    size = np.abs(distance) + before
    slope = np.where(distance > 0, base.slope(size, 1), base.slope(size, -1))
    slope = np.minimum(slope, np.where(distance > 0, base.steepest(1), base.steepest(-1)))
    tau, own = moves.tau(slope), moves.shift(slope)
    # The new residual lies between 0 and its distance to the base prediction: the fit moves towards z.
    near = np.sign(distance) * np.maximum(np.abs(distance) - own, 0.0)
    ends = np.sort([near - before, distance + before, near + before, distance - before], axis=0)[[0, -1]]
    new = _range(solver, ends[0], ends[1])
    old = _range(solver, base.solution.r - tau, base.solution.r + tau)
    return np.array([peers.p(one >= two[:, None]) for one, two in ((old[0], new[1]), (old[1], new[0]))])


def _range(solver, low, high):
    """Smallest and largest score of residuals between ``low`` and ``high``."""
    one, two = solver.score(low), solver.score(high)
    least = np.minimum(one, two)
    if not solver.sign:
        least = np.where(low * high <= 0, 0.0, least)
    return least, np.maximum(one, two)
