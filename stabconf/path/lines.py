"""Conformal sets along a path on which every residual is linear between two corners.

A candidate w is in the set if at least n - k + 1 training scores are no smaller than its own. Along a
piece of a path all residuals are lines in w, so each training row is below the candidate on at most two
open intervals whose ends are roots of lines: sorting the roots gives the set, whatever its shape.
"""

from dataclasses import dataclass

import numpy as np

from ..scores import kth_smallest

__all__ = ["ResponsePath", "merge"]

_ROUNDING = 1e-11


@dataclass(frozen=True)
class ResponsePath:
    """The fit of the augmented sample as a function of the new response w, in standardised units.

    Attributes
    ----------
    x : (p,) array
        The new design row.
    w : (K,) array
        Responses at the corners, ascending.
    theta : (K, p) array
        Coefficients there.
    before, after : (p,) arrays or None
        Movement of the coefficients per unit of w beyond the first and the last corner; None where the
        path ends there.
    """

    x: np.ndarray
    w: np.ndarray
    theta: np.ndarray
    before: np.ndarray | None
    after: np.ndarray | None

    def pieces(self, X, v, k, sign=0):
        """Intervals of w that make up the set (a list of pairs).

        ``sign`` is 0 for absolute scores, else 1 or -1 for scores ``sign * residual``.
        """
        out = []
        if self.before is not None:
            found = _segment(X, v, self.x, self.theta[0], -self.before, self.w[0], -np.inf, k, sign)
            out += found
        for j in range(len(self.w) - 1):
            width = self.w[j + 1] - self.w[j]
            if width > 0:
                direction = (self.theta[j + 1] - self.theta[j]) / width
                out += _segment(
                    X, v, self.x, self.theta[j], direction, self.w[j], self.w[j + 1], k, sign
                )
        if self.after is not None:
            out += _segment(X, v, self.x, self.theta[-1], self.after, self.w[-1], np.inf, k, sign)
        return merge(out)


def merge(pieces, near=0.0):
    """The union of closed intervals in ascending order; those no further apart than ``near`` are joined."""
    out = []
    for low, high in sorted(pieces):
        if out and low <= out[-1][1] + near:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _segment(X, v, x, theta, direction, first, last, k, sign):
    """The set between w = ``first`` and ``last`` (to the left where that is smaller)."""
    way = 1.0 if last > first else -1.0
    length = abs(last - first)
    r, rate = _settled(v - X @ theta, v), _settled(-(X @ direction), 1.0)
    e, e_rate = _settled(first - x @ theta, first), _settled(way - x @ direction, 1.0)
    inside = _uncovered(r, rate, e, e_rate, length, k, sign)
    return [tuple(sorted((first + way * low, first + way * high))) for low, high in inside]


def _settled(values, size):
    """Values that are 0 but for rounding errors set to 0: rows that are fitted exactly tie with others."""
    return np.where(np.abs(values) <= _ROUNDING * (1.0 + np.abs(size)), 0.0, values)


def _uncovered(r, rate, e, e_rate, length, k, sign):
    """Parts of [0, length] where fewer than k rows have a smaller score than the new one."""
    decided = _decided(r, rate, e, e_rate, length, k, sign)
    if decided is not None:
        return [(0.0, length)] if decided else []
    low, high = _half_lines(sign * (r - e), sign * (rate - e_rate)) if sign else _between(r, rate, e, e_rate)
    low, high = np.sort(low), np.sort(high)
    inner = [end[(end > 0) & (end < length)] for end in (low, high)]
    ends = np.unique(np.concatenate([[0.0], *inner, [length]]))
    middles = 0.5 * (ends[:-1] + ends[1:])
    if np.isinf(length):
        middles[-1] = 2.0 * ends[-2] + 1.0
    below = np.searchsorted(low, middles, side="left") - np.searchsorted(high, middles, side="right")
    return merge([(ends[j], ends[j + 1]) for j in np.flatnonzero(below < k)])


def _half_lines(start, slope):
    """Open intervals where ``start + slope * t`` is negative: their ends, for the rows that have one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = -start / slope
    low = np.where(slope < 0, root, -np.inf)
    high = np.where(slope > 0, root, np.inf)
    some = (slope != 0) | (start < 0)
    return low[some], high[some]


def _between(r, rate, e, e_rate):
    """Open intervals where ``|r + rate t| < |e + e_rate t|``: the product of two lines is negative."""
    one, two = (r - e, rate - e_rate), (r + e, rate + e_rate)
    lead = one[1] * two[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.sort(np.stack([-one[0] / one[1], -two[0] / two[1]]), axis=0)
    middle, outer = lead > 0, lead < 0
    low = [roots[0][middle], np.full(np.count_nonzero(outer), -np.inf), roots[1][outer]]
    high = [roots[1][middle], roots[0][outer], np.full(np.count_nonzero(outer), np.inf)]
    for flat, other in ((one, two), (two, one)):
        # A line without slope: the other decides, where the constant is not 0.
        which = (flat[1] == 0) & (flat[0] != 0) & ((other[1] != 0) | (flat is one))
        turn = np.sign(flat[0][which])
        ends = _half_lines(turn * other[0][which], turn * other[1][which])
        low.append(ends[0])
        high.append(ends[1])
    return np.concatenate(low), np.concatenate(high)


def _decided(r, rate, e, e_rate, length, k, sign):
    """True or False where the whole segment is in or out by its ends alone, else None."""
    if np.isinf(length):
        return None
    here, there = r, r + rate * length
    new = np.array([e, e + e_rate * length])
    if sign:
        low, high = np.minimum(sign * here, sign * there), np.maximum(sign * here, sign * there)
        new = sign * new
    else:
        high = np.maximum(np.abs(here), np.abs(there))
        low = np.where(here * there <= 0, 0.0, np.minimum(np.abs(here), np.abs(there)))
        new = np.append(np.abs(new), 0.0) if new[0] * new[1] <= 0 else np.abs(new)
    if np.max(new) <= kth_smallest(low, k):
        return True
    if np.min(new) > kth_smallest(high, k):
        return False
    return None
