"""Full conformal sets by refitting at candidate responses: root finding, and a grid (theory, section 6).

Both are baselines: they know the set only to their resolution, and only if it is an interval (root) or
has no part between two points (grid), so they are not certified.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..rank import Peers
from .candidates import exact_p
from .intervals import Intervals, assumed, ranked_intervals
from .parallel import in_chunks
from .request import Request
from .score import DIRECTIONS

__all__ = ["grid", "root"]

_DOUBLINGS = 60
Inside = Callable[[float], bool]


def root(fits: Any, asked: Request) -> list[Intervals]:
    """Ends by bisection, with a refit of the augmented sample at every candidate (rootCP).

    NaN where the prediction itself is not in a two-sided set, so that there is nothing to start from.
    """
    return _by_row(_root_ends, fits, asked, "root", asked.tol * fits.scale)


def grid(fits: Any, asked: Request) -> list[Intervals]:
    """The hull of the candidates of a grid that are in the set, one step wider on each side.

    The grid covers the range of the training responses, half as long again. An end is infinite where
    the outermost candidate is in the set.
    """
    z = _grid(fits, asked.points)
    return _by_row(_grid_ends, fits, asked, "grid", z[1] - z[0])


def _grid(fits: Any, points: int) -> np.ndarray:
    low, high = np.min(fits.y), np.max(fits.y)
    return np.linspace(low - 0.25 * (high - low), high + 0.25 * (high - low), points)


def _by_row(
    ends: Callable[..., np.ndarray], fits: Any, asked: Request, method: str, resolution: float
) -> list[Intervals]:
    """`Intervals` from a function that gives the ends of one row at one level."""
    rows, own, peers = asked.rows, asked.own, asked.peers

    def chunk(which: np.ndarray) -> np.ndarray:
        each = [[ends(fits, asked, rows[i], own[i], a, peers.take(i)) for a in asked.alphas] for i in which]
        return np.array(each)

    found = in_chunks(chunk, np.arange(len(rows)), 1, asked.progress, size=1)
    values = np.concatenate(found).reshape(len(rows), len(asked.alphas), 2)
    words = f"the full conformal set to a resolution of {resolution:.2g}, assumed to be an interval"
    if peers.which is not None or peers.weights is not None:
        words = f"{words}; ranked{assumed(peers)}"
    out = []
    for a, alpha in enumerate(asked.alphas):
        lower, upper = values[:, a].T.copy()
        more: dict[str, Any] = {"certified": False, "guarantee": words}
        out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, method, **more))
    return out


def _root_ends(
    fits: Any, asked: Request, row: np.ndarray, own: float, alpha: float, peers: Peers
) -> np.ndarray:
    ends = np.array([-np.inf, np.inf])
    if peers.open(alpha):
        return ends

    def inside(z: float) -> bool:
        return bool(exact_p(fits, row, np.array([z]), asked.score, peers, own, refit=True)[0] > alpha)

    middle = _start(fits, asked, row, own, inside)
    if middle is None:
        return np.array([np.nan, np.nan])
    for direction in DIRECTIONS[asked.side]:
        ends[0 if direction < 0 else 1] = _end(inside, middle, direction, fits.scale, asked.tol)
    return ends


def _start(fits: Any, asked: Request, row: np.ndarray, own: float, inside: Inside) -> float | None:
    """A response in the set: the prediction, or for one-sided sets one behind it; None if not found."""
    eta = float(row @ fits.base.solution.x)
    middle = fits.centre + fits.scale * (eta + asked.score.own_centre(own, eta))
    steps = [0.0]
    if asked.score.sign:
        steps += [-asked.score.sign * fits.scale * 2.0**j for j in range(_DOUBLINGS)]
    return next((middle + step for step in steps if inside(middle + step)), None)


def _end(inside: Inside, start: float, direction: int, scale: float, tol: float) -> float:
    """The end on one side of a response in the set: doubling, then bisection; infinite if not found."""
    known, step = start, scale
    for _ in range(_DOUBLINGS):
        outside = known + direction * step
        if not inside(outside):
            break
        known, step = outside, 2.0 * step
    else:
        return direction * np.inf
    while abs(outside - known) > tol * scale:
        z = 0.5 * (known + outside)
        known, outside = (z, outside) if inside(z) else (known, z)
    return outside


def _grid_ends(
    fits: Any, asked: Request, row: np.ndarray, own: float, alpha: float, peers: Peers
) -> np.ndarray:
    z = _grid(fits, asked.points)
    inside = np.flatnonzero(exact_p(fits, row, z, asked.score, peers, own) > alpha)
    if not len(inside):
        return np.array([np.nan, np.nan])
    step, last = z[1] - z[0], len(z) - 1
    lower = -np.inf if inside[0] == 0 or asked.side == "upper" else z[inside[0]] - step
    upper = np.inf if inside[-1] == last or asked.side == "lower" else z[inside[-1]] + step
    return np.array([lower, upper])
