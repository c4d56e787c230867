"""Coverage along a formula, with all the data (theory, section 7).

A response is in the set if its score is at most the quantile of all N scores, regressed on the formula's
columns. Beyond the fit of a LAD, quantile or Huber loss the other scores no longer depend on the response,
so each side takes one tilted fit of the model, and one of the scores (`thresholds`). Where the threshold
lies inside of that range the end is put at the edge of it, and ``tol`` says by how much it may be too far
out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..path import ClippedFit, Tilted, both_ways
from .band import BandFits
from .fits import Fits
from .intervals import Intervals, nonempty, ranked_intervals
from .request import Request
from .score import DIRECTIONS, Score
from .thresholds import Scores

_TIED = 1e-9  # in units of the fit: scores that are nearer to one another may be tied


@dataclass(frozen=True)
class _Term:
    """The fits of new rows whose responses lie beyond them on one side."""

    fit: ClippedFit  # of the training rows
    found: Tilted
    rows: np.ndarray  # (m, p)
    least: float  # size of the new residual from which on the other scores are constant
    shift: float = 0.0  # added to responses in units of this fit to make them comparable

    @classmethod
    def both(cls, fits: Fits, rows: np.ndarray, shift: float = 0.0) -> "dict[int, _Term]":
        """Those below the fits under -1, those above under 1."""
        fit = fits.clipped
        soft = fits.loss.kind == "line"
        found = both_ways(fit, rows, fits.loss.slopes, fits.refit)
        least = dict(zip((-1, 1), fits.loss.slopes, strict=True))
        return {way: cls(fit, each, rows, least[way] * soft, shift) for way, each in found.items()}

    @cached_property
    def eta(self) -> np.ndarray:
        """Predictions of the new rows (m,)."""
        return np.einsum("ij,ij->i", self.rows, self.fit.theta + self.found.move) - self.shift

    @cached_property
    def length(self) -> np.ndarray:
        return self.fit.length(self.found.move)

    def residuals(self, new: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Residuals of training rows, for some of the new ones (b, w)."""
        return self.fit.r[rows] - self.found.move[new] @ self.fit.X[rows].T


Terms = dict[tuple[int, int], _Term]  # by the sign of a term of the score, and the side of its fit


def conditional_set(fits: Fits | BandFits, asked: Request) -> list[Intervals]:
    """Intervals that cover along a formula, for losses with clipped slopes or the band between two quantile
    fits; one record per alpha. Sizes of residuals are the scores of a band whose two fits are one."""
    assert asked.conditional is not None
    band = isinstance(fits, BandFits)
    if isinstance(fits, BandFits):
        shifts = {-1: fits.shift, 1: 0.0}
        each = {sign: _Term.both(one, asked.rows, shifts[sign]) for sign, one in fits.fits.items()}
    else:
        each = dict.fromkeys((-1, 1), _Term.both(fits, asked.rows))
    terms = {(sign, way): term for sign, both in each.items() for way, term in both.items()}
    signs = DIRECTIONS[asked.side]

    def scores(ways: dict[int, int]) -> Scores:
        """Of a response on these sides of the fits."""
        some = signs if band else signs[:1]
        return _scores([(terms[s, ways[s]], Score(sign=s) if band else asked.score) for s in some])

    beyond = {way: scores({-1: way, 1: way}) for way in signs}
    between = scores({-1: 1, 1: -1}) if band or len(signs) == 1 else None
    m = len(asked.rows)
    out = []
    for alpha in asked.alphas:
        within = np.zeros(m) if between is None else asked.conditional.thresholds(between, alpha)
        ends = {-1: np.full(m, -np.inf), 1: np.full(m, np.inf)}
        loose = np.zeros(m)
        for way in signs:
            level = asked.conditional.thresholds(beyond[way], alpha)
            behind = asked.own * within
            if between is not None:
                below = np.flatnonzero(behind < -terms[way, -way].least - _TIED)
                behind[_reached(fits, asked, terms, way, alpha, below)] = np.inf
            ends[way], off = _end(terms, asked.own * level, behind, way, len(signs) > 1)
            loose = np.maximum(loose, off)
        lower, upper = (fits.centre + fits.scale * end for end in nonempty(ends[-1], ends[1]))
        words = asked.conditional.guarantee(alpha, fits.n)
        more: dict[str, Any] = {"tol": fits.scale * loose, "tilted_fits": 2 * m, "guarantee": words}
        out.append(ranked_intervals(lower, upper, asked.peers, alpha, asked.side, "exact", **more))
    return out


