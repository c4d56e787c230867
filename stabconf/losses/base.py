"""What every loss declares, and what losses share (theory, section 2).

Methods and solvers ask for what they need by name and refuse a loss that does not declare it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ..checks import is_number
from ..errors import InputError

SlopeKind = Literal["step", "line", "bending"]


@dataclass(frozen=True)
class Loss:
    """Base class: what every loss declares.

    Attributes
    ----------
    kind : {"step", "line", "bending"}
        What the derivative is: a step from ``-down`` to ``up`` (LAD, quantile), the residual clipped to
        these bounds (squared, Huber), or anything else.
    slopes : tuple of float
        ``(down, up)``: the derivative ranges over ``[-down, up]``; ``inf`` where it is unbounded.
    smoothness : float
        Lipschitz constant nu of the derivative; ``inf`` where there is none, and then `prox_slope` is
        needed.
    bends_once : bool
        True where the derivative is convex or concave on each side of 0, so that its chords and tangents
        bound it. False unless a loss says so.
    concave_slope : bool
        True where an unbounded derivative grows no faster than the residual, so that a stable set can be
        finite.
    degree : float or None
        The power of the unit that the loss grows with, see `rescaled`; None where there is none.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[SlopeKind] = "bending"
    bends_once: ClassVar[bool] = False
    concave_slope: ClassVar[bool] = False
    degree: ClassVar[float | None] = None

    @property
    def slopes(self) -> tuple[float, float]:
        return (math.inf, math.inf)

    @property
    def smoothness(self) -> float:
        return math.inf

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant rho of the loss; ``inf`` where there is none."""
        return max(self.slopes)

    @property
    def symmetric(self) -> bool:
        """True where residuals r and -r have the same loss."""
        return self.slopes[0] == self.slopes[1]

    @property
    def level(self) -> float:
        """The order-statistic level that centres the response (0.5 but for the quantile loss)."""
        return 0.5

    @property
    def needs_prox(self) -> bool:
        """True where slope or curvature is unbounded, so that Newton steps need the envelope."""
        return math.isinf(self.smoothness)

    def value(self, r: ArrayLike) -> np.ndarray:
        """Loss of residuals ``r``."""
        raise NotImplementedError

    def derivative(self, r: ArrayLike) -> np.ndarray:
        """Derivative at ``r``; at a kink, one element of the subdifferential."""
        raise NotImplementedError

    def subgradient(self, r: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Ends ``(low, high)`` of the subdifferential at ``r``."""
        slope = self.derivative(r)
        return slope, slope

    def inverse_derivative(self, u: ArrayLike) -> np.ndarray:
        """A residual at which ``u`` is a slope of the loss."""
        raise NotImplementedError

    def curvature(self, r: ArrayLike) -> np.ndarray:
        """Second derivative at ``r``."""
        return self.min_curvature(r, r)

    def min_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        """Smallest second derivative over each interval ``[low, high]``."""
        raise NotImplementedError

    def max_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        """Largest second derivative over each interval ``[low, high]``, its inside included; or ``inf``."""
        raise NotImplementedError

    def prox_slope(self, a: np.ndarray, eps: float) -> np.ndarray:
        """Slope of the Moreau envelope: ``u`` with ``u = l'(p)`` and ``p + eps u = a``."""
        raise NotImplementedError(f"{type(self).__name__} declares no smoothness: give it a prox_slope")

    def prox_curvature(self, u: np.ndarray, eps: float) -> np.ndarray:
        """Curvature of the Moreau envelope, ``du/da``, where its slope is ``u``."""
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 / self.curvature(self.inverse_derivative(u)) + eps)

    def fenchel_gap(self, r: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Upper bound on ``l(r) + l*(u) - r u``, without cancellation; 0 where ``u = l'(r)``."""
        excess = self.derivative(r) - u
        with np.errstate(invalid="ignore"):
            return np.where(excess == 0, 0.0, excess * (r - self.inverse_derivative(u)))

    def in_unit(self, unit: float) -> Self:
        """The loss of residuals whose spread is ``unit``: parameters count in that unit."""
        return self

    def rescaled(self, unit: float) -> "tuple[Loss, float] | None":
        """A loss, a simpler one if possible, and a factor with ``l(unit * r) == factor * loss(r)``; None
        where there are none."""
        return None if self.degree is None else (self.in_unit(1.0 / unit), unit**self.degree)

    def describe(self) -> str:
        """The loss as a user would write it."""
        return repr(self).replace(type(self).__name__, self.name).removesuffix("()")


class FallingCurvature(Loss):
    """Losses whose second derivative falls with \\|r\\|: `curvature` alone says all about it."""

    @property
    def smoothness(self) -> float:
        return float(self.curvature(0.0))

    def curvature(self, r: ArrayLike) -> np.ndarray:
        raise NotImplementedError

    def min_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return self.curvature(np.maximum(np.abs(low), np.abs(high)))

    def max_curvature(self, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        return self.curvature(smallest_size(low, high))


def smallest_size(low: ArrayLike, high: ArrayLike) -> np.ndarray:
    """Smallest \\|r\\| over each interval."""
    return np.maximum(np.maximum(low, np.negative(high)), 0.0)


def require(ok: bool, name: str, value: object, fix: str) -> None:
    """Raise an `InputError` naming the parameter unless ``ok``."""
    if not ok:
        raise InputError(f"{name}={value!r} is not allowed: {fix}")


def require_positive(name: str, value: float) -> None:
    """Raise an `InputError` naming the parameter unless it is positive and finite."""
    require(is_number(value) and 0 < value < math.inf, name, value, "give a positive finite number")
