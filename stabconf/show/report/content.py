"""What a report says: every number is computed once, here, and becomes a string, every figure SVG.

Figures are drawn without pyplot, so that none stays open.
"""

import io
import platform
import threading
from collections.abc import Callable, Sequence
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
from ..plots.curve_plots import draw_coverage_along
from ..plots.row_plots import draw_intervals, draw_pairs
from ..plots.spread_plots import draw_widths
from ..plots.style import Axes
from ..shown import Shown, WidthReport
from ..summary import FitSummary
from ..tables import Table, cell, percent
from .background import Background, data_checks
from .listing import interval_csv, interval_facts, interval_table, lead_sentence, listed_names

_FIRST = ("count", "missing", "coverage", "expected_lower", "expected_upper")
_SPREAD = 10  # rows from which on their widths have a figure
_WIDTH = 6.8  # inches
_MARGIN = 0.1  # inches about a figure
_TICKS = 5
_GROUPS = 40  # whose widths are drawn
_DRAWN = 1500  # intervals
_SETTINGS = threading.Lock()  # matplotlib's are of the whole process: reports in threads take turns
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
class Picture:
    """A figure: a file name without its suffix, what it shows, and SVG as bytes."""

    name: str
    caption: str
    svg: bytes


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
    pictures = [_width_figure(shown, labels, name)] if len(shown.frame) >= _SPREAD else []
    judged = np.isfinite(shown.hits).any()
    if judged:
        pictures.insert(0, _coverage_figure(coverage_along(shown), shown.attrs))
    return Content(
        title=f"{shown.attrs['response']}: {percent(1 - shown.attrs['alpha'])} prediction intervals",
        scatter=_interval_figure(shown, predictors[0] if len(predictors) == 1 else None),
        widths=[_width_table(report, report is reports[-1]) for report in reports],
        cautions=_cautions(shown, labels, name) if judged else [],
        pictures=pictures,
        verdict="" if check is None else check.sentence,
        evidence=None if check is None else _drift_figure(check),
        **_shared([shown], whole, summary, background),
    )


def collect_joint(
    shown: Sequence[Shown],
    reports: Sequence[WidthReport],
    boxes: np.ndarray,
    summary: FitSummary,
    background: Background,
) -> Content:
    """The `Content` of a report of joint intervals, boxes that hold several responses at once (theory,
    section 8): one `Shown` per response, widths over all rows (and by group), and the places of rows whose
    box is drawn."""
    names = listed_names([each.attrs["response"] for each in shown])
    return Content(
        title=f"{names}: {percent(1 - shown[0].attrs['alpha'])} joint prediction intervals",
        scatter=_pair_figure((shown[0], shown[1]), boxes),
        widths=[_width_table(report, report is reports[-1]) for report in reports],
        **_shared(shown, reports[0], summary, background),
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


# Figures -------------------------------------------------------------------------------------------


def _interval_figure(shown: Shown, x: str | None) -> Picture:
    """Intervals against a column, or sorted by prediction."""
    how = "by prediction" if x is None else f"against {x}"
    caption = f"{percent(1 - shown.attrs['alpha'])} intervals {how}."
    count = len(shown.frame)
    if count > _DRAWN:
        places = np.argsort(shown.mean, kind="stable")[np.linspace(0, count - 1, _DRAWN).astype(int)]
        shown = shown.take(np.sort(places))
        caption += f" {_DRAWN} of {count} rows are drawn, evenly spaced by prediction."
    values = None if x is None else shown.frame[x]
    return Picture("intervals", caption, _svg(lambda ax: draw_intervals(shown, values, x, ax), 4.2))


def _pair_figure(pair: tuple[Shown, Shown], boxes: np.ndarray) -> Picture:
    """Two responses against each other, with the boxes of some rows (places)."""
    one, two = (each.attrs["response"] for each in pair)
    caption = f"{percent(1 - pair[0].attrs['alpha'])} boxes of {one} and {two} at {len(boxes)} of the rows."
    return Picture("pairs", caption, _svg(lambda ax: draw_pairs(pair, boxes, ax), 4.8))


def _width_figure(shown: Shown, labels: pd.Categorical | None, name: str | None) -> Picture:
    """Widths in all or by group, by the largest groups where they are many."""
    by, height = "", 3.4
    if labels is not None:
        by = f", by {name}: median, quartiles, 5 and 95 %"
        if len(labels.categories) > _GROUPS:
            by += f"; the {_GROUPS} largest of {len(labels.categories)} groups"
            drawn = labels.isin(labels.value_counts().nlargest(_GROUPS).index)
            shown, labels = shown.take(drawn), labels[drawn].remove_unused_categories()
        height = 1.5 + 0.5 * len(labels.categories)
    svg = _svg(lambda ax: draw_widths(shown, labels, name, ax), height)
    return Picture("widths", f"Widths of the intervals{by}.", svg)


def _coverage_figure(table: pd.DataFrame, attrs: dict[str, Any]) -> Picture:
    """Coverage along the predictions."""
    caption = f"Coverage of {int(table['count'].sum())} new responses, by their predictions."
    band = " The band is where such shares fall in 95 % of samples if intervals cover alike everywhere."
    caption += band if table["expected_lower"].notna().any() else ""
    return Picture("coverage", caption, _svg(lambda ax: draw_coverage_along(table, attrs, ax), 3.6))


def _drift_figure(check: ExchangeabilityCheck) -> Picture:
    """Evidence against exchangeability over the new rows."""
    caption = (
        f"Evidence against exchangeability of {check.count} new rows, in their order: exchangeable rows "
        "reach the dotted lines in at most 1 of 20, or 1 of 100, samples. Their p-values have a mean of "
        "about 0.5."
    )
    return Picture("exchangeability", caption, _svg(check.plot, 3.8))


def _svg(draw: Callable[[Axes], Axes], height: float) -> bytes:
    """SVG of a figure; the same input gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    ax = figure.add_subplot()
    ax.locator_params(nbins=_TICKS)  # ticks take most of the time
    draw(ax)
    out = io.BytesIO()
    with _SETTINGS, rc_context({"svg.hashsalt": "stabconf", "svg.fonttype": "path"}):
        # Cut to what is drawn; a layout engine, or "tight", would draw it all once more to measure it.
        bounds = figure.get_tightbbox().padded(_MARGIN)
        undated = {"Date": None, "Creator": None}
        figure.savefig(out, format="svg", dpi=144, bbox_inches=bounds, metadata=undated)
    return out.getvalue()
