"""Conformity scores of a residual (theory, section 6; the paper's Algorithm 2).

A score has convex level sets: the residuals whose score is at most some level are an interval, which is
known in closed form or found by bisection. A new score is one class and one line in `SCORES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..checks import is_number
from ..errors import AssumptionError, InputError, InputTypeError

__all__ = ["SCORES", "AbsoluteScore", "ResidualScore", "UserScore", "as_score"]

_DOUBLINGS, _HALVINGS = 400, 200  # beyond the first an end counts as infinite


class ResidualScore:
    """Base class: a function of the residual with convex level sets, smallest at ``centre``.

    Attributes
    ----------
    name : str
    lipschitz : float
        How fast it changes with the residual, at most; ``inf`` where there is no bound.
    centre : float
        A residual whose score is smallest.
    same_sets : bool
        Whether it ranks residuals as their sizes do, so that its sets are those of the absolute score.
    """

    name: ClassVar[str] = ""
    lipschitz: ClassVar[float] = math.inf
    centre: ClassVar[float] = 0.0
    same_sets: ClassVar[bool] = False

    def value(self, r):
        """Scores of residuals."""
        raise NotImplementedError

    def interval(self, level):
        """Ends of the residuals whose score is at most ``level`` (arrays); NaN where there are none."""
        level = np.asarray(level, dtype=float)
        return self._end(level, -1.0), self._end(level, 1.0)

    def upper(self, r, tau):
        """Upper bounds on the scores of residuals that may move by ``tau``: level sets are intervals, so
        one of the ends is the worst. A Lipschitz constant is not needed, but a wrong one is found out."""
        out = np.maximum(self.value(r - tau), self.value(r + tau))
        with np.errstate(invalid="ignore"):
            excess = out - self.value(r) > self.lipschitz * tau * (1.0 + 1e-9) + 1e-12
        if np.any(excess & np.isfinite(tau)):
            raise InputError(
                f"score {self.name!r} changes faster than its lipschitz={self.lipschitz:g} says: give the "
                "right constant, or inf if it is not known"
            )
        return out

    def in_units(self, scale):
        """The score for residuals in units of the response, where the fit has this scale."""
        return self

    def _end(self, level, direction):
        """One end of a level set, by doubling and bisection; from outside."""
        inside = np.full(level.shape, self.centre)
        far, open_end = np.ones(level.shape), np.ones(level.shape, dtype=bool)
        for _ in range(_DOUBLINGS):
            with np.errstate(over="ignore"):
                open_end = self.value(self.centre + direction * far) <= level
            if not open_end.any():
                break
            far = np.where(open_end, 2.0 * far, far)
        outside = self.centre + direction * far
        for _ in range(_HALVINGS):
            middle = 0.5 * (inside + outside)
            if np.all((middle == inside) | (middle == outside)):
                break
            low = self.value(middle) <= level
            inside, outside = np.where(low, middle, inside), np.where(low, outside, middle)
        end = np.where(open_end | np.isposinf(level), direction * np.inf, outside)
        return np.where(self.value(np.full(level.shape, self.centre)) <= level, end, np.nan)


@dataclass(frozen=True)
class AbsoluteScore(ResidualScore):
    """The size of the residual."""

    name: ClassVar[str] = "absolute"
    lipschitz: ClassVar[float] = 1.0
    same_sets: ClassVar[bool] = True

    def value(self, r):
        return np.abs(r)

    def interval(self, level):
        end = np.where(np.asarray(level) >= 0, level, np.nan)
        return -end, end


@dataclass(frozen=True)
class SquaredScore(ResidualScore):
    """The square of the residual: it ranks as the absolute score does."""

    name: ClassVar[str] = "squared"
    same_sets: ClassVar[bool] = True

    def value(self, r):
        return np.square(r)

    def interval(self, level):
        end = np.sqrt(np.where(np.asarray(level) >= 0, level, np.nan))
        return -end, end


@dataclass(frozen=True)
class DualScore(ResidualScore):
    """The size of the dual variable, ``|l'(r)|``, of a smooth loss."""

    loss: object
    scale: float = 1.0
    name: ClassVar[str] = "dual"

    def __post_init__(self):
        if self.loss.piecewise_linear:
            raise AssumptionError(
                f"score='dual' needs a smooth loss; the dual variables of {self.loss.describe()} hardly "
                "depend on the residuals: use score='absolute', or a loss such as 'huber'"
            )

    @property
    def lipschitz(self):
        return self.loss.smoothness / self.scale

    @property
    def same_sets(self):
        """Where l' is symmetric and never flat it ranks as the absolute score does."""
        return self.loss.symmetric and (self.loss.softness is None or math.isinf(self.loss.lipschitz))

    def value(self, r):
        return np.abs(self.loss.derivative(np.asarray(r, dtype=float) / self.scale))

    def in_units(self, scale):
        return DualScore(self.loss, scale)


@dataclass(frozen=True)
class UserScore(ResidualScore):
    """A score of one's own: a function of the residual, in units of the response.

    Parameters
    ----------
    function : callable
        Of an array of residuals; its level sets must be intervals around ``centre``.
    lipschitz : float
        How fast it changes with the residual, at most; checked where it is used.
    centre : float
        A residual whose score is smallest.
    name : str

    Examples
    --------
    >>> steep_below = UserScore(lambda r: np.where(r < 0, -2.0 * r, r), lipschitz=2.0)
    >>> [round(float(end), 6) for end in steep_below.interval(1.0)]
    [-0.5, 1.0]
    """

    function: Callable
    lipschitz: float = math.inf
    centre: float = 0.0
    name: str = field(default="user")
    same_sets: ClassVar[bool] = False

    def __post_init__(self):
        if not callable(self.function):
            raise InputTypeError(
                f"function={self.function!r} is not callable: give a function of residuals"
            )
        if not (is_number(self.lipschitz) and self.lipschitz > 0):
            raise InputError(
                f"lipschitz={self.lipschitz!r} is not allowed: give a positive number, or inf if unknown"
            )

    def value(self, r):
        return np.asarray(self.function(np.asarray(r, dtype=float)), dtype=float)


SCORES = {
    "absolute": lambda loss: AbsoluteScore(),
    "squared": lambda loss: SquaredScore(),
    "dual": DualScore,
}


def as_score(score, loss):
    """The `ResidualScore` for a name or an object; ``loss`` is None for an estimator.

    Examples
    --------
    >>> as_score("absolute", None)
    AbsoluteScore()
    """
    if isinstance(score, ResidualScore):
        return score
    if not isinstance(score, str):
        raise InputTypeError(
            f"score={score!r} is a {type(score).__name__}: give a name ({', '.join(SCORES)}) or a "
            "stabconf.UserScore"
        )
    if score not in SCORES:
        raise InputError(f"score={score!r} is unknown: give one of {', '.join(SCORES)}, or a UserScore")
    if score == "dual" and loss is None:
        raise AssumptionError("score='dual' needs a loss that is known: an estimator's is not")
    return SCORES[score](loss)
