"""Summary tables in statsmodels' own format: text, HTML, LaTeX and CSV.

Only what is known is shown: a penalised robust fit has no standard errors that would deserve the name.
"""

import csv
import html
import io
import textwrap

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from .tables import html_table, latex_escaped, latex_table, percent, shortened

__all__ = [
    "summarise",
    "summarise_estimator",
    "summarise_model",
    "summarise_quantiles",
    "table_cells",
]

_WIDTH = 78


class _Summary(Summary):
    """statsmodels' `Summary`, which escapes labels and keeps tables of different widths apart."""

    def as_html(self):
        parts = [html_table(*table_cells(table), table.title, "simpletable") for table in self.tables]
        return "\n".join([*parts, *(f"<p>{html.escape(note)}</p>" for note in self.notes)])

    def as_latex(self):
        parts = [latex_table(*table_cells(table), table.title) for table in self.tables]
        notes = [latex_escaped(note) for note in self.notes]
        return "\n\n".join([*parts, " \\newline\n".join(notes)])

    def as_csv(self):
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for table in self.tables:
            head, lines = table_cells(table)
            writer.writerows([[table.title]] if table.title else [])
            writer.writerows([head, *lines] if head else lines)
        writer.writerows([note] for note in self.notes)
        return out.getvalue()

    def add_notes(self, notes):
        """Numbered notes below the tables."""
        self.notes = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
        wrapped = [textwrap.wrap(note, _WIDTH, subsequent_indent="    ") for note in self.notes]
        self.add_extra_txt(["Notes:", *(line for lines in wrapped for line in lines)])


def table_cells(table):
    """The header (or None) and the lines of a `SimpleTable`, as strings."""
    rows = [[str(each.data or "").strip() for each in row] for row in table]
    has_head = any(each.datatype == "header" for each in table[0])
    return (rows[0], rows[1:]) if has_head else (None, rows)


def summarise(results, design, solution, exact, stable, where):
    """The `Summary` of a fit and of its intervals.

    Parameters
    ----------
    results : Results
    design : Design
    solution : Solution
    exact, stable : Intervals or str
        By either method at the same points, or why it refuses.
    where : str
        Which points, in words.
    """
    refused = isinstance(exact, str)
    summary = _Summary()
    summary.tables += _model_tables(results, design, solution)
    cells = [
        [_number(coefficient), _number(standard)]
        for coefficient, standard in zip(results.params, results.params_standardized, strict=True)
    ]
    names = [shortened(name, 44) for name in design.names]
    head = ["coef", "standardized"]
    summary.tables.append(SimpleTable(cells, head, names, title=None, txt_fmt=fmt_params))
    if not refused:
        summary.tables.append(_interval_table(exact, stable, where))
    notes = [f"No intervals: {exact}."] if refused else _interval_notes(exact)
    summary.add_notes(_notes(results, design, notes))
    return summary


def summarise_estimator(results, design, made):
    """The `Summary` of an estimator and of its intervals at the training points.

    Parameters
    ----------
    results : EstimatorResults
    design : Design
    made : list of Intervals
    """
    summary, name = _Summary(), type(results.model.estimator).__name__
    left = [("Dep. Variable:", shortened(design.response, 20)), ("Estimator:", shortened(name, 20))]
    right = [("No. Observations:", str(results.nobs)), ("Rows dropped:", str(len(design.dropped)))]
    summary.tables += [
        _formula_table("Regression by any estimator", results.model.formula),
        _pairs(None, left, right),
    ]
    notes = []
    for intervals in made:
        certified = "yes" if intervals.certified else "NO"
        left = [
            ("Method:", intervals.method),
            ("alpha:", f"{intervals.alpha:g}"),
            ("Certified:", certified),
        ]
        right = [
            ("Mean width:", _mean_width(intervals)),
            ("Order statistic:", f"{intervals.k} of {intervals.n}"),
            ("Infinite:", str(intervals.open_rows)),
        ]
        summary.tables.append(_pairs("Conformal intervals at the training points", left, right))
        word = "certified" if intervals.certified else "NOT certified"
        notes.append(f"{intervals.method}: {intervals.guarantee} ({word}).")
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    summary.add_notes(notes)
    return summary


