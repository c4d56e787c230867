"""Tilted fits T(t) of many new rows from one clipped fit, screened and checked (theory, section 5).

The path of a new row needs only the training rows that change sides on it, and its order statistic only
the rows near the k-th. Both are guessed generously and confirmed afterwards from the length of the move
that was found: ``|x_i' d| <= norm_i * length(d)`` holds for any d, at any penalty.
"""

from dataclasses import dataclass

import numpy as np

from .follow import batch_size, follow, go_on, stationarity

__all__ = ["Tilted", "drift_lengths", "tilted_fits"]

_CHUNK = 512  # new rows at a time
_GENEROUS = 4.0  # watched rows: those within so many times the move that curvature of 1 would give
_TOLERANCE = 1e-9  # of the stationarity residual, relative to its terms


@dataclass(frozen=True)
class Tilted:
    """Tilted fits of m new rows, relative to the fit they start from.

    Attributes
    ----------
    move : (m, p) array
        T(t) - T(0).
    radius : (m,) array
        Length of the stationarity residual in the inverse norm of P; 0 where P is singular, for what
        is left there are rounding errors at a unique minimiser.
    steps : (m,) array of int
        Steps of the path; 0 where it was given up for a fresh fit.
    corners : list of (K, p) arrays or None
        Coefficients where each path bends, from its start to its end, if asked for; None for a path
        that was given up.
    """

    move: np.ndarray
    radius: np.ndarray
    steps: np.ndarray
    corners: list | None = None

    @classmethod
    def of(cls, move):
        """Moves that are already known."""
        return cls(move, np.zeros(len(move)), np.zeros(len(move), dtype=int))

    def order_statistics(self, fit, ranks, score, slack=None):
        """Order statistics of the training rows' scores after the moves, a line a rank (len(ranks), m).

        ``score`` maps residuals (..., n) to scores that change at most as much as the residuals; with
        ``slack`` (m,) each score is first raised by the slack times the norm of its row.
        """
        r, X, norms = fit.r[: fit.count], fit.X[: fit.count], fit.row_norms[: fit.count]
        base = score(r)
        length = fit.length(self.move)
        out = np.empty((len(ranks), len(length)))
        for part in _chunks(length, fit):
            reach = norms * np.max(length[part])
            if slack is not None:
                reach = reach + norms * np.max(np.abs(slack[part]))
            low, high = base - reach, base + reach
            for j, rank in enumerate(ranks):
                window, near = rank.take(part).window(low, high)
                scores = score(r[window] - self.move[part] @ X[window].T)
                if slack is not None:
                    scores = scores + slack[part, None] * norms[window]
                out[j, part] = near.kth(scores)
        return out


def _chunks(size, fit):
    """Indices in order of ``size``, in chunks of rows that are alike."""
    count = min(_CHUNK, batch_size(fit))
    order = np.argsort(size)
    return [order[first : first + count] for first in range(0, len(order), count)]


