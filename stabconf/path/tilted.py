"""Tilted fits T(t) of many new rows from one clipped fit, screened and checked (theory, section 5).

The path of a new row needs only the training rows that change sides on it, and its order statistic only
the rows near the k-th. Both are guessed generously and confirmed afterwards from the length of the move
that was found: ``|x_i' d| <= norm_i * length(d)`` holds for any d, at any penalty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..rank import Rank, Scoring
from .clipped import ClippedFit
from .following import Corners, Followed, batch_size, follow, stationarity

__all__ = ["Refit", "Tilted", "runs_away", "tilted_fits"]

Refit = Callable[[np.ndarray], tuple[np.ndarray, float]]  # fresh coefficients and their radius at a tilt

_CHUNK = 512  # new rows at a time
_GENEROUS = 4.0  # watched rows: those within so many times the move that curvature of 1 would give
_TOLERANCE = 1e-9  # of the stationarity residual, relative to its terms
_WIDE = 100  # columns from which on fits that vanishing weights hold are not made anew
_RUNAWAY = 1e-3  # share of the tilt that vanishing weights hold where a fit has no minimiser


@dataclass(frozen=True)
class Tilted:
    """Tilted fits of m new rows, relative to the fit they start from.

    Attributes
    ----------
    move : (m, p) array
        T(t) - T(0).
    radius : (m,) array
        Certified distance to the minimiser in the norm of P, of fresh fits; 0 for paths, which end there
        but for rounding errors.
    followed : (m,) array of bool
        False where a path was given up for a fresh fit.
    direction : (m, p) array
        Movement of the fits per unit of size of the tilt, on the last stretch.
    endless : (m,) array of bool
        True where the tilted objective has no minimiser: the fit follows a far response without end. Also
        where nothing is known of it, and the radius is infinite.
    corners : list of (sizes, theta) or None
        Sizes of the tilt (K,) and coefficients (K, p) where each path bends, from its start to its end;
        None for a path that was given up. Empty unless asked for.
    """

    move: np.ndarray
    radius: np.ndarray
    followed: np.ndarray
    direction: np.ndarray
    endless: np.ndarray
    corners: list[Corners | None] = field(default_factory=list)

    def order_statistics(self, fit: ClippedFit, ranks: Sequence[Rank], score: Scoring) -> np.ndarray:
        """Order statistics of the training rows' scores after the moves, one row per rank (len(ranks),
        m)."""
        r = fit.r[: fit.count]
        X = fit.X[: fit.count]
        base = score.values(r)
        norms = score.norms(fit.row_norms[: fit.count])
        length = fit.length(self.move)
        out = np.empty((len(ranks), len(length)))
        for part in _chunks(length, fit):
            reach = norms * np.max(length[part])
            low = base - reach
            high = base + reach
            for j, rank in enumerate(ranks):
                window, near = rank.take(part).window(low, high)
                out[j, part] = near.kth(score.values(r[window] - self.move[part] @ X[window].T, window))
        return out


def _chunks(size: np.ndarray, fit: ClippedFit) -> list[np.ndarray]:
    """Indices in order of ``size``, in chunks of rows that are alike."""
    count = min(_CHUNK, batch_size(fit))
    order = np.argsort(size)
    return [order[first : first + count] for first in range(0, len(order), count)]


def tilted_fits(
    fit: ClippedFit,
    rows: np.ndarray,
    tilt: np.ndarray,
    refit: Refit | None,
    corners: bool = False,
    without: np.ndarray | None = None,
) -> Tilted:
    """Follow the fit of each new row (m, p) from no tilt to its own.

    ``tilt`` (m,) is finite, or infinite for all rows, where only the rows of the L1 part can change sides.
    ``refit`` is asked where a path cannot be trusted; with None such a path is left as not followed.
    ``corners`` asks for where the paths bend. ``without`` (m,) are training rows that stay as they are.
    """
    m, p = rows.shape
    move = np.zeros((m, p))
    radius = np.zeros(m)
    followed = np.zeros(m, dtype=bool)
    direction = np.zeros((m, p))
    endless = np.zeros(m, dtype=bool)
    bends: list[Corners | None] = [None] * m
    infinite = bool(np.any(np.isinf(tilt)))
    size = np.where(np.isinf(tilt), np.inf, np.abs(tilt) * fit.norms(rows))
    order, key = fit.order
    at_least = int(np.count_nonzero(key == 0)) + 8
    for part in _chunks(size, fit):
        left = part
        count = max(at_least, int(np.searchsorted(key, _GENEROUS * np.max(size[part]))))
        while len(left) and fit.hessian_inverse is not None:
            watched = order[:count]
            unit = np.sign(tilt[left]) if infinite else tilt[left]
            force = -unit[:, None] * rows[left]
            gone = None if without is None else without[left]
            found = follow(
                fit,
                watched,
                force,
                length=np.inf if infinite else 1.0,
                corners=corners,
                limit=without is None,
                without=gone,
            )
            delta = found.theta - fit.theta
            relative = stationarity(fit, watched, found, found.position[:, None] * force, gone)
            length = _longest(fit, found) if corners else fit.length(delta)
            length[found.endless] = np.inf  # another row may yet stop it
            limit = np.full(len(left), key[count] if count < len(key) else np.inf)
            if gone is not None and count < len(key):  # a row that is not there may move as far as it likes
                limit[order[count] == gone] = key[count + 1] if count + 1 < len(key) else np.inf
            good = found.arrived & (relative <= _TOLERANCE) & ((length < limit) | np.isinf(limit))
            at = left[good]
            move[at] = delta[good]
            followed[at] = True
            direction[at] = found.direction[good] / np.abs(unit[good])[:, None]
            endless[at] = found.endless[good]
            if corners:
                for i, j in zip(at, np.flatnonzero(good), strict=True):
                    bends[i] = found.corners[j][0] * abs(unit[j]), found.corners[j][1]
            wider = ~good & found.arrived & (length >= limit)
            left = left[wider]
            if count >= len(key):
                break
            longest = np.max(length[wider & np.isfinite(length)], initial=0.0)
            count = min(len(key), max(4 * count, int(np.searchsorted(key, 1.5 * longest))))
        if refit is None:
            continue
        if fit.extra.any() and p > _WIDE:  # a fresh fit takes long and would hardly be nearer
            endless[part] |= ~followed[part]
            radius[part[~followed[part]]] = np.inf
            continue
        for i in part[~followed[part]] if not infinite else ():
            theta, radius[i] = refit(tilt[i] * rows[i])
            move[i] = theta - fit.theta
            endless[i] = runs_away(fit.extra, theta, tilt[i] * rows[i], radius[i])
    return Tilted(move, radius, followed, direction, endless, bends if corners else [])


def runs_away(extra: np.ndarray, theta: np.ndarray, tilt: np.ndarray, radius: float = 0.0) -> bool:
    """Whether vanishing weights ``extra`` (p,) may hold a tilted fit, which would else follow without end;
    it is known to lie within ``radius`` of ``theta``."""
    if not extra.any():
        return False
    pull = np.linalg.norm(extra * theta) + np.sqrt(np.max(extra)) * radius
    return bool(pull > _RUNAWAY * np.linalg.norm(tilt))


def _longest(fit: ClippedFit, found: Followed) -> np.ndarray:
    """Longest moves on the way of paths whose corners are known (B,)."""
    cuts = np.cumsum([0, *(len(theta) for _, theta in found.corners)])
    lengths = fit.length(np.concatenate([theta for _, theta in found.corners]) - fit.theta)
    return np.maximum.reduceat(lengths, cuts[:-1])
