"""Results of any estimator that has ``fit`` and ``predict``: the same intervals, labelled honestly."""

import copy

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.units import ColumnUnits
from ..errors import InputError, InputTypeError
from ..sets import ESTIMATOR_METHODS, TAUS, EstimatorFits, Intervals, make_intervals
from ..sets.quality import errors_of
from ..show.summary import FitSummary, summarise_estimator
from .options import Among, Options, Side
from .presentation import Presentation
from .rows import Rows
from .spec import EstimatorSpec

__all__ = ["EstimatorResults", "check_estimator"]


class EstimatorResults(Presentation):
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

    model: EstimatorSpec

    def __init__(self, model: EstimatorSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        features = self._features(self._X)
        self._fits = EstimatorFits(features, design.y, copy.deepcopy(model.estimator), model.tau)

    @property
    def fit_quality(self) -> pd.Series:
        """Mean absolute error ``mae`` and root mean squared error ``rmse`` at the training rows."""
        return pd.Series(errors_of(self.resid.to_numpy()), name="fit_quality")

    def _fit_summary(self) -> FitSummary:
        return summarise_estimator(self, self._design)

    def _features(self, X: np.ndarray) -> np.ndarray:
        """Design rows without the intercept, which estimators have of their own."""
        return X if self._design.intercept is None else np.delete(X, self._design.intercept, axis=1)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        complete = ~np.isnan(X).any(axis=1)
        out = np.full(len(X), np.nan)
        out[complete] = self._fits.predict(self._features(X[complete]))
        return out

    def _parts(self, rows: Rows) -> tuple[EstimatorFits, np.ndarray]:
        return self._fits, self._features(rows.X)

    def _intervals(
        self,
        rows: Rows,
        alphas: list[float],
        method: str,
        side: Side,
        options: Options,
        parts: Among = None,
    ) -> list[Intervals]:
        X = self._features(rows.X)
        name = "split" if method == "auto" else method
        return make_intervals(self._fits, X, alphas, name, side, options, parts, ESTIMATOR_METHODS)


def check_estimator(estimator: object, tau: object, given: list[str]) -> None:
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
