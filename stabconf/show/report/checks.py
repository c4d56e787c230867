"""Data checks: rows left out, categories, new rows outside of what training saw, leverage."""

import numpy as np
import pandas as pd

from ..tables import cell, percent
from .parts import Table

__all__ = ["data_checks", "leverages"]

_SHOWN = 10  # labels, and new rows, that are listed
_LEVELS = 30  # levels of a category that are listed


def data_checks(results, new, options):
    """Tables of what should be known about the data.

    Parameters
    ----------
    results : BaseResults
    new : DataFrame or None
    options : dict
        Of the intervals.

    Returns
    -------
    list of Table
    """
    design = results._design
    trained = design.frame_of(None)[design.predictors]
    frame = None if new is None else design.frame_of(new)[design.predictors]
    X, rows = results._rows_as_fitted(None, {}), None
    if new is not None:
        rows = results._rows_as_fitted(new, options)
    numeric = [name for name in trained.columns if _is_number(trained[name])]
    others = [name for name in trained.columns if name not in numeric]
    tables = [_row_table(design, rows)]
    if numeric:
        tables.append(_range_table(trained[numeric], None if frame is None else frame[numeric]))
    tables += [_level_table(name, trained[name], None if frame is None else frame[name]) for name in others]
    return [*tables, _leverage_table(X, rows, None if frame is None else frame.index)]


def leverages(X, rows):
    """Leverages of the rows of X (n,) and, in the same metric, of others (m,); NaN where incomplete.

    Examples
    --------
    >>> X = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> [values.round(2).tolist() for values in leverages(X, np.array([[1.0, 3.0]]))]
    [[0.83, 0.33, 0.83], [4.83]]
    """
    _, sizes, directions = np.linalg.svd(X, full_matrices=False)
    kept = sizes > sizes[0] * max(X.shape) * np.finfo(float).eps
    root = directions[kept].T / sizes[kept]
    return np.sum((X @ root) ** 2, axis=1), np.sum((rows @ root) ** 2, axis=1)


def _is_number(column):
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def _row_table(design, rows):
    lines = [
        ["training rows used", str(len(design.y))],
        ["dropped, a value is missing", str(len(design.dropped))],
    ]
    if len(design.dropped):
        lines.append(["dropped rows", _labels(design.dropped)])
    if rows is not None:
        lacking = int(np.isnan(rows).any(axis=1).sum())
        lines += [["new rows", str(len(rows))], ["without an interval, a value is missing", str(lacking)]]
    return Table("Rows", ["", "count"], lines)


def _range_table(trained, new):
    header = ["column", "least", "median", "largest"]
    header += [] if new is None else ["least, new", "largest, new", "new rows outside"]
    lines, beyond = [], 0
    for name in trained.columns:
        values = pd.to_numeric(trained[name]).to_numpy(dtype=float, na_value=np.nan)
        low, high = float(values.min()), float(values.max())
        line = [str(name), *map(cell, (low, float(np.median(values)), high))]
        if new is not None:
            fresh = pd.to_numeric(new[name]).to_numpy(dtype=float, na_value=np.nan)
            fresh = fresh[~np.isnan(fresh)]
            outside = int(np.sum((fresh < low) | (fresh > high)))
            beyond += outside
            ends = (float(fresh.min()), float(fresh.max())) if len(fresh) else (np.nan, np.nan)
            line += [*map(cell, ends), str(outside)]
        lines.append(line)
    note = "Outside of what training saw the model extrapolates, and rows are hardly exchangeable with it."
    return Table("Range of the numbers", header, lines, note if beyond else "")


def _level_table(name, trained, new):
    counts = [column.astype(object).value_counts() for column in (trained, new) if column is not None]
    levels = list(counts[0].index)
    lines = [
        [str(level), *(str(int(count.get(level, 0))) for count in counts)] for level in levels[:_LEVELS]
    ]
    header = [str(name), "training", *(["new"] if new is not None else [])]
    more = len(levels) - _LEVELS
    return Table(f"Categories of {name}", header, lines, f"{more} more are not listed." if more > 0 else "")


def _leverage_table(X, rows, index):
    own, other = leverages(X, X[:0] if rows is None else rows)
    lines = [["training", cell(float(np.median(own))), cell(float(own.max())), ""]]
    note = ""
    if rows is not None and np.isfinite(other).any():
        known = np.isfinite(other)
        far = known & (other > own.max())
        share = percent(far.sum() / known.sum())
        measures = [float(np.median(other[known])), float(other[known].max())]
        lines.append(["new", *map(cell, measures), f"{int(far.sum())} ({share})"])
        if far.any():
            order = np.argsort(-np.where(far, other, -np.inf), kind="stable")[: int(far.sum())]
            note = f"Farther out than any training row: {_labels(index[order])}."
    return Table("Leverage", ["rows", "median", "largest", "above the largest in training"], lines, note)


def _labels(index):
    words = ", ".join(map(str, index[:_SHOWN]))
    return words if len(index) <= _SHOWN else f"{words} and {len(index) - _SHOWN} more"
