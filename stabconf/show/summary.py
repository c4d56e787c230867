"""Summary tables in statsmodels' own format: text, HTML, LaTeX and CSV.

``summary()`` of each results class calls the function for its kind. Only what is known is shown: a
penalised robust fit has no standard errors that would deserve the name.
"""

import csv
import html
import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from ..data.design import Design
from .tables import Table, latex_escaped, percent, shortened

__all__ = [
    "FitSummary",
    "as_table",
    "summarise",
    "summarise_estimator",
    "summarise_model",
    "summarise_quantiles",
]

_WIDTH = 78

# Results, solutions and intervals belong to rooms that this one does not import; their attributes are read.
_Results = Any
_Intervals = Any
_Pairs = list[tuple[str, str]]


class FitSummary(Summary):
    """statsmodels' `Summary`, which escapes labels and keeps tables of different widths apart."""

    def __init__(self, tables: Iterable[SimpleTable], notes: Sequence[str]) -> None:
        super().__init__()
        self.tables += tables
        self.notes = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
        wrapped = [textwrap.wrap(note, _WIDTH, subsequent_indent="    ") for note in self.notes]
        self.add_extra_txt(["Notes:", *(line for lines in wrapped for line in lines)])

    def as_html(self) -> str:
        parts = [as_table(table).html("simpletable") for table in self.tables]
        return "\n".join([*parts, *(f"<p>{html.escape(note)}</p>" for note in self.notes)])

    def as_latex(self) -> str:
        parts = [as_table(table).latex() for table in self.tables]
        return "\n\n".join([*parts, " \\newline\n".join(map(latex_escaped, self.notes))])

    def as_csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for table in map(as_table, self.tables):
            writer.writerows([[table.title]] if table.title else [])
            writer.writerows([table.header] if table.header else [])
            writer.writerows(table.lines)
        writer.writerows([note] for note in self.notes)
        return out.getvalue()


def as_table(table: SimpleTable) -> Table:
    """A `SimpleTable` of statsmodels as a `Table` of strings."""
    rows = [[str(each.data or "").strip() for each in row] for row in table]
    has_head = any(each.datatype == "header" for each in table[0])
    return Table(table.title or "", rows[0] if has_head else None, rows[has_head:])


def summarise(
    results: _Results,
    design: Design,
    solution: Any,
    exact: _Intervals | str,
    stable: _Intervals | str,
    where: str,
) -> FitSummary:
    """The `Summary` of a fit and of its intervals at the points ``where`` says.

    ``exact`` and ``stable`` are `Intervals` by either method at the same points, or why it refuses.
    """
    model = results.model
    left = [
        ("Loss:", shortened(model.loss.describe(), 20)),
        ("Penalty:", shortened(model.penalty.describe(), 20)),
        ("Residual scale:", _number(results.scale)),
    ]
    right = [
        ("Converged:", f"{_yes(results.converged)}, {solution.nit} steps"),
        ("Standardised:", "yes" if model.standardize else "no"),
    ]
    columns = [results.params, results.params_standardized]
    tables = [
        _formula_table("Regularised robust regression", model.formula),
        _fit_table(None, design, left, right),
        _coefficient_table(design, ["coef", "standardized"], columns),
        *_interval_tables(exact, stable, where),
    ]
    return FitSummary(tables, _interval_notes(exact) + _fit_notes(results, design))


def summarise_estimator(results: _Results, design: Design, made: Sequence[_Intervals]) -> FitSummary:
    """The `Summary` of an estimator and of its intervals at the training points, by each method."""
    name = results._described()
    tables = [
        _formula_table("Regression by any estimator", results.model.formula),
        _fit_table(None, design, [("Estimator:", shortened(name, 20))], []),
    ]
    notes = []
    for intervals in made:
        left = [
            ("Method:", intervals.method),
            ("alpha:", f"{intervals.alpha:g}"),
            ("Certified:", _yes(intervals.certified)),
        ]
        right = [
            ("Mean width:", _mean_width(intervals)),
            ("Order statistic:", f"{intervals.k} of {intervals.n}"),
            ("Infinite:", str(intervals.open_rows)),
        ]
        tables.append(_pairs("Conformal intervals at the training points", left, right))
        notes.append(f"{intervals.method}: {_guarantee(intervals)}.")
    return FitSummary(tables, notes + _transformed_note(design))


