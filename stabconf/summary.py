"""Summary tables in statsmodels' own format: text, HTML, LaTeX and CSV.

Only what is known is shown: a penalised robust fit has no standard errors that would deserve the name.
"""

import textwrap

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

__all__ = ["summarise"]

_WIDTH = 78


class _Summary(Summary):
    """statsmodels' `Summary`, whose LaTeX keeps tables of different widths apart."""

    def as_latex(self):
        parts = [table.as_latex_tabular() for table in self.tables]
        return "\n\n".join([*parts, self.extra_txt.replace("\n", " \\newline\n ")])


def summarise(results, design, solution, intervals, refusal=None):
    """The `Summary` of a fit and of its intervals at the training design points.

    Parameters
    ----------
    results : Results
    design : Design
    solution : Solution
    intervals : Intervals or None
        None where no method certifies intervals for this model.
    refusal : str, optional
        Why there are none.
    """
    summary = _Summary()
    summary.tables.append(_model_table(results, design, solution))
    cells = [
        [_number(coefficient), _number(standard)]
        for coefficient, standard in zip(results.params, results.params_standardized, strict=True)
    ]
    names = [textwrap.shorten(str(name), 40, placeholder="...") for name in design.names]
    head = ["coef", "standardized"]
    summary.tables.append(SimpleTable(cells, head, names, title=None, txt_fmt=fmt_params))
    if intervals is not None:
        summary.tables.append(_interval_table(results.model, intervals))
    summary.add_extra_txt(_notes(results, design, intervals, refusal))
    return summary


def _model_table(results, design, solution):
    model = results.model
    left = [
        ("Dep. Variable:", design.response),
        ("Loss:", model.loss.describe()),
        ("Penalty:", model.penalty.describe()),
        ("Standardize:", str(model.standardize)),
    ]
    right = [
        ("No. Observations:", str(results.nobs)),
        ("Rows dropped:", str(len(design.dropped))),
        ("Converged:", f"{'yes' if results.converged else 'NO'}, {solution.nit} steps"),
        ("Certified radius:", _number(solution.radius)),
    ]
    return _pairs("Regularised robust regression", left, right)


def _interval_table(model, intervals):
    finite = intervals.width[np.isfinite(intervals.width)]
    left = [
        ("Method:", intervals.method),
        ("Stability bound:", intervals.bound),
        ("alpha:", f"{intervals.alpha:g}"),
        ("Order statistic:", f"{intervals.k} of {intervals.n}"),
        ("Lipschitz rho:", _number(model.loss.lipschitz)),
    ]
    right = [
        ("Mean width:", _number(np.mean(finite)) if len(finite) else "inf"),
        ("Infinite:", str(int(np.sum(np.isinf(intervals.width))))),
        ("Due to stability:", f"{intervals.stability_share:.1%}"),
        ("Largest tau:", _number(intervals.largest_tau)),
        ("Certified gap:", _number(intervals.certified_gap)),
    ]
    return _pairs("Conformal intervals at the training points", left, right)


def _pairs(title, left, right):
    """A table of name-value pairs in two columns."""
    right = [(f"  {name:<19}", value) for name, value in right]
    tables = [
        SimpleTable(
            [[value] for _, value in pairs],
            None,
            [name for name, _ in pairs],
            title=title,
            txt_fmt=fmt_2cols,
        )
        for pairs in (left, right)
    ]
    tables[0].extend_right(tables[1])
    return tables[0]


def _notes(results, design, intervals, refusal):
    notes = _interval_notes(intervals) if intervals is not None else [f"No intervals: {refusal}."]
    notes.append("Coefficients are shrunk by the penalty; standard errors are not defined for them.")
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    lines = []
    for number, note in enumerate(notes, 1):
        lines += textwrap.wrap(f"[{number}] {note}", _WIDTH, subsequent_indent="    ")
    return ["Notes:", *lines]


def _interval_notes(intervals):
    guarantee = "certified" if intervals.certified else "NOT certified"
    notes = [
        f"Guarantee: {intervals.guarantee} ({guarantee}), given the design map learned in training.",
        "The mean width of the exact full conformal sets is less than 'Mean width' by at most "
        "'Certified gap'.",
    ]
    if intervals.k > intervals.n:
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    return notes


def _number(value):
    return f"{value:.4g}"
