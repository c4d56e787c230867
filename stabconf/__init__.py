"""Distribution-free prediction intervals for people who write formulas."""

from typing import TYPE_CHECKING, Any

from ._version import __version__
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
    WorkerError,
)
from .losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from .penalties import ElasticNet, NoPenalty, Ridge
from .results.estimator import EstimatorResults
from .results.fitting import fit, fit_quantiles
from .results.parted import PartedResults
from .results.predictive import Predictive
from .results.predictor import Predictor
from .results.quantiles import QuantileResults
from .results.regression import Results
from .results.saving import load
from .results.several import SeveralResults
from .sets import PairScore, UserScore
from .show.drift import ExchangeabilityCheck
from .study.comparison import compare
from .study.selection import Selection, select_penalty

if TYPE_CHECKING:
    from .statsmodels_plugin import RefittedResults, StatsmodelsResults, conformal, register, unregister

__all__ = ["__version__", "fit", "fit_quantiles", "compare", "select_penalty", "load"]
__all__ += ["conformal", "register", "unregister"]
__all__ += ["Results", "EstimatorResults", "QuantileResults", "SeveralResults", "PartedResults"]
__all__ += ["StatsmodelsResults", "RefittedResults", "Predictive", "Predictor"]
__all__ += ["Selection", "ExchangeabilityCheck"]
__all__ += ["Squared", "LAD", "Quantile", "Huber", "PseudoHuber", "LogCosh", "Linex", "Power"]
__all__ += ["UserScore", "PairScore"]
__all__ += ["Ridge", "ElasticNet", "NoPenalty"]
__all__ += ["StabconfError", "InputError", "InputTypeError", "FormulaError", "AssumptionError"]
__all__ += ["WorkerError"]
__all__ += ["StabconfWarning", "ConvergenceWarning", "StabilityWarning", "SampleSizeWarning"]
__all__ += ["DataWarning", "MismatchWarning"]

_OF_STATSMODELS = ("StatsmodelsResults", "RefittedResults", "conformal", "register", "unregister")


def __getattr__(name: str) -> Any:
    """What is for statsmodels' results, imported when it is first asked for: statsmodels takes long."""
    if name not in _OF_STATSMODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import statsmodels_plugin

    return getattr(statsmodels_plugin, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
