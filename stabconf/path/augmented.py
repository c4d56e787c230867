"""The clipped fit of the augmented sample as a function of the new response (theory, section 5).

Inside the fit's own slope range a step row takes the new response exactly, and the tilt moves; a soft row
pulls with its residual. Beyond, the pull is constant and so is the fit. Across a gap location and scale
move too: a linear term and the growth of all slope bounds.
"""

from dataclasses import dataclass, replace

import numpy as np

from .follow import batch_size, follow, go_on, stationarity
from .lines import ResponsePath
from .tilted import tilted_fits

__all__ = ["Gap", "PathError", "gap_paths", "moving_fit", "response_path", "step_paths"]

_FIRST = 64  # rows watched at first
_FEW = 2000  # rows that are all watched
_TOLERANCE = 1e-9


class PathError(ArithmeticError):
    """A path that did not arrive or failed its check."""


def response_path(fit, x, slopes):
    """The `ResponsePath` of a new row over the whole line.

    Parameters
    ----------
    fit : ClippedFit
        Of the training rows.
    x : (p,) array
    slopes : tuple of float
        ``(down, up)`` of the loss.
    """
    soft = bool(fit.soft[0])
    start = _with_row(fit, x, slopes, x @ fit.theta, 0.0, 0) if soft else fit
    below = _corners(start, x, -1, slopes[0], soft)
    above = _corners(start, x, 1, slopes[1], soft)
    w = np.concatenate([below[0][:0:-1], above[0]])
    theta = np.concatenate([below[1][:0:-1], above[1]])
    return ResponsePath(x, w, theta, below[2], above[2])


def step_paths(fit, rows, slopes, refit):
    """The `ResponsePath`s of many new rows where slopes are steps; broken where only its ends are known.

    Parameters
    ----------
    fit, slopes
        As in `response_path`.
    rows : (m, p) array
    refit : callable
        As in `tilted_fits`.
    """
    still, ways = np.zeros(rows.shape[1]), []
    for direction, slope in zip((-1, 1), slopes, strict=True):
        tilt = np.full(len(rows), -direction * slope)
        ways.append(tilted_fits(fit, rows, tilt, refit, corners=True))
    out = []
    for i, x in enumerate(rows):
        parts = []
        for direction, found in zip((-1, 1), ways, strict=True):
            theta = found.corners[i]
            if theta is None:
                theta = np.array([fit.theta, fit.theta + found.move[i]])
            parts.append((direction * np.maximum.accumulate(direction * (theta @ x)), theta))
        w, theta = (np.concatenate([below[:0:-1], above]) for below, above in zip(*parts, strict=True))
        broken = any(found.corners[i] is None for found in ways)
        out.append(ResponsePath(x, w, theta, still, still, broken))
    return out


def moving_fit(fit, rates, growth, length):
    """Corners of the fit while the responses of its rows move at ``rates`` (n,) and its bounds grow.

    Returns
    -------
    positions : (K,) array
        From 0 to ``length``.
    theta : (K, p) array
    """
    corners = np.zeros(len(fit.X) - fit.count)  # of the L1 part: their response is 0
    still = np.zeros(fit.X.shape[1])
    found, _ = _followed(fit, still, growth=growth, response=np.append(rates, corners), length=length)
    return found.corners[0]


def _with_row(fit, x, slopes, w, u, side):
    """The fit with a new row of response ``w`` and slope ``u``, which its linear term stood for."""
    n = fit.count
    r = 0.0 if side == 0 else w - x @ fit.theta

    def put(values, value):
        return np.insert(values, n, value, axis=0)

    return replace(
        fit,
        X=put(fit.X, x),
        v=put(fit.v, w),
        down=put(fit.down, slopes[0]),
        up=put(fit.up, slopes[1]),
        soft=put(fit.soft, fit.soft[0]),
        r=put(fit.r, r),
        u=put(fit.u, u),
        side=put(fit.side, side),
        count=n + 1,
    )


def _corners(fit, x, direction, slope, soft):
    """Responses and coefficients at the corners on one side, and the movement beyond the last."""
    if soft:
        found, _ = _followed(fit, np.zeros(len(x)), response=direction, length=np.inf)
        positions, theta = found.corners[0]
        return fit.v[fit.count - 1] + direction * positions, theta, direction * found.direction[0]
    found, _ = _followed(fit, direction * slope * x)
    _, theta = found.corners[0]
    w = theta @ x
    return direction * np.maximum.accumulate(direction * w), theta, np.zeros(len(x))


def gap_paths(fit, rows, slopes, w, gaps):
    """For each new row its `ResponsePath`s on either side of a point in a gap, in the units of that point.

    Parameters
    ----------
    fit : ClippedFit
        Of the training rows, with location and scale at that point.
    rows : (m, p) array
    slopes : tuple of float
    w : float
        The new response there.
    gaps : list of Gap
        To the ends of the gap.

    Returns
    -------
    list of (list of ResponsePath or None)
        None for a row whose path could not be followed.
    """
    size = batch_size(fit)
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    together = [paths for part in parts for paths in _outer_gap_paths(fit, part, slopes, w, gaps)]
    return [paths or _gap_path(fit, x, slopes, w, gaps) for x, paths in zip(rows, together, strict=True)]


