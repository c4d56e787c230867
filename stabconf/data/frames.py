"""Frames as they come from a user: made plain, matched by label, checked for what cannot be used.

Every column of a user's frame that a formula or a term names comes through `plain_columns`.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ..errors import FormulaError, InputError, InputTypeError
from .cells import as_numbers

__all__ = [
    "as_frame",
    "by_label",
    "check_duplicates",
    "check_finite",
    "column_or_call",
    "copied",
    "formula_errors",
    "has_labels",
    "listed",
    "numbers",
    "plain_columns",
]


def as_frame(data: object, argument: str) -> pd.DataFrame:
    """A frame of rows; ``argument`` names it in errors."""
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        return data.to_frame().T.infer_objects()
    if isinstance(data, Mapping):
        try:
            return pd.DataFrame(data)
        except ValueError as error:
            raise InputError(
                f"{argument} cannot be made a frame ({error}): give lists of one length, or a DataFrame"
            ) from error
    raise InputTypeError(
        f"{argument} is a {type(data).__name__}: give a pandas DataFrame with the formula's columns"
    )


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
    dtype = values.dtype
    extension = pd.api.types.is_extension_array_dtype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        values = values.astype(object) if levels_from_data else values
    elif extension and pd.api.types.is_numeric_dtype(dtype):
        flag = pd.api.types.is_bool_dtype(dtype)
        values = values.astype(object if flag else float).where(values.notna(), np.nan)
    elif extension and pd.api.types.is_string_dtype(dtype) and dtype.na_value is pd.NA:
        values = values.astype(object).where(values.notna(), np.nan)
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
