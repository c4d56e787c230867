"""Full conformal sets by refitting at candidate responses: root finding, and a grid (theory, section 6).

Baselines for whatever can be refitted: they know the set only to their resolution, and only if it is an
interval (root) or has no part between two points (grid), so they are not certified.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .candidates import joint_p, spread_out
from .intervals import Intervals, assumed, ranked_intervals
from .request import Request
from .score import DIRECTIONS

_DOUBLINGS = 30
_TRIES = 10
P = Callable[..., np.ndarray]  # p-values of one row at candidates
Inside = Callable[[float], bool]


def root(fits: Any, asked: Request) -> list[Intervals]:
    """Ends by bisection, with a refit of the augmented sample at every candidate (rootCP). NaN where no
    response in the set is found near the prediction, so that there is nothing to start from."""
    return _by_row(_root_ends, fits, asked, "root", asked.tol * fits.spread)


def grid(fits: Any, asked: Request) -> list[Intervals]:
    """The hull of the candidates in the set, on a grid over the range of the training responses and half as
    much again, one step wider on each side; infinite where the outermost candidate is in the set."""
    z = spread_out(fits.y, asked.points)
    return _by_row(_grid_ends, fits, asked, "grid", z[1] - z[0])


def _by_row(
    ends: Callable[..., np.ndarray], fits: Any, asked: Request, method: str, resolution: float
) -> list[Intervals]:
    """`Intervals` from a function that gives the ends of one row at all levels."""
    peers, m = asked.peers, len(asked.rows)
    found = asked.in_chunks(partial(_ends_of, ends, fits), asked, size=1)
    values = np.concatenate(found).reshape(m, len(asked.alphas), 2)
    words = f"the full conformal set to a resolution of {resolution:.2g}, assumed to be an interval"
    if not asked.plain:
        words = f"{words}; ranked{assumed(peers)}"
    more: dict[str, Any] = {"certified": False, "guarantee": words}
    out = []
    for a, alpha in enumerate(asked.alphas):
        lower, upper = values[:, a].T.copy()
        out.append(ranked_intervals(lower, upper, peers, alpha, asked.side, method, **more))
    return out


def _ends_of(ends: Callable[..., np.ndarray], fits: Any, asked: Request) -> np.ndarray:
    """Ends of some rows at each level."""
    out = []
    for one in asked:
        terms = [(fits, one.score, 1.0)]
        out.append(ends(fits, one, partial(joint_p, terms, one.rows[0], peers=one.peers, own=one.own[0])))
    return np.array(out)


def _root_ends(fits: Any, asked: Request, p: P) -> np.ndarray:
    ends = np.tile([-np.inf, np.inf], (len(asked.alphas), 1))
    for a, alpha in enumerate(asked.alphas):
        if asked.peers.open(alpha):
            continue

        def inside(z: float, alpha: float = alpha) -> bool:
            return bool(p(z=np.array([z]), refit=True)[0] > alpha)

        middle = _start(fits, asked, inside)
        if middle is None:
            ends[a] = np.nan
            continue
        for direction in DIRECTIONS[asked.side]:
            ends[a, 0 if direction < 0 else 1] = _end(inside, middle, direction, fits.spread, asked.tol)
    return ends


def _start(fits: Any, asked: Request, inside: Inside) -> float | None:
    """A response in the set: that of the smallest score at the prediction, or at what the fit predicts that
    has it as a response, and so on; for one-sided sets one behind it. None if not found."""

    def best(at: float) -> float:
        """The response whose score is smallest at a prediction."""
        return at + float(fits.scale * asked.score.own_centre(asked.own[0], float(fits.responses(at))))

    (row,) = asked.rows
    middle = best(float(fits.predict(row[None])[0]))
    if asked.score.sign:
        steps = [0.0, *(-asked.score.sign * fits.spread * 2.0**j for j in range(_DOUBLINGS))]
        return next((middle + step for step in steps if inside(middle + step)), None)
    for _ in range(_TRIES):
        if inside(middle):
            return middle
        _, (e,), _ = fits.refitted(row, fits.responses(np.array([middle])))
        middle = best(middle - fits.scale * float(e))
    return None


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
        if z in (known, outside):  # there is no number in between
            break
        known, outside = (z, outside) if inside(z) else (known, z)
    return outside


def _grid_ends(fits: Any, asked: Request, p: P) -> np.ndarray:
    z = spread_out(fits.y, asked.points)
    values = p(z=z)
    step = z[1] - z[0]
    ends = np.full((len(asked.alphas), 2), np.nan)
    for a, alpha in enumerate(asked.alphas):
        inside = np.flatnonzero(values > alpha)
        if len(inside):
            lower = -np.inf if inside[0] == 0 or asked.side == "upper" else z[inside[0]] - step
            upper = np.inf if inside[-1] == len(z) - 1 or asked.side == "lower" else z[inside[-1]] + step
            ends[a] = lower, upper
    return ends
