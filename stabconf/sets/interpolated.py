"""Interpolated fits between a few responses, with stability bounds in between (theory, section 6).

The augmented sample is fitted at some query responses; in between the fit is interpolated, and beyond the
outermost it is held, so that the weights are always shares. Every query fit is within tau of the true one,
and so is a mean of them; the paper's bound has three times tau. The residuals of the interpolated fits are
lines between two queries, so the set follows from their roots.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..checks import check_numbers, is_count
from ..errors import InputError
from ..path import Polyline, merge
from ..rank import Rank
from ..stability import BaseFit, default_bound
from .enclosure import steepest_moves
from .fits import Fits
from .intervals import Intervals, ranked_intervals
from .pinned import PinnedFits
from .request import Request

__all__ = ["interpolation"]

_PUBLISHED = 3.0  # times tau, in the paper
_NONE = np.nan, np.nan


def interpolation(fits: Fits, asked: Request) -> list[Intervals]:
    """Sets from interpolated fits; a number of ``queries`` is spread over the range of the responses."""
    queries = _queries(fits, asked.queries)
    bound = asked.bound or default_bound(fits.loss)
    ranks = [asked.peers.rank(alpha) for alpha in asked.alphas]
    found = [
        _row(fits, row, queries, [rank.take(i) for rank in ranks], asked, bound)
        for i, row in enumerate(asked.rows)
    ]
    out = []
    for a, alpha in enumerate(asked.alphas):
        ends = np.array([each[a] for each in found]).reshape(len(found), 4).T.copy()
        lower, upper, *inner = ends
        more: dict[str, Any] = {"inner": inner if asked.inner else None, "bound": bound}
        out.append(ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "interpolation", **more))
    return out


def _queries(fits: Fits, queries: int | Sequence[float]) -> np.ndarray:
    if isinstance(queries, int) and is_count(queries):
        return np.unique(np.linspace(np.min(fits.y), np.max(fits.y), queries))
    fix = "give a number of responses, or a list of responses"
    values, single = check_numbers(queries, "queries", np.isfinite, fix)
    if single:
        raise InputError(f"queries={queries!r} is not allowed: {fix}")
    return np.unique(values)


def _row(
    fits: Fits, row: np.ndarray, queries: np.ndarray, ranks: Sequence[Rank], asked: Request, bound: str
) -> list[np.ndarray]:
    """Ends of the outer and of the inner set of one row (4,), for every rank."""
    path, slack = _path(fits, row, queries, bound)
    problem = fits.problem
    out = []
    for rank in ranks:
        outer = path.pieces(problem.X, problem.v, rank, asked.score, slack=-slack)
        hull = (outer[0][0], outer[-1][1]) if outer else _NONE
        sure = path.pieces(problem.X, problem.v, rank, asked.score, slack=slack) if asked.inner else []
        longest = max(merge(sure, near=1e-12), key=lambda piece: piece[1] - piece[0], default=_NONE)
        out.append(fits.centre + fits.scale * np.array([*hull, *longest]))
    return out


def _path(fits: Fits, row: np.ndarray, queries: np.ndarray, bound: str) -> tuple[Polyline, np.ndarray]:
    """Interpolated fits as a `Polyline`, and the bounds on its scores."""
    known = [PinnedFits(fits, row, z).base for z in queries]
    theta = np.array([base.solution.x for base in known])
    e = fits.responses(queries) - theta @ row
    tau, own = (np.max(each, axis=0) for each in zip(*_moves(known, row, bound), strict=True))
    still = np.zeros(len(row))
    rays = (still, -1.0), (still, 1.0)
    path = Polyline(row, theta, e, rays, np.zeros(len(queries) - 1, dtype=bool))
    return path, (_PUBLISHED if bound == "paper" else 1.0) * (tau + own)


def _moves(known: Iterable[BaseFit], row: np.ndarray, bound: str) -> Iterator[tuple[np.ndarray, float]]:
    """How far the fit at any response can be from each of some, at the training rows (n,) and the new."""
    for base in known:
        tau, own = steepest_moves(base, row[None], bound)
        yield tau[0], float(own[0])
