"""Results of several quantile regressions, and the conformal band between two of them."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..checks import check_candidates, check_one_alpha
from ..errors import AssumptionError, DataWarning, InputError, InputTypeError, warn_user
from ..losses import Quantile
from ..penalties import Penalty
from ..rank import Peers
from ..sets import BAND_METHODS, BandFits, band_conformity, make_intervals
from ..sets.training import fit_rows
from ..show.summary import summarise_quantiles
from .advice import warn_about
from .base import BaseResults
from .labels import conformity_frame
from .regression import ModelSpec, Results

__all__ = ["QuantileResults", "QuantileSpec"]


@dataclass(frozen=True)
class QuantileSpec:
    """What was fitted, as the user asked for it.

    Attributes
    ----------
    formula : str
    quantiles : tuple of float
        Ascending.
    penalty : Penalty
    standardize : bool
    missing, solver : str
    tol : float
    max_iter : int
    endog_names : str
    exog_names : list of str
    """

    formula: str
    quantiles: tuple
    penalty: Penalty
    standardize: bool
    missing: str
    solver: str
    tol: float
    max_iter: int
    endog_names: str
    exog_names: list

    @property
    def models(self):
        """The `ModelSpec` of each level."""
        shared = {name: value for name, value in vars(self).items() if name != "quantiles"}
        return [ModelSpec(loss=Quantile(q), **shared) for q in self.quantiles]


class QuantileResults(BaseResults):
    """Fitted quantiles and the conformal band between two of them; made by `stabconf.fit_quantiles`.

    Attributes
    ----------
    model : QuantileSpec
    nobs : int
        Rows used.
    converged : bool
        Whether every fit did.
    """

    def __init__(self, model, design, columns, fits):
        super().__init__(model, design, columns)
        self._levels: dict[float, Results] = dict(zip(model.quantiles, fits, strict=True))
        self._bands = {}

    _caches = ("_X", "_bands")

    def __setstate__(self, state):
        self.__dict__.update(state, _bands={})

    @property
    def converged(self):
        return all(fit.converged for fit in self._levels.values())

    @property
    def params(self):
        """Coefficients in the units of the design columns (DataFrame, a column a quantile)."""
        return self._frame({q: fit.params for q, fit in self._levels.items()}, self._design.names)

    @property
    def params_standardized(self):
        """Coefficients of the standardised columns and response (DataFrame)."""
        made = {q: fit.params_standardized for q, fit in self._levels.items()}
        return self._frame(made, self._design.names)

    @property
    def fittedvalues(self):
        """Fitted quantiles at the training rows (DataFrame)."""
        return self.predict()

    @property
    def resid(self):
        """Response less fitted quantiles (DataFrame)."""
        return -self.predict().sub(self._design.y, axis=0)

    def predict(self, exog=None):
        """Fitted quantiles at new rows.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.

        Returns
        -------
        DataFrame
            A column a quantile, on the index of ``exog``; NaN where a row has a missing value. They may
            cross: `crossing` says where.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
        >>> res.predict({"income": [500.0, None]}).round(1)
            0.05   0.50   0.95
        0  296.6  362.1  423.4
        1    NaN    NaN    NaN
        """
        rows, index = self._new_rows(exog)
        return self._frame({q: fit._predictions(rows) for q, fit in self._levels.items()}, index)

    def crossing(self, exog=None):
        """Whether fitted quantiles cross, a lower one above a higher one.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.

        Returns
        -------
        Series of bool
            False where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
        >>> bool(res.crossing().any()), res.crossing({"income": [600.0, -900.0]}).tolist()
        (False, [False, True])
        """
        made = self.predict(exog)
        return (made.diff(axis=1).iloc[:, 1:] < 0).any(axis=1).rename("crossing")

    def conf_int_conformal(
        self, exog=None, alpha=None, method="auto", side="two-sided", *, pair=None, **options
    ):
        """Conformal prediction intervals: the band between two quantiles, widened or narrowed to cover.

        A response is scored by how far it lies outside the band, on whichever side; the sets are exact
        full conformal sets of that score, with both fits made anew for every candidate response.

        Parameters
        ----------
        exog, alpha
            As in `Results.conf_int_conformal`.
        method : {"auto", "exact", "stable"}
            "stable" encloses the exact set from one pair of fits for all rows, fit for many of them.
        side : {"two-sided", "upper", "lower"}
            One-sided intervals rank distances above the upper quantile, or below the lower one; their
            other end is infinite.
        pair : tuple of float, optional
            Levels of the band, of those fitted; by default the lowest and the highest.
        **options
            ``n_jobs``, ``progress`` of "exact"; ``bound`` ("norm" or "paper") of "stable"; ``groups``,
            ``weights`` and ``transductive`` of both.

        Returns
        -------
        DataFrame
            As in `Results.conf_int_conformal`; its ``attrs`` also hold the ``pair`` and under ``crossing``
            the labels of the rows where it crosses, which widens their scores but not the guarantee.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
        >>> ends = res.conf_int_conformal({"income": [500.0, 2000.0]}, alpha=0.1)
        >>> (ends["upper"] - ends["lower"]).round(0).tolist()
        [133.0, 692.0]
        """
        chosen = self._check_pair(pair, side)
        out = super().conf_int_conformal(exog, alpha, method, side, pair=chosen, **options)
        made = self.predict(exog)
        crossed = made.index[(made[chosen[0]] > made[chosen[1]]).to_numpy()]
        out.attrs |= {"pair": chosen, "crossing": crossed.tolist()}
        if len(crossed):
            rows = ", ".join(map(str, crossed[:5]))
            warn_user(
                f"quantiles {chosen[0]:g} and {chosen[1]:g} cross at {len(crossed)} of {len(made)} rows "
                f"(the first {rows}): intervals stay valid, but a set may be empty there; look at the "
                "formula, or raise penalty",
                DataWarning,
            )
        return out

    def conformity(self, exog, z, side="two-sided", *, pair=None, groups=None, weights=None):
        """Exact p-values of candidate responses.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        z : float or sequence of float
            Candidate responses, the same for every row.
        side, pair, groups, weights
            As in `conf_int_conformal`.

        Returns
        -------
        DataFrame
            ``p``, indexed by the rows of ``exog`` and by ``z``. A candidate is in the conformal set if
            ``p > alpha``. NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
        >>> res.conformity({"income": [500.0]}, z=[330.0, 450.0])["p"].round(3).tolist()
        [0.275, 0.03]
        """
        candidates, band = check_candidates(z), self._band(self._check_pair(pair, side))
        rows, index = self._new_rows(exog)
        ranking, complete = self._ranking(exog, groups, weights, ~np.isnan(rows).any(axis=1))
        places = np.flatnonzero(complete)
        everyone = [(np.arange(len(places)), Peers(self.nobs))]
        out = np.full((len(rows), 1, len(candidates)), np.nan)
        for which, peers in everyone if ranking is None else ranking.parts(complete):
            for a, i in enumerate(places[which]):
                out[i, 0] = band_conformity(band, rows[i], candidates, side, peers.take(a))
        return conformity_frame(out, index, candidates, ["p"])

    def summary(self, alpha=None):
        """Summary tables: the fits, their coefficients and what the intervals promise.

        Parameters
        ----------
        alpha : float, optional
            Level at which the interval block is computed, at the training design points (at 200 of them
            where there are more).

        Returns
        -------
        statsmodels.iolib.summary.Summary

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit_quantiles("foodexp ~ income", engel.load_pandas().data)
        >>> print(res.summary(alpha=0.1).tables[1])
        ===========================================
                         0.05       0.50       0.95
        -------------------------------------------
        Intercept       124.9      82.67      75.96
        income         0.3434     0.5588     0.6949
        ===========================================
        """
        alpha = check_one_alpha(self._level(alpha))
        rows, where = self._summary_rows()
        made = None
        if len(self._levels) > 1:
            pair = self._check_pair(None, "two-sided")
            (made,) = self._intervals(rows, [alpha], "auto", "two-sided", {"pair": pair})
        return summarise_quantiles(self, self._design, list(self._levels.values()), made, where)

    # Helpers -------------------------------------------------------------------------------------

    def _described(self):
        levels = ", ".join(f"{level:g}" for level in self.model.quantiles)
        return f"quantiles {levels}, {self.model.penalty.describe()}"

    def _frame(self, values, index):
        """A column a quantile."""
        made = pd.DataFrame(values, index=index)
        made.columns = pd.Index(self.model.quantiles, name=None)
        return made

    def _check_pair(self, pair, side):
        """Levels of the band, ascending; for one-sided sets one of them does not matter."""
        levels = self.model.quantiles
        if pair is None:
            if len(levels) < 2 and side == "two-sided":
                raise AssumptionError(
                    f"quantiles={levels!r} is one level, and a band has two: fit at least two, or use "
                    "side='upper' or 'lower'"
                )
            return levels[0], levels[-1]
        if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2:
            raise InputTypeError(f"pair={pair!r} is not a pair: give two levels such as (0.05, 0.95)")
        for level in pair:
            if level not in levels:
                raise InputError(f"pair={pair!r} has {level!r}, which was not fitted: choose from {levels}")
        if not pair[0] < pair[1]:
            raise InputError(f"pair={pair!r} is not ascending: give the lower level first")
        return tuple(float(level) for level in pair)

    def _band(self, pair):
        if pair not in self._bands:
            self._bands[pair] = BandFits(*(self._levels[level]._fits for level in pair))
        return self._bands[pair]

    @property
    def _central(self):
        """The fit whose level is nearest to the median."""
        return self._levels[min(self.model.quantiles, key=lambda level: abs(level - 0.5))]

    def _predictions(self, rows):
        return self._central._predictions(rows)

    def _prediction_columns(self, exog):
        made = self.predict(exog)
        named = made.set_axis([f"q{level:g}" for level in made.columns], axis=1)
        named.insert(0, "mean", made[self._central.model.loss.q])
        return named

    def _intervals(self, rows, alphas, method, side, options, parts=None):
        options = dict(options)
        band = self._band(options.pop("pair"))
        name = method
        if method == "auto":
            name = "stable" if options.get("bound") is not None else "exact"
        return make_intervals(band, rows, alphas, name, side, options, parts, BAND_METHODS)

    def _warn_about(self, made, ranking):
        central = self._central
        warn_about(made, central.model.loss, self.model.penalty, ranking)

    def _with_map(self, design, columns):
        fits = []
        for model in self.model.models:
            model = replace(model, exog_names=list(design.names))
            fits.append(
                Results(model, design, columns, fit_rows(design.X, design.y, design.kinds, columns, model))
            )
        return QuantileResults(self.model, design, columns, fits)
