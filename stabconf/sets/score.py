"""The conformity score: what of a residual is ranked, on which side, in units of which scale.

One type serves every method (theory, sections 6 and 7). A score is a function of the residual whose level
sets are intervals: `value` and `interval`, which is its inverse. One-sided sets rank the residual itself.
Residuals may be divided by a scale, one positive number per row. What `side` means is said here alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..errors import AssumptionError, InputError, InputTypeError
from ..losses import Loss
from ..rank import EVERY, Some

Side = Literal["two-sided", "upper", "lower"]
Floats = np.ndarray | float
Ends = tuple[np.ndarray, np.ndarray]  # lower and upper, of intervals
Lines = list[tuple[np.ndarray, np.ndarray]]

SIDES = {"two-sided": 0, "upper": 1, "lower": -1}
DIRECTIONS = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}  # of the ends that are looked for
_DOUBLINGS = 400  # beyond so many an end counts as infinite
_HALVINGS = 200
_TINY = 1e-3  # of a typical residual: smaller ones count as this where a scale is learned


@dataclass(frozen=True)
class Score:
    """The size of a residual; for one-sided sets the residual itself, or its negative.

    A subclass ranks another function of the residual. Methods give residuals in units of the fit; ``unit``
    is one of those and ``location`` their zero in units of the response, which `value` is a function of.
    """

    sign: int = field(default=0, kw_only=True)  # 0 ranks `value`, 1 residuals, -1 their negatives
    scale: np.ndarray | None = field(default=None, kw_only=True)  # of the training rows (n,); None for 1
    unit: float = field(default=1.0, kw_only=True)
    location: float = field(default=0.0, kw_only=True)
    responses: np.ndarray | None = field(default=None, kw_only=True, repr=False)  # of training rows (n,)

    # What a subclass declares: its name, a residual whose score is smallest, how fast it changes at
    # most, and whether it ranks residuals as their sizes do, so that its sets are those of this class.
    name = "absolute"
    centre = 0.0
    lipschitz = 1.0
    ranks_sizes = True

    @classmethod
    def of(cls, side: Side, scale: np.ndarray | None = None) -> "Score":
        """The score of a side, with the scales of the training rows."""
        return cls(sign=SIDES[side], scale=scale)

    def value(self, r: np.ndarray) -> np.ndarray:
        """Scores of residuals."""
        return np.abs(r)

    def interval(self, level: np.ndarray) -> Ends:
        """Ends of the residuals whose score is at most ``level``; NaN where there are none."""
        end = np.where(np.asarray(level) >= 0, level, np.nan)
        return -end, end

    # Training rows ----------------------------------------------------------------------------------

    def _signed(self, r: np.ndarray) -> np.ndarray:
        return self.sign * r if self.sign else self.value(r)

    def norms(self, norms: np.ndarray, rows: Some = EVERY) -> np.ndarray:
        """How fast scores change where residuals change as fast as ``norms``."""
        return norms if self.scale is None else norms / self.scale[rows]

    def values(self, r: np.ndarray, rows: Some = EVERY) -> np.ndarray:
        """Scores of residuals (..., n) of the training rows, or (..., c) of some of them."""
        return self._signed(self.norms(r, rows))

    def range(self, low: np.ndarray, high: np.ndarray) -> Ends:
        """Smallest and largest scores of training rows whose residuals lie between two bounds (..., n)."""
        ends = self.values(low), self.values(high)
        least = np.minimum(*ends)
        if not self.sign:
            first, last = (self.unit * self.norms(end) for end in (low, high))
            around = (first <= self.centre) & (last >= self.centre)
            least = np.where(around, self.value(np.array(self.centre)), least)
        return least, np.maximum(*ends)

    def lines(self, r: np.ndarray, rate: np.ndarray, rows: Some = EVERY) -> Lines:
        """The size as the largest of lines, where residuals ``r`` (c,) change at ``rate`` (c,)."""
        return [(self.norms(way * r, rows), self.norms(way * rate, rows)) for way in self._ways]

    @property
    def _ways(self) -> tuple[int, ...]:
        return (self.sign,) if self.sign else (1, -1)

    # The new row, whose scale is ``own``, response ``w`` and prediction ``eta`` --------------------------

    def own_values(self, e: np.ndarray, own: Floats = 1.0, w: Floats = 0.0) -> np.ndarray:
        """Scores of the new row's residuals."""
        return self._signed(e / own)

    def tied(self, e: np.ndarray, own: Floats, tie: np.ndarray, w: Floats) -> np.ndarray:
        """Scores of the new row's residuals, less what counts as a tie."""
        return self.own_values(e, own, w) - tie

    def own_lines(self, e: float, rate: float, own: float = 1.0) -> list[tuple[float, float]]:
        """`lines` of the new row."""
        return [(way * e / own, way * rate / own) for way in self._ways]

    def own_interval(self, level: np.ndarray, own: Floats, eta: np.ndarray, tau: Floats = 0.0) -> Ends:
        """Ends of the new row's residuals whose score may be at most ``level``, if its prediction may be
        off by ``tau``; or, where that is negative, must be."""
        if self.sign:
            end = self.sign * (level * own + tau)
            far = np.full(np.shape(end), self.sign * np.inf)
            return (-far, end) if self.sign > 0 else (end, -far)
        low, high = self.interval(level)
        return low * own / self.unit - tau, high * own / self.unit + tau

    def own_ends(self, level: np.ndarray, own: Floats, eta: np.ndarray, tau: Floats = 0.0) -> Ends:
        """Ends of the new row's responses, likewise."""
        low, high = self.own_interval(level, own, eta, tau)
        return eta + low, eta + high

    def own_centre(self, own: float, eta: float) -> float:
        """A residual of the new row whose score is smallest."""
        return self.centre * own / self.unit


