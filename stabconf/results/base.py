"""What all results share: prediction, intervals with labels, persistence."""

import pickle
from functools import cached_property

import numpy as np
import pandas as pd

from ..checks import DEFAULT_ALPHA, check_alpha
from ..data.groups import as_ranking
from ..errors import AssumptionError, InputError, InputTypeError
from ..files import write_whole
from ..sets import FixedScale
from .advice import as_responses, as_scale
from .labels import interval_frame, level_frame
from .prediction import Prediction
from .presentation import Presentation

__all__ = ["BaseResults", "load"]

_SUMMARY_ROWS = 200


class BaseResults(Presentation):
    """Labels on what the array modules compute.

    A subclass has ``model`` (what was fitted), and makes predictions and intervals of standardised design
    rows: ``_predictions(rows)``, ``_intervals(rows, alphas, method, side, options, parts)``,
    ``_warn_about(made, ranking)``, ``_with_map(design, columns)``, itself refitted with another design map,
    and ``_described()``, the model in a few words.
    """

    default_alpha = DEFAULT_ALPHA  # of every method, table and figure that is given none

    def __init__(self, model, design, columns):
        self.model, self._design, self._columns = model, design, columns

    def __repr__(self):
        return f"<{type(self).__name__} of {self.model.formula!r}: {self._described()}, {self.nobs} rows>"

    @property
    def can_refit(self):
        """Whether the model can be fitted again: with other penalties, with the map of other rows, with a
        new response among its own. `plot_stability`, ``transductive=True`` and the oracle of
        `stabconf.compare` need that."""
        return True

    @property
    def nobs(self):
        return len(self._design.y)

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
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.predict({"income": [500.0, None]}).round(1)
        0    372.4
        1      NaN
        Name: foodexp, dtype: float64
        """
        rows, index = self._new_rows(exog)
        return pd.Series(self._predictions(rows), index=index, name=self._design.response)

    def conf_int_conformal(self, exog=None, alpha=None, method="auto", side="two-sided", **options):
        """Conformal prediction intervals for new responses.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training design points by default.
        alpha : float or sequence of float, optional
            Miscoverage, by default ``default_alpha`` (0.05). A sequence gives a column level per alpha.
        method : str
            "exact" gives the full conformal set (the hull, where it is not an interval), "stable" an
            enclosure of it from one fit for all rows; "auto" is exact, unless an option of the stable
            method is given. "replace_one", "batch" and "interpolation" enclose it from fits with the new
            row at some responses. "root" and "grid" refit at every candidate. "split", "cross", "cv+"
            and "jackknife+" fit to parts of the training rows.
        side : {"two-sided", "upper", "lower"}
            One-sided intervals rank signed residuals; their other end is infinite.
        **options
            Of the exact method:

            tol : float
                For losses whose slope bends (log-cosh, pseudo-Huber, linex, power): by how much an
                interval may be wider than the exact one at each end, relative to the scale of the response
                (default 1e-6).
            budget : int
                For these losses: fits a row that may be spent where an end is hard to find (default 50).
                Values that cannot be ruled out by then stay in the interval.
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

            Of "replace_one", "batch" and "interpolation", which take ``bound`` and ``inner`` too:

            z_hat : float, "prediction" or callable
                Response at which the new row joins the fit; a callable is given ``exog`` and returns one
                a row (a Series is matched by label). For "batch" a list of them.
            queries : int or sequence of float
                Responses between which the fit is interpolated (default 8).

            Of the others:

            points : int
                Candidates of "grid" (default 200).
            calibration : float
                Share of the training rows that calibrate "split" (default 0.5).
            folds : int
                Of "cross" and "cv+" (default 10).
            random_state : int or numpy Generator
                Decides which rows go where (default 0).

            Of "exact" (a fixed scale alone), "stable", "root", "grid", "split", "cross", "cv+" and
            "jackknife+":

            score : {"absolute", "squared", "dual"} or UserScore
                What of a residual is ranked. "squared" ranks as "absolute" does; "dual" is the size of
                the slope of a smooth loss.
            scale : str, True or callable
                Divide residuals by a scale, so that widths follow it. A fixed scale, for every loss: a
                column with positive values, or a callable of a frame that returns them (a Series is matched
                by label). A learned one, for "split", "cross", "cv+" and "jackknife+", which hold rows
                out: a formula such as "~ x1" of what it depends on (True for the columns of the model);
                the logarithms of the sizes of residuals are regressed on it by least squares. For widths
                that follow the data with all rows use `stabconf.fit_quantiles`.

            Of all methods:

            groups : str or list of str
                Rank each new row among the training rows of its own group, so that coverage holds within
                each group: a column, several, or a formula term such as "C(region)", "x > 2" or
                "pd.cut(x, [0, 1, 2]):sex". All rows are fitted, as without groups. A new row without a
                group has no interval; groups that training does not have are an error. Terms are code, as
                formulas are; the name of a column never is.
            weights : str, callable, tuple of two arrays or array
                Likelihood ratios of a shift of the covariates between training and new rows, up to a
                constant: a column, a callable of a frame, arrays ``(training, new)``, or one array of both,
                training rows first. A Series is matched to the rows by label. Coverage then holds under the
                shift. Not for "cross" and "cv+".
            transductive : bool
                Learn the design map (stateful transforms, column means and scales) from the training and
                the new rows together, which treats them alike. Centre and scale of the response stay those
                of the training rows.

        Returns
        -------
        DataFrame
            ``lower`` and ``upper`` on the index of ``exog``; NaN where a row has a missing value. Its
            ``attrs`` hold method, guarantee, the share of the width that is owed to stability, under
            ``tol`` by how much an interval may be wider than the exact one at an end, at most (None where
            unknown), under ``loose`` the same for rows where it is larger than for most, by row label,
            under ``pieces`` the parts of those sets that are not intervals, by row label, and under
            ``empty`` the labels of rows whose set is empty (their ends are NaN).

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data, loss="huber")
        >>> res.conf_int_conformal({"income": [500.0, 1000.0]}, alpha=0.1).round(0)
           lower  upper
        0  215.0  528.0
        1  479.0  791.0

        Within groups, here of small and large incomes:

        >>> new = {"income": [500.0, 1000.0]}
        >>> ends = res.conf_int_conformal(new, alpha=0.1, groups="income > 900")
        >>> ends.round(0)
           lower  upper
        0  266.0  480.0
        1  432.0  835.0
        >>> ends.attrs["groups"]
        {False: {'k': 114, 'n': 125}, True: {'k': 100, 'n': 110}}

        If new rows are drawn in proportion to their income:

        >>> res.conf_int_conformal(new, alpha=0.1, weights="income").round(0)
           lower  upper
        0  160.0  585.0
        1  420.0  845.0
        """
        transductive = options.pop("transductive", False)
        if not isinstance(transductive, (bool, np.bool_)):
            raise InputTypeError(f"transductive={transductive!r} is not a flag: give True or False")
        alphas, single = check_alpha(self._level(alpha))
        if transductive:
            fitted, rows, index = self._transductive(exog)
        else:
            fitted, (rows, index) = self, self._new_rows(exog)
        ranked = options.pop("groups", None), options.pop("weights", None)
        ranking, complete = fitted._ranking(exog, *ranked, ~np.isnan(rows).any(axis=1))
        if options.get("scale") is not None:
            options["scale"], complete = as_scale(options["scale"], fitted._design, exog, complete)
        if options.get("z_hat") is not None:
            frame = self._design.frame_of(exog)
            options["z_hat"] = as_responses(options["z_hat"], frame, fitted._predictions(rows), complete)
        parts = ranking.parts(complete) if ranking is not None and complete.any() else None
        made = fitted._intervals(rows[complete], alphas, method, side, options, parts)
        frames = []
        for intervals in made:
            more = {"transductive": bool(transductive)}
            more |= ranking.attrs(intervals, complete) if ranking is not None else {}
            frames.append(interval_frame(intervals, complete, index, fitted._design, more))
        fitted._warn_about(made, None if parts is None else ranking.asked_for(complete))
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
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.get_prediction({"income": [500.0]}).summary_frame(alpha=0.1).round(1)
            mean  obs_ci_lower  obs_ci_upper
        0  372.4         214.5         528.0
        """
        return Prediction(self, exog, {"method": method, "side": side, **options})

    # Persistence ---------------------------------------------------------------------------------

    def save(self, path):
        """Pickle the results to ``path``; `stabconf.load` reads them back.

        The file holds the whole training frame, with the columns that the formula does not use, for options
        may name them: drop what others must not see before the fit.

        Examples
        --------
        >>> import os, tempfile
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
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
                f"the results cannot be pickled ({error}): functions that the formula takes from the "
                "calling scope, an estimator or its tau must be importable from a module"
            ) from error
        write_whole(path, content)

    _caches = ("_X",)  # attributes that are made again after loading

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in self._caches}

    # Helpers -------------------------------------------------------------------------------------

    @cached_property
    def _X(self):
        return self._columns.apply(self._design.X)

    def _level(self, alpha):
        """The alpha that was given, or the default."""
        return self.default_alpha if alpha is None else alpha

    def _require_refit(self, what):
        """Refuse ``what`` where the model cannot be fitted again."""
        if not self.can_refit:
            raise AssumptionError(
                f"{what} fits the model again, which {type(self).__name__} cannot ({self._described()}): "
                "use the results of stabconf.fit(formula, data, loss=..., penalty=...)"
            )

    def _rows_as_fitted(self, exog, options):
        """Design rows as the fits see them (m, p), NaN where incomplete; the training rows for None."""
        return self._new_rows(exog)[0]

    def _prediction_columns(self, exog):
        """What `Prediction.summary_frame` shows beside the intervals (DataFrame)."""
        return self.predict(exog).rename("mean").to_frame()

    def _summary_rows(self):
        """Training rows where a summary shows intervals, all or evenly spaced ones, and which in words."""
        if self.nobs <= _SUMMARY_ROWS:
            return self._X, "the training points"
        places = np.linspace(0, self.nobs - 1, _SUMMARY_ROWS).astype(int)
        return self._X[places], f"{_SUMMARY_ROWS} of the training points"

    def _summary_of(self, bands, exog, options):
        """The summary in a report of intervals at ``exog`` that were made with these options."""
        return self.summary(alpha=bands.attrs["alpha"])

    def _new_rows(self, exog):
        if exog is None:
            return self._X, self._design.index
        rows, index = self._design.new_rows(exog)
        return self._columns.apply(rows), index

    def _ranking(self, exog, groups, weights, complete):
        """The `Ranking` of new rows, or None, and the complete rows that it can rank."""
        ranking = as_ranking(groups, weights, self._design, exog)
        return ranking, complete if ranking is None else ranking.known(complete)

    def _beside(self, exog, options, taken):
        """Columns that say how new rows are ranked and scaled, for frames with the columns ``taken``."""
        rows, _ = self._new_rows(exog)
        complete, scale = ~np.isnan(rows).any(axis=1), options.get("scale")
        ranking = as_ranking(options.get("groups"), options.get("weights"), self._design, exog)
        out = {} if ranking is None else ranking.columns([*taken, "scale", "weight"])
        if scale is not None:
            found, complete = as_scale(scale, self._design, exog, complete)
            values = self._scales(found)
            if values is not None:
                out["scale"] = np.full(len(rows), np.nan)
                out["scale"][complete] = values
        return out

    def _scales(self, scale):
        """Scales of the new rows (m,), or None where one is learned anew for each interval alone."""
        return scale.new if isinstance(scale, FixedScale) else None

    def _transductive(self, exog):
        """Itself with a map learned from training and new rows together, the new rows, their index."""
        self._require_refit("transductive=True")
        if exog is None:
            raise InputError("transductive=True learns from the new rows: give them as exog")
        design, columns, rows, index = self._design.together(exog, self.model.standardize)
        return self._with_map(design, columns), columns.apply(rows), index


def load(path):
    """Read results that `save` wrote.

    Pickles run code on loading: load only files that you trust.
    """
    with open(path, "rb") as file:
        results = pickle.load(file)
    if not isinstance(results, BaseResults):
        raise InputTypeError(f"{path} holds a {type(results).__name__}, not stabconf results")
    return results
