"""The intervals of a report: in one sentence, in a table, and all of them as CSV.

`content.collect` calls these.
"""

from typing import Any

import numpy as np
import pandas as pd

from ..shown import Shown
from ..tables import Table, cell, percent, told_apart
from ..widths import WidthReport

__all__ = [
    "Columns",
    "chance",
    "csv_of",
    "interval_csv",
    "interval_table",
    "lead_sentence",
    "marks",
    "size_in_words",
    "table_of",
]

Columns = dict[str, Any]  # of a table, by their head

_ROWS = 200  # intervals that are listed
_COLUMNS = 8  # of the model that are listed beside them
_LETTERS = 26  # of a category
_CSV = 2_000_000  # characters; the page of 20,000 rows stays below 5 MB


def lead_sentence(shown: Shown, report: WidthReport) -> str:
    """How wide the intervals are, how many responses they hold, and whether that is as it should be."""
    attrs, line = shown.attrs, report.iloc[0]
    start = f"{percent(1 - attrs['alpha'])} intervals of {attrs['response']}"
    where = "the training points" if shown.training else f"{len(shown.frame)} new rows"
    sentence = f"{start} at {where} {size_in_words(shown)}"
    hits = shown.hits[~np.isnan(shown.hits)]
    if not len(hits):
        return f"{sentence}."
    sentence += f"; {int(hits.sum())} of {len(hits)} new responses are inside ({percent(np.mean(hits))})."
    return f"{sentence}{chance(line, hits)}"


def chance(line: pd.Series, hits: np.ndarray) -> str:
    """Whether as many hits were to be expected, from a line of a `WidthReport`; "" where nobody knows."""
    low, high = line["expected_lower"] * len(hits), line["expected_upper"] * len(hits)
    if np.isnan(low):
        return ""
    if hits.sum() < round(low):
        return f" That is fewer than chance explains: {low:.0f} to {high:.0f} were expected."
    return f" Between {low:.0f} and {high:.0f} would be no surprise."


def size_in_words(shown: Shown) -> str:
    """The size of the intervals in words: half widths where they lie about their predictions."""
    finite = np.isfinite(shown.widths)
    if not finite.any():
        return "are infinite" if len(shown.widths) else "are none"
    widths, side = shown.widths[finite], shown.attrs["side"]
    if side != "two-sided":
        where = "above" if side == "upper" else "below"
        return f"reach {cell(float(np.mean(widths)))} {where} predictions on average"
    centre = 0.5 * (shown.lower[finite] + shown.upper[finite])
    if np.mean(np.abs(shown.mean[finite] - centre)) > 0.05 * np.mean(widths):
        text, half = f"are {cell(float(np.mean(widths)))} wide on average", 1.0
    else:
        text, half = f"are ±{cell(float(np.mean(widths)) / 2)} on average", 0.5
    low, high = half * float(widths.min()), half * float(widths.max())
    if high > 1.2 * low:
        text += f" (from {cell(low)} to {cell(high)})"
    infinite = int(np.sum(np.isinf(shown.widths)))
    return f"{text}, {infinite} of them infinite" if infinite else text


def interval_table(shown: Shown, predictors: list[str]) -> Table:
    """The first new rows: what was predicted, what came, and the columns that the model uses."""
    listed = predictors[:_COLUMNS]
    cut = f"The first {_COLUMNS} of {len(predictors)} columns that the model uses."
    return table_of(shown.frame.index, _columns(shown, listed), cut if len(predictors) > _COLUMNS else "")


def table_of(index: pd.Index, columns: Columns, note: str) -> Table:
    """The first rows of columns (m,), under the labels of the rows."""
    header = ["row", *columns]
    values = [list(map(_plain, each[:_ROWS])) for each in (index, *columns.values())]
    texts = [values[0], *(told_apart(each, _LETTERS) for each in values[1:])]
    lines = list(map(list, zip(*texts, strict=True)))
    rows = f"The first {_ROWS} of {len(index)} rows." if len(index) > _ROWS else ""
    return Table("", header, lines, f"{rows} {note}".strip())


def interval_csv(shown: Shown, predictors: list[str]) -> str:
    """All new rows as CSV; without the columns of the model where they are many, "" for too many rows."""
    index = shown.frame.index
    return csv_of(index, _columns(shown, predictors)) or csv_of(index, _columns(shown, []))


def csv_of(index: pd.Index, columns: Columns) -> str:
    """Columns (m,) as CSV, or "" where that is too long for a page."""
    label = "row" if index.nlevels == 1 else [name or f"row {i}" for i, name in enumerate(index.names)]
    made = pd.DataFrame(columns).set_axis(index)
    text = made.to_csv(index_label=label, float_format="%.7g", lineterminator="\n")
    return text if len(text) <= _CSV else ""


def marks(hits: np.ndarray) -> np.ndarray:
    """Hits in words, "" where they are not known."""
    return np.where(np.isnan(hits), "", np.where(hits == 1.0, "yes", "missed"))


def _columns(shown: Shown, predictors: list[str]) -> Columns:
    """Columns of the tables, by their head; those of the model under another name where one is taken."""
    columns: Columns = {"prediction": shown.mean, "lower": shown.lower, "upper": shown.upper}
    if shown.y is not None and np.isfinite(shown.y).any():
        columns["actual"] = shown.y
        columns["inside"] = marks(shown.hits)
    for name in predictors:
        head = f"{name} (column)" if name in columns else str(name)
        columns[head] = shown.frame[name].to_numpy()
    return columns


def _plain(value: object) -> str:
    if not isinstance(value, tuple) and pd.isna(value):
        return ""
    return cell(float(value) if isinstance(value, np.floating) else value)
