"""What the cells of a column are: numbers, text, dates; and columns that a formula would misread.

A formula makes a category of every column that is not of numbers, with one level per value. One cell of
text among numbers, or a column of dates, then gives hundreds of levels, so such columns are refused unless
the formula says that they are categories. `design` asks before it evaluates a formula.
"""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pandas as pd

from ..checks import is_number
from ..errors import DataWarning, InputError, warn_user

__all__ = ["as_numbers", "check_column", "check_new_column", "warn_of_levels"]

_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")  # as pandas calls them
_MIXED = ("mixed", "mixed-integer")
_DURATIONS = ("timedelta", "timedelta64")
_TIMES = ("datetime", "datetime64", "date", "period", *_DURATIONS)
_MOSTLY = 0.8  # share of numbers among the values from which on the others are strays
_SHOWN = 3  # cells that a message names
_FEW = 20  # levels that are never too many: small designed experiments have a level for two rows


def as_numbers(values: pd.Series) -> pd.Series:
    """A column of objects that are all numbers, as numbers; any other column as it is.

    Examples
    --------
    >>> as_numbers(pd.Series([1, Decimal("2.5"), None], dtype=object)).tolist()
    [1.0, 2.5, nan]
    """
    if values.dtype != object:
        return values
    kind = _kind(values)
    if kind not in (*_NUMBERS, *_MIXED) or (kind in _MIXED and _not_numbers(values).any()):
        return values
    known = values.where(values.notna(), np.nan)
    return pd.to_numeric(known) if kind in _NUMBERS else known.astype(float)


def stray_cells(values: pd.Series) -> pd.Series:
    """The cells of a column that keep it from being one of numbers; none where it is not meant as one.

    These are the cells that are not numbers (or text of numbers) where four fifths of the different values
    are, and the texts in a column whose other cells are numbers. Text that is of numbers throughout counts
    as meant: codes are often written so.

    Examples
    --------
    >>> stray_cells(pd.Series(["1.5", "2", "unknown", "7", "0.1", "3"])).to_dict()
    {2: 'unknown'}
    >>> len(stray_cells(pd.Series(["a", "b", "3"])))
    0
    """
    none = values.iloc[:0]
    if isinstance(values.dtype, pd.CategoricalDtype):
        return none
    try:
        different = pd.Series(pd.unique(values), dtype=object).dropna()
        if _kind(different) not in ("string", *_MIXED):
            return none
        number = pd.to_numeric(different, errors="coerce").notna()
    except TypeError:  # cells such as lists
        return none
    strays = ~number
    if number.all():
        strays = different.map(lambda value: isinstance(value, str))
    if strays.all() or number.mean() < _MOSTLY:
        return none
    return values[values.isin(different[strays])]


def check_column(values: pd.Series, name: str, response: bool, category: bool) -> None:
    """Refuse a training column that the formula would misread.

    A ``response`` cannot be a category; ``category`` is whether the formula says that it is one.
    """
    if _is_numeric(values.dtype):
        return
    column = f"data[{name!r}]"
    kind = _kind(values)
    unknown = isinstance(values.dtype, (pd.DatetimeTZDtype, pd.PeriodDtype))  # to patsy, even in C()
    written = f"write C({name})" if name.isidentifier() else f"write C(Q({name!r}))"
    also = f", or {f'give {column}.astype(str)' if unknown else written} if it is a category"
    also = "" if response else also
    if unknown or (not category and kind in _TIMES):
        what, fix = _time_fix(kind, column)
        raise InputError(f"column {name!r} of data holds {what} ({values.dtype}): {fix}{also}")
    strays = values.iloc[:0] if category else stray_cells(values)
    if len(strays):
        named = ", ".join(f"{value!r} (row {label})" for label, value in strays.iloc[:_SHOWN].items())
        more = len(strays) - _SHOWN
        named = named if more <= 0 else f"{named} and {more} more such cells"
        raise InputError(
            f"column {name!r} of data has {named} among numbers, so that every number would be "
            f"a level of a category: make it numeric, {column} = pd.to_numeric({column}, errors='coerce') "
            f"(what is no number then counts as missing){also}"
        )


def check_new_column(values: pd.Series, dtype: object, name: str, index: pd.Index) -> None:
    """Refuse cells of new rows that are not numbers where the training column, of ``dtype``, is numeric."""
    if not _is_numeric(dtype):
        return
    places = np.flatnonzero(_not_numbers(values))
    if len(places):
        raise InputError(
            f"exog has {values.iloc[places[0]]!r} in {name!r}, which was numeric in training (row "
            f"{index[places[0]]}): give numbers, with pd.to_numeric say"
        )


def warn_of_levels(levels: Mapping[str, int], n: int) -> None:
    """Warn of categories with more levels than half the n rows: a level of one row says nothing."""
    many = {code: count for code, count in levels.items() if count > max(_FEW, n / 2)}
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
    if _is_numeric(values.dtype):
        return np.zeros(len(values), dtype=bool)
    number = [is_number(value) or isinstance(value, Decimal) for value in values]
    return ~np.array(number, dtype=bool) & values.notna().to_numpy()


def _is_numeric(dtype: object) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _time_fix(kind: str, column: str) -> tuple[str, str]:
    """What a column of times holds, and how to make a number of it."""
    if kind in _DURATIONS:
        return "durations", f"give a number, pd.to_timedelta({column}).dt.total_seconds() say"
    start = f"{column}.dt.to_timestamp()" if kind == "period" else f"pd.to_datetime({column})"
    what = "periods" if kind == "period" else "dates"
    return what, f"give a number such as days, t = {start}; data['days'] = (t - t.min()).dt.days"
