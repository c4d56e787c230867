"""Methods that hold rows out: split, cross-conformal, CV+ and jackknife+ (theory, section 6).

Every row that is ranked has its score from a fit that did not see it. Split holds out one part. With mu_i
the fit without the fold of row i and R_i = |y_i - mu_i(x_i)|, the cross-conformal set holds the z with
enough R_i >= |z - mu_i(x)|; CV+ takes order statistics of mu_i(x) -+ R_i instead, and jackknife+ is CV+
with folds of one row. The guarantee of these three is about 1 - 2 alpha. With weights jackknife+ ranks by
weight (Prinster, Liu and Saria, 2022); with `Clusters` split and CV+ hold whole clusters out, and rank by
weights that make them count alike (Lee, Barber and Willett, 2023). Any estimator will do: only
``fits.predictor`` and, for single rows, ``fits.without`` are asked for; a loss answers the latter by paths
(section 8.1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..checks import is_count
from ..errors import AssumptionError, InputError
from ..rank import Peers
from .clusters import Clusters
from .intervals import Intervals, assumed, join, ranked_intervals
from .parallel import in_chunks
from .request import Request, generator
from .score import Score
from .thresholds import Scores

__all__ = ["cross", "cv_plus", "ends_around", "fit_without", "jackknife_plus", "split", "split_units"]

_ENTRIES = 2_000_000


def split(fits: Any, asked: Request) -> list[Intervals]:
    """Split conformal intervals: one part of the training rows is fitted, the other calibrates."""
    clusters = asked.folds if isinstance(asked.folds, Clusters) else None
    parts = asked.parts
    if clusters is not None:
        parts = clusters.parts(len(asked.rows), parts)
        _refuse_formula(asked)
    units = fits.n if clusters is None else clusters.count
    held, fitted = split_units(units, asked, 2 if clusters is None else 1)
    count = len(held)
    if clusters is not None:
        held, fitted = clusters.rows(held), clusters.rows(fitted)
    made = [_held_out(one, own, fitted, held) for one, own in _responses(fits, asked)]
    scores = np.max([each for each, _, _ in made], axis=0)
    groups = [(which, peers.among(held)) for which, peers in parts]
    out = []
    for alpha in asked.alphas:
        levels = []
        for which, peers in groups:
            more: dict[str, Any] = {}
            level = np.broadcast_to(peers.rank(alpha).kth(scores), len(which))
            if asked.conditional is not None:
                along = asked.conditional.among(held).take(which)
                level = along.thresholds(Scores.fixed(scores, len(which)), alpha)
                more["guarantee"] = along.guarantee(alpha, len(held))
            levels.append((which, peers, level, more))
        for _, centre, sigma in made:
            each = []
            for which, peers, level, more in levels:
                ends = ends_around(asked.score, level, sigma[which], centre[which])
                more = {**more, "centre": centre[which]}
                each.append(ranked_intervals(*ends, peers, alpha, asked.side, "split", **more))
            joined = join(each, [which for which, _ in groups])
            out.append(joined if clusters is None else clusters.labelled(joined, count, 1.0 - alpha, ""))
    return out


def split_units(units: int, asked: Request, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Which rows, or clusters, calibrate, and which are fitted, ``least`` at least."""
    count = min(max(1, math.ceil(asked.calibration * units - 1e-9)), units - least)
    if count < 1:
        raise InputError(f"{units} rows are too few to be split: use at least 3, or another method")
    order = generator(asked.random_state).permutation(units)
    return order[:count], order[count:]


def _refuse_formula(asked: Request) -> None:
    if asked.conditional is not None:
        raise AssumptionError("conditional= has no guarantee with clusters of rows: drop it, or folds=")


def cross(fits: Any, asked: Request) -> list[Intervals]:
    """K-fold cross-conformal sets: hulls, with the pieces of sets that are not intervals."""
    if isinstance(asked.folds, Clusters):
        raise AssumptionError("method='cross' takes a number of folds: for clusters use method='cv+'")
    return _folded(fits, asked, "cross", asked.folds)


