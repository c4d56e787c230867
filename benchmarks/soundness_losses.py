"""Losses of `soundness.py`, written from the definitions of the theory (section 2) and nothing else.

A `Clipped` loss has the slope r / soft, cut off at -down and up: squared, LAD, quantile and Huber. A
`Smooth` loss has a slope that bends. Both work in long double, for the referee judges ends that depend on
differences of nearly equal numbers.
"""

from dataclasses import dataclass

import numpy as np

LONG = np.longdouble


@dataclass(frozen=True)
class Clipped:
    """A loss whose slope is ``r / soft`` between ``-down`` and ``up``; a jump where ``soft`` is 0."""

    soft: float
    down: float
    up: float


@dataclass(frozen=True)
class Smooth:
    """A loss whose slope bends: "pseudo_huber", "logcosh", "linex" or "power", and its parameter."""

    name: str
    parameter: float

    def value(self, r):
        """Loss of residuals."""
        a = LONG(self.parameter)
        if self.name == "pseudo_huber":
            return r * r / (1 + np.hypot(LONG(1), r / a))
        if self.name == "logcosh":
            size = np.abs(r) / a
            return a * (size + np.log1p(np.exp(-2 * size)) - np.log(LONG(2)))
        if self.name == "linex":
            with np.errstate(over="ignore"):
                return np.expm1(a * r) - a * r
        return np.abs(r) ** a

    def slope(self, r):
        """Derivative at residuals."""
        a = LONG(self.parameter)
        if self.name == "pseudo_huber":
            return r / np.hypot(LONG(1), r / a)
        if self.name == "logcosh":
            return np.tanh(r / a)
        if self.name == "linex":
            with np.errstate(over="ignore"):
                return a * np.expm1(a * r)
        return a * np.sign(r) * np.abs(r) ** (a - 1)

    def curvature(self, r):
        """Second derivative at residuals."""
        a = LONG(self.parameter)
        if self.name == "pseudo_huber":
            return np.hypot(LONG(1), r / a) ** -3
        if self.name == "logcosh":
            decay = np.exp(-2 * np.abs(r) / a)
            return 4 * decay / (a * (1 + decay) ** 2)
        if self.name == "linex":
            with np.errstate(over="ignore"):
                return a * a * np.exp(a * r)
        with np.errstate(divide="ignore"):
            return a * (a - 1) * np.abs(r) ** (a - 2)

    def by_slope(self, r):
        """Rows whose equation is solved for the slope: there the slope changes faster than the residual."""
        if self.name == "power":
            return np.ones(len(r), dtype=bool)
        if self.name == "linex":
            return self.parameter * r > 0
        return np.zeros(len(r), dtype=bool)

    def inverse(self, u):
        """The residual with slope ``u``, for rows that are solved for the slope."""
        a = LONG(self.parameter)
        if self.name == "linex":
            return np.log1p(u / a) / a
        return np.sign(u) * (np.abs(u) / a) ** (1 / (a - 1))

    def softness(self, u):
        """Derivative of `inverse`."""
        a = LONG(self.parameter)
        if self.name == "linex":
            return 1 / (a * (u + a))
        return (np.abs(u) / a) ** ((2 - a) / (a - 1)) / (a * (a - 1))


def make_loss(name, parameter=None, unit=1.0):
    """The loss of a name and its parameter, where the residuals' spread is ``unit``."""
    if name == "squared":
        return Clipped(1.0, np.inf, np.inf)
    if name == "lad":
        return Clipped(0.0, 1.0, 1.0)
    if name == "quantile":
        return Clipped(0.0, 1.0 - parameter, parameter)
    if name == "huber":
        return Clipped(1.0, parameter * unit, parameter * unit)
    if name == "power" and parameter == 2.0:
        return Clipped(0.5, np.inf, np.inf)
    if name == "power":
        return Smooth(name, parameter)
    if name == "linex":
        return Smooth(name, parameter / unit)
    return Smooth(name, parameter * unit)
