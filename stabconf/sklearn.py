"""A scikit-learn regressor with conformal intervals: `fit`, `predict`, `predict_interval`.

For people who have pipelines, grids and arrays. It calls `stabconf.fit` and nothing else, so that intervals
are those of its results (theory, section 1). scikit-learn is imported here alone.
"""

from keyword import iskeyword
from typing import Any, Self

import numpy as np
import pandas as pd

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "stabconf.sklearn needs scikit-learn 1.6 or later: pip install 'stabconf[sklearn]'"
    ) from error

from .data.frames import as_frame
from .errors import FormulaError, InputTypeError
from .losses import Loss
from .penalties import Penalty
from .results.fitting import fit
from .results.options import Numbers, Side

_BLOCK = 100  # terms in one pair of parentheses, which spares the parser a deep nest


class ConformalRegressor(RegressorMixin, BaseEstimator):
    """A regularised robust regression, or any estimator, with conformal prediction intervals.

    Parameters
    ----------
    formula : str, optional
        Right side of a formula, ``"~ x1 + bs(x2, df=4) + C(g)"``, for X that is a frame; a name on the left
        stands for y. By default all columns of X, as numbers. Formulas are code: use only those that you
        trust.
    loss, penalty, l1_ratio, standardize
        As in `stabconf.fit`.
    estimator : object, optional
        A regressor to use instead of a loss and a penalty, as in `stabconf.fit`.
    alpha, method : float and str
        What `predict_interval` defaults to; see `Results.conf_int_conformal`.

    Attributes
    ----------
    results_ : Results or EstimatorResults
        What `stabconf.fit` gave: coefficients, p-values, tables, figures, reports.
    n_features_in_, feature_names_in_ : int, and array of str where X has names
        Of the rows seen in `fit`.

    Examples
    --------
    >>> from stabconf.sklearn import ConformalRegressor
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> X, y = data[["income"]].to_numpy(), data["foodexp"]
    >>> model = ConformalRegressor(loss="huber", alpha=0.1).fit(X, y)
    >>> model.predict([[500.0], [1000.0]]).round(0)
    array([372., 634.])
    >>> model.predict_interval([[500.0], [1000.0]]).round(0)
    array([[215., 528.],
           [479., 791.]])

    At the end of a pipeline:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> pipe = make_pipeline(PolynomialFeatures(2, include_bias=False), ConformalRegressor()).fit(X, y)
    >>> pipe[-1].predict_interval(pipe[:-1].transform([[500.0]]), alpha=0.2).shape
    (1, 2)
    """

    def __init__(
        self,
        formula: str | None = None,
        *,
        loss: str | Loss = "lad",
        penalty: float | Penalty = 0.01,
        l1_ratio: float = 0.0,
        standardize: bool = True,
        estimator: Any = None,
        alpha: float = 0.05,
        method: str = "auto",
    ) -> None:
        self.formula = formula
        self.loss = loss
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.standardize = standardize
        self.estimator = estimator
        self.alpha = alpha
        self.method = method

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows X (n, p), an array or a frame, and responses y (n,), matched by position."""
        frame, y = self._trained(X, y)
        response = "y"
        while response in frame.columns:
            response += "_"
        if self.formula is None:
            columns = list(frame.columns)
            blocks = [" + ".join(columns[i : i + _BLOCK]) for i in range(0, len(columns), _BLOCK)]
            right = " + ".join(f"({block})" for block in blocks)
        else:
            left, tilde, right = str(self.formula).rpartition("~")
            if not tilde or not (left.strip() == "" or left.strip().isidentifier()):
                raise FormulaError(
                    f"formula={self.formula!r} is not a right side: write '~ x1 + x2'; for a transformed "
                    "response use sklearn.compose.TransformedTargetRegressor"
                )
        names = ("loss", "penalty", "l1_ratio", "standardize", "estimator")
        options = {name: getattr(self, name) for name in names}
        self.results_: Any = fit(
            f"{response} ~ {right.strip()}", frame.assign(**{response: y}), missing="raise", **options
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions (m,)."""
        rows = self._new(X)
        return self.results_.predict(rows).to_numpy()

    def predict_interval(
        self,
        X: Any,
        alpha: Numbers = None,
        method: str | None = None,
        side: Side = "two-sided",
        **options: Any,
    ) -> np.ndarray:
        """Lower and upper ends of conformal prediction intervals.

        Parameters
        ----------
        X : array or frame
            New rows.
        alpha, method, side, **options
            As in `Results.conf_int_conformal`; alpha and method default to those of the regressor.

        Returns
        -------
        array
            (m, 2); for several alphas (m, 2, len(alpha)).
        """
        if "to" in options:
            raise InputTypeError(
                f"to={options['to']!r} is a kind of frame, and predict_interval gives an array: drop it, "
                "or use results_.conf_int_conformal"
            )
        rows, level = self._new(X), self.alpha if alpha is None else alpha
        asked = {"alpha": level, "method": method or self.method, "side": side, **options}
        ends = self.results_.conf_int_conformal(rows, **asked)
        if ends.columns.nlevels == 1:
            return ends[["lower", "upper"]].to_numpy()
        each = [ends[one][["lower", "upper"]].to_numpy() for one in ends.attrs["alpha"]]
        return np.stack(each, axis=2)

    def _trained(self, X: Any, y: Any) -> tuple[pd.DataFrame, np.ndarray]:
        """Training rows as a frame, and their responses."""
        if self.formula is None:
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
            names = list(getattr(self, "feature_names_in_", []))
            plain = all(name.isidentifier() and not iskeyword(name) for name in names)
            plain &= "Intercept" not in names  # the constant's name in formulas
            self._names = names if names and plain else [f"x{j}" for j in range(X.shape[1])]
            return pd.DataFrame(X, columns=self._names), np.asarray(y, dtype=float)
        frame = as_frame(X, "X")
        validate_data(self, frame, skip_check_array=True)
        y = column_or_1d(y, warn=True, dtype=np.float64)
        check_consistent_length(frame, y)
        return frame, y

    def _new(self, X: Any) -> pd.DataFrame:
        """New rows as a frame."""
        check_is_fitted(self)
        if self.formula is None:
            X = validate_data(self, X, dtype=np.float64, reset=False)
            return pd.DataFrame(X, columns=self._names)
        frame = as_frame(X, "X")
        validate_data(self, frame, skip_check_array=True, reset=False)
        return frame
