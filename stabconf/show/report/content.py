"""What a report says: every number is computed once, here, and becomes a string."""

import platform
from functools import cache
from importlib.metadata import version

import numpy as np
import pandas as pd

from ..._version import __version__
from ...data.bins import crossed
from ..coverage import coverage_along, parts_along, shortfalls
from ..exchangeability import ExchangeabilityCheck
from ..shown import Shown
from ..summary import FitSummary, as_table
from ..tables import Table, cell, percent
from ..widths import WidthReport
from .checks import data_checks
from .figures import coverage_figure, drift_figure, interval_figure, width_figure
from .intervals import interval_csv, interval_table, lead_sentence
from .parts import Background, Content, Verdict

__all__ = ["CITE", "about", "collect", "versions", "width_table"]

_SPREAD = 10  # rows from which on their widths have a figure
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "patsy", "matplotlib")
CITE = [
    f"The stabconf developers. stabconf: distribution-free prediction intervals for people who write "
    f"formulas. Version {__version__}, 2026.",
    "Eugene Ndiaye. Stable Conformal Prediction Sets. Proceedings of the 39th International Conference on "
    "Machine Learning, 2022.",
]


def collect(
    shown: Shown,
    groups: pd.DataFrame | None,
    summary: FitSummary,
    background: Background,
    check: ExchangeabilityCheck | None = None,
) -> Content:
    """The `Content` of a report of these intervals, with widths by ``groups`` (m rows) too, and ``check``
    of exchangeability where there is one."""
    predictors = background.predictors
    whole = shown.report(None)
    reports = [whole, *([shown.report(groups)] if groups is not None else [])]
    labels, name = crossed(groups)
    pictures = [width_figure(shown, labels, name)] if len(shown.frame) >= _SPREAD else []
    judged = np.isfinite(shown.hits).any()
    if judged:
        pictures.insert(0, coverage_figure(coverage_along(shown), shown.attrs))
    return Content(
        title=f"{shown.attrs['response']}: {percent(1 - shown.attrs['alpha'])} prediction intervals",
        lead=lead_sentence(shown, whole),
        about=about(shown, background),
        facts=_facts(shown, whole),
        cautions=_cautions(shown, labels, name) if judged else [],
        intervals=None if shown.training else interval_table(shown, predictors),
        csv="" if shown.training else interval_csv(shown, predictors),
        scatter=interval_figure(shown, predictors[0] if len(predictors) == 1 else None),
        widths=[width_table(report, report is reports[-1]) for report in reports],
        pictures=pictures,
        exchangeable=None if check is None else Verdict(check.sentence, drift_figure(check)),
        summary=[as_table(table) for table in summary.tables],
        notes=summary.notes,
        text=str(summary),
        checks=data_checks(shown, background),
        cite=CITE,
        versions=versions(),
    )


def about(shown: Shown, background: Background) -> str:
    """What was fitted, and what the intervals promise."""
    attrs = shown.attrs
    where = "the training points" if shown.training else f"{len(shown.frame)} new rows"
    proviso = "" if attrs["certified"] else " (NOT certified)"
    return (
        f"{background.formula}, fitted to {len(background.trained)} rows. Intervals at {where} by the "
        f"method '{attrs['method']}' with alpha = {attrs['alpha']:g}: {attrs['guarantee']}{proviso}."
    )


def _facts(shown: Shown, report: WidthReport) -> list[tuple[str, str]]:
    """A few numbers that say how good the intervals and the predictions are."""
    attrs, hits = shown.attrs, shown.hits[~np.isnan(shown.hits)]
    facts = [("coverage promised", f"{percent(1 - attrs['alpha'])} or more")]
    if len(hits):
        facts.append(("responses inside", f"{int(hits.sum())} of {len(hits)}"))
    what = "width" if attrs["side"] == "two-sided" else "margin"
    facts.append((f"mean {what}", cell(float(report["mean"].iloc[0]))))
    if shown.y is not None and not shown.training:
        away = shown.y - shown.mean
        away = away[np.isfinite(away)]
        if len(away):
            facts.append(("mean abs. error", cell(float(np.mean(np.abs(away))))))
            facts.append(("root mean sq. error", cell(float(np.sqrt(np.mean(away**2))))))
    return [(name, value) for name, value in facts if value]


def _cautions(shown: Shown, labels: pd.Categorical | None, name: str | None) -> list[str]:
    """Where coverage falls short: along the predictions, and by group."""
    along = {}
    for places in parts_along(shown):
        low, high = (cell(float(of(shown.mean[places]))) for of in (np.min, np.max))
        along[f"predictions from {low} to {high}"] = places
    made = shortfalls(shown, along)
    if labels is not None:
        each = {f"{name} = {group}": np.flatnonzero(labels == group) for group in labels.categories}
        made += shortfalls(shown, each)
    if made:
        made.append(
            "Widths that follow the data may mend that: conditional= with a formula of what matters, or "
            "stabconf.fit_quantiles."
        )
    return made


def width_table(report: WidthReport, last: bool) -> Table:
    """The report with coverage before the widths, and without what is nowhere the case."""
    header, lines = report.strings()
    levels = report.index.nlevels
    first = [name for name in ("count", "missing", "coverage", "expected") if name in header[levels:]]
    order = [*range(levels), *(header.index(name, levels) for name in first)]
    order += [place for place in range(levels, len(header)) if place not in order]
    if not report["infinite"].any():
        order.remove(header.index("infinite", levels))
    header = [header[place] for place in order]
    lines = [[line[place] for place in order] for line in lines]
    note = (
        "'expected' is where the coverage falls in 95 % of samples (training rows and as many new ones) if "
        "the intervals cover as promised, in every row of the table alike."
    )
    return Table(report.title, header, lines, note if last and "expected" in header else "")


@cache
def versions() -> list[list[str]]:
    """Names and versions of what the numbers rest on."""
    found = [[name, version(name)] for name in _PACKAGES]
    return [["stabconf", __version__], ["Python", platform.python_version()], *found]
