"""Exact full conformal sets (theory, section 5).

On each side one end is looked for, for many rows at once. Rows whose set may have holes, or whose end that
does not settle, are gone through piece by piece.
"""

from functools import partial

import numpy as np

from ...errors import AssumptionError
from ...path import merge
from ...rank import Peers
from ..intervals import ranked_intervals
from ..options import check_budget, check_tol
from ..parallel import Work, in_chunks
from ..score import DIRECTIONS, Score
from .clipped import ClippedSets
from .smooth import SmoothSets

__all__ = ["exact", "make_sets", "require_exact"]

_LOOSE = 1e-4  # of the scale: ends that are looser are worth a warning
_JOIN = 1e-9  # in units of the fit: pieces nearer than this are one


def exact(
    fits,
    rows,
    alphas,
    *,
    side="two-sided",
    tol=1e-6,
    budget=50,
    scale=None,
    n_jobs=1,
    progress=None,
    peers=None,
):
    """Exact intervals for new rows.

    Parameters
    ----------
    fits : Fits
    rows : (m, p) array
        New design rows, without missing values.
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    tol : float
        For losses whose slope bends (log-cosh, pseudo-Huber, linex, power): how far an end may be from
        the exact one, relative to the scale of the response, and always outside it. The other losses
        are exact but for rounding errors.
    budget : int
        Tilted fits a row, for these losses: what is undecided then is kept.
    scale : FixedScale, optional
    n_jobs : int
        Processes that share the rows; -1 for one a core.
    progress : bool or None
        Show a progress bar; None shows one in a terminal once the work takes long.
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
        One an alpha; the fits are shared, so more alphas cost little.
    """
    check_tol(tol)
    check_budget(budget)
    require_exact(fits.loss)
    peers = Peers(fits.n) if peers is None else peers
    score = Score.of(side, None if scale is None else scale.trained)
    finite = [alpha for alpha in alphas if not np.all(peers.open(alpha))]
    work = Work(
        rows, [peers.rank(alpha).within() for alpha in finite], None if scale is None else scale.new
    )
    chunk = partial(_chunk, fits, score, DIRECTIONS[side], tol, budget)
    found = in_chunks(chunk, work, n_jobs, progress) if finite else []
    sets = {alpha: [chunk[a] for chunk, _ in found] for a, alpha in enumerate(finite)}
    tilted = sum(count for _, count in found)
    return [
        _intervals(fits, len(rows), alpha, peers, side, sets.get(alpha, []), tilted) for alpha in alphas
    ]


def make_sets(fits, score, tol=1e-6, budget=50):
    """What finds sets and residuals of the augmented fits for this loss."""
    return SmoothSets(fits, score, tol, budget) if fits.loss.softness is None else ClippedSets(fits, score)


def require_exact(loss):
    """Raise `AssumptionError` where exact sets of a loss cannot be certified."""
    if loss.softness is None and not loss.bends_once:
        raise AssumptionError(
            f"method='exact' needs a loss whose slope bends once on each side of 0 (bends_once), which "
            f"{loss.describe()} does not declare: use method='stable', which encloses the exact set"
        )


def _chunk(fits, score, directions, tol, budget, work):
    """Sets of some rows, ``(lower, upper, tol, pieces)`` a rank in units of the fit, and the number of
    tilted fits."""
    rows = work.rows
    own = np.ones(len(rows)) if work.beside is None else work.beside
    solver = make_sets(fits, score, tol, budget)
    out = []
    ends = {direction: solver.ends(rows, work.ranks, direction, own) for direction in directions}
    for a, rank in enumerate(work.ranks):
        known = {-1: np.full(len(rows), -np.inf), 1: np.full(len(rows), np.inf)}
        simple = np.all([found.simple[a] for found in ends.values()], axis=0)
        loose = np.max([found.tol[a] for found in ends.values()], axis=0)
        for direction, found in ends.items():
            known[direction] = found.ends[a].copy()
        pieces = {}
        for i in np.flatnonzero(~simple):
            parts, loose[i] = solver.pieces(rows[i], rank.take(i), own[i])
            parts = merge(parts, near=_JOIN)
            known[-1][i], known[1][i] = (parts[0][0], parts[-1][1]) if parts else (np.nan, np.nan)
            if len(parts) > 1:
                pieces[i] = parts
        out.append((known[-1], known[1], loose, pieces))
    return out, solver.tilted


def _intervals(fits, m, alpha, peers, side, chunks, tilted):
    """The `Intervals` of one alpha, put together from chunks of rows."""
    lower, upper, loose, pieces, first = np.full(m, -np.inf), np.full(m, np.inf), np.zeros(m), {}, 0
    for low, high, off, apart in chunks:
        part = slice(first, first + len(low))
        lower[part], upper[part] = fits.centre + fits.scale * low, fits.centre + fits.scale * high
        loose[part] = fits.scale * off
        for i, found in apart.items():
            pieces[first + i] = tuple(
                (fits.centre + fits.scale * one, fits.centre + fits.scale * two) for one, two in found
            )
        first = part.stop
    more = {"pieces": pieces, "tilted_fits": tilted, "tol": loose, "wanted": _LOOSE * fits.scale}
    return ranked_intervals(lower, upper, peers, alpha, side, "exact", **more)
