"""Methods that hold rows out: split, cross-conformal, CV+ and jackknife+ (theory, section 6).

Every row that is ranked has its score from a fit that did not see it. With mu_i the fit without the fold of
row i and R_i = |y_i - mu_i(x_i)|, the cross-conformal set holds the z with enough R_i >= |z - mu_i(x)|; CV+
takes order statistics of mu_i(x) -+ R_i instead. With weights jackknife+ ranks by weight (Prinster, Liu and
Saria, 2022); with `Clusters` split and CV+ hold whole clusters out (Lee, Barber and Willett, 2023). Any
estimator will do: only ``fits.predictor`` and, for single rows, ``fits.without`` are asked for.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..checks import is_count
from ..errors import AssumptionError, InputError
from ..rank import Peers
from .clusters import Clusters
from .intervals import Intervals, Pieces, assumed, hulls, join, ranked_intervals
from .parallel import parts_of
from .request import Part, Request, generator
from .thresholds import Scores

Found = list[np.ndarray]  # predictions and scales of new rows by each of K fits, (m, K) both


def split(fits: Any, asked: Request) -> list[Intervals]:
    """Split conformal intervals: one part of the training rows is fitted, the other calibrates."""
    if not isinstance(asked.folds, Clusters):
        held, fitted = split_units(fits.n, asked)
        return _made(fits, asked, "split", [held], fitted)
    if asked.conditional is not None:
        raise AssumptionError("conditional= has no guarantee with clusters of rows: drop it, or folds=")
    held, fitted = split_units(asked.folds.count, asked, least=1)
    return _made(fits, asked, "split", [asked.folds.rows(held)], asked.folds.rows(fitted), len(held))


def split_units(units: int, asked: Request, least: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Which rows, or clusters, calibrate, and which are fitted, ``least`` at least."""
    count = min(max(1, math.ceil(asked.calibration * units - 1e-9)), units - least)
    if count < 1:
        raise InputError(f"{units} rows are too few to be split: use at least 3, or another method")
    order = generator(asked.random_state).permutation(units)
    return order[:count], order[count:]


def cross(fits: Any, asked: Request) -> list[Intervals]:
    """K-fold cross-conformal sets: hulls, with the pieces of sets that are not intervals."""
    if isinstance(asked.folds, Clusters):
        raise AssumptionError("method='cross' takes a number of folds: for clusters use method='cv+'")
    return _made(fits, asked, "cross", _held_parts(fits, asked, asked.folds))


def cv_plus(fits: Any, asked: Request) -> list[Intervals]:
    """CV+ intervals."""
    return _made(fits, asked, "cv+", _held_parts(fits, asked, asked.folds))


def jackknife_plus(fits: Any, asked: Request) -> list[Intervals]:
    """Jackknife+ intervals: CV+ with one row per fold."""
    return _made(fits, asked, "jackknife+", _held_parts(fits, asked, fits.n))


