"""Losses with a bounded second derivative: squared, Huber, pseudo-Huber, log-cosh (theory, section 2).

Newton's method uses their own slope and curvature; the curvature falls with the size of the residual.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .base import FallingCurvature, SlopeKind, require_positive


@dataclass(frozen=True)
class Squared(FallingCurvature):
    """r^2 / 2. Not Lipschitz; nu = 1.

    Examples
    --------
    >>> Squared().value([1.0, 3.0])
    array([0.5, 4.5])
    """

    name: ClassVar[str] = "squared"
    kind: ClassVar[SlopeKind] = "line"
    bends_once: ClassVar[bool] = True
    concave_slope: ClassVar[bool] = True
    degree: ClassVar[float] = 2.0

    def value(self, r: ArrayLike) -> np.ndarray:
        return 0.5 * np.square(r)

    def derivative(self, r: ArrayLike) -> np.ndarray:
        return np.asarray(r, dtype=float)

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        return np.asarray(u, dtype=float)

    def curvature(self, r: ArrayLike) -> np.ndarray:
        return np.ones(np.shape(r))


@dataclass(frozen=True)
class _Thresholded(FallingCurvature):
    """Squared near 0 and linear beyond about ``d``: Lipschitz with d; nu = 1."""

    d: float = 1.345
    bends_once: ClassVar[bool] = True
    degree: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        require_positive("d", self.d)

    def in_unit(self, unit: float) -> Self:
        return replace(self, d=self.d * unit)

    @property
    def slopes(self) -> tuple[float, float]:
        return (self.d, self.d)


@dataclass(frozen=True)
class Huber(_Thresholded):
    """r^2 / 2 up to \\|r\\| = d, then d \\|r\\| - d^2 / 2. Lipschitz with d; nu = 1.

    Parameters
    ----------
    d : float, default 1.345
        Threshold, in units of the residual scale, as in statsmodels' RLM.

    Examples
    --------
    >>> Huber(1.0).value([0.5, 3.0])
    array([0.125, 2.5  ])
    """

    name: ClassVar[str] = "huber"
    kind: ClassVar[SlopeKind] = "line"

    def value(self, r: ArrayLike) -> np.ndarray:
        size = np.abs(r)
        return np.where(size <= self.d, 0.5 * size**2, self.d * size - 0.5 * self.d**2)

    def derivative(self, r: ArrayLike) -> np.ndarray:
        return np.clip(r, -self.d, self.d)

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        return np.asarray(u, dtype=float)

    def curvature(self, r: ArrayLike) -> np.ndarray:
        return (np.abs(r) <= self.d).astype(float)


@dataclass(frozen=True)
class PseudoHuber(_Thresholded):
    """d^2 (sqrt(1 + (r/d)^2) - 1): a smooth Huber loss. Lipschitz with d; nu = 1.

    Parameters
    ----------
    d : float, default 1.345
        In units of the residual scale.

    Examples
    --------
    >>> PseudoHuber(1.0).derivative(1.0).round(4)
    np.float64(0.7071)
    """

    name: ClassVar[str] = "pseudo_huber"

    def value(self, r: ArrayLike) -> np.ndarray:
        # r^2 / (1 + sqrt(...)) is the same number without cancellation near 0.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.square(r) / (1.0 + np.hypot(1.0, np.divide(r, self.d)))

    def derivative(self, r: ArrayLike) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            slope = np.asarray(r) / np.hypot(1.0, np.divide(r, self.d))
        return np.where(np.isinf(r), np.copysign(self.d, r), slope)

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.asarray(u) / np.sqrt(np.maximum(1.0 - np.square(np.divide(u, self.d)), 0.0))

    def curvature(self, r: ArrayLike) -> np.ndarray:
        return np.hypot(1.0, np.divide(r, self.d)) ** -3.0


@dataclass(frozen=True)
class LogCosh(FallingCurvature):
    """g log cosh(r / g). Lipschitz with 1; nu = 1 / g.

    The log-cosh loss that Ndiaye (2022) prints, c log(cosh(r) / c), is c times ``LogCosh(1)`` but for a
    constant: fit it with ``LogCosh(1)`` and the penalty divided by c.

    Parameters
    ----------
    g : float, default 1
        Width of the rounded part, in units of the residual scale.

    Examples
    --------
    >>> LogCosh(1.0).derivative(0.5).round(4)
    np.float64(0.4621)
    """

    g: float = 1.0
    name: ClassVar[str] = "logcosh"
    slopes = (1.0, 1.0)
    bends_once: ClassVar[bool] = True
    degree: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        require_positive("g", self.g)

    def in_unit(self, unit: float) -> Self:
        return replace(self, g=self.g * unit)

    def value(self, r: ArrayLike) -> np.ndarray:
        size = np.abs(r) / self.g
        return self.g * (size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))

    def derivative(self, r: ArrayLike) -> np.ndarray:
        return np.tanh(np.divide(r, self.g))

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return self.g * np.arctanh(u)

    def curvature(self, r: ArrayLike) -> np.ndarray:
        # sech^2 written with decaying exponentials, so that far residuals give 0, not overflow.
        decay = np.exp(-2.0 * np.abs(r) / self.g)
        return 4.0 * decay / (self.g * np.square(1.0 + decay))
