"""Results of a model that minimises a loss and a penalty (theory, section 2).

`ObjectiveResults` has what follows from the objective alone, whoever fitted the model, statsmodels say;
`Results` is what `stabconf.fit` gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates, check_one_alpha
from ..data.design import Design
from ..data.units import ColumnUnits
from ..errors import InputError
from ..losses import Loss
from ..penalties import Penalty, as_penalty
from ..sets import FROZEN_METHODS, Fits, FrozenSets, check_bound, conformity
from ..sets.quality import errors_of, pseudo_r2
from ..sets.request import check_side
from ..sets.training import Fitted, Parts, fit_rows, residual_scale
from ..show.summary import FitSummary, summarise
from .asking import BOUNDED, PValues, ask_p_values
from .base import BaseResults
from .options import Bound, Groups, Level, New, Numbers, PerRow, Side, Units
from .predictive import Predictive
from .predictor import Predictor
from .stability import StabilityResults


@dataclass(frozen=True)
class ModelSpec:
    """A regression with a loss and a penalty; the fields are the arguments of `stabconf.fit`.

    Several quantile regressions have their levels in ``quantiles``, ascending, and the loss of the one
    nearest to 0.5; several responses have their names in ``responses``, and all of them in ``endog_names``.
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
    exog_names: list[str]
    quantiles: tuple[float, ...] = ()
    responses: tuple[str, ...] = ()

    @property
    def solving(self) -> dict[str, str | float | int]:
        """Options of the solver."""
        return {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}

    def describe(self) -> str:
        """The model in a few words."""
        levels = ", ".join(f"{level:g}" for level in self.quantiles)
        fit = f"quantiles {levels}" if levels else self.loss.describe()
        several = f"{len(self.responses)} responses, " if self.responses else ""
        return f"{several}{fit}, {self.penalty.describe()}"


