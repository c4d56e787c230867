"""What a report says: every number is computed once, here, and becomes a string."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from ..._version import __version__
from ...data.bins import crossed
from ..coverage import coverage_along, parts_along, shortfalls
from ..drift import ExchangeabilityCheck
from ..shown import Shown, WidthReport
from ..summary import FitSummary
from ..tables import Table, cell, percent
from .background import Background, data_checks
from .listing import interval_csv, interval_facts, interval_table, lead_sentence, listed_names
from .pictures import Picture, coverage_figure, drift_figure, interval_figure, pair_figure, width_figure

_FIRST = ("count", "missing", "coverage", "expected_lower", "expected_upper")
_SPREAD = 10  # rows from which on their widths have a figure
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "patsy", "matplotlib")
_CITE = (
    f"The stabconf developers. stabconf: distribution-free prediction intervals for people who write "
    f"formulas. Version {__version__}, 2026.",
    "Eugene Ndiaye. Stable Conformal Prediction Sets. Proceedings of the 39th International Conference on "
    "Machine Learning, 2022.",
)


@cache
def _versions() -> list[list[str]]:
    """Names and versions of what the numbers rest on."""
    found = [[name, version(name)] for name in _PACKAGES]
    return [["stabconf", __version__], ["Python", platform.python_version()], *found]


@dataclass(frozen=True)
class Content:
    """A whole report: tables of strings, and pictures; what a reader came for first."""

    title: str
    lead: str  # how wide the intervals are, and how many responses they hold
    about: str  # what was fitted, and what the intervals promise
    facts: list[tuple[str, str]]  # a few numbers, with what they are
    intervals: Table | None  # None for the training rows
    csv: str  # all rows of that table; "" where there is none, or too many
    scatter: Picture  # of the intervals
    widths: list[Table]
    summary: FitSummary
    checks: list[Table]
    cautions: list[str] = field(default_factory=list)  # where coverage falls short
    pictures: list[Picture] = field(default_factory=list)  # of coverage and widths
    verdict: str = ""  # whether exchangeability is plausible; "" where responses are not known
    evidence: Picture | None = None  # for that
    cite: tuple[str, ...] = _CITE
    versions: list[list[str]] = field(default_factory=_versions)  # pairs of name and version


def collect(
    shown: Shown,
    groups: pd.DataFrame | None,
    summary: FitSummary,
    background: Background,
    check: ExchangeabilityCheck | None,
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
        scatter=interval_figure(shown, predictors[0] if len(predictors) == 1 else None),
        widths=[_width_table(report, report is reports[-1]) for report in reports],
        cautions=_cautions(shown, labels, name) if judged else [],
        pictures=pictures,
        verdict="" if check is None else check.sentence,
        evidence=None if check is None else drift_figure(check),
        **_shared([shown], whole, summary, background),
    )


def collect_joint(
    shown: Sequence[Shown],
    widths: WidthReport,
    boxes: np.ndarray,
    summary: FitSummary,
    background: Background,
) -> Content:
    """The `Content` of a report of joint intervals, boxes that hold several responses at once (theory,
    section 8): one `Shown` per response; ``boxes`` are the places of rows whose box is drawn."""
    names = listed_names([each.attrs["response"] for each in shown])
    return Content(
        title=f"{names}: {percent(1 - shown[0].attrs['alpha'])} joint prediction intervals",
        scatter=pair_figure((shown[0], shown[1]), boxes),
        widths=[_width_table(widths, True)],
        **_shared(shown, widths, summary, background),
    )


def _shared(
    shown: Sequence[Shown], widths: WidthReport, summary: FitSummary, background: Background
) -> dict[str, Any]:
    """What reports of one response and of several say alike."""
    first, attrs = shown[0], shown[0].attrs
    where = "the training points" if first.training else f"{len(first.frame)} new rows"
    proviso = "" if attrs["certified"] else " (NOT certified)"
    about = (
        f"{background.formula}, fitted to {len(background.trained)} rows. Intervals at {where} by the "
        f"method '{attrs['method']}' with alpha = {attrs['alpha']:g}: {attrs['guarantee']}{proviso}."
    )
    return {
        "lead": lead_sentence(shown, widths),
        "about": about,
        "facts": interval_facts(shown),
        "intervals": None if first.training else interval_table(shown, background.predictors),
        "csv": "" if first.training else interval_csv(shown, background.predictors),
        "summary": summary,
        "checks": data_checks(first, background),
    }


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


def _width_table(report: WidthReport, last: bool) -> Table:
    """The report with coverage before the widths, and without what is nowhere the case."""
    first = [name for name in report if name in _FIRST]
    order = first + [name for name in report if name not in _FIRST]
    if not report["infinite"].any():
        order.remove("infinite")
    header, lines = WidthReport(report[order]).strings()
    note = (
        "'expected' is where the coverage falls in 95 % of samples (training rows and as many new ones) if "
        "the intervals cover as promised, in every row of the table alike."
    )
    return Table(report.title, header, lines, note if last and "expected" in header else "")
