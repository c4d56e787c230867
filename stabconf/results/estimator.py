"""Results of any estimator that has ``fit`` and ``predict``: the same intervals, labelled honestly."""

import copy
from functools import partial

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.units import ColumnUnits
from ..errors import InputError, InputTypeError
from ..sets import (
    ESTIMATOR_METHODS,
    TAUS,
    EstimatorFits,
    Intervals,
    Score,
    estimator_conformity,
    make_intervals,
    refit_p,
    tau_in_words,
)
from ..sets.quality import errors_of
from ..sets.request import check_side
from ..show.summary import FitSummary, summarise_estimator
from .asking import PValues, ask_p_values
from .options import Among, Groups, New, Numbers, Options, PerRow, Side, Units, as_responses
from .presentation import Presentation
from .rows import Rows
from .spec import EstimatorSpec

__all__ = ["EstimatorResults", "check_estimator"]


class EstimatorResults(Presentation):
    """A fitted estimator and its conformal intervals; made by `stabconf.fit` with ``estimator``.

    ``conf_int_conformal`` takes the methods "split" (the one that "auto" gives), "cross", "cv+" and
    "jackknife+", which hold rows out and are certified; "replace_one" and "batch", from fits that have the
    new row with some response, which rest on ``tau`` and are not certified; and "root" and "grid", which
    refit at every candidate. Methods that have the new row in the fit need an estimator that treats rows
    alike, whatever their order; give it a seed, for refits that differ by chance move more than tau says.

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
    _full_sets = "root"
    _enclosing = "replace_one"

    def __init__(self, model: EstimatorSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        given = copy.deepcopy(model.estimator), model.tau, design.intercept, model.standardize
        self._fits = EstimatorFits(self._X, design.y, *given)

    def conformity(
        self,
        exog: New,
        z: Numbers,
        side: Side = "two-sided",
        *,
        z_hat: PerRow = None,
        groups: Groups = None,
        weights: PerRow = None,
        conditional: str | None = None,
        units: Units = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> pd.DataFrame:
        """The conformity function: p-values of candidate responses, each from a refit that has the new row
        with that response.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        z : float or sequence of float
            Candidate responses, the same for every row.
        side, z_hat, groups, weights, conditional, units, n_jobs, progress : optional
            As in `conf_int_conformal`; with several ``z_hat`` the bounds are the best of them. With
            ``units`` candidates are given in units of the response itself.

        Returns
        -------
        DataFrame
            ``p``, bounds ``p_lo`` and ``p_up`` from the fit with the new row at ``z_hat``, which hold if
            tau does (without tau they are 0 and 1), and their ``gap``. Indexed by the rows of ``exog``
            and by ``z``; NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from sklearn.linear_model import Ridge
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data, estimator=Ridge(), tau="estimate")
        >>> res.conformity({"income": [500.0]}, z=[250.0, 400.0]).round(3).reset_index(drop=True)
               p   p_lo   p_up    gap
        0  0.114  0.081  0.322  0.242
        1  0.915  0.470  1.000  0.530
        """
        check_side(side)
        values = partial(estimator_conformity, self._fits, Score.of(side), n_jobs, progress)
        names = ("p", "p_lo", "p_up", "gap")
        return ask_p_values(self, exog, z, groups, weights, names, values, conditional, z_hat, units)

    def tau(self, exog: New = None, z_hat: PerRow = "prediction") -> pd.DataFrame:
        """The stability bounds in use: how far each prediction moves, at most, when the response of the new
        row is replaced.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.
        z_hat : float, "prediction" or callable
            Response of the new row in the fit that moves, which matters to ``tau="estimate"`` alone.

        Returns
        -------
        DataFrame
            A row per new row, a column per training row and one, ``"new"``, for the new row itself; in
            units of the response.

        Examples
        --------
        >>> import stabconf
        >>> from sklearn.linear_model import Ridge
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data, estimator=Ridge(), tau="norm/n")
        >>> res.tau({"income": [500.0]}).shape
        (1, 236)
        """
        rows, index = self._rows(exog)
        complete = rows.complete
        at = as_responses(z_hat, self._design.frame_of(exog), self._predictions(rows.X), complete)
        if at.ndim > 1:
            raise InputError("z_hat has several values a row: give one")
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i, z in zip(np.flatnonzero(complete), at, strict=True):
            out[i] = self._fits.pinned(rows.X[i], z).tau
        columns = pd.Index([*self._design.index, "new"], dtype=object)
        return pd.DataFrame(out, index=index, columns=columns)

    @property
    def fit_quality(self) -> pd.Series:
        """Mean absolute error ``mae`` and root mean squared error ``rmse`` at the training rows."""
        return pd.Series(errors_of(self.resid.to_numpy()), name="fit_quality")

    def _fit_summary(self) -> FitSummary:
        tau = None if self.model.tau is None else tau_in_words(self.model.tau)
        return summarise_estimator(self, self._design, tau)

    def _p_of(self, side: Side) -> PValues:
        check_side(side)
        return partial(refit_p, self._fits, Score.of(side), 1, None)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        complete = ~np.isnan(X).any(axis=1)
        out = np.full(len(X), np.nan)
        out[complete] = self._fits.predict(X[complete])
        return out

    def _parts(self, rows: Rows) -> tuple[EstimatorFits, np.ndarray]:
        return self._fits, rows.X

    def _intervals(
        self,
        rows: Rows,
        alphas: list[float],
        method: str,
        side: Side,
        options: Options,
        parts: Among = None,
    ) -> list[Intervals]:
        return make_intervals(self._fits, rows.X, alphas, method, side, options, parts, ESTIMATOR_METHODS)


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
