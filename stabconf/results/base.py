"""What all results share: prediction and intervals with labels. `tables` and `figures` add to it.

Results put labels on what the array modules compute, check arguments and warn; they compute no numbers.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from ..checks import DEFAULT_ALPHA
from ..data.design import Design, Unseen
from ..data.response_units import as_units
from ..data.units import ColumnUnits
from ..errors import AssumptionError, InputTypeError
from ..sets import METHODS, Intervals, Method, PairScore, UserScore
from .asking import Asked, Rows, ask_intervals
from .options import Bound, Folds, Groups, New, Numbers, PerRow, Side, Units
from .predictive import Prediction
from .saving import SavedResults

if TYPE_CHECKING:
    from .estimator import EstimatorSpec
    from .regression import ModelSpec

_NO_OPTIONS = ("self", "exog", "alpha", "method", "side", "unknown")  # arguments of conf_int_conformal


class BaseResults(SavedResults):
    """Labels on what the array modules compute.

    A subclass is made with ``(model, design, columns)``, which fits it, and has ``_predictions(X)`` (m,) of
    rows in the units of the fit; ``_fits``, and in ``_methods`` the methods that these have; and the parts
    that `Tables` needs. Where ``can_refit`` is False, as for models that others fitted, ``_refit`` refuses.
    """

    model: "ModelSpec | EstimatorSpec"
    _fits: Any
    _predictions: Callable[[np.ndarray], np.ndarray]
    _methods: ClassVar[Mapping[str, Method]] = METHODS
    _rowless = ""  # why there are no training rows
    can_refit: bool = True  # with another penalty, or with a map learned from other rows
    default_alpha: Numbers = DEFAULT_ALPHA  # of every method, table and figure that is given none
    default_method: str = "auto"

    def __init__(self, model: "ModelSpec | EstimatorSpec", design: Design, columns: ColumnUnits) -> None:
        self.model = model
        self._design = design
        self._columns = columns

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.model.formula!r}: {self._described()}, {self.nobs} rows>"

    @property
    def formula(self) -> str:
        """The formula that was fitted."""
        return self.model.formula

    @property
    def nobs(self) -> int:
        """Training rows used."""
        return len(self._design.y)

    @property
    def fittedvalues(self) -> pd.Series:
        """Predictions at the training rows."""
        return self.predict()

    @property
    def resid(self) -> pd.Series:
        """Response less fitted values."""
        return self.fittedvalues.rsub(pd.Series(self._design.y, index=self._design.index), axis=0)

    def predict(self, exog: New = None, units: Units = None) -> pd.Series:
        """Predictions of the training fit, at the training rows by default; NaN where a value is missing.

        They are of the transformed response where the formula transforms it, unless ``units`` are given, as
        in `conf_int_conformal`: a median stays one; the mean of a logarithm becomes a geometric mean.

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
        if hasattr(type(exog), "map_partitions"):  # a frame of dask
            return self._by_partition(exog, "predict", units=units)
        X, index = self._new_rows(exog)
        own = as_units(units, self._design)
        return pd.Series(own.back(self._predictions(X)), index, name=own.response)

    def conf_int_conformal(
        self,
        exog: New = None,
        alpha: Numbers = None,
        method: str | None = None,
        side: Side = "two-sided",
        *,
        groups: Groups = None,
        weights: PerRow = None,
        conditional: str | None = None,
        scale: PerRow = None,
        score: str | UserScore | PairScore | None = None,
        bound: Bound = None,
        inner: bool | None = None,
        tol: float | None = None,
        budget: int | None = None,
        z_hat: PerRow = None,
        queries: int | Sequence[float] | None = None,
        points: int | None = None,
        calibration: float | None = None,
        folds: Folds = None,
        random_state: int | np.random.Generator | None = None,
        transductive: bool = False,
        unseen: Unseen | None = None,
        in_range: bool = False,
        units: Units = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
        to: str | None = None,
        **unknown: Any,
    ) -> pd.DataFrame:
        """Conformal prediction intervals for new responses.

        A Series that is given, or that a callable returns, is matched to the rows by label.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training design points by default. A frame of dask gives one of dask, made
            partition by partition, by the "stable" or the "split" method at one alpha.
        alpha : float or sequence of float, optional
            Miscoverage, by default ``default_alpha`` (0.05). A sequence gives a column level per alpha.
        method : str
            By default ``default_method``, "auto". "exact" gives the full conformal set (the hull, where it
            is not an interval), "stable" an enclosure of it from one fit for all rows; "auto" is exact,
            unless an option of the stable method is given. "replace_one", "batch" and "interpolation"
            enclose it from fits with the new row at some responses. "root" and "grid" refit at every
            candidate. "split", "cross", "cv+" and "jackknife+" fit to parts of the training rows.
        side : {"two-sided", "upper", "lower"}
            One-sided intervals rank signed residuals; their other end is infinite.
        groups : str or list of str
            Rank each new row among the training rows of its own group, so that coverage holds within each:
            a column, several, or a formula term such as "C(region)", "x > 2" or "pd.cut(x, [0, 1, 2]):sex".
            All rows are fitted. A new row without a group has no interval; groups that training does not
            have are an error. Terms are code, as formulas are; the name of a column never is.
        weights : str, callable, tuple of two arrays or array
            Likelihood ratios of a shift of the covariates between training and new rows, up to a constant,
            under which coverage then holds: a column, a callable of a frame, arrays ``(training, new)``, or
            one array of both, training rows first. Not for "cross" and "cv+".
        conditional : str
            A formula such as "~ C(region) + cr(age, df=4)": coverage then holds within every group that its
            columns can indicate, overlapping ones too, and under every shift that they span, for scores are
            regressed on them at level 1 - alpha. For LAD, quantile and Huber loss, with ``method="split"``
            for every loss; instead of ``groups`` and ``weights``.
        scale : str, True or callable
            Divide residuals by a scale, so that widths follow it. A fixed one for all but "interpolation":
            a column with positive values, or a callable of a frame that returns them. A learned one for
            methods that hold rows out: a formula such as "~ x1" (True for the columns of the model), on
            which the logarithms of the sizes of residuals are regressed by least squares. For widths that
            follow the data with all rows use `stabconf.fit_quantiles`.
        score : {"absolute", "squared", "dual"}, UserScore or PairScore
            What of a residual is ranked, for the methods that take ``scale``: its size, or a function of
            one's own, of the residual (`UserScore`) or of response and prediction (`PairScore`). "squared"
            and, for losses that are symmetric, "dual" (the size of the slope of a smooth loss, ties broken
            by the residual) rank as "absolute" does.
        bound : {"curvature", "norm", "ball", "paper", "dual"}
            Stability bound of "stable", "replace_one", "batch" and "interpolation"; by default "curvature"
            for losses with curvature, else "norm". "paper" is the paper's constant with the norm of the new
            row in it, 2 rho a_i a_N (see ``res.constants``). "dual" is the duality gap, for "replace_one"
            and "batch" with a smooth loss: it rules out responses around ``z_hat``. Above 10,000 new rows
            their norms are rounded up by at most 0.4 %, and so is what stability adds to the width.
        inner : bool
            Add ``inner_lower``, ``inner_upper``, an interval within the exact set, with a ``bound``.
        tol, budget : float, int
            By how much an end may lie outside the exact one, relative to the scale of the response (default
            1e-6): for "root", and for "exact" with losses whose slope bends (log-cosh, pseudo-Huber, linex,
            power). Fits per row that "exact" may spend with these where an end is hard to find (default
            50); values that are not ruled out by then stay in the interval.
        z_hat : float, "prediction" or callable
            Response at which the new row joins the fit of "replace_one"; a callable is given ``exog`` and
            returns one per row. For "batch" a list of them.
        queries, points : int or sequence of float, int
            Responses between which "interpolation" interpolates the fit (default 8), or their number;
            candidates of "grid" (default 200).
        calibration, random_state : float, int or Generator
            Share of the training rows that calibrate "split" (default 0.5); what decides which rows go
            where in "split", "cross" and "cv+" (default 0).
        folds : int or str
            Number of folds of "cross" and "cv+" (default 10). Or the column of clusters whose rows depend
            on each other (or a label per training row), for "split" and "cv+": a cluster is held out
            whole, all clusters count alike, and coverage is that of a row of a new cluster.
        transductive : bool
            Learn the design map (stateful transforms, column means and scales) from the training and the
            new rows together. Centre and scale of the response stay those of the training rows.
        unseen : {"raise", "nan"}
            As in `stabconf.fit`, by default as given there.
        in_range : bool
            Leave out responses beyond the range of the training ones, so that no end that was asked for is
            infinite. Coverage is less by at most 2 / (n + 1), or 1 / (n + 1) with one side (within groups
            with the n of the smallest).
        units : {"response"} or pair of functions
            "response" gives the ends in units of ``y`` where the formula's left side is ``np.log(y)``, or
            log1p, log10, log2 or sqrt. Others need a pair of increasing functions, there and back:
            ``units=(np.cbrt, lambda z: z**3)``. Coverage stays as it is.
        n_jobs, progress : int, bool
            Workers of joblib that share the rows of "exact", or the fits of methods that refit; -1 for one
            per core. They are processes, or what ``joblib.parallel_config`` says. A progress bar comes by
            default only in a terminal, once the work takes long.
        to : {"pandas", "polars", "pyarrow"}
            Kind of the frame that is returned; only pandas has the guarantee beside it, in ``attrs``.
        **unknown
            Anything else is an error that names the options of the method.

        Returns
        -------
        DataFrame
            ``lower`` and ``upper`` on the index of ``exog``; NaN where a row has a missing value. Among its
            ``attrs`` are the method, the ``guarantee`` and the coverage in it, ``promise`` (NaN where none
            is certified), and the share of the width that is owed to stability; under ``tol`` how far an
            end may lie outside the exact one, at most (None where unknown); and by row label, under
            ``loose`` the same where it is larger than for most, under ``pieces`` the parts of sets that are
            not intervals, and under ``empty`` the rows whose set is empty (their ends are NaN).

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.conf_int_conformal({"income": [500.0]}, alpha=0.1).round(0)
           lower  upper
        0  215.0  528.0
        """
        options = {name: value for name, value in locals().items() if name not in _NO_OPTIONS} | unknown
        return ask_intervals(self, exog, self._level(alpha), method or self.default_method, side, options)

    def get_prediction(
        self,
        exog: New = None,
        method: str | None = None,
        side: Side = "two-sided",
        *,
        alpha: Numbers = None,
        **options: Any,
    ) -> Prediction:
        """Predictions and their intervals, as statsmodels' ``get_prediction``.

        Arguments are those of `conf_int_conformal`; what is returned has ``predicted_mean``,
        ``conf_int(alpha)`` and ``summary_frame(alpha)``, whose alpha is by default the one given here.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.get_prediction({"income": [500.0]}, alpha=0.1).summary_frame().round(1)
            mean  obs_ci_lower  obs_ci_upper
        0  372.4         214.5         528.0
        """
        asked = {"method": method or self.default_method, **options}
        asked |= {} if side == "two-sided" else {"side": side}
        return Prediction(self, exog, self._level(alpha), asked)

    # What a subclass may change --------------------------------------------------------------------

    def _intervals(self, asked: Asked) -> list[Intervals]:
        """One `Intervals` per alpha."""
        return asked.intervals(self._fits, self._methods)

    def _rows(self, exog: New) -> tuple[Rows, pd.Index]:
        """New rows and their index; the training rows for None."""
        X, index = self._new_rows(exog)
        return Rows(X), index

    def _prediction_columns(self, exog: New, units: Units = None) -> pd.DataFrame:
        """What `Prediction.summary_frame` shows beside the intervals, ``mean`` first."""
        return self.predict(exog, units).rename("mean").to_frame()

    def _covariates(self, rows: np.ndarray) -> np.ndarray:
        """Of rows as they are fitted (m, p) the columns that the formula makes."""
        return rows

    def _described(self) -> str:
        """The model in a few words."""
        return self.model.describe()

    # Helpers ---------------------------------------------------------------------------------------

    @property
    def _designs(self) -> list[Design]:
        """A design per response."""
        return [self._design]

    @cached_property
    def _kept(self) -> dict[Hashable, list[Intervals]]:
        """Intervals of the last calls, by what was asked; neither pickled nor copied."""
        return {}

    @cached_property
    def _X(self) -> np.ndarray:
        return self._columns.apply(self._design.X)

    def _new_rows(self, exog: New) -> tuple[np.ndarray, pd.Index]:
        """Design rows in the units of the fit (m, p), NaN where incomplete, and their index."""
        if exog is None and self._rowless:
            raise InputTypeError(f"{self._rowless}: give new rows as exog")
        if exog is None:
            return self._X, self._design.index
        X, index = self._design.new_rows(exog)
        return self._columns.apply(X), index

    def _level(self, alpha: Numbers) -> Numbers:
        """The alpha that was given, or the default."""
        return self.default_alpha if alpha is None else alpha

    def _by_partition(self, frame: Any, what: str, **asked: Any) -> Any:
        """The answer of ``what`` to a dask frame: one of dask, made partition by partition."""
        raise AssumptionError(
            f"{type(self).__name__} cannot answer rows of a dask frame, partition by partition: use the "
            "results of stabconf.fit with a loss, or give a pandas frame, exog.compute() say"
        )

    def _require_refit(self, what: str) -> None:
        """Refuse ``what`` where the model cannot be fitted again."""
        if not self.can_refit:
            raise AssumptionError(
                f"{what} fits the model again, which {type(self).__name__} cannot ({self._described()}): "
                "use the results of stabconf.fit(formula, data, loss=..., penalty=...)"
            )

    def _copy(self, **changes: Any) -> Self:
        """The same, but for some attributes; what is cached is shared."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made

    def _refit(self, model: "ModelSpec | EstimatorSpec", design: Design, columns: ColumnUnits) -> Self:
        """Itself fitted again, with another model or design map."""
        self._require_refit("another penalty or design map")
        return type(self)(model, design, columns)
