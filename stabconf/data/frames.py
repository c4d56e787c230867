"""Frames as they come from a user: made plain, matched by label, checked for what cannot be used.

Frames of polars, pyarrow, duckdb and others become pandas frames in `as_frame`; every column that a
formula or a term names comes through `plain_columns`. `in_kind` is the way back. A formula makes a category
of every column that is not of numbers: one cell of text among numbers, or a column of dates, then gives
hundreds of levels, so such columns are refused unless the formula says that they are categories.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NoReturn

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame as IntoFrame

from ..checks import is_number
from ..errors import DataWarning, InputError, InputTypeError, warn_user

_PLAIN = (np.dtype(float), np.dtype(np.int64))
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")  # as pandas calls them
_MIXED = ("mixed", "mixed-integer")
_DURATIONS = ("timedelta", "timedelta64")
_TIMES = ("datetime", "datetime64", "date", "period", *_DURATIONS)
_MOSTLY = 0.8  # share of numbers among the values from which on the others are strays
_SHOWN = 3  # cells that a message names
_FEW = 20  # levels that are never too many: small designed experiments have a level for two rows


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
    """A frame of polars, pyarrow, duckdb and the like, or a query, as one of pandas; all else as it is."""
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
        taken = {name: f"{name} of the row" for name in set(frame.index.names) & set(frame.columns)}
        frame = frame.rename_axis(index=taken).reset_index()
    mixed = [name for name in frame if pd.api.types.infer_dtype(frame[name]).startswith("mixed")]
    frame = frame.assign(**{str(name): frame[name].map(str) for name in mixed})  # labels, of several types
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    try:
        return nw.from_dict(columns, backend=to).to_native()
    except ModuleNotFoundError as error:
        raise InputError(f"to={to!r} needs {to}, which is not installed: pip install {to}") from error


def copied(value: Any) -> Any:
    """A copy of a user's data, which later changes of them leave alone; any other object as it is."""
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
    """A Series in the order of the rows, matched by label; all else as it is, for it goes by position."""
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
    frame: pd.DataFrame, used: Collection[Hashable], argument: str, trained: pd.DataFrame | None = None
) -> dict[Any, pd.Series]:
    """The columns of a user's frame that are in ``used``, with numpy's types, by name.

    Missing values then look the same in every column. Categories of new rows have the levels of the
    ``trained`` column, or are plain values where it has not all of theirs.
    """
    columns = [column for column in frame.columns.tolist() if column in used]
    check_duplicates(frame, columns, argument)
    made = {column: _plain(frame[column]) for column in columns}
    if trained is not None:
        for name, values in made.items():
            if isinstance(values.dtype, pd.CategoricalDtype):
                made[name] = _like(trained[name].dtype if name in trained.columns else None, values)
    return made


def _like(dtype: Any, values: pd.Series) -> pd.Series:
    """Categories with the levels of the training column, or as plain values where it lacks one."""
    if isinstance(dtype, pd.CategoricalDtype) and values.cat.categories.isin(dtype.categories).all():
        return values.cat.set_categories(dtype.categories, ordered=dtype.ordered)
    return values.astype(object)


def _plain(values: pd.Series) -> pd.Series:
    if values.dtype in _PLAIN:
        return values
    if str(values.dtype).startswith("dictionary"):  # arrow's categories
        values = values.astype(object).astype("category")
    dtype = values.dtype
    extension = pd.api.types.is_extension_array_dtype(dtype)
    flag = pd.api.types.is_bool_dtype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        return values
    if not extension and dtype.kind in "iu":  # small integers overflow in k ** 2
        small = dtype.itemsize < 8 or int(values.max()) <= np.iinfo(np.int64).max
        return values.astype(np.int64 if small else float)
    if extension and (flag or pd.api.types.is_numeric_dtype(dtype)):
        values = values.astype(object if flag else float).where(values.notna(), np.nan)
    elif extension and pd.api.types.is_string_dtype(dtype) and dtype.na_value is pd.NA:
        values = values.astype(object)
    if values.dtype != object:
        return values
    values = values if flag else values.where(values.notna(), np.nan)
    kind = _kind(values)
    if kind in _MIXED and not _not_numbers(values).any():
        return values.astype(float)
    return pd.to_numeric(values) if kind in _NUMBERS else values


def lacking(columns: Mapping[Any, pd.Series], count: int) -> np.ndarray:
    """Which of ``count`` rows lack a value in one of these columns (bools)."""
    out = np.zeros(count, dtype=bool)
    for values in columns.values():
        known = values.dtype == float
        out |= np.isnan(values.to_numpy()) if known else values.isna().to_numpy()
    return out


def _stray_cells(values: pd.Series) -> pd.Series:
    """The cells of a column that keep it from being one of numbers; none where it is not meant as one.

    These are the cells that are not numbers (or text of numbers) where four fifths of the different values
    are, and the texts in a column whose other cells are numbers. Text that is of numbers throughout counts
    as meant: codes are often written so.
    """
    none = values.iloc[:0]
    try:
        different = pd.Series(pd.unique(values), dtype=object).dropna()
        if _kind(different) not in ("string", *_MIXED):
            return none
        number = pd.to_numeric(different, errors="coerce").notna()
    except TypeError:  # cells such as lists
        return none
    strays = different.map(lambda value: isinstance(value, str)) if number.all() else ~number
    if strays.all() or number.mean() < _MOSTLY:
        return none
    return values[values.isin(different[strays])]


