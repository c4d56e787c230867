"""Frames as they come from a user: made plain, matched by label, checked for what cannot be used.

Frames of polars, pyarrow, duckdb and others become pandas frames in `as_frame`, through narwhals; every
column that a formula or a term names comes through `plain_columns`. `in_kind` is the way back.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame

from ..errors import FormulaError, InputError, InputTypeError
from .cells import as_numbers

__all__ = [
    "IntoFrame",
    "as_frame",
    "by_label",
    "check_duplicates",
    "check_finite",
    "collected",
    "column_or_call",
    "copied",
    "formula_errors",
    "has_labels",
    "in_kind",
    "listed",
    "numbers",
    "plain_columns",
]


def as_frame(data: object, argument: str) -> pd.DataFrame:
    """A frame of rows; ``argument`` names it in errors."""
    if isinstance(data, pd.Series):
        return data.to_frame().T.infer_objects()
    data = collected(data)
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, Mapping):
        try:
            return pd.DataFrame(data)
        except ValueError as error:
            raise InputError(
                f"{argument} cannot be made a frame ({error}): give lists of one length, or a DataFrame"
            ) from error
    raise InputTypeError(
        f"{argument} is a {type(data).__name__}: give a pandas DataFrame (or one of polars, pyarrow, "
        "duckdb) with the formula's columns"
    )


def collected(data: Any) -> Any:
    """A frame of polars, pyarrow, duckdb and the like as one of pandas, its rows numbered; queries are run.
    Anything else as it is."""
    if isinstance(data, (pd.DataFrame, pd.Series, np.ndarray)):
        return data
    frame = nw.from_native(data, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        return data
    return pd.DataFrame({name: _pandas_column(frame[name]) for name in frame.columns})


def _pandas_column(values: Any) -> Any:
    """A column of narwhals with numpy's types where it has one, else as objects."""
    dtype = values.dtype
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        cells = values.cast(nw.String).to_list()
        levels = list(dtype.categories) if isinstance(dtype, nw.Enum) else None
        return pd.Categorical(cells, categories=levels)
    if dtype.is_float() or ((dtype.is_integer() or dtype == nw.Boolean) and not values.is_null().any()):
        return values.to_numpy()
    if dtype.is_integer():
        return values.cast(nw.Float64).to_numpy()
    return pd.Series(values.to_list(), dtype=None if dtype.is_temporal() else object)


def in_kind(frame: pd.DataFrame, to: Literal["pandas", "polars", "pyarrow"]) -> Any:
    """A frame of results as one of pandas, polars or pyarrow.

    Labels of rows become a column unless they are numbers in order; of columns on two levels both are in
    the name, ``lower_0.1`` say.
    """
    if to == "pandas":
        return frame
    if to != "polars" and to != "pyarrow":
        raise InputError(f"to={to!r} is unknown: give 'pandas', 'polars' or 'pyarrow'")
    if frame.columns.nlevels > 1:
        frame = frame.set_axis([f"{name}_{level:g}" for level, name in frame.columns], axis=1)
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    try:
        return nw.from_dict(columns, backend=to).to_native()
    except ModuleNotFoundError as error:
        raise InputError(f"to={to!r} needs {to}, which is not installed: pip install {to}") from error


def copied(value: Any) -> Any:
    """A copy of a user's data, which later changes of them leave alone; any other object as it is.

    Examples
    --------
    >>> knots = [np.array([1.0, 2.0])]
    >>> kept = copied(knots)
    >>> knots[0][0] = 9.0
    >>> kept
    [array([1., 2.])]
    """
    if isinstance(value, (pd.DataFrame, pd.Series)):
        made = value.copy()
        made.index = value.index.copy(deep=True)  # it may be a view of an array
        return made
    if isinstance(value, (np.ndarray, pd.api.extensions.ExtensionArray)):
        return value.copy()
    if type(value) is dict:
        return {name: copied(content) for name, content in value.items()}
    return type(value)(map(copied, value)) if type(value) in (list, tuple, set) else value


