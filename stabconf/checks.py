"""Small checks of argument values that several modules share."""

import numbers

__all__ = ["is_count", "is_number"]


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
