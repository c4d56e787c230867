"""The factors of a formula, each evaluated and coded once, and the columns that they make.

`design` learns whole formulas here and puts new rows through them. patsy learns levels, knots and means.
Evaluating factors and writing columns, with patsy's result, is done here: text becomes codes of levels by
hashing, columns are written in blocks of rows, and one row costs little more than its look-ups.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import patsy
from patsy.categorical import categorical_to_int

from ..errors import FormulaError, InputError
from .formulas import names_in
from .frames import lacking, plain_columns
from .units import ColumnKinds

_BOX = type(patsy.builtins.C(()))  # what C(...) makes
_is_missing = patsy.NAAction().is_categorical_NA
_LEVELS = ("string", "integer", "floating")  # values that are coded here, as pandas calls them
_ALONE = 10  # rows that are put through a design alone
_CELLS = 2**16  # of the design that are written at a time: half a megabyte, which processors keep at hand


@dataclass(frozen=True)
class _Hashed:
    """Text or categories (n,): the ``raw`` value of a factor, the ``codes`` (n,) of its different
    ``values`` (-1 for none), and which of these are ``missing``."""

    raw: Any
    codes: np.ndarray
    values: Any
    missing: list[bool]

    def different(self) -> Any:
        """One row per value, from which patsy learns the levels and their order as from all rows."""
        boxed = isinstance(self.raw, _BOX)
        return _BOX(self.values, self.raw.contrast, self.raw.levels) if boxed else self.values

    def places(self, levels: tuple[Any, ...]) -> np.ndarray | None:
        """Places (n,) among the levels, -1 for missing values; None where one is not there."""
        known = {level: place for place, level in enumerate(levels)}
        table = np.array([known.get(each, -2) for each in self.values] + [-1])  # the last for a code of -1
        table[:-1][self.missing] = -1
        if np.array_equal(table[:-1], np.arange(len(self.values))):
            return self.codes
        made = table[self.codes]
        return None if (made == -2).any() else made


def _hashed(value: Any) -> Any:
    """The value of a factor as `_Hashed`; as it is where patsy is as quick, or has rules of its own."""
    boxed = isinstance(value, _BOX)
    data = value.data if boxed else value
    if not isinstance(data, (pd.Series, np.ndarray, pd.Categorical)) or data.ndim != 1:
        return value
    if isinstance(data.dtype, pd.CategoricalDtype):
        held: Any = data.array if isinstance(data, pd.Series) else data
        values = pd.Categorical.from_codes(np.arange(len(held.categories)), dtype=held.dtype)
        return _Hashed(value, held.codes, values, [boxed and _is_missing(each) for each in values])
    text = data.dtype.kind in "OU" or isinstance(data.dtype, pd.StringDtype)
    if data.dtype.kind == "b" or not (boxed or text):
        return value
    codes, found = pd.factorize(data)
    if pd.api.types.infer_dtype(found, skipna=False) not in _LEVELS:
        return value
    return _Hashed(value, codes, np.asarray(found, dtype=object), list(map(_is_missing, found)))


class Table(dict):
    """Columns (n,) by name, and the values of the factors that were evaluated on them."""

    def __init__(self, columns: Mapping[Any, pd.Series]) -> None:
        super().__init__(columns.items())
        self.made: dict[Any, Any] = {}


_Sides = Sequence[Iterable[Any]]  # of a formula, each a list of terms
_Learned = tuple[list[patsy.DesignInfo], "Evaluated"]


class OnceFactor(patsy.EvalFactor):
    """A factor that is evaluated once for each table, and of whose values patsy sees the different ones."""

    def eval(self, memorize_state: dict[str, Any], data: Table) -> Any:
        """For patsy, which learns from it."""
        made = self.value(memorize_state, data)
        return made.different() if isinstance(made, _Hashed) else made

    def value(self, state: dict[str, Any], table: Table) -> Any:
        """The value at the rows of a table, text and categories `_Hashed`."""
        if self not in table.made:
            plain = self.code.isidentifier() and self.code in table
            table.made[self] = _hashed(table[self.code] if plain else super().eval(state, table))
        return table.made[self]


@dataclass(frozen=True)
class Evaluated:
    """The factors of designs at the rows ``kept`` (n,) of a frame, which lack no value; see `evaluate`.

    Numeric ``factors`` have their values (n, q), categorical ones their places (n,) among the levels.
    """

    kept: np.ndarray
    factors: dict[Any, np.ndarray]

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
            block = self.factors[factor][rows]
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
        coded, factors = subterm.contrast_matrices, subterm.factors
        numeric = [1 if factor in coded else self.factors[factor].shape[1] for factor in factors]
        levels = [coded[factor].matrix.shape[1] if factor in coded else 1 for factor in factors]
        products = np.arange(np.prod(numeric)).reshape(numeric, order="F")
        return np.broadcast_to(products, np.multiply(numeric, levels)).ravel(order="F")


def learn(
    sides: _Sides, tables: Callable[[], Iterator[Table]], scope: Mapping[str, Any]
) -> list[patsy.DesignInfo]:
    """The designs of lists of terms, learned from tables that come one by one, as often as patsy asks."""
    terms = [
        [patsy.Term([OnceFactor(factor.code, factor.origin) for factor in term.factors]) for term in side]
        for side in sides
    ]
    return patsy.build.design_matrix_builders(terms, tables, patsy.EvalEnvironment([scope]))


def learned(sides: _Sides, frame: pd.DataFrame, scope: Mapping[str, Any]) -> _Learned:
    """The designs of a formula's sides, learned on a frame, and their factors at its complete rows.

    Knots and means of a column that lacks a value are none, and no row is complete: they are then learned
    from the rows that lack nothing.
    """
    failure = None
    try:
        infos, made = _learned(sides, frame, scope)
        if len(made.kept):
            return infos, made
    except Exception as error:
        failure = error
    complete = ~lacking(dict(frame.items()), len(frame))
    if complete.all() or not complete.any():
        if failure is not None:
            raise failure
        return infos, made
    per_row = [name for name, value in scope.items() if np.ndim(value) == 1 and len(value) == len(frame)]
    some = {name: np.asarray(scope[name])[complete] for name in per_row}
    infos, made = _learned(sides, frame[complete], {**scope, **some})
    return infos, replace(made, kept=np.flatnonzero(complete)[made.kept])


def _learned(sides: _Sides, frame: pd.DataFrame, scope: Mapping[str, Any]) -> _Learned:
    table = Table(frame)
    infos = learn(sides, lambda: iter([table]), scope)
    return infos, evaluate(infos, table, frame.index)


def evaluate(infos: Sequence[patsy.DesignInfo], table: Table, index: pd.Index) -> Evaluated:
    """The factors of designs at the complete rows of a table, all of whose rows have labels ``index``."""
    factors: dict[Any, np.ndarray] = {}
    incomplete = np.zeros(len(index), dtype=bool)
    for info in (each for design in infos for each in design.factor_infos.values()):
        factor = info.factor
        if factor in factors:
            continue
        value = factor.value(info.state, table)
        raw = value.raw if isinstance(value, _Hashed) else value
        _check_labels(factor, raw, index)
        if info.type == "categorical":
            codes = value.places(info.categories) if isinstance(value, _Hashed) else None
            if codes is None:  # values that patsy codes, or refuses
                codes = np.asarray(categorical_to_int(raw, info.categories, patsy.NAAction(), factor))
            factors[factor] = codes
            incomplete |= codes < 0
        else:
            factors[factor] = _numeric(info, raw)
            incomplete |= np.isnan(factors[factor]).any(axis=1)
    kept = np.flatnonzero(~incomplete)
    if len(kept) < len(index):
        factors = {factor: values[kept] for factor, values in factors.items()}
    return Evaluated(kept, factors)


def _check_labels(factor: Any, raw: Any, index: pd.Index) -> None:
    """Refuse values that have other rows than these."""
    data = raw.data if isinstance(raw, _BOX) else raw
    count = len(data) if np.ndim(data) else 1
    if count != len(index):
        told = f"data argument and {factor.code} ({len(index)} versus {count})"
        raise patsy.PatsyError(f"Number of rows mismatch between {told}", factor)
    if isinstance(data, (pd.Series, pd.DataFrame)) and not data.index.equals(index):
        raise patsy.PatsyError(f"Index mismatch between data.index and {factor.code}", factor)


def _numeric(info: Any, value: Any) -> np.ndarray:
    """The values (n, q) of a factor of numbers."""
    made = value.to_numpy() if isinstance(value, pd.Series) else np.asarray(value)
    made = made if made.ndim > 1 else made.reshape(-1, 1)
    if made.ndim > 2 or made.shape[1] != info.num_columns:
        told = f"{made.shape[1]} columns instead of the {info.num_columns} I was expecting"
        raise patsy.PatsyError(f"when evaluating factor {info.factor.code}, I got {told}", info.factor)
    if not np.issubdtype(made.dtype, np.number):
        told = f"I got non-numeric data of type '{made.dtype}'"
        raise patsy.PatsyError(f"when evaluating numeric factor {info.factor.code}, {told}", info.factor)
    return made


@contextmanager
def learning(formula: str) -> Iterator[None]:
    """What goes wrong while a formula is learned, in the user's terms."""
    try:
        yield
    except InputError:
        raise
    except patsy.PatsyError as error:
        raise FormulaError(f"formula={formula!r} cannot be used: {error}{_hint(error)}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}{_hint(error)}"
        raise FormulaError(f"formula={formula!r} cannot be evaluated on data: {text}") from error


def check_responses(formula: str, info: patsy.DesignInfo) -> None:
    """Refuse terms of the left side that are not one column of numbers each."""
    for term, part in info.term_slices.items():
        response = f"response {term.name()!r} in {formula!r}"
        for factor in (info.factor_infos[factor] for factor in term.factors):
            if factor.type != "numerical":
                levels = list(factor.categories)[:5]
                raise InputError(
                    f"{response} is not numeric (levels {levels}): convert it, with .astype(float) say; "
                    "code categories as 0, 1, ..., and give their labels in that order to conformity or "
                    "conformal_set"
                )
        if part.stop - part.start != 1:
            raise InputError(
                f"{response} has {part.stop - part.start} columns: give one; several responses are written "
                "'y1 + y2 ~ x'"
            )


def _hint(error: Exception) -> str:
    if "zero-size" in str(error) or "no levels" in str(error):
        return "\nEvery row has a missing value in a column of the formula."
    if "mismatch between column_names" in str(error):
        return "\nA column is called Intercept, as the constant is in formulas: rename the column."
    if any(words in str(error) for words in ("Index mismatch", "rows mismatch", "broadcast")):
        return "\nGive variables that are not columns of data its index, and a value for each row."
    if "unhashable" in str(error):
        return "\nA column has lists or arrays in it: give numbers, words, flags or dates."
    return ""


def right_side(
    formula: str, frame: pd.DataFrame, scope: Mapping[str, Any]
) -> tuple[patsy.DesignInfo, Evaluated]:
    """The design of the right side of a formula, and its factors at the complete rows."""
    terms = patsy.ModelDesc.from_formula("~" + formula.split("~", 1)[1]).rhs_termlist
    (info,), made = _learned([terms], frame, scope)
    return info, made


def at_both(
    formula: str,
    frames: Sequence[pd.DataFrame],
    scope: Mapping[str, Any],
    missing: Literal["raise", "nan"] = "raise",
) -> tuple[np.ndarray, np.ndarray]:
    """The design of a one-sided formula, learned on the first frame, at the rows of both. Rows that lack a
    value are refused; those of the second are NaN where ``missing`` says so."""
    first, second = (plain_columns(frame, names_in(formula.lstrip("~ ")), "the frame") for frame in frames)
    info, made = right_side(formula, pd.DataFrame(first, index=frames[0].index), scope)
    rows = design_rows(info, second, frames[1].index)
    if len(made.kept) < len(frames[0]) or (missing == "raise" and np.isnan(rows).any()):
        where = "training" if len(made.kept) < len(frames[0]) else "new"
        raise InputError(f"a value is missing in the {where} rows: fill it, or leave such rows out")
    return made.matrix(info), rows


def design_rows(
    info: patsy.DesignInfo,
    columns: Mapping[Any, pd.Series],
    index: pd.Index,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Design rows (m, p) of columns with labels ``index``; NaN where incomplete, or not ``asked`` for."""
    count = len(index)
    if asked is not None and not asked.all():
        columns = {name: values[asked] for name, values in columns.items()}
        index = index[asked]
    rows = np.full((count, len(info.column_names)), np.nan)
    if not len(index):
        return rows
    if any(factor.code not in columns for factor in info.factor_infos):  # functions see numbered rows
        columns = {name: values.reset_index(drop=True) for name, values in columns.items()}
        index = pd.RangeIndex(len(index))
    made = evaluate([info], Table(columns), index)
    if len(made.kept) == count:
        return made.matrix(info)
    places = np.arange(count) if asked is None else np.flatnonzero(asked)
    rows[places[made.kept]] = made.matrix(info)
    return rows


def depending(info: patsy.DesignInfo, X: np.ndarray, frame: pd.DataFrame, kept: np.ndarray) -> list[str]:
    """The columns whose values at the last of the rows ``kept`` of a frame, ``X`` (n, p), are others where
    these rows are alone, such as ``I(x - np.mean(x))``."""
    few = frame.iloc[kept[-min(_ALONE, len(kept) // 2) :]]
    if not len(kept) or all(factor.code in few.columns for factor in info.factor_infos):
        return []
    try:
        alone = design_rows(info, few, few.index)
    except Exception:  # new rows will say why
        return []
    same = np.isclose(alone, X[len(X) - len(few) :], rtol=1e-9, atol=0.0).all(axis=0)
    return [name for name, is_same in zip(info.column_names, same, strict=True) if not is_same]
