"""What to write instead, for formulas that patsy cannot use: the slips of people who come from R.

`formulas` and `design` add these hints to their errors. They read the formula as text, for what cannot be
parsed has no terms.
"""

import difflib
import re
from collections.abc import Iterable

__all__ = ["formula_hint"]

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


def formula_hint(formula: str, columns: Iterable[object], error: str = "") -> str:
    """Advice on a formula that failed with ``error``, or "", given the columns of its frame.

    Examples
    --------
    >>> formula_hint("y ~ log(x)", ["y", "x"])
    'write np.log(...) for log(...)'
    >>> formula_hint("y ~ yrs.service", ["y", "yrs.service"])
    "write Q('yrs.service') for the column 'yrs.service'"
    """
    text = _QUOTED.sub("1", formula)
    names = [name for name in columns if isinstance(name, str)]
    found = [*_dot(text, names), *_odd_names(text, names), *_functions(text, names)]
    if "^" in text:
        found.append("write ** for a power, within I(...): I(x**2)")
    if re.search(r"(?<!\|)\|(?!\|)", text):
        found.append(
            "'|' has no meaning here: write C(g) for a group, and ask for groups= where intervals are made"
        )
    return "; ".join(found) or _unknown(error, names)


def _unknown(error: str, names: list[str]) -> str:
    """A name that is neither a column nor of the calling scope."""
    unknown = _UNKNOWN.search(error)
    if not unknown:
        return ""
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(unknown[1].lower(), lower, n=1)
    meant = f"did you mean {lower[near[0]]!r}? Else give" if near else "give"
    return f"{meant} data a column of that name, or define the name before the call"


def _dot(text: str, names: list[str]) -> list[str]:
    """R's ``y ~ .``, with the columns that it stands for."""
    left, _, right = text.partition("~")
    if not re.search(r"(?<![\w.)])\.(?![\w.(])", right):
        return []
    used = set(re.findall(r"\w+", left))
    others = [name if name.isidentifier() else f"Q({name!r})" for name in names if name not in used]
    shown = " + ".join(others[:8]) + (" + ..." if len(others) > 8 else "")
    return [f"'.' is not known: write the columns, {left.strip()} ~ {shown}"]


def _odd_names(text: str, names: list[str]) -> list[str]:
    """Columns whose names are no Python names and stand in the formula as they are."""
    odd = [name for name in names if not name.isidentifier() and _stands_in(text, name)]
    return [f"write Q({name!r}) for the column {name!r}" for name in odd]


def _stands_in(text: str, name: str) -> bool:
    return bool(name.strip()) and bool(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", text))


def _functions(text: str, names: list[str]) -> list[str]:
    """Functions of R by other names here."""
    hints = []
    for called in dict.fromkeys(_CALL.findall(text)):
        if called in _NUMPY and called not in names:
            hints.append(f"write np.{called}(...) for {called}(...)")
        elif called in _INSTEAD:
            hints.append(f"{called}() is not known here: {_INSTEAD[called]}")
    return hints
