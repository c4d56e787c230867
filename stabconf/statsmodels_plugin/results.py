"""A statsmodels result with conformal intervals: statsmodels' coefficients, stabconf's sets.

Without a penalty the sets do not depend on the units of columns and response, so the fits are made with
standardised columns and a scaled response, which only keeps rounding errors small. Weighted rows are rows
times the root of their weight (response included), whose sets are divided by that root at the end; the root
travels as one more column behind the design's.
"""

import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd

from ..data.frames import by_label
from ..data.units import ColumnKinds, column_units
from ..errors import DataWarning, InputError, warn_user
from ..results.advice import warn_about
from ..results.regression import Results
from ..sets import Fits
from ..sets.training import Fitted
from ..show.summary import summarise_model

__all__ = ["StatsmodelsResults", "make_fits", "standard_columns", "standard_params"]


def standard_columns(design, penalty):
    """The `ColumnUnits` of the fits: none where a penalty sees the units of the columns."""
    shrunk = any(np.any(weights) for weights in penalty.weights(1, np.ones(len(design.names), dtype=bool)))
    kinds = ColumnKinds.numeric(design.X.shape[1], design.intercept)
    return column_units(design.X, kinds, not shrunk)[0]


def standard_params(params, design, columns):
    """Coefficients (p,) of standardised columns from those of the design's, in units of the response."""
    theta = np.array(params, dtype=float) * columns.scale
    if design.intercept is not None:
        theta[design.intercept] += np.delete(params * columns.mean, design.intercept).sum()
    return theta


