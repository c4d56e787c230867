"""Scores of a user's own: functions of the residual, or of response and prediction (theory, section 6).

The paper's Algorithm 2. Level sets are found by bisection; what a function declares (how fast it changes,
where it is smallest) is checked where it is used. `as_score` takes these as they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..checks import is_number
from ..errors import InputError, InputTypeError
from ..rank import EVERY, Some
from .score import Ends, Floats, FunctionScore, level_ends

_ROUNDING = 1e-9


@dataclass(frozen=True)
class UserScore(FunctionScore):
    """A score of one's own: a function of the residual, in units of the response.

    Parameters
    ----------
    function : callable
        Of an array of residuals; its level sets must be intervals around ``centre``.
    lipschitz : float
        How fast it changes with the residual, at most; checked where it is used.
    centre : float
        A residual whose score is smallest.
    name : str
        What tables and messages call it.

    Examples
    --------
    >>> steep_below = UserScore(lambda r: np.where(r < 0, -2.0 * r, r), lipschitz=2.0)
    >>> [round(float(end), 6) for end in steep_below.interval(1.0)]
    [-0.5, 1.0]
    """

    function: Callable[[np.ndarray], np.ndarray]
    lipschitz: float = math.inf
    centre: float = 0.0
    name: str = "user"

    def __post_init__(self) -> None:
        _check_function(self.function, "residuals", self.lipschitz)

    def value(self, r: np.ndarray) -> np.ndarray:
        return _called(self.name, self.function, np.asarray(r, dtype=float))


@dataclass(frozen=True)
class PairScore(FunctionScore):
    """A score of one's own: a function S(y, mu) of response and prediction, in units of the response.

    Parameters
    ----------
    function : callable
        Of an array of responses and one of predictions; for each prediction the responses whose score is
        at most some level must be an interval around ``best``.
    lipschitz : float
        How fast it changes with the prediction, at most; checked where it is used. The methods that bound
        how far the fit moves ("stable", "replace_one", "batch") need it.
    best : callable, optional
        The response whose score is smallest, as a function of an array of predictions; the prediction
        itself unless given.
    name : str
        What tables and messages call it.

    Examples
    --------
    Errors on a scale that is that of logarithms for large responses, and takes negative ones too:

    >>> logs = PairScore(lambda y, mu: np.abs(np.arcsinh(y) - np.arcsinh(mu)), lipschitz=1.0)
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
    >>> res.conf_int_conformal({"income": [500.0, 1000.0]}, alpha=0.1, method="root", score=logs).round(0)
       lower  upper
    0  292.0  477.0
    1  497.0  810.0
    """

    function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    lipschitz: float = math.inf
    best: Callable[[np.ndarray], np.ndarray] | None = None
    name: str = "pair"

    def __post_init__(self) -> None:
        _check_function(self.function, "responses and predictions", self.lipschitz)
        if not (self.best is None or callable(self.best)):
            raise InputTypeError(f"best={self.best!r} is not callable: give a function of predictions")

    def _best(self, mu: np.ndarray) -> np.ndarray:
        return mu if self.best is None else _called("best", self.best, mu)

    def values(self, r: np.ndarray, rows: Some = EVERY) -> np.ndarray:
        """As for `Score`. A wrong ``best`` would be found out here."""
        assert self.responses is not None  # a request knows them
        y = np.broadcast_to(self.responses[rows], np.shape(r))
        mu = y - self.unit * r
        found = _called(self.name, self.function, y, mu)
        if np.isnan(found).any():
            raise InputError(f"score {self.name!r} of a training row is not a number: mend the function")
        least = _called(self.name, self.function, self._best(mu), mu)
        if np.any(found < least - _ROUNDING * (1.0 + np.abs(least))):
            raise InputError(
                f"score {self.name!r} has a training row with a smaller score than the best response at "
                "its prediction: give best=, a function of predictions that returns that response"
            )
        return found

    def range(self, low: np.ndarray, high: np.ndarray) -> Ends:
        """As for `Score`, by the Lipschitz constant alone."""
        half = 0.5 * (high - low)
        known = np.isfinite(half)
        middle = np.where(known, low + np.where(known, half, 0.0), 0.0)
        score = self.values(middle)
        for step in (-half, half):
            moved = self.values(np.where(known, middle + step, middle))
            self._check_rise(np.abs(moved - score), low, high)
        rise = np.where(known, self.lipschitz * self.unit * half, np.inf)
        return score - rise, score + rise

    def own_values(self, e: np.ndarray, own: Floats = 1.0, w: Floats = 0.0) -> np.ndarray:
        y = self.location + self.unit * np.broadcast_to(w, np.shape(e))
        return _called(self.name, self.function, y, y - self.unit * e)

    def own_interval(self, level: np.ndarray, own: Floats, eta: np.ndarray, tau: Floats = 0.0) -> Ends:
        """As for `Score`, by the Lipschitz constant: the level is raised by what tau can do."""
        mu = self.location + self.unit * np.asarray(eta, dtype=float)
        rise = self.lipschitz * self.unit * tau if np.any(tau) else 0.0
        raised = np.broadcast_to(level + rise, mu.shape)
        low, high = level_ends(lambda y: _called(self.name, self.function, y, mu), self._best(mu), raised)
        return (low - mu) / self.unit, (high - mu) / self.unit

    def own_centre(self, own: float, eta: float) -> float:
        mu = np.array(self.location + self.unit * eta)
        return float(self._best(mu) - mu) / self.unit


def _check_function(function: object, of: str, lipschitz: object) -> None:
    """Refuse what is no score."""
    if not callable(function):
        raise InputTypeError(f"function={function!r} is not callable: give a function of {of}")
    if not (is_number(lipschitz) and lipschitz > 0):
        raise InputError(f"lipschitz={lipschitz!r} is not allowed: give a positive number, inf if unknown")


def _called(name: str, function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """What a user's function makes of arrays, one number per entry."""
    found = np.asarray(function(*arrays), dtype=float)
    if found.shape != np.shape(arrays[0]):
        raise InputError(
            f"{name!r} returned an array of shape {found.shape} for one of {np.shape(arrays[0])}: the "
            "function must give one number per entry"
        )
    return found
