"""Summary tables in statsmodels' own format: text, HTML, LaTeX and CSV.

Only what is known is shown: a penalised robust fit has no standard errors that would deserve the name.
"""

import textwrap

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

__all__ = ["summarise", "summarise_estimator", "summarise_model", "summarise_quantiles"]

_WIDTH = 78


class _Summary(Summary):
    """statsmodels' `Summary`, whose LaTeX keeps tables of different widths apart."""

    def as_latex(self):
        parts = [table.as_latex_tabular() for table in self.tables]
        return "\n\n".join([*parts, self.extra_txt.replace("\n", " \\newline\n ")])


def summarise(results, design, solution, exact, stable):
    """The `Summary` of a fit and of its intervals at the training design points.

    Parameters
    ----------
    results : Results
    design : Design
    solution : Solution
    exact, stable : Intervals or str
        By either method at the same training points, or why it refuses.
    """
    refused = isinstance(exact, str)
    summary = _Summary()
    summary.tables.append(_model_table(results, design, solution))
    cells = [
        [_number(coefficient), _number(standard)]
        for coefficient, standard in zip(results.params, results.params_standardized, strict=True)
    ]
    head = ["coef", "standardized"]
    summary.tables.append(SimpleTable(cells, head, _short(design.names), title=None, txt_fmt=fmt_params))
    if not refused:
        summary.tables.append(_interval_table(results.model, exact, stable))
    notes = [f"No intervals: {exact}."] if refused else _interval_notes(exact)
    summary.add_extra_txt(_notes(results, design, notes))
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
    left = [
        ("Dep. Variable:", design.response),
        ("Estimator:", name if len(name) <= 20 else f"{name[:17]}..."),
    ]
    right = [("No. Observations:", str(results.nobs)), ("Rows dropped:", str(len(design.dropped)))]
    summary.tables.append(_pairs("Regression by any estimator", left, right))
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
            ("Infinite:", str(int(np.sum(np.isinf(intervals.width))))),
        ]
        summary.tables.append(_pairs("Conformal intervals at the training points", left, right))
        word = "certified" if intervals.certified else "NOT certified"
        notes.append(f"{intervals.method}: {intervals.guarantee} ({word}).")
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    summary.add_extra_txt(_numbered(notes))
    return summary


def summarise_quantiles(results, design, fits, made):
    """The `Summary` of quantile fits and of the band's intervals at the training points.

    Parameters
    ----------
    results : QuantileResults
    design : Design
    fits : list of Results
        One a level.
    made : Intervals or None
        None where there is one level only.
    """
    model, summary = results.model, _Summary()
    steps = sum(fit._solution.nit for fit in fits)
    left = [
        ("Dep. Variable:", design.response),
        ("Loss:", "quantile"),
        ("Penalty:", model.penalty.describe()),
        ("Standardize:", str(model.standardize)),
    ]
    right = [
        ("No. Observations:", str(results.nobs)),
        ("Rows dropped:", str(len(design.dropped))),
        ("Converged:", f"{'yes' if results.converged else 'NO'}, {steps} steps"),
        ("Rows that cross:", str(int(results.crossing().sum()))),
    ]
    summary.tables.append(_pairs("Regularised quantile regression", left, right))
    cells = [[_number(value) for value in row] for row in results.params.to_numpy()]
    names = [textwrap.shorten(str(name), 40, placeholder="...") for name in design.names]
    head = [f"{level:.2f}" if round(level, 2) == level else f"{level:g}" for level in model.quantiles]
    summary.tables.append(SimpleTable(cells, head, names, title=None, txt_fmt=fmt_params))
    notes = []
    if made is not None:
        summary.tables.append(_band_table(made, (model.quantiles[0], model.quantiles[-1])))
        notes.append(
            f"Guarantee: {made.guarantee} (certified), given the design map learned in training; the "
            "intervals are exact full conformal sets of the distance from the band."
        )
    notes.append("'Rows that cross' are training rows where a lower quantile lies above a higher one.")
    summary.add_extra_txt(_notes(results, design, notes))
    return summary


def _band_table(made, pair):
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
    count = len(made.width)
    where = "the training points" if count == made.n else f"{count} of the training points"
    return _pairs(f"Conformal intervals at {where}", left, right)


def summarise_model(results, design, exact, stable):
    """The `Summary` of a statsmodels model and of its intervals at the training design points.

    Parameters
    ----------
    results : StatsmodelsResults
    design : Design
    exact, stable : Intervals or str
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
        SimpleTable(cells, ["coef"], _short(design.names), title=None, txt_fmt=fmt_params)
    )
    if not refused:
        summary.tables.append(_interval_table(results.model, exact, stable))
    notes = [f"No intervals: {exact}."] if refused else _interval_notes(exact)
    notes += ["Coefficients are those of statsmodels.", *recipe.notes]
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    summary.add_extra_txt(_numbered(notes))
    return summary


def _short(names):
    """Names of columns, cut to what fits a table."""
    return [textwrap.shorten(str(name), 40, placeholder="...") for name in names]


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


def _interval_table(model, intervals, stable):
    left = [
        ("Method:", intervals.method),
        ("alpha:", f"{intervals.alpha:g}"),
        ("Order statistic:", f"{intervals.k} of {intervals.n}"),
        ("Infinite:", str(int(np.sum(np.isinf(intervals.width))))),
        ("Not an interval:", str(len(intervals.pieces))),
    ]
    right = [
        ("Mean width:", _mean_width(intervals)),
        ("Certified gap:", _number(intervals.certified_gap)),
        ("Stable width:", "none" if isinstance(stable, str) else _mean_width(stable)),
        ("Largest tau:", "none" if isinstance(stable, str) else _number(stable.largest_tau)),
        ("Lipschitz rho:", _number(model.loss.lipschitz)),
    ]
    count = len(intervals.width)
    where = "the training points" if count == intervals.n else f"{count} of the training points"
    return _pairs(f"Conformal intervals at {where}", left, right)


def _mean_width(intervals):
    finite = intervals.width[np.isfinite(intervals.width)]
    return _number(np.mean(finite)) if len(finite) else "inf"


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


def _notes(results, design, notes):
    notes.append("Coefficients are shrunk by the penalty; standard errors are not defined for them.")
    if design.transformed:
        notes.append(f"Predictions and intervals are of the transformed response {design.response}.")
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    return _numbered(notes)


def _numbered(notes):
    lines = []
    for number, note in enumerate(notes, 1):
        lines += textwrap.wrap(f"[{number}] {note}", _WIDTH, subsequent_indent="    ")
    return ["Notes:", *lines]


def _interval_notes(intervals):
    guarantee = "certified" if intervals.certified else "NOT certified"
    notes = [
        f"Guarantee: {intervals.guarantee} ({guarantee}), given the design map learned in training.",
        "The exact full conformal sets are narrower on average by at most 'Certified gap'; 'Stable "
        "width' is what one fit for all new rows certifies, and 'Largest tau' how far it lets a new "
        "response move its own prediction.",
    ]
    if intervals.pieces:
        notes.append("Some sets are not intervals: the intervals are their hulls.")
    if intervals.k > intervals.n:
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    return notes


def _number(value):
    return f"{value:.4g}"
