"""Conformity scores and the conformal order statistic (theory, section 1).

p(z) = (1 + #{i : E_i >= E_N}) / N and the set is {z : p(z) > alpha}, which is E_N <= the k-th smallest
of E_1..E_n with k = ceil((1 - alpha) N). Stability adds ``r * a_i`` to each score, with one number r a new
row: `kth_of_lines` finds the k-th smallest of such sums for many r at once.
"""

import numpy as np

from .response import ceil_rank

__all__ = ["conformal_rank", "p_values", "kth_smallest", "kth_of_lines", "window_lines"]

_DIRECT = 16384  # sums to sort directly rather than to narrow down first


def conformal_rank(alpha, n):
    """k = ceil((1 - alpha)(n + 1)); larger than n where the set is the whole line.

    Examples
    --------
    >>> conformal_rank(0.1, 99), conformal_rank(0.05, 10)
    (90, 11)
    """
    return ceil_rank(1.0 - alpha, n + 1)


def p_values(scores, new_score):
    """Conformal p-values ``(1 + #{E_i >= E_N}) / N``.

    Parameters
    ----------
    scores : (..., n) array
    new_score : (...) array

    Examples
    --------
    >>> p_values(np.array([1.0, 2.0, 3.0]), 2.0)
    np.float64(0.75)
    """
    scores = np.asarray(scores)
    above = np.sum(scores >= np.asarray(new_score)[..., None], axis=-1)
    return (1.0 + above) / (scores.shape[-1] + 1.0)


def kth_smallest(values, k):
    """k-th smallest along the last axis, k from 1; ``inf`` where k exceeds its length."""
    values = np.asarray(values)
    if k > values.shape[-1]:
        return np.full(values.shape[:-1], np.inf)
    return np.partition(values, k - 1, axis=-1)[..., k - 1]


def kth_of_lines(offset, slope, k, r):
    """Exact k-th smallest of ``offset + r_j * slope`` for every ``r_j``.

    The r are sorted and halved; between two of them only the lines that reach the window of the order
    statistic can be the k-th, so each half goes on with few lines. Cost and memory grow with n + m, not
    with n times m.

    Parameters
    ----------
    offset, slope : (n,) arrays
        Slopes must not be negative.
    k : int
    r : (m,) array

    Returns
    -------
    (m,) array

    Examples
    --------
    >>> kth_of_lines(np.array([1.0, 2.0]), np.array([2.0, 0.0]), 1, np.array([0.0, 3.0]))
    array([1., 2.])
    """
    r = np.asarray(r, dtype=float)
    if k > len(offset):
        return np.full(r.shape, np.inf)
    finite = np.isfinite(r)
    out = np.where(r > 0, np.inf, -np.inf)
    order = np.flatnonzero(finite)[np.argsort(r[finite])]
    ordered = np.empty(len(order))
    _narrow(np.asarray(offset), np.asarray(slope), k, r[order], ordered)
    out[order] = ordered
    return out


def window_lines(offset, slope, k, low, high):
    """The lines that can be the k-th smallest for some r in ``[low, high]``, and the rank among them.

    Returns
    -------
    offset, slope : arrays
    k : int
    """
    first, last = offset + low * slope, offset + high * slope
    below, above = last < kth_smallest(first, k), first > kth_smallest(last, k)
    window = ~(below | above)
    return offset[window], slope[window], k - int(np.count_nonzero(below))


def _narrow(offset, slope, k, r, out):
    """Fill ``out`` for ascending ``r``; see `kth_of_lines`."""
    if len(r) == 0:
        return
    if len(offset) == 1:
        out[:] = offset[0] + r * slope[0]
        return
    if len(r) * len(offset) <= _DIRECT:
        out[:] = kth_smallest(offset + r[:, None] * slope, k)
        return
    if r[0] == r[-1]:
        out[:] = kth_smallest(offset + r[0] * slope, k)
        return
    offset, slope, k = window_lines(offset, slope, k, r[0], r[-1])
    half = len(r) // 2
    _narrow(offset, slope, k, r[:half], out[:half])
    _narrow(offset, slope, k, r[half:], out[half:])
