"""Results of several responses with one design: joint conformal boxes (theory, section 8).

Each response is an ordinary fit, kept in ``components``; only the rank of the largest score joins them.
`stabconf.fit` makes these results where the left side of the formula has several terms.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ..data.design import Design, Unseen
from ..data.units import ColumnUnits
from ..errors import InputError, InputTypeError
from ..rank import Peers
from ..sets import (
    SEVERAL_METHODS,
    Along,
    Intervals,
    SeveralFits,
    box_conformity,
    make_intervals,
    score_unit,
)
from .asking import PValues, ask_intervals, ask_own_p, ask_p_values
from .options import Among, Bound, Groups, New, Numbers, Options, PerRow, Side, given_options
from .prediction import SeveralPrediction
from .regression import Results
from .rows import Rows
from .several_tables import SeveralTables
from .spec import SeveralSpec

__all__ = ["SeveralResults"]


class SeveralResults(SeveralTables):
    """Fits of several responses and their joint conformal intervals; made by `stabconf.fit`.

    Tables have a column per response. What belongs to one response alone, its figures and one-sided
    intervals say, is asked of ``components[name]``.

    Attributes
    ----------
    model : SeveralSpec
        What was asked of `fit`.
    components : dict of Results
        The ordinary fit of each response, by name; its intervals are for that response alone.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import statecrime
    >>> data = statecrime.load_pandas().data
    >>> res = stabconf.fit("violent + murder ~ poverty + urban", data)
    >>> res.params.round(2)
               violent  murder
    Intercept  -281.75   -5.52
    poverty      31.42    0.54
    urban         3.44    0.04
    """

    model: SeveralSpec

    def __init__(self, model: SeveralSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        self.components: dict[str, Results] = {
            one.response: Results(spec, one, columns)
            for spec, one in zip(model.each, design.each(), strict=True)
        }

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(Results, name):
            raise AttributeError(
                f"{name} is of one response: use results.components[{self.model.responses[0]!r}].{name}"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def converged(self) -> bool:
        """Whether every fit reached its tolerance."""
        return all(fit.converged for fit in self.components.values())

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients in the units of the design columns, a column per response."""
        return pd.DataFrame({name: fit.params for name, fit in self.components.items()})

    @property
    def params_standardized(self) -> pd.DataFrame:
        """Coefficients of the standardised columns and responses."""
        return pd.DataFrame({name: fit.params_standardized for name, fit in self.components.items()})

    @property
    def scale(self) -> pd.Series:
        """Residual scales, as `Results.scale`: the units in which residuals of the responses are
        compared, unless ``standardize=False``, where they are taken as they are."""
        return pd.Series({name: fit.scale for name, fit in self.components.items()}, name="scale")

    @property
    def resid(self) -> pd.DataFrame:
        """Responses less fitted values."""
        return pd.DataFrame({name: fit.resid for name, fit in self.components.items()})

    def predict(self, exog: New = None) -> pd.DataFrame:  # type: ignore[override]
        """Predictions of the training fits, a column per response.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.

        Returns
        -------
        DataFrame
            On the index of ``exog``; NaN where a row has a missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> res.predict({"poverty": [12.0, None], "urban": [60.0, 60.0]}).round(1)
           violent  murder
        0    301.9     3.3
        1      NaN     NaN
        """
        X, index = self._new_rows(exog)
        made = {name: fit._predictions(X) for name, fit in self.components.items()}
        return pd.DataFrame(made, index=index)

    def conf_int_conformal(  # type: ignore[override]
        self,
        exog: New = None,
        alpha: Numbers = None,
        method: str | None = "auto",
        *,
        groups: Groups = None,
        weights: PerRow = None,
        conditional: str | None = None,
        bound: Bound = None,
        tol: float | None = None,
        calibration: float | None = None,
        folds: int | None = None,
        random_state: int | np.random.Generator | None = None,
        transductive: bool = False,
        unseen: Unseen | None = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
        **unknown: Any,
    ) -> pd.DataFrame:
        """Conformal boxes: intervals that hold the responses of a new row all at once.

        The score of a row is the largest of its residuals in units of their scales. The box has an interval
        per response, and with probability 1 - alpha every one of them holds its response.

        Parameters
        ----------
        exog, alpha, groups, weights, transductive, unseen, n_jobs, progress
            As in `Results.conf_int_conformal`.
        method : {"auto", "exact", "stable", "split", "cross", "cv+", "jackknife+"}
            "exact" is the smallest box around the full conformal set, for LAD and quantile loss. "stable"
            encloses it from one fit per response, for every loss. "cross" encloses the cross-conformal
            set. "auto" is exact where the loss allows it, else stable; split with ``conditional``.
        conditional : str
            As in `Results.conf_int_conformal`, with ``method="split"``.
        bound : {"curvature", "norm", "ball", "paper"}
            Of "stable".
        tol : float
            By how much an interval of "exact" may be wider than the exact one at each end, relative to the
            scale of its response (default 1e-6).
        calibration, folds, random_state
            Of the methods that hold rows out. They learn the scales from the rows that they fit.
        **unknown
            Options of one response alone (``side``, ``score``, ``scale``, ``units``, ...) are refused.

        Returns
        -------
        DataFrame
            Columns ``(response, "lower")`` and ``(response, "upper")``, so that ``ends["y1"]`` is the frame
            of a plain fit, and with several alphas ``ends[0.1]["y1"]``. ``attrs`` are those of a plain fit;
            ``tol``, ``loose``, ``pieces``, ``empty`` and ``stability_share`` are by response.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> new = {"poverty": [12.0, 18.0], "urban": [60.0, 80.0]}
        >>> ends = res.conf_int_conformal(new, alpha=0.1)
        >>> ends.round(1)  # doctest: +NORMALIZE_WHITESPACE
        response violent        murder
                   lower  upper  lower upper
        0           -7.2  600.7   -2.1   8.6
        1          242.6  860.2    1.7  12.7
        >>> ends.attrs["method"], ends.attrs["guarantee"][:60]
        ('exact', 'covers all 2 responses at once with probability at least 0.9')
        """
        options = given_options(locals())
        for name in unknown.keys() - {"centre"}:
            raise InputTypeError(
                f"option {name!r} is not for several responses, which share {_listed_options()}: drop it, "
                f"or use results.components[{self.model.responses[0]!r}].conf_int_conformal for that one "
                "alone"
            )
        chosen = self._method(method or self.default_method, options)
        return ask_intervals(self, exog, self._level(alpha), chosen, "two-sided", options)

    def get_prediction(  # type: ignore[override]
        self, exog: New = None, method: str | None = None, *, alpha: Numbers = None, **options: Any
    ) -> SeveralPrediction:
        """Predictions and their intervals, as statsmodels' ``get_prediction``.

        ``predicted_mean`` and ``summary_frame(alpha)`` have the responses as columns, the latter with
        ``mean``, ``obs_ci_lower`` and ``obs_ci_upper`` below each; arguments are those of
        `conf_int_conformal`.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> made = res.get_prediction({"poverty": [12.0], "urban": [60.0]}, alpha=0.1)
        >>> made.summary_frame()["murder"].round(1)
           mean  obs_ci_lower  obs_ci_upper
        0   3.3          -2.1           8.6
        """
        method = method or self.default_method
        return SeveralPrediction(self, exog, self._level(alpha), {"method": method, **options})

    def conformity(
        self, exog: New, z: Any, *, groups: Groups = None, weights: PerRow = None
    ) -> pd.DataFrame:
        """Exact p-values ``p`` of candidate responses.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        z : DataFrame or array (g, q)
            Candidates, the same for every row: a column per response, in their order or by name. One
            candidate may be a sequence of q numbers.
        groups, weights : optional
            As in `conf_int_conformal`.

        Returns
        -------
        DataFrame
            ``p``, indexed by the rows of ``exog`` and by the candidate's responses. A candidate is in the
            joint conformal set if ``p > alpha``; the box of the exact method is the smallest around it.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> new = {"poverty": [12.0], "urban": [60.0]}
        >>> res.conformity(new, z=[(300.0, 4.0), (300.0, 9.0)]).round(3).reset_index(drop=True)
               p
        0  0.808
        1  0.096
        """
        candidates = self._candidates(z)
        places = np.arange(len(candidates))
        out = ask_p_values(self, exog, places, groups, weights, ("p",), self._p_of(candidates))
        rows = out.index.get_level_values(0)
        labels = [rows, *np.tile(candidates, (len(rows) // len(candidates), 1)).T]
        out.index = pd.MultiIndex.from_arrays(labels, names=[rows.name, *self.model.responses])
        return out

    def p_values(self, new: New, *, groups: Groups = None, weights: PerRow = None) -> pd.Series:
        """Exact p-values of new rows, each at its own responses, all of them together.

        As `Results.p_values`: a row's responses are in the joint set at alpha if and only if p is larger.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> data = statecrime.load_pandas().data
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", data.iloc[:40])
        >>> res.p_values(data.iloc[[40, 45]]).round(3).tolist()
        [0.268, 0.976]
        """
        known = [design.responses(new) for design in self._designs]
        if any(y is None for y in known):
            raise InputError(f"new lacks columns of the responses {self.model.endog_names!r}: add them")
        responses = np.column_stack([y for y in known if y is not None])
        places = np.where(np.isnan(responses).any(axis=1), np.nan, np.arange(len(responses)))
        p = ask_own_p(self, new, places, groups, weights, self._p_of(responses))
        return pd.Series(p, index=self._new_rows(new)[1], name="p")

    def tau(self, exog: New = None, bound: Bound = None) -> pd.DataFrame:
        """Stability bounds, as `Results.tau`, under a column level for the response.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> data = statecrime.load_pandas().data
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", data, loss="huber")
        >>> bounds = res.tau({"poverty": [12.0], "urban": [60.0]})
        >>> list(bounds.columns.get_level_values("response").unique())
        ['violent', 'murder']
        """
        made = {name: fit.tau(exog, bound) for name, fit in self.components.items()}
        return pd.concat(made, axis=1, names=["response", None])

    # Parts -----------------------------------------------------------------------------------------

    @property
    def _designs(self) -> list[Design]:
        return [fit._design for fit in self.components.values()]

    @cached_property
    def _fits(self) -> SeveralFits:
        each = list(self.components.values())
        units = [1.0] * len(each)
        if self.model.standardize:
            units = [score_unit(fit.scale, fit._design.y) for fit in each]
        return SeveralFits([fit._fits for fit in each], units, self.model.standardize)

    def _p_of(self, candidates: np.ndarray) -> PValues:
        """p-values of one row at some of the candidates (g, q), given by their places."""

        def values(row: np.ndarray, places: np.ndarray, peers: Peers, along: Along | None) -> np.ndarray:
            return box_conformity(self._fits, row, candidates[places.astype(int)], peers)

        return values

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return np.column_stack([fit._predictions(X) for fit in self.components.values()])

    def _method(self, method: str, options: Options) -> str:
        """The method that is meant."""
        if method == "auto":
            steps = self.model.loss.kind == "step" and "bound" not in options
            return "split" if "conditional" in options else "exact" if steps else "stable"
        if method not in SEVERAL_METHODS:
            raise InputError(
                f"method={method!r} is not for several responses: give 'auto' or one of "
                f"{', '.join(SEVERAL_METHODS)}"
            )
        return method

    def _intervals(
        self,
        rows: Rows,
        alphas: list[float],
        method: str,
        side: Side,
        options: Options,
        parts: Among = None,
    ) -> list[Intervals]:
        """One record per level and response, level by level."""
        made = make_intervals(self._fits, rows.X, alphas, method, side, options, parts, SEVERAL_METHODS)
        return [_joint_words(one, len(self.components)) for one in made]

    def _candidates(self, z: Any) -> np.ndarray:
        """Candidate responses (g, q)."""
        names = list(self.model.responses)
        if isinstance(z, pd.DataFrame):
            lacking = [name for name in names if name not in z.columns]
            if lacking:
                raise InputError(f"z lacks the responses {', '.join(lacking)}: give a column for each")
            z = z[names]
        try:
            values = np.atleast_2d(np.asarray(z, dtype=float))
        except (TypeError, ValueError) as error:
            raise InputTypeError(f"z has values that are not numbers ({error}): give numbers") from error
        if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
            raise InputError(
                f"z has shape {np.shape(z)}: give candidates with {len(names)} columns, one per response "
                f"({', '.join(names)})"
            )
        if not np.all(np.isfinite(values)):
            raise InputError("z has values that are not finite: give finite candidate responses")
        return values


def _joint_words(intervals: Intervals, count: int) -> Intervals:
    """The same, with a guarantee that says what it is of."""
    words = intervals.guarantee.replace("covers", f"covers all {count} responses at once", 1)
    return replace(intervals, guarantee=words)


def _listed_options() -> str:
    """Options of joint intervals, in words."""
    own = {option for method in SEVERAL_METHODS.values() for option in method.options}
    return ", ".join(sorted({"groups", "weights", "transductive", "unseen", *own}))
