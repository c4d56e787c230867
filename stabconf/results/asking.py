"""One question to the sets, from a user's frame to labelled numbers.

`BaseResults.conf_int_conformal` and ``conformity`` come here: rows that lack a value are set aside, groups
and weights become peers, options become arrays, and the answer gets the labels of the rows.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates, is_number
from ..data.design import Design
from ..data.frames import collected, in_kind
from ..data.groups import Ranking, as_ranking
from ..data.response_units import ResponseUnits, as_units
from ..errors import InputError, InputTypeError
from ..rank import Peers
from ..sets import Intervals, cut
from ..sets.intervals import Pieces
from .advice import warn_about, warn_of_thresholds
from .lazy import is_lazy, lazy_intervals
from .options import (
    Groups,
    New,
    Numbers,
    Options,
    PerRow,
    Side,
    Units,
    as_along,
    as_folds,
    as_responses,
    as_scale,
)
from .rows import Rows

if TYPE_CHECKING:
    from .base import BaseResults

__all__ = [
    "PER_LEVEL",
    "PValues",
    "ask_intervals",
    "ask_one_sided",
    "ask_own_p",
    "ask_p_values",
    "label_sets",
]

# p-values, and their bounds where there are any, of one row (p,) at candidates (g,), among its peers or
# along a design, or along None: (1 or more, g); where z_hat is given, it is told these responses too (b,).
PValues = Callable[..., np.ndarray]

# Attributes of an interval frame that are those of its `Intervals`; and those that differ by level.
_KEPT = ("method", "bound", "side", "alpha", "k", "n", "certified", "guarantee", "stability_share")
PER_LEVEL = {"tol", "loose", "k", "stability_share", "pieces", "empty", "guarantee", "groups"}
_PER_RESPONSE = ("tol", "loose", "stability_share", "pieces", "empty")

_NO_DIFFERENCE = {"units", "n_jobs", "progress"}  # options that leave the intervals as they are
_KEPT_CALLS = 4  # calls whose intervals are kept, so that tables, figures and reports make them once,
_KEPT_ROWS = 100_000  # of at most so many rows


def ask_intervals(
    results: "BaseResults", exog: New, alpha: Numbers, method: str, side: Side, options: Options
) -> pd.DataFrame:
    """The frame of `conf_int_conformal`, with the options that were given.

    ``centre=True`` adds a column for tables and figures: predictions of the fit that made the intervals.
    """
    centre = options.pop("centre", False)
    if is_lazy(exog):
        return lazy_intervals(results, exog, alpha, method, side, options)
    exog, to = collected(exog), options.pop("to", "pandas")
    known = _call_pattern(results, exog, alpha, method, side, options)
    if "unseen" in options:
        results = results._leaving_unseen(options.pop("unseen"))
    transductive, in_range = (_flag(name, options) for name in ("transductive", "in_range"))
    alphas, single = check_alpha(alpha)
    kept = results._kept
    results, rows, index = _transductive(results, exog) if transductive else (results, *results._rows(exog))
    design = results._design
    units = as_units(options.pop("units", None), design)
    groups, weights = options.pop("groups", None), options.pop("weights", None)
    ranking, complete = _ranked(results, exog, rows, groups, weights)
    formula = options.get("conditional")
    if formula is not None:
        options["conditional"], complete = as_along(formula, design, exog, complete)
    if "scale" in options:
        options["scale"], complete = as_scale(options["scale"], design, exog, complete)
    if "folds" in options:
        options["folds"] = as_folds(options["folds"], method, design)
    if "z_hat" in options:
        predictions = results._predictions(rows.X)
        options["z_hat"] = as_responses(options["z_hat"], design.frame_of(exog), predictions, complete)
    parts = None if ranking is None or not complete.any() else ranking.parts(complete)
    if in_range and (weights is not None or formula is not None):
        raise InputError(
            "in_range=True may lose any coverage with weights= and conditional=: drop one of them"
        )
    made = kept.get(known)
    if made is None:
        made = results._intervals(rows.take(complete), alphas, method, side, options, parts)
        if known is not None and len(rows) <= _KEPT_ROWS:
            kept[known] = made
            kept.pop(next(iter(kept)) if len(kept) > _KEPT_CALLS else None, None)
    if in_range:
        least = min([peers.size for _, peers in parts or ()], default=results.nobs)
        made = [cut(intervals, design.y, least) for intervals in made]
    frames = []
    designs = results._designs  # one per response, level by level
    for place, intervals in enumerate(made):
        more = {"transductive": transductive, "in_range": in_range}
        more |= {} if ranking is None else ranking.attrs(intervals, complete)
        more |= {} if formula is None else {"conditional": formula}
        own = designs[place % len(designs)]
        frames.append(_interval_frame(intervals, complete, index, own, units, more))
        if centre:
            found = results._predictions(rows.X)
            mean = found if len(designs) == 1 else found[:, place % len(designs)]
            mean[complete] = mean[complete] if intervals.centre is None else intervals.centre
            frames[-1]["centre"] = mean if units is None else units.back(mean)
    if len(designs) > 1:
        frames = [_box_frame(frames[at : at + len(designs)]) for at in range(0, len(frames), len(designs))]
    asked = None if ranking is None or parts is None else ranking.asked_for(complete)
    if formula is None or not warn_of_thresholds(made, formula, index[complete]):
        warn_about(made, results.model, asked)
    return in_kind(frames[0] if single else _level_frame(frames, alphas), to)


def _flag(name: str, options: Options) -> bool:
    """An option that is True or False, taken out of the others."""
    value = options.pop(name, False)
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name}={value!r} is not a flag: give True or False")
    return bool(value)


def ask_one_sided(
    results: "BaseResults",
    exog: New,
    alphas: list[float],
    side: Literal["upper", "lower"],
    options: Options,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of exact one-sided intervals on their side, a column per alpha (m, len(alphas)), NaN where a set
    is empty; and the rows that lack nothing (m,), for the others are NaN too."""
    rows, _ = results._rows(exog)
    complete = rows.complete
    if "scale" in options:
        scale, complete = as_scale(options["scale"], results._design, exog, complete)
        options = {**options, "scale": scale}
    out = np.full((len(rows), len(alphas)), np.nan)
    made = results._intervals(rows.take(complete), alphas, "exact", side, options) if alphas else []
    for a, intervals in enumerate(made):
        out[complete, a] = getattr(intervals, side)
    if made:
        warn_about(made, results.model, None)
    return out, complete


