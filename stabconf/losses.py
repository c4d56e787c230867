"""Convex losses of one residual: values, slopes, curvature and constants (theory, section 2).

A loss is pointwise and never sees the design. Stability needs its slope range (how strongly one row
can pull: rho) and its smallest curvature on an interval; the solver needs slope and curvature, or,
where those jump or explode, the slope of the Moreau envelope (`prox_slope`). A new loss is one class
and one line in `LOSSES`.
"""

import difflib
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from .errors import InputError, InputTypeError

__all__ = [
    "Loss",
    "Squared",
    "LAD",
    "Quantile",
    "Huber",
    "PseudoHuber",
    "LogCosh",
    "Linex",
    "Power",
    "LOSSES",
    "as_loss",
]


def _require(ok, name, value, fix):
    """Raise an `InputError` naming the parameter unless ``ok``."""
    if not ok:
        raise InputError(f"{name}={value!r} is not allowed: {fix}")


@dataclass(frozen=True)
class Loss:
    """Base class: what every loss offers.

    Attributes
    ----------
    slopes : tuple of float
        ``(down, up)``: the derivative ranges over ``[-down, up]``; ``inf`` where it is unbounded.
    smoothness : float
        Lipschitz constant nu of the derivative; ``inf`` where there is none.
    level : float
        The order-statistic level that centres the response (0.5 but for the quantile loss).
    needs_prox : bool
        True where slope or curvature is unbounded, so that Newton steps need the envelope.
    piecewise_linear : bool
        True for losses without curvature (LAD and quantile loss).
    concave_slope : bool
        True where an unbounded slope grows no faster than the residual (concave on each side), so
        that a stable set can be finite.
    """

    name: ClassVar[str] = ""
    piecewise_linear: ClassVar[bool] = False
    level: ClassVar[float] = 0.5
    needs_prox: ClassVar[bool] = False
    concave_slope: ClassVar[bool] = False

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

    def prox_slope(self, a, eps):
        """Slope and curvature of the Moreau envelope.

        Returns ``u`` with ``u = l'(p)``, ``p + eps u = a``, and ``du/da``.
        """
        raise NotImplementedError

    def fenchel_gap(self, r, u):
        """Upper bound on ``l(r) + l*(u) - r u``, without cancellation; 0 where ``u = l'(r)``."""
        excess = self.derivative(r) - u
        with np.errstate(invalid="ignore"):
            return np.where(excess == 0, 0.0, excess * (r - self.inverse_derivative(u)))

    def describe(self):
        """The loss as a user would write it."""
        return repr(self).replace(type(self).__name__, self.name)


@dataclass(frozen=True)
class Squared(Loss):
    """r^2 / 2. Not Lipschitz; nu = 1.

    Examples
    --------
    >>> Squared().value(3.0)
    4.5
    """

    name: ClassVar[str] = "squared"
    concave_slope: ClassVar[bool] = True

    @property
    def smoothness(self):
        return 1.0

    def value(self, r):
        return 0.5 * np.square(r)

    def derivative(self, r):
        return np.asarray(r, dtype=float)

    def inverse_derivative(self, u):
        return np.asarray(u, dtype=float)

    def min_curvature(self, low, high):
        return np.ones(np.shape(low))


class _PiecewiseLinear(Loss):
    """``up * r`` above 0 and ``-down * r`` below: shared by LAD and the quantile loss."""

    piecewise_linear: ClassVar[bool] = True
    needs_prox: ClassVar[bool] = True

    def value(self, r):
        down, up = self.slopes
        return np.maximum(up * np.asarray(r), -down * np.asarray(r))

    def derivative(self, r):
        down, up = self.slopes
        return np.where(np.asarray(r) > 0, up, np.where(np.asarray(r) < 0, -down, 0.0))

    def subgradient(self, r):
        down, up = self.slopes
        r = np.asarray(r)
        return np.where(r > 0, up, -down), np.where(r < 0, -down, up)

    def inverse_derivative(self, u):
        return np.zeros(np.shape(u))

    def min_curvature(self, low, high):
        return np.zeros(np.shape(low))

    def prox_slope(self, a, eps):
        down, up = self.slopes
        u = np.clip(np.asarray(a) / eps, -down, up)
        return u, np.where((u > -down) & (u < up), 1.0 / eps, 0.0)


