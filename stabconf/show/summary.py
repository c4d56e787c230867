"""Summary tables in statsmodels' own format: text, HTML, LaTeX and CSV.

``summary()`` of each results class calls the function for its kind. Only what is known is shown: a
penalised robust fit has no standard errors that would deserve the name.
"""

import csv
import html
import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from ..data.design import Design
from .tables import Table, cell, latex_escaped, percent, promised, shortened, told_apart

_WIDTH = 78
_R2 = "Errors are those at the training rows. Pseudo R-squared is 1 - loss of the fit / loss of a constant."

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

    @property
    def parts(self) -> list[Table]:
        """The tables, of strings."""
        made = []
        for table in self.tables:
            rows = [[str(each.data or "").strip() for each in row] for row in table]
            has_head = any(each.datatype == "header" for each in table[0])
            made.append(Table(table.title or "", rows[0] if has_head else None, rows[has_head:]))
        return made

    def as_html(self) -> str:
        parts = [table.html("simpletable") for table in self.parts]
        return "\n".join([*parts, *(f"<p>{html.escape(note)}</p>" for note in self.notes)])

    def as_latex(self) -> str:
        parts = [table.latex() for table in self.parts]
        return "\n\n".join([*parts, " \\newline\n".join(map(latex_escaped, self.notes))])

    def as_csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for table in self.parts:
            writer.writerows([[table.title]] if table.title else [])
            writer.writerows([table.header] if table.header else [])
            writer.writerows(table.lines)
        writer.writerows([note] for note in self.notes)
        return out.getvalue()


def summarise(results: _Results, errors: bool = True) -> FitSummary:
    """The `Summary` of a fit: what was fitted, the coefficients, and its ``errors``, which a fit whose rows
    are not in memory does not know."""
    left = [_response(results), *_model_lines(results.model, results.model.loss.describe())]
    how = [("Residual scale:", _number(results.scale)), _converged(results, [results])]
    left, right = ([*left, *how], _quality(results)) if errors else (left, how)
    columns = [results.params, results.params_standardized]
    table = _coefficients(results.params.index, ["coef", "standardized"], columns)
    notes = [*([_R2] if errors else []), *_fit_notes(results, [results._design])]
    return _summary("Regularised robust regression", results, left, right, [table], notes)


def summarise_estimator(results: _Results, tau: str | None) -> FitSummary:
    """The `Summary` of an estimator; ``tau`` says who answers for its stability bounds, None where there
    are none."""
    left = [_response(results), ("Estimator:", shortened(results._described(), 18))]
    notes = [
        "Errors are those at the training rows, which flexible estimators can make as small as they like."
    ]
    if tau is not None:
        notes.append(f"Intervals of replace_one and batch rest on tau, which is {tau}.")
    notes += _transformed([results._design])
    return _summary("Regression by an estimator", results, left, _quality(results), [], notes)


def summarise_refitted(results: _Results) -> FitSummary:
    """The `Summary` of a statsmodels model that is fitted again to parts of the rows."""
    refit = results.refit
    name, _, part = refit.label.partition(", ")
    family = refit.fixed.get("family")
    left = [("Model:", name), *([("Norm:" if family is None else "Family:", part)] if part else [])]
    left += [] if family is None else [("Link:", type(family.link).__name__)]
    left += [("Per row:", ", ".join(results.per_row))] if results.per_row else []
    left = [(what, shortened(value, 18)) for what, value in left]
    note = "Coefficients are those of statsmodels; intervals come from refits to parts of the rows."
    return _borrowed(results, left, [note])


def summarise_model(results: _Results) -> FitSummary:
    """The `Summary` of a statsmodels model."""
    recipe = results.recipe
    left = [("Model:", recipe.label), ("Penalty:", recipe.penalty.describe())]
    return _borrowed(results, left, [_R2, "Coefficients are those of statsmodels.", *recipe.notes])


def _borrowed(results: _Results, left: _Pairs, notes: list[str]) -> FitSummary:
    """The `Summary` of a model whose coefficients are those of statsmodels."""
    left = [_response(results), *left]
    table = _coefficients(results.params.index, ["coef"], [results.params])
    notes = [*notes, *_transformed([results._design])]
    return _summary("Regression by statsmodels", results, left, _quality(results), [table], notes)


def summarise_quantiles(results: _Results) -> FitSummary:
    """The `Summary` of quantile fits, one per level."""
    model, params = results.model, results.params
    left = [_response(results), *_model_lines(model, "quantile")]
    right = [_converged(results, results._each.values())]
    heads = [f"{level:.2f}" if round(level, 2) == level else f"{level:g}" for level in model.quantiles]
    table = _coefficients(params.index, heads, params.to_numpy().T, results.fit_quality["pseudo_r2"])
    notes = [_R2]
    crossing = int(results.crossing().sum())
    if crossing:
        notes.append(f"Fitted quantiles cross at {crossing} of {results.nobs} training rows.")
    notes += _fit_notes(results, [results._design])
    return _summary("Regularised quantile regression", results, left, right, [table], notes)