def cv_plus(fits: Any, asked: Request) -> list[Intervals]:
    """CV+ intervals."""
    return _folded(fits, asked, "cv+", asked.folds)


def jackknife_plus(fits: Any, asked: Request) -> list[Intervals]:
    """Jackknife+ intervals: CV+ with one row per fold."""
    return _folded(fits, asked, "jackknife+", fits.n)


def _responses(fits: Any, asked: Request) -> list[tuple[Any, Request]]:
    """The fits of each response, and what is asked of them: one, or several that are scored jointly, in
    units of their residual scales (theory, section 8)."""
    if not hasattr(fits, "each"):
        return [(fits, asked)]
    m = len(asked.rows)
    return [(one, replace(asked, scale=fits.part_scale(one, m))) for one in fits.each]


def _held_out(
    fits: Any, asked: Request, fitted: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of the rows ``held`` from a fit to the rows ``fitted``, and its predictions and scales of new
    rows."""
    predict = fit_without(fits, asked, fitted, held)
    score = _in_response(asked.score)
    sigma = np.ones(len(asked.rows))
    if asked.scale is not None:
        trained, sigma = asked.scale.scales(fitted, fits.y[fitted] - predict(fits.X[fitted]))
        score = replace(score, scale=trained)
    return score.values(fits.y[held] - predict(fits.X[held]), held), predict(asked.rows), sigma


def fit_without(
    fits: Any, asked: Request, fitted: np.ndarray, held: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """The fit to the rows ``fitted``, as a function from design rows to predictions."""
    alone = len(held) == 1 and len(fitted) == fits.n - 1 and not isinstance(asked.folds, Clusters)
    return fits.without(int(held[0])) if alone else fits.predictor(fitted)


def _in_response(score: Score) -> Score:
    """The score of residuals in units of the response, which fits to parts of the rows have."""
    return replace(score, unit=1.0, location=0.0)


def ends_around(
    score: Score, level: np.ndarray, sigma: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the responses whose score is at most ``level``, at predictions ``centre`` with scales
    ``sigma``."""
    low, high = _in_response(score).own_interval(level, sigma, centre)
    return centre + low, centre + high


@dataclass(frozen=True)
class _Folds:
    """What the fits without each of K folds say.

    Attributes
    ----------
    fold : (n,) array of int
        The fold of each training row.
    scores : (n,) array
        Scores of the training rows from the fit without their fold.
    predictions, sigma : (m, K) arrays
        Predictions and scales of the new rows by each fit.
    """

    fold: np.ndarray
    scores: np.ndarray
    predictions: np.ndarray
    sigma: np.ndarray


def _held_parts(fits: Any, asked: Request, folds: int | Clusters) -> list[np.ndarray]:
    """The rows of each fold."""
    n = fits.n
    if isinstance(folds, Clusters):
        return [folds.rows(np.array([j])) for j in range(folds.count)]
    if not (is_count(folds, 2) and folds <= n):
        raise InputError(
            f"folds={folds!r} is not allowed: give a whole number from 2 to the {n} training rows"
        )
    order = np.arange(n) if folds == n else generator(asked.random_state).permutation(n)
    return np.array_split(order, folds)


def _make_folds(fits: Any, asked: Request, parts: list[np.ndarray]) -> _Folds:
    n = fits.n
    shape = len(asked.rows), len(parts)
    made = _Folds(np.empty(n, dtype=int), np.empty(n), np.empty(shape), np.empty(shape))
    if len(parts) == n and asked.n_jobs != 1:
        fits.without(0)  # what all such fits share is made before other processes get it
    some = partial(_without, fits, asked, parts)
    size = max(1, len(parts) // 100)
    found = in_chunks(some, np.arange(len(parts)), asked.n_jobs, asked.progress, size=size, unit="fold")
    each = [one for chunk in found for one in chunk]
    for j, held in enumerate(parts):
        made.fold[held] = j
        made.scores[held], made.predictions[:, j], made.sigma[:, j] = each[j]
    return made


def _without(
    fits: Any, asked: Request, parts: list[np.ndarray], folds: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """`_held_out` of some of the folds."""
    every = np.arange(fits.n)
    return [_held_out(fits, asked, np.delete(every, parts[j]), parts[j]) for j in folds]


def _folded(fits: Any, asked: Request, method: str, folds: int | Clusters) -> list[Intervals]:
    """`Intervals` of all groups, one record per alpha (and response)."""
    clusters = folds if isinstance(folds, Clusters) else None
    parts = asked.parts if clusters is None else clusters.parts(len(asked.rows), asked.parts)
    held = _held_parts(fits, asked, folds)
    found = [_make_folds(one, own, held) for one, own in _responses(fits, asked)]
    scores = np.max([made.scores for made in found], axis=0)
    given = fits.given if folds == fits.n else ""  # folds of several rows learn units of their own
    out = []
    for alpha in asked.alphas:
        for made in (replace(one, scores=scores) for one in found):
            each = [_fold_intervals(made, asked, which, alpha, method, peers) for which, peers in parts]
            joined = join(each, [which for which, _ in parts])
            if clusters is not None:
                promise = max(0.0, 1.0 - 2.0 * alpha)
                joined = clusters.labelled(joined, clusters.count, promise, " (1 - 2 alpha)")
            out.append(replace(joined, guarantee=f"{joined.guarantee}{given}"))
    return out


def _fold_intervals(
    made: _Folds, asked: Request, rows: np.ndarray, alpha: float, method: str, peers: Peers
) -> Intervals:
    """`Intervals` of one group of new rows."""
    m, rank = len(rows), peers.rank(alpha)
    lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
    pieces: dict[int, tuple[tuple[float, float], ...]] = {}
    counts = method == "cross" and asked.side == "two-sided"  # how many rows agree, instead of ranking ends
    size = max(1, _ENTRIES // len(made.scores))
    for first in range(0, 0 if np.all(peers.open(alpha)) else m, size):
        part = slice(first, min(first + size, m))
        centre, sigma = (values[rows[part]][:, made.fold] for values in (made.predictions, made.sigma))
        level = np.broadcast_to(made.scores, centre.shape)
        low, high = (rank.of(end) for end in ends_around(asked.score, level, sigma, centre))
        if not counts:
            near = replace(rank.take(part), which=None)
            lower[part], upper[part] = -near.kth(-low), near.kth(high)
            continue
        least = peers.size - int(rank.mass) + 1  # every row counts once
        for i in range(len(centre)):
            found = _agreed(low[i], high[i], least)
            lower[first + i], upper[first + i] = (found[0][0], found[-1][1]) if found else (np.nan, np.nan)
            if len(found) > 1:
                pieces[first + i] = tuple(found)
    words = _guarantee(alpha, peers, made.predictions.shape[1])
    more = {"pieces": pieces, "guarantee": words, "centre": np.median(made.predictions[rows], axis=1)}
    return ranked_intervals(lower, upper, peers, alpha, asked.side, method, **more)


def _agreed(low: np.ndarray, high: np.ndarray, least: float) -> list[tuple[float, float]]:
    """Where at least ``least`` of the closed intervals ``[low_i, high_i]`` meet."""
    ends = np.concatenate([low, high])
    turn = np.concatenate([np.ones(len(low), dtype=int), -np.ones(len(high), dtype=int)])
    order = np.lexsort((-turn, ends))  # at a tie intervals begin before others end
    depth = np.cumsum(turn[order])
    begins = np.flatnonzero((depth >= least) & (depth - turn[order] < least))
    stops = np.flatnonzero((depth < least) & (depth - turn[order] >= least))
    return list(zip(ends[order][begins].tolist(), ends[order][stops].tolist(), strict=True))


def _guarantee(alpha: float, peers: Peers, folds: int) -> str:
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
