"""Results of any estimator that has ``fit`` and ``predict``: the same intervals, labelled honestly."""

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.units import ColumnUnits
from ..errors import InputError, InputTypeError
from ..sets import ESTIMATOR_METHODS, Score
from ..sets.estimator import TAUS, EstimatorFits, estimator_conformity, refit_p, tau_in_words
from ..sets.quality import errors_of
from ..sets.request import check_side
from ..show.summary import FitSummary, summarise_estimator
from .asking import BOUNDED, PValues, ask_p_values
from .figures import Figures
from .options import New, Numbers, PerRow, Side, Units, as_responses, shows_options


@dataclass(frozen=True)
class EstimatorSpec:
    """Any estimator with ``fit`` and ``predict``; it is not fitted itself, copies of it are."""

    formula: str
    estimator: object
    tau: object
    standardize: bool
    missing: str
    endog_names: str
    exog_names: list[str]

    def describe(self) -> str:
        """The estimator's class."""
        return type(self.estimator).__name__


class FittedResults(Figures):
    """Results of which no more is known than what they predict; ``_fits`` are `EstimatorFits`."""

    model: EstimatorSpec

    @property
    def fit_quality(self) -> pd.Series:
        """Mean absolute error ``mae`` and root mean squared error ``rmse`` at the training rows."""
        return pd.Series(errors_of(self.resid.to_numpy()), name="fit_quality")

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        complete = ~np.isnan(X).any(axis=1)
        out = np.full(len(X), np.nan)
        out[complete] = self._fits.predict(X[complete])
        return out


class EstimatorResults(FittedResults):
    """A fitted estimator and its conformal intervals; made by `stabconf.fit` with ``estimator``.

    ``conf_int_conformal`` takes the methods "split" (the one that "auto" gives), "cross", "cv+" and
    "jackknife+", which hold rows out and are certified; "replace_one" and "batch", from fits that have the
    new row with some response, which rest on ``tau`` and are not certified; and "root" and "grid", which
    refit at every candidate. Methods that have the new row in the fit need an estimator that treats rows
    alike, whatever their order; give it a seed, for refits that differ by chance move more than tau says.

    Examples
    --------
    >>> import stabconf
    >>> from sklearn.linear_model import Ridge
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit("foodexp ~ income", data, estimator=Ridge(), tau="estimate")
    >>> ends = res.conf_int_conformal({"income": [500.0]}, alpha=0.1)
    >>> ends.attrs["method"], ends.attrs["certified"]
    ('split', True)
    >>> res.conformity({"income": [500.0]}, z=[250.0]).round(3).to_numpy().tolist()
    [[0.114, 0.081, 0.322, 0.242]]
    >>> res.tau({"income": [500.0]}).shape
    (1, 236)
    """

    _methods = ESTIMATOR_METHODS
    _full_sets = "root"
    _enclosing = "replace_one"

    def __init__(self, model: EstimatorSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        given = copy.deepcopy(model.estimator), model.tau, design.intercept, model.standardize
        self._fits = EstimatorFits(self._X, design.y, *given)

    @shows_options(Figures.p_values, ("groups", "weights", "conditional"))
    def conformity(
        self,
        exog: New,
        z: Numbers,
        side: Side = "two-sided",
        *,
        z_hat: PerRow = None,
        units: Units = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
        **asked: Any,
    ) -> pd.DataFrame:
        """The conformity function: p-values of candidates, each from a refit that has the new row at it.

        Returns ``p``, bounds ``p_lo`` and ``p_up`` from the fit with the new row at ``z_hat``, which hold
        if tau does (without tau they are 0 and 1; with several ``z_hat`` they are the best), and their
        ``gap``, by row and ``z``. All else is as in `conf_int_conformal`.
        """
        p_values = self._p_of(side, n_jobs, progress)
        values = partial(estimator_conformity, p_values, self._fits, Score.of(side))
        return ask_p_values(self, exog, z, BOUNDED, values, units, z_hat=z_hat, **asked)

    def tau(self, exog: New = None, z_hat: PerRow = "prediction") -> pd.DataFrame:
        """The stability bounds in use: how far predictions move when the new response is replaced.

        ``z_hat`` is the response of the new row in the fit that moves, which matters to ``tau="estimate"``
        alone. Returns what `Results.tau` does.
        """
        rows, index = self._rows(exog)
        complete = rows.complete
        at = as_responses(z_hat, self._design.frame_of(exog), self._predictions(rows.X), complete)
        if at.ndim > 1:
            raise InputError("z_hat has several values a row: give one")
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i, z in zip(np.flatnonzero(complete), at, strict=True):
            out[i] = self._fits.pinned(rows.X[i], z).tau
        return pd.DataFrame(out, index, columns=pd.Index([*self._design.index, "new"], dtype=object))

    def _fit_summary(self) -> FitSummary:
        tau = None if self.model.tau is None else tau_in_words(self.model.tau)
        return summarise_estimator(self, tau)

    def _p_of(self, side: Side, n_jobs: int | None = 1, progress: bool | None = None) -> PValues:
        check_side(side)
        return partial(refit_p, self._fits, Score.of(side), n_jobs, progress)


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
    if isinstance(tau, str) and tau not in (*TAUS, "estimate"):
        known = ", ".join(map(repr, [*TAUS, "estimate"]))
        raise InputError(f"tau={tau!r} is unknown: give one of {known}, numbers, or a callable")
