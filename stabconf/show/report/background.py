"""What a report is told about the fit, and its data checks: rows left out, categories, new rows outside of
what training saw, leverage.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...data.frames import is_numeric
from ..shown import Shown
from ..tables import Table, cell, percent

_SHOWN = 10  # labels, and new rows, that are listed
_LEVELS = 30  # levels of a category that are listed


@dataclass(frozen=True)
class Background:
    """What a report is told about the fit, beside the intervals at m rows.

    ``predictors`` are the columns that the formula's right-hand side uses, ``trained`` the n training rows
    that were used, ``dropped`` the labels of those that were not; ``X`` (n, p) and ``rows`` (m, p) are the
    training and new rows as the fit sees them, NaN where incomplete, None where there are no new ones.
    """

    formula: str
    predictors: list[str]
    trained: pd.DataFrame
    dropped: pd.Index
    X: np.ndarray
    rows: np.ndarray | None


def data_checks(shown: Shown, background: Background) -> list[Table]:
    """Tables of what should be known about the training rows, and about new ones."""
    trained = background.trained[background.predictors]
    new = None if background.rows is None else shown.frame[background.predictors]
    numeric = [name for name in trained.columns if is_numeric(trained[name].dtype)]
    tables = [_row_table(background)]
    if numeric:
        tables.append(_range_table(trained[numeric], new))
    for name in trained.columns.difference(numeric, sort=False):
        tables.append(_level_table(name, trained[name], None if new is None else new[name]))
    return [*tables, _leverage_table(background, shown.frame.index)]


def leverages(X: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leverages of the rows of X (n,) and, in the same metric, of others (m,); NaN where incomplete."""
    _, sizes, directions = np.linalg.svd(X, full_matrices=False)
    kept = sizes > sizes[0] * max(X.shape) * np.finfo(float).eps
    root = directions[kept].T / sizes[kept]
    return np.sum((X @ root) ** 2, axis=1), np.sum((rows @ root) ** 2, axis=1)


def _row_table(background: Background) -> Table:
    dropped, rows = background.dropped, background.rows
    lines = [["training rows used", str(len(background.trained))]]
    lines.append(["dropped, a value is missing", str(len(dropped))])
    if len(dropped):
        lines.append(["dropped rows", _labels(dropped)])
    if rows is not None:
        lacking = int(np.isnan(rows).any(axis=1).sum())
        lines += [["new rows", str(len(rows))], ["without an interval, a value is missing", str(lacking)]]
    return Table("Rows", ["", "count"], lines)


def _range_table(trained: pd.DataFrame, new: pd.DataFrame | None) -> Table:
    header = ["column", "least", "median", "largest"]
    header += [] if new is None else ["least, new", "largest, new", "new rows outside"]
    lines, beyond = [], 0
    for name in trained.columns:
        values = _numbers(trained[name])
        low, high = values.min(), values.max()
        line = [str(name), *map(cell, (low, np.median(values), high))]
        if new is not None:
            fresh = _numbers(new[name])
            ends = (fresh.min(), fresh.max()) if len(fresh) else (np.nan, np.nan)
            outside = int(np.sum((fresh < low) | (fresh > high)))
            line += [*map(cell, ends), str(outside)]
            beyond += outside
        lines.append(line)
    note = "Outside of what training saw the model extrapolates, and rows are hardly exchangeable with it."
    return Table("Range of the numbers", header, lines, note if beyond else "")


def _numbers(column: pd.Series) -> np.ndarray:
    """The values of a column that are known."""
    return pd.to_numeric(column).dropna().to_numpy(dtype=float)


def _level_table(name: str, trained: pd.Series, new: pd.Series | None) -> Table:
    counts = [column.astype(object).value_counts() for column in (trained, new) if column is not None]
    levels = list(counts[0].index)
    lines = [[str(level), *(str(count.get(level, 0)) for count in counts)] for level in levels[:_LEVELS]]
    header = [str(name), "training", *(["new"] if new is not None else [])]
    more = len(levels) - _LEVELS
    return Table(f"Categories of {name}", header, lines, f"{more} more are not listed." if more > 0 else "")


def _leverage_table(background: Background, index: pd.Index) -> Table:
    rows = background.X[:0] if background.rows is None else background.rows
    own, other = leverages(background.X, rows)
    lines = [["training", cell(np.median(own)), cell(own.max()), ""]]
    note = ""
    known = np.isfinite(other)
    if known.any():
        far = known & (other > own.max())
        count = f"{int(far.sum())} ({percent(far.sum() / known.sum())})"
        lines.append(["new", cell(np.median(other[known])), cell(other[known].max()), count])
        if far.any():
            order = np.argsort(-np.where(far, other, -np.inf), kind="stable")[: far.sum()]
            note = f"Farther out than any training row: {_labels(index[order])}."
    return Table("Leverage", ["rows", "median", "largest", "above the largest in training"], lines, note)


def _labels(index: pd.Index) -> str:
    words = ", ".join(map(str, index[:_SHOWN]))
    return words if len(index) <= _SHOWN else f"{words} and {len(index) - _SHOWN} more"