def ask_p_values(
    results: "BaseResults",
    exog: New,
    z: Numbers | Sequence[str],
    groups: Groups,
    weights: PerRow,
    names: Sequence[str],
    values: PValues,
    conditional: str | None = None,
    z_hat: PerRow = None,
    units: Units = None,
) -> pd.DataFrame:
    """The frame of ``conformity``, a column per name; candidates are in ``units``."""
    candidates, given = check_candidates(z, results._design.y)
    own = as_units(units, results._design)
    if own is not None:
        candidates = own.candidates(candidates, results._design.response)
    rows, index = results._rows(exog)
    each = np.broadcast_to(candidates, (len(rows), len(candidates)))
    out, pins = _p_values(results, exog, each, groups, weights, len(names), values, conditional, z_hat)
    made = _conformity_frame(out, index, given, names)
    made.attrs = {} if pins is None else {"z_hat": pins.tolist()}
    return made


def ask_own_p(
    results: "BaseResults",
    exog: New,
    y: np.ndarray,
    groups: Groups,
    weights: PerRow,
    values: PValues,
    conditional: str | None = None,
) -> np.ndarray:
    """p-values of new rows at their own responses (m,), NaN where a row lacks a value."""
    made, _ = _p_values(results, exog, y[:, None], groups, weights, 1, values, conditional)
    return made[:, 0, 0]


