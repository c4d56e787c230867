"""What tables and figures show: predictions and intervals at some rows, as one record, and the table of
their widths, in all and by group, with the coverage where responses are known.

`results.showing` makes the record; this room asks results for no more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .coverage import Basis, coverage_line
from .tables import Table, cell, percent

_QUANTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}


@dataclass(frozen=True)
class Shown:
    """Intervals of one level at m rows.

    ``frame`` has the rows as the user gave them, or the ``training`` rows. ``mean``, ``lower`` and
    ``upper`` (m,) are NaN for rows with a missing value, ``y`` (m,) are the responses, where known.
    ``attrs`` are those of the interval frame: response, alpha, side, method, guarantee, ... The coverage of
    the intervals rests on ``ranks``; None with weights of a shift.
    """

    frame: pd.DataFrame
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None
    attrs: dict[str, Any]
    training: bool
    ranks: Basis = None

    @property
    def widths(self) -> np.ndarray:
        """Widths (m,); distances of the end from the prediction where one-sided."""
        low = self.mean if self.attrs["side"] == "upper" else self.lower
        high = self.mean if self.attrs["side"] == "lower" else self.upper
        return high - low

    @property
    def hits(self) -> np.ndarray:
        """1 or 0 (m,), whether each interval holds its response; NaN where that cannot be judged, as at the
        training rows, which have shaped the fit."""
        if self.y is None or self.training:
            return np.full(len(self.mean), np.nan)
        known = ~(np.isnan(self.lower) | np.isnan(self.y))
        return np.where(known, (self.lower <= self.y) & (self.y <= self.upper), np.nan)

    def take(self, rows: np.ndarray) -> "Shown":
        """The same of some rows, by bools (m,) or places."""
        ends = self.mean[rows], self.lower[rows], self.upper[rows]
        y = None if self.y is None else self.y[rows]
        ranks = None if self.ranks is None else self.ranks.take(rows)
        return Shown(self.frame.iloc[rows], *ends, y, self.attrs, self.training, ranks)

    def report(self, groups: pd.DataFrame | None) -> "WidthReport":
        """The `WidthReport` by these groups."""
        hits = None if self.y is None or self.training else self.hits
        return width_report(self.widths, hits, groups, self.attrs, self.ranks)


class WidthReport(pd.DataFrame):
    """Widths of intervals, one row per group; made by ``width_report`` of the results.

    ``count`` is the number of intervals and ``missing`` that of rows without one. ``mean`` is over the
    finite intervals; ``min``, ``q25``, ``median``, ``q75`` and ``max`` are of all, an infinite one counting
    as larger than any other; ``infinite`` is their share. Where responses are known, ``coverage`` is the
    share of intervals that hold theirs, and ``expected_lower`` to ``expected_upper`` is the range in which
    that share falls in 95 % of samples (training rows and as many new ones) if intervals cover as promised,
    in every row of the table alike. It is not an interval about the observed share: coverage outside of it
    is a surprise. Its limits are beta-binomial, for coverage given the training rows is a draw of
    Beta(k, n + 1 - k), with k the rank among n training rows (of each group, with ``groups=``). With
    ``conditional=`` n is one over the leverage of the rows' mean in the formula's design (theory, section
    7), and the upper limit is that of the highest rank which the fitted scores allow. With ``weights=`` no
    such law is known, and the range is left out.

    ``attrs`` say the response, ``alpha``, ``side``, method and guarantee. A one-sided interval's width is
    the distance of its end from the prediction.
    """

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def to_markdown(self) -> str:
        """The table in Markdown (needs no other package)."""
        return Table("", *self.strings()).markdown()

    def to_latex(self, caption: str | None = None) -> str:
        """The table as a LaTeX ``tabular`` with booktabs' rules; in a ``table`` with a caption."""
        return Table(caption or "", *self.strings()).latex()

    def to_html(self, caption: str | None = None) -> str:
        """The table in HTML, labels escaped."""
        return Table(caption or "", *self.strings()).html()

    def strings(self) -> tuple[list[str], list[list[str]]]:
        """Header and lines as strings; rows without an interval are counted where there are any."""
        shown = [name for name in self.columns if name != "expected_upper"]
        if "missing" in self and not self["missing"].any():
            shown.remove("missing")
        if "expected_lower" in self and self["expected_lower"].isna().all():
            shown.remove("expected_lower")
        heads = ["expected" if name == "expected_lower" else name for name in shown]
        lines = []
        for label, (_, values) in zip(self.index, self.iterrows(), strict=True):
            labels = label if isinstance(label, tuple) else (label,)
            lines.append([*map(str, labels), *(_text(name, values) for name in shown)])
        return [*map(str, self.index.names), *heads], lines

    def __repr__(self) -> str:
        header, lines = self.strings()
        return f"{self.title}\n{pd.DataFrame(lines, columns=header).to_string(index=False)}"

    def _repr_html_(self) -> str:
        return self.to_html(self.title)

    @property
    def title(self) -> str:
        """What the table is of, in words."""
        what = "Widths" if self.attrs["side"] == "two-sided" else "Margins"
        return f"{what} of {percent(1 - self.attrs['alpha'])} intervals of {self.attrs['response']}"


