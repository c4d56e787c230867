"""Exact full conformal sets (theory, section 5).

On each side one end is looked for, for many rows at once. Rows whose set may have holes, or whose end that
does not settle, are gone through piece by piece.
"""

from functools import partial
from typing import Any

import numpy as np

from ...path import Piece, merge
from ..fits import Fits
from ..intervals import Intervals, ranked_intervals
from ..parallel import Work, in_chunks
from ..request import Request
from ..score import DIRECTIONS, Score
from .clipped import ClippedSets
from .smooth import SmoothSets

__all__ = ["exact_set", "make_sets"]

Found = tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, list[Piece]]]  # lower, upper, tol, pieces

_LOOSE = 1e-4  # of the scale: ends that are looser are worth a warning
_JOIN = 1e-9  # in units of the fit: pieces nearer than this are one


def exact_set(fits: Fits, asked: Request) -> list[Intervals]:
    """Exact intervals for new rows, one record per alpha; the fits are shared, so more alphas cost
    little."""
    peers = asked.peers
    own = None if asked.scale is None else asked.own
    finite = [alpha for alpha in asked.alphas if not np.all(peers.open(alpha))]
    work = Work(asked.rows, [peers.rank(alpha).within() for alpha in finite], own)
    chunk = partial(_chunk, fits, asked.score, DIRECTIONS[asked.side], asked.tol, asked.budget)
    found = in_chunks(chunk, work, asked.n_jobs, asked.progress) if finite else []
    sets = {alpha: [chunk[a] for chunk, _ in found] for a, alpha in enumerate(finite)}
    tilted = sum(count for _, count in found)
    return [_intervals(fits, asked, alpha, sets.get(alpha, []), tilted) for alpha in asked.alphas]


def make_sets(fits: Fits, score: Score, tol: float = 1e-6, budget: int = 50) -> SmoothSets | ClippedSets:
    """What finds sets and residuals of the augmented fits for this loss."""
    return SmoothSets(fits, score, tol, budget) if fits.loss.kind == "bending" else ClippedSets(fits, score)


def _chunk(
    fits: Fits, score: Score, directions: tuple[int, ...], tol: float, budget: int, work: Work
) -> tuple[list[Found], int]:
    """Sets of some rows for each rank, in units of the fit, and the number of tilted fits."""
    rows = work.rows
    own = np.ones(len(rows)) if work.beside is None else work.beside
    solver = make_sets(fits, score, tol, budget)
    ends = {direction: solver.ends(rows, work.ranks, direction, own) for direction in directions}
    simple = np.all([found.simple for found in ends.values()], axis=0)
    doubtful = np.flatnonzero(~simple.all(axis=0)).tolist()
    asked = [
        [rank.take(i) for rank, known in zip(work.ranks, simple[:, i], strict=True) if not known]
        for i in doubtful
    ]
    apart = dict(zip(doubtful, map(iter, solver.pieces(rows[doubtful], asked, own[doubtful])), strict=True))
    out = []
    for a in range(len(work.ranks)):
        known = {-1: np.full(len(rows), -np.inf), 1: np.full(len(rows), np.inf)}
        loose = np.max([found.tol[a] for found in ends.values()], axis=0)
        for direction, found in ends.items():
            known[direction] = found.ends[a].copy()
        pieces: dict[int, list[Piece]] = {}
        for i in np.flatnonzero(~simple[a]).tolist():
            parts, loose[i] = next(apart[i])
            parts = merge(parts, near=_JOIN)
            known[-1][i] = parts[0][0] if parts else np.nan
            known[1][i] = parts[-1][1] if parts else np.nan
            if len(parts) > 1:
                pieces[i] = parts
        out.append((known[-1], known[1], loose, pieces))
    return out, solver.tilted


def _intervals(fits: Fits, asked: Request, alpha: float, chunks: list[Found], tilted: int) -> Intervals:
    """The `Intervals` of one alpha, put together from chunks of rows."""
    m = len(asked.rows)
    lower = np.full(m, -np.inf)
    upper = np.full(m, np.inf)
    loose = np.zeros(m)
    pieces: dict[int, tuple[Piece, ...]] = {}
    first = 0
    for low, high, off, apart in chunks:
        part = slice(first, first + len(low))
        lower[part] = fits.centre + fits.scale * low
        upper[part] = fits.centre + fits.scale * high
        loose[part] = fits.scale * off
        for i, found in apart.items():
            pieces[first + i] = tuple(
                (fits.centre + fits.scale * one, fits.centre + fits.scale * two) for one, two in found
            )
        first = part.stop
    more: dict[str, Any] = {
        "pieces": pieces,
        "tilted_fits": tilted,
        "tol": loose,
        "wanted": _LOOSE * fits.scale,
    }
    return ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "exact", **more)
