"""Full conformal sets by refitting at candidate responses: root finding, and a grid.

Both are baselines: they know the set only to their resolution, and only if it is an interval (root) or
has no part between two points (grid), so they are not certified.
"""

import numpy as np

from ..checks import is_count
from ..errors import InputError
from ..rank import Peers
from .candidates import exact_p, refitted
from .intervals import assumed, ranked_intervals
from .options import check_tol
from .parallel import in_chunks
from .score import DIRECTIONS, Score
from .scoring import as_scoring

__all__ = ["grid", "root"]

_DOUBLINGS = 60
_TIE = 1e-10


def root(
    fits, rows, alphas, *, side="two-sided", tol=1e-6, progress=None, score=None, scale=None, peers=None
):
    """Ends by bisection, with a refit of the augmented sample at every candidate (rootCP).

    Parameters
    ----------
    fits : Fits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    tol : float
        Of the scale of the response.
    progress : bool or None
    score : str or ResidualScore, optional
    scale : FixedScale, optional
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
        NaN where the prediction itself is not in a two-sided set, so that there is nothing to start from.
    """
    check_tol(tol)
    scoring = as_scoring(score, scale, side, fits.loss, "root", learned=False)
    ends = _Root(fits, scoring, tol)
    return _by_row(ends, fits, rows, alphas, side, "root", tol * fits.scale, progress, peers)


def grid(
    fits, rows, alphas, *, side="two-sided", points=200, progress=None, score=None, scale=None, peers=None
):
    """The hull of the candidates of a grid that are in the set, one step wider on each side.

    The grid covers the range of the training responses, half as long again. An end is infinite where
    the outermost candidate is in the set.

    Parameters
    ----------
    points : int
        Candidates.
    fits, rows, alphas, side, progress, score, scale, peers
        As in `root`.
    """
    if not is_count(points, 3):
        raise InputError(f"points={points!r} is not allowed: give a whole number of candidates, 3 or more")
    low, high = np.min(fits.y), np.max(fits.y)
    z = np.linspace(low - 0.25 * (high - low), high + 0.25 * (high - low), points)
    scoring = as_scoring(score, scale, side, fits.loss, "grid", learned=False)
    ends = _Grid(fits, scoring, z)
    return _by_row(ends, fits, rows, alphas, side, "grid", z[1] - z[0], progress, peers)


def _by_row(ends, fits, rows, alphas, side, method, resolution, progress, peers):
    """`Intervals` from a function that gives the ends of one row."""
    sigma = ends.scoring.scales(np.arange(fits.n), None, fits.n, len(rows))[1]
    places, peers = np.arange(len(rows)), Peers(fits.n) if peers is None else peers

    def chunk(which):
        return np.array(
            [[ends(rows[i], sigma[i], alpha, peers.take(i)) for alpha in alphas] for i in which]
        )

    found = in_chunks(chunk, places, 1, progress, size=1)
    values = np.concatenate(found).reshape(len(rows), len(alphas), 2)
    out = []
    for a, alpha in enumerate(alphas):
        lower, upper = values[:, a].T.copy()
        words = f"the full conformal set to a resolution of {resolution:.2g}, assumed to be an interval"
        if peers.which is not None or peers.weights is not None:
            words = f"{words}; ranked{assumed(peers)}"
        more = {"certified": False, "guarantee": words}
        out.append(ranked_intervals(lower, upper, peers, alpha, side, method, **more))
    return out


class _Refitted:
    """p-values by refitting, with any score."""

    def __init__(self, fits, scoring):
        self.fits, self.scoring = fits, scoring
        self.sigma = scoring.scales(np.arange(fits.n), None, fits.n, 0)[0]

    def p(self, row, sigma, z, peers):
        """p-values at candidates (g,)."""
        fits, out, sigma = self.fits, np.empty(len(z)), np.append(self.sigma, sigma)
        scoring = self.scoring.in_units(fits.scale)
        for i, (r, e, _) in enumerate(zip(*refitted(fits, row, fits.responses(z)), strict=True)):
            scores = scoring.values(fits.scale * np.append(r, e), sigma)
            tie = _TIE * np.max(np.abs(scores))
            out[i] = peers.p(scores[:-1] >= scores[-1] - tie)
        return out


class _Root(_Refitted):
    def __init__(self, fits, scoring, tol):
        super().__init__(fits, scoring)
        self.tol = tol * fits.scale

    def _inside(self, row, sigma, z, alpha, peers):
        return self.p(row, sigma, np.array([z]), peers)[0] > alpha

    def _start(self, row, sigma, *level):
        """A response in the set: the prediction, or for one-sided sets one behind it; None if not found."""
        scoring, fits = self.scoring, self.fits
        middle = float(fits.base.predict(row[None])[0]) + scoring.score.centre * sigma
        steps = [0.0]
        if scoring.side != "two-sided":
            way = -1.0 if scoring.side == "upper" else 1.0
            steps += [way * fits.scale * 2.0**j for j in range(_DOUBLINGS)]
        return next((middle + s for s in steps if self._inside(row, sigma, middle + s, *level)), None)

    def __call__(self, row, sigma, alpha, peers):
        ends, fits, level = np.array([-np.inf, np.inf]), self.fits, (alpha, peers)
        if peers.open(alpha):
            return ends
        middle = self._start(row, sigma, *level)
        if middle is None:
            return np.array([np.nan, np.nan])
        for direction in DIRECTIONS[self.scoring.side]:
            inside, step = middle, fits.scale
            for _ in range(_DOUBLINGS):
                outside = inside + direction * step
                if not self._inside(row, sigma, outside, *level):
                    break
                inside, step = outside, 2.0 * step
            else:
                continue
            while abs(outside - inside) > self.tol:
                z = 0.5 * (inside + outside)
                inside, outside = (z, outside) if self._inside(row, sigma, z, *level) else (inside, z)
            ends[0 if direction < 0 else 1] = outside
        return ends


class _Grid(_Refitted):
    def __init__(self, fits, scoring, z):
        super().__init__(fits, scoring)
        self.z = z

    def p(self, row, sigma, z, peers):
        if not self.scoring.plain:
            return super().p(row, sigma, z, peers)
        # All candidates of a plain score are read off a path where there is one.
        return exact_p(self.fits, row, z, Score.of(self.scoring.side), peers)

    def __call__(self, row, sigma, alpha, peers):
        inside, side = np.flatnonzero(self.p(row, sigma, self.z, peers) > alpha), self.scoring.side
        if not len(inside):
            return np.array([np.nan, np.nan])
        step, last = self.z[1] - self.z[0], len(self.z) - 1
        lower = -np.inf if inside[0] == 0 or side == "upper" else self.z[inside[0]] - step
        upper = np.inf if inside[-1] == last or side == "lower" else self.z[inside[-1]] + step
        return np.array([lower, upper])
