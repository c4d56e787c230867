"""Full conformal sets by refitting at candidate responses: root finding, and a grid (theory, section 6).

Both go with whatever can be refitted, any estimator too. They are baselines: they know the set only to
their resolution, and only if it is an interval (root) or has no part between two points (grid), so they are
not certified.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..rank import Peers
from .candidates import exact_p, spread_out
from .intervals import Intervals, assumed, ranked_intervals
from .parallel import in_chunks
from .request import Request
from .score import DIRECTIONS

__all__ = ["grid", "root"]

_DOUBLINGS = 60
_TRIES = 10
Inside = Callable[[float], bool]


def root(fits: Any, asked: Request) -> list[Intervals]:
    """Ends by bisection, with a refit of the augmented sample at every candidate (rootCP).

    NaN where no response in the set is found near the prediction, so that there is nothing to start from.
    """
    return _by_row(_root_ends, fits, asked, "root", asked.tol * fits.spread)


def grid(fits: Any, asked: Request) -> list[Intervals]:
    """The hull of the candidates of a grid that are in the set, one step wider on each side.

    The grid covers the range of the training responses, half as long again. An end is infinite where
    the outermost candidate is in the set.
    """
    z = spread_out(fits.y, asked.points)
    return _by_row(_grid_ends, fits, asked, "grid", z[1] - z[0])


def _by_row(
    ends: Callable[..., np.ndarray], fits: Any, asked: Request, method: str, resolution: float
) -> list[Intervals]:
    """`Intervals` from a function that gives the ends of one row at one level."""
    peers, m = asked.peers, len(asked.rows)
    found = in_chunks(
        partial(_ends_of, ends, fits, asked), np.arange(m), asked.n_jobs, asked.progress, size=1
    )
    values = np.concatenate(found).reshape(m, len(asked.alphas), 2)
    words = f"the full conformal set to a resolution of {resolution:.2g}, assumed to be an interval"
    if peers.which is not None or peers.weights is not None:
        words = f"{words}; ranked{assumed(peers)}"
    out = []
    for a, alpha in enumerate(asked.alphas):
        lower, upper = values[:, a].T.copy()
        more: dict[str, Any] = {"certified": False, "guarantee": words}
        out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, method, **more))
    return out


def _ends_of(ends: Callable[..., np.ndarray], fits: Any, asked: Request, which: np.ndarray) -> np.ndarray:
    """Ends of some rows at each level."""
    rows, own, peers = asked.rows, asked.own, asked.peers
    each = [[ends(fits, asked, rows[i], own[i], a, peers.take(i)) for a in asked.alphas] for i in which]
    return np.array(each)


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
        ends[0 if direction < 0 else 1] = _end(inside, middle, direction, fits.spread, asked.tol)
    return ends


def _start(fits: Any, asked: Request, row: np.ndarray, own: float, inside: Inside) -> float | None:
    """A response in the set: the prediction, or what the fit predicts that has it as a response, and so
    on; for one-sided sets one behind it. None if not found."""
    at = float(fits.predict(row[None])[0])
    middle = at + _least(fits, asked, own, at)
    if asked.score.sign:
        steps = [0.0, *(-asked.score.sign * fits.spread * 2.0**j for j in range(_DOUBLINGS))]
        return next((middle + step for step in steps if inside(middle + step)), None)
    for _ in range(_TRIES):
        if inside(middle):
            return middle
        _, (e,), _ = fits.refitted(row, fits.responses(np.array([middle])))
        at = middle - fits.scale * float(e)
        middle = at + _least(fits, asked, own, at)
    return None


def _least(fits: Any, asked: Request, own: float, prediction: float) -> float:
    """The residual of the new row whose score is smallest."""
    eta = float(fits.responses(prediction))
    return float(fits.scale * asked.score.own_centre(own, eta))


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
    z = spread_out(fits.y, asked.points)
    inside = np.flatnonzero(exact_p(fits, row, z, asked.score, peers, own) > alpha)
    if not len(inside):
        return np.array([np.nan, np.nan])
    step, last = z[1] - z[0], len(z) - 1
    lower = -np.inf if inside[0] == 0 or asked.side == "upper" else z[inside[0]] - step
    upper = np.inf if inside[-1] == last or asked.side == "lower" else z[inside[-1]] + step
    return np.array([lower, upper])
