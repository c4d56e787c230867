"""Distribution-free prediction intervals for people who write formulas."""

from ._version import __version__
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
from .losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from .model import fit
from .penalties import ElasticNet, NoPenalty, Ridge
from .results import Results, load

__all__ = [
    "__version__",
    "fit",
    "load",
    "Results",
    "Squared",
    "LAD",
    "Quantile",
    "Huber",
    "PseudoHuber",
    "LogCosh",
    "Linex",
    "Power",
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
