"""The factors of a formula, each evaluated and coded once, and the columns that they make.

patsy parses, learns and checks; `formulas` calls it through here. Two things are done in its place, with
the same result, for they take nearly all of its time on many rows: text becomes codes of levels by hashing,
not value by value, and the columns are written in blocks of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import patsy
from patsy.util import SortAnythingKey

from .units import ColumnKinds

__all__ = ["Evaluated", "Missing", "evaluate", "learn"]

Missing = Literal["drop", "raise"]

_BOX = type(patsy.builtins.C(()))  # what C(...) makes
_LEVELS = ("string", "integer", "floating")  # values that are coded here, as pandas calls them
_CELLS = 2**16  # of the design that are written at a time: half a megabyte, which processors keep at hand


class OnceFactor(patsy.EvalFactor):
    """A factor that is evaluated once for each frame, text and categories as pandas' codes."""

    _made: tuple[Any, Any] | None = None

    def eval(self, memorize_state: dict[str, Any], data: Any) -> Any:
        made = self._made  # looked up once, for other threads may evaluate other frames
        if made is None or made[0] is not data:
            made = data, _coded(super().eval(memorize_state, data), memorize_state)
            self._made = made
        return made[1]

    def forget(self) -> None:
        """Let go of the frame and of the value."""
        self._made = None


def _coded(value: Any, state: dict[str, Any]) -> Any:
    """A factor's value with the codes of the levels in ``state``, which the first call learns.

    Values that patsy codes as quickly, or refuses, or that need its rules for order stay as they are.
    """
    boxed = isinstance(value, _BOX)
    data = value.data if boxed else value
    if not isinstance(data, (pd.Series, np.ndarray, pd.Categorical)) or data.ndim != 1:
        return value
    categorical = isinstance(data.dtype, pd.CategoricalDtype)
    if not categorical and (data.dtype.kind == "b" or not (boxed or _is_text(data.dtype))):
        return value
    if categorical:
        held: Any = data.array if isinstance(data, pd.Series) else data
        codes, values = held.codes, list(held.categories)
    else:
        codes, found = pd.factorize(data)
        values = list(found)
        if pd.api.types.infer_dtype(found, skipna=False) not in _LEVELS:
            return value
    missing = [False if categorical and not boxed else _is_missing(each) for each in values]
    if "levels" not in state:
        given = value.levels if boxed else None
        if given is None:
            known = [each for each, gone in zip(values, missing, strict=True) if not gone]
            given = values if categorical else sorted(known, key=SortAnythingKey)
        state["levels"] = tuple(given)
    places = {level: place for place, level in enumerate(state["levels"])}
    table = np.array([places.get(each, -2) for each in values] + [-1])  # the last for a code of -1
    table[:-1][missing] = -1
    made = table[codes]
    if (made == -2).any() or len(places) < len(state["levels"]):
        return value
    dtype = pd.CategoricalDtype(pd.Index(state["levels"], dtype=object, tupleize_cols=False))
    result: Any = pd.Categorical.from_codes(made, dtype=dtype)
    if isinstance(data, pd.Series):
        result = pd.Series(result, index=data.index)
    if boxed:
        object.__setattr__(result, "contrast", value.contrast)
    return result


def _is_text(dtype: Any) -> bool:
    return dtype.kind in "OU" or isinstance(dtype, pd.StringDtype)


def _is_missing(value: Any) -> bool:
    return patsy.NAAction().is_categorical_NA(value)


