"""Penalties on the coefficients: value, strong convexity, L1 weights (theory, section 2).

For n training rows a penalty is two vectors: ``ridge`` (the diagonal P of the strong-convexity matrix) and
``lasso`` (the L1 weights). The intercept is shrunk by the ridge part, never by the L1 part.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_numbers, is_number
from .errors import InputError, InputTypeError

_JOINT = ("group", "fused", "nuclear", "variation", "trend", "owl", "sorted")  # of several coefficients


class Penalty:
    """Base class. ``strength`` is per training row; ``l1_ratio`` the share of the L1 part."""

    name: ClassVar[str] = ""
    strength: float = 0.0
    l1_ratio: float = 0.0

    def __post_init__(self) -> None:
        _check_strength(self.strength)
        _check_l1_ratio(self.l1_ratio)

    @property
    def strong_convexity(self) -> float:
        """Strong-convexity constant per training row: ``strength * (1 - l1_ratio)``."""
        return self.strength * (1.0 - self.l1_ratio)

    def weights(self, n: int, slopes: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Ridge and lasso weights (p,) for n training rows; ``slopes`` (p,) is False for the intercept."""
        slopes = np.asarray(slopes, dtype=float)
        ridge = np.full(len(slopes), n * self.strong_convexity)
        return ridge, n * self.strength * self.l1_ratio * slopes

    def value(self, theta: ArrayLike, n: int, slopes: ArrayLike) -> float:
        """Penalty of ``theta`` (p,)."""
        ridge, lasso = self.weights(n, slopes)
        return float(0.5 * ridge @ np.square(theta) + lasso @ np.abs(theta))

    def describe(self) -> str:
        """The penalty in words, for tables."""
        return f"{self.name}, {self.strength:g}"


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """No penalty: the minimiser of smallest norm where several tie.

    Examples
    --------
    >>> NoPenalty().strong_convexity
    0.0
    """

    name: ClassVar[str] = "none"

    def describe(self) -> str:
        return self.name


@dataclass(frozen=True)
class Ridge(Penalty):
    """``strength / 2 * |theta|^2`` per training row.

    Examples
    --------
    >>> Ridge(0.1).value([1.0, 2.0], n=10, slopes=[False, True])
    2.5
    """

    strength: float = 0.01
    name: ClassVar[str] = "ridge"


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """``strength * ((1 - l1_ratio)/2 |theta|^2 + l1_ratio |slopes|_1)`` per training row.

    Examples
    --------
    >>> ElasticNet(0.1, l1_ratio=0.5).strong_convexity
    0.05
    """

    strength: float = 0.01
    l1_ratio: float = 0.5
    name: ClassVar[str] = "elastic net"

    def describe(self) -> str:
        return f"{self.name}, {self.strength:g} (l1_ratio {self.l1_ratio:g})"


PENALTIES: dict[str, type[Penalty]] = {penalty.name: penalty for penalty in (NoPenalty, Ridge, ElasticNet)}


def as_penalty(penalty: object, l1_ratio: float = 0.0) -> Penalty:
    """The penalty object for a number (with ``l1_ratio``) or an object.

    Examples
    --------
    >>> as_penalty(0.1), as_penalty(0.1, l1_ratio=0.5), as_penalty(0)
    (Ridge(strength=0.1), ElasticNet(strength=0.1, l1_ratio=0.5), NoPenalty())
    """
    share = _check_l1_ratio(l1_ratio)
    if isinstance(penalty, Penalty):
        if share:
            raise InputError(
                f"l1_ratio={l1_ratio!r} goes with a numeric penalty; {penalty!r} carries its own: "
                "give one or the other"
            )
        return penalty
    strength = _check_strength(penalty)
    if strength == 0:
        return NoPenalty()
    return ElasticNet(strength, share) if share else Ridge(strength)


def _check_strength(value: object) -> float:
    if isinstance(value, str) and value in PENALTIES:
        raise InputTypeError(
            f"penalty={value!r} has no strength: give a number or stabconf.{PENALTIES[value].__name__}(...)"
        )
    if callable(value) or (isinstance(value, str) and any(word in value.lower() for word in _JOINT)):
        raise InputTypeError(
            f"penalty={value!r} is not one of single coefficients, which intervals need: use a number, "
            "stabconf.Ridge or stabconf.ElasticNet (l1_ratio=); or fit with the penalty elsewhere, as "
            "estimator= with method='split' or 'cv+'"
        )
    if not is_number(value):
        raise InputTypeError(
            f"penalty={value!r} is a {type(value).__name__}: give a number, 0 or larger, such as 0.1, or a "
            "penalty object"
        )
    if not 0 <= value < math.inf:
        raise InputError(f"penalty={value!r} is not allowed: give a finite number, 0 or larger")
    return float(value)


def _check_l1_ratio(value: object) -> float:
    fix = "give a number from 0 (ridge) to 1 (lasso)"
    return check_numbers([value], "l1_ratio", lambda share: 0 <= share <= 1, fix)[0][0]
