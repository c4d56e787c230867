"""Checks of what a user asks of the intervals, and warnings about what they got."""

import numpy as np

from ..checks import is_number
from ..data.frames import by_label
from ..errors import InputError, InputTypeError, SampleSizeWarning, StabilityWarning, warn_user
from ..sets import FixedScale, LearnedScale

__all__ = [
    "as_responses",
    "as_scale",
    "warn_about",
]

_NAMED = 5  # groups that a warning names


def as_responses(z_hat, exog, predictions, complete):
    """Responses for the complete new rows, (m,), or (m, b) where several are given.

    ``z_hat`` is a number, "prediction", a callable of ``exog``, or a list of these.
    """
    if isinstance(z_hat, (list, tuple)):
        if not z_hat:
            raise InputError("z_hat=[] is empty: give a response, 'prediction' or a callable, or several")
        each = [as_responses(one, exog, predictions, complete) for one in z_hat]
        return each[0] if len(each) == 1 else np.column_stack(each)
    if isinstance(z_hat, str) and z_hat == "prediction":
        return predictions[complete]
    if callable(z_hat):
        values = np.asarray(by_label(z_hat(exog), exog.index, "what z_hat returns"), dtype=float)
        if values.shape not in ((), predictions.shape):
            raise InputError(
                f"z_hat returned values of shape {values.shape}: it must give one for each of the "
                f"{len(predictions)} rows"
            )
        values = np.broadcast_to(values, predictions.shape)[complete]
    elif is_number(z_hat):
        values = np.full(np.count_nonzero(complete), float(z_hat))
    else:
        named = "z_hat" if np.ndim(z_hat) else f"z_hat={z_hat!r}"
        raise InputTypeError(
            f"{named} is a {type(z_hat).__name__}: give a number, 'prediction' or a callable"
        )
    if not np.all(np.isfinite(values)):
        raise InputError("z_hat has values that are not finite: give finite responses")
    return values


def as_scale(scale, design, exog, complete):
    """The scale of the rows, fixed numbers or columns that it is learned from, and which rows have one."""
    if scale is True:  # the columns of the model itself
        return LearnedScale(
            design.X, design.X if exog is None else design.new_rows(exog)[0][complete]
        ), complete
    if not (isinstance(scale, str) or callable(scale)):
        raise InputTypeError(
            f"scale={scale!r} is a {type(scale).__name__}: give a column, a formula such as '~ x1', True "
            "for the model's own columns, or a callable"
        )
    trained, new = design.beside(scale, exog, complete)
    if isinstance(scale, str) and scale.lstrip().startswith("~"):
        return LearnedScale(trained, new), complete
    if new.shape == (int(np.count_nonzero(complete)),):
        known = ~np.isnan(new)
        complete = complete.copy()
        complete[complete], new = known, new[known]
    for values, count in ((trained, len(design.y)), (new, int(np.count_nonzero(complete)))):
        if values.shape != (count,):
            raise InputError(f"scale={scale!r} has shape {values.shape}: it must have one value a row")
        if not (np.all(np.isfinite(values)) and np.all(values > 0)):
            bad = values[~(np.isfinite(values) & (values > 0))][0]
            raise InputError(f"scale={scale!r} has the value {bad:g}: scales must be positive and finite")
    return FixedScale(trained, new), complete


def warn_about(made, loss, penalty, ranking=None):
    """Warn, once and of the gravest thing alone, about a call's intervals.

    ``loss`` and ``penalty`` are None for an estimator that stabconf knows nothing of.
    """
    n = int(np.max(made[0].n, initial=0))
    short = [intervals for intervals in made if np.any(intervals.too_few)]
    open_rows = max(intervals.open_rows for intervals in made)
    share = max(intervals.stability_share for intervals in made)
    if short:
        warn_user(_too_few(min(short, key=lambda each: each.alpha), ranking), SampleSizeWarning)
    if short or loss is None:
        return
    where = f"loss {loss.describe()}, penalty {penalty.describe()} and n = {n}"
    if open_rows:
        warn_user(
            f"{open_rows} intervals are infinite, for {_why_open(made[0], loss, where)}", StabilityWarning
        )
    elif any(np.any(intervals.loose) for intervals in made):
        loosest = max(made, key=lambda each: np.count_nonzero(each.loose))
        warn_user(
            f"{np.count_nonzero(loosest.loose)} intervals may be wider than the exact ones by up to "
            f"{float(np.max(loosest.tol[loosest.loose])):.3g} (attrs['loose'] has them), for their search "
            "used up its budget of fits: raise budget= (50 by default) or penalty, or use method='stable'",
            StabilityWarning,
        )
    elif share > 0.5:
        fix = "use method='exact', raise penalty or add rows"
        text = f"stability makes up {share:.0%} of the mean width with {where}: {fix}"
        warn_user(text, StabilityWarning)


def _too_few(intervals, ranking):
    """Which rows are too few for the level, and what to do about it."""
    alpha, which = intervals.alpha, intervals.too_few
    what = "calibration rows" if intervals.method == "split" else "rows"
    if ranking is not None and ranking.weights is not None:
        return (
            f"{np.count_nonzero(which)} intervals are infinite, for the new rows weigh more than {alpha:g} "
            "of themselves and the training rows together: use a larger alpha, more training rows like "
            "them, or weights that vary less"
        )
    needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    if ranking is not None:
        codes, n = ranking.groups.new[ranking.asked], np.broadcast_to(intervals.n, len(which))
        found = zip(codes[which], n[which], strict=True)
        sizes = {ranking.groups.labels[code]: int(size) for code, size in found}
        named = ", ".join(f"{label!r} ({n})" for label, n in list(sizes.items())[:_NAMED])
        more = f" and {len(sizes) - _NAMED} more" if len(sizes) > _NAMED else ""
        return (
            f"groups {named}{more} have too few {what} for alpha={alpha:g}, so their intervals are "
            f"infinite: use groups of at least {needed} {what}, or a larger alpha"
        )
    return (
        f"{intervals.n} {what} are too few for alpha={alpha:g}, so the intervals are infinite: use at "
        f"least {needed} {what}, or alpha of at least {1.0 / (intervals.n + 1):.3g}"
    )


def _why_open(intervals, loss, where):
    """Why a set has no finite end, and what to do about it."""
    if intervals.method == "grid":
        return "the sets reach the end of the grid: use method='exact'"
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
