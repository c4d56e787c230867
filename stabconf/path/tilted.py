"""Where paths from one clipped fit lead: tilted fits T(t) of many new rows, screened and checked (theory,
section 5); fits without each row; and the minimiser itself, from a solution that is near.

The path of a new row needs only the training rows that change sides on it, and its order statistic only
the rows near the k-th. The former are guessed, and the other rows are looked at where the path has led;
which of them need be follows from the length of the move, as does the latter: ``|x_i' d| <= norm_i *
length(d)`` holds for any d, at any penalty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from ..rank import Rank, Scoring
from ..solvers import Problem, Solution, certify, column_rank
from .clipped import ClippedFit
from .following import Corners, Followed, follow

Refit = Callable[[np.ndarray], tuple[np.ndarray, float]]  # fresh coefficients and their radius at a tilt

_CHUNK = 512  # new rows at a time
_FEW = 30  # watched rows at first, besides one per column and those that are at an edge
_ENTRIES = 2_000_000  # of arrays with one row per path
_VERGE = 1e-9  # residuals as near as this to where slopes end are there
_TOLERANCE = 1e-9  # of the stationarity residual, relative to its terms
_WIDE = 100  # columns from which on fits that vanishing weights hold are not made anew
_PIVOT = 1e-6  # share of a row's weight that others have too, below which its removal loses digits
_SETTLED = 1e-12  # of the terms of the stationarity residual
_MANY = 5000  # rows above which a solver's point is taken as it is
_RUNAWAY = 1e-3  # share of the tilt that vanishing weights hold where a fit has no minimiser


@dataclass(frozen=True)
class Tilted:
    """Tilted fits of m new rows, relative to the fit they start from.

    A fit is ``endless`` where the tilted objective has no minimiser: it follows a far response without end.
    Also where nothing is known of it, and the radius is infinite.
    """

    move: np.ndarray  # (m, p): T(t) - T(0)
    radius: np.ndarray  # (m,): certified distance of fresh fits to the minimiser in the P norm; 0 for paths
    followed: np.ndarray  # (m,) bools: False where a path was given up for a fresh fit
    direction: np.ndarray  # (m, p): movement per unit of size of the tilt, on the last stretch
    endless: np.ndarray  # (m,) bools
    # Sizes of the tilt and coefficients where each path bends; None if given up. Empty unless asked for.
    corners: list[Corners | None] = field(default_factory=list)

    def take(self, part: slice) -> "Tilted":
        """The same for some of the new rows."""
        return Tilted(*(getattr(self, each.name)[part] for each in fields(self)))

    def loose(self, fit: ClippedFit, rows: np.ndarray) -> np.ndarray:
        """How far residuals of the new rows and of any training row may be off in all, where a path was
        given up for a fresh fit (m,)."""
        off = np.where(self.followed, 0.0, self.radius)
        if off.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                old, new = (np.sqrt(np.square(x) @ (1.0 / fit.ridge)) for x in (fit.X[: fit.count], rows))
                off = np.where(off > 0, off * (np.max(old) + new), 0.0)
        return off

    def order_statistics(self, fit: ClippedFit, ranks: Sequence[Rank], score: Scoring) -> np.ndarray:
        """Order statistics of the training rows' scores after the moves (len(ranks), m)."""
        r = fit.r[: fit.count]
        X = fit.X[: fit.count]
        base = score.values(r)
        norms = score.norms(fit.row_norms[: fit.count])
        length = fit.length(self.move)
        out = np.empty((len(ranks), len(length)))
        for part in _chunks(length, fit.count):
            reach = norms * np.max(length[part])
            low = base - reach
            high = base + reach
            for j, rank in enumerate(ranks):
                window, near = rank.take(part).window(low, high)
                out[j, part] = near.kth(score.values(r[window] - self.move[part] @ X[window].T, window))
        return out


