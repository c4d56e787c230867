"""Interpolated fits between a few responses, with stability bounds in between (theory, section 6).

The augmented sample is fitted at some query responses; in between the fit is interpolated, and beyond the
outermost it is held, so that the weights are always shares. A true fit is within three times tau of the
interpolated one, as in the paper (any of the query fits is within tau of it already). The residuals of
the interpolated fits are lines between two queries, so the set follows from their roots.
"""

import numpy as np

from ..checks import is_count, is_number
from ..errors import AssumptionError, InputError
from ..path import Polyline, merge
from ..rank import Peers
from ..stability import default_bound, new_rows, reach
from .intervals import ranked_intervals
from .score import Score

__all__ = ["interpolation"]

_FACTOR = 3.0


def interpolation(fits, rows, alphas, *, side="two-sided", queries=8, bound=None, inner=False, peers=None):
    """Sets from interpolated fits.

    Parameters
    ----------
    fits : Fits
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
        found.append(_row(fits, row, queries, own, Score.of(side), bound, inner))
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


def _row(fits, row, queries, ranks, score, bound, inner):
    """Ends of the outer and of the inner set of one row, for every rank."""
    path, slack = _path(fits, row, queries, bound)
    problem, out = fits.problem, []
    for rank in ranks:
        outer = path.pieces(problem.X, problem.v, rank, score, slack=-slack)
        certain = path.pieces(problem.X, problem.v, rank, score, slack=slack) if inner else []
        ends = np.array([*_hull(outer), *_longest(certain)])
        out.append(fits.centre + fits.scale * ends)
    return out


def _path(fits, row, queries, bound):
    """Interpolated fits as a `Polyline`, and the bounds on its scores."""
    base, theta, start = fits.base, [], fits.base.solution.x
    w = fits.responses(queries)
    for response in w:
        start = fits.augmented(row, response, start).x
        theta.append(start)
    moves = reach(base, new_rows(base, row[None], bound), bound)
    apart = np.array([base.steepest(-1) + base.steepest(1)])  # of any two tilts
    tau, own = moves.tau(apart)[0], float(moves.shift(apart)[0])
    still, theta = np.zeros(len(row)), np.array(theta)
    rays = (still, -1.0), (still, 1.0)
    path = Polyline(row, theta, w - theta @ row, rays, np.zeros(len(w) - 1, dtype=bool))
    return path, _FACTOR * (tau + own)


def _hull(pieces):
    return (min(low for low, _ in pieces), max(high for _, high in pieces)) if pieces else (np.nan, np.nan)


def _longest(pieces):
    return max(merge(pieces, near=1e-12), key=lambda piece: piece[1] - piece[0], default=(np.nan, np.nan))
