"""A statsmodels model without exact sets, and the intervals of its refits; made by `stabconf.conformal`.

Split, cross-conformal, CV+ and jackknife+ intervals (theory, section 6) need no more than predictions of
fits to parts of the rows. Ends lie within the range of the response. Where rows come in groups that the
model knows of (GEE, MixedLM), whole groups are held out, and nothing else is offered.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..data.design import Design
from ..data.frames import by_label, listed, numbers
from ..data.units import column_units
from ..errors import AssumptionError, InputError, InputTypeError, MismatchWarning, warn_user
from ..results.asking import Asked, PValues
from ..results.estimator import EstimatorSpec, FittedResults
from ..results.options import New, Numbers, Side
from ..sets import HELD_OUT_METHODS, Clusters, EstimatorFits, Intervals, clipped
from ..show.drift import ExchangeabilityCheck
from ..show.summary import FitSummary, summarise_refitted
from .refit import PREDICTED, Refit

Input: TypeAlias = str | list[str] | Callable[[pd.DataFrame], Any]
_LACKING = ("conformity", "conformal_set", "predictive", "predictor", "influence", "tau")
_AGREE = 1e-6  # of the response's standard deviation


class RefittedResults(FittedResults):
    """A fitted statsmodels model and the conformal intervals of its refits; made by `stabconf.conformal`.

    ``conf_int_conformal`` takes the methods "split" (the one that "auto" gives), "cv+", "jackknife+" and
    "cross". The model is fitted to parts of the training rows with all that statsmodels was given, as
    ``refit`` has it. GEE and MixedLM hold out whole groups, by "split" and "cv+".

    Examples
    --------
    >>> import stabconf
    >>> import statsmodels.api as sm
    >>> import statsmodels.formula.api as smf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> gamma = sm.families.Gamma(sm.families.links.Log())
    >>> res = stabconf.conformal(smf.glm("foodexp ~ np.log(income)", data, family=gamma).fit(), alpha=0.1)
    >>> res.conf_int_conformal({"income": [200.0, 1000.0]}, method="cv+").round(0)
       lower  upper
    0    4.0  318.0
    1  488.0  803.0
    """

    can_refit = False  # with another design map, that is
    _methods = HELD_OUT_METHODS

    def __init__(
        self,
        design: Design,
        refit: Refit,
        rows: np.ndarray,
        params: pd.Series,
        inputs: Mapping[str, Input],
        alpha: Numbers,
        method: str,
    ) -> None:
        self.refit = refit
        self._trained = rows
        self._inputs = _checked(inputs, refit, rows, design)
        self.default_alpha = alpha
        self.default_method = method
        self._own = params
        names = list(design.names)
        model = EstimatorSpec(design.formula, refit, None, False, "drop", design.response, names)
        super().__init__(model, design, column_units(design.X, design.kinds, standardize=False)[0])

    @cached_property
    def _fits(self) -> EstimatorFits:
        """Made again after loading, for the fit itself cannot always be pickled."""
        return EstimatorFits(self._X, self._design.y, self.refit)

    @property
    def params(self) -> pd.Series:
        """statsmodels' coefficients."""
        return self._own.copy()

    @property
    def per_row(self) -> list[str]:
        """What the model takes beside the columns of its formula and is not the same for all rows."""
        X = self._X
        return [name for name, part in self.refit.columns.items() if np.any(X[:, part] != X[0, part])]

    @cached_property
    def clusters(self) -> Clusters | None:
        """The groups of the model's rows, where it has some."""
        place = self.refit.columns.get("groups")
        if place is None:
            return None
        return Clusters(self._trained[:, place.start].astype(int), "the model's groups")

    @property
    def _X(self) -> np.ndarray:
        return self._trained

    def _new_rows(self, exog: New) -> tuple[np.ndarray, pd.Index]:
        if exog is None:
            return self._X, self._design.index
        X, index = self._design.new_rows(exog)
        rows = np.ones((len(X), self._X.shape[1]))  # what predictions do not take is 1
        rows[:, : X.shape[1]] = X
        frame = self._design.frame_of(exog)
        for name, what in self._inputs.items():
            place = self.refit.columns[name]
            values = _values(what, frame, name, place.stop - place.start)
            strange = np.isinf(values) | (values <= 0 if name == "exposure" else False)
            if strange.any():
                row, column = np.argwhere(strange)[0]
                raise InputError(
                    f"{name} of row {index[row]} is {values[row, column]:g}, and it must be "
                    f"{'positive and ' if name == 'exposure' else ''}finite: correct or drop it"
                )
            rows[:, place] = values
        return rows, index

    def _fit_summary(self) -> FitSummary:
        return summarise_refitted(self)

    def _p_of(self, side: Side) -> PValues:
        raise AssumptionError(
            f"p-values need fits that have the new row, which refits of {self.refit.label} do not: use "
            "conf_int_conformal"
        )

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name not in _LACKING:
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        raise AttributeError(
            f"{kind} has no {name}, which needs fits that have the new row: use conf_int_conformal, or the "
            "results of stabconf.fit"
        )

    def check_exchangeability(
        self, new: New, response: Any = None, random_state: int | np.random.Generator = 0
    ) -> ExchangeabilityCheck:
        """As `Results.check_exchangeability`; refused where rows come in groups that depend on each
        other, which no test of single rows can judge."""
        if self.clusters is not None:
            raise AssumptionError(
                f"{self.refit.label} has groups of rows that depend on each other, so that rows are not "
                "exchangeable one by one: fit one row of each group, or its mean, to check the groups"
            )
        return super().check_exchangeability(new, response, random_state)

    def _covariates(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, : len(self._design.names)]

    def _described(self) -> str:
        return self.refit.label

    def _intervals(self, asked: Asked) -> list[Intervals]:
        asked = replace(asked, method=self.default_method if asked.method == "auto" else asked.method)
        clusters, folds = self.clusters, asked.options.get("folds")
        if clusters is not None:
            folds = clusters if folds is None else folds
            nested = isinstance(folds, Clusters) and clusters.count == len(
                np.unique(np.column_stack([clusters.code, folds.code]), axis=0)
            )
            if asked.method not in ("auto", "split", "cv+") or not nested:
                raise AssumptionError(
                    f"{self.refit.label} has groups of rows that depend on each other, so that they must "
                    "be held out together: use method='split' or 'cv+', and drop folds or give the column "
                    "of the groups, or of larger ones"
                )
            asked = replace(asked, options={**asked.options, "folds": folds})
        return [clipped(intervals, *self.refit.range) for intervals in super()._intervals(asked)]


