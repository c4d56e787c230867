"""Full conformal sets by refitting at candidate responses: root finding, and a grid.

Both are baselines: they know the set only to their resolution, and only if it is an interval (root) or
has no part between two points (grid), so they are not certified.
"""

import numpy as np

from ..checks import is_number
from ..errors import InputError
from ..scores import conformal_rank
from .conformity import exact_p, refitted
from .intervals import simple_intervals
from .parallel import in_chunks

__all__ = ["grid", "root"]

_DOUBLINGS = 60
_TIE = 1e-10
_DIRECTIONS = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}


def root(fits, rows, alphas, *, side="two-sided", tol=1e-6, progress=None):
    """Ends by bisection, with a refit of the augmented sample at every candidate (rootCP).

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    tol : float
        Of the scale of the response.
    progress : bool or None

    Returns
    -------
    list of Intervals
        NaN where the prediction itself is not in the set, so that there is nothing to start from.
    """
    if not (is_number(tol) and 0 < tol < 1):
        raise InputError(f"tol={tol!r} is not allowed: give a share of the response's scale such as 1e-6")
    return _by_row(_Root(fits, side, tol), fits, rows, alphas, side, "root", tol * fits.scale, progress)


def grid(fits, rows, alphas, *, side="two-sided", points=200, progress=None):
    """The hull of the candidates of a grid that are in the set, one step wider on each side.

    The grid covers the range of the training responses, half as long again. An end is infinite where
    the outermost candidate is in the set.

    Parameters
    ----------
    points : int
        Candidates.
    fits, rows, alphas, side, progress
        As in `root`.
    """
    if isinstance(points, bool) or not isinstance(points, int) or points < 3:
        raise InputError(f"points={points!r} is not allowed: give a whole number of candidates, 3 or more")
    low, high = np.min(fits.y), np.max(fits.y)
    z = np.linspace(low - 0.25 * (high - low), high + 0.25 * (high - low), points)
    return _by_row(_Grid(fits, side, z), fits, rows, alphas, side, "grid", z[1] - z[0], progress)


def _by_row(ends, fits, rows, alphas, side, method, resolution, progress):
    """`Intervals` from a function that gives the ends of one row."""
    found = in_chunks(_Chunk(ends, alphas), rows, 1, progress, size=1)
    values = np.concatenate(found).reshape(len(rows), len(alphas), 2)
    out = []
    for a, alpha in enumerate(alphas):
        lower, upper = values[:, a].T.copy()
        words = f"the full conformal set to a resolution of {resolution:.2g}, assumed to be an interval"
        k = conformal_rank(alpha, fits.n)
        more = {"certified": False, "guarantee": words}
        out.append(simple_intervals(lower, upper, k, fits.n, alpha, side, method, **more))
    return out


class _Chunk:
    """The ends of some rows at all alphas (m, len(alphas), 2)."""

    def __init__(self, ends, alphas):
        self.ends, self.alphas = ends, alphas

    def __call__(self, rows):
        return np.array([[self.ends(row, alpha) for alpha in self.alphas] for row in rows])


class _Root:
    def __init__(self, fits, side, tol):
        self.fits, self.side, self.tol = fits, side, tol * fits.scale
        self.sign = {"two-sided": 0, "upper": 1, "lower": -1}[side]

    def _inside(self, row, z, alpha):
        (r,) = refitted(self.fits, row, np.array([z]))
        scores = self.sign * r if self.sign else np.abs(r)
        above = np.count_nonzero(scores[:-1] >= scores[-1] - _TIE * self.fits.scale)
        return (1.0 + above) / len(scores) > alpha

    def __call__(self, row, alpha):
        ends, fits = np.array([-np.inf, np.inf]), self.fits
        if conformal_rank(alpha, fits.n) > fits.n:
            return ends
        middle = float(fits.fit(fits.reference).predict(row[None])[0])
        if not self._inside(row, middle, alpha):
            return np.array([np.nan, np.nan])
        for direction in _DIRECTIONS[self.side]:
            inside, step = middle, fits.scale
            for _ in range(_DOUBLINGS):
                outside = inside + direction * step
                if not self._inside(row, outside, alpha):
                    break
                inside, step = outside, 2.0 * step
            else:
                continue
            while abs(outside - inside) > self.tol:
                z = 0.5 * (inside + outside)
                inside, outside = (z, outside) if self._inside(row, z, alpha) else (inside, z)
            ends[0 if direction < 0 else 1] = outside
        return ends


class _Grid:
    def __init__(self, fits, side, z):
        self.fits, self.side, self.z = fits, side, z

    def __call__(self, row, alpha):
        inside = np.flatnonzero(exact_p(self.fits, row, self.z, self.side) > alpha)
        if not len(inside):
            return np.array([np.nan, np.nan])
        step, last = self.z[1] - self.z[0], len(self.z) - 1
        lower = -np.inf if inside[0] == 0 or self.side == "upper" else self.z[inside[0]] - step
        upper = np.inf if inside[-1] == last or self.side == "lower" else self.z[inside[-1]] + step
        return np.array([lower, upper])
