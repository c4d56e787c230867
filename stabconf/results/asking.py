"""One question to the sets, from a user's frame to labelled numbers.

`BaseResults.conf_int_conformal` and ``conformity`` come here: rows that lack a value are set aside, groups
and weights become peers, options become arrays, and the answer gets the labels of the rows.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates
from ..data.design import Design
from ..data.frames import collected, in_kind
from ..data.groups import Ranking, as_ranking
from ..errors import InputError, InputTypeError
from ..rank import Peers
from ..sets import Along, Intervals
from .advice import warn_about, warn_of_thresholds
from .options import Groups, New, Numbers, Options, PerRow, Side, as_along, as_folds, as_responses, as_scale
from .rows import Rows

if TYPE_CHECKING:
    from .base import BaseResults

__all__ = ["PER_LEVEL", "ask_intervals", "ask_one_sided", "ask_p_values", "label_sets"]

# Attributes of an interval frame that are those of its `Intervals`; and those that differ by level.
_KEPT = ("method", "bound", "side", "alpha", "k", "n", "certified", "guarantee", "stability_share")
PER_LEVEL = {"tol", "loose", "k", "stability_share", "pieces", "empty", "guarantee", "groups"}


def ask_intervals(
    results: "BaseResults", exog: New, alpha: Numbers, method: str, side: Side, options: Options
) -> pd.DataFrame:
    """The frame of `conf_int_conformal`, with the options that were given."""
    exog, to = collected(exog), options.pop("to", "pandas")
    transductive = options.pop("transductive", False)
    if not isinstance(transductive, (bool, np.bool_)):
        raise InputTypeError(f"transductive={transductive!r} is not a flag: give True or False")
    alphas, single = check_alpha(alpha)
    results, rows, index = _transductive(results, exog) if transductive else (results, *results._rows(exog))
    design = results._design
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
    made = results._intervals(rows.take(complete), alphas, method, side, options, parts)
    frames = []
    for intervals in made:
        more = {"transductive": bool(transductive)}
        more |= {} if ranking is None else ranking.attrs(intervals, complete)
        more |= {} if formula is None else {"conditional": formula}
        frames.append(_interval_frame(intervals, complete, index, design, more))
    asked = None if ranking is None or parts is None else ranking.asked_for(complete)
    if formula is None or not warn_of_thresholds(made, formula, index[complete]):
        warn_about(made, results.model, asked)
    return in_kind(frames[0] if single else _level_frame(frames, alphas), to)


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
    z: Numbers,
    groups: Groups,
    weights: PerRow,
    names: Sequence[str],
    values: Callable[[np.ndarray, np.ndarray, Peers, Along | None], np.ndarray],
    conditional: str | None = None,
) -> pd.DataFrame:
    """The frame of ``conformity``, a column per name.

    ``values`` are those of one row (p,) at candidates (g,), among its peers or along a design,
    (len(names), g).
    """
    candidates = check_candidates(z)
    rows, index = results._rows(exog)
    ranking, complete = _ranked(results, exog, rows, groups, weights)
    along = None
    if conditional is not None:
        if ranking is not None:
            raise InputError("conditional= takes the place of groups and weights: drop one of them")
        along, complete = as_along(conditional, results._design, exog, complete)
    places = np.flatnonzero(complete)
    everyone = [(np.arange(len(places)), Peers(results.nobs))]
    out = np.full((len(rows), len(names), len(candidates)), np.nan)
    for which, peers in everyone if ranking is None else ranking.parts(complete):
        for i, at in enumerate(places[which]):
            own = None if along is None else along.take(slice(i, i + 1))
            out[at] = values(rows.as_fitted[at], candidates * rows.root[at], peers.take(i), own)
    return _conformity_frame(out, index, candidates, names)


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
    intervals: Intervals, complete: np.ndarray, index: pd.Index, design: Design, more: dict[str, Any]
) -> pd.DataFrame:
    """Intervals of the complete rows on the index of all (m,), NaN elsewhere; ``more`` goes into attrs."""
    columns: dict[str, Any] = {"lower": intervals.lower, "upper": intervals.upper}
    if intervals.inner_lower is not None:
        columns["inner_lower"] = intervals.inner_lower
        columns["inner_upper"] = intervals.inner_upper
    labels = index[complete]
    ends = np.full((len(index), len(columns)), np.nan)
    ends[complete] = np.column_stack(list(columns.values()))
    frame = pd.DataFrame(ends, index=index, columns=list(columns))
    if design.transformed:
        frame.columns.name = design.response
    tol = np.broadcast_to(intervals.tol, len(labels))
    largest = float(np.max(intervals.tol, initial=0.0))
    frame.attrs = {
        "response": design.response,
        **{name: getattr(intervals, name) for name in _KEPT},
        "tilted_fits": intervals.tilted_fits,
        "tol": None if np.isnan(largest) else largest,
        "loose": {labels[i]: float(tol[i]) for i in np.flatnonzero(intervals.loose)},
        "pieces": {labels[i]: list(found) for i, found in intervals.pieces.items()},
        "empty": labels[np.isnan(intervals.lower)].tolist(),
        **more,
    }
    return frame


def _level_frame(frames: list[pd.DataFrame], alphas: list[float]) -> pd.DataFrame:
    """Frames of several alphas side by side, a column level per alpha."""
    attrs = dict(frames[0].attrs)
    for name in PER_LEVEL & set(attrs):
        attrs[name] = [frame.attrs[name] for frame in frames]
    frame = pd.concat(frames, axis=1, keys=alphas, names=["alpha", None])
    frame.attrs = {**attrs, "alpha": alphas}
    return frame


def _conformity_frame(
    values: np.ndarray, index: pd.Index, candidates: np.ndarray, columns: Sequence[str]
) -> pd.DataFrame:
    """p-values and their bounds (m, len(columns), g) in long form, indexed by row and candidate."""
    places = np.repeat(np.arange(len(index)), len(candidates))
    labels = [index.take(places), np.tile(candidates, len(index))]
    return pd.DataFrame(
        np.moveaxis(values, 1, 2).reshape(-1, len(columns)),
        index=pd.MultiIndex.from_arrays(labels, names=[index.name, "z"]),
        columns=list(columns),
    )


def label_sets(p: np.ndarray, index: pd.Index, candidates: Sequence[float], alpha: float) -> pd.Series:
    """Tuples of the candidates whose p-value (m, g) is above alpha; None where a row has none at all."""
    sets = np.empty(len(index), dtype=object)
    for i, values in enumerate(p):
        if not np.isnan(values).any():
            sets[i] = tuple(z for z, value in zip(candidates, values, strict=True) if value > alpha)
    out = pd.Series(sets, index=index, dtype=object)
    out.attrs = {"alpha": alpha, "p": pd.DataFrame(p, index=index, columns=candidates)}
    return out
