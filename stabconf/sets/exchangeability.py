"""Is it plausible that new rows are exchangeable with the training rows? Arrays in, evidence out.

`check_exchangeability` of the results calls this (theory, section 1). A fit to one part of the training
rows scores the other part, the reference rows, and the new rows. Under exchangeability the smoothed rank of
each new row among the reference rows and the new rows before it is uniform and independent of the earlier
ones. Three scores are ranked: the residual (level), its size (spread), and how far out the covariates are.
Each has a test martingale, but their average is none, so tests share the level as Bonferroni has it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from .request import generator

STREAMS = ("level", "spread", "covariates")
SHARE = 1.0 / 6.0  # of the level for each of six tests: a bet and a test of uniformity of each stream
_JUMP = 0.01  # of the capital is spread over the bets before each row, so that a late change is not missed
_NEAR_ZERO = 1e-12  # p-values are kept so far from 0 and 1 where a bet on them has no bound
_FLAT = 1e-4  # variance, of the largest, below which the fitted rows have no spread in a direction


@dataclass(frozen=True)
class Evidence:
    """Evidence of m new rows against exchangeability, a column for each of `STREAMS`. Capital starts at 1/6
    and reaches c, ever, with probability at most 1 / (6 c)."""

    p: np.ndarray  # (m, 3): smoothed, uniform and independent over rows under exchangeability
    capital: np.ndarray  # (m, 3): log10 of each bet's after a row
    uniformity: np.ndarray  # (3,): p-values of Kolmogorov-Smirnov tests
    peak: np.ndarray  # (3,): the row after which each capital is largest,
    since: np.ndarray  # (3,): and the one with which p-values most likely changed before that
    fitted: int  # training rows
    reference: int  # and those that new rows are ranked among

    @property
    def p_value(self) -> float:
        """The p-value of all six tests together, at most 1."""
        bets = -float(np.max(self.capital))
        tests = float(np.log10(max(np.min(self.uniformity) / SHARE, 1e-300)))
        return float(10.0 ** min(0.0, max(bets, -300.0), tests))


def check_rows(
    fits: Any,
    rows: np.ndarray,
    responses: np.ndarray,
    random_state: int | np.random.Generator,
    covariates: Callable[[np.ndarray], np.ndarray],
) -> Evidence:
    """`Evidence` of complete new rows (m, p), in their order, with responses (m,); ``covariates`` are the
    columns of rows that tell how far out they lie."""
    count = fits.n // 2
    if count < 1 or fits.n < 3:
        raise InputError(f"{fits.n} training rows are too few to be split: use at least 3")
    random = generator(random_state)
    order = random.permutation(fits.n)
    reference, fitted = np.sort(order[:count]), np.sort(order[count:])
    X = np.vstack([fits.X[reference], rows])
    y = np.concatenate([fits.y[reference], responses])
    # One call for both kinds of rows: they must be scored alike, to the last digit.
    residuals = _rounded(y - fits.predictor(fitted)(X), 1e-11 * float(np.max(np.abs(fits.y[fitted]))))
    far = _rounded(_distances(covariates(fits.X[fitted]), covariates(X)), 1e-9 * X.shape[1])
    scores = np.column_stack([residuals, np.abs(residuals), far])
    return weigh(scores[:count], scores[count:], random, len(fitted))


def weigh(reference: np.ndarray, new: np.ndarray, random: np.random.Generator, fitted: int = 0) -> Evidence:
    """`Evidence` from scores of reference rows (c, 3) and of new rows (m, 3), in their order."""
    from scipy.stats import kstest  # it takes long to import

    theta = random.random(new.shape)
    pairs = zip(reference.T, new.T, theta.T, strict=True)
    p = np.column_stack([online_p(old, fresh, smooth) for old, fresh, smooth in pairs])
    capital = np.log10(SHARE) + log_capital(p)
    peak = np.argmax(capital, axis=0)
    since = np.array([change(column[: last + 1]) for column, last in zip(p.T, peak, strict=True)])
    uniformity = np.array([kstest(column, "uniform").pvalue for column in p.T])
    return Evidence(p, capital, uniformity, peak, since, fitted, len(reference))


def online_p(reference: np.ndarray, new: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Smoothed p-values (m,) of new scores, each among the reference scores (c,) and the new ones before:
    the share of larger scores, and a part ``theta`` (m,) of those that tie with it, itself included.

    >>> online_p(np.array([1.0, 2.0, 3.0]), np.array([2.5, 0.0]), np.array([0.5, 0.5])).tolist()
    [0.375, 0.9]
    """
    ranked = np.sort(reference).tolist()
    out = np.empty(len(new))
    for t, score in enumerate(new.tolist()):
        low = bisect_left(ranked, score)
        high = bisect_right(ranked, score, lo=low)
        ties = high - low + 1
        out[t] = (len(ranked) - high + theta[t] * ties) / (len(ranked) + 1)
        ranked.insert(high, score)
    return out


