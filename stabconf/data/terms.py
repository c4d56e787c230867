"""Pieces of formulas: factors, the left side at new rows where its columns are known, and single terms."""

import ast
import itertools

import numpy as np
import pandas as pd
import patsy

from ..errors import FormulaError, InputError
from .frames import by_label, check_duplicates, plain
from .units import ColumnKinds

__all__ = [
    "DropMissing",
    "column_kinds",
    "column_of",
    "factor_codes",
    "factor_values",
    "formula_codes",
    "is_column",
    "names_in",
    "response_values",
    "term_values",
]

_NAMES = ("C", "Q")  # of patsy's functions those that say what a column is


class DropMissing(patsy.NAAction):
    """Drops incomplete rows as patsy does, but looks for them in plain arrays; ``kept`` are the others.

    Looking through pandas, column by column, takes about a third of the time of a fit to a thousand rows.
    """

    def is_numerical_NA(self, arr):
        return super().is_numerical_NA(np.asarray(arr))

    def handle_NA(self, values, is_NAs, origins):
        self.kept = np.flatnonzero(~np.logical_or.reduce(is_NAs))
        return super().handle_NA(values, is_NAs, origins)


def names_in(code):
    """Names and quoted names (``Q("a b")``) in a piece of formula."""
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Q" and node.args:
            names.add(getattr(node.args[0], "value", None))
    return names


def column_of(code):
    """The column that a factor is, and whether it is said to be a category; None where it is an expression.

    Examples
    --------
    >>> [column_of(code) for code in ("x", "Q('a b')", "I(x)", "C(g, Sum)", "x > 2")]
    [('x', False), ('a b', False), ('x', False), ('g', True), (None, False)]
    """
    node, category = ast.parse(code, mode="eval").body, False
    while isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("C", "I", "Q") and node.args:
        category |= node.func.id == "C"
        node = node.args[0]
    name = node.id if isinstance(node, ast.Name) else getattr(node, "value", None)
    return (name, category) if isinstance(name, str) else (None, False)


def is_column(response, columns):
    """Whether a response is a column as it is, quoted (``Q("a b")``) or not."""
    return response in columns or any(response in (f"Q({name!r})", f'Q("{name}")') for name in columns)


def column_kinds(info, values, kept):
    """The `ColumnKinds` of a design.

    Parameters
    ----------
    info : patsy.DesignInfo
    values : DataFrame
        What the design was made of.
    kept : (n,) array of int
        Its rows that are in the design.
    """
    categorical, parts, intercept, at = [], {}, None, 0
    for term, subterms in info.term_codings.items():
        if not term.factors:
            intercept = at
        for subterm in subterms:
            numbers = [factor for factor in subterm.factors if factor not in subterm.contrast_matrices]
            mixed = bool(numbers) and bool(subterm.contrast_matrices)
            if mixed:
                for j, part in enumerate(_numeric_parts(info, subterm, values)):
                    parts[at + j] = part[kept]
            categorical += [bool(term.factors) and not numbers] * subterm.num_columns
            at += subterm.num_columns
    return ColumnKinds(intercept, np.array(categorical, dtype=bool), parts)


def _numeric_parts(info, subterm, values):
    """The product of the numeric factors of each column of a subterm, in the order of its columns."""
    counts, made = [], {}
    for factor in subterm.factors:
        if factor in subterm.contrast_matrices:
            counts.append(subterm.contrast_matrices[factor].matrix.shape[1])
            continue
        made[len(counts)] = np.asarray(factor.eval(info.factor_infos[factor].state, values), dtype=float)
        made[len(counts)] = made[len(counts)].reshape(len(values), -1)
        counts.append(made[len(counts)].shape[1])
    for places in itertools.product(*(range(count) for count in reversed(counts))):  # the first is fastest
        columns = [made[j][:, place] for j, place in enumerate(reversed(places)) if j in made]
        yield np.prod(columns, axis=0)


def formula_codes(formula):
    """The factors of the left and of the right side of a formula, as expressions.

    Examples
    --------
    >>> formula_codes("np.log(y) ~ x + C(g):x")
    (['np.log(y)'], ['x', 'C(g)', 'x'])
    """
    try:
        desc = patsy.ModelDesc.from_formula(formula)
    except (patsy.PatsyError, SyntaxError) as error:
        raise FormulaError(f"formula={formula!r} cannot be parsed: {error}") from error
    except RecursionError as error:
        raise FormulaError(
            f"formula={formula[:60] + '...'!r} has too many terms for the parser: put blocks of a "
            "hundred in parentheses, 'y ~ (x1 + x2 + ...) + (...)'"
        ) from error
    if len(desc.lhs_termlist) != 1 or not desc.lhs_termlist[0].factors:
        raise FormulaError(
            f"formula={formula!r} needs one response on the left of '~': write 'y ~ x1 + x2'"
        )
    if not desc.rhs_termlist:
        raise FormulaError(f"formula={formula!r} has no terms: write 'y ~ 1' for a constant")
    sides = desc.lhs_termlist, desc.rhs_termlist
    return tuple([factor.code for term in side for factor in term.factors] for side in sides)