def summarise_quantiles(results, design, fits, made, where):
    """The `Summary` of quantile fits and of the band's intervals at the training points.

    Parameters
    ----------
    results : QuantileResults
    design : Design
    fits : list of Results
        One a level.
    made : Intervals or None
        None where there is one level only.
    where : str
        At which points, in words.
    """
    model, summary = results.model, _Summary()
    steps = sum(fit._fitted.solution.nit for fit in fits)
    left = [
        ("Dep. Variable:", shortened(design.response, 20)),
        ("Loss:", "quantile"),
        ("Penalty:", shortened(model.penalty.describe(), 20)),
        ("Standardised:", "yes" if model.standardize else "no"),
    ]
    right = [
        ("No. Observations:", str(results.nobs)),
        ("Rows dropped:", str(len(design.dropped))),
        ("Converged:", f"{'yes' if results.converged else 'NO'}, {steps} steps"),
        ("Rows that cross:", str(int(results.crossing().sum()))),
    ]
    summary.tables.append(_pairs("Regularised quantile regression", left, right))
    cells = [[_number(value) for value in row] for row in results.params.to_numpy()]
    names = [shortened(name, 44) for name in design.names]
    head = [f"{level:.2f}" if round(level, 2) == level else f"{level:g}" for level in model.quantiles]
    summary.tables.append(SimpleTable(cells, head, names, title=None, txt_fmt=fmt_params))
    notes = []
    if made is not None:
        summary.tables.append(_band_table(made, (model.quantiles[0], model.quantiles[-1]), where))
        notes.append(
            f"Guarantee: {made.guarantee} (certified); the "
            "intervals are exact full conformal sets of the distance from the band."
        )
    notes.append("'Rows that cross' are training rows where a lower quantile lies above a higher one.")
    summary.add_notes(_notes(results, design, notes))
    return summary


def _band_table(made, pair, where):
    finite = made.width[np.isfinite(made.width)]
    spread = (np.min(finite), np.max(finite)) if len(finite) else (np.inf, np.inf)
    left = [
        ("Method:", made.method),
        ("Band:", f"{pair[0]:g} to {pair[1]:g}"),
        ("alpha:", f"{made.alpha:g}"),
        ("Order statistic:", f"{made.k} of {made.n}"),
    ]
    right = [
        ("Mean width:", _mean_width(made)),
        ("Narrowest:", _number(spread[0])),
        ("Widest:", _number(spread[1])),
        ("Infinite:", str(int(np.sum(np.isinf(made.width))))),
    ]
    return _pairs(f"Conformal intervals at {where}", left, right)


def summarise_model(results, design, exact, stable, where):
    """The `Summary` of a statsmodels model and of its intervals.

    Parameters
    ----------
    results : StatsmodelsResults
    design : Design
    exact, stable, where
        As in `summarise`.
    """
    refused, recipe = isinstance(exact, str), results.recipe
    summary = _Summary()
    left = [("Dep. Variable:", design.response), ("Model:", recipe.label)]
    left += [("Penalty:", recipe.penalty.describe())]
    right = [("No. Observations:", str(results.nobs)), ("Rows dropped:", str(len(design.dropped)))]
    right += [("Off the minimiser:", _number(results.mismatch))]
    summary.tables.append(_pairs("Regression by statsmodels", left, right))
    cells = [[_number(coefficient)] for coefficient in results.params]
    summary.tables.append(
        SimpleTable(
            cells, ["coef"], [shortened(name, 44) for name in design.names], title=None, txt_fmt=fmt_params
        )
    )
    if not refused:
        summary.tables.append(_interval_table(exact, stable, where))
    notes = [f"No intervals: {exact}."] if refused else _interval_notes(exact)
    notes += ["Coefficients are those of statsmodels.", *recipe.notes]
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    summary.add_notes(notes)
    return summary


