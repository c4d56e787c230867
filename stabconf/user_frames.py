"""Frames as they come from a user: made plain, and checked for what cannot be used."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from .errors import InputError, InputTypeError

__all__ = ["as_frame", "check_duplicates", "check_finite", "listed", "numbers", "numbers_lost", "plain"]


def as_frame(data, argument):
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


def plain(frame, levels_from_data=False):
    """Extension dtypes as numpy ones, so that missing values look the same everywhere."""
    made = {}
    for column in frame.columns:
        values = frame[column]
        dtype = values.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            made[column] = values.astype(object) if levels_from_data else values
        elif pd.api.types.is_extension_array_dtype(dtype) and pd.api.types.is_numeric_dtype(dtype):
            flag = pd.api.types.is_bool_dtype(dtype)
            made[column] = values.astype(object if flag else float).where(values.notna(), np.nan)
        else:
            made[column] = values
    return pd.DataFrame(made, index=frame.index)


def check_duplicates(frame, columns, argument):
    """Refuse columns that are there twice."""
    twice = frame.columns[frame.columns.duplicated()]
    clash = sorted({str(column) for column in columns if column in twice})
    if clash:
        raise InputError(
            f"{argument} has more than one {listed(clash, 'column')}: rename or drop the duplicates"
        )


def check_finite(values, names, index, argument, allow_nan=False):
    """Refuse values that are not finite (or, with ``allow_nan``, infinite)."""
    bad = np.isinf(values) if allow_nan else ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{argument} gives {values[row, column]} for {names[column]!r} in row {index[row]} "
            f"({int(bad.sum())} such values): remove or replace it"
        )


def listed(names, what):
    """Names in words."""
    return f"{what}{'s' if len(names) != 1 else ''} {', '.join(map(repr, names))}"


def numbers(values, what):
    """Values as an array of numbers; ``what`` names them in errors."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{what} are not numbers ({error}): give positive numbers") from error


def numbers_lost(trained, new):
    """Whether a column is numeric in training and not at new rows."""
    kinds = [
        pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        for dtype in (trained.dtype, new.infer_objects().dtype)
    ]
    return kinds == [True, False]
