"""Cross-conformal sets, CV+ and the jackknife+: every row calibrates a fit that did not see it.

With mu_i the fit without the fold of row i and R_i = |y_i - mu_i(x_i)|, the cross-conformal set holds
the z with enough R_i >= |z - mu_i(x)|; CV+ takes order statistics of mu_i(x) -+ R_i instead, and the
jackknife+ is CV+ with folds of one row. Their guarantee is about 1 - 2 alpha. Within groups only the rows
of the group are counted or ranked; with weights the jackknife+ ranks by weight (Prinster, Liu and Saria,
2022).
"""

from dataclasses import replace

import numpy as np

from ..checks import is_count
from ..errors import AssumptionError, InputError
from .intervals import assumed, join, ranked_intervals
from .options import everyone, generator
from .scoring import as_scoring

__all__ = ["cross", "cv_plus", "jackknife_plus"]

_ENTRIES = 2_000_000


def cross(
    fits, rows, alphas, *, side="two-sided", folds=10, random_state=0, score=None, scale=None, parts=None
):
    """K-fold cross-conformal sets.

    Parameters
    ----------
    fits : Fits or EstimatorFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    folds : int
    random_state : int or numpy Generator
        Decides the folds.
    score : str or ResidualScore, optional
    scale : FixedScale or LearnedScale, optional
    parts : list of (int array, Peers), optional
        Groups of new rows and the training rows that each is ranked among; all by default.

    Returns
    -------
    list of Intervals
        Hulls; the pieces of sets that are not intervals are recorded.
    """
    _refuse_weights(parts, "cross")
    scoring = as_scoring(score, scale, side, fits.loss, "cross")
    held = _HeldOut(fits, rows, folds, random_state, scoring)
    return held.joined(alphas, "cross", parts or everyone(fits, rows), side == "two-sided")


def cv_plus(
    fits, rows, alphas, *, side="two-sided", folds=10, random_state=0, score=None, scale=None, parts=None
):
    """CV+ intervals; see `cross`."""
    _refuse_weights(parts, "cv+")
    scoring = as_scoring(score, scale, side, fits.loss, "cv+")
    held = _HeldOut(fits, rows, folds, random_state, scoring)
    return held.joined(alphas, "cv+", parts or everyone(fits, rows))


def jackknife_plus(fits, rows, alphas, *, side="two-sided", score=None, scale=None, parts=None):
    """Jackknife+ intervals: CV+ with a fold a row."""
    scoring = as_scoring(score, scale, side, fits.loss, "jackknife+")
    held = _HeldOut(fits, rows, fits.n, None, scoring)
    return held.joined(alphas, "jackknife+", parts or everyone(fits, rows))


def _refuse_weights(parts, method):
    if any(peers.weights is not None for _, peers in parts or ()):
        raise AssumptionError(
            f"method={method!r} has no guarantee with weights: use method='exact', 'stable', 'split' or "
            "'jackknife+', or drop weights"
        )


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

    def joined(self, alphas, method, parts, sets=False):
        """`Intervals` of all groups, one an alpha; ``sets`` counts how many rows agree instead of ranking
        ends."""
        out = []
        for alpha in alphas:
            each = [self._intervals(which, alpha, method, peers, sets) for which, peers in parts]
            out.append(join(each, [which for which, _ in parts]))
        return out

    def _intervals(self, rows, alpha, method, peers, sets):
        """`Intervals` of one group of new rows."""
        m, rank = len(rows), peers.rank(alpha)
        lower, upper, pieces = np.full(m, -np.inf), np.full(m, np.inf), {}
        size = max(1, _ENTRIES // len(self.scores))
        for first in range(0, 0 if np.all(peers.open(alpha)) else m, size):
            part = slice(first, min(first + size, m))
            centre, sigma = (values[rows[part]][:, self.fold] for values in (self.predictions, self.sigma))
            low, high = self.scoring.interval(np.broadcast_to(self.scores, centre.shape), sigma)
            low, high = rank.of(centre + low), rank.of(centre + high)
            if not sets:
                near = replace(rank.take(part), which=None)
                lower[part], upper[part] = -near.kth(-low), near.kth(high)
                continue
            for i in range(len(centre)):
                found = _agreed(low[i], high[i], peers.size - rank.mass + 1)
                at = first + i
                lower[at], upper[at] = (found[0][0], found[-1][1]) if found else (np.nan, np.nan)
                if len(found) > 1:
                    pieces[at] = tuple(found)
        words = _guarantee(alpha, peers, self.predictions.shape[1])
        more = {"pieces": pieces, "guarantee": words}
        return ranked_intervals(lower, upper, peers, alpha, self.scoring.side, method, **more)


def _agreed(low, high, least):
    """Where at least ``least`` of the closed intervals ``[low_i, high_i]`` meet (a list of pairs)."""
    ends = np.concatenate([low, high])
    turn = np.concatenate([np.ones(len(low), dtype=int), -np.ones(len(high), dtype=int)])
    order = np.lexsort((-turn, ends))  # at a tie intervals begin before others end
    depth = np.cumsum(turn[order])
    begins = np.flatnonzero((depth >= least) & (depth - turn[order] < least))
    stops = np.flatnonzero((depth < least) & (depth - turn[order] >= least))
    return list(zip(ends[order][begins].tolist(), ends[order][stops].tolist(), strict=True))


def _guarantee(alpha, peers, folds):
    """What is known of K-fold methods (Barber, Candes, Ramdas and Tibshirani, 2021), in words.

    Within a group the p-value is the average of the folds' p-values, weighted by how many of its rows
    each has; twice an average of p-values is one.
    """
    n, loss = peers.size, 0.0
    if folds < peers.count and peers.which is not None:
        loss = 2.0 * (1.0 - alpha) * (folds - 1.0) / (n + folds)
    elif folds < n:
        loss = min(2.0 * (1.0 - 1.0 / folds) / (n / folds + 1.0), (1.0 - folds / n) / (folds + 1.0))
    level = max(0.0, 1.0 - 2.0 * alpha - loss)
    much = "a little" if peers.which is None else f"{loss:.2g}"
    words = f"1 - 2 alpha, less {much} for folds" if loss else "1 - 2 alpha"
    return f"covers with probability at least {level:.3g} ({words}){assumed(peers)}"
