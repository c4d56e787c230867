"""The results of a regularised robust fit, what `stabconf.fit` gives: coefficients, scale, summary."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..checks import check_alpha
from ..data.design import Design
from ..data.units import ColumnUnits
from ..losses import Loss
from ..sets import Fits, FrozenSets
from ..sets.request import check_side
from ..sets.training import Fitted, Parts, fit_rows, residual_scale
from ..show.summary import FitSummary, summarise
from .objective import ObjectiveResults
from .options import Numbers, Options, Side
from .predictor import Predictor, check_methods
from .spec import ModelSpec

__all__ = ["ModelSpec", "Results"]


class Results(ObjectiveResults):
    """A fitted model and its conformal intervals; made by `stabconf.fit`.

    Attributes
    ----------
    model : ModelSpec
        What was asked of `fit`: formula, loss, penalty, options.
    nobs : int
        Rows used.
    converged : bool
        Whether the fit reached its tolerance; intervals stay valid where not, but are wider.
    radius : float
        Certified distance of the coefficients to the minimiser, in the norm of the penalty.
    """

    def __init__(self, model: ModelSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        self._fitted: Fitted = fit_rows(design.X, design.y, design.kinds, columns, model)

    @property
    def converged(self) -> bool:
        """Whether the fit reached its tolerance."""
        return self._fitted.solution.success

    @property
    def radius(self) -> float:
        """Certified distance of the coefficients to the minimiser, in the norm of the penalty."""
        return self._fitted.solution.radius

    @property
    def params(self) -> pd.Series:
        """Coefficients in the units of the design columns."""
        fitted = self._fitted
        beta = self._columns.coefficients(
            fitted.solution.x, fitted.centre, fitted.scale, self._design.intercept, fitted.constant
        )
        return pd.Series(beta, index=self._design.names, name="params")

    @property
    def params_standardized(self) -> pd.Series:
        """Coefficients of the standardised columns and response."""
        return pd.Series(self._fitted.solution.x, index=self._design.names, name="params_standardized")

    @cached_property
    def scale(self) -> float:
        """Residual scale: 1.4826 times the median absolute residual of a LAD fit with the same columns and
        penalty. Parameters of losses, Huber's threshold say, are in units of it."""
        spans = self._design.intercept is not None or self._fitted.constant is not None
        model = self.model
        sigma, _ = residual_scale(
            self._X, self._design.y, self._weights, spans, model.standardize, model.solving
        )
        return sigma

    def predictor(
        self,
        alpha: Numbers = None,
        side: Side = "two-sided",
        methods: str | Sequence[str] = ("stable", "split"),
        *,
        calibration: float | None = None,
        random_state: int | None = None,
    ) -> Predictor:
        """A small object that predicts and gives intervals without the training rows.

        It is below 2 MB however many rows were fitted, can be pickled, and has no training row in it but
        the levels of categories and the ranges of columns. Its answers are those of the results.

        Parameters
        ----------
        alpha : float or sequence of float, optional
            Levels that it shall answer.
        side : {"two-sided", "upper", "lower"}
            The side that it shall answer.
        methods : str or sequence of str
            Of "stable" and "split" those that it shall answer, the default first.
        calibration, random_state : optional
            Of "split", as in `conf_int_conformal`.

        Returns
        -------
        Predictor
            With ``predict``, ``conf_int_conformal`` and ``get_prediction``. Above some 10,000 training
            rows it keeps those whose residuals can matter to new rows; stable intervals of rows that lie
            very far from the training rows may then be wider than those of the results (infinite, even),
            never narrower.

        Examples
        --------
        >>> import pickle
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> predictor = pickle.loads(pickle.dumps(res.predictor(alpha=0.1)))
        >>> predictor.conf_int_conformal({"income": [500.0]}, method="split").round(0)
           lower  upper
        0  224.0  522.0
        """
        alphas, _ = check_alpha(self._level(alpha))
        check_side(side)
        split = {"calibration": calibration, "random_state": random_state}
        return self._frozen(alphas, side, check_methods(methods), split)

    def _without_rows(self, alpha: float | None, side: Side, method: str, **split: Any) -> Predictor:
        if alpha is None:
            return self._frozen([], side, (), {})
        return self.predictor(alpha, side, method, **split)

    def _frozen(self, alphas: list[float], side: Side, names: tuple[str, ...], split: Options) -> Predictor:
        sets = FrozenSets.of(self._fits, alphas, side, names, **split)
        fitted = self._fitted
        fit = fitted.centre, fitted.scale, fitted.solution.x
        return Predictor(self.model, self._design, self._columns, fit, sets, alphas, side, names)

    @property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Ridge and lasso weights, two (p,) arrays."""
        slopes = np.arange(len(self._design.names)) != self._design.intercept
        return self.model.penalty.weights(self.nobs, slopes)

    @property
    def _objective(self) -> tuple[Loss, np.ndarray, float]:
        return self._fitted.loss, self._weights[0], self._fitted.scale

    @cached_property
    def _fits(self) -> Fits:
        model, design, fitted = self.model, self._design, self._fitted
        parts = Parts(design.X, design.y, design.kinds, self._columns, model)
        given = (self._X, design.y, fitted.loss, *self._weights)
        if not model.standardize:
            return Fits.in_own_unit(*given, fitted.solution.x, model.solving, parts)
        units = fitted.centre, fitted.scale
        known = fitted.ties, fitted.unique
        return Fits(*given, *units, fitted.solution.x, model.solving, parts, known)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return self._fitted.predict(X)

    def _fit_summary(self) -> FitSummary:
        return summarise(self, self._design, self._fitted.solution)