@dataclass(frozen=True)
class LAD(_PiecewiseLinear):
    """\\|r\\|: least absolute deviations. Lipschitz with 1; not smooth.

    Examples
    --------
    >>> LAD().slopes
    (1.0, 1.0)
    """

    name: ClassVar[str] = "lad"

    @property
    def slopes(self):
        return (1.0, 1.0)


@dataclass(frozen=True)
class Quantile(_PiecewiseLinear):
    """max(q r, (q - 1) r): the pinball loss, whose minimiser is the conditional q-quantile.

    Lipschitz with max(q, 1 - q); not smooth.

    Parameters
    ----------
    q : float in (0, 1)

    Examples
    --------
    >>> Quantile(0.75).slopes
    (0.25, 0.75)
    """

    q: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self):
        _require(_is_real(self.q) and 0 < self.q < 1, "q", self.q, "give a level between 0 and 1")

    @property
    def level(self):
        return self.q

    @property
    def slopes(self):
        return (1.0 - self.q, self.q)


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 up to \\|r\\| = d, then d \\|r\\| - d^2 / 2. Lipschitz with d; nu = 1.

    Parameters
    ----------
    d : float, default 1.345
        Threshold, in units of the robust standard deviation of the response.

    Examples
    --------
    >>> Huber(1.0).value([0.5, 3.0])
    array([0.125, 2.5  ])
    """

    d: float = 1.345
    name: ClassVar[str] = "huber"

    def __post_init__(self):
        _require_positive("d", self.d)

    @property
    def slopes(self):
        return (self.d, self.d)

    @property
    def smoothness(self):
        return 1.0

    def value(self, r):
        size = np.abs(r)
        return np.where(size <= self.d, 0.5 * size**2, self.d * size - 0.5 * self.d**2)

    def derivative(self, r):
        return np.clip(r, -self.d, self.d)

    def inverse_derivative(self, u):
        return np.asarray(u, dtype=float)

    def min_curvature(self, low, high):
        return (_largest_size(low, high) <= self.d).astype(float)


@dataclass(frozen=True)
class PseudoHuber(Loss):
    """d^2 (sqrt(1 + (r/d)^2) - 1): a smooth Huber loss. Lipschitz with d; nu = 1.

    Examples
    --------
    >>> PseudoHuber(1.0).derivative(1.0).round(4)
    np.float64(0.7071)
    """

    d: float = 1.345
    name: ClassVar[str] = "pseudo_huber"

    def __post_init__(self):
        _require_positive("d", self.d)

    @property
    def slopes(self):
        return (self.d, self.d)

    @property
    def smoothness(self):
        return 1.0

    def value(self, r):
        # r^2 / (1 + sqrt(...)) is the same number without cancellation near 0.
        return np.square(r) / (1.0 + np.hypot(1.0, np.divide(r, self.d)))

    def derivative(self, r):
        return np.asarray(r) / np.hypot(1.0, np.divide(r, self.d))

    def inverse_derivative(self, u):
        with np.errstate(divide="ignore"):
            return np.asarray(u) / np.sqrt(np.maximum(1.0 - np.square(np.divide(u, self.d)), 0.0))

    def min_curvature(self, low, high):
        return np.hypot(1.0, _largest_size(low, high) / self.d) ** -3.0


@dataclass(frozen=True)
class LogCosh(Loss):
    """g log cosh(r / g). Lipschitz with 1; nu = 1 / g.

    Examples
    --------
    >>> LogCosh(1.0).derivative(0.5).round(4)
    np.float64(0.4621)
    """

    g: float = 1.0
    name: ClassVar[str] = "logcosh"

    def __post_init__(self):
        _require_positive("g", self.g)

    @property
    def slopes(self):
        return (1.0, 1.0)

    @property
    def smoothness(self):
        return 1.0 / self.g

    def value(self, r):
        size = np.abs(r) / self.g
        return self.g * (size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))

    def derivative(self, r):
        return np.tanh(np.divide(r, self.g))

    def inverse_derivative(self, u):
        with np.errstate(divide="ignore"):
            return self.g * np.arctanh(u)

    def min_curvature(self, low, high):
        # sech^2 written with decaying exponentials, so that far residuals give 0, not overflow.
        decay = np.exp(-2.0 * _largest_size(low, high) / self.g)
        return 4.0 * decay / (self.g * np.square(1.0 + decay))


@dataclass(frozen=True)
class Linex(Loss):
    """exp(g r) - g r - 1: linear below, exponential above. Slopes in (-g, inf); not smooth.

    Under-prediction is punished exponentially, so a far new response drags the whole fit after it and
    its conformal set has no finite upper end: use it for lower bounds.

    Examples
    --------
    >>> Linex(0.5).slopes
    (0.5, inf)
    """

    g: float = 0.5
    name: ClassVar[str] = "linex"
    needs_prox: ClassVar[bool] = True

    def __post_init__(self):
        _require_positive("g", self.g)

    @property
    def slopes(self):
        return (self.g, math.inf)

    def value(self, r):
        x = self.g * np.asarray(r, dtype=float)
        with np.errstate(over="ignore"):
            return np.expm1(x) - x

    def derivative(self, r):
        with np.errstate(over="ignore"):
            return self.g * np.expm1(self.g * np.asarray(r, dtype=float))

    def inverse_derivative(self, u):
        with np.errstate(divide="ignore"):
            return np.log1p(np.divide(u, self.g)) / self.g

    def min_curvature(self, low, high):
        with np.errstate(over="ignore"):
            return self.g**2 * np.exp(self.g * np.asarray(low, dtype=float))

    def prox_slope(self, a, eps):
        # p + eps u = a with u = g (e^{gp} - 1) is Wright's omega in c e^{gp}, c = g^2 eps.
        c = self.g**2 * eps
        omega = special.wrightomega(self.g * np.asarray(a) + c + math.log(c))
        return self.g * (omega / c - 1.0), omega / (eps * (1.0 + omega))


@dataclass(frozen=True)
class Power(Loss):
    """\\|r\\|^q with 1 < q <= 2. Not Lipschitz; smooth only for q = 2 (nu = 2).

    Examples
    --------
    >>> Power(1.5).value(4.0)
    8.0
    """

    q: float = 1.5
    name: ClassVar[str] = "power"
    concave_slope: ClassVar[bool] = True

    def __post_init__(self):
        _require(_is_real(self.q) and 1 < self.q <= 2, "q", self.q, "give an exponent in (1, 2]")

    @property
    def needs_prox(self):
        return self.q < 2

    @property
    def smoothness(self):
        return 2.0 if self.q == 2 else math.inf

    def value(self, r):
        return np.abs(r) ** self.q

    def derivative(self, r):
        return self.q * np.sign(r) * np.abs(r) ** (self.q - 1.0)

    def inverse_derivative(self, u):
        return np.sign(u) * (np.abs(u) / self.q) ** (1.0 / (self.q - 1.0))

    def min_curvature(self, low, high):
        with np.errstate(divide="ignore"):
            return self.q * (self.q - 1.0) * _largest_size(low, high) ** (self.q - 2.0)

    def prox_slope(self, a, eps):
        """Newton's method for log p in log(p + eps q p^(q-1)) = log a, convex and increasing."""
        q, size = self.q, np.abs(np.asarray(a, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):
            target, shift = np.log(size), math.log(eps * q)
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
            u = np.where(size > 0, u, 0.0)
            inverse_curvature = np.exp((2.0 - q) * log_p) / (q * (q - 1.0))
        du = 1.0 / (np.where(size > 0, inverse_curvature, 0.0) + eps)
        return np.sign(a) * u, du


LOSSES = {
    loss.name: loss
    for loss in (Squared, LAD, Quantile, Huber, PseudoHuber, LogCosh, Linex, Power)
}


def as_loss(loss):
    """The loss object for a name or an object.

    Examples
    --------
    >>> as_loss("huber")
    Huber(d=1.345)
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        return loss()
    if not isinstance(loss, str):
        raise InputTypeError(
            f"loss={loss!r} is a {type(loss).__name__}: give a name ({', '.join(LOSSES)}) or a loss "
            "object such as stabconf.Huber(1.345)"
        )
    if loss not in LOSSES:
        near = difflib.get_close_matches(loss.lower(), LOSSES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"loss={loss!r} is unknown: {hint}Known losses: {', '.join(LOSSES)}")
    return LOSSES[loss]()


def _largest_size(low, high):
    return np.maximum(np.abs(low), np.abs(high))


def _is_real(value):
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _require_positive(name, value):
    ok = _is_real(value) and math.isfinite(value) and value > 0
    _require(ok, name, value, "give a positive finite number")