def fit_without(
    fits: Any, asked: Request, fitted: np.ndarray, held: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """The fit to the rows ``fitted``, as a function from design rows to predictions."""
    alone = len(held) == 1 and len(fitted) == fits.n - 1 and not isinstance(asked.folds, Clusters)
    return fits.without(int(held[0])) if alone else fits.predictor(fitted)


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


def _held_out(
    fits: Any, asked: Request, fitted: np.ndarray | None, parts: list[np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For some of the parts, the scores of its rows from the fit without them (or to the rows ``fitted``),
    and that fit's predictions and scales of new rows."""
    out = []
    for held in parts:
        rest = np.delete(np.arange(fits.n), held) if fitted is None else fitted
        predict = fit_without(fits, asked, rest, held)
        score, sigma = asked.score, np.ones(len(asked.rows))
        if asked.scale is not None:
            trained, sigma = asked.scale.scales(rest, fits.y[rest] - predict(fits.X[rest]))
            score = replace(score, scale=trained)
        r = fits.y[held] - predict(fits.X[held])
        out.append((score.values(r, held), predict(asked.rows), sigma))
    return out


def _made(
    fits: Any,
    asked: Request,
    method: str,
    parts: list[np.ndarray],
    fitted: np.ndarray | None = None,
    count: int | None = None,
) -> list[Intervals]:
    """`Intervals` from the scores of rows that were held out, part by part; one record per alpha (and
    response). ``count`` is the number of clusters that calibrate, if not all do."""
    clusters = asked.folds if isinstance(asked.folds, Clusters) else None
    groups = asked.parts if clusters is None else clusters.parts(len(asked.rows), asked.parts)
    asked = replace(asked, score=replace(asked.score, unit=1.0, location=0.0))  # of residuals in y's units
    each = [(fits, asked)]
    if hasattr(fits, "each"):  # several responses, scored jointly in units of their residual scales
        each = [(one, replace(asked, scale=fits.part_scale(one, len(asked)))) for one in fits.each]
    ranked = np.concatenate(parts)  # the rows that have scores
    fold = np.zeros(fits.n, dtype=int)
    fold[ranked] = np.repeat(np.arange(len(parts)), [len(held) for held in parts])
    scores = np.full(fits.n, -np.inf)
    found: list[Found] = []  # for every response
    size = max(1, len(parts) // 100)
    for one, own in each:
        if len(parts) == fits.n and asked.n_jobs != 1:
            one.without(0)  # what all such fits share is made before other processes get it
        chunks = asked.in_chunks(partial(_held_out, one, own, fitted), parts, size, "fold")
        values, *new = zip(*(made for chunk in chunks for made in chunk), strict=True)
        scores[ranked] = np.maximum(scores[ranked], np.concatenate(values))
        found.append([np.array(columns).T for columns in new])
    once = method == "split"
    # Folds of several rows learn units of their own.
    given = fits.given if not once and len(parts) == fits.n and clusters is None else ""
    out = []
    for alpha in asked.alphas:
        if once:
            sets = [_split_intervals(found, scores, asked, parts[0], alpha, group) for group in groups]
        else:
            ask = partial(_fold_intervals, scores, fold, asked, alpha, method)
            sets = [[ask(group, made) for made in found] for group in groups]
        for same in zip(*sets, strict=True):
            joined = join(same, [which for which, _ in groups])
            if clusters is not None:
                promise = 1.0 - alpha if once else max(0.0, 1.0 - 2.0 * alpha)
                words = "" if once else " (1 - 2 alpha)"
                joined = clusters.labelled(joined, count or clusters.count, promise, words)
            out.append(replace(joined, guarantee=f"{joined.guarantee}{given}"))
    return out


def _split_intervals(
    found: list[Found], scores: np.ndarray, asked: Request, held: np.ndarray, alpha: float, group: Part
) -> list[Intervals]:
    """`Intervals` of one group of new rows for each response, from the rows ``held`` that calibrate."""
    rows, scores, peers = group[0], scores[held], group[1].among(held)
    more: dict[str, Any] = {}
    level = np.broadcast_to(peers.rank(alpha).kth(scores), len(rows))
    if asked.conditional is not None:
        along = asked.conditional.among(held).take(rows)
        level = along.thresholds(Scores.fixed(scores, len(rows)), alpha)
        more["guarantee"] = along.guarantee(alpha, len(held))
    out = []
    for centre, sigma in ((values[rows, 0], scales[rows, 0]) for values, scales in found):
        ends = asked.score.own_ends(level, sigma, centre)
        more["centre"] = centre
        out.append(ranked_intervals(*ends, peers, alpha, asked.side, "split", **more))
    return out


def _fold_intervals(
    scores: np.ndarray,
    fold: np.ndarray,
    asked: Request,
    alpha: float,
    method: str,
    group: Part,
    found: Found,
) -> Intervals:
    """`Intervals` of one group of new rows, from the score of each training row and its ``fold`` (n,)."""
    (rows, peers), (predictions, scales) = group, found
    m, rank = len(rows), peers.rank(alpha)
    lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
    pieces: dict[int, Pieces] = {}
    counts = method == "cross" and asked.side == "two-sided"  # how many rows agree, instead of ranking ends
    for part in parts_of(len(scores), 0 if np.all(peers.open(alpha)) else m):
        centre, sigma = (values[rows[part]][:, fold] for values in (predictions, scales))
        level = np.broadcast_to(scores, centre.shape)
        low, high = (rank.of(end) for end in asked.score.own_ends(level, sigma, centre))
        if not counts:
            near = replace(rank.take(part), which=None)
            lower[part], upper[part] = -near.kth(-low), near.kth(high)
            continue
        least = peers.size - int(rank.mass) + 1  # every row counts once
        sets = [_agreed(*ends, least) for ends in zip(low, high, strict=True)]
        lower[part], upper[part], apart = hulls(sets)
        pieces |= {part.start + i: found for i, found in apart.items()}
    promise, words = _promise(alpha, peers, predictions.shape[1])
    more: dict[str, Any] = {"pieces": pieces, "promise": promise, "guarantee": words}
    more["centre"] = np.median(predictions[rows], axis=1)
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


def _promise(alpha: float, peers: Peers, folds: int) -> tuple[float, str]:
    """The coverage known of K-fold methods (Barber, Candes, Ramdas and Tibshirani, 2021), also in words.
    Within a group the p-value is the average of the folds' p-values, weighted by how many of its rows each
    has; twice an average of p-values is one."""
    n, loss = peers.size, 0.0
    if folds < peers.count and peers.which is not None:
        loss = 2.0 * (1.0 - alpha) * (folds - 1.0) / (n + folds)
    elif folds < n:
        loss = min(2.0 * (1.0 - 1.0 / folds) / (n / folds + 1.0), (1.0 - folds / n) / (folds + 1.0))
    level = max(0.0, 1.0 - 2.0 * alpha - loss)
    much = "a little" if peers.which is None else f"{loss:.2g}"
    words = f"1 - 2 alpha, less {much} for folds" if loss else "1 - 2 alpha"
    return level, f"covers with probability at least {level:.3g} ({words}){assumed(peers)}"
