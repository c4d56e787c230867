"""Formulas and their pieces, as patsy reads them: names, factors, designs, the value of one factor.

`design` evaluates whole formulas, with what they name of the calling scope; groups, tables and figures go
by single terms, through `term_values`. patsy is seen here and in `factors` alone.
"""

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import patsy

from ..errors import FormulaError, InputError
from .factors import Evaluated, Missing, evaluate, learn
from .frames import by_label, check_duplicates, copied, formula_errors, has_labels, plain_columns

__all__ = [
    "TRANSFORMS",
    "both_sides",
    "caller_scope",
    "column_of",
    "design_along",
    "design_rows",
    "factor_codes",
    "formula_codes",
    "is_column",
    "names_in",
    "names_of",
    "pair_of_designs",
    "right_side",
    "taken_from",
    "term_values",
]

# patsy's transforms: they learn from the frame they are given, so terms that go by row must not have them.
TRANSFORMS = {name: getattr(patsy.builtins, name) for name in set(patsy.builtins.__all__) - {"C", "Q"}}


def caller_scope(depth: int) -> Mapping[str, Any]:
    """The names visible ``depth`` frames above the caller of this function."""
    return patsy.EvalEnvironment.capture(depth + 1).namespace


def taken_from(
    scope: Mapping[str, Any], names: Iterable[str], index: pd.Index
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copies of what the formula names and data, with rows ``index``, does not have.

    Returns names of the scope, and columns: Series matched to the rows by label.
    """
    found: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for name in sorted(names):
        try:
            value = scope[name]
        except KeyError:
            if name != "np":
                continue
            value = np
        if not isinstance(value, pd.Series):
            found[name] = copied(value)
        elif len(value) == len(index) or has_labels(value.index, index).all():
            columns[name] = by_label(value, index, f"{name!r} of the calling scope").array.copy()
        else:  # knots, say
            found[name] = value.to_numpy(copy=True)
    return found, columns


def names_in(*codes: str) -> set[str]:
    """Names and quoted names (``Q("a b")``) in pieces of formula."""
    nodes = [node for code in codes for node in ast.walk(_expression(code))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and _function(node) == "Q" and node.args:
            names.add(str(getattr(node.args[0], "value", None)))
    return names


def _expression(code: str) -> ast.Expression:
    """A piece of formula as Python reads it."""
    try:
        return ast.parse(code, mode="eval")
    except SyntaxError as error:
        raise FormulaError(f"{code!r} in a formula is not an expression ({error.msg})") from error


def column_of(code: str) -> tuple[str, bool]:
    """The column that a factor is ("" for an expression), and whether it is said to be a category.

    Examples
    --------
    >>> [column_of(code) for code in ("x", "Q('a b')", "I(x)", "C(g, Sum)", "x > 2")]
    [('x', False), ('a b', False), ('x', False), ('g', True), ('', False)]
    """
    node = _expression(code).body
    category = False
    while isinstance(node, ast.Call) and _function(node) in ("C", "I", "Q") and node.args:
        category |= _function(node) == "C"
        node = node.args[0]
    name = node.id if isinstance(node, ast.Name) else getattr(node, "value", None)
    return (name, category) if isinstance(name, str) else ("", False)


def _function(call: ast.Call) -> str | None:
    return getattr(call.func, "id", None)


def is_column(response: str, columns: Collection[str]) -> bool:
    """Whether a response is a column as it is, quoted (``Q("a b")``) or not."""
    return response in columns or any(response in (f"Q({name!r})", f'Q("{name}")') for name in columns)


def formula_codes(formula: str) -> tuple[list[str], list[str]]:
    """The factors of the left and of the right side of a formula, as expressions.

    Examples
    --------
    >>> formula_codes("np.log(y) ~ x + C(g):x")
    (['np.log(y)'], ['x', 'C(g)', 'x'])
    """
    parsed = _parsed(formula, "formula", formula)
    if not (parsed.lhs_termlist and all(term.factors for term in parsed.lhs_termlist)):
        raise FormulaError(
            f"formula={formula!r} needs a response on the left of '~' and no constant: write 'y ~ x1 + x2'"
        )
    if not parsed.rhs_termlist:
        raise FormulaError(f"formula={formula!r} has no terms: write 'y ~ 1' for a constant")
    return _codes(parsed.lhs_termlist), _codes(parsed.rhs_termlist)


def factor_codes(term: str, argument: str) -> list[str]:
    """The factors of one formula term, as expressions; ``argument`` names it in errors.

    Examples
    --------
    >>> factor_codes("C(g):x > 5", "groups")
    ['C(g)', 'x > 5']
    """
    terms = _parsed(f"~ 0 + {term}", argument, term).rhs_termlist
    if len(terms) != 1:
        raise FormulaError(f"{argument}={term!r} has {len(terms)} terms: give one, or a list of columns")
    return _codes(terms)


def _parsed(text: str, argument: str, given: str) -> patsy.ModelDesc:
    try:
        return patsy.ModelDesc.from_formula(text)
    except (patsy.PatsyError, SyntaxError) as error:
        raise FormulaError(f"{argument}={given!r} cannot be parsed: {error}") from error
    except RecursionError as error:
        raise FormulaError(
            f"{argument}={given[:60] + '...'!r} has too many terms for the parser: put blocks of a "
            "hundred in parentheses, 'y ~ (x1 + x2 + ...) + (...)'"
        ) from error


def _codes(terms: Collection[Any]) -> list[str]:
    return [factor.code for term in terms for factor in term.factors]


def both_sides(
    formula: str, frame: pd.DataFrame, scope: dict[str, Any]
) -> tuple[patsy.DesignInfo, patsy.DesignInfo, Evaluated]:
    """The designs of the responses and of the right side, and their factors at the complete rows.

    Each term of the left side is a response. patsy sees the labels of the rows, so that it refuses a Series
    with others.
    """
    parsed = _parsed(formula, "formula", formula)
    try:
        (left, right), made = learn([parsed.lhs_termlist, parsed.rhs_termlist], frame, scope)
    except patsy.PatsyError as error:
        raise FormulaError(f"formula={formula!r} cannot be used: {error}{_hint(error)}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}{_hint(error)}"
        raise FormulaError(f"formula={formula!r} cannot be evaluated on data: {text}") from error
    _check_responses(formula, left)
    return left, right, made


def _check_responses(formula: str, info: patsy.DesignInfo) -> None:
    """Refuse responses that are not one column of numbers each."""
    for term, part in info.term_slices.items():
        response = f"response {term.name()!r} in {formula!r}"
        for factor in (info.factor_infos[factor] for factor in term.factors):
            if factor.type != "numerical":
                levels = list(factor.categories)[:5]
                raise InputError(
                    f"{response} is not numeric (levels {levels}): convert it, with .astype(float) say; "
                    "code categories as 0, 1, ..., and give their labels in that order to conformity or "
                    "conformal_set"
                )
        if part.stop - part.start != 1:
            raise InputError(
                f"{response} has {part.stop - part.start} columns: give one; several responses are written "
                "'y1 + y2 ~ x'"
            )


def _hint(error: Exception) -> str:
    if "zero-size" in str(error) or "no levels" in str(error):
        return "\nEvery row has a missing value in a column of the formula."
    if "mismatch between column_names" in str(error):
        return "\nA column is called Intercept, as the constant is in formulas: rename the column."
    if any(words in str(error) for words in ("Index mismatch", "rows mismatch", "broadcast")):
        return "\nGive variables that are not columns of data its index, and a value for each row."
    return ""


def right_side(
    formula: str, frame: pd.DataFrame, scope: Mapping[str, Any], missing: Missing = "drop"
) -> tuple[patsy.DesignInfo, Evaluated]:
    """The design of the right side of a formula, and its factors at the complete rows."""
    terms = patsy.ModelDesc.from_formula("~" + formula.split("~", 1)[1]).rhs_termlist
    (info,), made = learn([terms], frame, scope, missing)
    return info, made


def pair_of_designs(
    formula: str, frames: Sequence[pd.DataFrame], scope: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """The designs of a one-sided formula learned on the first frame, at the rows of both."""
    info, made = right_side(formula, frames[0], scope, "raise")
    return made.matrix(info), evaluate([info], frames[1], "raise").matrix(info)


def design_along(
    formula: str, frames: Sequence[pd.DataFrame], scope: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """The same with a constant, NaN in rows of the second frame that lack a value."""
    plain = [plain_columns(frame, names_in(formula.lstrip("~ ")), "the frame") for frame in frames]
    info, made = right_side(formula, plain[0], scope, "raise")
    rows = made.matrix(info), design_rows(info, plain[1].reset_index(drop=True), len(plain[1]))
    trained, asked = (np.column_stack([np.ones(len(each)), each]) for each in rows)
    return trained, asked


def design_rows(info: patsy.DesignInfo, values: pd.DataFrame, count: int) -> np.ndarray:
    """Design rows (count, p) of ``values``, whose index are positions; NaN where rows lack a value."""
    made = evaluate([info], values, "drop")
    rows = made.matrix(info)
    if len(rows) == count:
        return rows
    whole = np.full((count, rows.shape[1]), np.nan)
    whole[values.index.to_numpy()[made.kept]] = rows
    return whole


def names_of(info: patsy.DesignInfo) -> set[str]:
    """Names in the factors of a design."""
    return names_in(*(factor.code for factor in info.factor_infos))


def term_values(code: str, frame: pd.DataFrame, scope: Mapping[str, Any], argument: str) -> pd.Series:
    """A column, or an expression of columns and names of ``scope``, at the rows of a frame, by position.

    Examples
    --------
    >>> frame = pd.DataFrame({"g": ["a", "b"], "x": [1.0, None]}, index=[7, 8])
    >>> term_values("C(g)", frame, {}, "by").tolist(), term_values("x > 5", frame, {}, "by").tolist()
    (['a', 'b'], [False, nan])
    """
    if code in frame.columns:
        check_duplicates(frame, [code], "the frame")
        return frame[code].reset_index(drop=True)
    columns = plain_columns(frame, names_in(code), "the frame")
    names = {"C": lambda values, *more: values, "Q": lambda name: columns[name], **scope}
    problem = f"{argument}={code!r} is neither a column nor a term of a formula"
    with formula_errors(problem, "; use columns that training and new rows have"):
        known = {str(name): columns[name] for name in columns}
        values = patsy.EvalEnvironment([names]).eval(code, inner_namespace=known)
    if np.ndim(values) > 1:
        raise FormulaError(f"{argument}={code!r} has several columns: give terms of one column, in a list")
    if np.shape(values) != (len(frame),):
        raise InputError(f"{argument}={code!r} has {np.size(values)} values for {len(frame)} rows")
    values = pd.Series(by_label(values, frame.index, f"{argument}={code!r}")).reset_index(drop=True)
    if any(isinstance(node, ast.Compare) for node in ast.walk(ast.parse(code, mode="eval"))):
        values = values.mask(columns.isna().any(axis=1).to_numpy())  # else False where a value is missing
    return values
