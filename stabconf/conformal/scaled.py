"""Full-data sets of residuals divided by a learned or fixed scale (theory, section 7).

Exact where slopes are steps (LAD and quantile loss). Squared loss has a certified enclosure, and so have
Lipschitz losses with curvature where the scale is learned: the first fit moves every size by at most its
tau, which with the new row moves the second fit by a length that its own curvature bounds; so every score
lies between two bounds.
"""

import math
from dataclasses import replace
from functools import cache, partial

import numpy as np

from ..columns import column_scales
from ..errors import AssumptionError
from ..scores import Peers
from ..solvers import minimise
from ..stability import BaseFit, default_bound, new_rows, reach
from .exact import require_unique
from .exact.learned import FLOOR, FixedRows, ScaledSets, ScaleRows
from .intervals import ranked_intervals
from .parallel import Work, in_chunks
from .scoring import LearnedScale
from .squared_scale import SquaredSearch

__all__ = ["exact_scaled", "learned_scales", "stable_scaled"]

_CHUNK = 64


def _scale_rows(fits, scale):
    """The columns of a learned scale standardised as those of the fit are, with the same penalty."""
    if not isinstance(scale, LearnedScale):
        return FixedRows(scale.trained[:, None], scale.new[:, None])
    if np.ptp(fits.ridge) > 0 or np.unique(fits.lasso[fits.lasso > 0]).size > 1:
        raise AssumptionError(
            "a learned scale shares the penalty of the fit, which here differs from column to column: give "
            "a column or a callable as scale, or one penalty for all"
        )
    ones = np.flatnonzero(np.all(scale.trained == 1.0, axis=0))
    intercept = int(ones[0]) if len(ones) else None
    columns, _ = column_scales(scale.trained, intercept, fits.standardize)
    slopes = np.arange(scale.trained.shape[1]) != intercept
    ridge = np.full(len(slopes), fits.ridge[0])
    lasso = np.max(fits.lasso, initial=0.0) * slopes
    return ScaleRows(columns.apply(scale.trained), columns.apply(scale.new), ridge, lasso)


def exact_scaled(fits, rows, alphas, scale, *, side="two-sided", peers=None, n_jobs=1, progress=None):
    """Exact intervals of scaled residuals, for losses whose slopes are steps.

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
    alphas : list of float
    scale : FixedScale or LearnedScale
    side : {"two-sided", "upper", "lower"}
    peers : Peers, optional
    n_jobs, progress
        As in `exact`.

    Returns
    -------
    list of Intervals
        Hulls. One-sided sets that end behind the fit are kept up to it.
    """
    require_unique(fits)
    peers = Peers(fits.n) if peers is None else peers
    ranks, columns = [peers.rank(alpha).within() for alpha in alphas], _scale_rows(fits, scale)
    chunk, work = partial(_chunk, fits, columns, side), Work(rows, ranks, columns.new)
    found = in_chunks(chunk, work, n_jobs, progress, size=_CHUNK)
    out = []
    for a, alpha in enumerate(alphas):
        lower, upper = np.concatenate([ends[a] for ends, _ in found]).reshape(-1, 2).T.copy()
        more = {"tilted_fits": sum(count for _, count in found), "tol": 0.0}
        out.append(ranked_intervals(lower, upper, peers, alpha, side, "exact", **more))
    return out


def _chunk(fits, columns, side, work):
    """Ends of some rows for each rank, and the number of tilted fits."""
    sets = ScaledSets(fits, replace(columns, new=work.beside), work.rows, side)
    ends = [[sets.hull(i, rank.take(i)) for i in range(len(work))] for rank in work.ranks]
    return [np.array(each, dtype=float).reshape(-1, 2) for each in ends], sets.solver.tilted