def _model_tables(results, design, solution):
    model = results.model
    left = [
        ("Dep. Variable:", shortened(design.response, 20)),
        ("Loss:", shortened(model.loss.describe(), 20)),
        ("Penalty:", shortened(model.penalty.describe(), 20)),
        ("Residual scale:", _number(results.scale)),
    ]
    right = [
        ("No. Observations:", str(results.nobs)),
        ("Rows dropped:", str(len(design.dropped))),
        ("Converged:", f"{'yes' if results.converged else 'NO'}, {solution.nit} steps"),
        ("Standardised:", "yes" if model.standardize else "no"),
    ]
    return [_formula_table("Regularised robust regression", model.formula), _pairs(None, left, right)]


def _formula_table(title, formula):
    """The formula on as many lines as it needs; it opens the table below, so it has no lower rule."""
    width = _WIDTH - 10
    lines = textwrap.wrap(" ".join(formula.split()), width) or [""]
    form = {**fmt_2cols, "data_fmts": [f"%-{width}s"], "data_aligns": "l", "colwidths": None}
    stubs = ["Formula: ", *[""] * (len(lines) - 1)]
    return SimpleTable([[line] for line in lines], None, stubs, title=title, txt_fmt=form)


def _interval_table(intervals, stable, where):
    refused = isinstance(stable, str)
    left = [
        ("Method:", intervals.method),
        ("alpha:", f"{intervals.alpha:g}"),
        ("Coverage:", f"at least {1 - intervals.alpha:g}"),
        ("Order statistic:", f"{intervals.k} of {intervals.n}"),
        ("Infinite:", str(intervals.open_rows)),
        ("Not an interval:", str(len(intervals.pieces))),
    ]
    right = [
        ("Mean width:", _mean_width(intervals)),
        ("Distance to exact:", _number(intervals.certified_gap)),
        ("Stable width:", "none" if refused else _mean_width(stable)),
        ("Due to stability:", "none" if refused else percent(stable.stability_share)),
        ("Largest tau:", "none" if refused else _number(stable.largest_tau)),
        ("Median tau:", "none" if refused or not len(stable.tau) else _number(np.median(stable.tau))),
    ]
    return _pairs(f"Conformal intervals at {where}", left, right)


def _mean_width(intervals):
    finite = intervals.width[np.isfinite(intervals.width)]
    return _number(np.mean(finite)) if len(finite) else "inf"


def _pairs(title, left, right):
    """A table of name-value pairs in two columns; without a title it goes on from the table above."""
    form = fmt_2cols if title else {**fmt_2cols, "table_dec_above": None}
    right = [(f"  {name:<19}", value) for name, value in right]
    tables = [
        SimpleTable(
            [[value] for _, value in pairs],
            None,
            [name for name, _ in pairs],
            title=title,
            txt_fmt=form,
        )
        for pairs in (left, right)
    ]
    tables[0].extend_right(tables[1])
    return tables[0]


def _notes(results, design, notes):
    notes.append("Coefficients are shrunk by the penalty; standard errors are not defined for them.")
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    return notes


def _interval_notes(intervals):
    guarantee = "certified" if intervals.certified else "NOT certified"
    notes = [
        f"Guarantee: {intervals.guarantee} ({guarantee}).",
        "The exact full conformal sets are narrower on average by at most 'Distance to exact'. 'Stable "
        "width' is what one fit for all new rows certifies, with the share of it that is owed to "
        "stability; tau is how far a new response can move its own prediction.",
    ]
    if intervals.pieces:
        notes.append("Some sets are not intervals: the intervals are their hulls.")
    if intervals.k > intervals.n:
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    return notes


def _number(value):
    return f"{value:.4g}"
