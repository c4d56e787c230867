"""Warnings about the intervals that a user got, each with what to do about it.

`conf_int_conformal` calls `warn_about` once, which says the gravest thing alone.
"""

import numpy as np
import pandas as pd

from ..data.groups import Ranking
from ..errors import SampleSizeWarning, StabilityWarning, warn_user
from ..losses import Loss
from ..sets import Intervals
from .spec import EstimatorSpec, ModelSpec

__all__ = ["warn_about", "warn_of_thresholds"]

_NAMED = 5  # groups that a warning names
_LARGE = 0.5  # share of the width owed to stability that is worth a warning


def warn_about(made: list[Intervals], model: ModelSpec | EstimatorSpec, ranking: Ranking | None) -> None:
    """Warn, once and of the gravest thing alone, about a call's intervals."""
    short = [intervals for intervals in made if np.any(intervals.too_few)]
    if short:
        warn_user(_too_few(min(short, key=lambda each: each.alpha), ranking), SampleSizeWarning)
        return
    share = max(intervals.stability_share for intervals in made)
    if not isinstance(model, ModelSpec):  # nothing more is known of an estimator
        if share > _LARGE:
            fix = "use method='root' or 'split', or a smaller tau if you know one"
            warn_user(f"tau makes up {share:.0%} of the mean width: {fix}", StabilityWarning)
        return
    n = int(np.max(made[0].n, initial=0))
    where = f"loss {model.loss.describe()}, penalty {model.penalty.describe()} and n = {n}"
    open_rows = max(intervals.open_rows for intervals in made)
    loosest = max(made, key=lambda each: np.count_nonzero(each.loose))
    if open_rows:
        text = f"{open_rows} intervals are infinite, for {_why_open(made[0], model.loss, where)}"
        warn_user(text, StabilityWarning)
    elif np.any(loosest.loose):
        warn_user(
            f"{np.count_nonzero(loosest.loose)} intervals may be wider than the exact ones by up to "
            f"{float(np.max(np.asarray(loosest.tol)[loosest.loose])):.3g} (attrs['loose'] has them), for "
            "their search used up its budget of fits: raise budget= (50 by default) or penalty, or use "
            "method='stable'",
            StabilityWarning,
        )
    elif share > _LARGE:
        fix = "use method='exact', raise penalty or add rows"
        warn_user(f"stability makes up {share:.0%} of the mean width with {where}: {fix}", StabilityWarning)


def warn_of_thresholds(made: list[Intervals], formula: str, labels: pd.Index) -> bool:
    """Warn of rows whose score nothing bounds along a formula; whether there are any."""
    free = np.zeros(len(labels), dtype=bool)
    for intervals in made:
        free |= intervals.is_open & ~intervals.too_few
    if not free.any():
        return False
    named = ", ".join(map(str, labels[free][:_NAMED]))
    more = f" and {int(free.sum()) - _NAMED} more" if free.sum() > _NAMED else ""
    warn_user(
        f"intervals of rows {named}{more} are infinite, for too few training rows are like them along "
        f"conditional={formula!r}: use fewer columns or levels, a larger alpha, or more rows",
        SampleSizeWarning,
    )
    return True


def _too_few(intervals: Intervals, ranking: Ranking | None) -> str:
    """Which rows are too few for the level, and what to do about it."""
    alpha = intervals.alpha
    which = intervals.too_few
    what = f"calibration {intervals.unit}" if intervals.method == "split" else intervals.unit
    if ranking is not None and ranking.weights is not None:
        return (
            f"{np.count_nonzero(which)} intervals are infinite, for the new rows weigh more than {alpha:g} "
            "of themselves and the training rows together: use a larger alpha, more training rows like "
            "them, or weights that vary less"
        )
    needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    wide = "infinite" if np.any(intervals.is_open) else "the whole range of the responses"
    if ranking is not None and ranking.groups is not None:
        codes = ranking.groups.new[ranking.asked]
        n = np.broadcast_to(intervals.n, len(which))
        found = zip(codes[which], n[which], strict=True)
        sizes = {ranking.groups.labels[code]: int(size) for code, size in found}
        named = ", ".join(f"{label!r} ({n})" for label, n in list(sizes.items())[:_NAMED])
        more = f" and {len(sizes) - _NAMED} more" if len(sizes) > _NAMED else ""
        return (
            f"groups {named}{more} have too few {what} for alpha={alpha:g}, so their intervals are "
            f"{wide}: use groups of at least {needed} {what}, or a larger alpha"
        )
    return (
        f"{intervals.n} {what} are too few for alpha={alpha:g}, so the intervals are {wide}: use at "
        f"least {needed} {what}, or alpha of at least {1.0 / (intervals.n + 1):.3g}"
    )


def _why_open(intervals: Intervals, loss: Loss, where: str) -> str:
    """Why a set has no finite end, and what to do about it."""
    if intervals.method == "grid":
        return "the sets reach the end of the grid: use method='exact'"
    if intervals.bound == "dual":
        return (
            "the duality gap rules out responses around z_hat alone: give several on both sides of the "
            "prediction with method='batch', or use another bound"
        )
    if np.isfinite(loss.lipschitz):
        return (
            f"with {where} the fit follows a far response, or the score is flat for large residuals: raise "
            "penalty, add rows like these, or use score='absolute'"
        )
    if intervals.bound == "paper":
        return (
            "the published constant says nothing beyond the range of the training responses: use "
            "bound='curvature'"
        )
    fix = "raise penalty, add rows, or use a robust loss such as 'huber'"
    if not loss.concave_slope:
        bounded = "lower" if np.isinf(loss.slopes[1]) else "upper"
        fix = f"use a loss whose slope is bounded, such as 'huber', or side={bounded!r}"
    return f"with {where} a far response can pull the fit along: {fix}"