def by_label(values: Any, index: pd.Index, what: str) -> Any:
    """A Series in the order of the rows, matched by label; anything else as it is, for it goes by position.

    Examples
    --------
    >>> by_label(pd.Series([1.0, 2.0], index=["b", "a"]), pd.Index(["a", "b"]), "weights").tolist()
    [2.0, 1.0]
    """
    if not isinstance(values, pd.Series) or values.index.equals(index):
        return values
    lacking = index[~has_labels(values.index, index)]
    if len(lacking):
        problem = f"lacks the label {lacking[0]} of a row ({len(lacking)} of {len(index)} are not there)"
    elif not values.index.is_unique:
        problem = f"has the label {values.index[values.index.duplicated()][0]} more than once"
    elif not index.is_unique:
        problem = "has other labels than the rows, which have some more than once"
    else:
        return values.reindex(index)
    raise InputError(
        f"{what} is a Series whose index {problem}: give it the index of the rows, or .to_numpy() if its "
        "values are in their order"
    )


def has_labels(labels: pd.Index, index: pd.Index) -> np.ndarray:
    """Which entries of ``index`` are among the labels (bools)."""
    return index.isin(labels) if labels.nlevels == index.nlevels else np.zeros(len(index), dtype=bool)


def plain_columns(
    frame: pd.DataFrame, used: Collection[Hashable], argument: str, levels_from_data: bool = False
) -> pd.DataFrame:
    """The columns of a user's frame that are in ``used``, with numpy's types.

    Missing values then look the same in every column. ``levels_from_data`` forgets levels of categories
    that no row has.
    """
    columns = [column for column in frame.columns if column in used]
    check_duplicates(frame, columns, argument)
    made = {column: _plain(frame[column], levels_from_data) for column in columns}
    return pd.DataFrame(made, index=frame.index, copy=False)


def _plain(values: pd.Series, levels_from_data: bool) -> pd.Series:
    if str(values.dtype).startswith("dictionary"):  # arrow's categories
        values = values.astype(object).astype("category")
    dtype = values.dtype
    extension = pd.api.types.is_extension_array_dtype(dtype)
    flag = pd.api.types.is_bool_dtype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return values.astype(object) if levels_from_data else values
    if not extension and dtype.kind in "iu" and dtype != np.int64:  # small integers overflow in k ** 2
        small = dtype.itemsize < 8 or int(values.max()) <= np.iinfo(np.int64).max
        return values.astype(np.int64 if small else float)
    if extension and (flag or pd.api.types.is_numeric_dtype(dtype)):
        values = values.astype(object if flag else float).where(values.notna(), np.nan)
    elif extension and pd.api.types.is_string_dtype(dtype) and dtype.na_value is pd.NA:
        values = values.astype(object)
    if values.dtype == object and not flag:
        values = values.where(values.notna(), np.nan)
    return as_numbers(values)


def check_duplicates(frame: pd.DataFrame, columns: Collection[Hashable], argument: str) -> None:
    """Refuse columns that are there twice."""
    twice = frame.columns[frame.columns.duplicated()]
    clash = sorted({str(column) for column in columns if column in twice})
    if clash:
        raise InputError(
            f"{argument} has more than one {listed(clash, 'column')}: rename or drop the duplicates"
        )


def check_finite(
    values: np.ndarray, names: Sequence[str], index: pd.Index, argument: str, allow_nan: bool = False
) -> None:
    """Refuse values (n, p) that are not finite (or, with ``allow_nan``, infinite)."""
    bad = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{argument} gives {values[row, column]} for {names[column]!r} in row {index[row]} "
            f"({int(bad.sum())} such values): remove or replace it"
        )


def column_or_call(
    what: str | Callable[[pd.DataFrame], Any], frames: Sequence[pd.DataFrame], argument: str, also: str
) -> list[Any]:
    """A column of the training and of the new frame, or what a callable makes of each."""
    if callable(what):
        return [what(frame) for frame in frames]
    for frame, name in zip(frames, ("data", "exog"), strict=True):
        if what not in frame.columns:
            raise InputError(f"{argument}={what!r} is not a column of {name}: add it, or give {also}")
    return [frame[what] for frame in frames]


def listed(names: Sequence[object], what: str) -> str:
    """Names in words."""
    return f"{what}{'s' if len(names) != 1 else ''} {', '.join(map(repr, names))}"


def numbers(values: Any, what: str) -> np.ndarray:
    """Values as an array of numbers; ``what`` names them in errors."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{what} are not numbers ({error}): give positive numbers") from error


@contextmanager
def formula_errors(problem: str, fix: str = "") -> Iterator[None]:
    """Whatever goes wrong inside is a `FormulaError`: the problem, the first line of the cause, the fix."""
    try:
        yield
    except Exception as error:
        cause = str(error).split("\n")[0]
        raise FormulaError(f"{problem}: {cause}{fix}") from error
