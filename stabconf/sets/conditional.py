"""Coverage along a formula, with all the data (theory, section 7).

A response is in the set if its score is at most the quantile of all N scores, regressed on the formula's
columns. Beyond the fit of a LAD, quantile or Huber loss the other scores no longer depend on the response,
so each side takes one tilted fit of the model, and one of the scores (`thresholds`). Where the threshold
lies inside of that range the end is put at the edge of it, and ``tol`` says by how much it may be too far
out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..path import ClippedFit, Tilted, both_ways
from .band import BandFits
from .fits import Fits
from .intervals import Intervals, ranked_intervals
from .request import Request
from .score import Score
from .thresholds import Scores

__all__ = ["conditional_band", "conditional_set"]


@dataclass(frozen=True)
class _Term:
    """The fits of new rows whose responses lie beyond them on one side.

    Attributes
    ----------
    fit : ClippedFit
        Of the training rows.
    found : Tilted
    rows : (m, p) array
    least : float
        Size of the new residual from which on the other scores are constant.
    shift : float
        Added to responses in units of this fit to make them comparable.
    """

    fit: ClippedFit
    found: Tilted
    rows: np.ndarray
    least: float
    shift: float = 0.0

    @classmethod
    def both(cls, fits: Fits, rows: np.ndarray, shift: float = 0.0) -> "dict[int, _Term]":
        """Those below the fits under -1, those above under 1."""
        fit = fits.clipped
        if fit.hessian_inverse is None and fits.held is not None:
            fit = fits.held
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

    @property
    def endless(self) -> np.ndarray:
        """Which new rows the fit follows without end (m,)."""
        return self.found.endless

    @property
    def loose(self) -> np.ndarray:
        """How far a prediction may be off where a path was given up for a fresh fit (m,)."""
        off = np.where(self.found.followed, 0.0, self.found.radius)
        if not off.any():
            return off
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = self.fit.largest_penalty_norm + self.fit.penalty_norms(self.rows)
        return np.where(off > 0, off * reach, 0.0)

    def residuals(self, new: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Residuals of training rows, for some of the new ones (b, w)."""
        return self.fit.r[rows] - self.found.move[new] @ self.fit.X[rows].T


