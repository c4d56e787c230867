"""Closed-form ends for squared loss without an L1 part (theory, section 5).

The augmented residuals are linear in the new one, ``r_i - r b_i`` with ``b_i = x_N' H^-1 x_i``: a new
residual of size r is in the set if r is at most the order statistic of ``|r_i| / (1 +- b_i)``. By Cauchy's
inequality ``|b_i| <= sqrt(h_N h_i)``, so only the training rows near the k-th residual can decide a new
row: new rows of like leverage h_N share one short window, and no array grows with n times m.
"""

from collections.abc import Sequence

import numpy as np

from ...path import ClippedFit
from ...rank import Rank

__all__ = ["closed_residuals"]

_ROWS = 1024  # new rows that share a window, at most
_ENTRIES = 2_000_000  # of a matrix of all training rows and some new ones
_GUARD = 1.0 + 1e-9  # rounding errors of the leverages


def closed_residuals(
    fit: ClippedFit, rows: np.ndarray, ranks: Sequence[Rank], sign: int, direction: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New residuals at the ends of the sets (len(ranks), m), leverages and rates (m,) of new rows (m, p).

    The fit is of squared loss, without L1 part; ``sign`` is that of the score, and ``direction`` 1 for
    upper ends, -1 for lower ones. The prediction moves by the leverage times the new residual. Rates bound
    ``|b_i|`` over the training rows, sharply (but for rounding errors) where they are not below 1; where
    they are, the set is an interval and its residual valid.
    """
    assert fit.hessian_inverse is not None
    lever = fit.leverages
    towards = rows @ fit.hessian_inverse
    own = np.maximum(np.einsum("ij,ij->i", towards, rows), 0.0)
    rate = np.sqrt(own * np.max(lever, initial=0.0)) * _GUARD
    doubtful = np.flatnonzero(rate >= 1.0)
    rate[doubtful] = _largest_pulls(fit, towards[doubtful])
    out = np.empty((len(ranks), len(rows)))
    order = np.argsort(own) if len(rows) > _ROWS else np.arange(len(rows))
    for first in range(0, len(rows), _ROWS):
        part = order[first : first + _ROWS]
        bound = np.sqrt(np.max(own[part]) * lever) * _GUARD
        for a, rank in enumerate(ranks):
            out[a, part] = _block(fit, towards[part], bound, rank.take(part), sign, direction)
    return out, own, rate


def _block(
    fit: ClippedFit, towards: np.ndarray, bound: np.ndarray, rank: Rank, sign: int, direction: int
) -> np.ndarray:
    """`closed_residuals` of new rows whose ``|b_i|`` are at most ``bound`` (n,), for one rank."""
    r = fit.r[: fit.count]
    score = sign * r if sign else np.abs(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = score / (1.0 + bound)
        other = np.where(bound < 1.0, score / (1.0 - bound), np.sign(score) * np.inf)
        window, near = rank.window(np.fmin(one, other), np.fmax(one, other))
        pull = towards @ fit.X[window].T
        turn = sign or np.where(r[window] >= 0, 1.0, -1.0)
        return near.kth(score[window] / (1.0 + direction * turn * pull))


def _largest_pulls(fit: ClippedFit, towards: np.ndarray) -> np.ndarray:
    """Largest ``|b_i|`` over the training rows (m,), a few new rows at a time."""
    X = fit.X[: fit.count]
    size = max(1, _ENTRIES // fit.count)
    out = np.empty(len(towards))
    for first in range(0, len(towards), size):
        pull = towards[first : first + size] @ X.T
        out[first : first + size] = np.max(np.abs(pull), axis=1, initial=0.0) * _GUARD
    return out
