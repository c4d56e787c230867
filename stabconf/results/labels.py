"""Labels on intervals, and warnings about them, each with what to do about it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.response_units import ResponseUnits
from ..errors import SampleSizeWarning, StabilityWarning, warn_user
from ..sets import Intervals

_ENDS = ("lower", "upper", "inner_lower", "inner_upper")
# Attributes of an interval frame that are those of its `Intervals`; and those that differ by level.
_KEPT = (
    *("method", "bound", "side", "alpha", "k", "n", "unit"),
    *("certified", "promise", "guarantee", "stability_share"),
)
PER_LEVEL = {"tol", "loose", "k", "stability_share", "pieces", "empty", "promise", "guarantee", "groups"}
_PER_RESPONSE = ("tol", "loose", "stability_share", "pieces", "empty")

_NAMED = 5  # groups that a warning names
_LARGE = 0.5  # share of the width owed to stability that is worth a warning


def interval_frame(
    intervals: Intervals,
    complete: np.ndarray,
    index: pd.Index,
    design: Design,
    units: ResponseUnits,
    more: dict[str, Any],
) -> pd.DataFrame:
    """Intervals of the complete rows on the index of all (m,), NaN elsewhere; ``more`` goes into attrs.
    What compares widths, such as the share of stability, is in units of the model's response."""
    made = intervals if units.unchanged else _back(intervals, units)
    names, labels = list(_ENDS if made.inner_lower is not None else _ENDS[:2]), index[complete]
    ends = np.full((len(index), len(names)), np.nan)
    ends[complete] = np.column_stack([getattr(made, name) for name in names])
    frame = pd.DataFrame(ends, index, names)
    if design.transformed and units.unchanged:
        frame.columns.name = design.response
    tol = np.broadcast_to(made.tol, len(labels))
    largest = float(np.max(made.tol, initial=0.0))
    frame.attrs = {
        "response": units.response,
        **{name: getattr(intervals, name) for name in _KEPT},
        "tilted_fits": intervals.tilted_fits,
        "tol": None if np.isnan(largest) else largest,
        "loose": {labels[i]: float(tol[i]) for i in np.flatnonzero(intervals.loose)},
        "pieces": {labels[i]: list(found) for i, found in made.pieces.items()},
        "empty": labels[np.isnan(intervals.lower)].tolist(),
        **more,
    }
    return frame


def box_frame(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames of several responses side by side, a column level for the response."""
    names = [frame.attrs["response"] for frame in frames]
    frame = pd.concat(frames, axis=1, keys=names, names=["response", None])
    frame.attrs = {**frames[0].attrs, "response": names}
    for name in _PER_RESPONSE:
        frame.attrs[name] = {each.attrs["response"]: each.attrs[name] for each in frames}
    return frame


def level_frame(frames: list[pd.DataFrame], alphas: list[float]) -> pd.DataFrame:
    """Frames of several alphas side by side, a column level per alpha."""
    attrs = dict(frames[0].attrs)
    for name in PER_LEVEL & set(attrs):
        attrs[name] = [frame.attrs[name] for frame in frames]
    below = [None] if frames[0].columns.nlevels == 1 else frames[0].columns.names
    frame = pd.concat(frames, axis=1, keys=alphas, names=["alpha", *below])
    frame.attrs = {**attrs, "alpha": alphas}
    return frame


def moved(
    intervals: Intervals, move: Callable[[np.ndarray, int | slice], np.ndarray], beside: Sequence[str] = ()
) -> Intervals:
    """The same intervals with ends, pieces and what is named ``beside`` put through a function of values
    and their rows."""
    values = {name: getattr(intervals, name) for name in (*_ENDS, *beside)}
    made: dict[str, Any] = {
        name: move(value, slice(None)) for name, value in values.items() if value is not None
    }
    found = {i: move(np.array(parts), i).tolist() for i, parts in intervals.pieces.items()}
    made["pieces"] = {i: tuple(map(tuple, parts)) for i, parts in found.items()}
    return replace(intervals, **made)


def _back(intervals: Intervals, units: ResponseUnits) -> Intervals:
    """The same intervals in units of the response: ends, pieces, and how far an end may be off."""
    made = moved(intervals, lambda values, rows: units.back(values))
    with np.errstate(invalid="ignore"):  # infinite ends are where they are
        above = made.upper - units.back(intervals.upper - intervals.tol)
        below = units.back(intervals.lower + intervals.tol) - made.lower
    tol = np.maximum(np.where(np.isinf(made.upper), 0.0, above), np.nan_to_num(below, nan=0.0))
    return replace(made, tol=np.where(np.isnan(intervals.tol), np.nan, tol))


def warn_about(made: list[Intervals], model: Any, ranking: list[dict[str, Any]]) -> None:
    """Warn, once and of the gravest thing alone, about a call's intervals; ``ranking`` is what
    `Ranking.attrs` says of each."""
    short = [(each, told) for each, told in zip(made, ranking, strict=True) if np.any(each.too_few)]
    if short:
        warn_user(_too_few(*min(short, key=lambda pair: pair[0].alpha)), SampleSizeWarning)
        return
    share = max(intervals.stability_share for intervals in made)
    if not hasattr(model, "loss"):  # nothing more is known of an estimator
        if share > _LARGE:
            fix = "use method='root' or 'split', or a smaller tau if you know one"
            warn_user(f"tau makes up {share:.0%} of the mean width: {fix}", StabilityWarning)
        return
    open_rows = max(intervals.open_rows for intervals in made)
    loosest = max(made, key=lambda each: np.count_nonzero(each.loose))
    if open_rows:
        why = _why_open(made[0], model)
        warn_user(f"{open_rows} intervals are infinite, for {why}", StabilityWarning)
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
        where = _where(made[0], model)
        warn_user(f"stability makes up {share:.0%} of the mean width with {where}: {fix}", StabilityWarning)


def _where(intervals: Intervals, model: Any) -> str:
    """The model and the number of rows, in words."""
    n = int(np.max(intervals.n, initial=0))
    return f"loss {model.loss.describe()}, penalty {model.penalty.describe()} and n = {n}"


def warn_of_thresholds(made: list[Intervals], formula: str, labels: pd.Index) -> bool:
    """Warn of rows whose score nothing bounds along a formula; whether there are any."""
    free = np.any([intervals.is_open & ~intervals.too_few for intervals in made], axis=0)
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


def _too_few(intervals: Intervals, ranking: dict[str, Any]) -> str:
    """Which rows are too few for the level, and what to do about it."""
    alpha = intervals.alpha
    what = f"calibration {intervals.unit}" if intervals.method == "split" else intervals.unit
    if "effective_n" in ranking:
        return (
            f"{np.count_nonzero(intervals.too_few)} intervals are infinite, for the new rows weigh more "
            f"than {alpha:g} of themselves and the training rows together: use a larger alpha, more "
            "training rows like them, or weights that vary less"
        )
    needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
    wide = "infinite" if np.any(intervals.is_open) else "the whole range of the responses"
    if "groups" in ranking:
        sizes = {label: each["n"] for label, each in ranking["groups"].items() if each["k"] > each["n"]}
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


def _why_open(intervals: Intervals, model: Any) -> str:
    """Why a set has no finite end, and what to do about it."""
    loss, where = model.loss, _where(intervals, model)
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
