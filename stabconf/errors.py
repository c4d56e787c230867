"""Exceptions and warnings of the package.

Every message names the argument (or column), the offending value and what to do about it. Exceptions derive
from `StabconfError`, and from the built-in class a caller expects: ``except ValueError`` keeps working.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_QUIET = ContextVar("quiet", default=False)  # each thread has its own, as filters of warnings have not


class StabconfError(Exception):
    """Base class of the package's exceptions."""


class InputError(StabconfError, ValueError):
    """An argument or a column has a value that cannot be used."""


class InputTypeError(StabconfError, TypeError):
    """An argument has a type that cannot be used."""


class FormulaError(InputError):
    """The formula cannot be parsed, or cannot be evaluated on this frame."""


class AssumptionError(StabconfError, ValueError):
    """A method was asked for something its theory does not cover for this model."""


class WorkerError(StabconfError, RuntimeError):
    """A worker of ``n_jobs=`` ended before its work was done."""


class StabconfWarning(UserWarning):
    """Base class of the package's warnings."""


class ConvergenceWarning(StabconfWarning):
    """The solver stopped before its tolerance; intervals are wider by the certified radius."""


class StabilityWarning(StabconfWarning):
    """Stability bounds make up most of the interval's width."""


class SampleSizeWarning(StabconfWarning):
    """Too few rows for the level asked for: intervals are infinite."""


class DataWarning(StabconfWarning):
    """The data are legal but unusual: a constant column, a category with a level for every row, ..."""


class MismatchWarning(StabconfWarning):
    """The coefficients of a statsmodels result are not those that minimise its objective."""


@contextmanager
def quietly() -> Iterator[None]:
    """No warnings of the package in here, in this thread alone."""
    before = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(before)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn with the line that called the package, however many of its own calls lie between."""
    if _QUIET.get():
        return
    package = __name__.partition(".")[0]
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
