"""Small checks of argument values that several modules share."""

import numbers

import numpy as np

from .errors import InputError, InputTypeError

__all__ = ["DEFAULT_ALPHA", "check_alpha", "check_candidates", "check_one_alpha", "is_count", "is_number"]

DEFAULT_ALPHA = 0.05  # wherever none is given


def is_number(value):
    """True for real numbers, Python's or numpy's; flags do not count.

    Examples
    --------
    >>> is_number(0.1), is_number(True), is_number("0.1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_count(value, least=1):
    """True for whole numbers from ``least`` on, Python's or numpy's; flags do not count.

    Examples
    --------
    >>> is_count(3), is_count(3.0), is_count(True), is_count(1, least=2)
    (True, False, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and value >= least


def check_alpha(alpha):
    """Alphas as a list, and whether a single number was given."""
    single = np.isscalar(alpha) or alpha is None
    values = [alpha] if single else list(alpha)
    if not values:
        raise InputError("alpha=[] is empty: give a number such as 0.05, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"alpha={value!r} is a {type(value).__name__}: give a number such as 0.05")
        if not 0 < value < 1:
            raise InputError(f"alpha={value!r} is not allowed: give a miscoverage between 0 and 1")
    return [float(value) for value in values], single


def check_one_alpha(alpha):
    """An alpha where only one will do."""
    values, single = check_alpha(alpha)
    if not single:
        raise InputTypeError(f"alpha={alpha!r}: one number is needed here, such as 0.05")
    return values[0]


def check_candidates(z, name="z"):
    """Candidate responses as an array of finite numbers."""
    values = [z] if np.isscalar(z) or z is None else list(z)
    if not values:
        raise InputError(f"{name}=[] is empty: give a candidate response, or several")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"{name}={value!r} is a {type(value).__name__}: give numbers")
        if not np.isfinite(value):
            raise InputError(f"{name}={value!r} is not allowed: give finite candidate responses")
    return np.array(values, dtype=float)