def _p_values(
    results: "BaseResults",
    exog: New,
    candidates: np.ndarray,
    groups: Groups,
    weights: PerRow,
    count: int,
    values: PValues,
    conditional: str | None,
    z_hat: PerRow = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The first ``count`` of ``values`` at the candidates (m, g) of each row, (m, count, g), and the
    responses ``z_hat`` of each row (m, b), or None."""
    rows, _ = results._rows(exog)
    ranking, complete = _ranked(results, exog, rows, groups, weights)
    complete = complete & ~np.isnan(candidates).any(axis=1)
    along = None
    if conditional is not None:
        if ranking is not None or z_hat is not None:
            raise InputError("conditional= takes the place of groups, weights and z_hat: drop one of them")
        along, complete = as_along(conditional, results._design, exog, complete)
    at_hat = None
    if z_hat is not None:
        at_hat = np.full((len(rows), _count(z_hat)), np.nan)
        frame = results._design.frame_of(exog)
        told = as_responses(z_hat, frame, results._predictions(rows.X), complete)
        at_hat[complete] = told.reshape(np.count_nonzero(complete), -1)
    places = np.flatnonzero(complete)
    everyone = [(np.arange(len(places)), Peers(results.nobs))]
    out = np.full((len(rows), count, candidates.shape[1]), np.nan)
    for which, peers in everyone if ranking is None else ranking.parts(complete):
        for i, at in enumerate(places[which]):
            own = None if along is None else along.take(slice(i, i + 1))
            more = () if at_hat is None else (at_hat[at] * rows.root[at],)
            found = values(rows.as_fitted[at], candidates[at] * rows.root[at], peers.take(i), own, *more)
            out[at] = np.atleast_2d(found)[:count]
    return out, at_hat


def _count(z_hat: PerRow) -> int:
    """How many responses a row is given."""
    return len(z_hat) if isinstance(z_hat, (list, tuple)) else 1


def _ranked(
    results: "BaseResults", exog: New, rows: Rows, groups: Groups, weights: PerRow
) -> tuple[Ranking | None, np.ndarray]:
    """The `Ranking` of new rows, or None, and the complete rows that it can rank."""
    ranking = as_ranking(groups, weights, results._design, exog)
    return ranking, rows.complete if ranking is None else ranking.known(rows.complete)


def _transductive(results: "BaseResults", exog: New) -> tuple["BaseResults", Rows, pd.Index]:
    """Results with a map learned from training and new rows together, the new rows, their index."""
    results._require_refit("transductive=True")
    if exog is None:
        raise InputError("transductive=True learns from the new rows: give them as exog")
    design, columns, X, index = results._design.together(exog, results.model.standardize)
    return results._refit(results.model, design, columns), Rows(columns.apply(X)), index


def _interval_frame(
    intervals: Intervals,
    complete: np.ndarray,
    index: pd.Index,
    design: Design,
    units: ResponseUnits | None,
    more: dict[str, Any],
) -> pd.DataFrame:
    """Intervals of the complete rows on the index of all (m,), NaN elsewhere; ``more`` goes into attrs.
    What compares widths, such as the share of stability, is in units of the model's response."""
    made = intervals if units is None else _back(intervals, units)
    columns: dict[str, Any] = {"lower": made.lower, "upper": made.upper}
    if made.inner_lower is not None:
        columns["inner_lower"] = made.inner_lower
        columns["inner_upper"] = made.inner_upper
    labels = index[complete]
    ends = np.full((len(index), len(columns)), np.nan)
    ends[complete] = np.column_stack(list(columns.values()))
    frame = pd.DataFrame(ends, index=index, columns=list(columns))
    if design.transformed and units is None:
        frame.columns.name = design.response
    tol = np.broadcast_to(made.tol, len(labels))
    largest = float(np.max(made.tol, initial=0.0))
    frame.attrs = {
        "response": design.response if units is None else units.response,
        **{name: getattr(intervals, name) for name in _KEPT},
        "tilted_fits": intervals.tilted_fits,
        "tol": None if np.isnan(largest) else largest,
        "loose": {labels[i]: float(tol[i]) for i in np.flatnonzero(intervals.loose)},
        "pieces": {labels[i]: list(found) for i, found in made.pieces.items()},
        "empty": labels[np.isnan(intervals.lower)].tolist(),
        **more,
    }
    return frame


def _box_frame(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames of several responses side by side, a column level for the response."""
    names = [frame.attrs["response"] for frame in frames]
    frame = pd.concat(frames, axis=1, keys=names, names=["response", None])
    frame.attrs = {**frames[0].attrs, "response": names}
    for name in _PER_RESPONSE:
        frame.attrs[name] = {each.attrs["response"]: each.attrs[name] for each in frames}
    return frame


def _back(intervals: Intervals, units: ResponseUnits) -> Intervals:
    """The same intervals in units of the response: ends, pieces, and how far an end may be off."""
    ends = {name: getattr(intervals, name) for name in ("lower", "upper", "inner_lower", "inner_upper")}
    made: dict[str, Any] = {name: units.back(values) for name, values in ends.items() if values is not None}
    pieces: dict[int, Pieces] = {}
    for i, found in intervals.pieces.items():
        pieces[i] = tuple((float(low), float(high)) for low, high in units.back(np.array(found)))
    with np.errstate(invalid="ignore"):  # infinite ends are where they are
        above = made["upper"] - units.back(intervals.upper - intervals.tol)
        below = units.back(intervals.lower + intervals.tol) - made["lower"]
    tol = np.maximum(np.where(np.isinf(made["upper"]), 0.0, above), np.nan_to_num(below, nan=0.0))
    tol = np.where(np.isnan(intervals.tol), np.nan, tol)
    return replace(intervals, **made, pieces=pieces, tol=tol)


def _call_pattern(
    results: "BaseResults", exog: New, alpha: Numbers, method: str, side: Side, options: Options
) -> Hashable:
    """What was asked, as a key to the intervals of earlier calls; None where options are no plain values
    (arrays, functions and generators may change), or rows cannot be hashed. Units only change labels."""
    plain = {name: value for name, value in options.items() if name not in _NO_DIFFERENCE}
    if not all(_is_plain(value) for value in plain.values()) or isinstance(exog, np.ndarray):
        return None
    rows: Hashable = None
    if exog is not None:
        frame = results._design.frame_of(exog)
        try:
            found = pd.util.hash_pandas_object(frame).to_numpy()
        except TypeError:
            return None
        rows = (tuple(frame.columns), tuple(map(str, frame.dtypes)), sha256(found.tobytes()).digest())
    asked = tuple((name, _as_key(value)) for name, value in sorted(plain.items()))
    return rows, _as_key(alpha), method, side, asked


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, bool, np.bool_)) or is_number(value)


def _as_key(value: Any) -> Hashable:
    return tuple(map(_as_key, value)) if isinstance(value, (list, tuple, np.ndarray)) else value


def _level_frame(frames: list[pd.DataFrame], alphas: list[float]) -> pd.DataFrame:
    """Frames of several alphas side by side, a column level per alpha."""
    attrs = dict(frames[0].attrs)
    for name in PER_LEVEL & set(attrs):
        attrs[name] = [frame.attrs[name] for frame in frames]
    below = [None] if frames[0].columns.nlevels == 1 else frames[0].columns.names
    frame = pd.concat(frames, axis=1, keys=alphas, names=["alpha", *below])
    frame.attrs = {**attrs, "alpha": alphas}
    return frame


def _conformity_frame(
    values: np.ndarray, index: pd.Index, candidates: Sequence[Any], columns: Sequence[str]
) -> pd.DataFrame:
    """p-values and their bounds (m, len(columns), g) in long form, indexed by row and candidate."""
    places = np.repeat(np.arange(len(index)), len(candidates))
    labels = [index.take(places), list(candidates) * len(index)]
    return pd.DataFrame(
        np.moveaxis(values, 1, 2).reshape(-1, len(columns)),
        index=pd.MultiIndex.from_arrays(labels, names=[index.name, "z"]),
        columns=list(columns),
    )


def label_sets(p: np.ndarray, index: pd.Index, candidates: Sequence[Any], alpha: float) -> pd.Series:
    """Tuples of the candidates whose p-value (m, g) is above alpha; None where a row has none at all."""
    sets = np.empty(len(index), dtype=object)
    for i, values in enumerate(p):
        if not np.isnan(values).any():
            sets[i] = tuple(z for z, value in zip(candidates, values, strict=True) if value > alpha)
    out = pd.Series(sets, index=index, dtype=object)
    out.attrs = {"alpha": alpha, "p": pd.DataFrame(p, index=index, columns=candidates)}
    return out
