"""Small checks of argument values that several rooms share: numbers, counts, alphas, candidates.

Each names the argument, the offending value and what to do.
"""

import numbers
from collections.abc import Iterable
from typing import TypeGuard

import numpy as np

from .errors import DataWarning, InputError, InputTypeError, warn_user

__all__ = ["DEFAULT_ALPHA", "check_alpha", "check_candidates", "check_one_alpha", "is_count", "is_number"]

DEFAULT_ALPHA = 0.05  # wherever none is given
_MEANT = 0.9  # an alpha from here on is taken for a confidence level, and questioned


def is_number(value: object) -> TypeGuard[float]:
    """True for real numbers, Python's or numpy's; flags do not count.

    Examples
    --------
    >>> is_number(0.1), is_number(True), is_number("0.1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_count(value: object, least: int = 1) -> TypeGuard[int]:
    """True for whole numbers from ``least`` on, Python's or numpy's; flags do not count.

    Examples
    --------
    >>> is_count(3), is_count(3.0), is_count(True), is_count(1, least=2)
    (True, False, False, False)
    """
    return isinstance(value, numbers.Integral) and is_number(value) and value >= least


def check_alpha(alpha: object) -> tuple[list[float], bool]:
    """Alphas as a list, and whether a single number was given."""
    values, single = _as_list(alpha)
    if not values:
        raise InputError("alpha=[] is empty: give a number such as 0.05, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"alpha={value!r} is a {type(value).__name__}: give a number such as 0.05")
        if not 0 < value < 1:
            raise InputError(f"alpha={value!r} is not allowed: give a miscoverage between 0 and 1")
    if single and values[0] >= _MEANT:
        warn_user(
            f"alpha={values[0]:g} is the share of responses that may lie outside: the intervals cover "
            f"{1 - values[0]:.0%}. For intervals that cover {values[0]:.0%} give alpha={1 - values[0]:.2g}",
            DataWarning,
        )
    return [float(value) for value in values], single


def check_one_alpha(alpha: object) -> float:
    """An alpha where only one will do."""
    values, single = check_alpha(alpha)
    if not single:
        raise InputTypeError(f"alpha={alpha!r}: one number is needed here, such as 0.05")
    return values[0]


def check_candidates(z: object, name: str = "z") -> np.ndarray:
    """Candidate responses as an array of finite numbers."""
    values, _ = _as_list(z)
    if not values:
        raise InputError(f"{name}=[] is empty: give a candidate response, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"{name}={value!r} is a {type(value).__name__}: give numbers")
        if not np.isfinite(value):
            raise InputError(f"{name}={value!r} is not allowed: give finite candidate responses")
    return np.array(values, dtype=float)


def _as_list(values: object) -> tuple[list, bool]:
    """Values as a list, and whether a single one was given."""
    if np.isscalar(values) or values is None or not isinstance(values, Iterable):
        return [values], True
    return list(values), False