def summarise_quantiles(
    results: _Results, design: Design, fits: Sequence[_Results], made: _Intervals | None, where: str
) -> FitSummary:
    """The `Summary` of quantile fits, one per level, and of the band's intervals, None for one level."""
    model = results.model
    steps = sum(fit._fitted.solution.nit for fit in fits)
    left = [
        ("Loss:", "quantile"),
        ("Penalty:", shortened(model.penalty.describe(), 20)),
        ("Standardised:", "yes" if model.standardize else "no"),
    ]
    right = [
        ("Converged:", f"{_yes(results.converged)}, {steps} steps"),
        ("Rows that cross:", str(int(results.crossing().sum()))),
    ]
    heads = [f"{level:.2f}" if round(level, 2) == level else f"{level:g}" for level in model.quantiles]
    tables = [
        _fit_table("Regularised quantile regression", design, left, right),
        _coefficient_table(design, heads, results.params.to_numpy().T),
    ]
    notes = []
    if made is not None:
        tables.append(_band_table(made, model.quantiles, where))
        notes.append(
            f"Guarantee: {made.guarantee} (certified); the "
            "intervals are exact full conformal sets of the distance from the band."
        )
    notes.append("'Rows that cross' are training rows where a lower quantile lies above a higher one.")
    return FitSummary(tables, notes + _fit_notes(results, design))


def summarise_model(
    results: _Results,
    design: Design,
    exact: _Intervals | str,
    stable: _Intervals | str,
    where: str,
) -> FitSummary:
    """The `Summary` of a statsmodels model and of its intervals; as in `summarise`."""
    recipe = results.recipe
    left = [("Model:", recipe.label), ("Penalty:", recipe.penalty.describe())]
    right = [("Off the minimiser:", _number(results.mismatch))]
    tables = [
        _fit_table("Regression by statsmodels", design, left, right),
        _coefficient_table(design, ["coef"], [results.params]),
        *_interval_tables(exact, stable, where),
    ]
    notes = [*_interval_notes(exact), "Coefficients are those of statsmodels.", *recipe.notes]
    return FitSummary(tables, notes + _transformed_note(design))


def _fit_table(title: str | None, design: Design, left: _Pairs, right: _Pairs) -> SimpleTable:
    """What was fitted, to which rows, and how."""
    fitted = [("Dep. Variable:", shortened(design.response, 20))]
    rows = [("No. Observations:", str(len(design.y))), ("Rows dropped:", str(len(design.dropped)))]
    return _pairs(title, fitted + left, rows + right)


def _formula_table(title: str, formula: str) -> SimpleTable:
    """The formula on as many lines as it needs; it opens the table below, so it has no lower rule."""
    width = _WIDTH - 10
    lines = textwrap.wrap(" ".join(formula.split()), width) or [""]
    form = {**fmt_2cols, "data_fmts": [f"%-{width}s"], "data_aligns": "l", "colwidths": None}
    stubs = ["Formula: ", *[""] * (len(lines) - 1)]
    return SimpleTable([[line] for line in lines], None, stubs, title=title, txt_fmt=form)


def _coefficient_table(design: Design, heads: list[str], columns: Iterable[Iterable[float]]) -> SimpleTable:
    """Coefficients (p,) under each head."""
    cells = [[_number(value) for value in row] for row in zip(*columns, strict=True)]
    names = [shortened(name, 44) for name in design.names]
    return SimpleTable(cells, heads, names, title=None, txt_fmt=fmt_params)


