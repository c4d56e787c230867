"""Small checks of argument values that several modules share."""

import numbers

__all__ = ["is_number"]


def is_number(value):
    """True for real numbers, Python's or numpy's; flags do not count.

    Examples
    --------
    >>> is_number(0.1), is_number(True), is_number("0.1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
