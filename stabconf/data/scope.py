"""What a formula takes from the calling scope: found, copied, matched to the rows. `design` keeps it.

Functions, modules, numbers and arrays stay names of the scope; a Series with a value for each row becomes a
column.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import patsy

from .frames import by_label, copied, has_labels

__all__ = ["caller_scope", "taken_from", "with_modules", "without_modules"]


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


def without_modules(scope: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The scope and, apart, the names of its modules, for a module cannot be pickled."""
    modules = {name: value.__name__ for name, value in scope.items() if isinstance(value, ModuleType)}
    return {name: value for name, value in scope.items() if name not in modules}, modules


def with_modules(scope: Mapping[str, Any], modules: Mapping[str, str]) -> dict[str, Any]:
    """What `without_modules` was given."""
    return {**scope, **{name: import_module(module) for name, module in modules.items()}}