def factor_codes(term, argument):
    """The factors of one formula term, as expressions; ``argument`` names it in errors.

    Examples
    --------
    >>> factor_codes("C(g):x > 5", "groups")
    ['C(g)', 'x > 5']
    """
    try:
        terms = patsy.ModelDesc.from_formula(f"~ 0 + {term}").rhs_termlist
    except (patsy.PatsyError, SyntaxError) as error:
        raise FormulaError(f"{argument}={term!r} cannot be parsed: {error}") from error
    if len(terms) != 1:
        raise FormulaError(f"{argument}={term!r} has {len(terms)} terms: give one, or a list of columns")
    return [factor.code for factor in terms[0].factors]


def factor_values(code, frame, scope, argument):
    """A column, or an expression of columns, of one frame; missing values are None (objects).

    Patsy's transforms are known only if ``scope`` has them: they learn from the frame they are given.
    """
    values = _evaluated(code, frame, scope, argument).astype(object)
    return values.where(values.notna(), None).to_numpy()


def _evaluated(code, frame, scope, argument):
    """A column, or an expression of columns, of one frame (Series by position)."""
    used = [code] if code in frame.columns else [name for name in frame.columns if name in names_in(code)]
    check_duplicates(frame, used, "the frame")
    if code in frame.columns:
        return frame[code].reset_index(drop=True)
    columns = plain(frame[used])
    names = dict(zip(_NAMES, (lambda values, *more: values, lambda name: columns[name]), strict=True))
    env = patsy.EvalEnvironment([{**names, **scope}])
    try:
        values = env.eval(code, inner_namespace={str(name): columns[name] for name in used})
    except Exception as error:
        text = str(error).split("\n")[0]
        raise FormulaError(
            f"{argument}={code!r} is neither a column nor a term of a formula: {text}; use columns "
            "that training and new rows have"
        ) from error
    if np.ndim(values) > 1:
        raise FormulaError(f"{argument}={code!r} has several columns: give terms of one column, in a list")
    if np.shape(values) != (len(frame),):
        raise InputError(f"{argument}={code!r} has {np.size(values)} values for {len(frame)} rows")
    values = pd.Series(by_label(values, frame.index, f"{argument}={code!r}")).reset_index(drop=True)
    if _compares(code):  # with a missing value the outcome is False, not missing
        values = values.mask(columns.isna().any(axis=1).to_numpy())
    return values


def _compares(code):
    return any(isinstance(node, ast.Compare) for node in ast.walk(ast.parse(code, mode="eval")))


def response_values(info, used, frame, formula):
    """The left side of a formula at new rows (m,), NaN where missing; None where ``frame`` lacks a column.

    Parameters
    ----------
    info : patsy DesignInfo
        Of the left side.
    used : set of str
        Columns of the training frame in it.
    frame : DataFrame
    formula : str
        For errors.
    """
    if not used or used - set(frame.columns):
        return None
    check_duplicates(frame, used, "exog")
    values = plain(frame[[column for column in frame.columns if column in used]])
    try:
        return _column(info, values.reset_index(drop=True))
    except Exception as error:
        text = str(error).split("\n")[0]
        raise FormulaError(f"exog cannot be put through the left side of {formula!r}: {text}") from error


def term_values(codes, frame, scope, argument):
    """Values of the factors of a term, ``{name: (m,) array or Categorical}``; None or NaN where missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"g": ["a", "b"], "x": [1.0, 7.0]})
    >>> found = term_values(["C(g)", "x > 5"], frame, {}, "by")
    >>> {name: values.tolist() for name, values in found.items()}
    {'C(g)': ['a', 'b'], 'x > 5': [False, True]}
    """
    known = {name: getattr(patsy.builtins, name) for name in patsy.builtins.__all__ if name not in _NAMES}
    found = {}
    for code in codes:
        values = _evaluated(code, frame, {**known, **scope}, argument)
        ordered = isinstance(values.dtype, pd.CategoricalDtype)
        found[code] = values.array if ordered else values.infer_objects().to_numpy()
    return found


def _column(info, frame):
    out = np.full(len(frame), np.nan)
    (made,) = patsy.build_design_matrices([info], frame, NA_action="drop", return_type="dataframe")
    out[made.index.to_numpy()] = made.iloc[:, 0].to_numpy(dtype=float)
    return out
