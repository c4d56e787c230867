"""Pieces of formulas at new rows: the left side where its columns are known, and single terms."""

import ast

import numpy as np
import pandas as pd
import patsy

from .errors import FormulaError, InputError
from .user_frames import check_duplicates, plain

__all__ = ["factor_codes", "factor_values", "names_in", "response_values", "term_values"]


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
    """A column, or an expression of columns, of one frame; missing values are None (objects)."""
    used = [code] if code in frame.columns else [name for name in frame.columns if name in names_in(code)]
    if code in frame.columns:
        check_duplicates(frame, used, "the frame")
        values = frame[code]
    else:
        names = {"C": lambda values, *more: values, "Q": lambda name: frame[name]}
        env = patsy.EvalEnvironment([{**names, **scope}])
        try:
            values = env.eval(code, inner_namespace={str(name): frame[name] for name in frame.columns})
        except Exception as error:
            text = str(error).split("\n")[0]
            raise FormulaError(
                f"{argument}={code!r} cannot be evaluated: {text}; use columns of both data and exog"
            ) from error
    values = pd.Series(np.asarray(values, dtype=object))
    if len(values) != len(frame):
        raise InputError(f"{argument}={code!r} has {len(values)} values for {len(frame)} rows")
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


def term_values(term, frame, scope):
    """Values of the factors of one term, ``{name: (m,) array}``; None or NaN where missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"g": ["a", "b"], "x": [1.0, 7.0]})
    >>> {name: values.tolist() for name, values in term_values("C(g):x > 5", frame, {}).items()}
    {'C(g)': ['a', 'b'], 'x > 5': [False, True]}
    """
    frame = plain(frame, levels_from_data=True).reset_index(drop=True)
    env, out = patsy.EvalEnvironment([scope]), {}
    try:
        found = patsy.ModelDesc.from_formula(f"0 + {term}").rhs_termlist
        for factor in found[0].factors:
            code = factor.name()
            info = patsy.dmatrix(f"0 + {code}", frame, env, NA_action="drop").design_info
            out[code] = _factor(info, frame)
    except Exception as error:
        text = str(error).split("\n")[0]
        raise FormulaError(f"{term!r} is neither a column nor a term of a formula: {text}") from error
    wide = [code for code, values in out.items() if values is None]
    if wide or len(found) != 1:
        what = f"{wide[0]!r} has several columns" if wide else f"{term!r} is {len(found)} terms"
        raise FormulaError(f"{what}: group by terms that have one column, in a list")
    return out


def _factor(info, frame):
    """Levels of a categorical factor, values of a numerical one, None for several columns."""
    (factor,) = info.factor_infos.values()
    if factor.type != "categorical":
        return _column(info, frame) if factor.num_columns == 1 else None
    (made,) = patsy.build_design_matrices([info], frame, NA_action="drop", return_type="dataframe")
    out = np.full(len(frame), None, dtype=object)
    out[made.index.to_numpy()] = np.array(factor.categories, dtype=object)[made.to_numpy().argmax(axis=1)]
    return out


def _column(info, frame):
    out = np.full(len(frame), np.nan)
    (made,) = patsy.build_design_matrices([info], frame, NA_action="drop", return_type="dataframe")
    out[made.index.to_numpy()] = made.iloc[:, 0].to_numpy(dtype=float)
    return out
