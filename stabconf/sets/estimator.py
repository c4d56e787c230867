"""Any object with ``fit`` and ``predict``: refits with the new row or without others (theory, section 6).

`EstimatorFits` answers what methods ask of `Fits`. Fits that are pinned to a response, for replace-one and
batch, need bounds tau on how far each prediction moves when it is replaced. They are the user's, or
estimated, so those sets are marked as not certified.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..data.units import location_scale
from ..errors import AssumptionError, InputError
from ..rank import Peers
from .candidates import joint_p, spread_out
from .enclosure import enclose
from .fits import LEARNED, Residuals
from .intervals import Intervals, guarantee, ranked_intervals
from .parallel import in_chunks
from .request import Request
from .score import Score
from .thresholds import Along

_TIES = 1e-11  # of the largest prediction: smaller differences of scores are ties
_REFITS = 5  # responses at which an estimate of tau refits
_SAFETY = 2.0  # by which it multiplies the largest movement


class EstimatorFits:
    """Training rows (n, p) and copies of an estimator fitted to all or some of them, or to one more.

    ``tau`` is as in `stabconf.fit`, ``intercept`` the design column that estimators are not given, for they
    have their own; ``learned`` says whether units of columns are statistics of the training rows.
    """

    loss = None  # no loss is known
    scale = 1.0  # residuals are in units of the response

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        estimator: Any,
        tau: Any = None,
        intercept: int | None = None,
        learned: bool = False,
    ) -> None:
        self.X, self.y, self.n = X, y, len(y)
        self.estimator, self.tau, self.intercept = estimator, tau, intercept
        self.given = LEARNED if learned else ""
        self.spread = location_scale(y, None)[1]
        if tau is not None and not isinstance(tau, str) and not callable(tau):
            self._checked(tau, ((), (self.n + 1,)))
        self.predict = self._fitted(X, y)
        self._seen: tuple[bytes, np.ndarray] | None = None  # a row, and what refits with it predicted

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows as they are, all of which the estimator can tell apart for all that is known."""
        return rows, np.zeros(len(rows), dtype=bool)

    def responses(self, z: np.ndarray) -> np.ndarray:
        """Responses as they are."""
        return z

    def predictor(self, which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to some of the rows alone, as a function from design rows to predictions."""
        return self._fitted(self.X[which], self.y[which])

    def without(self, row: int) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to all rows but one, likewise."""
        return self.predictor(np.delete(np.arange(self.n), row))

    def augmented(self, row: np.ndarray, z: float) -> np.ndarray:
        """Predictions (n + 1,) at the training rows and a new one (p,), of the fit that has it at ``z``."""
        rows = np.vstack([self.X, row])
        return self._fitted(rows, np.append(self.y, z))(rows)

    def refitted(self, row: np.ndarray, z: np.ndarray) -> Residuals:
        """As for `Fits`: residuals of augmented fits at responses (g,), and what counts as a tie."""
        made = np.array([self.augmented(row, one) for one in z]).reshape(len(z), self.n + 1)
        return self.y - made[:, :-1], z - made[:, -1], ties_at(made)

    def pinned(self, row: np.ndarray, z_hat: float) -> "PinnedEstimator":
        """The fit that has a new row (p,) with response ``z_hat``, and its bounds."""
        return PinnedEstimator(self, row, float(z_hat))

    def bounds(self, row: np.ndarray, predictions: np.ndarray) -> np.ndarray:
        """tau of the training rows and of a new row (n + 1,), for the fit with these predictions."""
        tau = self.tau
        if tau is None:
            raise AssumptionError(
                "this needs bounds on how far replacing one response moves the estimator's predictions: "
                "give tau to fit (tau='estimate' refits to find out), or use method='root' or 'split'"
            )
        if isinstance(tau, str) and tau == "estimate":
            return _SAFETY * np.max(np.abs(self._spread_out(row) - predictions), axis=0)
        rows = tuple(_without(each, self.intercept) for each in (self.X, row[None]))
        if isinstance(tau, str):
            tau = TAUS[tau](self) * np.linalg.norm(np.vstack(rows), axis=1)
        elif callable(tau):
            tau = tau(*rows)
        shape = (self.n + 1,)
        return np.broadcast_to(self._checked(tau, ((), shape, (1, *shape))), (1, *shape))[0]

    def _spread_out(self, row: np.ndarray) -> np.ndarray:
        """Predictions of refits with a new row at responses far from each other (_REFITS, n + 1); those of
        one row are kept, for several fits may be pinned with it."""
        if self._seen is None or self._seen[0] != row.tobytes():
            made = np.array([self.augmented(row, z) for z in spread_out(self.y, _REFITS)])
            self._seen = row.tobytes(), made
        return self._seen[1]

    def _checked(self, tau: Any, shapes: tuple[tuple[int, ...], ...]) -> np.ndarray:
        """Bounds as an array of one of these shapes."""
        try:
            values = np.asarray(tau, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"tau={tau!r} has values that are not numbers ({error}): give bounds of 0 or more"
            ) from error
        if values.shape not in shapes:
            raise InputError(
                f"tau has shape {values.shape}: give one number, or a bound for each of the {self.n} "
                f"training rows and then one for the new row, ({self.n + 1},)"
            )
        if not np.all(values >= 0):
            raise InputError("tau has values that are negative or missing: give bounds of 0 or more")
        return values

    def _fitted(self, X: np.ndarray, y: np.ndarray) -> "_Predictor":
        """A fresh copy of the estimator, fitted, as a function from design rows to predictions."""
        fitted = copy.deepcopy(self.estimator)
        fitted.fit(_without(X, self.intercept), y)
        return _Predictor(fitted, self.intercept)

    @property
    def iterations(self) -> float:
        """The number of iterations of the fit to all rows."""
        for name in ("n_iter_", "n_estimators_", "max_iter", "n_estimators"):
            count = getattr(self.predict.fitted, name, None)
            if count is not None and np.ndim(count) == 0 and math.isfinite(count):
                return float(count)
        raise InputError(
            "tau='iterations*norm/n' needs an estimator with n_iter_, max_iter or n_estimators: give tau "
            "as numbers, as a callable, or as 'estimate'"
        )


@dataclass(frozen=True)
class _Predictor:
    """A fitted estimator as a function from design rows (m, p) to predictions (m,)."""

    fitted: Any
    intercept: int | None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        if not len(rows):
            return np.empty(0)
        values = np.asarray(self.fitted.predict(_without(rows, self.intercept)), dtype=float).reshape(-1)
        if len(values) != len(rows) or not np.all(np.isfinite(values)):
            raise InputError(
                f"the estimator predicted {len(values)} values for {len(rows)} rows, or some that are not "
                "finite: it must give one finite number a row"
            )
        return values


def _without(rows: np.ndarray, column: int | None) -> np.ndarray:
    return rows if column is None else np.delete(rows, column, axis=1)


@dataclass(frozen=True)
class PinnedEstimator:
    """The fit of an estimator that has a new row (p,) with response ``z_hat``, and bounds on its moves."""

    fits: EstimatorFits
    row: np.ndarray
    z_hat: float

    @cached_property
    def predictions(self) -> np.ndarray:
        """Predictions at the training rows and at the new row (n + 1,)."""
        return self.fits.augmented(self.row, self.z_hat)

    @cached_property
    def tau(self) -> np.ndarray:
        """How far each prediction moves when the response is replaced, at most (n + 1,)."""
        return self.fits.bounds(self.row, self.predictions)

    def enclosed(self, asked: Request, alpha: float) -> Intervals:
        """The interval of the row, which is all that is ``asked`` for."""
        tau, mean = self.tau, self.predictions
        r = self.fits.y - mean[:-1]
        rank = asked.peers.rank(alpha)
        moved = r, tau[None, :-1], tau[-1:]
        outer, inner, extra = enclose(asked.score, rank, mean[-1:], *moved, asked.own)
        words = (
            f"{guarantee(alpha, asked.peers)}, if the estimator treats rows alike and replacing the "
            "response of the new row moves no prediction by more than tau, which is "
            f"{tau_in_words(self.fits.tau)}"
        )
        more: dict[str, Any] = {"certified": False, "guarantee": words, "centre": mean[-1:]}
        more |= {"bound": self.fits.tau if isinstance(self.fits.tau, str) else "user"}
        more |= {"surcharge": extra, "tau": tau[-1:], "inner": inner if asked.inner else None}
        return ranked_intervals(*outer, asked.peers, alpha, asked.side, "replace_one", **more)

    def p_bounds(self, z: np.ndarray, score: Score, peers: Peers) -> np.ndarray:
        """Bounds on the p-values of candidates (2, g)."""
        tau = self.tau
        r, e = self.fits.y - self.predictions[:-1], z - self.predictions[-1]
        least, most = score.range(r - tau[:-1], r + tau[:-1])
        near, far = score.range(e - tau[-1], e + tau[-1])
        tie = ties_at(self.predictions)
        return np.array([peers.p(least >= far[:, None] - tie), peers.p(most >= near[:, None] - tie)])


def ties_at(predictions: np.ndarray) -> np.ndarray:
    """Differences of scores that are ties at predictions (..., n + 1), which have rounding errors."""
    return _TIES * np.max(np.abs(predictions), axis=-1)


def tau_in_words(tau: Any) -> str:
    """Who answers for the bounds."""
    source = "estimated" if isinstance(tau, str) and tau == "estimate" else "taken on trust"
    return f"{source}, not certified"


def refit_p(
    fits: EstimatorFits,
    score: Score,
    n_jobs: int | None,
    progress: bool | None,
    row: np.ndarray,
    z: np.ndarray,
    peers: Peers,
    along: Along | None = None,
) -> np.ndarray:
    """Exact p-values of a new row (p,) at candidates ``z`` (g,), a refit each."""
    one = partial(joint_p, [(fits, score, 1.0)], row, peers=peers, along=along)
    return np.concatenate(in_chunks(one, z, n_jobs, progress, size=1, unit="refit")).reshape(len(z))


def estimator_conformity(
    p_values: Callable[..., np.ndarray],
    fits: EstimatorFits,
    score: Score,
    row: np.ndarray,
    z: np.ndarray,
    peers: Peers,
    along: Along | None = None,
    z_hat: np.ndarray | None = None,
) -> np.ndarray:
    """Exact p-values of a new row (p,) at candidates ``z`` (g,), by `refit_p`, and bounds on them from the
    fits pinned at ``z_hat`` (b,), by default the prediction, with their gap: a (4, g) array."""
    p = p_values(row, z, peers, along)
    low, high = np.zeros(len(z)), np.ones(len(z))  # of any p-value
    if fits.tau is not None and along is None:
        pins = fits.predict(row[None]) if z_hat is None else z_hat
        each = np.array([fits.pinned(row, pin).p_bounds(z, score, peers) for pin in pins])
        low, high = np.max(each[:, 0], axis=0), np.min(each[:, 1], axis=0)
    return np.array([p, low, high, high - low])


TAUS: dict[str, Callable[[EstimatorFits], float]] = {  # of the norm of a row, by what the paper tries
    "norm/n": lambda fits: 1.0 / (fits.n + 1.0),
    "iterations*norm/n": lambda fits: fits.iterations / (fits.n + 1.0),
    "norm/10": lambda fits: 0.1,
}
