"""How residuals are scored: by a `ResidualScore`, divided by a scale of the row, on one side or both.

A scale is fixed (a positive number a row), or learned: the exponential of a regression of log sizes of
residuals on some columns, positive by construction. A learned one is made from the rows that a fit was
made from, so that the rows that calibrate are treated as new rows are.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import AssumptionError, InputError
from .residual_scores import AbsoluteScore, ResidualScore, as_score

__all__ = ["FixedScale", "LearnedScale", "Scoring", "as_scoring"]

_TINY = 1e-3  # of a typical residual: smaller ones count as this


@dataclass(frozen=True)
class _Scale:
    """What is known of the training rows and of the new rows."""

    trained: np.ndarray
    new: np.ndarray

    def take(self, rows):
        """The same for some of the new rows."""
        return replace(self, new=self.new[rows])


class FixedScale(_Scale):
    """Positive numbers for the training rows (n,) and the new rows (m,)."""

    def of(self, which, r):
        """Scales of all training rows and of the new rows, given residuals ``r`` of the rows ``which``."""
        return self.trained, self.new


class LearnedScale(_Scale):
    """Columns that the scale depends on, of the training rows (n, q) and the new rows (m, q)."""

    def of(self, which, r):
        """As in `FixedScale`."""
        size = np.abs(r)
        floor = _TINY * float(np.median(size)) or 1.0
        target = np.log(np.maximum(size, floor))
        slopes = np.linalg.lstsq(self.trained[which], target, rcond=None)[0]
        bounds = np.min(target), np.max(target)  # no row is scaled beyond what was seen
        return tuple(np.exp(np.clip(columns @ slopes, *bounds)) for columns in (self.trained, self.new))


@dataclass(frozen=True)
class Scoring:
    """A score, a scale and the side of the set.

    Attributes
    ----------
    score : ResidualScore
    scale : FixedScale, LearnedScale or None
    side : {"two-sided", "upper", "lower"}
    """

    score: ResidualScore
    scale: FixedScale | LearnedScale | None
    side: str

    @property
    def same_sets(self):
        """Whether the sets are those of the size of the (scaled) residual."""
        return self.score.same_sets

    @property
    def plain(self):
        """Whether the sets are those of the residual itself, not scaled."""
        return self.scale is None and self.same_sets

    def scales(self, which, r, n, m):
        """Scales of the training and the new rows; ones where there are none."""
        return (np.ones(n), np.ones(m)) if self.scale is None else self.scale.of(which, r)

    def in_units(self, scale):
        """The same where the fit has this scale."""
        return replace(self, score=self.score.in_units(scale))

    def upper(self, r, tau):
        """Upper bounds on the scores of scaled residuals that may move by ``tau``."""
        if self.side == "two-sided":
            return self.score.upper(r, tau)
        return (r if self.side == "upper" else -r) + tau

    def values(self, r, sigma):
        """Scores of residuals in units of the response."""
        r = r / sigma
        return self.score.value(r) if self.side == "two-sided" else (r if self.side == "upper" else -r)

    def interval(self, level, sigma):
        """Ends of the residuals whose score is at most ``level``."""
        open_end = np.full(np.shape(level), np.inf)
        if self.side == "upper":
            return -open_end, level * sigma
        if self.side == "lower":
            return -level * sigma, open_end
        low, high = self.score.interval(level)
        return low * sigma, high * sigma


def as_scoring(score, scale, side, loss, name, learned=True):
    """The `Scoring` that a method was asked for, or a refusal.

    ``learned`` is True for a method that fits to parts of the rows: it can do with a learned scale, but
    not with dual variables, which belong to a fit of all rows.
    """
    found = as_score("absolute" if score is None else score, loss)
    if learned and found.name == "dual" and not found.same_sets:
        raise AssumptionError(
            f"score='dual' belongs to a fit of all rows, which method={name!r} does not make: use "
            "method='stable', 'root' or 'grid', or score='absolute'"
        )
    if side != "two-sided" and found.name != "absolute":
        raise InputError(
            f"score={score!r} goes with side='two-sided': one-sided sets rank signed residuals"
        )
    if isinstance(scale, LearnedScale) and not learned:
        raise AssumptionError(
            f"method={name!r} takes a scale that is known beforehand; a formula is learned from the "
            "responses: give a column or a callable as scale, or use method='split', 'cv+' or "
            "'jackknife+', which learn it from rows that they do not rank; for widths that follow the data "
            "with all rows use stabconf.fit_quantiles"
        )
    return Scoring(AbsoluteScore() if found.same_sets else found, scale, side)
