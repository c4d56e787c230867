"""Conformal sets of two quantile fits at once (theory, section 7).

The score of a response is how far it lies outside the band between a lower and an upper fit: the larger
of ``q_lo - y`` and ``y - q_hi``. As the new response w moves, both fits move on paths with corners; between
two corners of either every residual is a line in w, so all scores are the larger of two lines. Most
stretches are decided by the scores at their ends; the others by sorting the roots of lines.
"""

from dataclasses import dataclass

import numpy as np

from .lines import TIES, ResponsePath, merge, uncovered

__all__ = ["BandPath", "BandRows"]


@dataclass(frozen=True)
class BandRows:
    """Training rows that can decide, and the terms of their scores.

    Attributes
    ----------
    X, v : (c, p) and (c,) arrays
    rank : Rank
        Of the order statistic, among these rows.
    norms : (c,) array
        Norms of the rows in which ``slack`` is measured.
    terms : tuple of int
        Terms of the score: -1 for ``q_lo - y``, 1 for ``y - q_hi``.
    """

    X: np.ndarray
    v: np.ndarray
    rank: object
    norms: np.ndarray
    terms: tuple

    def scores(self, band):
        """The terms at the corners of a `BandPath`: training (L, K, c), new (L, K)."""
        old, new = [], []
        for sign in self.terms:
            theta = band.fits[sign]
            old.append(sign * (self.v - theta @ self.X.T))
            new.append(sign * (band.w - theta @ band.x))
        return np.array(old), np.array(new)


@dataclass(frozen=True)
class BandPath:
    """Both fits of the augmented sample as functions of the new response, in standardised units.

    Attributes
    ----------
    x : (p,) array
        The new design row.
    w : (K,) array
        Responses at the corners of either path, ascending.
    fits : dict
        Coefficients (K, p) of the lower fit under -1 and of the upper fit under 1.
    ends : tuple of float
        Where the path begins and ends; fits are constant beyond the corners.
    kept : (K - 1,) array of bool
        Stretches that nothing is known of.
    """

    x: np.ndarray
    w: np.ndarray
    fits: dict
    ends: tuple
    kept: np.ndarray

    @classmethod
    def of(cls, lower, upper):
        """From the `ResponsePath`s of the two fits."""
        w = np.union1d(lower.w, upper.w)
        kept = np.zeros(max(len(w) - 1, 0), dtype=bool)
        for path in (lower, upper):
            if path.broken:
                kept |= (w[:-1] >= path.w[0]) & (w[1:] <= path.w[-1])
        ends = (w[0], w[-1]) if lower.before is None else (-np.inf, np.inf)
        return cls(lower.x, w, {-1: lower.at(w), 1: upper.at(w)}, ends, kept)

    def at(self, w, sign):
        """Coefficients of one fit at responses ``w`` (g, p)."""
        return ResponsePath(self.x, self.w, self.fits[sign], None, None).at(w)

    def covers(self, w):
        """Whether the fits at responses ``w`` (g,) are known, and not beyond the ends."""
        within = (w >= self.ends[0] - TIES) & (w <= self.ends[1] + TIES)
        return within & self._knows(w)

    def _knows(self, w):
        inside = np.searchsorted(self.w, w, side="left") - 1
        place = np.clip(inside, 0, max(len(self.kept) - 1, 0))
        between = (w > self.w[0]) & (w < self.w[-1])
        return ~(between & self.kept[place]) if len(self.kept) else np.ones(len(w), dtype=bool)

    def between(self, low, high):
        """The part of the path between two responses, which may be infinite."""
        cuts = [end for end in (low, high) if np.isfinite(end)]
        inner = self.w[(self.w > low) & (self.w < high)]
        w = np.union1d(inner, cuts)
        if not len(w):
            w = self.w[:1]
        fits = {sign: self.at(w, sign) for sign in self.fits}
        middles = 0.5 * (w[:-1] + w[1:])
        return BandPath(self.x, w, fits, (low, high), ~self._knows(middles))

    def largest(self, ridge):
        """Largest length of the coefficients on the path, in the norm of the penalty."""
        return max(float(np.sqrt(np.max(np.square(theta) @ ridge))) for theta in self.fits.values())

    def length(self, fits):
        """Longest move from the base fits (a dict of `ClippedFit`), in their metric."""
        return max(float(np.max(fit.length(self.fits[sign] - fit.theta))) for sign, fit in fits.items())

    # Sets ----------------------------------------------------------------------------------------

    def decided(self, rows, slack, own):
        """True where all of the path is in the set, False where none of it is, None where neither is sure.

        Scores may be off by ``slack`` times the norms of the rows, the new one by ``own``.
        """
        if self.kept.any():
            return None
        old, new = rows.scores(self)
        low, high, least, most = _spans(old, new)
        error = slack * rows.norms
        k_low, k_high = rows.rank.kth(low - error), rows.rank.kth(high + error)
        inside, outside = most + own <= k_low, least - own - TIES > k_high
        for end, corner in zip(self.ends, (0, -1), strict=True):
            if np.isfinite(end):
                continue
            # On a ray the fits and so the training scores stay, while one new term falls and one rises.
            level, term = old[:, corner].max(axis=0), 1 if corner else -1
            rises = term in rows.terms
            least = new[rows.terms.index(term), corner] if rises else -np.inf
            most = np.inf if rises else new[:, corner].max()
            inside = np.append(inside, most + own <= rows.rank.kth(level - error))
            outside = np.append(outside, least - own - TIES > rows.rank.kth(level + error))
        if inside.all():
            return True
        return False if outside.all() else None

    def pieces(self, rows):
        """Intervals of w that make up the set (a list of pairs)."""
        old, new = rows.scores(self)
        low, high, least, most = _spans(old, new)
        inside = (most <= rows.rank.kth(low)) | self.kept
        unsure = ~inside & (least - TIES <= rows.rank.kth(high))
        out = [(self.w[j], self.w[j + 1]) for j in np.flatnonzero(inside)]
        for j in np.flatnonzero(unsure):
            first, last = self.w[j], self.w[j + 1]
            lines = [(term[j], (term[j + 1] - term[j]) / (last - first)) for term in old]
            own = [(term[j], (term[j + 1] - term[j]) / (last - first)) for term in new]
            out += [
                (first + a, first + b) for a, b in uncovered(lines, own, last - first, rows.rank, -TIES)
            ]
        for end, corner in zip(self.ends, (0, -1), strict=True):
            out += self._ray(rows, float(rows.rank.kth(old[:, corner].max(axis=0))), end, corner)
        return merge(out, near=1e-12)

    def _ray(self, rows, level, end, corner):
        """The set beyond the first or the last corner, where the fits stay; up to ``end``."""
        low, high = (end, self.w[corner]) if corner == 0 else (self.w[corner], end)
        if not low < high:
            low = high = self.w[corner]
        level = level + TIES
        if -1 in rows.terms:
            low = max(low, self.fits[-1][corner] @ self.x - level)
        if 1 in rows.terms:
            high = min(high, self.fits[1][corner] @ self.x + level)
        return [(float(low), float(high))] if low <= high else []


def _spans(old, new):
    """Smallest and largest training scores on each stretch (K - 1, c), and the new one's (K - 1,).

    The larger of lines is largest at an end; it is no smaller than the larger of their smallest values.
    """
    spans = []
    for terms in (old, new):
        low = np.minimum(terms[:, :-1], terms[:, 1:]).max(axis=0)
        high = np.maximum(terms[:, :-1], terms[:, 1:]).max(axis=0)
        spans += [low, high]
    return spans
