"""What a report says: every number is computed once, here, and becomes a string."""

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from ..._version import __version__
from ...data.bins import crossed
from ..coverage import coverage_along
from ..exchangeability import ExchangeabilityCheck
from ..shown import Shown
from ..summary import FitSummary, as_table
from ..tables import Table, cell, percent
from ..widths import WidthReport
from .checks import data_checks
from .figures import coverage_figure, drift_figure, interval_figure, width_figure
from .parts import Background, Content, Verdict

__all__ = ["collect"]

_ROWS = 50  # intervals that are listed
_COLUMNS = 8  # of the model that are listed beside them
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "patsy", "matplotlib")
_CITE = [
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
    reports = [shown.report(None), *([shown.report(groups)] if groups is not None else [])]
    pictures = [
        interval_figure(shown, predictors[0] if len(predictors) == 1 else None),
        width_figure(shown, *crossed(groups)),
    ]
    if np.isfinite(shown.hits).any():
        pictures.append(coverage_figure(coverage_along(shown), shown.attrs))
    return Content(
        title=f"{shown.attrs['response']}: prediction intervals",
        lead=_lead(shown, background),
        summary=[as_table(table) for table in summary.tables],
        notes=summary.notes,
        text=str(summary),
        widths=[_width_table(report) for report in reports],
        pictures=pictures,
        exchangeable=None if check is None else Verdict(check.sentence, drift_figure(check)),
        intervals=None if shown.training else _interval_table(shown, predictors),
        checks=data_checks(shown, background),
        cite=_CITE,
        versions=_versions(),
    )


def _lead(shown: Shown, background: Background) -> str:
    attrs = shown.attrs
    where = "the training points" if shown.training else f"{len(shown.frame)} new rows"
    certified = "certified" if attrs["certified"] else "not certified"
    return (
        f"{background.formula}, fitted to {len(background.trained)} rows. Intervals at {where} by the "
        f"method '{attrs['method']}' with alpha = {attrs['alpha']:g}: {attrs['guarantee']} ({certified})."
    )


def _width_table(report: WidthReport) -> Table:
    header, lines = report.strings()
    note = (
        "'expected' is where the coverage falls in 95 % of samples (training rows and as many new ones) if "
        "the intervals cover as promised, in every row of the table alike."
    )
    return Table(report.title, header, lines, note if "expected" in header else "")


def _interval_table(shown: Shown, predictors: list[str]) -> Table:
    """The first new rows: what was predicted, what came, and the columns that the model uses."""
    columns: dict[str, Any] = {"prediction": shown.mean, "lower": shown.lower, "upper": shown.upper}
    if shown.y is not None and np.isfinite(shown.y).any():
        marks = np.where(shown.hits == 1.0, "yes", "missed")
        columns["actual"] = shown.y
        columns["inside"] = np.where(np.isnan(shown.hits), "", marks)
    listed = predictors[:_COLUMNS]
    header = ["row", *columns, *map(str, listed)]
    values = [shown.frame.index, *columns.values(), *(shown.frame[name] for name in listed)]
    lines = [list(map(_plain, line)) for line in zip(*(each[:_ROWS] for each in values), strict=True)]
    notes = []
    if len(shown.frame) > _ROWS:
        notes.append(f"The first {_ROWS} of {len(shown.frame)} rows.")
    if len(predictors) > _COLUMNS:
        notes.append(f"The first {_COLUMNS} of {len(predictors)} columns that the model uses.")
    return Table(f"{percent(1 - shown.attrs['alpha'])} intervals", header, lines, " ".join(notes))


def _plain(value: object) -> str:
    if not isinstance(value, tuple) and pd.isna(value):
        return ""
    return cell(float(value) if isinstance(value, np.floating) else value)


@cache
def _versions() -> list[list[str]]:
    found = [[name, version(name)] for name in _PACKAGES]
    return [["stabconf", __version__], ["Python", platform.python_version()], *found]
