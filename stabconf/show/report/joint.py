"""What a report says of several responses: boxes that hold all of them at once (theory, section 8).

`SeveralResults.report` calls `collect_joint`; formats and template are those of one response.
"""

from collections.abc import Sequence

import numpy as np

from ..shown import Shown
from ..summary import FitSummary, as_table
from ..tables import cell, percent
from ..widths import WidthReport
from .checks import data_checks
from .content import CITE, about, versions, width_table
from .figures import pair_figure
from .intervals import Columns, chance, csv_of, marks, size_in_words, table_of
from .parts import Background, Content

__all__ = ["collect_joint"]


def collect_joint(
    shown: Sequence[Shown],
    widths: WidthReport,
    boxes: np.ndarray,
    summary: FitSummary,
    background: Background,
) -> Content:
    """The `Content` of a report of joint intervals, one `Shown` per response; ``boxes`` are the places of
    rows whose box is drawn."""
    first = shown[0]
    names = [each.attrs["response"] for each in shown]
    hits = np.min([each.hits for each in shown], axis=0)
    columns = _columns(shown, hits, background.predictors)
    return Content(
        title=f"{_listed(names)}: {percent(1 - first.attrs['alpha'])} joint prediction intervals",
        lead=_lead(shown, widths, hits),
        about=about(first, background),
        facts=_facts(shown, hits),
        cautions=[],
        intervals=None if first.training else table_of(first.frame.index, columns, ""),
        csv="" if first.training else csv_of(first.frame.index, columns),
        scatter=pair_figure((shown[0], shown[1]), boxes),
        widths=[width_table(widths, True)],
        pictures=[],
        exchangeable=None,
        summary=[as_table(table) for table in summary.tables],
        notes=summary.notes,
        text=str(summary),
        checks=data_checks(first, background),
        cite=CITE,
        versions=versions(),
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]])


def _lead(shown: Sequence[Shown], widths: WidthReport, hits: np.ndarray) -> str:
    """How wide the intervals are, and how many rows have all responses inside."""
    first = shown[0]
    where = "the training points" if first.training else f"{len(first.frame)} new rows"
    sizes = [f"of {each.attrs['response']} {size_in_words(each)}" for each in shown]
    sentence = f"{percent(1 - first.attrs['alpha'])} joint intervals at {where}: those {_listed(sizes)}"
    known = hits[~np.isnan(hits)]
    if not len(known):
        return f"{sentence}."
    sentence += f"; {int(known.sum())} of {len(known)} rows have all responses inside."
    return f"{sentence}{chance(widths.iloc[-1], known)}"


def _facts(shown: Sequence[Shown], hits: np.ndarray) -> list[tuple[str, str]]:
    facts = [("joint coverage promised", f"{percent(1 - shown[0].attrs['alpha'])} or more")]
    known = hits[~np.isnan(hits)]
    if len(known):
        facts.append(("rows wholly inside", f"{int(known.sum())} of {len(known)}"))
    for each in shown:
        finite = each.widths[np.isfinite(each.widths)]
        if len(finite):
            facts.append((f"mean width of {each.attrs['response']}", cell(float(np.mean(finite)))))
    return facts


def _columns(shown: Sequence[Shown], hits: np.ndarray, predictors: Sequence[str]) -> Columns:
    """Columns of the table: whether all are inside; prediction, ends and response of each; the model's."""
    columns: Columns = {} if np.isnan(hits).all() else {"inside": marks(hits)}
    for each in shown:
        name = each.attrs["response"]
        columns |= {name: each.mean, f"{name} lower": each.lower, f"{name} upper": each.upper}
        if each.y is not None and np.isfinite(each.y).any():
            columns[f"{name} actual"] = each.y
    frame = shown[0].frame
    for name in predictors:
        columns[f"{name} (column)" if name in columns else name] = frame[name].to_numpy()
    return columns
