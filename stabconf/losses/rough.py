"""Losses whose slope jumps or curvature is unbounded: LAD, quantile, linex, power (theory, section 2).

Newton's method reaches them through the slope of their Moreau envelope, `prox_slope`.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..checks import is_number
from .base import FallingCurvature, Loss, SlopeKind, require, smallest_size
from .smooth import Squared


class _Step(Loss):
    """``up * r`` above 0 and ``-down * r`` below: shared by LAD and the quantile loss."""

    kind: ClassVar[SlopeKind] = "step"
    bends_once: ClassVar[bool] = True
    degree: ClassVar[float] = 1.0

    def value(self, r: ArrayLike) -> np.ndarray:
        down, up = self.slopes
        return np.maximum(up * np.asarray(r), -down * np.asarray(r))

    def derivative(self, r: ArrayLike) -> np.ndarray:
        down, up = self.slopes
        r = np.asarray(r)
        return up * (r > 0) - down * (r < 0)

    def subgradient(self, r: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        down, up = self.slopes
        r = np.asarray(r)
        return np.where(r > 0, up, -down), np.where(r < 0, -down, up)

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        return np.zeros(np.shape(u))

    def fenchel_gap(self, r: np.ndarray, u: np.ndarray) -> np.ndarray:
        return self.value(r) - u * r  # the conjugate is 0 on the slope range

    def min_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return np.zeros(np.shape(low))

    def max_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return np.where(smallest_size(low, high) > 0, 0.0, np.inf)

    def prox_slope(self, a: np.ndarray, eps: float) -> np.ndarray:
        down, up = self.slopes
        u = a / eps
        return np.clip(u, -down, up, out=u)

    def prox_curvature(self, u: np.ndarray, eps: float) -> np.ndarray:
        down, up = self.slopes
        return ((u > -down) & (u < up)) / eps


@dataclass(frozen=True)
class LAD(_Step):
    """\\|r\\|: least absolute deviations. Lipschitz with 1; not smooth.

    Examples
    --------
    >>> LAD().slopes
    (1.0, 1.0)
    """

    name: ClassVar[str] = "lad"
    slopes = (1.0, 1.0)


@dataclass(frozen=True)
class Quantile(_Step):
    """max(q r, (q - 1) r): the pinball loss, whose minimiser is the conditional q-quantile.

    Lipschitz with max(q, 1 - q); not smooth.

    Parameters
    ----------
    q : float in (0, 1)
        The level: a share q of the responses should lie below the fit.

    Examples
    --------
    >>> Quantile(0.75).slopes
    (0.25, 0.75)
    """

    q: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        require(is_number(self.q) and 0 < self.q < 1, "q", self.q, "give a level between 0 and 1")

    @property
    def level(self) -> float:
        return self.q

    @property
    def slopes(self) -> tuple[float, float]:
        return (1.0 - self.q, self.q)


@dataclass(frozen=True)
class Linex(Loss):
    """exp(g r) - g r - 1: linear on one side, exponential on the other; not smooth.

    With g > 0 slopes are in (-g, inf): under-prediction is punished exponentially, so a far new response
    drags the whole fit after it and its conformal set has no finite upper end. Use it for lower bounds, and
    g < 0, its mirror image, for upper ones.

    Parameters
    ----------
    g : float, default 0.5
        Not 0; per unit of the residual scale.

    Examples
    --------
    >>> Linex(0.5).slopes
    (0.5, inf)
    """

    g: float = 0.5
    name: ClassVar[str] = "linex"
    bends_once: ClassVar[bool] = True
    degree: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        ok = is_number(self.g) and math.isfinite(self.g) and self.g != 0
        require(ok, "g", self.g, "give a finite number that is not 0")

    def in_unit(self, unit: float) -> Self:
        return replace(self, g=self.g / unit)

    @property
    def slopes(self) -> tuple[float, float]:
        return (self.g, math.inf) if self.g > 0 else (math.inf, -self.g)

    def value(self, r: ArrayLike) -> np.ndarray:
        x = self.g * np.asarray(r, dtype=float)
        with np.errstate(over="ignore"):
            return np.expm1(x) - x

    def derivative(self, r: ArrayLike) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.g * np.expm1(self.g * np.asarray(r, dtype=float))

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log1p(np.divide(u, self.g)) / self.g

    def curvature(self, r: ArrayLike) -> np.ndarray:
        with np.errstate(over="ignore"):
            return self.g**2 * np.exp(np.multiply(self.g, r))

    def min_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return self.curvature(low if self.g > 0 else high)

    def max_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return self.curvature(high if self.g > 0 else low)

    def prox_slope(self, a: np.ndarray, eps: float) -> np.ndarray:
        # p + eps u = a with u = g (e^{gp} - 1) is Wright's omega in c e^{gp}, c = g^2 eps.
        c = self.g**2 * eps
        omega = special.wrightomega(self.g * a + c + math.log(c))
        return self.g * (omega / c - 1.0)


@dataclass(frozen=True)
class Power(FallingCurvature):
    """\\|r\\|^q with 1 < q <= 2. Not Lipschitz; smooth only for q = 2 (nu = 2). For q = 1 use `LAD`.

    Examples
    --------
    >>> Power(1.5).value([1.0, 4.0])
    array([1., 8.])
    """

    q: float = 1.5
    name: ClassVar[str] = "power"
    bends_once: ClassVar[bool] = True
    concave_slope: ClassVar[bool] = True

    def __post_init__(self) -> None:
        ok = is_number(self.q) and 1 < self.q <= 2
        lad = ", or loss='lad', which is |r| itself" if self.q == 1 else ""
        require(ok, "q", self.q, f"give an exponent in (1, 2]{lad}")

    def rescaled(self, unit: float) -> tuple[Loss, float]:
        return (Squared(), 2.0 * unit**2) if self.q == 2 else (self, unit**self.q)

    def value(self, r: ArrayLike) -> np.ndarray:
        return np.abs(r) ** self.q

    def derivative(self, r: ArrayLike) -> np.ndarray:
        return self.q * np.sign(r) * np.abs(r) ** (self.q - 1.0)

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        return np.sign(u) * (np.abs(u) / self.q) ** (1.0 / (self.q - 1.0))

    def curvature(self, r: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return self.q * (self.q - 1.0) * np.abs(r) ** (self.q - 2.0)

    def prox_slope(self, a: np.ndarray, eps: float) -> np.ndarray:
        """Newton's method for log p in log(p + eps q p^(q-1)) = log a, convex and increasing."""
        q = self.q
        size = np.abs(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            target = np.log(size)
            shift = math.log(eps * q)
            log_p = np.minimum(target, (target - shift) / (q - 1.0))
            for _ in range(60):
                other = shift + (q - 1.0) * log_p
                total = np.logaddexp(log_p, other)
                share = np.exp(log_p - total)
                step = (total - target) / (share + (q - 1.0) * (1.0 - share))
                log_p = log_p - step
                if not np.any(np.abs(step) > 1e-15 * np.maximum(1.0, np.abs(log_p))):
                    break
            u = q * np.exp((q - 1.0) * log_p)
        return np.sign(a) * np.where(size > 0, u, 0.0)