def summarise_several(results: _Results, made: Sequence[_Intervals] = (), where: str = "") -> FitSummary:
    """The `Summary` of the fits of several responses and, where they are given, of their joint intervals,
    one record each."""
    fits, params = list(results.components.values()), results.params
    left = [*_model_lines(results.model, results.model.loss.describe()), _converged(results, fits)]
    right = [("Responses:", str(len(fits)))]
    names = told_apart(results.model.responses, 20)
    r2 = [fit.fit_quality["pseudo_r2"] for fit in fits]
    tables = [_coefficients(params.index, names, params.to_numpy().T, r2)]
    notes = [
        "The score of a row is the largest of its residuals in units of their scales; an interval of one "
        "response alone, components[name].conf_int_conformal, is narrower.",
        _R2,
        *_fit_notes(results, results._designs),
    ]
    if made:
        first = made[0]
        asked = [("Coverage:", promised(first.promise)), ("Method:", first.method)]
        rank = [("Order statistic:", f"{first.k} of {first.n}"), ("Infinite:", str(first.open_rows))]
        cells = [
            [_number(fit.scale), _width(each), percent(each.stability_share)]
            for fit, each in zip(fits, made, strict=True)
        ]
        heads = ["residual scale", "mean width", "due to stability"]
        tables.append(_pairs(f"Joint conformal intervals at {where}", asked, rank))
        tables.append(SimpleTable(cells, heads, names, title=None, txt_fmt=fmt_params))
        notes.insert(0, f"Guarantee: {_guarantee(first)}.")
    title = "Regularised robust regression of several responses"
    return _summary(title, results, left, right, tables, notes)


def add_intervals(
    fit: FitSummary, made: _Intervals | str, where: str, more: _Pairs, last: Sequence[str]
) -> FitSummary:
    """The summary of a fit, with a table of its intervals at the points ``where`` says: `Intervals`, or why
    there are none. ``more`` are lines of detail, from `stability_lines`, ``last`` notes of detail."""
    notes = [*(note.split("] ", 1)[1] for note in fit.notes), *last]
    if isinstance(made, str):
        return FitSummary(fit.tables, [f"No intervals: {made}.", *notes])
    left = [("Coverage:", promised(made.promise)), ("alpha:", f"{made.alpha:g}"), ("Method:", made.method)]
    kinds: dict[str, Callable[..., Any]] = {"Mean width:": np.mean, "Narrowest:": np.min, "Widest:": np.max}
    right = [(name, _width(made, of)) for name, of in kinds.items()]
    half = (len(more) + 1) // 2
    table = _pairs(f"Conformal intervals at {where}", left + more[:half], right + more[half:])
    return FitSummary([*fit.tables, table], [*_promises(made), *notes])


def stability_lines(made: _Intervals, stable: _Intervals | str) -> _Pairs:
    """Lines of detail about intervals, and about those of the stable method at the same points."""
    lines = [
        ("Order statistic:", f"{np.max(made.k)} of {np.max(made.n)}"),
        ("Infinite:", str(made.open_rows)),
        ("Not an interval:", str(len(made.pieces))),
        ("Distance to exact:", _number(made.certified_gap)),
    ]
    values = ["none"] * 4
    if not isinstance(stable, str):
        median = _number(np.median(stable.tau)) if np.size(stable.tau) else "none"
        share = percent(min(stable.stability_share, 1.0))
        values = [_width(stable), share, _number(stable.largest_tau), median]
        if not stable.certified:
            lines.append(("Stable certified:", "NO"))
    names = ("Stable width:", "Due to stability:", "Largest tau:", "Median tau:")
    return [*lines, *zip(names, values, strict=True)]


def _promises(made: _Intervals) -> list[str]:
    """What the intervals promise, and where they fail to be intervals."""
    finite = made.width[np.isfinite(made.width)]
    notes = [f"Guarantee: {_guarantee(made)}."]
    if len(finite):
        mean, least, most = (float(of(finite)) for of in (np.mean, np.min, np.max))
        wide = f"is {_number(mean)} wide on average, about ±{_number(mean / 2)}, and"
        if most > 1.2 * least:
            wide = f"is between {_number(least)} and {_number(most)} wide, {_number(mean)} on average, and"
        notes = [f"A {percent(1 - made.alpha)} interval for a new response {wide} {_guarantee(made)}."]
    if np.any(made.too_few):
        notes.append("Too few rows for this alpha: the intervals are infinite.")
    elif made.open_rows:
        notes.append(f"{made.open_rows} of these intervals are infinite.")
    if made.pieces:
        notes.append(f"{len(made.pieces)} sets are not intervals: the intervals are their hulls.")
    return notes