class Evaluated(patsy.NAAction):
    """The factors of designs at the complete rows of a frame; see `evaluate`.

    Attributes
    ----------
    kept : (n,) array of int
        Positions of the rows that lack no value.
    """

    kept: np.ndarray
    _values: list[np.ndarray]
    _factors: dict[Any, np.ndarray]

    def is_numerical_NA(self, arr: Any) -> np.ndarray:
        return np.isnan(np.asarray(arr)).any(axis=1)

    def handle_NA(self, values: Any, is_NAs: Any, origins: Any) -> Any:
        """Keep the values, and hand patsy no rows of them to make columns of."""
        if self.on_NA == "raise":
            super().handle_NA(values, is_NAs, origins)
        if values:
            lacking = np.logical_or.reduce(is_NAs)
            self.kept = np.flatnonzero(~lacking)
            self._values = [value[self.kept] for value in values] if lacking.any() else values
        return [value[:0] for value in values]

    def matrix(self, info: patsy.DesignInfo) -> np.ndarray:
        """The columns (n, p) of a design."""
        n = len(self.kept)
        X = np.empty((n, len(info.column_names)))
        step = max(1, _CELLS // max(1, X.shape[1]))
        subterms = [each for made in info.term_codings.values() for each in made]
        for start in range(0, n, step):
            rows = slice(start, start + step)
            first = 0
            for subterm in subterms:
                last = first + subterm.num_columns
                X[rows, first:last] = self._product(subterm, subterm.factors, rows)
                first = last
        return X

    def _product(self, subterm: Any, factors: Iterable[Any], rows: slice) -> np.ndarray | float:
        """The products of the columns of factors, those of the first change fastest."""
        made: np.ndarray | None = None
        for factor in factors:
            block = self._factors[factor][rows]
            if factor in subterm.contrast_matrices:
                block = subterm.contrast_matrices[factor].matrix[block]
            if made is not None:
                block = (made[:, None, :] * block[:, :, None]).reshape(len(block), -1)
            made = block.astype(float, casting="same_kind", copy=False)
        return 1.0 if made is None else made

    def kinds(self, info: patsy.DesignInfo) -> ColumnKinds:
        """The `ColumnKinds` of a design."""
        categorical: list[bool] = []
        parts: dict[int, np.ndarray] = {}
        intercept = None
        for term, subterms in info.term_codings.items():
            if not term.factors:
                intercept = len(categorical)
            for subterm in subterms:
                numeric = [factor for factor in subterm.factors if factor not in subterm.contrast_matrices]
                if numeric and subterm.contrast_matrices:
                    made: Any = self._product(subterm, numeric, slice(None))
                    for j, part in enumerate(self._numeric_parts(subterm), len(categorical)):
                        parts[j] = made[:, part]
                categorical += [bool(term.factors) and not numeric] * subterm.num_columns
        return ColumnKinds(intercept, np.array(categorical, dtype=bool), parts)

    def _numeric_parts(self, subterm: Any) -> np.ndarray:
        """Which product of its numeric factors is in each column of a subterm."""
        places = np.zeros(1, dtype=int)
        stride = 1
        for factor in subterm.factors:
            if factor in subterm.contrast_matrices:
                places = np.tile(places, subterm.contrast_matrices[factor].matrix.shape[1])
            else:
                count = self._factors[factor].shape[1]
                places = (places + stride * np.arange(count)[:, None]).ravel()
                stride *= count
        return places


def learn(
    terms: Sequence[Iterable[Any]],
    frame: pd.DataFrame,
    scope: Mapping[str, Any],
    missing: Missing = "drop",
) -> tuple[list[patsy.DesignInfo], Evaluated]:
    """The designs of lists of terms as a frame has their levels, knots and means, and their `Evaluated`."""
    ours = [
        [patsy.Term([OnceFactor(factor.code, factor.origin) for factor in term.factors]) for term in side]
        for side in terms
    ]
    env = patsy.EvalEnvironment([scope])
    action = patsy.NAAction(missing)
    infos = patsy.build.design_matrix_builders(ours, lambda: iter([frame]), env, action)
    return infos, evaluate(infos, frame, missing)


def evaluate(infos: Sequence[patsy.DesignInfo], frame: pd.DataFrame, missing: Missing) -> Evaluated:
    """The factors of designs at the rows of a frame; ``missing`` is what is done with incomplete rows."""
    made = Evaluated(missing)
    made.kept, made._values = np.arange(len(frame)), []
    factors = dict.fromkeys(factor for info in infos for factor in info.factor_infos.values())
    try:
        patsy.build_design_matrices(infos, frame, NA_action=made)
    finally:
        for each in factors:
            each.factor.forget()
    made._factors = {each.factor: value for each, value in zip(factors, made._values, strict=True)}
    return made
