"""Formulas as text: names, factors, columns, and what to write instead of what cannot be used.

`factors` evaluates whole ones, `term_values` a single term, by which groups, tables and figures go. Hints
are for people who come from R; they read the formula as it stands, for what cannot be parsed has no terms.
"""

import ast
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import patsy

from ..errors import FormulaError, InputError, InputTypeError
from .frames import as_labels, by_label, check_duplicates, copied, has_labels, lacking, plain_columns

# patsy's transforms: they learn from the frame they are given, so terms that go by row must not have them.
TRANSFORMS = {name: getattr(patsy.builtins, name) for name in set(patsy.builtins.__all__) - {"C", "Q"}}

_NUMPY = ("log", "log10", "log2", "log1p", "exp", "expm1", "sqrt", "abs", "sin", "cos", "floor", "ceil")
_INSTEAD = {
    "factor": "C(...) makes a column a category",
    "as.factor": "C(...) makes a column a category",
    "ns": "cr(x, df=4) is a natural cubic spline, bs(x, df=4) a B-spline",
    "s": "cr(x, df=4) is a natural cubic spline, bs(x, df=4) a B-spline",
    "poly": "write powers, x + I(x**2)",
    "offset": "take it off the response, I(y - known) ~ x",
    "ifelse": "np.where(x > 0, 1, 0) chooses by row",
    "cut": "pd.cut(x, [0, 1, 2]) cuts a number into groups",
}
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\s*\(")
_QUOTED = re.compile(r"""Q\(\s*(?:'[^']*'|"[^"]*")\s*\)""")
_UNKNOWN = re.compile(r"name '(\w+)' is not defined")


def caller_scope(depth: int) -> Mapping[str, Any]:
    """The names visible ``depth`` frames above the caller of this function."""
    return patsy.EvalEnvironment.capture(depth + 1).namespace


def taken_from(
    scope: Mapping[str, Any], names: Iterable[str], index: pd.Index
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Copies of what the formula names and data lacks: names of the scope, and Series as columns."""
    found: dict[str, Any] = {}
    columns: dict[str, Any] = {}
    for name in sorted(names):
        if name not in scope and name != "np":
            continue
        value = scope.get(name, np)
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


def check_asked(formula: object, missing: object) -> None:
    """Refuse what is no formula, and unknown ways with missing values."""
    if not isinstance(formula, str):
        raise InputTypeError(
            f"formula={formula!r} is a {type(formula).__name__}: give a string such as 'y ~ x1 + x2'"
        )
    if missing not in ("drop", "raise"):
        raise InputError(f"missing={missing!r} is unknown: give 'drop' or 'raise'")


def sides_of(formula: str) -> tuple[list[Any], list[Any]]:
    """The terms of the left and of the right side of a formula."""
    parsed = _parsed(formula, "formula", formula)
    if not (parsed.lhs_termlist and all(term.factors for term in parsed.lhs_termlist)):
        raise FormulaError(
            f"formula={formula!r} needs a response on the left of '~' and no constant: write 'y ~ x1 + x2'"
        )
    if not parsed.rhs_termlist:
        raise FormulaError(f"formula={formula!r} has no terms: write 'y ~ 1' for a constant")
    return parsed.lhs_termlist, parsed.rhs_termlist


def codes_of(terms: Collection[Any]) -> list[str]:
    """The factors of terms, as expressions."""
    return [factor.code for term in terms for factor in term.factors]


def factor_codes(term: str, argument: str) -> list[str]:
    """The factors of one formula term, as expressions; ``argument`` names it in errors.

    >>> factor_codes("C(g):x > 5", "groups")
    ['C(g)', 'x > 5']
    """
    terms = _parsed(f"~ 0 + {term}", argument, term).rhs_termlist
    if len(terms) != 1:
        raise FormulaError(f"{argument}={term!r} has {len(terms)} terms: give one, or a list of columns")
    return codes_of(terms)


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


@contextmanager
def formula_errors(problem: str, fix: str = "") -> Iterator[None]:
    """Whatever goes wrong inside is a `FormulaError`: the problem, the first line of the cause, the fix."""
    try:
        yield
    except Exception as error:
        cause = str(error).split("\n")[0]
        raise FormulaError(f"{problem}: {cause}{fix}") from error


@contextmanager
def hints(formula: str, columns: Iterable[object]) -> Iterator[None]:
    """A `FormulaError` from inside ends with advice on the formula, where there is any."""
    try:
        yield
    except FormulaError as error:
        hint = _hint(formula, columns, str(error))
        if not hint:
            raise
        raise FormulaError(f"{error}\nHint: {hint}.") from error


def _hint(formula: str, columns: Iterable[object], error: str) -> str:
    """Advice on a formula that failed, or "", given the columns of its frame."""
    text = _QUOTED.sub("1", formula)
    names = [name for name in columns if isinstance(name, str)]
    found = []
    left, _, right = text.partition("~")
    if re.search(r"(?<![\w.)])\.(?![\w.(])", right):  # R's y ~ .
        used = set(re.findall(r"\w+", left))
        others = [name if name.isidentifier() else f"Q({name!r})" for name in names if name not in used]
        shown = " + ".join(others[:8]) + (" + ..." if len(others) > 8 else "")
        found.append(f"'.' is not known: write the columns, {left.strip()} ~ {shown}")
    for name in names:  # those that are no Python names, where the formula has them as they are
        alone = rf"(?<![\w.]){re.escape(name)}(?![\w.(])"
        if name.strip() and not name.isidentifier() and re.search(alone, text):
            found.append(f"write Q({name!r}) for the column {name!r}")
    for called in dict.fromkeys(_CALL.findall(text)):
        if called in _NUMPY and called not in names:
            found.append(f"write np.{called}(...) for {called}(...)")
        elif called in _INSTEAD:
            found.append(f"{called}() is not known here: {_INSTEAD[called]}")
    if "^" in text:
        found.append("write ** for a power, within I(...): I(x**2)")
    if re.search(r"(?<!\|)\|(?!\|)", text):
        found.append(
            "'|' has no meaning here: write C(g) for a group, and ask for groups= where intervals are made"
        )
    unknown = _UNKNOWN.search(error)
    if found or not unknown:
        return "; ".join(found)
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(unknown[1].lower(), lower, n=1)
    meant = f"did you mean {lower[near[0]]!r}? Else give" if near else "give"
    return f"{meant} data a column of that name, or define the name before the call"


def term_values(code: str, frame: pd.DataFrame, scope: Mapping[str, Any], argument: str) -> pd.Series:
    """A column, or an expression of columns and names of ``scope``, at the rows of a frame, by position.

    >>> frame = pd.DataFrame({"g": ["a", "b"], "x": [1.0, None]}, index=[7, 8])
    >>> term_values("C(g)", frame, {}, "by").tolist(), term_values("x > 5", frame, {}, "by").tolist()
    (['a', 'b'], [False, nan])
    """
    if code in frame.columns:
        check_duplicates(frame, [code], "the frame")
        return as_labels(frame[code].reset_index(drop=True), code, argument)
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
        values = values.mask(lacking(columns, len(frame)))  # else False where a value is missing
    return as_labels(values, code, argument)
