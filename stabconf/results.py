"""The results object: labels, prediction, intervals, persistence.

Methods here orchestrate: they put labels on what the array modules compute, check arguments and warn.
"""

import pickle
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from .advice import check_alpha, check_candidates, warn_about
from .conformal import ZoneFits, check_bound, conformity, make_intervals, row_tau
from .design import Design, Standardizer
from .errors import AssumptionError, InputTypeError
from .files import write_whole
from .frames import conformity_frame, interval_frame, level_frame
from .losses import Loss
from .penalties import Penalty
from .prediction import Prediction
from .solvers import Solution
from .stability import default_bound
from .summary import summarise

__all__ = ["ModelSpec", "Results", "load"]

_SUMMARY_ROWS = 200


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


class Results:
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

    def __init__(self, model, design, columns, centre, scale, solution):
        self.model: ModelSpec = model
        self._design: Design = design
        self._columns: Standardizer = columns
        self._centre, self._scale = centre, scale
        self._solution: Solution = solution

    # Fit -----------------------------------------------------------------------------------------

    @property
    def nobs(self):
        return len(self._design.y)

    @property
    def converged(self):
        return self._solution.success

    @property
    def radius(self):
        return self._solution.radius

    @property
    def params(self):
        """Coefficients in the units of the design columns (Series)."""
        beta = self._columns.coefficients(
            self._solution.x, self._centre, self._scale, self._design.intercept
        )
        return pd.Series(beta, index=self._design.names, name="params")

    @property
    def params_standardized(self):
        """Coefficients of the standardised columns and response (Series)."""
        return pd.Series(self._solution.x, index=self._design.names, name="params_standardized")

    @property
    def fittedvalues(self):
        """Predictions at the training rows (Series)."""
        return pd.Series(self._predictions(self._X), index=self._design.index, name=self._design.response)

    @property
    def resid(self):
        """Response less fitted values (Series)."""
        return pd.Series(self._design.y, index=self._design.index) - self.fittedvalues

    def predict(self, exog=None):
        """Predictions of the training fit.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.

        Returns
        -------
        Series
            On the index of ``exog``; NaN where a row has a missing value. Of the transformed response
            where the formula transforms it (the Series' name says so).

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
        >>> res.predict({"income": [500.0, None]}).round(1)
        0    377.8
        1      NaN
        Name: foodexp, dtype: float64
        """
        rows, index = self._new_rows(exog)
        return pd.Series(self._predictions(rows), index=index, name=self._design.response)

    # Intervals -----------------------------------------------------------------------------------

    def conf_int_conformal(self, exog=None, alpha=0.05, method="auto", side="two-sided", **options):
        """Conformal prediction intervals for new responses.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training design points by default.
        alpha : float or sequence of float
            Miscoverage. A sequence gives a column level per alpha.
        method : {"auto", "exact", "stable"}
            "exact" gives the full conformal set (the hull, where it is not an interval), "stable" an
            enclosure of it from one fit for all rows. "auto" is exact, unless an option of the stable
            method is given.
        side : {"two-sided", "upper", "lower"}
            One-sided intervals rank signed residuals; their other end is infinite.
        **options
            Of the exact method:

            tol : float
                For losses whose slope bends (log-cosh, pseudo-Huber, linex, power): how far outside the
                exact end an end may be, relative to the scale of the response (default 1e-6).
            n_jobs : int
                Processes that share the rows; -1 for one a core.
            progress : bool
                Show a progress bar; by default only in a terminal, once the work takes long.

            Of the stable method:

            bound : {"curvature", "norm", "ball", "paper"}
                Stability bound; by default "curvature" for losses with curvature, else "norm". Above
                10,000 new rows their norms are rounded up by at most 0.4 %, which makes the part of
                the width that is owed to stability larger by about as much.
            inner : bool
                Add ``inner_lower``, ``inner_upper``: an interval contained in the exact set.

        Returns
        -------
        DataFrame
            ``lower`` and ``upper`` on the index of ``exog``; NaN where a row has a missing value. Its
            ``attrs`` hold method, guarantee, the share of the width that is owed to stability, and under
            ``pieces`` the parts of those sets that are not intervals, by row label.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data, loss="huber", penalty=0.01)
        >>> res.conf_int_conformal({"income": [500.0, 1000.0]}, alpha=0.1).round(0)
           lower  upper
        0  224.0  532.0
        1  483.0  789.0
        """
        rows, index = self._new_rows(exog)
        alphas, single = check_alpha(alpha)
        made = self._intervals(rows, alphas, method, side, options)
        complete = ~np.isnan(rows).any(axis=1)
        frames = [interval_frame(intervals, complete, index, self._design) for intervals in made]
        warn_about(made, self.model, self._zones.zones)
        return frames[0] if single else level_frame(frames, alphas)

    def get_prediction(self, exog=None, method="auto", side="two-sided", **options):
        """Predictions and their intervals, as statsmodels' ``get_prediction``.

        Returns
        -------
        Prediction
            With ``predicted_mean``, ``conf_int(alpha)`` and ``summary_frame(alpha)``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
        >>> res.get_prediction({"income": [500.0]}).summary_frame(alpha=0.1).round(1)
            mean  obs_ci_lower  obs_ci_upper
        0  377.8         223.6         531.8
        """
        return Prediction(self, exog, {"method": method, "side": side, **options})

    def conformity(self, exog, z, side="two-sided", bound=None):
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

        Returns
        -------
        DataFrame
            ``p``, ``p_lo`` and ``p_up``, indexed by the rows of ``exog`` and by ``z``. A candidate is in
            the conformal set if ``p > alpha``. NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad", penalty=0.1)
        >>> res.conformity({"income": [500.0]}, z=[250.0, 400.0, 600.0]).round(3).reset_index(drop=True)
               p   p_lo   p_up
        0  0.136  0.102  0.246
        1  0.873  0.703  1.000
        2  0.047  0.034  0.081
        """
        rows, index = self._new_rows(exog)
        candidates = check_candidates(z)
        bound = check_bound(self._zones, bound, side)
        out = np.full((len(rows), 3, len(candidates)), np.nan)
        for i in np.flatnonzero(~np.isnan(rows).any(axis=1)):
            out[i] = conformity(self._zones, rows[i], candidates, side, bound)
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
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
        >>> tau = res.tau({"income": [500.0]})
        >>> tau.shape, round(float(tau["new"].iloc[0]), 1)
        ((1, 236), 3.0)
        """
        rows, index = self._new_rows(exog)
        bound = bound or default_bound(self.model.loss)
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i in np.flatnonzero(~np.isnan(rows).any(axis=1)):
            out[i] = row_tau(self._zones, rows[i : i + 1], bound, z)
        columns = pd.Index([*self._design.index, "new"], dtype=object)
        return pd.DataFrame(out, index=index, columns=columns)

    # Presentation --------------------------------------------------------------------------------

    def summary(self, alpha=0.05):
        """Summary tables: the fit, the coefficients and what the intervals promise.

        Parameters
        ----------
        alpha : float
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
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
        >>> print(res.summary(alpha=0.1).tables[1])
        ==================================
                         coef standardized
        ----------------------------------
        Intercept       120.3       0.1866
        income          0.515        1.138
        ==================================
        """
        (alpha,), _ = check_alpha([alpha] if np.isscalar(alpha) else alpha)
        rows = self._X[np.linspace(0, self.nobs - 1, min(self.nobs, _SUMMARY_ROWS)).astype(int)]
        made = [self._attempt(rows, alpha, method) for method in ("exact", "stable")]
        return summarise(self, self._design, self._solution, *made)

    # Persistence ---------------------------------------------------------------------------------

    def save(self, path):
        """Pickle the results to ``path``; `stabconf.load` reads them back.

        Examples
        --------
        >>> import os, tempfile
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "engel.pickle")
        ...     res.save(path)
        ...     stabconf.load(path).params.equals(res.params)
        True
        """
        try:
            content = pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputTypeError(
                f"the results cannot be pickled ({error}): a function that the formula takes from the "
                "calling scope must be importable from a module"
            ) from error
        write_whole(path, content)

    def __getstate__(self):
        caches = ("_X", "_zones")
        return {name: value for name, value in self.__dict__.items() if name not in caches}

    # Helpers -------------------------------------------------------------------------------------

    @cached_property
    def _X(self):
        return self._columns.apply(self._design.X)

    @cached_property
    def _zones(self):
        model = self.model
        slopes = np.arange(len(self._design.names)) != self._design.intercept
        ridge, lasso = model.penalty.weights(self.nobs, slopes)
        return ZoneFits(
            self._X,
            self._design.y,
            model.loss,
            ridge,
            lasso,
            self._design.intercept,
            model.standardize,
            self._solution.x,
            model.solver,
            model.tol,
            model.max_iter,
        )

    def _new_rows(self, exog):
        if exog is None:
            return self._X, self._design.index
        rows, index = self._design.new_rows(exog)
        return self._columns.apply(rows), index

    def _predictions(self, rows):
        return self._centre + self._scale * (rows @ self._solution.x)

    def _attempt(self, rows, alpha, method):
        """Two-sided `Intervals`, or the reason why the method refuses."""
        try:
            return self._intervals(rows, [alpha], method, "two-sided", {})[0]
        except AssumptionError as refusal:
            return str(refusal)

    def _intervals(self, rows, alphas, method, side, options):
        """One `Intervals` an alpha, for the rows without missing values."""
        complete = rows[~np.isnan(rows).any(axis=1)]
        return make_intervals(self._zones, complete, alphas, method, side, options)


def load(path):
    """Read results that `Results.save` wrote.

    Pickles run code on loading: load only files that you trust.
    """
    with open(path, "rb") as file:
        results = pickle.load(file)
    if not isinstance(results, Results):
        raise InputTypeError(f"{path} holds a {type(results).__name__}, not stabconf results")
    return results
