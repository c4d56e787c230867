"""Sets from the duality gap: how far slopes of a smooth loss can be from a fit's (theory, section 6).

The slopes of all rows at their residuals are the dual variables of the fit. Their problem is strongly
concave with 1/nu, so a fit with the new row at ``z_hat`` says within sqrt(2 nu gap) what they are at
another response, the gap being that of its own point there. What that rules out lies around ``z_hat``.
Called by `pinned` for ``bound="dual"``.
"""

import math
from collections.abc import Sequence

import numpy as np

from ..losses import Loss
from ..path import Piece
from ..rank import Rank
from ..stability import BaseFit
from .intervals import Intervals, Pieces, ranked_intervals
from .request import Request
from .score import Score, level_end

__all__ = ["dual_sets"]

_ROUNDING = 1e-13


def dual_sets(known: Sequence[Sequence[BaseFit]], asked: Request, method: str) -> list[Intervals]:
    """`Intervals` of rows, each of which has been fitted with some responses: the hulls of what no fit
    rules out, with the pieces."""
    out = []
    for alpha in asked.alphas:
        rank = asked.peers.rank(alpha)
        lower, upper = np.full(len(known), -np.inf), np.full(len(known), np.inf)
        apart: dict[int, Pieces] = {}
        for i, fits in enumerate(known):
            own = rank.take(slice(i, i + 1))
            found = [_ruled_out(base, asked.rows[i], own, asked.score) for base in fits]
            pieces = _rest([each for each in found if each is not None])
            lower[i], upper[i] = (pieces[0][0], pieces[-1][1]) if pieces else (np.nan, np.nan)
            if len(pieces) > 1:
                apart[i] = tuple(pieces)
        out.append(
            ranked_intervals(
                lower, upper, asked.peers, alpha, asked.side, method, bound="dual", pieces=apart
            )
        )
    return out


def _ruled_out(base: BaseFit, row: np.ndarray, rank: Rank, score: Score) -> Piece | None:
    """The responses, between two ends, that are surely not in the set; None where there are none.

    If one is in, the new row and one of the k training rows with the smallest slopes have changed places;
    two entries of a vector cannot come nearer by more than sqrt(2) times the length of its move.
    """
    loss = base.problem.loss
    slopes = np.append(base.solution.multipliers, base.pinned)
    slopes = score.sign * slopes if score.sign else np.abs(slopes)
    room = float(slopes[-1] - rank.kth(slopes[None, :-1])[0]) / math.sqrt(2.0)
    level = 0.5 * room**2 / loss.smoothness - base.solution.gap
    if not (room > 0 and level > 0):
        return None
    e = np.atleast_1d(loss.inverse_derivative(base.pinned))
    if not np.isfinite(e).all():  # at the bound of the slopes but for rounding
        e = np.atleast_1d(loss.inverse_derivative(np.nextafter(base.pinned, 0.0)))

    def added(to: np.ndarray) -> np.ndarray:
        return _gap(loss, to, e, base.pinned)

    ends = [level_end(added, e, np.array([level]), way) for way in (-1, 1)]
    low, high = base.predict(row[None]) + base.scale * np.ravel(ends)
    return float(low), float(high)


def _gap(loss: Loss, e: np.ndarray, fitted: np.ndarray, slope: float) -> np.ndarray:
    """What a new residual ``e`` adds to the duality gap, if its slope is that of a ``fitted`` one."""
    parts = np.array([loss.value(e), -loss.value(fitted), -slope * (e - fitted)])
    exact = np.sum(parts, axis=0) + _ROUNDING * np.sum(np.abs(parts), axis=0)
    return np.fmin(loss.fenchel_gap(e, np.full(e.shape, slope)), exact)


def _rest(out_of: Sequence[Piece]) -> list[Piece]:
    """The line without some open intervals, as closed ones; where two of them touch a point is left."""
    pieces = []
    end = -math.inf
    for low, high in sorted(out_of):
        if end <= low and low > -math.inf:
            pieces.append((end, low))
        end = max(end, high)
    return pieces if end == math.inf else [*pieces, (end, math.inf)]
