"""What is predicted of new responses: their conformal distributions, and predictions beside intervals.

`Results.predictive` and `get_prediction` make them. The one-sided p-values of a candidate y bracket a
distribution function (theory, sections 1 and 5): ``1 - p`` of the upper side from below, p of the lower
side from above. The ends of the n one-sided sets are its steps, all of them from one path per row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..checks import check_one_alpha, check_shares, is_count
from ..data.frames import by_label, collected, copied, in_kind, numbers
from ..data.groups import as_ranking
from ..data.response_units import as_units
from ..errors import AssumptionError, InputError, InputTypeError
from ..rank import conformal_rank
from ..sets import FixedScale
from ..sets.intervals import assumed
from ..show.plots.curve_plots import draw_predictive
from .asking import Asked, prepared
from .labels import warn_about
from .options import Level, New, Numbers, Options, Units, as_scale

if TYPE_CHECKING:
    from .base import BaseResults
    from .regression import ObjectiveResults

Step = Literal["upper", "lower"]
_WIDENED = 1e-5  # of the spread of a row's steps: bands that are wider are so for a reason


class Predictive:
    """Predictive distributions of new responses, one per row; made by `Results.predictive`.

    With N = n + 1 and r the signed residuals of the fit that has the new row at y, the two distribution
    functions of a row are

    - lower: the share of the N rows with ``r_i < r_N``, which is 1 - p of the upper side;
    - upper: the share with ``r_i <= r_N``, the new row itself included, which is p of the lower side.

    They differ by 1/N, and by 2/N at a step. A distribution function must not fall: where the fit moves so
    that a share falls as y grows (for LAD within the range of y that the fit passes through exactly), the
    lower one is the smallest share at or beyond y, the upper one the largest share up to y. The band is
    wider there, and `widened` names the rows. ``index`` has the labels of the rows, ``nobs`` is n.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
    >>> made = res.predictive({"income": [500.0]})
    >>> made
    <Predictive of foodexp: 1 row, steps of 1/236>
    >>> made.interval(alpha=0.1).round(0)
       lower  upper
    0  195.0  516.0
    >>> made.quantile([0.1, 0.5, 0.9]).round(0)
    q    0.1    0.5    0.9
    0  256.0  367.0  478.0
    >>> made.cdf([[250.0, 350.0]]).round(3).reset_index("y")
           y  lower  upper
    0  250.0  0.093  0.097
    0  350.0  0.411  0.415
    >>> made.crps(370.0).round(1).tolist(), made.plot().get_ylabel()
    ([19.7], 'probability of a response up to here')
    """

    def __init__(
        self, results: "ObjectiveResults", exog: New, options: Options, units: Units = None
    ) -> None:
        self._results = results
        self._units = as_units(units, results._design)
        self._rows, self.index = results._rows(exog)
        asked = options, results, exog, self._rows, "exact", self._rows.complete
        _, self._complete, self._options = prepared(*asked)
        self._found: dict[tuple[Step, int], np.ndarray] = {}
        self.nobs: int = results.nobs

    def __repr__(self) -> str:
        rows = f"{len(self.index)} row{'' if len(self.index) == 1 else 's'}"
        return f"<Predictive of {self._units.response}: {rows}, steps of 1/{self.nobs + 1}>"

    def __len__(self) -> int:
        return len(self.index)

    @property
    def guarantee(self) -> str:
        """What the distributions promise, in words."""
        return (
            "for every q, a new response is at or below quantile(q) with probability at least q, and below "
            "quantile(q, step='lower') with probability at most q"
            f"{assumed(None)}{self._results._fits.given}"
        )

    @property
    def predicted_mean(self) -> pd.Series:
        """Predictions."""
        made = self._units.back(self._results._predictions(self._rows.X))
        return pd.Series(made, self.index, name=self._units.response)

    @property
    def upper_steps(self) -> pd.DataFrame:
        """Where the lower distribution function steps up: ``quantile(k / N)``, a column for each k."""
        return self._frame("upper")

    @property
    def lower_steps(self) -> pd.DataFrame:
        """Where the upper one does: ``quantile(k / N, step="lower")``, a column for each k."""
        return self._frame("lower")

    @property
    def widened(self) -> pd.Series:
        """Rows (bools) where the band is wider than 1/N: a share falls there, or training rows tie."""
        upper, lower = self._steps("upper"), self._steps("lower")
        finite = [row[np.isfinite(row)] for row in upper]
        spread = [np.ptp(np.quantile(row, [0.25, 0.75])) if len(row) else 0.0 for row in finite]
        with np.errstate(invalid="ignore"):  # where both are infinite they are the same
            gap = np.where(upper == lower, 0.0, upper - lower)
        return pd.Series((gap > _WIDENED * np.array(spread)[:, None]).any(axis=1), index=self.index)

    def quantile(self, q: float | Sequence[float], step: Step = "upper") -> pd.Series | pd.DataFrame:
        """Quantiles, at which new responses have a probability of at least q to lie at or below.

        Parameters
        ----------
        q : float or sequence of float
            Probabilities between 0 and 1; several give a column each.
        step : {"upper", "lower"}
            "upper" gives the upper end of ``conf_int_conformal(new, alpha=1 - q, side="upper")``, "lower"
            the lower end for ``alpha=q, side="lower"``, which a new response is below with probability at
            most q.

        Returns
        -------
        Series or DataFrame
            Infinite where n rows are too few for q, and where a set has no end; NaN where a row has a
            missing value.
        """
        if step not in ("upper", "lower"):
            raise InputError(f"step={step!r} is unknown: give 'upper' or 'lower'")
        levels, single = check_shares(q, "q", "a probability", "such as 0.9, or several")
        alphas = [1.0 - level if step == "upper" else level for level in levels]
        out = self._units.back(self._ends(step, alphas))
        if single:
            return pd.Series(out[:, 0], index=self.index, name=levels[0])
        return pd.DataFrame(out, index=self.index, columns=pd.Index(levels, name="q"))

    def interval(self, alpha: Level = None) -> pd.DataFrame:
        """Intervals with equal tails: from the lower step at alpha / 2 to the upper one at 1 - alpha / 2.

        They cover with probability at least 1 - alpha.
        """
        level = check_one_alpha(self._results._level(alpha))
        lower = self.quantile(0.5 * level, step="lower")
        return pd.DataFrame({"lower": lower, "upper": self.quantile(1.0 - 0.5 * level)})

    def cdf(self, y: Any) -> pd.DataFrame:
        """Lower and upper distribution functions at responses; NaN where a row or its response is missing.

        ``y`` is one response for all rows, one for each (a Series is matched by label), or several for
        each, (m, g), which gives a frame indexed by row and ``y``.
        """
        values = _as_values(y, self.index, several=True)
        at = values.reshape(len(self), -1)
        upper, lower = self._sorted("upper"), self._sorted("lower")
        out = np.full((*at.shape, 2), np.nan)
        for i in range(len(self)):
            out[i, :, 0] = np.searchsorted(upper[i], at[i], side="left")
            out[i, :, 1] = 1 + np.searchsorted(lower[i], at[i], side="right")
        out /= self.nobs + 1
        out[np.isnan(at) | np.isnan(upper).any(axis=1)[:, None]] = np.nan
        labels = self.index
        if values.ndim > 1:
            rows = self.index.take(np.repeat(np.arange(len(self)), at.shape[1]))
            labels = pd.MultiIndex.from_arrays([rows, at.ravel()], names=[self.index.name, "y"])
        return pd.DataFrame(out.reshape(-1, 2), index=labels, columns=["lower", "upper"])

    def crps(self, y: Any) -> pd.Series:
        """Continuous ranked probability scores of the responses: smaller is better, in units of y.

        The exact integral of ``(F(x) - 1{x >= y})^2``, where F is the mean of the lower and the upper
        function, the 1/(2N) that they leave below and above all steps put at the outermost finite ones. NaN
        where a row or its response is missing, infinite where a row has no finite step. A Series of
        responses is matched by label.
        """
        at = _as_values(y, self.index)
        out = np.full(len(self), np.nan)
        both = np.sort(np.concatenate([self._sorted("upper"), self._sorted("lower")], axis=1), axis=1)
        for i in np.flatnonzero(~np.isnan(both).any(axis=1) & ~np.isnan(at)):
            finite = both[i][np.isfinite(both[i])]
            out[i] = _crps(np.clip(both[i], finite[0], finite[-1]), at[i]) if len(finite) else np.inf
        return pd.Series(out, index=self.index, name="crps")

    def plot(self, row: int = 0, y: float | None = None, ax: Any = None) -> Any:
        """Both distribution functions of one row, by its place, the band between them and the prediction.

        ``y`` is a response to mark.
        """
        if not (is_count(row, least=0) and row < len(self)):
            raise InputError(f"row={row!r} is not a place: give one from 0 to {len(self) - 1}")
        steps = self._sorted("lower")[row], self._sorted("upper")[row]
        if np.isnan(steps[0]).any():
            raise InputError(f"row={row!r} has a missing value: give the place of a complete row")
        return draw_predictive(*steps, float(self.predicted_mean.iloc[row]), self._units.response, y, ax)

    # Steps -----------------------------------------------------------------------------------------

    def _ends(self, step: Step, alphas: list[float]) -> np.ndarray:
        """Ends of one-sided intervals at these alphas (m, len(alphas)); each rank is looked for once."""
        ranks = [conformal_rank(alpha, self.nobs) for alpha in alphas]
        levels = dict(zip(ranks, alphas, strict=True))
        wanted = [rank for rank in levels if rank <= self.nobs and (step, rank) not in self._found]
        far = np.inf if step == "upper" else -np.inf
        if wanted:
            asked = self._rows.take(self._complete), [levels[rank] for rank in wanted]
            made = self._results._intervals(Asked(*asked, "exact", step, self._options))
            for rank, intervals in zip(wanted, made, strict=True):
                found = getattr(intervals, step)
                self._found[step, rank] = np.full(len(self), np.nan)
                # An empty set leaves no response below the upper step, or above the lower one.
                self._found[step, rank][self._complete] = np.where(np.isnan(found), -far, found)
            warn_about(made, self._results.model, [{}] * len(made))
        beyond = np.where(self._complete, far, np.nan)
        return np.column_stack([self._found.get((step, rank), beyond) for rank in ranks])

    def _steps(self, step: Step) -> np.ndarray:
        """Steps k / N for k = 1..n (m, n)."""
        shares = np.arange(1, self.nobs + 1) / (self.nobs + 1)
        return self._ends(step, list(1.0 - shares if step == "upper" else shares))

    def _sorted(self, step: Step) -> np.ndarray:
        """The same in the units asked for, without the tolerance of ends, by which they may be out of
        order."""
        return np.sort(self._units.back(self._steps(step)), axis=1)

    def _frame(self, step: Step) -> pd.DataFrame:
        columns = pd.Index(np.arange(1, self.nobs + 1), name="k")
        return pd.DataFrame(self._units.back(self._steps(step)), self.index, columns)


def _crps(steps: np.ndarray, y: float) -> float:
    """The score of 2n ascending finite steps, each of weight 1/(2N), with as much at the first and at the
    last again."""
    x = np.concatenate([steps[:1], steps, steps[-1:]])
    share = np.arange(1, len(x)) / len(x)  # F between neighbours
    return float(np.mean(np.abs(x - y)) - np.sum(share * (1.0 - share) * np.diff(x)))


def _as_values(y: Any, index: pd.Index, several: bool = False) -> np.ndarray:
    """Responses of the rows, (m,), or (m, g) where several may be."""
    values = numbers(by_label(y, index, "y"), "the values of y")
    if values.ndim == 0:
        return np.full(len(index), float(values))
    if len(values) != len(index) or values.ndim > 1 + several:
        more = ", or an array with a line for each" if several else ""
        raise InputError(f"y has shape {values.shape} for {len(index)} rows: give one, or one a row{more}")
    return values


# Predictions beside intervals ------------------------------------------------------------------------


class Prediction:
    """Predictions at some rows, and intervals on request; made by `Results.get_prediction`."""

    def __init__(self, results: "BaseResults", exog: New, alpha: Numbers, options: Options) -> None:
        self._options = copied(options)
        unseen = self._options.pop("unseen", None)
        if unseen is not None:
            results = results._copy(_design=results._design.leaving_unseen(unseen))
        self._results = results
        self._exog = copied(collected(exog))
        self._alpha = alpha
        self._units = {"units": options["units"]} if options.get("units") is not None else {}

    @property
    def predicted_mean(self) -> pd.Series:
        """Predictions of the fit to all training rows."""
        return self._results.predict(self._exog, **self._units)

    def conf_int(self, alpha: Numbers = None, obs: bool = True) -> pd.DataFrame:
        """Conformal intervals for new responses; ``obs=True`` says so, as in statsmodels."""
        if not obs:
            raise AssumptionError(
                "obs=False asks for an interval of the mean, which needs assumptions on the noise: "
                "conformal intervals are for new responses, obs=True"
            )
        alpha = self._alpha if alpha is None else alpha
        return self._results.conf_int_conformal(self._exog, alpha=alpha, **self._options)

    def summary_frame(self, alpha: Level = None) -> pd.DataFrame:
        """Prediction and interval side by side, under a column level for the response where several are.

        ``mean``, statsmodels' name for the prediction, is of the fit that made the interval (where rows are
        held out, not the fit to all of them; for folds the median of their fits). Beside it are the fitted
        quantiles, where several are; ``obs_ci_lower``, ``obs_ci_upper`` (and inner ends); with groups,
        weights or a fixed scale also ``group`` (or a column for each of several), ``weight`` and ``scale``.
        """
        given: Any = self._alpha if alpha is None else alpha
        if np.ndim(given) > 0:
            raise InputTypeError(f"alpha={given!r}: summary_frame takes one number; loop, or use conf_int")
        options = {name: value for name, value in self._options.items() if name != "to"}
        ends = self._results.conf_int_conformal(self._exog, alpha=given, centre=True, **options)
        if len(self._results._designs) > 1:
            each = {name: _named(ends[name]) for name in ends.attrs["response"]}
            frame = pd.concat(each, axis=1, names=["response", None])
        else:
            named = _named(ends)
            columns = self._results._prediction_columns(self._exog, **self._units)
            frame = pd.concat([columns.assign(mean=named.pop("mean")), named], axis=1)
            frame.columns.name = ends.columns.name
            for name, values in self._beside([*frame.columns]).items():
                frame[name] = values
        frame.attrs = ends.attrs
        return in_kind(frame, self._options.get("to") or "pandas")

    def _beside(self, taken: list[str]) -> dict[str, np.ndarray]:
        """Columns that say how new rows are ranked and scaled, beside those that are ``taken``."""
        design, options = self._results._design, self._options
        among = options.get("groups"), options.get("weights")
        ranking = as_ranking(*among, design, self._exog, self._results.nobs)
        out = ranking.columns([*taken, "scale", "weight"])
        if options.get("scale") is not None:
            complete = self._results._rows(self._exog)[0].complete
            found, complete = as_scale(options["scale"], design, self._exog, complete)
            if type(found) is FixedScale:  # others are learned for each interval alone
                out["scale"] = np.full(len(complete), np.nan)
                out["scale"][complete] = found.new
        return out


def _named(ends: pd.DataFrame) -> pd.DataFrame:
    """Prediction and ends by statsmodels' names."""
    named = ends.add_prefix("obs_ci_").rename(columns={"obs_ci_centre": "mean"})
    return named[["mean", *named.columns.drop("mean")]]
