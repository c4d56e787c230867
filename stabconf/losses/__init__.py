"""Convex losses of one residual: values, slopes, curvature and constants (theory, section 2).

A loss is pointwise and never sees the design. Stability needs its slope range (how strongly one row can
pull: rho) and its smallest curvature on an interval; the solver needs slope and curvature, or, where
those jump or explode, the slope of the Moreau envelope. A new loss is one class and one line in `LOSSES`.
"""

import difflib

from ..errors import InputError, InputTypeError
from .base import Loss
from .rough import LAD, Linex, Power, Quantile
from .smooth import Huber, LogCosh, PseudoHuber, Squared

__all__ = [
    "LAD",
    "LOSSES",
    "Huber",
    "Linex",
    "LogCosh",
    "Loss",
    "Power",
    "PseudoHuber",
    "Quantile",
    "Squared",
    "as_loss",
]

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Squared, LAD, Quantile, Huber, PseudoHuber, LogCosh, Linex, Power)
}


def as_loss(loss: object) -> Loss:
    """The loss object for a name or an object."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        return loss()
    if not isinstance(loss, str):
        raise InputTypeError(
            f"loss={loss!r} is a {type(loss).__name__}: give a name ({', '.join(LOSSES)}) or a loss "
            "object such as stabconf.Huber(1.345)"
        )
    if loss not in LOSSES:
        near = difflib.get_close_matches(loss.lower(), LOSSES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"loss={loss!r} is unknown: {hint}Known losses: {', '.join(LOSSES)}")
    return LOSSES[loss]()
