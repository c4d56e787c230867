"""What follows from a loss and a penalty alone, whoever fitted the model: p-values, stability, influence.

`Results` (what `stabconf.fit` gives) and the results of statsmodels' models build on it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd

from ..checks import check_candidates, check_one_alpha
from ..errors import AssumptionError, InputError
from ..losses import Loss
from ..penalties import Penalty, as_penalty
from ..rank import Peers
from ..sets import Along, Fits, Intervals, PairScore, check_bound, conformity, make_intervals, row_tau
from ..sets.quality import errors_of, pseudo_r2
from ..show.plots import draw_influence
from ..show.summary import constants_note
from ..stability import BOUNDS, default_bound, named_constants
from ..threads import one_thread
from .asking import PValues, ask_p_values, label_sets
from .figures import Axes
from .options import Among, Bound, Groups, Level, New, Numbers, Options, PerRow, Side, Units
from .predictive import Predictive
from .presentation import Presentation
from .rows import Rows
from .spec import ModelSpec

__all__ = ["ObjectiveResults"]


class ObjectiveResults(Presentation):
    """Results of a model that minimises a loss and a penalty.

    A subclass has ``_fits``, the `Fits` of its rows, and ``_objective``, its loss, ridge weights (p,) and
    unit of the response.
    """

    model: ModelSpec

    @cached_property
    def _fits(self) -> Fits:
        raise NotImplementedError

    @property
    def _objective(self) -> tuple[Loss, np.ndarray, float]:
        raise NotImplementedError

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

    @property
    def constants(self) -> pd.Series:
        """The constants that stability bounds are made of, by the paper's names, in units of the fit.

        ``rho`` is the largest slope of the loss and ``nu`` its largest curvature (infinite where there is
        none); ``gamma`` the Lipschitz constant of the score in the prediction and ``L_Phi`` that of the
        model, both 1; ``lambda`` the paper's: with N = n + 1 rows the objective is the mean loss plus
        ``lambda |b|^2``, so that ``penalty * (1 - l1_ratio) = 2 lambda (n + 1) / n``; and ``C`` the largest
        loss over the range of the responses. ``attrs`` have the ``bound`` that is used unless another is
        named, and the formula of its ``tau``, with ``a_i = |x_i| / sqrt(2 N lambda)``; None where none
        applies.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.constants.round(4)
        rho       1.0000
        nu           inf
        gamma     1.0000
        lambda    0.0050
        L_Phi     1.0000
        C         7.6383
        Name: constants, dtype: float64
        >>> res.constants.attrs
        {'bound': 'norm', 'tau': 'rho a_i a_N'}
        """
        loss, ridge, unit = self._objective
        spread = float(np.ptp(self._design.y)) / unit
        out = pd.Series(named_constants(loss, ridge, spread, self.nobs), name="constants")
        bound, penalised = default_bound(loss), bool(np.all(ridge > 0))
        none = loss.kind == "step" and not penalised
        tau = None if none else BOUNDS[bound].formula(loss, penalised)
        out.attrs = {"bound": None if none else bound, "tau": tau}
        return out

    def _detail_notes(self) -> list[str]:
        return [constants_note(self)]

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

        ``p`` is the share of the rows, the new one among them, whose score is at least the new one's. The
        paper's pi(z) counts the others alone: p = pi + 1/N with N = n + 1.

        Parameters
        ----------
        exog : DataFrame
            New rows.
        z : float or sequence of float or str
            Candidate responses, the same for every row. Labels of categories stand for the responses 0, 1,
            ... in the order given, as which training must have them.
        side, bound, groups, weights, conditional : optional
            As in `conf_int_conformal`. Along a formula p is the largest alpha at which a candidate is in
            the set, and has no stability bounds.
        z_hat : float, "prediction", callable or list of these, optional
            As in `conf_int_conformal`: take the bounds from the fit that has the new row at this response
            (the paper's pi_lo(z, z_hat) and pi_up(z, z_hat), literally so with ``bound="paper"``), by
            default from the fit without it. Of several responses the largest ``p_lo`` and the smallest
            ``p_up`` count.
        units : {"response"} or pair of functions, optional
            As in `conf_int_conformal`: candidates are then given in units of the response itself, ``z_hat``
            as the model has it.

        Returns
        -------
        DataFrame
            ``p``, ``p_lo``, ``p_up`` and ``gap``, which is ``p_up - p_lo``, indexed by the rows of ``exog``
            and by ``z``. A candidate is in the conformal set if ``p > alpha``, and surely so if
            ``p_lo > alpha``. Where no bound applies ``p_lo`` is 0 and ``p_up`` 1. NaN where a row has a
            missing value.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.conformity({"income": [500.0]}, z=[250.0, 400.0, 600.0]).round(3).reset_index(drop=True)
               p   p_lo   p_up    gap
        0  0.157  0.153  0.157  0.004
        1  0.758  0.758  0.758  0.000
        2  0.030  0.030  0.030  0.000
        """
        values = self._p_of(side, check_bound(self._fits, bound, side))
        names = ("p", "p_lo", "p_up", "gap")
        return ask_p_values(self, exog, z, groups, weights, names, values, conditional, z_hat, units)

    def _p_of(self, side: Side, bound: str | None = None) -> PValues:
        def values(
            row: np.ndarray, candidates: np.ndarray, peers: Peers, along: Along | None, *at: np.ndarray
        ) -> np.ndarray:
            return conformity(self._fits, row, candidates, side, bound, peers, along, *at)

        return values

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

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training design points by default.
        scale, n_jobs, progress : optional
            As in `conf_int_conformal`, with a fixed scale.
        units : {"response"} or pair of functions, optional
            As in `conf_int_conformal`: responses and quantiles are then in units of the response itself.

        Returns
        -------
        Predictive
            With ``quantile(q)``, ``cdf(y)``, ``interval(alpha)``, ``crps(y)`` and ``plot(row)``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> made = res.predictive({"income": [500.0, 1000.0]})
        >>> made.quantile([0.1, 0.5, 0.9]).round(0)
        q    0.1    0.5    0.9
        0  269.0  375.0  488.0
        1  530.0  636.0  749.0
        >>> made.cdf(400.0).round(3)
           lower  upper
        0  0.610  0.614
        1  0.008  0.013
        """
        options = {"scale": scale, "n_jobs": n_jobs, "progress": progress}
        given = {name: value for name, value in options.items() if value is not None}
        return Predictive(self, exog, given, units)

    def influence(self) -> pd.DataFrame:
        """How far each training row moves its own prediction, and each coefficient.

        All fits without one row come from paths that start at the fit (theory, section 8.1), with units and
        penalty as they are.

        Returns
        -------
        DataFrame
            A row per training row: ``own_prediction`` and a column per coefficient, each the value with the
            row less the value without it, in units of the response and of the design columns.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> moved = res.influence()
        >>> moved.reindex(moved["own_prediction"].abs().nlargest(2).index).round(3)
             own_prediction  Intercept  income
        137         -74.824     15.073  -0.018
        58           16.742     -6.582   0.008
        """
        left = self._fits.leave_one_out()
        rows, index = self._rows(None)
        made = pd.DataFrame(-self._own_units(left.coefficients), index=index, columns=self._design.names)
        made.insert(0, "own_prediction", -left.own / rows.root)
        return made

    def _own_units(self, moves: np.ndarray) -> np.ndarray:
        """Moves of coefficients (n, p) in units of the design columns."""
        columns, place, scale = self._columns, self._design.intercept, self._fits.scale
        return np.array([columns.coefficients(move, 0.0, scale, place) for move in moves])

    def plot_influence(self, coefficient: str | None = None, ax: Axes = None) -> Axes:
        """How far each training row moves its own prediction, or a coefficient, over its residual.

        The rows that move it most are named. A loss with a bounded slope lets no row pull as hard as its
        residual is large.

        Parameters
        ----------
        coefficient : str, optional
            A column of the design; by default the row's own prediction.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data)
        >>> res.plot_influence("income").get_ylabel()
        'move of income by the row'
        """
        name = "own_prediction" if coefficient is None else coefficient
        made = self.influence()
        if name not in made:
            raise InputError(
                f"coefficient={coefficient!r} is not in the model: give one of "
                f"{', '.join(self._design.names)}"
            )
        what = "its own prediction" if coefficient is None else coefficient
        return draw_influence(self.resid.to_numpy(), made[name], what, self._design.response, ax)

    def tau(self, exog: New = None, bound: Bound = None, z: float | None = None) -> pd.DataFrame:
        """Stability bounds: how far each prediction can move when a new response joins the fit.

        Parameters
        ----------
        exog : DataFrame, optional
            New rows; the training rows by default.
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
        rows, index = self._rows(exog)
        trained = self._rows(None)[0]
        name = bound or default_bound(self.model.loss)
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i in np.flatnonzero(rows.complete):
            at = None if z is None else z * rows.root[i]
            moves = row_tau(self._fits, rows.as_fitted[i : i + 1], name, at)
            out[i] = moves / np.append(trained.root, rows.root[i])
        columns = pd.Index([*self._design.index, "new"], dtype=object)
        return pd.DataFrame(out, index=index, columns=columns)

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

        Parameters
        ----------
        exog : DataFrame
            New rows.
        candidates : sequence of float or str
            The values that a response can take, or labels of categories as in `conformity`.
        alpha, side, groups, weights : optional
            As in `conf_int_conformal`.

        Returns
        -------
        Series
            A tuple of candidates for each row of ``exog``, in the order given; None where a row has a
            missing value. Its ``attrs["p"]`` holds the p-values, a column per candidate.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> res.conformal_set({"income": [500.0]}, candidates=[100.0, 400.0, 900.0], alpha=0.1)
        0    (400.0,)
        dtype: object

        Categories, which are coded 0, 1 and 2 in the data:

        >>> data = {"x": [0.1, 0.3, 0.2, 1.1, 0.9, 1.2, 2.1, 1.8, 1.9], "size": [0, 0, 0, 1, 1, 1, 2, 2, 2]}
        >>> res = stabconf.fit("size ~ x", data, loss="huber")
        >>> res.conformal_set({"x": [0.2, 1.0]}, ["small", "medium", "large"], alpha=0.2)
        0     (small,)
        1    (medium,)
        dtype: object
        """
        level = check_one_alpha(self._level(alpha))
        _, given = check_candidates(candidates, self._design.y, "candidates")
        p = self.conformity(exog, given, side, groups=groups, weights=weights)["p"].to_numpy()
        index = self._new_rows(exog)[1]
        return label_sets(p.reshape(-1, len(given)), index, given, level)

    @one_thread
    def _intervals(
        self,
        rows: Rows,
        alphas: list[float],
        method: str,
        side: Side,
        options: Options,
        parts: Among = None,
    ) -> list[Intervals]:
        if rows.weight is not None and isinstance(options.get("score"), PairScore):
            raise AssumptionError(
                "a PairScore is of responses as they are, and a model with weights ranks weighted ones: "
                "use score='absolute' or a UserScore"
            )
        if "z_hat" in options:
            options = {**options, "z_hat": rows.responses_as_fitted(options["z_hat"])}
        made = make_intervals(self._fits, rows.as_fitted, alphas, method, side, options, parts)
        return [rows.in_own_units(intervals) for intervals in made]

    def _parts(self, rows: Rows) -> tuple[Fits, np.ndarray]:
        return self._fits, rows.as_fitted

    def _with_penalty(self, strength: float) -> Self:
        """Itself refitted with another strength of the penalty."""
        penalty = as_penalty(strength, self.model.penalty.l1_ratio)
        return self._refit(replace(self.model, penalty=penalty), self._design, self._columns)
