"""Coefficients, and how well they were found: what results of one regression share."""

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.units import ColumnUnits
from ..sets.training import Fitted


class Coefficients:
    """A part of results that have ``_fitted``."""

    _fitted: Fitted
    _design: Design
    _columns: ColumnUnits

    @property
    def converged(self) -> bool:
        """Whether the fit reached its tolerance; intervals stay valid where not, but are wider."""
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

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return self._fitted.predict(X)