def _scores(terms: Sequence[_Term], score: Score, signs: Sequence[int] | None = None) -> Scores:
    """Scores of the training rows: of one fit, or with ``signs`` the larger of two fits' signed
    residuals."""
    n = terms[0].fit.count
    each = [score] if signs is None else [replace(score, sign=sign) for sign in signs]
    pairs = list(zip(terms, each, strict=True))
    base = np.max([one.values(term.fit.r[:n]) for term, one in pairs], axis=0)
    norms = np.max([one.norms(term.fit.row_norms[:n]) for term, one in pairs], axis=0)
    length = np.max([term.length for term in terms], axis=0)

    def at(new: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.max([one.values(term.residuals(new, rows), rows) for term, one in pairs], axis=0)

    return Scores(base, norms, length, at)


def conditional_set(fits: Fits, asked: Request) -> list[Intervals]:
    """Intervals that cover along a formula, for losses with clipped slopes; one record per alpha."""
    assert asked.conditional is not None
    ways = _Term.both(fits, asked.rows)
    sign = asked.score.sign
    out = []
    for alpha in asked.alphas:
        reach = {
            way: asked.own * asked.conditional.thresholds(_scores([term], asked.score), alpha)
            for way, term in ways.items()
        }
        ends = {-1: np.full(len(asked.rows), -np.inf), 1: np.full(len(asked.rows), np.inf)}
        loose = np.zeros(len(asked.rows))
        for way in (sign,) if sign else (-1, 1):
            ends[way], off = _end(ways, reach, way, one_sided=bool(sign))
            loose = np.maximum(loose, off)
        out.append(_made(fits, asked, alpha, ends, loose))
    return out


def _end(
    ways: dict[int, _Term], reach: dict[int, np.ndarray], way: int, one_sided: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The end on one side (m,), in units of the fit, and how far it may be too far out."""
    here, behind = ways[way], ways[-way]
    edge = here.eta + way * here.least
    start = behind.eta - way * behind.least  # of the range in which the scores follow the response
    end = np.where(reach[way] >= here.least, here.eta + way * reach[way], edge)
    inside = reach[way] < here.least
    loose = np.where(inside, np.abs(edge - start), 0.0)
    if one_sided:  # the whole range may be behind the fit
        past = inside & (reach[-way] < -behind.least)
        end = np.where(past, behind.eta + way * reach[-way], end)
        loose = np.where(past, 0.0, loose)
    end = end + way * here.loose
    loose = loose + 2.0 * here.loose
    return np.where(here.endless, way * np.inf, end), np.where(np.isinf(end) | here.endless, 0.0, loose)


def _made(
    fits: Fits | BandFits,
    asked: Request,
    alpha: float,
    ends: dict[int, np.ndarray],
    loose: np.ndarray,
) -> Intervals:
    """The `Intervals` of ends in units of the fit."""
    assert asked.conditional is not None
    centre = fits.fits[1].centre if isinstance(fits, BandFits) else fits.centre
    lower, upper = (centre + fits.scale * ends[way] for way in (-1, 1))
    empty = lower > upper
    lower = np.where(empty, np.nan, lower)
    upper = np.where(empty, np.nan, upper)
    return ranked_intervals(
        lower,
        upper,
        asked.peers,
        alpha,
        asked.side,
        "exact",
        tol=fits.scale * loose,
        tilted_fits=2 * len(asked.rows),
        guarantee=asked.conditional.guarantee(alpha, fits.n),
    )


def conditional_band(fits: BandFits, asked: Request) -> list[Intervals]:
    """The same for the band between two quantile fits: three regimes, with thresholds along the formula."""
    assert asked.conditional is not None
    terms = {
        (sign, way): term
        for sign in (-1, 1)
        for way, term in _Term.both(fits.fits[sign], asked.rows, fits.shift if sign < 0 else 0.0).items()
    }
    signs = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}[asked.side]
    above, below = (
        _scores([terms[sign, way] for sign in signs], Score(), signs) for way in (1, -1)
    )  # a response above both fits, and one below both
    between = _scores([terms[sign, -sign] for sign in signs], Score(), signs)
    out = []
    for alpha in asked.alphas:
        beyond = {
            1: asked.conditional.thresholds(above, alpha),
            -1: asked.conditional.thresholds(below, alpha),
        }
        within = asked.conditional.thresholds(between, alpha)
        ends = {-1: np.full(len(asked.rows), -np.inf), 1: np.full(len(asked.rows), np.inf)}
        loose = np.zeros(len(asked.rows))
        for way in signs:
            ends[way], off = _band_end(terms, beyond[way], within, way, len(signs) > 1)
            loose = np.maximum(loose, off)
        out.append(_made(fits, asked, alpha, ends, loose))
    return out


def _band_end(
    terms: dict[tuple[int, int], _Term], beyond: np.ndarray, within: np.ndarray, way: int, both: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The end on one side (m,), and how far it may be too far out; ``both`` fits count, or one alone."""
    outer, inner = terms[way, way], terms[way, -way]
    other = terms[-way, way].eta if both else np.full(len(beyond), -way * np.inf)
    edge = way * np.maximum(way * outer.eta, way * other)  # from here on the response is beyond the fits
    end = np.where(way * (outer.eta + way * beyond - edge) >= 0, outer.eta + way * beyond, edge)
    inside = way * (outer.eta + way * beyond - edge) < 0
    narrow = inner.eta + way * within
    past = inside & (within < 0) & (way * (narrow - other) >= 0)
    loose = np.where(inside & ~past, np.abs(edge - inner.eta), 0.0)
    end = np.where(past, narrow, end) + way * outer.loose
    free = outer.endless | np.isinf(end)
    return np.where(free, way * np.inf, end), np.where(free, 0.0, loose + 2.0 * outer.loose)