def _outer_gap_paths(fit, rows, slopes, w, gaps):
    """`gap_paths` of new rows that stay at a bound of their slope, all at once; None for the others.

    Such a row is a constant pull, so that it need not be among the rows of the fit.
    """
    if fit.hessian_inverse is None or not np.all(np.isfinite(slopes)):
        return [None] * len(rows)
    way = np.where(w >= rows @ fit.theta, 1.0, -1.0)
    bound = np.where(way > 0, slopes[1], slopes[0])
    pull, watched = (way * bound)[:, None] * rows, np.arange(len(fit.X))
    begun = follow(fit, watched, pull)
    good, paths = begun.arrived.copy(), []
    for gap in gaps:
        added = gap.force + gap.growth * pull
        found = go_on(fit, watched, begun, added, gap.growth, corners=True)
        _, relative = stationarity(fit, watched, found, pull + added, gap.growth)
        good &= found.arrived & (relative <= _TOLERANCE)
        paths.append(
            [_gap_response(gap, x, w, *bends) for x, bends in zip(rows, found.corners, strict=True)]
        )
        for i in np.flatnonzero(good):
            path = paths[-1][i]
            # Bounds that grow: the threshold of a soft row is largest at one of the ends.
            threshold = bound[i] * max(1.0, 1.0 + gap.growth) if fit.soft[0] else 0.0
            good[i] = np.all(way[i] * (path.w - path.theta @ rows[i]) > threshold)
    return [list(each) if fine else None for fine, *each in zip(good, *paths, strict=True)]


def _gap_path(fit, x, slopes, w, gaps):
    """`gap_paths` of one new row, which is added to the rows of the fit."""
    try:
        start, out = _with_response(fit, x, slopes, w), []
        for gap in gaps:
            found, _ = _followed(start, gap.force, growth=gap.growth, response=gap.move)
            out.append(_gap_response(gap, x, w, *found.corners[0]))
    except PathError:
        return None
    return out


def _gap_response(gap, x, w, positions, theta):
    """A path across a gap as a function of the response."""
    order = slice(None) if gap.move > 0 else slice(None, None, -1)
    return ResponsePath(x, (w + positions * gap.move)[order], theta[order], None, None)


@dataclass(frozen=True)
class Gap:
    """How things move from a point in a gap to one of its ends.

    Attributes
    ----------
    move : float
        How far the new response goes (negative to the left).
    force : (p,) array
        P times the move of the location.
    growth : float
        Relative change of the scale.
    """

    move: float
    force: np.ndarray
    growth: float


def _with_response(fit, x, slopes, w):
    """The fit of the augmented sample whose new row has response ``w``."""
    if fit.soft[0]:
        start = _with_row(fit, x, slopes, x @ fit.theta, 0.0, 0)
        found = _followed(start, np.zeros(len(x)), response=w - x @ fit.theta)
        v = start.v.copy()
        v[fit.count] = w
        return _after(start, found, v, np.zeros(len(x)))
    direction = 1 if w >= x @ fit.theta else -1
    slope = slopes[1] if direction > 0 else slopes[0]
    force = direction * slope * x
    found = _followed(fit, force)
    positions, theta = found[0].corners[0]
    reach = direction * (theta @ x)
    if direction * w > reach[-1]:
        return _with_row(_after(fit, found, fit.v, -force), x, slopes, w, direction * slope, direction)
    # The new row is fitted exactly: stop where the fit arrives at the response.
    j = max(1, int(np.argmax(reach >= direction * w)))
    share = (direction * w - reach[j - 1]) / max(reach[j] - reach[j - 1], 1e-300)
    position = positions[j - 1] + share * (positions[j] - positions[j - 1])
    begun = _after(fit, _followed(fit, force, length=position), fit.v, -position * force)
    return _with_row(begun, x, slopes, w, position * direction * slope, 0)


def _after(fit, followed, v, tilt):
    """The fit at the end of a path."""
    found, watched = followed
    theta = found.theta[0]
    r = v - fit.X @ theta
    u, side = np.where(fit.soft & (fit.side == 0), r, fit.u), fit.side.copy()
    u[watched], side[watched] = found.u[0], found.side[0]
    r = np.where((side == 0) & ~fit.soft, 0.0, r)
    e = fit.e + fit.ridge * (theta - fit.theta) - fit.X.T @ (u - fit.u) + tilt
    return replace(fit, v=v, theta=theta, r=r, u=u, side=side, e=e)


def _followed(fit, force, *, growth=0.0, response=None, length=1.0):
    """One path, with as many rows watched as prove to be needed.

    ``response`` is the rate of the last data row's response, or one a row: then all are watched.
    """
    if fit.hessian_inverse is None:
        raise PathError("the fit is not unique")
    new = fit.count - 1
    corners = np.arange(fit.count, len(fit.X))
    if growth or np.ndim(response) or len(fit.X) <= _FEW:  # bounds that grow concern every row
        order, key, count = np.arange(len(fit.X)), (), len(fit.X)
    else:
        order, key = fit.order
        count = max(_FIRST, np.count_nonzero(key == 0) + 8)
    while True:
        watched = np.union1d(order[:count], np.append(corners, new))
        rates = None
        if np.ndim(response):
            rates = response[watched]
        elif response is not None:
            rates = np.where(watched == new, float(response), 0.0)
        found = follow(
            fit, watched, force[None], growth=growth, response=rates, length=length, corners=True
        )
        moves = found.corners[0][1] - fit.theta
        if not (found.arrived[0] and np.all(np.isfinite(moves))):
            raise PathError("a path was given up")
        if count >= len(key) or np.max(fit.length(moves)) < key[count]:
            break
        count = min(len(key), 4 * count)
    position = found.corners[0][0][-1]
    _, relative = stationarity(fit, watched, found, position * force[None], position * growth)
    if not relative[0] <= _TOLERANCE:
        raise PathError("a path failed its check")
    return found, watched
