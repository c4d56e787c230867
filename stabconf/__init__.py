"""Distribution-free prediction intervals for people who write formulas."""

from ._version import __version__
from .benchmarking import compare
from .errors import (
    AssumptionError,
    ConvergenceWarning,
    DataWarning,
    FormulaError,
    InputError,
    InputTypeError,
    SampleSizeWarning,
    StabconfError,
    StabconfWarning,
    StabilityWarning,
)
from .estimator import EstimatorResults
from .losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from .model import fit
from .penalties import ElasticNet, NoPenalty, Ridge
from .residual_scores import UserScore
from .results import Results
from .results_base import load
from .selection import Selection, select_penalty

__all__ = [
    "__version__",
    "fit",
    "compare",
    "select_penalty",
    "load",
    "Results",
    "EstimatorResults",
    "Selection",
    "Squared",
    "LAD",
    "Quantile",
    "Huber",
    "PseudoHuber",
    "LogCosh",
    "Linex",
    "Power",
    "UserScore",
    "Ridge",
    "ElasticNet",
    "NoPenalty",
    "StabconfError",
    "InputError",
    "InputTypeError",
    "FormulaError",
    "AssumptionError",
    "StabconfWarning",
    "ConvergenceWarning",
    "StabilityWarning",
    "SampleSizeWarning",
    "DataWarning",
]