def log_capital(p: np.ndarray) -> np.ndarray:
    """log10 of the capital (m, s) of bets against the uniformity of columns of p-values (m, s), from 1 on.
    A mixture that jumps between five bets: none, that p is small, or large, each with a mild bet that loses
    little and a bold one that wins much where p is near 0 or 1. Each has mean 1 for uniform p."""
    inside = np.clip(p, _NEAR_ZERO, 1.0 - _NEAR_ZERO)
    bold = 0.5 / np.sqrt(inside), 0.5 / np.sqrt(1.0 - inside)
    bets = np.stack([np.ones_like(p), 1.5 - p, 0.5 + p, *bold], axis=1)
    share = np.full(bets.shape[1:], 1.0 / bets.shape[1])
    total = np.empty_like(p)
    for t, won in enumerate(bets):
        share = (1.0 - _JUMP) * share + _JUMP / len(share)
        share = share * won
        total[t] = np.sum(share, axis=0)
        share = share / total[t]
    return np.cumsum(np.log10(total), axis=0)


def change(p: np.ndarray) -> int:
    """The row from which p-values (m,) are small, or large, up to the last: the likeliest, if they are
    uniform before and p, or 1 - p, has a density a p^(a - 1) with some a below 1 from there on.

    >>> change(np.array([0.3, 0.9, 0.6, 0.2, 0.03, 0.01, 0.05]))
    4
    """
    best = []
    for values in (p, 1.0 - p):
        heap = np.cumsum(-np.log(np.clip(values, _NEAR_ZERO, 1.0))[::-1])[::-1]
        count = np.arange(len(p), 0, -1)
        a = np.minimum(count / np.maximum(heap, _NEAR_ZERO), 1.0)
        likelihood = count * np.log(a) + (1.0 - a) * heap
        best.append((float(np.max(likelihood)), int(np.argmax(likelihood))))
    return max(best)[1]


def _distances(trained: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Squared Mahalanobis distances (m,) of rows from the centre of the rows ``trained`` (a, p). What lies
    in a direction in which those have no spread, as a category that they lack, counts much."""
    spread = np.std(trained, axis=0)
    spread = np.where(spread > 1e-12 * np.max(np.abs(trained), axis=0), spread, 1.0)
    centred = (trained - np.mean(trained, axis=0)) / spread
    away = (rows - np.mean(trained, axis=0)) / spread
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    variances = sizes**2 / len(trained)
    least = _FLAT * max(float(np.max(variances, initial=0.0)), 1.0)
    along = (away @ directions.T) ** 2
    outside = np.maximum(np.sum(away**2, axis=1) - np.sum(along, axis=1), 0.0)
    return np.sum(along / np.maximum(variances, least), axis=1) + outside / least


def _rounded(scores: np.ndarray, unit: float) -> np.ndarray:
    """Scores to a multiple of ``unit``, so that rounding errors do not break ties."""
    if unit == 0.0:
        return scores
    with np.errstate(over="ignore"):
        return np.round(scores / unit) * unit
