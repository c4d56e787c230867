"""Which training rows new rows are ranked among, and by what weight, from a user's columns.

``groups`` are columns or factors of a formula term; each combination of their values is a group.
``weights`` are likelihood ratios of a shift of the covariates, known up to a constant (theory, section 7).
A new row without a group or weight has no interval; a training row without a group is nobody's peer.
Results call `as_ranking`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError, InputTypeError
from ..rank import Peers
from .design import Design
from .frames import by_label, column_or_call, numbers

_NAMED = 5  # groups that a message names


@dataclass(frozen=True)
class Groups:
    """Groups of the training and the new rows.

    ``names`` are the columns or factors that make them; ``labels`` their values, tuples where there are
    several names; ``trained`` (n,) and ``new`` (m,) places among the labels, -1 where a value is missing.
    """

    names: list[str]
    labels: list[Any]
    trained: np.ndarray
    new: np.ndarray

    def columns(self, taken: Collection[str]) -> dict[str, np.ndarray]:
        """Label columns of the new rows, ``{name: values}``; ``taken`` are names that are in use."""
        names, parts = ["group"], [self.labels]
        if len(self.names) > 1:
            names = [f"group_{name}" if name in taken else name for name in self.names]
            parts = [list(part) for part in zip(*self.labels, strict=True)]
        place = np.where(self.new < 0, len(self.labels), self.new)
        values = (pd.Series(part, dtype=object).reindex(place).infer_objects() for part in parts)
        return {name: each.to_numpy() for name, each in zip(names, values, strict=True)}


@dataclass(frozen=True)
class Ranking:
    """How new rows are ranked: among all ``count`` training rows, within groups, by weight, or both.

    ``weights`` are those of the training rows (n,) and of the new rows (m,), NaN where one is missing.
    """

    count: int
    groups: Groups | None
    weights: tuple[np.ndarray, np.ndarray] | None

    def known(self, complete: np.ndarray) -> np.ndarray:
        """The complete new rows that have a group and a weight (bools)."""
        if self.groups is not None:
            complete = complete & (self.groups.new >= 0)
        return complete if self.weights is None else complete & ~np.isnan(self.weights[1])

    def parts(self, complete: np.ndarray) -> list[tuple[np.ndarray, Peers]]:
        """Groups of the complete new rows, by position among them, each with its `Peers`; or one of all."""
        new = np.zeros(np.count_nonzero(complete)) if self.groups is None else self.groups.new[complete]
        out = []
        for code in np.unique(new):
            which = np.flatnonzero(new == code)
            rows = None if self.groups is None else np.flatnonzero(self.groups.trained == code)
            trained = own = None
            if self.weights is not None:
                trained = self.weights[0] if rows is None else self.weights[0][rows]
                own = self.weights[1][complete][which]
            out.append((which, Peers(self.count, rows, trained, own)))
        return out

    def attrs(self, intervals: Any, complete: np.ndarray) -> dict[str, Any]:
        """What a frame of `Intervals` says of the ranking; nothing where all rows count alike."""
        if self.groups is None and self.weights is None:
            return {}
        out: dict[str, Any] = {"k": None, "n": self.count}
        if self.weights is not None:
            trained = self.weights[0]
            out["effective_n"] = float(np.sum(trained) ** 2 / np.sum(np.square(trained)))
        if self.groups is not None:
            codes, first = np.unique(self.groups.new[complete], return_index=True)
            count = len(intervals.lower)
            k, n = (np.broadcast_to(each, count)[first] for each in (intervals.k, intervals.n))
            out["groups"] = {
                self.groups.labels[code]: {"k": int(rank) if self.weights is None else None, "n": int(size)}
                for code, rank, size in zip(codes, k, n, strict=True)
            }
        return out

    def columns(self, taken: Collection[str] = ()) -> dict[str, np.ndarray]:
        """Columns that say how the new rows are ranked, ``{name: values}``."""
        out = {} if self.groups is None else self.groups.columns(taken)
        return out if self.weights is None else {**out, "weight": self.weights[1]}


def as_ranking(groups: object, weights: object, design: Design, exog: object, count: int) -> Ranking:
    """The `Ranking` among ``count`` training rows that a user asks for.

    ``groups`` is None, a column or term, or a list of these; ``weights`` None, a column, a callable, two
    arrays (training, new) or one array of both.
    """
    found = None if groups is None else _as_groups(groups, design, exog)
    return Ranking(count, found, None if weights is None else _as_weights(weights, design, exog))


def _as_groups(groups: object, design: Design, exog: object) -> Groups:
    terms = [groups] if isinstance(groups, str) else groups
    if not (isinstance(terms, (list, tuple)) and terms and all(isinstance(term, str) for term in terms)):
        raise InputTypeError(
            f"groups={groups!r} is a {type(groups).__name__}: give a column, a list of columns, or a "
            "formula term such as 'C(region)' or 'x > 2'"
        )
    factors = []
    for term in terms:
        asked = _cells(design, term, exog)  # first, for what it lacks is named in the user's terms
        known = _cells(design, term, None)
        _check_rowwise(term, known, design)
        factors += [(name, np.concatenate([known[name], asked[name]])) for name in asked]
    coded, levels = zip(*(pd.factorize(values) for _, values in factors), strict=True)
    complete = np.min(coded, axis=0) >= 0
    codes = np.full(len(complete), -1)
    used, codes[complete] = np.unique(np.array(coded)[:, complete], axis=1, return_inverse=True)
    each = [different[at].tolist() for different, at in zip(levels, used, strict=True)]
    labels = each[0] if len(each) == 1 else list(zip(*each, strict=True))
    trained, new = np.split(codes, [len(design.y)])
    unseen = np.setdiff1d(new[new >= 0], trained)
    if len(unseen):
        named = ", ".join(repr(labels[code]) for code in unseen[:_NAMED])
        more = f" and {len(unseen) - _NAMED} more" if len(unseen) > _NAMED else ""
        raise InputError(
            f"groups={groups!r}: exog has groups that training did not have ({named}{more}): drop those "
            "rows, recode them, or give a term with fixed edges such as 'pd.cut(x, [0, 1, 2])'"
        )
    count = len(np.unique(trained[trained >= 0]))
    if count > max(1, len(trained) // 2):
        raise InputError(
            f"groups={groups!r} has {count} values in {len(trained)} rows: give a column with few, or "
            "cut it, as in 'x > 2' or 'pd.cut(x, [0, 1, 2])'"
        )
    return Groups([name for name, _ in factors], labels, trained, new)


def _cells(design: Design, term: str, new: object) -> dict[str, np.ndarray]:
    """Values of the factors of a term at new or training rows (objects), None where missing."""
    found = {name: values.astype(object) for name, values in design.factors(term, new, "groups").items()}
    return {name: values.where(values.notna(), None).to_numpy() for name, values in found.items()}


def _check_rowwise(term: str, trained: dict[str, np.ndarray], design: Design) -> None:
    """Refuse a term that depends on the other rows, as 'x > x.mean()' does: new rows have other ones."""
    rows = design.frame_of(None)
    if term in rows.columns:
        return
    for name, values in trained.items():
        one_each = np.unique(pd.factorize(values)[0], return_index=True)[1][:_NAMED]
        for part in (np.arange(0, len(rows), 2), *one_each[:, None]):
            try:
                same = list(_cells(design, term, rows.iloc[part])[name]) == list(values[part])
            except InputError:
                same = False
            if not same:
                raise InputError(
                    f"groups={term!r}: the value of {name!r} in a row depends on the other rows: make it a "
                    "column of both frames, or give a term with fixed edges such as 'pd.cut(x, [0, 1, 2])'"
                )


def _as_weights(weights: Any, design: Design, exog: object) -> tuple[np.ndarray, np.ndarray]:
    frames = design.frame_of(None), design.frame_of(exog)
    name = f"weights={weights!r}" if isinstance(weights, str) else "weights"
    if isinstance(weights, str) or callable(weights):
        pair = column_or_call(weights, frames, "weights", "a callable or a tuple of arrays (training, new)")
    elif isinstance(weights, (tuple, list)) and len(weights) == 2:
        pair = list(weights)
    elif np.ndim(weights) == 1 and len(weights) - len(frames[1]) in (len(design.labels), len(frames[0])):
        count = len(weights) - len(frames[1])  # training rows, then new ones
        labels = design.index if count == len(frames[0]) else design.labels
        values = np.asarray(by_label(weights, labels.append(frames[1].index), "weights"))
        pair = np.split(values, [count])
    else:
        raise InputTypeError(
            f"weights is a {type(weights).__name__}: give a column, a callable of a frame, a tuple of two "
            "arrays (training, new), or one array of both, one after the other"
        )
    trained, new = pair
    if isinstance(trained, pd.Series) and not trained.index.equals(design.labels):
        trained = by_label(trained, design.index, f"{name} of the training rows")
    new = by_label(new, frames[1].index, f"{name} of the new rows")
    trained, new = (numbers(values, f"the values of {name}") for values in (trained, new))
    if trained.shape == (len(design.labels),):
        trained = trained[design.kept]
    for values, rows, which in ((trained, frames[0], "training"), (new, frames[1], "new")):
        if values.shape != (len(rows),):
            raise InputError(
                f"{name} has shape {values.shape} for the {len(rows)} {which} rows: give one value a row"
            )
    bad = trained[~(trained >= 0) | np.isinf(trained)]
    if len(bad):
        raise InputError(
            f"{name} has the value {bad[0]:g} in training: weights must be finite and 0 or more; give 0 to "
            "rows that do not count"
        )
    if not np.any(trained > 0):
        raise InputError(f"{name} is 0 for all training rows: give a positive weight to some")
    bad = new[(new <= 0) | np.isinf(new)]
    if len(bad):
        raise InputError(
            f"{name} has the value {bad[0]:g} in a new row: weights of new rows must be positive and finite"
        )
    return trained, new
