"""Groups of rows for tables and figures: by columns, by bins of a number, or by a term of a formula.

Results call `group_labels` with the rows of a table, and `crossed` where one grouping must do.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..checks import is_count, is_number
from ..errors import InputError, InputTypeError
from .frames import as_labels, check_duplicates

MISSING, OUTSIDE = "(missing)", "(outside)"
_MOST_VALUES = 30  # a number with more different values than this wants bins

Terms = Callable[[str], Mapping[str, pd.Series]]  # from a formula term to the values (m,) of its factors


def group_labels(by: object, frame: pd.DataFrame, terms: Terms) -> pd.DataFrame:
    """Labels of the groups that ``by`` makes: one column of ordered categories per grouping, by position.

    ``by`` is a column or a term, ``{column: 4}`` for quarters of equal size, ``{column: [0, 10, 100]}`` for
    intervals, closed on the right, or a list of these. Rows without a value are in the group "(missing)",
    rows beyond the intervals in "(outside)".

    >>> frame = pd.DataFrame({"g": ["a", "b", None], "x": [1.0, 2.0, 30.0]})
    >>> group_labels(["g", {"x": [0, 10]}], frame, None).to_numpy().tolist()
    [['a', '(0, 10]'], ['b', '(0, 10]'], ['(missing)', '(outside)']]
    """
    asked = [by] if isinstance(by, (str, Mapping)) else by
    if not isinstance(asked, (list, tuple)) or not asked:
        raise InputTypeError(
            f"by={by!r}: give a column, a term such as 'C(g)', bins such as {{'x': 4}}, or a list of these"
        )
    made: dict[Hashable, pd.Categorical] = {}
    for each in asked:
        for name, bins in each.items() if isinstance(each, Mapping) else [(each, None)]:
            found = column_or_term(name, frame, terms)
            if bins is not None and len(found) != 1:
                raise InputError(f"by={name!r} has {len(found)} parts: give bins of one column or term")
            for part, values in found.items():
                label = part if bins is None else name
                if label in made:
                    raise InputError(f"by={by!r} has {label!r} twice: give each grouping once")
                made[label] = _levels(values, part) if bins is None else _binned(values, bins, name)
    return pd.DataFrame(made)


def column_or_term(
    name: Any, frame: pd.DataFrame, terms: Terms, argument: str = "by"
) -> Mapping[Any, pd.Series]:
    """Values (m,) of a column, or of the factors of a term; ``argument`` names it in errors."""
    if isinstance(name, Hashable) and name in frame.columns:
        check_duplicates(frame, [name], f"{argument}={name!r}: the frame")
        return {name: as_labels(frame[name].reset_index(drop=True), name, argument)}
    if isinstance(name, str):
        return terms(name)
    known = ", ".join(map(str, frame.columns))
    raise InputError(f"{argument}={name!r} is not a column: there are {known}")


def _levels(values: pd.Series, name: Hashable) -> pd.Categorical:
    """Each value a group; categories keep their order, others are sorted."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        levels = list(values.cat.remove_unused_categories().cat.categories)
    else:
        levels = list(pd.unique(values.dropna()))
        try:
            levels.sort()
        except TypeError:  # values that cannot be compared
            levels.sort(key=str)
    if pd.api.types.is_numeric_dtype(values.dtype) and len(levels) > _MOST_VALUES:
        raise InputError(
            f"by={name!r} has {len(levels)} different numbers: give bins, by={{{name!r}: 4}} say"
        )
    if values.isna().any() and MISSING not in levels:
        levels.append(MISSING)
    labels = values.astype(object).where(values.notna(), MISSING)
    return pd.Categorical(labels, categories=levels, ordered=True)


def _binned(values: pd.Series, bins: object, name: Hashable) -> pd.Categorical:
    """Bins of a number: of equal counts for a number of bins, or between edges."""
    numeric = pd.to_numeric(values, errors="coerce")
    if numeric.isna().sum() > values.isna().sum() or values.dtype.kind in "Mm":
        raise InputError(
            f"by={{{name!r}: ...}} bins numbers, and {name!r} has other values: give by={name!r}"
        )
    numeric = pd.Series(numeric.to_numpy(dtype=float, na_value=np.nan), values.index)
    known = numeric[np.isfinite(numeric)].to_numpy()
    learned = is_count(bins, least=2)
    edges = _edges(bins, known, name)
    names = _interval_names(edges, learned)
    codes = pd.cut(numeric, edges, include_lowest=learned).cat.codes.to_numpy()
    labels = np.array([*names, OUTSIDE], dtype=object)[codes]
    labels[numeric.isna().to_numpy()] = MISSING
    levels = [*names, *(extra for extra in (OUTSIDE, MISSING) if extra in labels)]
    return pd.Categorical(labels, categories=levels, ordered=True)


def _edges(bins: object, known: np.ndarray, name: Hashable) -> np.ndarray:
    if is_count(bins, least=2):
        edges = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1))) if len(known) else np.ones(1)
        return edges if len(edges) > 1 else np.array([edges[0] - 1.0, edges[0]])
    if isinstance(bins, (str, bool)) or not isinstance(bins, Iterable):
        raise InputTypeError(
            f"by={{{name!r}: {bins!r}}}: give a whole number of bins, 2 or more, or a list of edges"
        )
    given = list(bins)
    if len(given) < 2 or not all(map(is_number, given)) or not np.all(np.diff(given) > 0):
        raise InputError(f"by={{{name!r}: {given}}}: give two edges or more, in increasing order")
    return np.array(given, dtype=float)


def _interval_names(edges: np.ndarray, learned: bool) -> list[str]:
    """Intervals in words: learned edges with as many digits as tell them apart, given ones in full."""
    for digits in range(4 if learned else 12, 18):
        words = [_edge(edge, digits) for edge in edges]
        if len(set(words)) == len(edges):
            break
    names = [f"({low}, {high}]" for low, high in pairwise(words)]
    return ["[" + names[0][1:], *names[1:]] if learned else names


def _edge(edge: float, digits: int) -> str:
    if not np.isfinite(edge) or not 1e-4 <= abs(edge) < 1e7:
        return f"{edge:.{digits}g}"
    return np.format_float_positional(float(f"{edge:.{digits}g}"), trim="-")


def crossed(groups: pd.DataFrame | None) -> tuple[pd.Categorical | None, str | None]:
    """One Categorical of all groupings, and their name; None twice without any."""
    if groups is None:
        return None, None
    each = [pd.Categorical(groups[name]) for name in groups.columns]
    name = ", ".join(map(str, groups.columns))
    if len(each) == 1:
        return each[0], name
    words = groups.astype(str).agg(", ".join, axis=1)
    order = words[np.lexsort([one.codes for one in reversed(each)])].drop_duplicates()
    return pd.Categorical(words, categories=list(order), ordered=True), name
