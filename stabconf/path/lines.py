"""Conformal sets along a path on which every residual is linear between two corners.

A candidate w is in the set if the training rows below it are fewer, or weigh less, than its rank. Along a
piece of a path all residuals are lines in w, so each training row is below the candidate on at most two
open intervals whose ends are roots of lines: sorting the roots gives the set, whatever its shape.
"""

from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

__all__ = ["TIES", "ResponsePath", "decided_prefix", "merge", "uncovered"]

_ROUNDING = 1e-11
TIES = 1e-10  # scores nearer than this are tied: rounding errors never exclude a candidate


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
    broken : bool
        True where the path between the corners could not be followed, only its ends are known.
    """

    x: np.ndarray
    w: np.ndarray
    theta: np.ndarray
    before: np.ndarray | None
    after: np.ndarray | None
    broken: bool = False

    def pieces(self, X, v, rank, sign=0, slack=None):
        """Intervals of w that make up the set (a list of pairs).

        ``rank`` is a `Rank` with one mass, ``sign`` 0 for absolute scores, else 1 or -1 for scores
        ``sign * residual``; ``slack`` (n,) is added to the new score where it is compared with a row's.
        """
        X, v, slack = (part if part is None else rank.of(part.T).T for part in (X, v, slack))
        out, rest = [], (replace(rank, which=None), sign, slack)
        if self.before is not None:
            out += _segment(X, v, self.x, self.theta[0], -self.before, self.w[0], -np.inf, *rest)
        for j in range(len(self.w) - 1):
            width = self.w[j + 1] - self.w[j]
            if width > 0:
                direction = (self.theta[j + 1] - self.theta[j]) / width
                out += _segment(X, v, self.x, self.theta[j], direction, self.w[j], self.w[j + 1], *rest)
        if self.after is not None:
            out += _segment(X, v, self.x, self.theta[-1], self.after, self.w[-1], np.inf, *rest)
        return merge(out)

    def covers(self, w):
        """Whether the path goes through responses ``w`` (g,)."""
        low = -np.inf if self.before is not None else self.w[0] - _ROUNDING
        high = np.inf if self.after is not None else self.w[-1] + _ROUNDING
        return (w >= low) & (w <= high)

    def at(self, w):
        """Coefficients at responses ``w`` (g, p)."""
        place = np.clip(np.searchsorted(self.w, w), 1, max(len(self.w) - 1, 1))
        theta = np.empty((len(w), len(self.x)))
        if len(self.w) > 1:
            one, two = self.w[place - 1], self.w[place]
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(two > one, (np.clip(w, one, two) - one) / (two - one), 0.0)
            theta = self.theta[place - 1] + share[:, None] * (self.theta[place] - self.theta[place - 1])
        else:
            theta[:] = self.theta[0]
        if self.before is not None:
            theta += np.minimum(w - self.w[0], 0.0)[:, None] * self.before
        if self.after is not None:
            theta += np.maximum(w - self.w[-1], 0.0)[:, None] * self.after
        return theta


def merge(pieces, near=0.0):
    """The union of closed intervals in ascending order; those no further apart than ``near`` are joined."""
    out = []
    for low, high in sorted(pieces):
        if out and low <= out[-1][1] + near:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _segment(X, v, x, theta, direction, first, last, rank, sign, slack):
    """The set between w = ``first`` and ``last`` (to the left where that is smaller)."""
    way = 1.0 if last > first else -1.0
    length = abs(last - first)
    r, rate = _settled(v - X @ theta, v), _settled(-(X @ direction), 1.0)
    e, e_rate = _settled(first - x @ theta, first), _settled(way - x @ direction, 1.0)
    decided = _decided(r, rate, e, e_rate, length, rank, sign) if slack is None else None
    if decided is None:
        lines, own = _terms(r, rate, sign), _terms(e, e_rate, sign)
        inside = uncovered(lines, own, length, rank, -TIES if slack is None else slack)
    else:
        inside = [(0.0, length)] if decided else []
    return [tuple(sorted((first + way * low, first + way * high))) for low, high in inside]


def _settled(values, size):
    """Values that are 0 but for rounding errors set to 0: rows that are fitted exactly tie with others."""
    return np.where(np.abs(values) <= _ROUNDING * (1.0 + np.abs(size)), 0.0, values)


def _terms(r, rate, sign):
    """Lines whose largest is the score of residuals ``r`` that change at ``rate``."""
    return [(way * r, way * rate) for way in ((1.0, -1.0) if not sign else (sign,))]


def uncovered(lines, own, length, rank, slack):
    """Parts of [0, length] where the rows with a smaller score than the new one lack the mass.

    Parameters
    ----------
    lines : list of (start, slope)
        A row's score is the largest of its lines: values at 0 and slopes, two (n,) arrays each.
    own : list of (float, float)
        The same for the new row.
    length : float
        May be infinite.
    rank : Rank
        With one mass.
    slack : float or (n,) array
        Added to the new score.
    """
    cuts = {0.0, length}
    for (one, slope), (two, other) in combinations(own, 2):
        root = (two - one) / (slope - other) if slope != other else np.inf
        if 0 < root < length:
            cuts.add(root)
    out = []
    for first, last in pairwise(sorted(cuts)):
        middle = 0.5 * (first + last) if np.isfinite(last) else first + 1.0
        value, change = max(own, key=lambda term: term[0] + middle * term[1])
        gaps = [(start - value + first * (rate - change) - slack, rate - change) for start, rate in lines]
        out += [(first + low, first + high) for low, high in _lacking(gaps, last - first, rank)]
    return merge(out)


def _lacking(lines, length, rank):
    """Parts of [0, length] where the rows all of whose lines are negative lack the mass."""
    low, high = (_heap(ends, rank) for ends in _all_negative(lines))
    inner = [end[(end > 0) & (end < length)] for end, _ in (low, high)]
    ends = np.unique(np.concatenate([[0.0], *inner, [length]]))
    middles = 0.5 * (ends[:-1] + ends[1:])
    if np.isinf(length):
        middles[-1] = 2.0 * ends[-2] + 1.0
    begun, over = np.searchsorted(low[0], middles, side="left"), np.searchsorted(high[0], middles, "right")
    below = begun - over if rank.weights is None else low[1][begun] - high[1][over]
    inside = np.concatenate([[False], below < rank.mass, [False]])
    first, last = np.flatnonzero(inside[1:] & ~inside[:-1]), np.flatnonzero(inside[:-1] & ~inside[1:])
    return list(zip(ends[first].tolist(), ends[last].tolist(), strict=True))


def _all_negative(lines):
    """Ends of the open intervals, one a row, where all of its lines are negative; inf if empty."""
    low, high = -np.inf, np.inf
    for start, slope in lines:
        with np.errstate(divide="ignore", invalid="ignore"):
            root = -start / slope
        never = (slope == 0) & (start >= 0)
        low = np.maximum(low, np.where(slope < 0, root, np.where(never, np.inf, -np.inf)))
        high = np.minimum(high, np.where(slope > 0, root, np.inf))
    some = low < high
    return np.where(some, low, np.inf), np.where(some, high, np.inf)


def _heap(ends, rank):
    """Ends in ascending order, and with weights how much the rows before each weigh (one more)."""
    if rank.weights is None:
        return np.sort(ends), None
    order = np.argsort(ends)
    return ends[order], np.concatenate([[0.0], np.cumsum(rank.weights[order])])


def _decided(r, rate, e, e_rate, length, rank, sign):
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
    if np.max(new) <= rank.kth(low):
        return True
    if np.min(new) - TIES > rank.kth(high):
        return False
    return None


def decided_prefix(r, change, e, e_change, error, rank, side):
    """What is certain from t = 0 on about lines that are known up to errors, for t in [0, 1].

    Parameters
    ----------
    r, change : (n,) arrays
        Training residuals at t = 0 and their changes to t = 1.
    e, e_change : float
        The new row's residual and its change.
    error : (n,) array
        Bounds on the error of each training residual plus that of the new one.
    rank : Rank
        With one mass.
    side : {"two-sided", "upper", "lower"}

    Returns
    -------
    list of (first, last, inside)
        Consecutive stretches from 0 up to the first point that is not decided.
    """
    sign = {"two-sided": 0, "upper": 1, "lower": -1}[side]
    r, change, error = (rank.of(part) for part in (r, change, error))
    rank = replace(rank, which=None)
    lines, own = _terms(r, change, sign), _terms(e, e_change, sign)
    surely, maybe = (uncovered(lines, own, 1.0, rank, slack) for slack in (error, -error))
    starts = [0.0, *(high for _, high in maybe)]
    out_of_it = list(zip(starts, [*(low for low, _ in maybe), 1.0], strict=True))
    out, at = [], 0.0
    while at < 1.0:
        for pieces, inside in ((surely, True), (out_of_it, False)):
            last = next((high for low, high in pieces if low <= at < high), None)
            if last is not None:
                out.append((at, last, inside))
                at = last
                break
        else:
            break
    return out