def _interval_tables(exact: _Intervals | str, stable: _Intervals | str, where: str) -> list[SimpleTable]:
    """One table, or none where the method refuses."""
    if isinstance(exact, str):
        return []
    left = [
        ("Method:", exact.method),
        ("alpha:", f"{exact.alpha:g}"),
        ("Coverage:", f"at least {1 - exact.alpha:g}"),
        ("Order statistic:", f"{exact.k} of {exact.n}"),
        ("Infinite:", str(exact.open_rows)),
        ("Not an interval:", str(len(exact.pieces))),
    ]
    right = [("Mean width:", _mean_width(exact)), ("Distance to exact:", _number(exact.certified_gap))]
    names = ("Stable width:", "Due to stability:", "Largest tau:", "Median tau:")
    values = ["none"] * 4
    if not isinstance(stable, str):
        median = _number(np.median(stable.tau)) if len(stable.tau) else "none"
        share = percent(stable.stability_share)
        values = [_mean_width(stable), share, _number(stable.largest_tau), median]
    right += zip(names, values, strict=True)
    return [_pairs(f"Conformal intervals at {where}", left, right)]


def _band_table(made: _Intervals, levels: Sequence[float], where: str) -> SimpleTable:
    """Of the intervals about the band between the outer levels."""
    finite = made.width[np.isfinite(made.width)]
    left = [
        ("Method:", made.method),
        ("Band:", f"{levels[0]:g} to {levels[-1]:g}"),
        ("alpha:", f"{made.alpha:g}"),
        ("Order statistic:", f"{made.k} of {made.n}"),
    ]
    right = [
        ("Mean width:", _mean_width(made)),
        ("Narrowest:", _number(np.min(finite) if len(finite) else np.inf)),
        ("Widest:", _number(np.max(finite) if len(finite) else np.inf)),
        ("Infinite:", str(int(np.sum(np.isinf(made.width))))),
    ]
    return _pairs(f"Conformal intervals at {where}", left, right)


def _pairs(title: str | None, left: _Pairs, right: _Pairs) -> SimpleTable:
    """A table of name-value pairs in two columns; without a title it goes on from the table above."""
    form = fmt_2cols if title else {**fmt_2cols, "table_dec_above": None}
    right = [(f"  {name:<19}", value) for name, value in right]
    tables = []
    for pairs in (left, right):
        names = [name for name, _ in pairs]
        tables.append(SimpleTable([[value] for _, value in pairs], None, names, title=title, txt_fmt=form))
    tables[0].extend_right(tables[1])
    return tables[0]


def _interval_notes(exact: _Intervals | str) -> list[str]:
    if isinstance(exact, str):
        return [f"No intervals: {exact}."]
    notes = [
        f"Guarantee: {_guarantee(exact)}.",
        "The exact full conformal sets are narrower on average by at most 'Distance to exact'. 'Stable "
        "width' is what one fit for all new rows certifies, with the share of it that is owed to "
        "stability; tau is how far a new response can move its own prediction.",
    ]
    if exact.pieces:
        notes.append("Some sets are not intervals: the intervals are their hulls.")
    if exact.k > exact.n:
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    return notes


def _fit_notes(results: _Results, design: Design) -> list[str]:
    notes = ["Coefficients are shrunk by the penalty; standard errors are not defined for them."]
    notes += _transformed_note(design)
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    return notes


def _transformed_note(design: Design) -> list[str]:
    if not design.transformed:
        return []
    return [f"Predictions and intervals are of the transformed response {design.response}."]


def _guarantee(intervals: _Intervals) -> str:
    return f"{intervals.guarantee} ({'certified' if intervals.certified else 'NOT certified'})"


def _mean_width(intervals: _Intervals) -> str:
    finite = intervals.width[np.isfinite(intervals.width)]
    return _number(np.mean(finite)) if len(finite) else "inf"


def _yes(flag: bool) -> str:
    return "yes" if flag else "NO"


def _number(value: float) -> str:
    return f"{value:.4g}"