def _checked(
    inputs: Mapping[str, Input], refit: Refit, rows: np.ndarray, design: Design
) -> dict[str, Input]:
    """What new rows' offset and the like are read from; refused where it is lacking or not the model's."""
    needed = {name: rows[:, refit.columns[name]] for name in PREDICTED if name in refit.columns}
    unknown = [name for name in inputs if name not in needed]
    if unknown:
        raise InputTypeError(
            f"{listed(unknown, 'argument')} cannot be used with {refit.label}: its predictions take "
            f"{', '.join(needed) or 'nothing'} beside the columns of the model"
        )
    frame = design.frame_of(None)
    for name, values in needed.items():
        if name not in inputs:
            if np.any(values != (0.0 if name == "offset" else 1.0)):
                raise InputError(
                    f"{refit.label} was fitted with {name}, which new rows need too: give {name}=, "
                    f"{_suggested(values, frame)}"
                )
            continue
        try:
            found = _values(inputs[name], frame, name, values.shape[1])
        except Exception:
            if not callable(inputs[name]):
                raise
            continue  # a callable of new rows alone
        if not np.allclose(found, values, equal_nan=True):
            raise InputError(
                f"{name}={inputs[name]!r} is not what the model was fitted with: give "
                f"{_suggested(values, frame)}"
            )
    return dict(inputs)


def _suggested(values: np.ndarray, frame: pd.DataFrame) -> str:
    """What to give for values (n, q) of the training rows: their columns, where data has them."""
    numeric = {name: each.to_numpy(dtype=float) for name, each in frame.select_dtypes("number").items()}
    found = []
    for wanted in values.T:
        same = [name for name, each in numeric.items() if np.allclose(each, wanted)]
        if not same:
            return "a column of data and of new rows with its values, or a callable of a frame"
        found.append(same[0])
    return f"{found[0] if len(found) == 1 else found!r} say, the column of data with its values"


def _values(what: Input, frame: pd.DataFrame, name: str, width: int) -> np.ndarray:
    """An input of the model at the rows of a frame (m, width)."""
    if callable(what):
        given: Any = what(frame)
        if isinstance(given, pd.Series):
            given = by_label(given, frame.index, f"what {name} returns")
    else:
        columns = [what] if isinstance(what, str) else list(what)
        lacking = [column for column in columns if column not in frame.columns]
        if lacking:
            raise InputError(f"{name}={what!r}: exog lacks {listed(lacking, 'column')}, add it")
        given = frame[columns]
    values = numbers(given, f"the values of {name}")
    if values.size not in (width, len(frame) * width):
        raise InputError(
            f"{name} has shape {values.shape} for {len(frame)} rows: give {width} numbers for each row"
        )
    return np.broadcast_to(values.reshape(-1, width), (len(frame), width))


def check_agreement(made: RefittedResults, fitted: np.ndarray) -> None:
    """Warn where a refit to all training rows predicts something else than statsmodels' result (n,)."""
    spread = float(np.std(made._design.y)) or 1.0
    off = float(np.max(np.abs(made._fits.predict(made._X) - fitted))) / spread
    if off > _AGREE:
        warn_user(
            f"{made.refit.label}: a refit to all rows predicts up to {off:.2g} standard deviations of the "
            f"response beside what the result does, for statsmodels does not keep all options of fit(). "
            "The intervals are those of the refits, which were given "
            f"{made.refit.options or 'none'}: give the others as fit_options={{...}}",
            MismatchWarning,
        )
