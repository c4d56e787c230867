"""How far one new response can move the fit: the stability bounds tau (theory, section 4).

Everything is one lemma. If the objective is strongly convex with a matrix H, a linear term e moves its
minimiser by at most \\|e\\| in the inverse H norm, and into the ball that has the move as a diameter. A new
row adds the tilt ``t x_N`` with \\|t\\| at most the slope of the loss at its residual; the solver's
stationarity residual is added to e.
"""

from .base_fit import BaseFit, BlockFit, Metric
from .frozen import FrozenFit, frozen_fit
from .moves import BOUNDS, default_bound, named_constants, needs_range, reach