class StatsmodelsResults(Results):
    """A fitted statsmodels model and its conformal intervals; made by `stabconf.conformal`.

    The methods are those of `stabconf.Results`, but for `plot_stability` and ``transductive=True``: these
    fit the model again (`can_refit` is False). ``alpha`` and ``method`` default to what `conformal` was
    given; where a model has weights (WLS), ``wls_weights`` are those of the new rows.

    Attributes
    ----------
    recipe : Recipe
        Loss, penalty, weights and what is held fixed.
    mismatch : float
        Largest difference at a training row between the predictions of statsmodels' coefficients and those
        of the minimiser, in units of the response's scale.
    """

    def __init__(self, model, design, columns, recipe, solution, params, alpha, method):
        super().__init__(model, design, columns, Fitted(0.0, recipe.scale, recipe.loss, None, solution))
        self.recipe, self.default_alpha, self.default_method = recipe, alpha, method
        self._own = np.array(params, dtype=float)
        self._new_weights = None

    @property
    def can_refit(self):
        """False: weights, scale and penalty are those of the statsmodels fit, and it is not repeated."""
        return False

    @property
    def params(self):
        """statsmodels' coefficients (Series)."""
        return pd.Series(self._own, index=self._design.names, name="params")

    @property
    def scale(self):
        """Residual scale: 1.4826 times the median absolute residual of statsmodels' fit."""
        return 1.4826 * float(np.median(np.abs(self.resid)))

    @property
    def params_standardized(self):
        """Coefficients of the columns that the fits are made with, and of the scaled response (Series)."""
        return pd.Series(
            self._theta / self.recipe.scale, index=self._design.names, name="params_standardized"
        )

    @property
    def mismatch(self):
        found = self._columns.apply(self._design.X) @ (
            self._fitted.solution.x - self._theta / self.recipe.scale
        )
        return float(np.max(np.abs(found), initial=0.0))

    # Intervals -----------------------------------------------------------------------------------

    def conf_int_conformal(
        self, exog=None, alpha=None, method=None, side="two-sided", wls_weights=None, **options
    ):
        """Conformal prediction intervals for new responses.

        Parameters
        ----------
        exog : DataFrame or array, optional
            New rows: a frame with the columns that the formula uses, or rows of the model's design where
            it was made from arrays. The training design points by default.
        alpha : float or sequence of float, optional
            Miscoverage.
        method : str, optional
        side : {"two-sided", "upper", "lower"}
        wls_weights : float, array or str, optional
            Weights of the new rows, for WLS: numbers (a Series is matched by label) or a column of
            ``exog``. By default 1, with a `DataWarning` unless all training rows have weight 1: intervals
            of rows with another weight than the one they are given may be far too narrow.
        **options
            As in `Results.conf_int_conformal`.

        Returns
        -------
        DataFrame
            ``lower`` and ``upper`` on the index of ``exog``; NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> import statsmodels.formula.api as smf
        >>> from statsmodels.datasets import engel
        >>> res = smf.ols("foodexp ~ income", engel.load_pandas().data).fit()
        >>> stabconf.conformal(res).conf_int_conformal({"income": [500.0, None]}, alpha=0.1).round(0)
           lower  upper
        0  238.0  543.0
        1    NaN    NaN
        """
        method = self.default_method if method is None else method
        weighted = self._with_weights(exog, wls_weights)
        return super(StatsmodelsResults, weighted).conf_int_conformal(exog, alpha, method, side, **options)

    def get_prediction(self, exog=None, method=None, side="two-sided", **options):
        """Predictions and their intervals; see `Results.get_prediction`."""
        return super().get_prediction(exog, method, side, **options)

    def conformity(self, exog, z, side="two-sided", bound=None, wls_weights=None, **ranked):
        """Exact p-values of candidate responses; see `Results.conformity`."""
        weighted = self._with_weights(exog, wls_weights)
        return super(StatsmodelsResults, weighted).conformity(exog, z, side, bound, **ranked)

    def conformal_set(self, exog, candidates, alpha=None, side="two-sided", wls_weights=None, **ranked):
        """The candidates in each row's conformal set; see `Results.conformal_set`."""
        weighted = self._with_weights(exog, wls_weights)
        return super(StatsmodelsResults, weighted).conformal_set(exog, candidates, alpha, side, **ranked)

    def tau(self, exog=None, bound=None, z=None, wls_weights=None):
        """Stability bounds; see `Results.tau`."""
        weighted = self._with_weights(exog, wls_weights)
        return super(StatsmodelsResults, weighted).tau(exog, bound, z)

    def plot_conformity(
        self, new, alpha=None, z=None, side="two-sided", bound=None, ax=None, wls_weights=None
    ):
        """The conformity function of one row; see `Results.plot_conformity`."""
        weighted = self._with_weights(new, wls_weights)
        return super(StatsmodelsResults, weighted).plot_conformity(new, alpha, z, side, bound, ax)

    def summary(self, alpha=None):
        """Summary tables: statsmodels' coefficients, and what the intervals promise.

        Parameters
        ----------
        alpha : float, optional
            Level of the interval block, at the training design points (at most 200 of them).

        Returns
        -------
        statsmodels.iolib.summary.Summary

        Examples
        --------
        >>> import stabconf
        >>> import statsmodels.formula.api as smf
        >>> from statsmodels.datasets import engel
        >>> res = smf.ols("foodexp ~ income", engel.load_pandas().data).fit()
        >>> print(stabconf.conformal(res).summary().tables[1])
        =====================
                         coef
        ---------------------
        Intercept       147.5
        income         0.4852
        =====================
        """
        return super().summary(alpha)

    # Helpers -------------------------------------------------------------------------------------

    @cached_property
    def _theta(self):
        return standard_params(self._own, self._design, self._columns)

    @cached_property
    def _X(self):
        return self._with_roots(self._columns.apply(self._design.X), self.recipe.weights)

    @cached_property
    def _fits(self):
        rows = self._columns.apply(self._design.X)
        return make_fits(rows, self._design, self.recipe, self._fitted.solution.x)

    _caches = ("_X", "_fits", "_theta")

    def _described(self):
        return f"{self.recipe.label}, {self.recipe.penalty.describe()}"

    def _summarised(self, exact, stable, where):
        return summarise_model(self, self._design, exact, stable, where)

    def _with_roots(self, rows, weights):
        """Rows with the roots of their weights as one more column, where the model has weights."""
        if self.recipe.weights is None:
            return rows
        return np.column_stack([rows, np.sqrt(np.broadcast_to(weights, len(rows)))])

    def _with_weights(self, exog, weights):
        """Itself with weights for the new rows, 1 by default; a warning says so where that matters."""
        if weights is None:
            return self if exog is None or self._new_weights is not None else self._with_weight_one()
        if self.recipe.weights is None:
            raise InputError(
                f"wls_weights go with a weighted model, and this one is {self.recipe.label}: drop them"
            )
        if exog is None:
            raise InputError("wls_weights are those of new rows; the training rows have theirs: give exog")
        frame = self._design.frame_of(exog)
        if isinstance(weights, str):
            if weights not in frame.columns:
                raise InputError(
                    f"wls_weights={weights!r} is not a column of exog: add it, or give numbers"
                )
            weights = frame[weights]
        values = np.asarray(by_label(weights, frame.index, "wls_weights"), dtype=float)
        if values.ndim > 1 or np.any(values <= 0) or np.any(np.isinf(values)):
            raise InputError("wls_weights must be positive and finite: give a number, or one a row")
        return self._with_new_weights(values)

    def _with_weight_one(self):
        """Itself with weight 1 for the new rows, as in statsmodels."""
        trained = self.recipe.weights
        if trained is not None and np.any(trained != 1.0):
            warn_user(
                "wls_weights is not given, so that new rows have weight 1, and those of the training rows "
                f"lie between {np.min(trained):.3g} and {np.max(trained):.3g}: the intervals are right for "
                "rows of weight 1 alone; give wls_weights, made as the weights of the training rows were",
                DataWarning,
            )
        return self._with_new_weights(1.0)

    def _with_new_weights(self, values):
        made = copy.copy(self)
        made._new_weights = values
        return made

    def _new_rows(self, exog):
        if exog is None:
            return self._X, self._design.index
        rows, index = self._design.new_rows(exog)
        weights = 1.0 if self._new_weights is None else self._new_weights
        if np.ndim(weights) and len(weights) != len(rows):
            raise InputError(f"wls_weights has {len(weights)} values for {len(rows)} rows: give one a row")
        return self._with_roots(self._columns.apply(rows), weights), index

    def _rows_as_fitted(self, exog, options):
        weights = options.get("wls_weights")
        weighted = self if weights is None else self._with_weights(exog, weights)
        return self._parted(weighted._new_rows(exog)[0])[0]

    def _parted(self, rows):
        """Rows as the fits see them, and the roots of their weights (1 for all without weights)."""
        if self.recipe.weights is None:
            return rows, 1.0
        root = rows[:, -1]
        return rows[:, :-1] * root[:, None], root

    def _predictions(self, rows):
        return rows[:, : len(self._own)] @ self._theta

    def _intervals(self, rows, alphas, method, side, options, parts=None):
        rows, root = self._parted(rows)
        if options.get("z_hat") is not None:
            options = {**options, "z_hat": (options["z_hat"].T * root).T}
        made = super()._intervals(rows, alphas, method, side, options, parts)
        return made if np.ndim(root) == 0 else [_divided(intervals, root) for intervals in made]

    def _warn_about(self, made, ranking):
        warn_about(made, self.model.loss, self.model.penalty, ranking)

    def _p_values(self, row, candidates, side, bound, peers):
        rows, root = self._parted(row[None])
        return super()._p_values(rows[0], candidates * np.ravel(root)[0], side, bound, peers)

    def _row_tau(self, row, bound, z):
        rows, root = self._parted(row)
        new, old = np.ravel(root)[0], 1.0 if self.recipe.weights is None else np.sqrt(self.recipe.weights)
        tau = super()._row_tau(rows, bound, None if z is None else z * new)
        tau[..., :-1] /= old
        tau[..., -1] /= new
        return tau


def make_fits(rows, design, recipe, start):
    """The `Fits` of a recipe, from the design's rows (n, p) and coefficients to start at (p,), both in
    the units of the fits."""
    root = 1.0 if recipe.weights is None else np.sqrt(recipe.weights)
    ridge, lasso = recipe.penalty.weights(len(design.y), np.arange(len(design.names)) != design.intercept)
    lasso = lasso / recipe.scale  # an L1 weight has the unit of the response
    solving = {"solver": "auto", "tol": 1e-8, "max_iter": 1000}
    data = (rows.T * root).T, design.y * root
    return Fits(*data, recipe.loss, ridge, lasso, 0.0, recipe.scale, start, solving)


def _divided(intervals, root):
    """`Intervals` of weighted rows in units of the response."""
    ends = {
        name: getattr(intervals, name) / root
        for name in ("lower", "upper", "inner_lower", "inner_upper", "surcharge", "tau")
        if getattr(intervals, name) is not None
    }
    pieces = {
        i: tuple((low / root[i], high / root[i]) for low, high in found)
        for i, found in intervals.pieces.items()
    }
    return replace(intervals, **ends, pieces=pieces)
