"""Any object with ``fit`` and ``predict``: refits of it, and stable sets from bounds that the user gives.

Nobody certifies such bounds, so those sets are marked as not certified; methods that only refit to parts
of the rows are certified as usual.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AssumptionError, InputError
from .enclosure import enclose
from .intervals import Intervals, guarantee, ranked_intervals
from .request import Request
from .score import DIRECTIONS

__all__ = ["EstimatorFits", "TAUS", "user_stable"]


class EstimatorFits:
    """Training rows and copies of an estimator fitted to all or some of them.

    Parameters
    ----------
    X : (n, p) array
    y : (n,) array
    estimator : object with ``fit`` and ``predict``
    tau : str, array, callable or None
        As in `stabconf.fit`.
    """

    loss = None  # no loss is known
    scale = 1.0  # residuals are in units of the response
    given = ""  # no units are learned

    def __init__(self, X: np.ndarray, y: np.ndarray, estimator: Any, tau: Any) -> None:
        self.X = X
        self.y = y
        self.n = len(y)
        self.estimator = estimator
        self.tau = tau
        self.fitted = copy.deepcopy(estimator)
        self.fitted.fit(X, y)

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows as they are, all of which the estimator can tell apart for all that is known."""
        return rows, np.zeros(len(rows), dtype=bool)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predictions of the fit to all rows (m,)."""
        return _values(self.fitted.predict(rows), len(rows)) if len(rows) else np.empty(0)

    def predictor(self, which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to some of the rows alone, as a function from design rows to predictions."""
        fitted = copy.deepcopy(self.estimator)
        fitted.fit(self.X[which], self.y[which])
        return lambda rows: _values(fitted.predict(rows), len(rows)) if len(rows) else np.empty(0)

    def without(self, row: int) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to all rows but one, likewise."""
        return self.predictor(np.delete(np.arange(self.n), row))

    def bounds(self, rows: np.ndarray) -> np.ndarray:
        """Stability bounds of the training rows and of each new row (m, n + 1)."""
        tau = self.tau
        if tau is None:
            raise AssumptionError(
                "method='stable' needs stability bounds of the estimator, which are not known: give tau to "
                "fit, or use method='split', 'cross', 'cv+' or 'jackknife+'"
            )
        if isinstance(tau, str):
            tau = TAUS[tau](self.fitted, self.X, rows)
        elif callable(tau):
            tau = tau(self.X, rows)
        values = np.asarray(tau, dtype=float)
        shape = (len(rows), self.n + 1)
        if values.shape not in (shape, shape[1:]):
            raise InputError(
                f"tau has shape {values.shape}: give a bound for each of the {self.n} training rows and "
                f"one for the new row, {shape[1:]} or {shape}"
            )
        if not np.all(values >= 0):
            raise InputError("tau has values that are negative or missing: give bounds of 0 or more")
        return np.broadcast_to(values, shape)


def _norms_over_n(fitted: Any, X: np.ndarray, rows: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """|x| / (n + 1), for the training rows and each new row."""
    size = factor / (len(X) + 1.0)
    trained, new = (np.linalg.norm(part, axis=1) * size for part in (X, rows))
    return np.column_stack([np.tile(trained, (len(rows), 1)), new])


def _iterated_norms(fitted: Any, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """T |x| / (n + 1), with T the iterations of the estimator."""
    for name in ("n_iter_", "n_estimators_", "max_iter", "n_estimators"):
        count = getattr(fitted, name, None)
        if count is not None and np.ndim(count) == 0 and math.isfinite(count):
            return _norms_over_n(fitted, X, rows, float(count))
    raise InputError(
        "tau='iterations*norm/n' needs an estimator with n_iter_, max_iter or n_estimators: give tau as an "
        "array or a callable"
    )


TAUS = {"norm/n": _norms_over_n, "iterations*norm/n": _iterated_norms}


def user_stable(fits: EstimatorFits, asked: Request) -> list[Intervals]:
    """Stable sets from one fit to all training rows, with the user's bounds on how far it can move.

    They are not certified.
    """
    tau, centre = fits.bounds(asked.rows), fits.predict(asked.rows)
    r = fits.y - fits.predict(fits.X)
    directions = len(DIRECTIONS[asked.side])
    out = []
    for alpha in asked.alphas:
        rank = asked.peers.rank(alpha)
        outer, inner = enclose(asked.score, rank, centre, r, tau[:, :-1], tau[:, -1])
        upper = rank.kth(asked.score.range(r - tau[:, :-1], r + tau[:, :-1])[1])
        with np.errstate(invalid="ignore"):  # both are infinite where rows are too few
            surcharge = directions * (upper - rank.kth(asked.score.values(r)) + tau[:, -1])
        words = f"{guarantee(alpha, asked.peers)}, if the bounds given as tau hold"
        more: dict[str, Any] = {"certified": False, "guarantee": words, "bound": "user"}
        more |= {"surcharge": surcharge, "tau": tau[:, -1], "inner": inner if asked.inner else None}
        out.append(ranked_intervals(*outer, asked.peers, alpha, asked.side, "stable", **more))
    return out


def _values(predicted: Any, count: int) -> np.ndarray:
    """Predictions as a flat array of finite numbers."""
    values = np.asarray(predicted, dtype=float).reshape(-1)
    if len(values) != count or not np.all(np.isfinite(values)):
        raise InputError(
            f"the estimator predicted {len(values)} values for {count} rows, or some that are not finite: "
            "it must give one finite number a row"
        )
    return values
