"""Interpolated fits between a few responses, with stability bounds in between (theory, section 6).

The augmented sample is fitted at some query responses; in between the fit is interpolated, and beyond the
outermost it is held, so that the weights are always shares. A true fit is within three times tau of the
interpolated one, as in the paper (any of the query fits is within tau of it already). The residuals of
the interpolated fits are lines between two queries, so the set follows from their roots.
"""

import numpy as np

from ..checks import is_count, is_number
from ..errors import AssumptionError, InputError
from ..path import ResponsePath, merge
from ..scores import Peers
from ..solvers import Problem, minimise
from ..stability import default_bound, new_rows, reach
from .intervals import ranked_intervals

__all__ = ["interpolation"]

_FACTOR = 3.0
_SIGNS = {"two-sided": 0, "upper": 1, "lower": -1}


def interpolation(fits, rows, alphas, *, side="two-sided", queries=8, bound=None, inner=False, peers=None):
    """Sets from interpolated fits.

    Parameters
    ----------
    fits : ZoneFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    queries : int or sequence of float
        Responses to fit at; a number of them is spread over the range of the training responses.
    bound : str, optional
        As in `stable`.
    inner : bool
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
    """
    queries, bound = _queries(fits, queries), bound or default_bound(fits.loss)
    if np.isinf(fits.loss.lipschitz):
        raise AssumptionError(
            f"method='interpolation' needs one tau for all responses, which loss {fits.loss.describe()} "
            "does not have (it is not Lipschitz): use method='exact' or 'stable'"
        )
    peers = Peers(fits.n) if peers is None else peers
    ranks, found = [peers.rank(alpha) for alpha in alphas], []
    for i, row in enumerate(rows):
        own = [rank.take(i) for rank in ranks]
        found.append(_row(fits, row, queries, own, side, bound, inner))
    out = []
    for a, alpha in enumerate(alphas):
        ends = np.array([each[a] for each in found]).reshape(len(rows), 4)
        more = {"inner": ends[:, 2:].T.copy() if inner else (None, None), "bound": bound}
        out.append(ranked_intervals(*ends[:, :2].T.copy(), peers, alpha, side, "interpolation", **more))
    return out


def _queries(fits, queries):
    if is_count(queries):
        return np.unique(np.linspace(np.min(fits.y), np.max(fits.y), queries))
    values = list(queries) if np.ndim(queries) == 1 else []
    if not (values and all(is_number(value) and np.isfinite(value) for value in values)):
        raise InputError(
            f"queries={queries!r} is not allowed: give a number of responses, or the responses"
        )
    return np.unique(np.array(values, dtype=float))


def _row(fits, row, queries, ranks, side, bound, inner):
    """Ends of the outer and of the inner set of one row, for every rank."""
    outer, certain = [[] for _ in ranks], [[] for _ in ranks]
    for j, zone in enumerate(fits.zones):
        if zone.keep:
            for pieces in outer:
                pieces.append((zone.lower, zone.upper))
            continue
        path, slack, v = _path(fits, j, row, queries, bound)
        for a, rank in enumerate(ranks):
            for pieces, sign in ((outer[a], -1.0), (certain[a], 1.0) if inner else (None, 0.0)):
                if pieces is not None:
                    found = path.pieces(fits.X, v, rank, _SIGNS[side], sign * slack)
                    pieces += zone.cut_scaled(found)
    return [[*_hull(one), *_longest(two)] for one, two in zip(outer, certain, strict=True)]


def _path(fits, j, row, queries, bound):
    """Interpolated fits in a zone as a `ResponsePath`, the bounds on its scores, and the responses."""
    zone, base = fits.zones[j], fits.fit(j)
    problem = base.problem
    X, theta, start = np.vstack([problem.X, row]), [], base.solution.x
    w = (queries - zone.centre) / zone.scale
    for response in w:
        whole = Problem(X, np.append(problem.v, response), fits.loss, fits.ridge, fits.lasso)
        start = minimise(whole, start).x
        theta.append(start)
    moves = reach(base, new_rows(base, row[None], bound), bound)
    apart = np.array([base.steepest(-1) + base.steepest(1)])  # of any two tilts
    tau, own = moves.tau(apart)[0], float(moves.shift(apart)[0])
    still = np.zeros(len(row))
    return ResponsePath(row, w, np.array(theta), still, still), _FACTOR * (tau + own), problem.v


def _hull(pieces):
    return (min(low for low, _ in pieces), max(high for _, high in pieces)) if pieces else (np.nan, np.nan)


def _longest(pieces):
    return max(merge(pieces, near=1e-12), key=lambda piece: piece[1] - piece[0], default=(np.nan, np.nan))
