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
    MismatchWarning,
    SampleSizeWarning,
    StabconfError,
    StabconfWarning,
    StabilityWarning,
)
from .estimator import EstimatorResults
from .losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from .model import fit
from .penalties import ElasticNet, NoPenalty, Ridge
from .quantile_results import QuantileResults
from .quantiles import fit_quantiles
from .residual_scores import UserScore
from .results import Results
from .results_base import load
from .selection import Selection, select_penalty
from .statsmodels_plugin import StatsmodelsResults, conformal, register, unregister

__all__ = [
    "__version__",
    "fit",
    "fit_quantiles",
    "compare",
    "select_penalty",
    "load",
    "conformal",
    "register",
    "unregister",
    "Results",
    "EstimatorResults",
    "QuantileResults",
    "StatsmodelsResults",
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
    "MismatchWarning",
]
