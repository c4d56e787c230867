"""What every loss offers, and checks that their parameters share (theory, section 2)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import is_number
from ..errors import InputError

__all__ = ["Loss"]


@dataclass(frozen=True)
class Loss:
    """Base class: what every loss declares.

    A method asks for what it needs by name and refuses a loss that does not declare it; a test holds every
    registered loss to its declarations.

    Attributes
    ----------
    slopes : tuple of float
        ``(down, up)``: the derivative ranges over ``[-down, up]``; ``inf`` where it is unbounded. The
        larger of them is rho.
    smoothness : float
        Lipschitz constant nu of the derivative; ``inf`` where there is none.
    bends_once : bool
        True where the derivative is convex or concave on each side of 0, so that its chords and tangents
        bound it. False unless a loss says so.
    symmetric : bool
        True where residuals r and -r have the same loss.
    level : float
        The order-statistic level that centres the response (0.5 but for the quantile loss).
    needs_prox : bool
        True where slope or curvature is unbounded, so that Newton steps need the envelope.
    piecewise_linear : bool
        True for losses without curvature (LAD and quantile loss).
    softness : float or None
        0 where the slope is a step from ``-down`` to ``up``, 1 where it is the residual itself between
        these bounds; None for other losses.
    concave_slope : bool
        True where an unbounded slope grows no faster than the residual (concave on each side), so
        that a stable set can be finite.
    """

    name: ClassVar[str] = ""
    piecewise_linear: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True
    level: ClassVar[float] = 0.5
    needs_prox: ClassVar[bool] = False
    softness: ClassVar[float | None] = None
    concave_slope: ClassVar[bool] = False
    bends_once: ClassVar[bool] = False

    @property
    def slopes(self):
        return (math.inf, math.inf)

    @property
    def lipschitz(self):
        """Lipschitz constant rho of the loss; ``inf`` where there is none."""
        return max(self.slopes)

    @property
    def smoothness(self):
        return math.inf

    @property
    def has_curvature(self):
        """True where a curvature bound can do better than the penalty alone."""
        return not self.piecewise_linear

    def value(self, r):
        """Loss of residuals ``r``."""
        raise NotImplementedError

    def derivative(self, r):
        """Derivative at ``r``; at a kink, one element of the subdifferential."""
        raise NotImplementedError

    def subgradient(self, r):
        """Ends ``(low, high)`` of the subdifferential at ``r``."""
        slope = self.derivative(r)
        return slope, slope

    def inverse_derivative(self, u):
        """A residual at which ``u`` is a slope of the loss."""
        raise NotImplementedError

    def curvature(self, r):
        """Second derivative at ``r``."""
        return self.min_curvature(r, r)

    def min_curvature(self, low, high):
        """Smallest second derivative over each interval ``[low, high]``."""
        raise NotImplementedError

    def max_curvature(self, low, high):
        """Largest second derivative over each interval ``[low, high]``, its inside included; ``inf`` where
        there is none."""
        raise NotImplementedError

    def prox_slope(self, a, eps):
        """Slope of the Moreau envelope: ``u`` with ``u = l'(p)`` and ``p + eps u = a``."""
        raise NotImplementedError

    def prox_curvature(self, u, eps):
        """Curvature of the Moreau envelope, ``du/da``, where its slope is ``u``."""
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 / self.curvature(self.inverse_derivative(u)) + eps)

    def fenchel_gap(self, r, u):
        """Upper bound on ``l(r) + l*(u) - r u``, without cancellation; 0 where ``u = l'(r)``."""
        excess = self.derivative(r) - u
        with np.errstate(invalid="ignore"):
            return np.where(excess == 0, 0.0, excess * (r - self.inverse_derivative(u)))

    def in_unit(self, unit):
        """The loss of residuals whose spread is ``unit``: parameters count in that unit (theory 2)."""
        return self

    def rescaled(self, unit):
        """A loss and a factor with ``l(unit * r) == factor * loss(r)``; None where there are none."""
        return None

    def simplest(self):
        """A loss that this one is a multiple of, and the factor; itself where there is no simpler one."""
        return self, 1.0

    def describe(self):
        """The loss as a user would write it."""
        return repr(self).replace(type(self).__name__, self.name).removesuffix("()")


def require(ok, name, value, fix):
    """Raise an `InputError` naming the parameter unless ``ok``."""
    if not ok:
        raise InputError(f"{name}={value!r} is not allowed: {fix}")


def largest_size(low, high):
    """Largest \\|r\\| over each interval."""
    return np.maximum(np.abs(low), np.abs(high))


def smallest_size(low, high):
    """Smallest \\|r\\| over each interval."""
    return np.maximum(np.maximum(low, np.negative(high)), 0.0)


def require_positive(name, value):
    ok = is_number(value) and math.isfinite(value) and value > 0
    require(ok, name, value, "give a positive finite number")
