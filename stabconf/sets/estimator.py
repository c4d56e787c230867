"""Any object with ``fit`` and ``predict``: refits of it, and stable sets from bounds that the user gives.

Nobody certifies such bounds, so those sets are marked as not certified; methods that only refit to parts
of the rows are certified as usual.
"""

import copy
import math

import numpy as np

from ..errors import AssumptionError, InputError
from ..rank import Peers
from .intervals import guarantee, ranked_intervals
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

    loss, given = None, ""  # no loss is known, no units are learned

    def __init__(self, X, y, estimator, tau):
        self.X, self.y, self.estimator, self.tau = X, y, estimator, tau
        self.fitted = copy.deepcopy(estimator)
        self.fitted.fit(X, y)
        self.n = len(y)

    def coordinates(self, rows):
        """Rows as they are, all of which the estimator can tell apart for all that is known."""
        return rows, np.zeros(len(rows), dtype=bool)

    def predict(self, rows):
        """Predictions of the fit to all rows (m,)."""
        return _values(self.fitted.predict(rows), len(rows)) if len(rows) else np.empty(0)

    def predictor(self, which):
        """A fit to some of the rows alone, as a function from design rows to predictions."""
        fitted = copy.deepcopy(self.estimator)
        fitted.fit(self.X[which], self.y[which])
        return lambda rows: _values(fitted.predict(rows), len(rows)) if len(rows) else np.empty(0)

    def bounds(self, rows):
        """Stability bounds of the training rows and of each new row (m, n + 1)."""
        tau = self.tau
        if tau is None:
            raise AssumptionError(
                "method='stable' needs stability bounds of the estimator, which are not known: give tau to "
                "fit, or use method='split', 'cross', 'cv+' or 'jackknife+'"
            )
        if isinstance(tau, str):
            tau = TAUS[tau]
            values = tau(self.fitted, self.X, rows)
        else:
            values = tau(self.X, rows) if callable(tau) else tau
        values = np.asarray(values, dtype=float)
        shape = (len(rows), self.n + 1)
        if values.shape not in (shape, shape[1:]):
            raise InputError(
                f"tau has shape {values.shape}: give a bound for each of the {self.n} training rows and "
                f"one for the new row, {shape[1:]} or {shape}"
            )
        if not np.all(values >= 0):
            raise InputError("tau has values that are negative or missing: give bounds of 0 or more")
        return np.broadcast_to(values, shape)


def _norms_over_n(fitted, X, rows, factor=1.0):
    """|x| / (n + 1), for the training rows and each new row."""
    size = factor / (len(X) + 1.0)
    trained, new = (np.linalg.norm(part, axis=1) * size for part in (X, rows))
    return np.column_stack([np.tile(trained, (len(rows), 1)), new])


def _iterated_norms(fitted, X, rows):
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


def user_stable(fits, rows, alphas, *, side="two-sided", inner=False, peers=None):
    """Stable sets from one fit to all training rows, with the user's bounds on how far it can move.

    Parameters
    ----------
    fits : EstimatorFits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    inner : bool
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
        Not certified.
    """
    tau, centre = fits.bounds(rows), fits.predict(rows)
    ways = DIRECTIONS[side]
    r = fits.y - fits.predict(fits.X)
    peers, out = Peers(fits.n) if peers is None else peers, []
    for alpha in alphas:
        rank, surcharge = peers.rank(alpha), np.zeros(len(rows))
        ends = {
            (name, way): np.full(len(rows), way * np.inf) for name in ("outer", "inner") for way in (-1, 1)
        }
        for direction in ways:
            scores = np.abs(r) if side == "two-sided" else direction * r
            for name, way in (("inner", -1.0), ("outer", 1.0)):
                distance = rank.kth(scores + way * tau[:, :-1]) + way * tau[:, -1]
                ends[name, direction] = centre + direction * distance
            with np.errstate(invalid="ignore"):  # both are infinite where rows are too few
                surcharge += distance - rank.kth(scores)  # of the outer end
        words = f"{guarantee(alpha, peers)}, if the bounds given as tau hold"
        more = {"certified": False, "guarantee": words, "bound": "user"}
        more |= {"surcharge": surcharge, "tau": tau[:, -1]}
        if inner:
            empty = ends["inner", -1] > ends["inner", 1]
            more["inner"] = [np.where(empty, np.nan, ends["inner", way]) for way in (-1, 1)]
        outer = ends["outer", -1], ends["outer", 1]
        out.append(ranked_intervals(*outer, peers, alpha, side, "stable", **more))
    return out


def _values(predicted, count):
    """Predictions as a flat array of finite numbers."""
    values = np.asarray(predicted, dtype=float).reshape(-1)
    if len(values) != count or not np.all(np.isfinite(values)):
        raise InputError(
            f"the estimator predicted {len(values)} values for {count} rows, or some that are not finite: "
            "it must give one finite number a row"
        )
    return values