def tilted_fits(fit, rows, tilt, refit, corners=False):
    """Follow the fit of each new row from no tilt to its own.

    Parameters
    ----------
    fit : ClippedFit
    rows : (m, p) array
    tilt : (m,) array
    refit : callable
        Fresh coefficients for a tilt vector (p,), where a path cannot be trusted.
    corners : bool
        Record where the paths bend.

    Returns
    -------
    Tilted
    """
    m, p = rows.shape
    move, radius = np.zeros((m, p)), np.zeros(m)
    steps, bends = np.zeros(m, dtype=int), [None] * m
    size = np.abs(tilt) * fit.norms(rows)
    order, key = fit.order
    at_least = np.count_nonzero(key == 0) + 8
    for part in _chunks(size, fit):
        left = part
        count = max(at_least, np.searchsorted(key, _GENEROUS * np.max(size[part])))
        while len(left) and fit.hessian_inverse is not None:
            watched = order[:count]
            force = -tilt[left, None] * rows[left]
            found = follow(fit, watched, force, corners=corners)
            delta = found.theta - fit.theta
            e, relative = stationarity(fit, watched, found, force)
            length = _longest(fit, found) if corners else fit.length(delta)
            limit = key[count] if count < len(key) else np.inf
            good = found.arrived & (relative <= _TOLERANCE) & (length < limit)
            at = left[good]
            move[at], steps[at] = delta[good], found.steps[good]
            if corners:
                for i, j in zip(at, np.flatnonzero(good), strict=True):
                    bends[i] = found.corners[j][1]
            if fit.penalised:
                radius[at] = np.sqrt(np.sum(np.square(e[good]) / fit.ridge, axis=1))
            wider = ~good & found.arrived & (length >= limit)
            left = left[wider]
            if count >= len(key):
                break
            longest = np.max(length[wider], initial=0.0)
            count = min(len(key), max(4 * count, np.searchsorted(key, 1.5 * longest)))
        for i in part[steps[part] == 0]:
            theta, radius[i] = refit(tilt[i] * rows[i])
            move[i] = theta - fit.theta
    return Tilted(move, radius, steps, bends if corners else None)


def _longest(fit, found):
    """Longest moves on the way of paths whose corners are known (B,)."""
    cuts = np.cumsum([0, *(len(theta) for _, theta in found.corners)])
    lengths = fit.length(np.concatenate([theta for _, theta in found.corners]) - fit.theta)
    return np.maximum.reduceat(lengths, cuts[:-1])


def drift_lengths(fit, rows, tilt, stages):
    """How far the tilted fits of new rows move while location and scale do (m,); inf where unknown.

    Parameters
    ----------
    fit : ClippedFit
    rows : (m, p) array
    tilt : (m,) array
        In units of the fit; it grows with the scale.
    stages : list of (force, growth)
        Forces (p,) of the moving location, and relative changes of the scale, one after the other.
    """
    out = np.full(len(rows), np.inf)
    order, key = fit.order
    growths = np.cumsum([growth for _, growth in stages])
    widest = float(np.max(np.abs(growths), initial=0.0))
    size = np.abs(tilt) * fit.norms(rows)
    edges = np.where(fit.soft & np.isfinite(fit.up), np.maximum(fit.up, fit.down), 0.0)
    at_least = np.count_nonzero(key == 0) + 32
    for part in _chunks(size, fit):
        left = part
        count = max(at_least, np.searchsorted(key, 2 * _GENEROUS * np.max(size[part])))
        while len(left):
            watched = order[:count]
            longest, whole = _drift(fit, watched, rows[left], tilt[left], stages)
            room = np.inf
            if count < len(key):
                rest = order[count:]
                with np.errstate(divide="ignore", invalid="ignore"):
                    room = np.min(key[count:] - widest * edges[rest] / fit.row_norms[rest])
            good = whole < room
            out[left[good]] = longest[good]
            left = left[~good & np.isfinite(whole)]
            if count >= len(key):
                break
            count = min(len(key), 8 * count)
    return out


def _drift(fit, watched, rows, tilt, stages):
    """Longest moves after the tilt is on, and of the whole paths; inf where one was given up (B,)."""
    pull = -tilt[:, None] * rows
    found = follow(fit, watched, pull)
    start, longest, arrived = found.theta, np.zeros(len(rows)), found.arrived.copy()
    total, grown = pull, 0.0
    for force, growth in stages:
        before = fit.length(found.theta - start)
        added = force + growth * pull
        found = go_on(fit, watched, found, added, growth)
        longest = np.maximum(longest, before + found.longest)
        arrived &= found.arrived
        total, grown = total + added, grown + growth
    whole = fit.length(start - fit.theta) + longest
    _, relative = stationarity(fit, watched, found, total, grown)
    good = arrived & np.isfinite(whole) & (relative <= _TOLERANCE)
    return np.where(good, longest, np.inf), np.where(good, whole, np.inf)