def _scores(pairs: list[tuple[_Term, Score]]) -> Scores:
    """Scores of the training rows: the largest over fits and what of their residuals is ranked."""
    n = pairs[0][0].fit.count
    base = np.max([score.values(term.fit.r[:n]) for term, score in pairs], axis=0)
    norms = np.max([score.norms(term.fit.row_norms[:n]) for term, score in pairs], axis=0)
    length = np.max([term.length for term, _ in pairs], axis=0)

    def at(new: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.max([score.values(term.residuals(new, rows), rows) for term, score in pairs], axis=0)

    return Scores(base, norms, length, at, unit=1.0)


def _reached(
    fits: Fits | BandFits, asked: Request, terms: Terms, way: int, alpha: float, which: np.ndarray
) -> np.ndarray:
    """Rows among ``which`` whose threshold, below the new score at the near end of the range in which the
    fit of a side follows the response, is not so within that range. Scores are straight between the corners
    of the path. Only where one of them has become as large as the new one can the threshold have."""
    band = isinstance(fits, BandFits)
    own = fits.fits[way] if isinstance(fits, BandFits) else fits
    outer, least = terms[way, way], terms[way, -way].least
    n = outer.fit.count
    score = Score(sign=way) if band else asked.score
    out = []
    for i, path in zip(which, own.paths(asked.rows[which]), strict=True):
        if path is None or path.unknown.any():
            out.append(i)
            continue
        scores = score.values(outer.fit.v[:n] - path.theta @ outer.fit.X[:n].T)[::way]
        if band and asked.side == "two-sided":
            other = terms[-way, way].residuals(np.array([i]), np.arange(n))
            scores = np.maximum(scores, Score(sign=-way).values(other))
        large = scores >= -least - _TIED
        corners = np.flatnonzero(np.any(large & ~large[0], axis=1))
        if len(corners):
            assert asked.conditional is not None
            along = asked.conditional.take(np.full(len(corners), i))
            level = along.thresholds(Scores.each(scores, unit=1.0).take(corners), alpha)
            if np.any(level >= -least - _TIED):
                out.append(i)
    return np.array(out, dtype=int)


def _end(
    terms: Terms, beyond: np.ndarray, within: np.ndarray, way: int, both: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The end on one side (m,), in units of the fit, and how far it may be too far out; ``both`` fits
    count, or one alone. ``beyond`` and ``within`` (m,) are the largest scores in the set of responses
    beyond the fits, and of those behind the fit of this side."""
    outer, inner = terms[way, way], terms[way, -way]
    other = terms[-way, way].eta if both else np.full(len(beyond), -way * np.inf)
    edge = way * np.maximum(way * outer.eta + outer.least, way * other)  # from here on scores are constant
    start = inner.eta - way * inner.least  # of the range in which they follow the response
    end = outer.eta + way * beyond
    inside = way * (end - edge) < 0
    narrow = inner.eta + way * within
    out = within < -inner.least - _TIED  # the whole range
    past = inside & out & (way * (narrow - other) >= 0)
    off = outer.found.loose(outer.fit, outer.rows)
    loose = np.where(inside & ~past, np.abs(edge - start), 0.0) + 2.0 * off
    end = np.where(past, narrow, np.where(inside, edge, end)) + way * off
    free = outer.found.endless | (end == way * np.inf)
    return np.where(free, way * np.inf, end), np.where(free, 0.0, loose)
