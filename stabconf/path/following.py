"""Following the minimiser of a clipped objective as its linear term grows: the tilted fits T(t).

Between two events the minimiser moves on a line: with H = P plus the inner soft rows and Z the inner step
rows, ``H d = X_Z' dm + force`` and ``X_Z d = 0``. An event is a row that reaches a bound of its slope (it
becomes an outer row) or a threshold of its residual (an inner one). A batch of paths from one start is
followed at once, each with its own sets of rows, looking only at the rows that may change sides; who calls
checks afterwards that no other row did (theory, section 5).
"""

from dataclasses import dataclass

import numpy as np

from .batch import Batch
from .clipped import ClippedFit
from .wide import WideBatch

__all__ = ["Corners", "Followed", "follow", "stationarity"]

Corners = tuple[np.ndarray, np.ndarray]  # where a path bends: positions (K,) and coefficients (K, p)

_STEPS = 4  # steps per coefficient and watched row before a path is given up
_WORK = 8e8  # or this many over the squared number of columns, a third of it where weights vanish
_LEAST = 500
_GROSS = 1e-4  # of the sum of all pulls, which rounding errors are relative to where all terms are small
_WIDE = 100  # columns from which on systems are solved by inverses that are updated


@dataclass(frozen=True)
class Followed:
    """Where B paths ended.

    Attributes
    ----------
    theta : (B, p) array
    position : (B,) array
        What was reached of the length.
    u, side : (B, c) arrays
        Slopes of the rows that were watched, and the bounds that they are at.
    arrived : (B,) array of bool
        False where a path was given up; theta is then where it started.
    steps : (B,) array of int
    corners : list of (positions, theta)
        Where each path bends, from its start to its end; empty unless asked for.
    direction : (B, p) array
        Movement of theta per unit of position on the last stretch.
    endless : (B,) array of bool
        True where nothing but vanishing weights resists the force on the last stretch, at whose first point
        the path then ends: in the limit the fit goes on without end and the force grows no further.
    """

    theta: np.ndarray
    position: np.ndarray
    u: np.ndarray
    side: np.ndarray
    arrived: np.ndarray
    steps: np.ndarray
    corners: list[Corners]
    direction: np.ndarray
    endless: np.ndarray


def follow(
    fit: ClippedFit,
    watched: np.ndarray,
    force: np.ndarray,
    *,
    length: float = 1.0,
    corners: bool = False,
    limit: bool = True,
    without: np.ndarray | None = None,
) -> Followed:
    """Follow the minimiser from position 0 to ``length``, which may be infinite.

    All paths start at ``fit``, whose Hessian must have an inverse. ``watched`` (c,) are the rows that may
    change sides; all inner step rows must be among them. ``force`` (B, p) is the change of minus the linear
    term per unit of position. ``corners`` asks for the corners of the paths. ``limit`` takes vanishing
    weights as tending to 0, so that a path which they alone hold is endless; False follows it with the
    weights as they are. ``without`` (B,) are rows, one per path, that stay as they are at the start.
    """
    updated = len(fit.X) > fit.count or not fit.soft.any()  # what is left of a system is small, or changes
    kind = WideBatch if len(fit.theta) > _WIDE and updated else Batch
    batch = kind(fit, watched, force, length, limit)
    if without is not None:
        batch.hold_out(fit, watched, without)
    total, p = batch.theta.shape
    theta = batch.theta.copy()
    position = np.zeros(total)
    u = batch.u.copy()
    side = batch.side.copy()
    arrived = np.zeros(total, dtype=bool)
    steps = np.zeros(total, dtype=int)
    direction = np.zeros((total, p))
    endless = np.zeros(total, dtype=bool)
    index = np.arange(total)  # of the paths under way
    seen = []
    work = _WORK / p**2 / (3 if fit.extra.any() else 1)
    most = min(_STEPS * (p + len(watched)) + 50, max(int(work), _LEAST))
    for step in range(1, most):
        done = batch.advance()
        lost = ~np.isfinite(batch.theta).all(axis=1)  # a Hessian became singular
        done &= ~lost
        if corners:
            seen.append((index, *batch.corner))
        if done.any():
            at = index[done]
            seen.append((at, batch.position[done], batch.theta[done]))
            theta[at] = batch.theta[done]
            position[at] = batch.position[done]
            u[at] = batch.slopes()[done]
            side[at] = batch.side[done]
            arrived[at] = True
            steps[at] = step
            direction[at] = batch.direction[done]
            endless[at] = batch.endless[done]
        over = done | lost
        if over.any():
            index = index[~over]
            if not len(index):
                break
            batch.keep(~over)
    steps[index] = step
    bends = _by_path(seen, total) if corners else []
    return Followed(theta, position, u, side, arrived, steps, bends, direction, endless)


def _by_path(seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]], total: int) -> list[Corners]:
    """Corners path by path, from those of all paths step by step."""
    paths = np.concatenate([index for index, _, _ in seen])
    order = np.argsort(paths, kind="stable")
    position = np.concatenate([each for _, each, _ in seen])[order]
    theta = np.concatenate([each for _, _, each in seen])[order]
    cuts = np.searchsorted(paths[order], np.arange(1, total))
    return list(zip(np.split(position, cuts), np.split(theta, cuts), strict=True))


def stationarity(
    fit: ClippedFit,
    watched: np.ndarray,
    found: Followed,
    force: np.ndarray,
    without: np.ndarray | None = None,
) -> np.ndarray:
    """Stationarity residuals where paths arrived, relative to the size of their terms (B,).

    ``force`` (B, p) is what was applied in all since ``fit``; ``without`` as for `follow`.
    """
    X = fit.X[watched]
    delta = found.theta - fit.theta
    soft = fit.soft[watched] & (fit.side[watched] == 0)
    unwatched = fit.curvature - X[soft].T @ X[soft]
    change = (found.u - fit.u[watched]) @ X
    e = fit.e + fit.ridge * delta + delta @ unwatched - change - force
    if without is not None:
        alone = fit.soft[without] & (fit.side[without] == 0) & ~np.isin(without, watched)
        own = fit.X[without] * alone[:, None]
        e -= np.einsum("ij,ij->i", own, delta)[:, None] * own
    terms = np.abs(fit.ridge * delta) + np.abs(delta @ unwatched) + np.abs(change) + np.abs(force)
    size = np.max(terms, axis=1) + np.max(np.abs(fit.ridge * fit.theta), initial=0.0)
    size = np.maximum(size, _GROSS * fit.gross_pull)
    with np.errstate(invalid="ignore"):
        relative = np.max(np.abs(e), axis=1) / np.maximum(size, 1e-300)
    return np.where(np.isnan(relative), np.inf, relative)
