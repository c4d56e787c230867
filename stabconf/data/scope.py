"""What a formula takes from the calling scope: found, copied, matched to the rows, made to pickle."""

import types
from importlib import import_module

import numpy as np
import pandas as pd

from .frames import by_label, copied, has_labels, listed

__all__ = ["as_columns", "modules_by_name", "modules_found", "row_values", "taken_from"]


def taken_from(scope, names, index):
    """Values of the calling scope, as copies.

    Parameters
    ----------
    scope : mapping
    names : iterable of str
        What the formula names and data does not have.
    index : Index
        Labels of the rows of data.

    Returns
    -------
    found : dict
        Functions, modules, numbers, arrays, ... by name.
    columns : dict
        Series with a value for each row, matched to the rows by label.
    """
    found, columns = {}, {}
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


def row_values(scope, count):
    """Names of the arrays with a value for each of ``count`` rows."""
    return [name for name, value in scope.items() if np.ndim(value) == 1 and len(value) == count]


def as_columns(names):
    """What to do about variables that new rows need, in words."""
    return (
        f"{listed(names, 'variable')} of the calling scope had one value a training row: make it a column "
        "of both frames"
    )


def modules_by_name(scope):
    """The values with modules as their names, which can be pickled; `modules_found` is the way back."""
    return {
        name: ("module", value.__name__) if isinstance(value, types.ModuleType) else ("value", value)
        for name, value in scope.items()
    }


def modules_found(scope):
    """What `modules_by_name` was given."""
    return {
        name: import_module(content) if kind == "module" else content
        for name, (kind, content) in scope.items()
    }
