"""The conformal predictive distribution of new responses: all one-sided intervals of a row as one object.

`Results.predictive` makes it. The one-sided p-values of a candidate y bracket a distribution function
(theory, sections 1 and 5): ``1 - p`` of the upper side from below, p of the lower side from above. The
ends of the n one-sided sets are its steps, and all of them come from one path per row.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..checks import check_one_alpha, check_shares, is_count
from ..data.frames import by_label, numbers
from ..data.response_units import as_units
from ..errors import InputError
from ..rank import conformal_rank
from ..sets.intervals import assumed
from ..show.plots.curve_plots import draw_predictive
from .asking import Asked, prepared
from .labels import warn_about
from .options import Level, New, Options, Units, given

if TYPE_CHECKING:
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
    wider there, and `widened` names the rows. No choice of a point between the two functions is needed for
    the guarantee. ``index`` has the labels of the rows, ``nobs`` is n.

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
    """

    def __init__(
        self, results: "ObjectiveResults", exog: New, options: Options, units: Units = None
    ) -> None:
        self._results = results
        self._units = as_units(units, results._design)
        self._rows, self.index = results._rows(exog)
        self._options = given(options)
        asked = self._options, results, exog, self._rows, "exact", self._rows.complete
        _, self._complete = prepared(*asked)
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
        """Where the lower distribution function steps up: ``quantile(k / N)`` for k = 1..n, a column
        each."""
        return self._frame(self._units.back(self._steps("upper")))

    @property
    def lower_steps(self) -> pd.DataFrame:
        """Where the upper distribution function steps up: ``quantile(k / N, step="lower")`` for k = 1..n, a
        column each."""
        return self._frame(self._units.back(self._steps("lower")))

    @property
    def widened(self) -> pd.Series:
        """Rows (bools) where the band is wider than 1/N over a range of responses: a share falls there, or
        training rows tie."""
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
            most q. Both are the same step where qN is whole and the band is not widened, else neighbours.

        Returns
        -------
        Series or DataFrame
            Infinite where n rows are too few for q, and where a set has no end; NaN where a row has a
            missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> made = res.predictive({"income": [500.0]})
        >>> made.quantile(0.9).round(1).tolist(), made.quantile(0.999).tolist()
        ([487.9], [inf])
        """
        _check_step(step)
        levels, single = check_shares(q, "q", "a probability", "such as 0.9, or several")
        alphas = [1.0 - level if step == "upper" else level for level in levels]
        out = self._units.back(self._ends(step, alphas))
        if single:
            return pd.Series(out[:, 0], index=self.index, name=levels[0])
        return pd.DataFrame(out, index=self.index, columns=pd.Index(levels, name="q"))

    def interval(self, alpha: Level = None) -> pd.DataFrame:
        """Intervals with equal tails: from the lower step at alpha / 2 to the upper one at 1 - alpha / 2.

        They cover with probability at least 1 - alpha. Two-sided intervals of `conf_int_conformal` rank
        sizes of residuals instead, and are about the prediction.
        """
        given = self._results._level(alpha)
        assert given is not None
        level = check_one_alpha(given)
        lower = self.quantile(0.5 * level, step="lower")
        return pd.DataFrame({"lower": lower, "upper": self.quantile(1.0 - 0.5 * level)})

    def cdf(self, y: Any) -> pd.DataFrame:
        """Lower and upper distribution functions at responses; NaN where a row or its response is missing.

        ``y`` is one response for all rows, one for each (a Series is matched by label), or several for
        each, (m, g), which gives a frame indexed by row and ``y``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.predictive({"income": [500.0]}).cdf([[250.0, 350.0]]).round(3).reset_index("y")
               y  lower  upper
        0  250.0  0.093  0.097
        0  350.0  0.411  0.415
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

        The distribution is the mean of the lower and the upper one. The two leave 1/(2N) of it below all
        steps and as much above: that is put at the outermost finite steps, so that the score is finite. The
        score is the exact integral of ``(F(x) - 1{x >= y})^2``; NaN where a row or its response is missing,
        infinite where a row has no finite step. A Series of responses is matched by label.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.predictive({"income": [500.0, 500.0]}).crps([370.0, 700.0]).round(1).tolist()
        [19.7, 284.4]
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

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.predictive({"income": [500.0]}).plot().get_ylabel()
        'probability of a response up to here'
        """
        if not (is_count(row, least=0) and row < len(self)):
            raise InputError(f"row={row!r} is not a place: give one from 0 to {len(self) - 1}")
        steps = self._sorted("lower")[row], self._sorted("upper")[row]
        if np.isnan(steps[0]).any():
            raise InputError(f"row={row!r} has a missing value: give the place of a complete row")
        prediction = float(self.predicted_mean.iloc[row])
        return draw_predictive(*steps, prediction, self._units.response, y, ax)

    # Steps -----------------------------------------------------------------------------------------

    def _ends(self, step: Step, alphas: list[float]) -> np.ndarray:
        """Ends of one-sided intervals at these alphas (m, len(alphas)); each rank is looked for once."""
        ranks = [conformal_rank(alpha, self.nobs) for alpha in alphas]
        wanted = {
            rank: alpha
            for rank, alpha in zip(ranks, alphas, strict=True)
            if rank <= self.nobs and (step, rank) not in self._found
        }
        far = np.inf if step == "upper" else -np.inf
        if wanted:
            rows, levels = self._rows.take(self._complete), list(wanted.values())
            made = self._results._intervals(Asked(rows, levels, "exact", step, self._options))
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

    def _frame(self, steps: np.ndarray) -> pd.DataFrame:
        columns = pd.Index(np.arange(1, self.nobs + 1), name="k")
        return pd.DataFrame(steps, index=self.index, columns=columns)


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
        raise InputError(
            f"y has shape {values.shape} for {len(index)} rows: give one number, one per row{more}"
        )
    return values


def _check_step(step: str) -> None:
    if step not in ("upper", "lower"):
        raise InputError(f"step={step!r} is unknown: give 'upper' or 'lower'")
