"""Pieces of formulas at new rows: the left side where its columns are known, and single terms."""

import ast

import numpy as np
import pandas as pd
import patsy

from .errors import FormulaError, InputError
from .user_frames import check_duplicates, plain

__all__ = ["factor_codes", "factor_values", "names_in", "response_values", "term_values"]

_NAMES = ("C", "Q")  # of patsy's functions those that say what a column is


def names_in(code):
    """Names and quoted names (``Q("a b")``) in a piece of formula."""
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Q" and node.args:
            names.add(getattr(node.args[0], "value", None))
    return names


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
    used = [code] if code in frame.columns else [name for name in frame.columns if name in names_in(code)]
    if code in frame.columns:
        check_duplicates(frame, used, "the frame")
        values = frame[code]
    else:
        names = dict(zip(_NAMES, (lambda values, *more: values, lambda name: frame[name]), strict=True))
        env = patsy.EvalEnvironment([{**names, **scope}])
        try:
            values = env.eval(code, inner_namespace={str(name): frame[name] for name in frame.columns})
        except Exception as error:
            text = str(error).split("\n")[0]
            raise FormulaError(
                f"{argument}={code!r} is neither a column nor a term of a formula: {text}; use columns "
                "that training and new rows have"
            ) from error
    values = np.asarray(values, dtype=object)
    if values.ndim > 1:
        raise FormulaError(f"{argument}={code!r} has several columns: give terms of one column, in a list")
    if values.shape != (len(frame),):
        raise InputError(f"{argument}={code!r} has {values.size} values for {len(frame)} rows")
    values = pd.Series(values)
    # A comparison with a missing value is False, not missing: its columns must be there too.
    missing = values.isna().to_numpy() | frame[used].isna().any(axis=1).to_numpy()
    return values.where(~missing, None).to_numpy()


def response_values(info, used, frame, formula):
    """The left side of a formula at new rows (m,), NaN where missing; None where ``frame`` lacks a column.

    Parameters
    ----------
    info : patsy DesignInfo
        Of the left side.
    used : set of str
        Names in it that are neither functions nor variables of the calling scope.
    frame : DataFrame
    formula : str
        For errors.
    """
    used = used - set(dir(patsy.builtins))
    if not used or used - set(frame.columns):
        return None
    check_duplicates(frame, used, "exog")
    values = plain(frame[[column for column in frame.columns if column in used]])
    try:
        return _column(info, values.reset_index(drop=True))
    except Exception as error:
        text = str(error).split("\n")[0]
        raise FormulaError(f"exog cannot be put through the left side of {formula!r}: {text}") from error


def term_values(term, frame, scope, argument):
    """Values of the factors of one term, ``{name: (m,) array}``; None or NaN where missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"g": ["a", "b"], "x": [1.0, 7.0]})
    >>> found = term_values("C(g):x > 5", frame, {}, "by")
    >>> {name: values.tolist() for name, values in found.items()}
    {'C(g)': ['a', 'b'], 'x > 5': [False, True]}
    """
    known = {name: getattr(patsy.builtins, name) for name in patsy.builtins.__all__ if name not in _NAMES}
    found = {}
    for code in factor_codes(term, argument):
        values = factor_values(code, frame, {**known, **scope}, argument)
        found[code] = pd.Series(values).infer_objects().to_numpy()
    return found


def _column(info, frame):
    out = np.full(len(frame), np.nan)
    (made,) = patsy.build_design_matrices([info], frame, NA_action="drop", return_type="dataframe")
    out[made.index.to_numpy()] = made.iloc[:, 0].to_numpy(dtype=float)
    return out
