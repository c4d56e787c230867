"""Cross-conformal sets, CV+ and the jackknife+: every row calibrates a fit that did not see it.

With mu_i the fit without the fold of row i and R_i = |y_i - mu_i(x_i)|, the cross-conformal set holds
the z with enough R_i >= |z - mu_i(x)|; CV+ takes order statistics of mu_i(x) -+ R_i instead, and the
jackknife+ is CV+ with folds of one row. Their guarantee is about 1 - 2 alpha.
"""

import numpy as np

from ..errors import InputError
from ..scores import conformal_rank, kth_smallest
from .intervals import simple_intervals

__all__ = ["cross", "cv_plus", "jackknife_plus"]

_ENTRIES = 2_000_000


def cross(fits, rows, alphas, *, side="two-sided", folds=10, random_state=0):
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

    Returns
    -------
    list of Intervals
        Hulls; the pieces of sets that are not intervals are recorded.
    """
    held = _HeldOut(fits, rows, folds, random_state)
    return [held.intervals(alpha, side, "cross", side == "two-sided") for alpha in alphas]


def cv_plus(fits, rows, alphas, *, side="two-sided", folds=10, random_state=0):
    """CV+ intervals; see `cross`."""
    held = _HeldOut(fits, rows, folds, random_state)
    return [held.intervals(alpha, side, "cv+", False) for alpha in alphas]


def jackknife_plus(fits, rows, alphas, *, side="two-sided"):
    """Jackknife+ intervals: CV+ with a fold a row."""
    held = _HeldOut(fits, rows, fits.n, None)
    return [held.intervals(alpha, side, "jackknife+", False) for alpha in alphas]


class _HeldOut:
    """Residuals of rows from the fit without their fold, and that fit's predictions of new rows."""

    def __init__(self, fits, rows, folds, random_state):
        n = fits.n
        if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= n:
            raise InputError(
                f"folds={folds!r} is not allowed: give a whole number from 2 to the {n} training rows"
            )
        order = np.arange(n) if folds == n else np.random.default_rng(random_state).permutation(n)
        self.fold = np.empty(n, dtype=int)
        self.r, self.predictions = np.empty(n), np.empty((len(rows), folds))
        for j, held in enumerate(np.array_split(order, folds)):
            predict = fits.predictor(np.setdiff1d(order, held))
            self.fold[held], self.r[held] = j, fits.y[held] - predict(fits.X[held])
            self.predictions[:, j] = predict(rows)

    def intervals(self, alpha, side, method, sets):
        """`Intervals` of one alpha; ``sets`` counts how many rows agree instead of ranking ends."""
        n, (m, folds) = len(self.r), self.predictions.shape
        k = conformal_rank(alpha, n)
        lower, upper, pieces = np.full(m, -np.inf), np.full(m, np.inf), {}
        size = max(1, _ENTRIES // n)
        for first in range(0, m if k <= n else 0, size):
            part = slice(first, min(first + size, m))
            centre = self.predictions[part][:, self.fold]
            if sets:
                for i, mu in enumerate(centre, first):
                    found = _agreed(mu - np.abs(self.r), mu + np.abs(self.r), n - k + 1)
                    lower[i], upper[i] = (found[0][0], found[-1][1]) if found else (np.nan, np.nan)
                    if len(found) > 1:
                        pieces[i] = tuple(found)
                continue
            if side != "lower":
                upper[part] = kth_smallest(centre + (np.abs(self.r) if side == "two-sided" else self.r), k)
            if side != "upper":
                lower[part] = -kth_smallest(
                    (np.abs(self.r) if side == "two-sided" else -self.r) - centre, k
                )
        guarantee = _guarantee(alpha, n, folds)
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