@dataclass(frozen=True)
class FunctionScore(Score):
    """A function of the residual with convex level sets, whose ends are found by bisection."""

    lipschitz = math.inf
    ranks_sizes = False

    def _signed(self, r: np.ndarray) -> np.ndarray:
        return self.value(self.unit * r)

    def interval(self, level: np.ndarray) -> Ends:
        level = np.asarray(level, dtype=float)
        return level_ends(self.value, np.full(level.shape, self.centre), level)

    def range(self, low: np.ndarray, high: np.ndarray) -> Ends:
        """As for `Score`. A wrong Lipschitz constant would be found out here."""
        least, most = super().range(low, high)
        with np.errstate(invalid="ignore"):
            self._check_rise(most - self.values(0.5 * (low + high)), low, high)
        return least, most

    def _check_rise(self, rise: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Refuse scores that rise faster, from the middle of two residuals to an end, than they may."""
        most = 0.5 * self.lipschitz * self.unit * self.norms(high - low) * (1.0 + 1e-9) + 1e-12
        if np.any(np.isfinite(most) & (rise > most)):
            raise InputError(
                f"score {self.name!r} changes faster than its lipschitz={self.lipschitz:g} says: give the "
                "right constant, or inf if it is not known"
            )

    def tied(self, e: np.ndarray, own: Floats, tie: np.ndarray, w: Floats) -> np.ndarray:
        """The smallest score of residuals that are tied with the new row's."""
        return np.minimum.reduce([self.own_values(e + step, own, w) for step in (-tie, 0.0, tie)])


def level_ends(value: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, level: np.ndarray) -> Ends:
    """Ends of the intervals around ``centre`` where ``value`` is at most ``level``: doubling, then
    bisection down to the last digit, from outside. NaN where the centre itself is above the level."""
    start = np.array(centre, dtype=float)
    ends = []
    with np.errstate(all="ignore"):
        some = value(start) <= level
        for direction in (-1, 1):
            inside, far = start, np.ones(start.shape)
            for _ in range(_DOUBLINGS):
                is_open = value(start + direction * far) <= level
                if not is_open.any():
                    break
                far = np.where(is_open, 2.0 * far, far)
            outside = start + direction * far
            for _ in range(_HALVINGS):
                middle = 0.5 * (inside + outside)
                if np.all((middle == inside) | (middle == outside)):
                    break
                low = value(middle) <= level
                inside, outside = np.where(low, middle, inside), np.where(low, outside, middle)
            end = np.where(is_open | np.isposinf(level), direction * np.inf, outside)
            ends.append(np.where(some, end, np.nan))
    return ends[0], ends[1]


@dataclass(frozen=True)
class DualScore(FunctionScore):
    """The size of the dual variable, ``|l'(r)|``, of a smooth loss."""

    loss: Loss
    name = "dual"

    def __post_init__(self) -> None:
        if self.loss.kind == "step":
            raise AssumptionError(
                f"score='dual' needs a smooth loss; the dual variables of {self.loss.describe()} hardly "
                "depend on the residuals: use score='absolute', or a loss such as 'huber'"
            )

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.loss.smoothness / self.unit

    @property
    def ranks_sizes(self) -> bool:  # type: ignore[override]
        """Where l' is symmetric it grows with the size, and ties (Huber's slope is flat beyond the
        threshold) are broken by it: else the set is the whole line at the usual levels."""
        return self.loss.symmetric

    def value(self, r: np.ndarray) -> np.ndarray:
        return np.abs(self.loss.derivative(np.asarray(r, dtype=float) / self.unit))


SCORES: dict[str, Callable[[Any], Score]] = {  # of the loss, which an estimator lacks
    "absolute": lambda loss: Score(),
    "squared": lambda loss: Score(),  # squares rank as sizes do
    "dual": DualScore,
}


def as_score(
    score: str | Score | None,
    loss: Loss | None,
    side: Side = "two-sided",
    scale: np.ndarray | None = None,
    fits: Any = None,
) -> Score:
    """The `Score` for a name or an object, a side, and scales of the training rows. ``loss`` is None for an
    estimator. ``fits`` have the units of the fit and the responses."""
    if not isinstance(score, (str, Score, type(None))):
        raise InputTypeError(
            f"score={score!r} is a {type(score).__name__}: give a name ({', '.join(SCORES)}), a "
            "stabconf.UserScore or a stabconf.PairScore"
        )
    if isinstance(score, str) and score not in SCORES:
        raise InputError(f"score={score!r} is unknown: give one of {', '.join(SCORES)}, or a UserScore")
    if score == "dual" and loss is None:
        raise AssumptionError("score='dual' needs a loss that is known: an estimator's is not")
    found = SCORES[score or "absolute"](loss) if score is None or isinstance(score, str) else score
    if side != "two-sided" and score not in (None, "absolute"):
        raise InputError(f"score={score!r} needs side='two-sided': one-sided sets rank signed residuals")
    if found.ranks_sizes:
        return Score.of(side, scale)
    if fits is None:
        return found
    unit, location = getattr(fits, "scale", 1.0), getattr(fits, "centre", 0.0)
    return replace(found, scale=scale, unit=unit, location=location, responses=getattr(fits, "y", None))


@dataclass(frozen=True)
class FixedScale:
    """A scale that is known beforehand: positive numbers for training rows (n,) and new rows (m,)."""

    trained: np.ndarray
    new: np.ndarray

    def take(self, rows: np.ndarray) -> "FixedScale":
        """The same for some of the new rows."""
        return replace(self, new=self.new[rows])

    def scales(self, which: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scales of all training rows and of the new ones, from residuals ``r`` of the rows ``which``."""
        return self.trained, self.new


@dataclass(frozen=True)
class LearnedScale(FixedScale):
    """Columns that a scale is learned from, of the training rows (n, q) and the new rows (m, q). It is the
    exponential of a least-squares regression of the log sizes of residuals on these columns."""

    def scales(self, which: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = np.abs(r)
        floor = _TINY * float(np.median(size)) or 1.0
        target = np.log(np.maximum(size, floor))
        slopes = np.linalg.lstsq(self.trained[which], target, rcond=None)[0]
        bounds = np.min(target), np.max(target)  # no row is scaled beyond what was seen
        trained, new = (np.exp(np.clip(columns @ slopes, *bounds)) for columns in (self.trained, self.new))
        return trained, new
