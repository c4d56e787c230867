"""Back to the units of the response where a formula transforms it: ``units="response"``.

Intervals, predictions, tables, figures and reports call `as_units`. An increasing transform keeps coverage:
a response lies between the ends if and only if its transform lies between theirs.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError, InputTypeError
from .design import Design
from .formulas import column_of

Transform = Callable[[np.ndarray], Any]


def _square(values: np.ndarray) -> np.ndarray:
    """The inverse of the root; what lies below 0 is not the root of anything, and 0 is the nearest."""
    return np.maximum(values, 0.0) ** 2


def _as_is(values: np.ndarray) -> np.ndarray:
    return values


_INVERSES: dict[Any, Transform] = {
    np.log: np.exp,
    np.log1p: np.expm1,
    np.log10: partial(np.power, 10.0),
    np.log2: np.exp2,
    np.sqrt: _square,
}


@dataclass(frozen=True)
class ResponseUnits:
    """The ways ``forward`` from the response itself to the model's, and back, ``inverse``; both increase.

    ``response`` is its name in these units; ``column`` the column that has it, "" where it is an
    expression, or the model's response.
    """

    response: str
    column: str
    forward: Transform
    inverse: Transform

    @property
    def unchanged(self) -> bool:
        """Whether these are the units of the model's response."""
        return self.inverse is _as_is

    def back(self, values: Any) -> np.ndarray:
        """Values of the model's response, of any shape, in units of the response."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.inverse(np.asarray(values, dtype=float)), dtype=float)

    def there(self, values: np.ndarray) -> np.ndarray:
        """Responses as the model has them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.forward(np.asarray(values, dtype=float)), dtype=float)

    def candidates(self, values: np.ndarray, response: str) -> np.ndarray:
        """The same for values that the model's ``response`` must be able to have."""
        made = self.there(values)
        strays = values[~np.isfinite(made)]
        if len(strays):
            raise InputError(f"z={strays[0]} is not a response that {response} can have: leave it out")
        return made

    def observed(self, frame: pd.DataFrame, y: np.ndarray | None) -> np.ndarray | None:
        """Responses of the rows of a frame: its column where it has one, for digits get lost on the way
        there and back; else from the model's responses ``y``, None where these are not known."""
        if self.column and list(frame.columns).count(self.column) == 1:
            values = pd.to_numeric(frame[self.column], errors="coerce")
            return values.to_numpy(dtype=float, na_value=np.nan)
        return None if y is None else self.back(y)


def as_units(units: Any, design: Design) -> ResponseUnits:
    """What ``units`` asks for: None for those of the model's response, "response", or a pair of functions,
    from the response to the model's and back.

    >>> from stabconf.data.design import build_design
    >>> design = build_design("np.log10(y) ~ x", {"y": [1.0, 10.0, 100.0], "x": [0.0, 1.0, 3.0]}, {})
    >>> made = as_units("response", design)
    >>> made.response, made.back(np.array([-1.0, 2.0])).tolist()
    ('y', [0.1, 100.0])
    """
    read_off = isinstance(units, str)
    if read_off and units != "response":
        raise InputError(f"units={units!r} is unknown: give 'response', or a pair of functions")
    if units is None or (read_off and not design.transformed):
        return ResponseUnits(design.response, "", _as_is, _as_is)
    name, column, function = _call(design.response, design._scope)
    if read_off and function not in _INVERSES:
        known = ", ".join(f"np.{each.__name__}" for each in _INVERSES)
        raise InputError(
            f"units='response' does not know the way back from {design.response!r}: it knows {known}; give "
            "a pair of functions, such as units=(np.cbrt, lambda z: z**3)"
        )
    if read_off:
        return ResponseUnits(name, column, function, _INVERSES[function])
    pair = units if isinstance(units, (tuple, list)) else ()
    if len(pair) != 2 or not all(map(callable, pair)):
        raise InputTypeError(
            f"units={units!r} is not a pair of functions: give 'response', or the way there and the way "
            "back, such as (np.cbrt, lambda z: z**3)"
        )
    made = ResponseUnits(name or f"{design.response}, back-transformed", column, *pair)
    _check_inverse(made, np.unique(design.y), design.response)
    return made


def _call(code: str, scope: Mapping[str, Any]) -> tuple[str, str, Any]:
    """The argument of a call in words, the column that it is ("" for an expression), and the function;
    "", "" and None for what is no call of one argument."""
    try:
        node = ast.parse(code, mode="eval").body
    except SyntaxError:
        return "", "", None
    while isinstance(node, ast.Call) and ast.unparse(node.func) == "I" and len(node.args) == 1:
        node = node.args[0]
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return "", "", None
    name, *rest = ast.unparse(node.func).split(".")
    function = scope.get(name, np if name in ("np", "numpy") else getattr(np, name, None))
    for attribute in rest:
        function = getattr(function, attribute, None)
    argument = ast.unparse(node.args[0])
    column, _ = column_of(argument)
    return column or argument, column, function if isinstance(function, np.ufunc) else None


def _check_inverse(units: ResponseUnits, y: np.ndarray, response: str) -> None:
    """Refuse functions that do not invert each other at the training responses, or do not increase."""
    values = units.back(y)
    if values.shape != y.shape or not np.all(np.isfinite(values)):
        raise InputError(
            f"the second function of units does not turn the responses {response!r} into finite numbers, "
            "one each: give the way there, and the way back"
        )
    if not np.allclose(units.there(values), y, rtol=1e-6, atol=1e-9 * float(np.max(np.abs(y)))):
        raise InputError(
            f"the functions of units do not invert each other at the responses {response!r}: give the way "
            "from the response to the model's, and the way back"
        )
    if np.any(np.diff(values) <= 0):
        raise InputError(
            f"the functions of units do not increase at the responses {response!r}, so that a lower end "
            "would become an upper one: fit the negative of the response, '-1 / y' instead of '1 / y' say"
        )