class ObjectiveResults(StabilityResults):
    """Results of a model that minimises a loss and a penalty."""

    model: ModelSpec

    @property
    def loss(self) -> Loss:
        """The loss, as it was given."""
        return self.model.loss

    @property
    def penalty(self) -> Penalty:
        """The penalty, as it was given."""
        return self.model.penalty

    @property
    def fit_quality(self) -> pd.Series:
        """How well the fit describes the training rows: mean absolute error ``mae``, root mean squared
        error ``rmse``, and ``pseudo_r2``, 1 - loss of the fit / loss of the best constant (R2 for squared
        loss without a penalty)."""
        r2 = pseudo_r2(self._fits, self._rows(None)[0].root)
        return pd.Series({**errors_of(self.resid.to_numpy()), "pseudo_r2": r2}, name="fit_quality")

    def conformity(
        self,
        exog: New,
        z: Numbers | Sequence[str],
        side: Side = "two-sided",
        bound: Bound = None,
        groups: Groups = None,
        weights: PerRow = None,
        conditional: str | None = None,
        z_hat: PerRow = None,
        units: Units = None,
    ) -> pd.DataFrame:
        """The conformity function: exact p-values of candidate responses, between stability bounds.

        ``p`` is the share of the n + 1 rows, the new one among them, whose score is at least the new one's.

        Parameters
        ----------
        z : float or sequence of float or str
            Candidate responses, the same for every row. Labels of categories stand for the training
            responses 0, 1, ... in the order given.
        exog, side, bound, groups, weights, conditional
            As in `conf_int_conformal`. Along a formula p is the largest alpha at which a candidate is in
            the set, and has no stability bounds.
        z_hat : float, "prediction", callable or list of these, optional
            Take the bounds from the fit that has the new row at this response (with ``bound="paper"`` the
            paper's pi_lo(z, z_hat) and pi_up(z, z_hat)), by default from the fit without it. Of several
            responses the largest ``p_lo`` and the smallest ``p_up`` count.
        units : {"response"} or pair of functions, optional
            Of the candidates, as in `conf_int_conformal`; ``z_hat`` is as the model has it.

        Returns
        -------
        DataFrame
            ``p``, ``p_lo``, ``p_up`` and ``gap``, which is ``p_up - p_lo``, by row and ``z``. A candidate
            is in the conformal set if ``p > alpha``, and surely so if ``p_lo > alpha``. Where no bound
            applies ``p_lo`` is 0 and ``p_up`` 1. NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.conformity({"income": [500.0]}, z=[250.0, 400.0]).round(3).to_numpy().tolist()
        [[0.157, 0.153, 0.157, 0.004], [0.758, 0.758, 0.758, 0.0]]
        """
        values = self._p_of(side, check_bound(self._fits, bound, side))
        asked = {"groups": groups, "weights": weights, "conditional": conditional, "z_hat": z_hat}
        return ask_p_values(self, exog, z, BOUNDED, values, units, **asked)

    def _p_of(self, side: Side, bound: str | None = None) -> PValues:
        return partial(conformity, self._fits, side=side, bound=bound)

    def conformal_set(
        self,
        exog: New,
        candidates: Sequence[float | str],
        alpha: Level = None,
        side: Side = "two-sided",
        groups: Groups = None,
        weights: PerRow = None,
    ) -> pd.Series:
        """The candidates in each row's conformal set, for responses that take few values.

        ``candidates`` are the values that a response can take, or labels of categories as in `conformity`;
        all else is as in `conf_int_conformal`. Returns a tuple of candidates for each row, in the order
        given; None where a row has a missing value. ``attrs["p"]`` holds the p-values.

        Examples
        --------
        >>> import stabconf
        >>> data = {"x": [0.1, 0.3, 0.2, 1.1, 0.9, 1.2, 2.1, 1.8, 1.9], "size": [0, 0, 0, 1, 1, 1, 2, 2, 2]}
        >>> res = stabconf.fit("size ~ x", data, loss="huber")
        >>> res.conformal_set({"x": [0.2, 1.0]}, ["small", "medium", "large"], alpha=0.2).tolist()
        [('small',), ('medium',)]
        """
        level = check_one_alpha(self._level(alpha))
        _, given = check_candidates(candidates, self._design.y, "candidates")
        p = self.conformity(exog, given, side, groups=groups, weights=weights)["p"].to_numpy()
        p, index = p.reshape(-1, len(given)), self._new_rows(exog)[1]
        sets = np.empty(len(p), dtype=object)  # None where a row has no p-value
        for i in np.flatnonzero(~np.isnan(p).any(axis=1)):
            sets[i] = tuple(z for z, value in zip(given, p[i], strict=True) if value > level)
        out = pd.Series(sets, index, dtype=object)
        out.attrs = {"alpha": level, "p": pd.DataFrame(p, index, given)}
        return out

    def predictive(
        self,
        exog: New = None,
        *,
        scale: PerRow = None,
        units: Units = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> Predictive:
        """The conformal predictive distribution of new responses: every quantile at once.

        Arguments are as in `conf_int_conformal`, with a fixed scale; with ``units`` responses and quantiles
        are in units of the response itself. `Predictive` shows what can be asked.
        """
        return Predictive(self, exog, {"scale": scale, "n_jobs": n_jobs, "progress": progress}, units)

    def _with_penalty(self, strength: float) -> Self:
        """Itself refitted with another strength of the penalty."""
        penalty = as_penalty(strength, self.model.penalty.l1_ratio)
        return self._refit(replace(self.model, penalty=penalty), self._design, self._columns)


class Coefficients:
    """Coefficients, and how well they were found: a part of results that have ``_fitted``."""

    _fitted: Fitted
    _design: Design
    _columns: ColumnUnits

    @property
    def converged(self) -> bool:
        """Whether the fit reached its tolerance; intervals stay valid where not, but are wider."""
        return self._fitted.solution.success

    @property
    def radius(self) -> float:
        """Certified distance of the coefficients to the minimiser, in the norm of the penalty."""
        return self._fitted.solution.radius

    @property
    def params(self) -> pd.Series:
        """Coefficients in the units of the design columns."""
        fitted = self._fitted
        beta = self._columns.coefficients(
            fitted.solution.x, fitted.centre, fitted.scale, self._design.intercept, fitted.constant
        )
        return pd.Series(beta, index=self._design.names, name="params")

    @property
    def params_standardized(self) -> pd.Series:
        """Coefficients of the standardised columns and response."""
        return pd.Series(self._fitted.solution.x, index=self._design.names, name="params_standardized")

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return self._fitted.predict(X)


class Results(Coefficients, ObjectiveResults):
    """A fitted model and its conformal intervals; made by `stabconf.fit`.

    ``model`` says what was asked of `fit`: formula, loss, penalty, options.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit("foodexp ~ income", data)
    >>> res.constants[["rho", "lambda"]].tolist(), res.constants.attrs
    ([1.0, 0.004978...], {'bound': 'norm', 'tau': 'rho a_i a_N'})
    >>> res.tau({"income": [500.0]}).shape
    (1, 236)
    >>> res.influence().loc[[137]].round(3)
         own_prediction  Intercept  income
    137         -65.913     14.738  -0.016
    >>> res.plot_residuals().get_ylabel()
    'foodexp less its prediction'
    >>> res.plot_conformity(data.iloc[[0]], alpha=0.1).get_xlabel()
    'candidate for foodexp'
    >>> [label.get_text() for label in res.plot_widths(by={"income": 2}).get_yticklabels()]
    ['[377.1, 884]\\n(n = 118)', '(884, 4958]\\n(n = 117)']
    >>> [line.get_label() for line in res.plot_stability(penalties=[0.01, 0.1, 1.0]).get_lines()]
    ['exact', 'stable', 'ball', 'this fit: 0.01']
    >>> res.plot_influence("income").get_ylabel()
    'move of income by the row'
    """

    def __init__(self, model: ModelSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        self._fitted: Fitted = fit_rows(design.X, design.y, design.kinds, columns, model)

    @cached_property
    def scale(self) -> float:
        """Residual scale: 1.4826 times the median absolute residual of a LAD fit with the same columns and
        penalty. Parameters of losses, Huber's threshold say, are in units of it."""
        model, fitted = self.model, self._fitted
        spans = self._design.intercept is not None or fitted.constant is not None
        given = self._X, self._design.y, fitted.weights, spans, model.standardize, model.solving
        return residual_scale(*given)[0]

    def predictor(
        self,
        alpha: Numbers = None,
        side: Side = "two-sided",
        methods: str | Sequence[str] = ("stable", "split"),
        *,
        calibration: float | None = None,
        random_state: int | None = None,
    ) -> Predictor:
        """A small object that predicts and gives intervals without the training rows.

        It is below 2 MB however many rows were fitted, can be pickled, and has no training row in it but
        the levels of categories and the ranges of columns. Its answers are those of the results, at the
        levels, side and methods that it is made for; the first method is its default. Above some 10,000
        training rows stable intervals of rows that lie very far from them may be wider than those of the
        results (infinite, even), never narrower. ``calibration`` and ``random_state`` are of "split".

        Examples
        --------
        >>> import pickle
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> predictor = pickle.loads(pickle.dumps(res.predictor(alpha=0.1)))
        >>> predictor.conf_int_conformal({"income": [500.0]}, method="split").round(0)
           lower  upper
        0  224.0  522.0
        """
        alphas, _ = check_alpha(self._level(alpha))
        check_side(side)
        names = (methods,) if isinstance(methods, str) else tuple(methods)
        if not names or set(names) - set(FROZEN_METHODS):
            raise InputError(f"methods={methods!r} is not allowed: give 'stable', 'split' or both")
        split = {"calibration": calibration, "random_state": random_state}
        return Predictor(self, FrozenSets.of(self._fits, alphas, side, names, **split), alphas, side, names)

    def _by_partition(self, frame: Any, what: str, **asked: Any) -> Any:
        if what == "predict":
            plain = Predictor(self, FrozenSets.of(self._fits, [], "two-sided", ()), [], "two-sided", ())
            return plain._by_partition(frame, what, **asked)
        split = {name: asked.pop(name) for name in ("calibration", "random_state") if name in asked}
        asked["method"] = "stable" if asked["method"] == "auto" else asked["method"]
        made = self.predictor(asked["alpha"], asked["side"], asked["method"], **split)
        return made._by_partition(frame, what, **asked)

    @property
    def _objective(self) -> tuple[Loss, np.ndarray, float]:
        return self._fitted.loss, self._fitted.weights[0], self._fitted.scale

    @cached_property
    def _fits(self) -> Fits:
        model, design, fitted = self.model, self._design, self._fitted
        parts = Parts(design.X, design.y, design.kinds, self._columns, model)
        given = self._X, design.y, fitted.loss, *fitted.weights, fitted.centre, fitted.scale
        fits = Fits(*given, fitted.solution.x, model.solving, parts, fitted.solution)
        return fits.in_unit(fits.scale if model.standardize else None)

    def _fit_summary(self) -> FitSummary:
        return summarise(self)


class EachResults(BaseResults):
    """Several fits with one design; a subclass fills ``_each``, by quantile or by response."""

    model: ModelSpec
    _each: dict[Any, Results]

    @property
    def converged(self) -> bool:
        """Whether every fit reached its tolerance."""
        return all(fit.converged for fit in self._each.values())

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients in the units of the design columns, a column per fit."""
        return pd.DataFrame({name: fit.params for name, fit in self._each.items()})

    @property
    def params_standardized(self) -> pd.DataFrame:
        """Coefficients of the standardised columns and response."""
        return pd.DataFrame({name: fit.params_standardized for name, fit in self._each.items()})

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        """Predictions (m, q), a column per fit."""
        return np.column_stack([fit._predictions(X) for fit in self._each.values()])