def stable_scaled(fits, rows, alphas, scale, *, side="two-sided", peers=None, bound=None):
    """Stable enclosures with a learned scale; with squared loss also with a fixed one.

    Parameters
    ----------
    fits, rows, alphas, scale, side, peers
        As in `exact_scaled`.
    bound : str, optional
        Of the first fit.

    Returns
    -------
    list of Intervals
    """
    loss = fits.loss
    if loss.piecewise_linear:
        raise AssumptionError(
            f"method='stable' with a learned scale needs a loss with curvature; {loss.describe()} has "
            "none, but exact sets: use method='exact'"
        )
    if np.isinf(loss.lipschitz) and not loss.softness:
        raise AssumptionError(
            f"a learned scale needs squared loss or one whose slope is bounded, which {loss.describe()} is "
            "not: use 'huber' (an enclosure) or 'lad' (exact sets), or method='split'"
        )
    bound, columns = bound or default_bound(loss), _scale_rows(fits, scale)
    peers = Peers(fits.n) if peers is None else peers
    ranks = [peers.rank(alpha) for alpha in alphas]
    second = cache(partial(_second, fits, columns=columns))
    ends = np.empty((len(rows), len(ranks), 2))
    for i, row in enumerate(rows):
        own = [rank.take(i) for rank in ranks]

        def in_zone(j, row=row, i=i, own=own):
            if np.isinf(loss.lipschitz):
                return _squared_ends(fits.fit(j), row, columns, i, own, side)
            return _zone_ends(fits.fit(j), row, columns, i, own, side, second(j), bound)

        ends[i] = fits.hull(len(ranks), in_zone)
    made = zip(alphas, np.moveaxis(ends, 0, 2).copy(), strict=True)
    return [ranked_intervals(*both, peers, alpha, side, "stable", bound=bound) for alpha, both in made]


def _second(fits, j, columns):
    """The `BaseFit` of the second regression in zone ``j``, of the training rows alone."""
    base = fits.fit(j)
    problem = columns.problem(np.abs(base.solution.r), fits.loss)
    return BaseFit(base.zone, problem, minimise(problem), None)


def _squared_ends(base, row, columns, i, ranks, side):
    """Ends for each rank in one zone (len(ranks), 2), for squared loss."""
    search, zone = SquaredSearch(base, columns, row, columns.new[i], side), base.zone
    middle, ends = float(base.predict(row[None])[0]), np.tile([-np.inf, np.inf], (len(ranks), 1))
    stretch = zone.scale * (1.0 + search.own)  # the prediction follows the response
    slack = zone.scale * search.own_error
    for place, direction in ((0, -1), (1, 1)):
        if side == ("upper" if direction < 0 else "lower"):
            continue
        edges = sorted(direction * (end - middle) for end in (zone.lower, zone.upper))
        near, far = max((edges[0] - slack) / stretch, 0.0), (edges[1] + slack) / stretch
        for a, rank in enumerate(ranks):
            rho = search.farthest(rank, direction, near, far) if far >= near else 0.0
            rho = 0.0 if math.isnan(rho) else rho
            ends[a, place] = middle + direction * (stretch * rho + slack)
    return ends


def _zone_ends(base, row, columns, i, ranks, side, second, bound):
    """Ends for each rank in one zone, as if it were the whole line (len(ranks), 2)."""
    loss, ratios, g = base.problem.loss, base.ratios, columns.new[i]
    moves = reach(base, new_rows(base, row[None], bound), bound)
    slope = np.array([max(base.steepest(-1), base.steepest(1))])
    tau, own = moves.tau(slope)[0], float(moves.shift(slope)[0])
    off = np.minimum(loss.smoothness * tau, max(ratios) * sum(loss.slopes))
    pull = max(second.steepest(-1), second.steepest(1))
    found = second.held(tau, off, pull, g) if np.all(np.isfinite(tau)) else None
    if found is None:  # the penalty alone
        metric = second.metric(None)
        found = (
            metric,
            metric.start + float(off @ metric.rows) + pull * float(metric.root.norms(g[None])[0]),
        )
    metric, size = found
    error = np.append(metric.rows, metric.root.norms(g[None])) * size
    sigma = np.append(second.problem.X, g[None], axis=0) @ second.solution.x
    low = np.maximum(np.nan_to_num(sigma - error, nan=-np.inf), FLOOR * min(ratios))
    high = np.maximum(np.nan_to_num(sigma + error, nan=np.inf), FLOOR * max(ratios))
    r, ends, scale = base.solution.r, np.tile([-np.inf, np.inf], (len(ranks), 1)), base.zone.scale
    for place, direction in ((0, -1), (1, 1)):
        if side == ("upper" if direction < 0 else "lower"):
            continue
        values = (np.abs(r) if side == "two-sided" else direction * r) + tau
        scores = values / np.where(values > 0, low[:-1], high[:-1])
        for a, rank in enumerate(ranks):
            level = float(rank.kth(scores))
            reached = own + level * (high[-1] if level > 0 else low[-1])
            ends[a, place] = float(base.predict(row[None])[0]) + direction * scale * reached
    return ends


def learned_scales(fits, scale):
    """Learned scales of the new rows, by the training rows alone, in units of the response (m,)."""
    columns, zone = _scale_rows(fits, scale), fits.zones[fits.reference]
    sigma = columns.new @ _second(fits, fits.reference, columns).solution.x
    return zone.scale * np.maximum(sigma, FLOOR)
