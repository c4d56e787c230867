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


def summarise(results, design, solution, intervals, largest_tau):
    """The `Summary` of a fit and of its intervals at the training design points.

    Parameters
    ----------
    results : Results
    design : Design
    solution : Solution
    intervals : Intervals
    largest_tau : float
        Largest bound on the movement of a row's own prediction, in units of the response.
    """
    summary = Summary()
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
    summary.tables.append(_pairs("Regularised robust regression", left, right))
    cells = [
        [_number(coefficient), _number(standard)]
        for coefficient, standard in zip(results.params, results.params_standardized, strict=True)
    ]
    names = [textwrap.shorten(str(name), 40, placeholder="...") for name in design.names]
    head = ["coef", "standardized"]
    summary.tables.append(SimpleTable(cells, head, names, title=None, txt_fmt=fmt_params))
    left = [
        ("Method:", f"{intervals.method}, {intervals.bound} bound"),
        ("alpha:", f"{intervals.alpha:g}"),
        ("Order statistic:", f"{intervals.k} of {intervals.n}"),
        ("Lipschitz rho:", _number(model.loss.lipschitz)),
    ]
    finite = intervals.width[np.isfinite(intervals.width)]
    right = [
        ("Mean width:", _number(np.mean(finite)) if len(finite) else "inf"),
        ("Due to stability:", f"{intervals.stability_share:.1%}"),
        ("Largest tau:", _number(largest_tau)),
        ("Within of exact:", _number(intervals.certified_gap)),
    ]
    summary.tables.append(_pairs("Conformal intervals at the training points", left, right))
    summary.add_extra_txt(_notes(results, design, intervals))
    return summary


def _pairs(title, left, right):
    """A table of name-value pairs in two columns."""
    pairs = zip(left, right, strict=True)
    rows = [[name, value, f" {other}", worth] for (name, value), (other, worth) in pairs]
    data = [row[1:] for row in rows]
    return SimpleTable(data, None, [row[0] for row in rows], title=title, txt_fmt=fmt_2cols)


def _notes(results, design, intervals):
    guarantee = "certified" if intervals.certified else "NOT certified"
    notes = [
        f"Guarantee: {intervals.guarantee} ({guarantee}), given the design map learned in training.",
        "The width of the exact full conformal set lies between the mean width and that less "
        "'Within of exact'.",
        "Coefficients are shrunk by the penalty; standard errors are not defined for them.",
    ]
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    if intervals.k > intervals.n:
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    lines = []
    for number, note in enumerate(notes, 1):
        lines += textwrap.wrap(f"[{number}] {note}", _WIDTH, subsequent_indent="    ")
    return ["Notes:", *lines]


def _number(value):
    return f"{value:.4g}"
