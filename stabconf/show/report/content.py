"""What a report says, collected from results: every number is computed once."""

import platform
from functools import cache
from importlib.metadata import version

import numpy as np
import pandas as pd

from ..._version import __version__
from ...data.bins import crossed
from ..coverage import coverage_along
from ..summary import table_cells
from ..tables import cell, percent
from .checks import data_checks
from .figures import coverage_figure, interval_figure, width_figure
from .parts import Content, Table

__all__ = ["collect"]

_ROWS = 50  # intervals that are listed
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "patsy", "matplotlib")
_CITE = [
    f"The stabconf developers. stabconf: distribution-free prediction intervals for people who write "
    f"formulas. Version {__version__}, 2026.",
    "Eugene Ndiaye. Stable Conformal Prediction Sets. Proceedings of the 39th International Conference on "
    "Machine Learning, 2022.",
]


def collect(results, first, groups, summary, new, options):
    """The `Content` of a report; arguments as in `Presentation.report`."""
    design = results._design
    reports = [first.report(None), *([first.report(groups)] if groups is not None else [])]
    pictures = [
        interval_figure(first, _only_column(first.frame, design)),
        width_figure(first, *crossed(groups)),
    ]
    if first.hits is not None and np.isfinite(first.hits).any():
        pictures.append(coverage_figure(coverage_along(first), first.attrs))
    return Content(
        title=f"{design.response}: prediction intervals",
        lead=_lead(results, first),
        summary=[Table(table.title or "", *table_cells(table)) for table in summary.tables],
        notes=getattr(summary, "notes", None) or (summary.extra_txt or "").splitlines(),
        text=str(summary),
        widths=[_width_table(report) for report in reports],
        pictures=pictures,
        intervals=None if new is None else _interval_table(first),
        checks=data_checks(results, new, options),
        cite=_CITE,
        versions=_versions(),
    )


def _lead(results, bands):
    attrs = bands.attrs
    where = "the training points" if bands.training else f"{len(bands.frame)} new rows"
    certified = "certified" if attrs["certified"] else "not certified"
    return (
        f"{results.model.formula}, fitted to {results.nobs} rows. Intervals at {where} by the method "
        f"'{attrs['method']}' with alpha = {attrs['alpha']:g}: {attrs['guarantee']} ({certified})."
    )


def _width_table(report):
    header, lines = report.strings()
    note = (
        "'expected' is where the coverage falls in 95 % of samples (training rows and as many new ones) if "
        "the intervals cover as promised, in every line alike."
    )
    return Table(report.title, header, lines, note if "expected" in header else "")


def _only_column(frame, design):
    """The column that predictions depend on, where it is one alone."""
    return design.predictors[0] if len(design.predictors) == 1 else None


def _interval_table(bands):
    """The first new rows with their intervals."""
    columns = bands.frame.columns[:8]
    values = bands.frame.iloc[:_ROWS, :8].itertuples(index=False, name=None)
    lines = []
    for place, row in enumerate(values):
        ends = [float(each[place]) for each in (bands.mean, bands.lower, bands.upper)]
        lines.append([str(bands.frame.index[place]), *map(_plain, row), *map(cell, ends)])
    header = ["row", *map(str, columns), "prediction", "lower", "upper"]
    more = len(bands.frame) - _ROWS
    note = f"The first {_ROWS} of {len(bands.frame)} rows." if more > 0 else ""
    if len(columns) < bands.frame.shape[1]:
        note = f"{note} The first 8 columns.".strip()
    return Table(f"{percent(1 - bands.attrs['alpha'])} intervals", header, lines, note)


def _plain(value):
    return "" if pd.isna(value) else cell(float(value) if isinstance(value, np.floating) else value)


@cache
def _versions():
    found = [[name, version(name)] for name in _PACKAGES]
    return [["stabconf", __version__], ["Python", platform.python_version()], *found]