def _chunks(size: np.ndarray, entries: int) -> list[np.ndarray]:
    """Indices in order of ``size``, in chunks of rows that are alike; each needs so many entries."""
    count = min(_CHUNK, max(1, _ENTRIES // entries))
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
    infinite = bool(np.any(np.isinf(tilt)))
    unit = np.sign(tilt) if infinite else tilt
    none = np.zeros(m, dtype=bool)
    bends: list[Corners | None] = [None] * m if corners else []
    out = Tilted(np.zeros((m, p)), np.zeros(m), none, np.zeros((m, p)), none.copy(), bends)
    size = np.where(np.isinf(tilt), np.inf, np.abs(tilt) * fit.norms(rows))
    todo = _begun(fit, size) if fit.hessian_inverse is not None else []
    while todo:
        part, count = todo.pop()
        count = min(count, len(fit.X))
        if len(part) > 1 and len(part) * count > _ENTRIES:
            todo += [(half, count) for half in np.array_split(part, 2)]
            continue
        watched = np.sort(fit.order[0][:count])
        gone = None if without is None else without[part]
        force = -unit[part, None] * rows[part]
        length = np.inf if infinite else 1.0
        limit = without is None
        found = follow(fit, watched, force, length=length, corners=corners, limit=limit, without=gone)
        needed = _needed(fit, count, found, gone)
        good = found.arrived & (needed <= count) & (found.error <= _TOLERANCE)
        good &= ~_tied(fit, watched, found)
        at = part[good]
        out.move[at] = found.theta[good] - fit.theta
        out.followed[at] = True
        out.direction[at] = found.direction[good] / np.maximum(np.abs(unit[at, None]), 1e-300)
        out.endless[at] = found.endless[good]
        for i, j in zip(at, np.flatnonzero(good), strict=True) if corners else ():
            out.corners[i] = found.corners[j][0] * abs(unit[i]), found.corners[j][1]
        wider = found.arrived & (needed > count)
        if wider.any():
            todo.append((part[wider], max(2 * count, min(4 * count, int(np.max(needed[wider])) + p))))
    if refit is not None:
        _made_anew(out, fit, rows, tilt, refit)
    return out


def both_ways(
    fit: ClippedFit, rows: np.ndarray, slopes: tuple[float, float], refit: Refit, corners: bool = False
) -> dict[int, Tilted]:
    """The `tilted_fits` of new rows (m, p) at both ends of the slopes ``(down, up)``: under -1 for
    responses far below, under 1 for those far above."""
    m = len(rows)
    tilt = np.repeat([slopes[0], -slopes[1]], m)
    found = tilted_fits(fit, np.concatenate([rows, rows]), tilt, refit, corners)
    return {-1: found.take(slice(0, m)), 1: found.take(slice(m, 2 * m))}


def _begun(fit: ClippedFit, size: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Paths that are followed together, and how many rows they watch at first: those that may change sides
    on a move of length ``size`` (m,), a guess, which is how far curvature of 1 would let the fit go."""
    key = fit.order[1]
    few = int(np.count_nonzero(key == 0)) + len(fit.theta) + _FEW
    count = np.maximum(few, np.searchsorted(key, size))
    level = np.ceil(np.log2(count / few))
    return [
        (which[part], int(np.max(count[which[part]])))
        for which in (np.flatnonzero(level == each) for each in np.unique(level))
        for part in _chunks(size[which], len(fit.theta) ** 2)
    ]


def _needed(fit: ClippedFit, count: int, found: Followed, without: np.ndarray | None) -> np.ndarray:
    """How many rows, in the order of `ClippedFit.order`, paths had to watch (B,): no other changed sides.
    A row whose key is above the length of a move kept its side; the others are looked at."""
    order, key = fit.order
    size = [len(theta) for _, theta in found.corners] or [1] * len(found.theta)
    theta = np.concatenate([theta for _, theta in found.corners]) if found.corners else found.theta
    path = np.repeat(np.arange(len(size)), size)
    move = theta - fit.theta
    reach = np.searchsorted(key, fit.length(move), side="right")
    needed = np.full(len(size), count)
    low, high = fit.range
    unsure = np.flatnonzero(reach > count)
    group = np.ceil(np.log2(reach[unsure] / count))  # moves that reach about as far are looked at together
    for each in np.unique(group):
        some = unsure[group == each]
        far = order[count : np.max(reach[some])]
        for part in np.array_split(some, 1 + len(some) * len(far) // _ENTRIES):
            r = fit.r[far] - move[part] @ fit.X[far].T
            crossed = (r < low[far]) | (r > high[far])
            if without is not None:  # a row that is not there has no side
                crossed &= far != without[path[part], None]
            last = len(far) - np.argmax(crossed[:, ::-1], axis=1)
            np.maximum.at(needed, path[part], np.where(crossed.any(axis=1), count + last, 0))
    return np.where(found.endless, len(key), needed)  # another row may yet stop it


def _tied(fit: ClippedFit, watched: np.ndarray, found: Followed) -> np.ndarray:
    """Paths that end just where a soft row gets to a bound of its slope, and the rows within theirs leave a
    direction free: beyond that point many fits are as good (B,)."""
    out = np.zeros(len(found.theta), dtype=bool)
    loose, up, n = fit.ridge == 0, fit.up[0], fit.count
    if not (loose.any() and np.isfinite(up)):
        return out
    data = watched[watched < n]
    size = np.abs(fit.v[data] - found.theta @ fit.X[data].T)
    for i in np.flatnonzero((np.abs(size - up) <= _VERGE).any(axis=1) & ~found.endless):
        r = fit.v - fit.X @ found.theta[i]
        free = np.flatnonzero(loose & ~fit.X[n:][r[n:] == 0].any(axis=0))
        inner = fit.X[:n][np.abs(r[:n]) < up - _VERGE]
        out[i] = column_rank(inner[:, free]) < len(free)
    return out


def _made_anew(out: Tilted, fit: ClippedFit, rows: np.ndarray, tilt: np.ndarray, refit: Refit) -> None:
    """Fill in fits whose path could not be trusted."""
    left = np.flatnonzero(~out.followed)
    if fit.extra.any() and rows.shape[1] > _WIDE:  # a fresh fit takes long and would hardly be nearer
        out.endless[left] = True
        out.radius[left] = np.inf
        return
    for i in left[np.isfinite(tilt[left])]:
        theta, out.radius[i] = refit(tilt[i] * rows[i])
        out.move[i] = theta - fit.theta
        out.endless[i] = runs_away(fit.extra, theta, tilt[i] * rows[i], out.radius[i])


def runs_away(extra: np.ndarray, theta: np.ndarray, tilt: np.ndarray, radius: float = 0.0) -> bool:
    """Whether vanishing weights ``extra`` (p,) may hold a tilted fit, which would else follow without end;
    it is known to lie within ``radius`` of ``theta``."""
    if not extra.any():
        return False
    pull = np.linalg.norm(extra * theta) + np.sqrt(np.max(extra)) * radius
    return bool(pull > _RUNAWAY * np.linalg.norm(tilt))


def leave_one_out(fit: ClippedFit) -> tuple[np.ndarray, np.ndarray]:
    """Moves of the coefficients when each data row goes (n, p), at the same weights of the penalty, and
    which of them are known (n,): where the other rows determine the fit and the path can be trusted.

    Taking a row out is a tilt by its own slope times the row, which is held out of what may change: n short
    paths instead of n fits (theory, section 8.1).
    """
    n = fit.count
    if fit.hessian_inverse is None:
        return np.zeros((n, len(fit.theta))), np.zeros(n, dtype=bool)
    if np.all(fit.soft) and np.all(np.isinf(fit.up)):  # squared loss: one straight step
        rest = 1.0 - fit.leverages
        known = rest > _PIVOT
        pull = np.where(known, fit.r[:n], 0.0) / np.where(known, rest, 1.0)
        return -pull[:, None] * (fit.X[:n] @ fit.hessian_inverse), known
    found = tilted_fits(fit, fit.X[:n], fit.u[:n], None, without=np.arange(n))
    return found.move, found.followed


def crossover(fit: ClippedFit) -> ClippedFit:
    """The `ClippedFit` at the minimiser from one that is near; itself where that is no better.

    A solver's point minimises the objective plus a small linear term, its own stationarity residual: while
    that goes to 0 the path ends at the minimiser, of smallest norm where vanishing weights break ties.
    """
    size = fit.gross_pull + np.max(np.abs(fit.ridge * fit.theta), initial=0.0)
    settled = not fit.extra.any() and bool(np.all(np.abs(fit.e) <= _SETTLED * size))
    if settled or len(fit.X) > _MANY or fit.hessian_inverse is None:
        return fit
    found = follow(fit, np.arange(len(fit.X)), -fit.e[None], limit=False)
    if not found.arrived[0]:
        return fit
    theta, u, side = found.theta[0], found.u[0], found.side[0]
    r = fit.v - fit.X @ theta
    inner = (side == 0) & ~fit.soft
    if np.any(np.abs(r[inner]) > 1e-9 * (1.0 + np.abs(fit.v[inner]))):
        return fit
    r = np.where(inner, 0.0, r)
    e = fit.ridge * theta - fit.X.T @ u + fit.tilt
    better = replace(fit, theta=theta, r=r, u=u, side=side, e=e)
    return better if np.max(np.abs(e)) < np.max(np.abs(fit.e)) else fit


def sharpened(problem: Problem, solution: Solution, extra: np.ndarray | None = None) -> Solution:
    """The `Solution` at the minimiser from one that is near, for losses whose slopes are clipped lines."""
    if problem.loss.kind == "bending" or len(problem.v) > _MANY:
        return solution
    fit = ClippedFit.of(problem, solution, extra)
    found = crossover(fit)
    if found is fit:
        return solution
    n = fit.count
    l1 = np.zeros(len(fit.theta))
    l1[np.flatnonzero(problem.lasso)] = -found.u[n:]
    made = certify(problem, found.theta, found.u[:n], l1, tol=1e-8, nit=solution.nit)
    return made if made.gap <= solution.gap or not solution.success else solution
