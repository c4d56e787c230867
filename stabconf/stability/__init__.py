"""How far one new response can move the fit: the stability bounds tau (theory, section 4).

Everything is one lemma. If the objective is strongly convex with a matrix H, a linear term e moves its
minimiser by at most \\|e\\| in the inverse H norm, and into the ball that has the move as a diameter. A new
row adds the tilt ``t x_N`` with \\|t\\| at most the slope of the loss at its residual; the solver's
stationarity residual is added to e. The bounds differ only in H (the penalty alone, or with the curvature
of the loss on a region that the fit provably does not leave) and in using the norm or the ball.
"""

import numpy as np

from ..errors import AssumptionError, InputError
from ..losses import Loss
from .base_fit import BaseFit, Metric
from .constants import named_constants
from .frozen import FrozenFit, frozen_fit
from .moves import BallReach, CurvatureReach, NormReach
from .paper import PaperReach, needs_range, paper_rows
from .row_norms import NewRows

__all__ = [
    "BOUNDS",
    "BaseFit",
    "FrozenFit",
    "Metric",
    "NewRows",
    "NormReach",
    "default_bound",
    "frozen_fit",
    "named_constants",
    "needs_range",
    "new_rows",
    "reach",
]

_MANY = 10_000  # rows from which on norms are rounded up for every bound that depends on them alone

BOUNDS: dict[str, type[NormReach]] = {
    "curvature": CurvatureReach,
    "norm": NormReach,
    "ball": BallReach,
    "paper": PaperReach,
}


def default_bound(loss: Loss) -> str:
    """The bound used when none is named: "curvature" where the loss has any, else "norm"."""
    return "norm" if loss.kind == "step" else "curvature"


def new_rows(base: BaseFit, rows: np.ndarray, bound: str, shared: bool = True) -> NewRows:
    """`NewRows` for bounds by name, with norms in the metric of ``base`` that the bound works in.

    ``shared`` is False where rows are more to the bound than their norms, which are then not rounded.
    Raises `AssumptionError` where the bound's assumptions fail for this loss and penalty.
    """
    if bound not in BOUNDS:
        raise InputError(f"bound={bound!r} is unknown: give one of {', '.join(BOUNDS)}")
    loss = base.problem.loss
    many = shared and bound != "ball" and len(rows) > _MANY
    if bound == "curvature":
        if loss.kind != "step":
            return NewRows(rows, base.base_root, rounded=many)
        raise AssumptionError(
            f"bound='curvature' needs a loss with curvature; {loss.describe()} has none: use "
            "bound='norm' or 'ball'"
        )
    if bound == "paper":
        return paper_rows(base, rows, many)
    if not np.all(base.problem.ridge > 0):
        raise AssumptionError(
            f"the stable method with bound={bound!r} and loss {loss.describe()} gets its strong "
            "convexity from the ridge part of the penalty, which is 0 here: use penalty > 0 with "
            "l1_ratio < 1, or a loss with curvature such as 'huber' and bound='curvature'"
        )
    return NewRows(rows, base.metric(None).root, rounded=many)


def reach(base: BaseFit, new: NewRows, bound: str) -> NormReach:
    """The stability bound by name for `NewRows` around a base fit."""
    return BOUNDS[bound](base, new)