def width_report(
    widths: np.ndarray,
    hits: np.ndarray | None,
    groups: pd.DataFrame | None,
    attrs: dict[str, Any],
    ranks: Basis = None,
) -> WidthReport:
    """The `WidthReport` of widths (m,), NaN for rows without an interval, and ``hits`` (m,), where judged,
    by the labels of ``groups``, which has one column per grouping."""
    if groups is None:
        places, index = [np.arange(len(widths))], pd.Index(["all"], name="rows")
    else:
        keys = list(groups.columns)
        number = groups.groupby(keys, observed=True, sort=True).ngroup().to_numpy()
        places = [np.flatnonzero(number == at) for at in range(int(np.max(number, initial=-1)) + 1)]
        labels = groups.iloc[[rows[0] for rows in places]]
        arrays = [list(labels[key]) for key in keys]
        index = pd.Index(arrays[0], name=keys[0])
        if len(keys) > 1:
            index = pd.MultiIndex.from_arrays(arrays, names=keys)
    lines = [_line(widths, hits, ranks, rows) for rows in places]
    columns = list(_line(widths, hits, ranks, np.arange(0)))
    report = WidthReport(lines, index=index, columns=columns)
    report.attrs = dict(attrs)
    return report


def _line(widths: np.ndarray, hits: np.ndarray | None, ranks: Basis, rows: np.ndarray) -> dict[str, float]:
    """One row of the report, of the rows at some places."""
    widths = widths[rows]
    known = np.sort(widths[~np.isnan(widths)])
    finite = known[np.isfinite(known)]
    line: dict[str, float] = {"count": len(known), "missing": len(widths) - len(known)}
    line["mean"] = float(np.mean(finite)) if len(finite) else np.nan
    levels = list(_QUANTILES.values())
    quantiles = np.full(len(levels), np.nan)
    if len(known) > len(finite):  # no averaging with infinity
        quantiles = np.quantile(known, levels, method="inverted_cdf")
    elif len(known):
        quantiles = np.quantile(known, levels)
    line |= zip(_QUANTILES, quantiles.tolist(), strict=True)
    line["infinite"] = 1.0 - len(finite) / len(known) if len(known) else np.nan
    if hits is None:
        return line
    return line | coverage_line(hits[rows], None if ranks is None else ranks.take(rows))


def _text(name: str, values: pd.Series) -> str:
    """A cell of the table: shares in per cent, the expected range in one."""
    if name == "expected_lower":
        low, high = values[[name, "expected_upper"]]
        return "" if np.isnan(low) else f"{percent(low).removesuffix(' %')} to {percent(high)}"
    value = values[name]
    if np.isnan(value):
        return ""
    if name in ("infinite", "coverage"):
        return percent(value)
    return str(int(value)) if name in ("count", "missing") else cell(float(value))
