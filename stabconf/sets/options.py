"""Options that several methods share: checks and defaults."""

import numpy as np

from ..checks import is_count, is_number
from ..errors import InputError
from ..rank import Peers

__all__ = ["check_budget", "check_tol", "everyone", "generator"]


def check_tol(tol):
    """Refuse a tolerance that is not a share."""
    if not (is_number(tol) and 0 < tol < 1):
        raise InputError(f"tol={tol!r} is not allowed: give a share of the response's scale such as 1e-6")


def check_budget(budget):
    """Refuse a budget that is not a number of fits."""
    if not is_count(budget):
        raise InputError(f"budget={budget!r} is not allowed: give a whole number of fits a row, such as 50")


def everyone(fits, rows):
    """One part of all new rows, ranked among all training rows."""
    return [(np.arange(len(rows)), Peers(fits.n))]


def generator(random_state):
    """A random generator for a seed; one that is given goes on."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state={random_state!r} is not allowed: give a whole number, 0 or larger, or a "
            "numpy Generator"
        ) from error
