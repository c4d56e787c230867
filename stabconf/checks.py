"""Small checks of argument values that several rooms share: numbers, counts, alphas, candidates."""

import numbers
from collections.abc import Callable, Iterable
from typing import TypeGuard

import numpy as np

from .errors import DataWarning, InputError, InputTypeError, warn_user

DEFAULT_ALPHA = 0.05  # wherever none is given
_MEANT = 0.9  # an alpha from here on is taken for a confidence level, and questioned


def is_number(value: object) -> TypeGuard[float]:
    """True for real numbers, Python's or numpy's; flags do not count."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_count(value: object, least: int = 1) -> TypeGuard[int]:
    """True for whole numbers from ``least`` on, Python's or numpy's; flags do not count.

    >>> is_count(3), is_count(3.0), is_count(True), is_count(1, least=2)
    (True, False, False, False)
    """
    return isinstance(value, numbers.Integral) and is_number(value) and value >= least


def check_numbers(
    values: object, name: str, allowed: Callable[[float], bool], fix: str
) -> tuple[list[float], bool]:
    """Numbers, each of which is ``allowed``, as a list, and whether a single one was given."""
    found, single = _as_list(values)
    if not found:
        raise InputError(f"{name}=[] is empty: {fix}")
    for value in found:
        if not is_number(value):
            raise InputTypeError(f"{name}={value!r} is a {type(value).__name__}: {fix}")
        if not allowed(value):
            raise InputError(f"{name}={value!r} is not allowed: {fix}")
    return [float(value) for value in found], single


def check_shares(values: object, name: str, what: str, such_as: str) -> tuple[list[float], bool]:
    """Numbers between 0 and 1, both excluded, as `check_numbers` gives them."""
    return check_numbers(values, name, lambda one: 0 < one < 1, f"give {what} between 0 and 1, {such_as}")


def check_alpha(alpha: object) -> tuple[list[float], bool]:
    """Alphas as a list, and whether a single number was given."""
    values, single = check_shares(alpha, "alpha", "a miscoverage", "such as 0.05, or several")
    if single and values[0] >= _MEANT:
        warn_user(
            f"alpha={values[0]:g} is the share of responses that may lie outside: the intervals cover "
            f"{1 - values[0]:.0%}. For intervals that cover {values[0]:.0%} give alpha={1 - values[0]:.2g}",
            DataWarning,
        )
    return values, single


def check_one_alpha(alpha: object) -> float:
    """An alpha where only one will do."""
    values, single = check_alpha(alpha)
    if not single:
        raise InputTypeError(f"alpha={alpha!r}: one number is needed here, such as 0.05")
    return values[0]


def check_candidates(z: object, y: np.ndarray, name: str = "z") -> tuple[np.ndarray, list]:
    """Candidate responses as finite numbers (g,), and as they were given.

    Labels stand for the responses 0, 1, ... in the order given, which those of training, ``y`` (n,), must
    be too.

    >>> check_candidates(["low", "high"], np.array([0, 1, 1]))
    (array([0., 1.]), ['low', 'high'])
    """
    labels, _ = _as_list(z)
    if not (labels and all(isinstance(label, (str, bool, np.bool_)) for label in labels)):
        numbers, _ = check_numbers(z, name, np.isfinite, "give finite numbers, or labels of categories")
        return np.array(numbers), labels
    codes = np.arange(len(labels), dtype=float)
    strays = y[~np.isin(y, codes)]
    if len(set(labels)) < len(labels):
        raise InputError(f"{name}={labels!r} has a label twice: give each once")
    if len(strays):
        raise InputError(
            f"{name}={labels!r} are labels, which stand for the responses 0 to {len(labels) - 1} in this "
            f"order, and a training response is {strays[0]:g}: code the responses so and give every label, "
            "or give numbers"
        )
    return codes, labels


def _as_list(values: object) -> tuple[list, bool]:
    """Values as a list, and whether a single one was given."""
    if np.isscalar(values) or values is None or not isinstance(values, Iterable):
        return [values], True
    return list(values), False
