"""Results of any estimator that has ``fit`` and ``predict``: the same intervals, labelled honestly."""

import copy
from dataclasses import dataclass

import numpy as np

from ..checks import check_one_alpha
from ..errors import InputError, InputTypeError
from ..sets import ESTIMATOR_METHODS, TAUS, EstimatorFits, make_intervals
from ..show.summary import summarise_estimator
from .advice import warn_about
from .base import BaseResults

__all__ = ["EstimatorResults", "EstimatorSpec", "check_estimator"]


@dataclass(frozen=True)
class EstimatorSpec:
    """What was fitted, as the user asked for it.

    Attributes
    ----------
    formula : str
    estimator : object
        Not fitted; copies of it are.
    tau : str, array, callable or None
    standardize : bool
    missing : str
    endog_names : str
    exog_names : list of str
    """

    formula: str
    estimator: object
    tau: object
    standardize: bool
    missing: str
    endog_names: str
    exog_names: list


class EstimatorResults(BaseResults):
    """A fitted estimator and its conformal intervals; made by `stabconf.fit` with ``estimator``.

    ``conf_int_conformal`` takes the methods "split" (the one that "auto" gives), "cross", "cv+" and
    "jackknife+", which are certified, and "stable", which rests on the bounds given as ``tau`` and is not.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> class Median:
    ...     def fit(self, X, y):
    ...         self.value = np.median(y)
    ...
    ...     def predict(self, X):
    ...         return np.full(len(X), self.value)
    >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, estimator=Median())
    >>> ends = res.conf_int_conformal({"income": [500.0]}, alpha=0.1)
    >>> ends.attrs["method"], ends.attrs["certified"]
    ('split', True)
    """

    def __init__(self, model, design, columns):
        super().__init__(model, design, columns)
        features = self._features(self._X)
        self._fits = EstimatorFits(features, design.y, copy.deepcopy(model.estimator), model.tau)

    def summary(self, alpha=None):
        """Summary tables: the estimator, and what its intervals at the training points promise.

        Parameters
        ----------
        alpha : float, optional

        Returns
        -------
        statsmodels.iolib.summary.Summary
        """
        alpha = check_one_alpha(self._level(alpha))
        methods = ["split"] if self.model.tau is None else ["stable", "split"]
        made = [self._intervals(self._X, [alpha], method, "two-sided", {})[0] for method in methods]
        return summarise_estimator(self, self._design, made)

    def _features(self, rows):
        """Design rows without the intercept, which estimators have of their own."""
        return rows if self._design.intercept is None else np.delete(rows, self._design.intercept, axis=1)

    def _described(self):
        return type(self.model.estimator).__name__

    def _predictions(self, rows):
        out, complete = np.full(len(rows), np.nan), ~np.isnan(rows).any(axis=1)
        out[complete] = self._fits.predict(self._features(rows[complete]))
        return out

    def _intervals(self, rows, alphas, method, side, options, parts=None):
        name = "split" if method == "auto" else method
        return make_intervals(
            self._fits, self._features(rows), alphas, name, side, options, parts, ESTIMATOR_METHODS
        )

    def _warn_about(self, made, ranking):
        warn_about(made, None, None, ranking)

    def _with_map(self, design, columns):
        return EstimatorResults(self.model, design, columns)


def check_estimator(estimator, tau, given):
    """Refuse an estimator that cannot be used, or arguments that it leaves without meaning."""
    if estimator is None:
        raise InputError("tau is for an estimator: give estimator=, or drop tau")
    for name in ("fit", "predict"):
        if isinstance(estimator, type) or not callable(getattr(estimator, name, None)):
            raise InputTypeError(
                f"estimator={estimator!r} is a {type(estimator).__name__} without {name}(): give an object "
                "(not a class) with fit(X, y) and predict(X)"
            )
    if given:
        raise InputError(f"{' and '.join(given)} cannot be combined with estimator: it has its own")
    if isinstance(tau, str) and tau not in TAUS:
        raise InputError(f"tau={tau!r} is unknown: give one of {', '.join(map(repr, TAUS))}, or numbers")
