"""The results of a regularised robust fit: coefficients, conformity, stability, summary.

Methods here orchestrate: they put labels on what the array modules compute, check arguments and warn.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ..checks import check_candidates, check_one_alpha
from ..data.design import Design
from ..data.units import ColumnUnits
from ..errors import AssumptionError
from ..losses import Loss
from ..penalties import Penalty, as_penalty
from ..sets import (
    Fits,
    Intervals,
    check_bound,
    conformity,
    make_intervals,
    row_tau,
)
from ..sets.training import Fitted, Parts, fit_rows, residual_scale
from ..show.summary import summarise
from ..stability import default_bound
from .advice import warn_about
from .base import BaseResults
from .labels import conformity_frame, label_sets

__all__ = ["ModelSpec", "Results"]

_PLAIN = {"method", "side", "tol", "n_jobs", "progress"}  # options that leave sets as a summary has them


@dataclass(frozen=True)
class ModelSpec:
    """What was fitted, as the user asked for it.

    Attributes
    ----------
    formula : str
    loss : Loss
    penalty : Penalty
    standardize : bool
    missing, solver : str
    tol : float
    max_iter : int
    endog_names : str
    exog_names : list of str
    """

    formula: str
    loss: Loss
    penalty: Penalty
    standardize: bool
    missing: str
    solver: str
    tol: float
    max_iter: int
    endog_names: str
    exog_names: list

    @property
    def solving(self):
        """Options of the solver."""
        return {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}


class Results(BaseResults):
    """A fitted model and its conformal intervals; made by `stabconf.fit`.

    Attributes
    ----------
    model : ModelSpec
    nobs : int
        Rows used.
    converged : bool
    radius : float
        Certified distance of the coefficients to the minimiser, in the norm of the penalty.
    """

    def __init__(self, model, design, columns, fitted):
        super().__init__(model, design, columns)
        self._design: Design
        self._columns: ColumnUnits
        self._fitted: Fitted = fitted

    _caches = ("_X", "_fits", "scale")

    # Fit -----------------------------------------------------------------------------------------

    @property
    def converged(self):
        return self._fitted.solution.success

    @property
    def radius(self):
        return self._fitted.solution.radius

    @property
    def params(self):
        """Coefficients in the units of the design columns (Series)."""
        fitted = self._fitted
        beta = self._columns.coefficients(
            fitted.solution.x, fitted.centre, fitted.scale, self._design.intercept, fitted.constant
        )
        return pd.Series(beta, index=self._design.names, name="params")

    @property
    def params_standardized(self):
        """Coefficients of the standardised columns and response (Series)."""
        return pd.Series(self._fitted.solution.x, index=self._design.names, name="params_standardized")

    @cached_property
    def scale(self):
        """Residual scale: 1.4826 times the median absolute residual of a LAD fit with the same columns and
        penalty. Parameters of losses, Huber's threshold say, are in units of it."""
        spans = self._design.intercept is not None or self._fitted.constant is not None
        return residual_scale(
            self._X, self._design.y, self._weights, spans, self.model.standardize, self.model.solving
        )

    # Intervals -----------------------------------------------------------------------------------

    def conformity(self, exog, z, side="two-sided", bound=None, groups=None, weights=None):
        """The conformity function: exact p-values of candidate responses, between stability bounds.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        z : float or sequence of float
            Candidate responses, the same for every row.
        side : {"two-sided", "upper", "lower"}
        bound : str, optional
            Stability bound, as in `conf_int_conformal`.
        groups, weights : optional
            Rank within groups, or by weight, as in `conf_int_conformal`.

        Returns
        -------
        DataFrame
            ``p``, ``p_lo`` and ``p_up``, indexed by the rows of ``exog`` and by ``z``. A candidate is in
            the conformal set if ``p > alpha``. NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.conformity({"income": [500.0]}, z=[250.0, 400.0, 600.0]).round(3).reset_index(drop=True)
               p   p_lo   p_up
        0  0.157  0.153  0.157
        1  0.758  0.758  0.758
        2  0.030  0.030  0.030
        """
        rows, index = self._new_rows(exog)
        candidates = check_candidates(z)
        bound = check_bound(self._fits, bound, side)
        out = np.full((len(rows), 3, len(candidates)), np.nan)
        ranking, complete = self._ranking(exog, groups, weights, ~np.isnan(rows).any(axis=1))
        places = np.flatnonzero(complete)
        parts = [(np.arange(len(places)), None)] if ranking is None else ranking.parts(complete)
        for which, peers in parts:
            for i, at in enumerate(places[which]):
                own = None if peers is None else peers.take(i)
                out[at] = self._p_values(rows[at], candidates, side, bound, own)
        return conformity_frame(out, index, candidates)

    def tau(self, exog=None, bound=None, z=None):
        """Stability bounds: how far each prediction can move when a new response joins the fit.

        Parameters
        ----------
        exog : DataFrame, optional
        bound : str, optional
            As in `conf_int_conformal`.
        z : float, optional
            Bound for this candidate response; by default for every one, which is infinite for losses
            that are not Lipschitz.

        Returns
        -------
        DataFrame
            A row per new row, a column per training row and one, ``"new"``, for the new row itself;
            in units of the response.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> tau = res.tau({"income": [500.0]})
        >>> tau.shape, round(float(tau["new"].iloc[0]), 1)
        ((1, 236), 1.2)
        """
        rows, index = self._new_rows(exog)
        bound = bound or default_bound(self.model.loss)
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i in np.flatnonzero(~np.isnan(rows).any(axis=1)):
            out[i] = self._row_tau(rows[i : i + 1], bound, z)
        columns = pd.Index([*self._design.index, "new"], dtype=object)
        return pd.DataFrame(out, index=index, columns=columns)

    def conformal_set(self, exog, candidates, alpha=None, side="two-sided", groups=None, weights=None):
        """The candidates in each row's conformal set, for responses that take few values.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        candidates : sequence of float
            The values that a response can take; categories coded as numbers.
        alpha : float, optional
        side : {"two-sided", "upper", "lower"}
        groups, weights : optional
            Rank within groups, or by weight, as in `conf_int_conformal`.

        Returns
        -------
        Series
            A tuple of candidates for each row of ``exog``, in the order given; None where a row has a
            missing value. Its ``attrs["p"]`` holds the p-values, a column a candidate.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.conformal_set({"income": [500.0]}, candidates=[100.0, 400.0, 900.0], alpha=0.1)
        0    (400.0,)
        dtype: object
        """
        alpha = check_one_alpha(self._level(alpha))
        values = check_candidates(candidates, "candidates")
        p = (
            self.conformity(exog, values, side, groups=groups, weights=weights)["p"]
            .to_numpy()
            .reshape(-1, len(values))
        )
        return label_sets(p, self._new_rows(exog)[1], list(candidates), alpha)

    # Presentation --------------------------------------------------------------------------------

    def summary(self, alpha=None):
        """Summary tables: the fit, the coefficients and what the intervals promise.

        Parameters
        ----------
        alpha : float, optional
            Level at which the interval block is computed, at the training design points (at 200 of them
            where there are more).

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Text, ``as_html()``, ``as_latex()``, ``as_csv()``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> print(res.summary(alpha=0.1).tables[2])
        ==================================
                         coef standardized
        ----------------------------------
        Intercept       111.1       0.1794
        income         0.5226        1.155
        ==================================
        """
        alpha = check_one_alpha(self._level(alpha))
        rows, where = self._summary_rows()
        made = [self._attempt(rows, alpha, method) for method in ("exact", "stable")]
        return self._summarised(*made, where)

    # Helpers -------------------------------------------------------------------------------------

    @property
    def _weights(self):
        """Ridge and lasso weights, two (p,) arrays."""
        slopes = np.arange(len(self._design.names)) != self._design.intercept
        return self.model.penalty.weights(self.nobs, slopes)

    @cached_property
    def _fits(self):
        model, design, fitted = self.model, self._design, self._fitted
        parts = Parts(design.X, design.y, design.kinds, self._columns, model)
        given = (self._X, design.y, fitted.loss, *self._weights)
        if not model.standardize:
            return Fits.in_own_unit(*given, fitted.solution.x, model.solving, parts)
        return Fits(*given, fitted.centre, fitted.scale, fitted.solution.x, model.solving, parts)

    def _described(self):
        return f"{self.model.loss.describe()}, {self.model.penalty.describe()}"

    def _predictions(self, rows):
        return self._fitted.predict(rows)

    def _intervals(self, rows, alphas, method, side, options, parts=None):
        return make_intervals(self._fits, rows, alphas, method, side, options, parts)

    def _summary_of(self, bands, exog, options):
        """With the report's own intervals, where they are plain exact ones: they took long to make."""
        attrs = bands.attrs
        if attrs["method"] != "exact" or attrs["side"] != "two-sided" or set(options) - _PLAIN:
            return super()._summary_of(bands, exog, options)
        complete = ~np.isnan(bands.mean)
        known = {name: attrs[name] for name in ("k", "n", "alpha", "side", "method", "certified", "tol")}
        known |= {"guarantee": attrs["guarantee"], "pieces": dict(enumerate(attrs["pieces"].values()))}
        exact = Intervals(bands.lower[complete], bands.upper[complete], **known)
        stable = self._attempt(self._new_rows(exog)[0][complete], attrs["alpha"], "stable")
        where = "the training points" if bands.training else f"{int(complete.sum())} new rows"
        return self._summarised(exact, stable, where)

    def _summarised(self, exact, stable, where):
        return summarise(self, self._design, self._fitted.solution, exact, stable, where)

    def _p_values(self, row, candidates, side, bound, peers):
        return conformity(self._fits, row, candidates, side, bound, peers)

    def _row_tau(self, row, bound, z):
        return row_tau(self._fits, row, bound, z)

    def _warn_about(self, made, ranking):
        warn_about(made, self.model.loss, self.model.penalty, ranking)

    def _with_map(self, design, columns):
        self._require_refit("another design map")
        return _refitted(self.model, design, columns)

    def _with_penalty(self, strength):
        """Itself refitted with another strength of the penalty."""
        self._require_refit("another penalty")
        penalty = as_penalty(strength, self.model.penalty.l1_ratio)
        return _refitted(replace(self.model, penalty=penalty), self._design, self._columns)

    def _attempt(self, rows, alpha, method):
        """Two-sided `Intervals`, or the reason why the method refuses."""
        try:
            return self._intervals(rows, [alpha], method, "two-sided", {})[0]
        except AssumptionError as refusal:
            return str(refusal)


def _refitted(model, design, columns):
    return Results(model, design, columns, fit_rows(design.X, design.y, design.kinds, columns, model))
