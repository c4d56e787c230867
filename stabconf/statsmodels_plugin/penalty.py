"""The penalty of ``fit_regularized``: as it was given, or read off the coefficients.

statsmodels minimises ``RSS / (2 n) + alpha ((1 - L1_wt) / 2 |b|^2 + L1_wt |b|_1)``, the intercept's
coefficient included, and forgets alpha and L1_wt. At its minimiser ``X'(y - X b) / n`` is ``ridge b + lasso
sign(b)`` in every coefficient that is not 0: where these are more than the unknown weights, they give both.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..checks import is_number
from ..errors import InputError
from ..penalties import Penalty

_MISFIT = 1e-6


@dataclass(frozen=True)
class CoefficientPenalty(Penalty):
    """``ridge_j b_j^2 / 2 + lasso_j |b_j|`` per training row, one weight of each kind per coefficient."""

    ridge: tuple[float, ...]
    lasso: tuple[float, ...]
    name: ClassVar[str] = "per coefficient"

    def weights(self, n: int, slopes: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Ridge and lasso weights, two (p,) arrays."""
        return n * np.array(self.ridge), n * np.array(self.lasso)

    def describe(self) -> str:
        """The weights in words."""
        parts = [
            f"{name} {weights[0]:.6g}" if len(set(weights)) == 1 else f"{name} by column"
            for name, weights in (("ridge", self.ridge), ("L1", self.lasso))
            if any(weights)
        ]
        return ", ".join(parts) or "none"


def given_penalty(penalty: Any, l1_ratio: Any, count: int, factor: float) -> CoefficientPenalty:
    """Of ``count`` coefficients, from ``alpha``, ``L1_wt`` and the mean weight, by which WLS multiplies."""
    if not (is_number(l1_ratio) and 0 <= l1_ratio <= 1):
        raise InputError(f"l1_ratio={l1_ratio!r} is not allowed: give fit_regularized's L1_wt, from 0 to 1")
    try:
        strength = np.broadcast_to(np.asarray(penalty, dtype=float), (count,)) * factor
    except (TypeError, ValueError):
        strength = np.array([np.nan])
    if not (np.all(np.isfinite(strength)) and np.all(strength >= 0)):
        raise InputError(
            f"penalty={penalty!r} is not allowed: give the alpha of fit_regularized, a number or one for "
            f"each of the {count} coefficients, 0 or larger"
        )
    return CoefficientPenalty(tuple((1 - l1_ratio) * strength), tuple(l1_ratio * strength))


def recovered_penalty(
    X: np.ndarray, y: np.ndarray, params: np.ndarray, intercept: int | None
) -> CoefficientPenalty | None:
    """The penalty at whose minimiser the coefficients (p,) are; None where they do not tell.

    One weight for all coefficients, or for all but the intercept. Rows of X (n, p) and y (n,) are
    multiplied by roots of weights, for WLS.
    """
    pull = X.T @ (y - X @ params) / len(y)
    size = np.sqrt(np.mean(np.square(X), axis=0)) * np.sqrt(np.mean(np.square(y)))  # of the sums in pull
    everywhere = np.ones(len(params), dtype=bool)
    for shrunk in (everywhere, np.arange(len(params)) != intercept):
        for kinds in ([0], [1], [0, 1]):  # ridge, lasso, both
            weights = _solved(pull / size, params, shrunk, kinds, size)
            if weights is not None:
                return CoefficientPenalty(*(tuple(weight * shrunk) for weight in weights))
    return None


def _solved(
    pull: np.ndarray, params: np.ndarray, shrunk: np.ndarray, kinds: list[int], size: np.ndarray
) -> np.ndarray | None:
    """Weights (2,) of ridge and lasso that explain the pull on the coefficients; None where none do."""
    used = shrunk & (params != 0)
    if np.count_nonzero(used) <= len(kinds):
        return None
    known = np.column_stack([params / size, np.sign(params) / size])[:, kinds]
    found, _, rank, _ = np.linalg.lstsq(known[used], pull[used], rcond=None)
    if rank < len(kinds) or np.any(found < 0):
        return None
    weights = np.zeros(2)
    weights[kinds] = found
    off = pull - shrunk * (known @ found)
    # A kink holds a coefficient at 0 against any pull up to its weight.
    room = np.where(params == 0, shrunk * weights[1] / size, 0.0)
    scale = max(np.max(np.abs(pull)), 1e-9)
    return weights if np.all(np.abs(off) <= room + _MISFIT * scale) else None