def _quality(results: _Results) -> _Pairs:
    """Fit quality, in words and numbers."""
    names = {"mae": "Mean abs. error:", "rmse": "Root mean sq. err.:", "pseudo_r2": "Pseudo R-squared:"}
    return [(names[name], _number(value)) for name, value in results.fit_quality.items()]


def _response(results: _Results) -> tuple[str, str]:
    return "Dep. Variable:", shortened(results._design.response, 18)


def _model_lines(model: Any, loss: str) -> _Pairs:
    return [("Loss:", shortened(loss, 18)), ("Penalty:", shortened(model.penalty.describe(), 18))]


def _converged(results: _Results, fits: Iterable[_Results]) -> tuple[str, str]:
    steps = sum(fit._fitted.solution.nit for fit in fits)
    return "Converged:", f"{'yes' if results.converged else 'NO'}, {steps} steps"


def _summary(
    title: str, results: _Results, left: _Pairs, right: _Pairs, tables: list[SimpleTable], notes: list[str]
) -> FitSummary:
    """The formula, then what was fitted, to which rows, and how, then other tables and the notes.

    The formula takes as many lines as it needs, and opens the table below: it has no lower rule.
    """
    width = _WIDTH - 10
    lines = textwrap.wrap(" ".join(results.model.formula.split()), width) or [""]
    form = {**fmt_2cols, "data_fmts": [f"%-{width}s"], "data_aligns": "l", "colwidths": None}
    stubs = ["Formula: ", *[""] * (len(lines) - 1)]
    formula = SimpleTable([[line] for line in lines], None, stubs, title=title, txt_fmt=form)
    dropped = str(len(results._design.dropped))
    rows = [("No. Observations:", str(results.nobs)), ("Rows dropped:", dropped)]
    return FitSummary([formula, _pairs(None, left, rows + right), *tables], notes)


def _coefficients(
    names: Iterable[object], heads: list[str], columns: Iterable[Iterable[float]], r2: Iterable[float] = ()
) -> SimpleTable:
    """Coefficients (p,) under each head, and the pseudo-R2 of several fits in a last line."""
    cells = [[_number(value) for value in row] for row in zip(*columns, strict=True)]
    names = told_apart(names, 44)
    if last := [_number(value) for value in r2]:
        cells, names = [*cells, last], [*names, "(pseudo R-squared)"]
    return SimpleTable(cells, heads, names, title=None, txt_fmt=fmt_params)


def _pairs(title: str | None, left: _Pairs, right: _Pairs) -> SimpleTable:
    """A table of name-value pairs in two columns; without a title it goes on from the table above."""
    form = fmt_2cols if title else {**fmt_2cols, "table_dec_above": None}
    pad = len(left) - len(right)
    left, right = left + [("", "")] * -pad, right + [("", "")] * pad
    right = [(f"  {name:<19}", value) for name, value in right]
    tables = []
    for pairs in (left, right):
        names = [name for name, _ in pairs]
        tables.append(SimpleTable([[value] for _, value in pairs], None, names, title=title, txt_fmt=form))
    tables[0].extend_right(tables[1])
    return tables[0]


def _fit_notes(results: _Results, designs: Iterable[Design]) -> list[str]:
    notes = ["Coefficients are shrunk by the penalty; standard errors are not defined for them."]
    notes += _transformed(designs)
    if not results.model.standardize:
        notes.append("Columns and response were taken as they are, not standardised.")
    if not results.converged:
        notes.append(
            "The solver did not reach its tolerance: intervals are wider by the certified radius. "
            "Raise max_iter or penalty."
        )
    return notes


def constants_note(results: _Results) -> str:
    """The constants of the paper and the tau that they give."""
    known = results.constants
    told = ", ".join(f"{name} {_number(value)}" for name, value in known.items())
    tau = known.attrs["tau"]
    if tau is None:
        return f"Constants: {told}. No stability bound applies without a penalty."
    norms = ", with a_i = |x_i| / sqrt(2 N lambda)" if "a_i" in tau else ""
    return f"Constants: {told}. tau_i = {tau}{norms}."


def _transformed(designs: Iterable[Design]) -> list[str]:
    said = "Predictions and intervals are of the transformed response"
    return [f"{said} {design.response}." for design in designs if design.transformed]


def _guarantee(intervals: _Intervals) -> str:
    return intervals.guarantee if intervals.certified else f"{intervals.guarantee} (NOT certified)"


def _width(intervals: _Intervals, of: Callable[..., Any] = np.mean) -> str:
    """The mean, or another number, of the finite widths."""
    finite = intervals.width[np.isfinite(intervals.width)]
    return _number(of(finite)) if len(finite) else "inf"


def _number(value: float) -> str:
    return cell(float(value)) or "none"
