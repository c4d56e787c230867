"""One question to the sets, from a user's frame to labelled numbers.

Rows that lack a value are set aside, groups and weights become peers, options arrays, and the answer,
intervals or p-values of candidate responses, gets the labels of the rows. What is asked of the sets is one
record, `Asked`; intervals of the last few questions are kept.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates, check_one_alpha, is_number
from ..data.frames import collected, in_kind
from ..data.groups import Ranking, as_ranking
from ..data.response_units import as_units
from ..errors import AssumptionError, InputError, InputTypeError
from ..rank import Peers
from ..sets import METHODS, Intervals, Method, PairScore, cut, make_intervals
from .labels import box_frame, interval_frame, level_frame, moved, warn_about, warn_of_thresholds
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

if TYPE_CHECKING:
    from .base import BaseResults

_NO_DIFFERENCE = {"units", "n_jobs", "progress"}  # options that leave the intervals as they are
_KEPT_CALLS = 4  # calls whose intervals are kept, so that tables, figures and reports make them once,
_KEPT_ROWS = 100_000  # of at most so many rows
_FEW = 10  # rows below which intervals are made as fast as they are looked up
# p-values, and their bounds where there are any, of one row (p,) at candidates (g,), among its ``peers``:
# (1 or more, g); it is told the design ``along`` and the responses ``z_hat`` (b,) where these are given.
PValues = Callable[..., np.ndarray]
BOUNDED = ("p", "p_lo", "p_up", "gap")  # columns of p-values that have bounds


@dataclass(frozen=True)
class Rows:
    """Design rows in the units of the fit (m, p), NaN where a value is missing, and weights (m,) or None.

    A model with weights (WLS) is fitted to rows times the root of their weight, response included. Its sets
    are found for such rows and divided by the root at the end.
    """

    X: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def root(self) -> np.ndarray:
        """Roots of the weights (m,), 1 without weights."""
        return np.ones(len(self.X)) if self.weight is None else np.sqrt(self.weight)

    @property
    def complete(self) -> np.ndarray:
        """Which rows lack nothing (m,)."""
        return ~(np.isnan(self.X).any(axis=1) | np.isnan(self.root))

    @cached_property
    def as_fitted(self) -> np.ndarray:
        """Rows times the roots of their weights (m, p)."""
        return self.X if self.weight is None else self.X * self.root[:, None]

    def take(self, which: np.ndarray) -> "Rows":
        """Some of the rows."""
        return Rows(self.X[which], None if self.weight is None else self.weight[which])

    def responses_as_fitted(self, z: np.ndarray) -> np.ndarray:
        """Responses (m,) or (m, b) times the roots of the weights."""
        return (z.T * self.root).T

    def in_own_units(self, intervals: Intervals) -> Intervals:
        """`Intervals` of the rows as fitted in units of the response."""
        names = ("surcharge", "tau", "tol", "centre")
        return moved(intervals, lambda values, rows: values / self.root[rows], names)


@dataclass(frozen=True)
class Asked:
    """What results ask of the sets: complete new rows, levels, and options as the method takes them.

    ``parts`` are groups of the new rows, and the training rows that each is ranked among; None for all
    among all.
    """

    rows: Rows
    alphas: list[float]
    method: str = "auto"
    side: Side = "two-sided"
    options: Options = field(default_factory=dict)
    parts: list[tuple[np.ndarray, Peers]] | None = None

    def intervals(self, fits: Any, methods: Mapping[str, Method] = METHODS) -> list[Intervals]:
        """The sets' answer in units of the response: one `Intervals` per alpha."""
        rows, options = self.rows, self.options
        if rows.weight is not None:
            if isinstance(options.get("score"), PairScore):
                raise AssumptionError(
                    "a PairScore is of responses as they are, and a model with weights ranks weighted "
                    "ones: use score='absolute' or a UserScore"
                )
            if "z_hat" in options:
                options = {**options, "z_hat": rows.responses_as_fitted(options["z_hat"])}
        asked = rows.as_fitted, self.alphas, self.method, self.side, options, self.parts
        made = make_intervals(fits, *asked, methods)
        return made if rows.weight is None else [rows.in_own_units(intervals) for intervals in made]


