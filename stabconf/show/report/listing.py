"""The intervals of a report, of one response or of several at once: in a sentence, as a few numbers, in a
table, and all of them as CSV. `content` calls these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

from ..shown import Shown, WidthReport
from ..tables import Table, cell, percent, promised, told_apart

_ROWS = 200  # intervals that are listed
_COLUMNS = 8  # of the model that are listed beside them
_LETTERS = 26  # of a category
_CSV = 2_000_000  # characters; the page of 20,000 rows stays below 5 MB


def listed_names(names: Sequence[str]) -> str:
    """Names, or parts of a sentence, with an "and"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _joint_hits(shown: Sequence[Shown]) -> np.ndarray:
    """1 or 0 (m,), whether each row has all responses inside; NaN where that cannot be judged."""
    return np.min([each.hits for each in shown], axis=0)


def lead_sentence(shown: Sequence[Shown], widths: WidthReport) -> str:
    """How wide the intervals are, how many responses they hold, and whether that is as it should be; the
    last line of ``widths`` is of all rows."""
    first, several = shown[0], len(shown) > 1
    where = "the training points" if first.training else f"{len(first.frame)} new rows"
    sizes = listed_names([f"of {each.attrs['response']} {_size_in_words(each)}" for each in shown])
    level = percent(1 - first.attrs["alpha"])
    if several:
        sentence = f"{level} joint intervals at {where}: those {sizes}"
    else:
        sentence = f"{level} intervals of {first.attrs['response']} at {where} {_size_in_words(first)}"
    hits = _joint_hits(shown)
    hits = hits[~np.isnan(hits)]
    if not len(hits):
        return f"{sentence}."
    inside = f"new responses are inside ({percent(np.mean(hits))})"
    what = "rows have all responses inside" if several else inside
    return f"{sentence}; {int(hits.sum())} of {len(hits)} {what}.{_chance(widths.iloc[-1], hits)}"


def _chance(line: pd.Series, hits: np.ndarray) -> str:
    """Whether as many hits were to be expected, from a line of a `WidthReport`; "" where nobody knows."""
    low, high = line["expected_lower"] * len(hits), line["expected_upper"] * len(hits)
    if np.isnan(low):
        return ""
    if hits.sum() < round(low):
        return f" That is fewer than chance explains: {low:.0f} to {high:.0f} were expected."
    return f" Between {low:.0f} and {high:.0f} would be no surprise."


def _size_in_words(shown: Shown) -> str:
    """The size of the intervals in words: half widths where they lie about their predictions."""
    finite = np.isfinite(shown.widths)
    if not finite.any():
        return "are infinite" if len(shown.widths) else "are none"
    widths, side = shown.widths[finite], shown.attrs["side"]
    if side != "two-sided":
        where = "above" if side == "upper" else "below"
        return f"reach {cell(np.mean(widths))} {where} predictions on average"
    centre = 0.5 * (shown.lower[finite] + shown.upper[finite])
    text = f"are {cell(np.mean(widths))} wide on average"
    if np.mean(np.abs(shown.mean[finite] - centre)) <= 0.05 * np.mean(widths):
        widths = 0.5 * widths
        text = f"are ±{cell(np.mean(widths))} on average"
    if widths.max() > 1.2 * widths.min():
        text += f" (from {cell(widths.min())} to {cell(widths.max())})"
    infinite = int(np.sum(np.isinf(shown.widths)))
    return f"{text}, {infinite} of them infinite" if infinite else text


def interval_facts(shown: Sequence[Shown]) -> list[tuple[str, str]]:
    """A few numbers that say how good the intervals and the predictions are."""
    first, several = shown[0], len(shown) > 1
    what = "joint coverage promised" if several else "coverage promised"
    facts = [(what, promised(first.attrs["promise"]))]
    hits = _joint_hits(shown)
    hits = hits[~np.isnan(hits)]
    if len(hits):
        what = "rows wholly inside" if several else "responses inside"
        facts.append((what, f"{int(hits.sum())} of {len(hits)}"))
    for each in shown:
        what = "mean width" if each.attrs["side"] == "two-sided" else "mean margin"
        finite = each.widths[np.isfinite(each.widths)]
        if len(finite):
            of = f" of {each.attrs['response']}" if several else ""
            facts.append((f"{what}{of}", cell(np.mean(finite))))
    if first.y is not None and not first.training and not several:
        away = first.y - first.mean
        away = away[np.isfinite(away)]
        if len(away):
            facts.append(("mean abs. error", cell(np.mean(np.abs(away)))))
            facts.append(("root mean sq. error", cell(linalg.norm(away) / len(away) ** 0.5)))
    return facts


def interval_table(shown: Sequence[Shown], predictors: list[str]) -> Table:
    """The first new rows: what was predicted, what came, and the columns that the model uses."""
    index = shown[0].frame.index
    columns = _columns(shown, predictors[:_COLUMNS])
    values = [list(map(_as_text, each[:_ROWS])) for each in (index, *columns.values())]
    texts = [values[0], *(told_apart(each, _LETTERS) for each in values[1:])]
    notes = [f"The first {_ROWS} of {len(index)} rows."] if len(index) > _ROWS else []
    if len(predictors) > _COLUMNS:
        notes.append(f"The first {_COLUMNS} of {len(predictors)} columns that the model uses.")
    return Table("", ["row", *columns], list(map(list, zip(*texts, strict=True))), " ".join(notes))


def interval_csv(shown: Sequence[Shown], predictors: list[str]) -> str:
    """All new rows as CSV; without the columns of the model where they are many, "" for too many rows."""
    index = shown[0].frame.index
    label = "row" if index.nlevels == 1 else [name or f"row {i}" for i, name in enumerate(index.names)]
    for listed in (predictors, []):
        made = pd.DataFrame(_columns(shown, listed)).set_axis(index)
        text = made.to_csv(index_label=label, float_format="%.7g", lineterminator="\n")
        if len(text) <= _CSV:
            return text
    return ""


def _columns(shown: Sequence[Shown], predictors: list[str]) -> dict[str, Any]:
    """Columns of the tables, by their head; those of the model under another name where one is taken."""
    first, several = shown[0], len(shown) > 1
    hits = _joint_hits(shown)
    inside = {"inside": np.where(np.isnan(hits), "", np.where(hits == 1.0, "yes", "missed"))}
    columns: dict[str, Any] = inside if several and not np.isnan(hits).all() else {}
    for each in shown:
        name = each.attrs["response"]
        heads = [name, f"{name} lower", f"{name} upper", f"{name} actual"]
        heads = heads if several else ["prediction", "lower", "upper", "actual"]
        values = [each.mean, each.lower, each.upper]
        if each.y is not None and np.isfinite(each.y).any():
            values.append(each.y)
        columns |= dict(zip(heads, values, strict=False))
    columns |= inside if "actual" in columns and not several else {}
    for name in predictors:
        head = f"{name} (column)" if name in columns else str(name)
        columns[head] = first.frame[name].to_numpy()
    return columns


def _as_text(value: object) -> str:
    if not isinstance(value, tuple) and pd.isna(value):
        return ""
    return cell(float(value) if isinstance(value, np.floating) else value)
