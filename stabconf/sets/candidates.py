"""The conformity function: p-values at candidate responses, and stability bounds on them.

p(z) is that of the augmented fit at z. Where slopes are clipped all candidates are read off one path;
else the augmented sample is refitted, warm. The bounds need the base fit alone (theory, sections 4 and 6).
"""

import math
from dataclasses import replace

import numpy as np
from scipy import optimize

from ..path import ties_of
from ..rank import Peers
from ..solvers import minimise
from ..stability import new_rows, reach
from .exact import make_sets
from .score import Score

__all__ = ["conformity", "exact_p", "known_or_refitted", "refitted"]

_ENTRIES = 2_000_000
_FAR = 100.0
_NEWTON = 150


def conformity(fits, row, z, side, bound, peers=None):
    """Exact p-values of a new row at candidates and their lower and upper bounds.

    Parameters
    ----------
    fits : Fits
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
    peers, score = Peers(fits.n) if peers is None else peers, Score.of(side)
    (row,), (free,) = fits.coordinates(row[None])
    out = np.empty((3, len(z)))
    if free:  # the fit goes through every response, and no other residual changes
        scores = score.values(fits.base.solution.r)
        out[:] = peers.p(scores >= -ties_of(fits.problem.X, fits.base.solution.x))
        return out
    out[0] = exact_p(fits, row, z, score, peers)
    for part in _parts(fits, z):
        out[1:, part] = _bounds(fits.base, row, fits.responses(z[part]), score, bound, peers)
    return out


def _parts(fits, z):
    """Candidates, a few at a time."""
    size = max(1, _ENTRIES // fits.n)
    return [slice(first, first + size) for first in range(0, len(z), size)]


def exact_p(fits, row, z, score, peers, own=1.0):
    """Exact p-values of a new row at candidates (g,)."""
    solver, out = make_sets(fits, score), np.empty(len(z))
    for part in _parts(fits, z):
        w = fits.responses(z[part])
        r, e, tie = known_or_refitted(fits, solver.residuals(row, w), row, w)
        new = score.own_values(e, own) - tie
        out[part] = peers.p(score.values(r) >= new[:, None])
    return out


def known_or_refitted(fits, found, row, w):
    """Residuals and ties at responses from what a path knows, ``(r, e, tie, known)`` or None, and from
    refits where it does not."""
    if found is None:
        return refitted(fits, row, w)
    r, e, tie, known = found
    if not known.all():
        r[~known], e[~known], tie[~known] = refitted(fits, row, w[~known])
    return r, e, tie


def refitted(fits, row, w):
    """Residuals of augmented fits at responses, of the training rows (g, n) and of the new one (g,), in
    units of the fit; and differences of scores that are ties (g,)."""
    r, e, theta = np.empty((len(w), fits.n)), np.empty(len(w)), np.empty((len(w), len(row)))
    start = fits.base.solution.x
    far = fits.loss.softness is None and _lever(fits.base, row) > _FAR
    for i in np.argsort(w):
        if far:
            r[i], e[i], start = _tilted_to(fits, row, w[i], start)
        else:
            solution = fits.augmented(row, w[i], start)
            r[i], e[i], start = solution.r[:-1], solution.r[-1], solution.x
        theta[i] = start
    return r, e, ties_of(fits.problem.X, theta)


def _lever(base, row):
    """How far the prediction of a new row follows its response, relative to its residual."""
    return float(base.base_root.norms(row[None])[0]) ** 2


def _tilted_to(fits, row, w, start):
    """Residuals of the training rows, of the new one, and coefficients at a response, for a row that the
    fit follows closely: its residual would be a small difference of large numbers, and is found as the one
    whose tilted fit has this response."""
    away = w - float(row @ fits.base.solution.x)
    found = {}

    def beyond(size):
        """How far the response with a residual of this size lies beyond ``w``."""
        e = math.copysign(size, away)
        tilt = -float(fits.loss.derivative(e)) * row
        found[size] = minimise(replace(fits.problem, tilt=tilt), start, max_iter=_NEWTON).x
        return math.copysign(1.0, away) * (float(row @ found[size]) + e - w)

    low, high = 0.0, min(1.0, abs(away))
    while high < abs(away) and not beyond(high) >= 0:
        low, high = high, min(4.0 * high, abs(away))
    size = optimize.toms748(beyond, low, high, rtol=1e-12) if beyond(low) < 0 <= beyond(high) else low
    theta = found[size] if size in found else found[min(found, key=lambda each: abs(each - size))]
    return fits.problem.v - fits.problem.X @ theta, math.copysign(size, away), theta


def _bounds(base, row, w, score, bound, peers):
    """Lower and upper bounds on the p-values (2, g) from the base fit."""
    n = len(base.problem.v)
    least, most = (peers.p(np.full((len(w), n), which)) for which in (False, True))
    if bound is None:
        return np.array([least, most])
    moves = reach(base, new_rows(base, np.repeat(row[None], len(w), axis=0), bound), bound)
    distance = w - row @ base.solution.x
    before = moves.before(np.zeros(len(w)))
    size = np.abs(distance) + before
    slope = np.where(distance > 0, base.slope(size, 1), base.slope(size, -1))
    slope = np.minimum(slope, np.where(distance > 0, base.steepest(1), base.steepest(-1)))
    with np.errstate(invalid="ignore"):
        tau, own = moves.tau(slope), moves.shift(slope)
        # The new residual lies between 0 and its distance to the base prediction: the fit moves towards z.
        near = np.sign(distance) * np.maximum(np.abs(distance) - own, 0.0)
        ends = np.array([near - before, distance + before, near + before, distance - before])
        low, high = base.solution.r - tau, base.solution.r + tau
    known = np.isfinite(ends).all(axis=0) & ~np.isnan(tau).any(axis=1)
    ends = np.where(known, np.sort(ends, axis=0), 0.0)
    new = Score(score.sign).range(ends[0], ends[-1])
    old = score.range(np.where(known[:, None], low, -np.inf), np.where(known[:, None], high, np.inf))
    tie = ties_of(base.problem.X, base.solution.x)
    lower, upper = (peers.p(one >= two[:, None] - tie) for one, two in ((old[0], new[1]), (old[1], new[0])))
    return np.array([np.where(known, lower, least), np.where(known, upper, most)])