def check_column(values: pd.Series, name: str, response: bool, category: bool) -> None:
    """Refuse a training column that the formula would misread; ``category`` is whether it says C(...)."""
    column = f"data[{name!r}]"
    if values.dtype.kind == "c":
        raise InputError(
            f"column {name!r} of data holds complex numbers: give {column}.abs(), or its real part"
        )
    if is_numeric(values.dtype):
        return
    kind = _kind(values)
    unknown = isinstance(values.dtype, (pd.DatetimeTZDtype, pd.PeriodDtype))  # to patsy, even in C()
    written = f"C({name})" if name.isidentifier() else f"C(Q({name!r}))"
    fix = f"give {column}.astype(str)" if unknown else f"write {written}"
    also = "" if response else f", or {fix} if it is a category"
    if unknown or (not category and kind in _TIMES):
        what = "durations" if kind in _DURATIONS else "periods" if kind == "period" else "dates"
        start = f"{column}.dt.to_timestamp()" if kind == "period" else f"pd.to_datetime({column})"
        fix = f"give a number such as days, t = {start}; data['days'] = (t - t.min()).dt.days"
        if kind in _DURATIONS:
            fix = f"give a number, pd.to_timedelta({column}).dt.total_seconds() say"
        raise InputError(f"column {name!r} of data holds {what} ({values.dtype}): {fix}{also}")
    category = category or isinstance(values.dtype, pd.CategoricalDtype)
    strays = values.iloc[:0] if category else _stray_cells(values)
    if len(strays):
        named = ", ".join(f"{value!r} (row {label})" for label, value in strays.iloc[:_SHOWN].items())
        named += f" and {len(strays) - _SHOWN} more such cells" if len(strays) > _SHOWN else ""
        raise InputError(
            f"column {name!r} of data has {named} among numbers, so that every number would be "
            f"a level of a category: make it numeric, {column} = pd.to_numeric({column}, errors='coerce') "
            f"(what is no number then counts as missing){also}"
        )


def check_new_column(values: pd.Series, name: str, trained: pd.DataFrame) -> None:
    """Refuse cells of new rows that are not numbers where the training column is numeric."""
    if values.dtype in _PLAIN or is_numeric(values.dtype) or not is_numeric(trained[name].dtype):
        return
    places = np.flatnonzero(_not_numbers(values))
    if len(places):
        raise InputError(
            f"exog has {values.iloc[places[0]]!r} in {name!r}, which was numeric in training (row "
            f"{values.index[places[0]]}): give numbers, with pd.to_numeric say"
        )


def warn_of_levels(levels: Mapping[str, Sequence[Any]], n: int) -> None:
    """Warn of levels that only blanks tell apart, and of more levels than half the n rows."""
    for code, found in levels.items():
        for blank in [level for level in found if str(level) != str(level).strip() in found][:1]:
            text = f"{code!r} has levels that differ in blanks alone, such as {blank!r}: use .str.strip()"
            warn_user(text, DataWarning)
    many = {code: len(found) for code, found in levels.items() if len(found) > max(_FEW, n / 2)}
    if many:
        named = ", ".join(f"{code!r} ({count} levels)" for code, count in many.items())
        warn_user(
            f"the formula has a category with nearly as many levels as the {n} rows: {named}. Make it a "
            "number if it is one, with pd.to_numeric say, merge rare levels, or drop the term",
            DataWarning,
        )


def _kind(values: pd.Series) -> str:
    """What pandas calls the values: "string", "integer", "mixed", "date", "period", ..."""
    return pd.api.types.infer_dtype(values, skipna=True)


def _not_numbers(values: pd.Series) -> np.ndarray:
    """Which cells hold something else than a number, True and False included; missing values do not."""
    number = [is_number(value) or isinstance(value, Decimal) for value in values]
    return ~np.array(number, dtype=bool) & values.notna().to_numpy()


def is_numeric(dtype: object) -> bool:
    """Whether values are numbers; flags are not."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def check_duplicates(frame: pd.DataFrame, columns: Collection[Hashable], argument: str) -> None:
    """Refuse columns that are there twice."""
    if frame.columns.is_unique:
        return
    twice = frame.columns[frame.columns.duplicated()]
    clash = sorted({str(column) for column in columns if column in twice})
    if clash:
        raise InputError(
            f"{argument} has more than one {listed(clash, 'column')}: rename or drop the duplicates"
        )


def refuse_missing(formula: str, frame: pd.DataFrame, rows: pd.Index) -> NoReturn:
    """Refuse rows (by label) that lack a value, in the frame or only once the formula is applied."""
    columns = [column for column, values in frame.items() if values.isna().any()]
    lacking = f"data has missing values in {listed(columns, 'column')}"
    if not columns:
        lacking = f"formula={formula!r} has no value where data has one"
    raise InputError(
        f"{lacking} ({len(rows)} rows, the first {', '.join(map(str, rows[:5]))}): fill or change them, or "
        "use missing='drop'"
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


def as_labels(values: pd.Series, name: object, argument: str) -> pd.Series:
    """The values of a column, each of which may be a label of a group."""
    each = values if values.dtype == object else ()
    odd = next((value for value in each if not isinstance(value, Hashable)), None)
    if odd is not None:
        raise InputTypeError(
            f"{argument}={name!r} has the value {odd!r}, a {type(odd).__name__}: groups are made of "
            "numbers, words, flags or dates"
        )
    return values


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
        raise InputTypeError(f"{what} are not numbers ({error}): give numbers") from error