def ask_intervals(
    results: "BaseResults", exog: New, alpha: Numbers, method: str, side: Side, options: Options
) -> pd.DataFrame:
    """The frame of `conf_int_conformal`; options that are None are not given.

    ``centre=True`` adds a column for tables and figures: predictions of the fit that made the intervals.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if hasattr(type(exog), "map_partitions"):  # a frame of dask
        if "to" in options:
            raise InputTypeError(
                f"to={options['to']!r} is for rows in memory, and the answer to a frame of dask is one of "
                "dask: drop to=, or give exog.compute()"
            )
        options |= {"alpha": check_one_alpha(alpha), "method": method, "side": side}
        return results._by_partition(exog, "conf_int_conformal", **options)
    exog, to, centre = collected(exog), options.pop("to", "pandas"), options.pop("centre", False)
    alphas, single = check_alpha(alpha)
    key, kept = _call_pattern(results, exog, alphas, method, side, options), results._kept
    if "unseen" in options:
        results = results._copy(_design=results._design.leaving_unseen(options.pop("unseen")))
    transductive, in_range = (_flag(name, options) for name in ("transductive", "in_range"))
    results, rows, index = _transductive(results, exog) if transductive else (results, *results._rows(exog))
    design, formula, weighted = results._design, options.get("conditional"), "weights" in options
    units = options.pop("units", None)
    responses = [(one, as_units(units, one)) for one in results._designs]
    ranking, complete, options = prepared(options, results, exog, rows, method, rows.complete)
    parts = ranking.parts(complete)
    if in_range and (weighted or formula is not None):
        raise InputError("in_range=True may lose coverage with weights= and conditional=: drop one of them")
    made = kept.get(key)
    if made is None:
        made = results._intervals(Asked(rows.take(complete), alphas, method, side, options, parts))
        if key is not None and len(rows) <= _KEPT_ROWS:
            kept[key] = made
            if len(kept) > _KEPT_CALLS:
                kept.pop(next(iter(kept)), None)
    if in_range:
        least = min([peers.size for _, peers in parts], default=results.nobs)
        made = [cut(intervals, design.y, least) for intervals in made]
    frames, count = [], len(responses)
    told = [ranking.attrs(intervals, complete) for intervals in made]
    for place, intervals in enumerate(made):
        more = {"transductive": transductive, "in_range": in_range, **told[place]}
        more |= {} if formula is None else {"conditional": formula}
        own = responses[place % count]  # level by level
        frames.append(interval_frame(intervals, complete, index, *own, more))
        if centre:
            mean = np.atleast_2d(results._predictions(rows.X).T)[place % count]
            if intervals.centre is not None:
                mean[complete] = intervals.centre
            frames[-1]["centre"] = own[1].back(mean)
    if count > 1:
        frames = [box_frame(frames[at : at + count]) for at in range(0, len(frames), count)]
    if formula is None or not warn_of_thresholds(made, formula, index[complete]):
        warn_about(made, results.model, told)
    return in_kind(frames[0] if single else level_frame(frames, alphas), to)


def prepared(
    options: Options, results: "BaseResults", exog: New, rows: Rows, method: str, complete: np.ndarray
) -> tuple[Ranking, np.ndarray, Options]:
    """The `Ranking` of new rows, which of the ``complete`` ones have all that was asked for, and the other
    options that were given, their columns, formulas and callables made arrays."""
    design, options = results._design, {name: value for name, value in options.items() if value is not None}
    among = options.pop("groups", None), options.pop("weights", None)
    ranking = as_ranking(*among, design, exog, results.nobs)
    complete = ranking.known(complete)
    if "conditional" in options:
        options["conditional"], complete = as_along(options["conditional"], design, exog, complete)
    if "scale" in options:
        options["scale"], complete = as_scale(options["scale"], design, exog, complete)
    if "folds" in options:
        options["folds"] = as_folds(options["folds"], method, design)
    if "z_hat" in options:
        predictions = results._predictions(rows.X)
        options["z_hat"] = as_responses(options["z_hat"], design.frame_of(exog), predictions, complete)
    return ranking, complete, options


def _flag(name: str, options: Options) -> bool:
    """An option that is True or False, taken out of the others."""
    value = options.pop(name, False)
    if not isinstance(value, (bool, np.bool_)):
        raise InputTypeError(f"{name}={value!r} is not a flag: give True or False")
    return bool(value)


def _transductive(results: "BaseResults", exog: New) -> tuple["BaseResults", Rows, pd.Index]:
    """Results with a map learned from training and new rows together, the new rows, their index."""
    results._require_refit("transductive=True")
    if exog is None:
        raise InputError("transductive=True learns from the new rows: give them as exog")
    design, columns, X, index = results._design.together(exog, results.model.standardize)
    return results._refit(results.model, design, columns), Rows(columns.apply(X)), index


def _call_pattern(
    results: "BaseResults", exog: New, alphas: list[float], method: str, side: Side, options: Options
) -> Hashable:
    """What was asked, as a key to the intervals of earlier calls; None where options are no plain values
    (arrays, functions and generators may change), or rows are few or cannot be hashed. Units only change
    labels."""
    plain = {name: value for name, value in options.items() if name not in _NO_DIFFERENCE}
    if not all(_is_plain(value) for value in plain.values()) or isinstance(exog, np.ndarray):
        return None
    rows: Hashable = None
    if exog is not None:
        frame = results._design.frame_of(exog)
        if len(frame) < _FEW:
            return None
        try:
            found = pd.util.hash_pandas_object(frame).to_numpy()
        except TypeError:
            return None
        rows = (tuple(frame.columns), tuple(map(str, frame.dtypes)), sha256(found.tobytes()).digest())
    return rows, repr((alphas, method, side, sorted(plain.items())))


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, bool, np.bool_)) or is_number(value)


# p-values of candidates -------------------------------------------------------------------------------


def ask_p_values(
    results: "BaseResults",
    exog: New,
    z: Numbers | Sequence[str],
    names: Sequence[str],
    values: PValues,
    units: Units = None,
    **asked: Any,
) -> pd.DataFrame:
    """The frame of ``conformity``, a column per name, indexed by row and candidate; candidates are in
    ``units``, and ``asked`` is what `_p_values` takes beside."""
    candidates, given = check_candidates(z, results._design.y)
    candidates = as_units(units, results._design).candidates(candidates, results._design.response)
    rows, index = results._rows(exog)
    each = np.broadcast_to(candidates, (len(rows), len(candidates)))
    out, pins = _p_values(results, exog, each, len(names), values, **asked)
    labels = [index.take(np.repeat(np.arange(len(index)), len(given))), list(given) * len(index)]
    made = pd.DataFrame(
        np.moveaxis(out, 1, 2).reshape(-1, len(names)),
        index=pd.MultiIndex.from_arrays(labels, names=[index.name, "z"]),
        columns=list(names),
    )
    made.attrs = {} if pins is None else {"z_hat": pins.tolist()}
    return made


def ask_own_p(
    results: "BaseResults", exog: New, y: np.ndarray, values: PValues, **asked: Any
) -> np.ndarray:
    """p-values of new rows at their own responses (m,), NaN where a row lacks a value."""
    made, _ = _p_values(results, exog, y[:, None], 1, values, **asked)
    return made[:, 0, 0]


def _p_values(
    results: "BaseResults",
    exog: New,
    candidates: np.ndarray,
    count: int,
    values: PValues,
    groups: Groups = None,
    weights: PerRow = None,
    conditional: str | None = None,
    z_hat: PerRow = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The first ``count`` of ``values`` at the candidates (m, g) of each row, (m, count, g), and the
    responses ``z_hat`` of each row (m, b), or None."""
    rows, _ = results._rows(exog)
    others = {"groups": groups, "weights": weights, "z_hat": z_hat}
    if conditional is not None and any(value is not None for value in others.values()):
        raise InputError("conditional= takes the place of groups, weights and z_hat: drop one of them")
    known = rows.complete & ~np.isnan(candidates).any(axis=1)
    asked = {"conditional": conditional, **others}
    ranking, complete, options = prepared(asked, results, exog, rows, "exact", known)
    along, told, at_hat = options.get("conditional"), options.get("z_hat"), None
    if told is not None:
        at_hat = np.full((len(rows), 1 if told.ndim == 1 else told.shape[1]), np.nan)
        at_hat[complete] = told.reshape(-1, at_hat.shape[1])
    places = np.flatnonzero(complete)
    out = np.full((len(rows), count, candidates.shape[1]), np.nan)
    for which, peers in ranking.parts(complete):
        for i, at in enumerate(places[which]):
            more = {} if along is None else {"along": along.take(slice(i, i + 1))}
            more |= {} if at_hat is None else {"z_hat": at_hat[at] * rows.root[at]}
            z = candidates[at] * rows.root[at]
            found = values(rows.as_fitted[at], z, peers=peers.take(i), **more)
            out[at] = np.atleast_2d(found)[:count]
    return out, at_hat
