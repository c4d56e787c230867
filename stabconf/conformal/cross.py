"""Cross-conformal sets, CV+ and the jackknife+: every row calibrates a fit that did not see it.

With mu_i the fit without the fold of row i and R_i = |y_i - mu_i(x_i)|, the cross-conformal set holds
the z with enough R_i >= |z - mu_i(x)|; CV+ takes order statistics of mu_i(x) -+ R_i instead, and the
jackknife+ is CV+ with folds of one row. Their guarantee is about 1 - 2 alpha.
"""

import numpy as np

from ..checks import is_count
from ..errors import InputError
from ..scores import conformal_rank, kth_smallest
from .intervals import simple_intervals
from .options import generator
from .scoring import as_scoring

__all__ = ["cross", "cv_plus", "jackknife_plus"]

_ENTRIES = 2_000_000


def cross(fits, rows, alphas, *, side="two-sided", folds=10, random_state=0, score=None, scale=None):
    """K-fold cross-conformal sets.

    Parameters
    ----------
    fits : ZoneFits or EstimatorFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    folds : int
    random_state : int or numpy Generator
        Decides the folds.
    score : str or ResidualScore, optional
    scale : FixedScale or LearnedScale, optional

    Returns
    -------
    list of Intervals
        Hulls; the pieces of sets that are not intervals are recorded.
    """
    scoring = as_scoring(score, scale, side, fits.loss, "cross")
    held = _HeldOut(fits, rows, folds, random_state, scoring)
    return [held.intervals(alpha, "cross", side == "two-sided") for alpha in alphas]


def cv_plus(fits, rows, alphas, *, side="two-sided", folds=10, random_state=0, score=None, scale=None):
    """CV+ intervals; see `cross`."""
    scoring = as_scoring(score, scale, side, fits.loss, "cv+")
    held = _HeldOut(fits, rows, folds, random_state, scoring)
    return [held.intervals(alpha, "cv+", False) for alpha in alphas]


def jackknife_plus(fits, rows, alphas, *, side="two-sided", score=None, scale=None):
    """Jackknife+ intervals: CV+ with a fold a row."""
    scoring = as_scoring(score, scale, side, fits.loss, "jackknife+")
    held = _HeldOut(fits, rows, fits.n, None, scoring)
    return [held.intervals(alpha, "jackknife+", False) for alpha in alphas]


class _HeldOut:
    """Scores of rows from the fit without their fold, and that fit's predictions and scales of new rows."""

    def __init__(self, fits, rows, folds, random_state, scoring):
        n = fits.n
        if not (is_count(folds, 2) and folds <= n):
            raise InputError(
                f"folds={folds!r} is not allowed: give a whole number from 2 to the {n} training rows"
            )
        order = np.arange(n) if folds == n else generator(random_state).permutation(n)
        self.scoring, self.fold, self.scores = scoring, np.empty(n, dtype=int), np.empty(n)
        self.predictions, self.sigma = np.empty((len(rows), folds)), np.empty((len(rows), folds))
        for j, held in enumerate(np.array_split(order, folds)):
            fitted = np.setdiff1d(order, held)
            predict = fits.predictor(fitted)
            r = fits.y - predict(fits.X)
            trained, self.sigma[:, j] = scoring.scales(fitted, r[fitted], n, len(rows))
            self.fold[held], self.scores[held] = j, scoring.values(r[held], trained[held])
            self.predictions[:, j] = predict(rows)

    def intervals(self, alpha, method, sets):
        """`Intervals` of one alpha; ``sets`` counts how many rows agree instead of ranking ends."""
        n, (m, folds) = len(self.scores), self.predictions.shape
        k = conformal_rank(alpha, n)
        lower, upper, pieces = np.full(m, -np.inf), np.full(m, np.inf), {}
        size = max(1, _ENTRIES // n)
        for first in range(0, m if k <= n else 0, size):
            part = slice(first, min(first + size, m))
            centre, sigma = (values[part][:, self.fold] for values in (self.predictions, self.sigma))
            low, high = self.scoring.interval(np.broadcast_to(self.scores, centre.shape), sigma)
            low, high = centre + low, centre + high
            if not sets:
                lower[part], upper[part] = -kth_smallest(-low, k), kth_smallest(high, k)
                continue
            for i in range(len(centre)):
                found = _agreed(low[i], high[i], n - k + 1)
                at = first + i
                lower[at], upper[at] = (found[0][0], found[-1][1]) if found else (np.nan, np.nan)
                if len(found) > 1:
                    pieces[at] = tuple(found)
        guarantee, side = _guarantee(alpha, n, folds), self.scoring.side
        return simple_intervals(lower, upper, k, n, alpha, side, method, pieces=pieces, guarantee=guarantee)


def _agreed(low, high, least):
    """Where at least ``least`` of the closed intervals ``[low_i, high_i]`` meet (a list of pairs)."""
    ends = np.concatenate([low, high])
    turn = np.concatenate([np.ones(len(low), dtype=int), -np.ones(len(high), dtype=int)])
    order = np.lexsort((-turn, ends))  # at a tie intervals begin before others end
    depth = np.cumsum(turn[order])
    begins = np.flatnonzero((depth >= least) & (depth - turn[order] < least))
    stops = np.flatnonzero((depth < least) & (depth - turn[order] >= least))
    return list(zip(ends[order][begins].tolist(), ends[order][stops].tolist(), strict=True))


def _guarantee(alpha, n, folds):
    """What is known of K-fold methods (Barber, Candes, Ramdas and Tibshirani, 2021), in words."""
    size = n / folds
    loss = 0.0
    if folds < n:
        loss = min(2.0 * (1.0 - 1.0 / folds) / (size + 1.0), (1.0 - folds / n) / (folds + 1.0))
    level = max(0.0, 1.0 - 2.0 * alpha - loss)
    words = "1 - 2 alpha, less a little for folds" if loss else "1 - 2 alpha"
    return f"covers with probability at least {level:.3g} ({words}), exchangeable rows"
