"""Groups of rows for tables and figures: by columns, by bins of a number, or by a term of a formula."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from ..checks import is_count, is_number
from ..errors import InputError, InputTypeError

__all__ = ["MISSING", "OUTSIDE", "crossed", "group_labels"]

MISSING, OUTSIDE = "(missing)", "(outside)"
_MOST_VALUES = 30  # a number with more different values than this wants bins


def group_labels(by, frame, terms):
    """Labels of the groups that ``by`` makes, as ordered categories.

    Parameters
    ----------
    by : str, mapping, or list of these
        A column or a term; or ``{column: 4}`` for quarters of equal size, ``{column: [0, 10, 100]}`` for
        intervals, closed on the right.
    frame : DataFrame
        The rows.
    terms : callable
        Of a term, to ``{name: (m,) array}``.

    Returns
    -------
    DataFrame
        A column a grouping, a row a row of ``frame`` by position. Rows without a value are in the group
        "(missing)", rows beyond the intervals in "(outside)".

    Examples
    --------
    >>> frame = pd.DataFrame({"g": ["a", "b", None], "x": [1.0, 2.0, 30.0]})
    >>> group_labels(["g", {"x": [0, 10]}], frame, None).to_numpy().tolist()
    [['a', '(0, 10]'], ['b', '(0, 10]'], ['(missing)', '(outside)']]
    """
    made = {}
    for each in [by] if isinstance(by, (str, Mapping)) else _listed(by):
        for name, values, bins in _wanted(each, frame, terms):
            if name in made:
                raise InputError(f"by={by!r} has {name!r} twice: give each grouping once")
            made[name] = _binned(values, bins, name) if bins is not None else _plain_labels(values, name)
    return pd.DataFrame(made)


def _listed(by):
    if not isinstance(by, (list, tuple)) or not by:
        raise InputTypeError(
            f"by={by!r}: give a column, a term such as 'C(g)', bins such as {{'x': 4}}, or a list of these"
        )
    return by


def _wanted(by, frame, terms):
    """Triples of name, values (m,) and bins or None."""
    if isinstance(by, Mapping):
        return [(name, _values(name, frame, terms), bins) for name, bins in by.items()]
    if isinstance(by, str) and by not in frame.columns:
        return [(name, values, None) for name, values in terms(by).items()]
    if np.ndim(by) or by not in frame.columns:
        raise InputError(f"by={by!r} is not a column: there are {', '.join(map(str, frame.columns))}")
    return [(by, _values(by, frame, terms), None)]


def _values(name, frame, terms):
    if name not in frame.columns and not isinstance(name, str):
        raise InputError(f"by={name!r} is not a column: there are {', '.join(map(str, frame.columns))}")
    if name not in frame.columns:
        values = list(terms(name).values())
        if len(values) != 1:
            raise InputError(
                f"by={{{name!r}: ...}} has {len(values)} parts: give bins of one column or term"
            )
        return pd.Series(values[0])
    column = frame[name]
    if column.ndim > 1:
        raise InputError(f"by={name!r}: there is more than one such column: rename or drop the duplicates")
    return column.reset_index(drop=True)


def _plain_labels(values, name):
    """Each value a group; categories keep their order, others are sorted."""
    values = pd.Series(values)
    if isinstance(values.dtype, pd.CategoricalDtype):
        levels = list(values.cat.remove_unused_categories().cat.categories)
    else:
        levels = _sorted(pd.unique(values.dropna()))
    if pd.api.types.is_numeric_dtype(values.dtype) and len(levels) > _MOST_VALUES:
        raise InputError(
            f"by={name!r} has {len(levels)} different numbers: give bins, by={{{name!r}: 4}} say"
        )
    extra = [MISSING] if values.isna().any() and MISSING not in levels else []
    labels = values.astype(object).where(values.notna(), MISSING)
    return pd.Categorical(labels, categories=[*levels, *extra], ordered=True)


def _sorted(levels):
    try:
        return sorted(levels)
    except TypeError:  # values that cannot be compared
        return sorted(levels, key=str)


def _binned(values, bins, name):
    """Bins of a number: of equal counts for a number of bins, or between edges."""
    numeric = pd.to_numeric(pd.Series(values), errors="coerce")
    if numeric.isna().sum() > pd.isna(pd.Series(values)).sum() or values.dtype.kind in "Mm":
        raise InputError(
            f"by={{{name!r}: ...}} bins numbers, and {name!r} has other values: give by={name!r}"
        )
    known = numeric.dropna().to_numpy(dtype=float)
    if is_count(bins, least=2):
        edges = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1))) if len(known) else np.array([])
        closed_left = True
    else:
        edges, closed_left = _edges(bins, name), False
    if len(edges) < 2:  # one value, or none
        edges = np.array([known[0] - 1.0, known[0]]) if len(known) else np.array([0.0, 1.0])
    cut = pd.cut(numeric, edges, include_lowest=closed_left)
    names = _interval_names(edges, closed_left)
    codes = cut.cat.codes.to_numpy()
    labels = np.array([*names, OUTSIDE], dtype=object)[codes]
    labels[numeric.isna().to_numpy()] = MISSING
    levels = [*names, *(extra for extra in (OUTSIDE, MISSING) if extra in labels)]
    return pd.Categorical(labels, categories=levels, ordered=True)


def _edges(bins, name):
    if isinstance(bins, (str, bool)) or not hasattr(bins, "__iter__"):
        raise InputTypeError(
            f"by={{{name!r}: {bins!r}}}: give a whole number of bins, 2 or more, or a list of edges"
        )
    edges = list(bins)
    if len(edges) < 2 or not all(map(is_number, edges)) or not np.all(np.diff(edges) > 0):
        raise InputError(f"by={{{name!r}: {edges}}}: give two edges or more, in increasing order")
    return np.array(edges, dtype=float)


def _interval_names(edges, closed_left):
    """Intervals in words: learned edges with as many digits as tell them apart, given ones in full."""
    for digits in range(4 if closed_left else 12, 18):
        words = [_edge(edge, digits) for edge in edges]
        if len(set(words)) == len(edges):
            break
    names = [f"({low}, {high}]" for low, high in pairwise(words)]
    return ["[" + names[0][1:], *names[1:]] if closed_left else names


def _edge(edge, digits):
    if not np.isfinite(edge) or not 1e-4 <= abs(edge) < 1e7:
        return f"{edge:.{digits}g}"
    return np.format_float_positional(float(f"{edge:.{digits}g}"), trim="-")


def crossed(groups):
    """One Categorical of all groupings, and their name; None twice without any."""
    if groups is None:
        return None, None
    names = list(groups.columns)
    if len(names) == 1:
        return pd.Categorical(groups[names[0]]), str(names[0])
    each = [pd.Categorical(groups[name]) for name in names]
    codes = np.zeros(len(groups), dtype=int)
    for one in each:
        codes = codes * len(one.categories) + one.codes
    words = groups.astype(str).agg(", ".join, axis=1)
    order = words[np.argsort(codes, kind="stable")].drop_duplicates()
    return pd.Categorical(words, categories=list(order), ordered=True), ", ".join(map(str, names))
