"""How far one row moves a fit: the constants of the paper, stability bounds, influence (theory, section 4).

`ObjectiveResults` builds on it.
"""

from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError
from ..sets import row_tau
from ..show.plots.spread_plots import draw_influence
from ..stability import BOUNDS, default_bound, named_constants
from .figures import Axes, Figures
from .options import Bound, New


class StabilityResults(Figures):
    """Results that know how far a row can move them, whose ``_fits`` are the `Fits` of the rows."""

    _objective: Any  # loss, ridge weights (p,) and unit of the response

    @property
    def constants(self) -> pd.Series:
        """The constants that stability bounds are made of, by the paper's names, in units of the fit.

        ``rho`` is the largest slope of the loss and ``nu`` its largest curvature (infinite where there is
        none); ``gamma`` the Lipschitz constant of the score in the prediction and ``L_Phi`` that of the
        model, both 1; ``lambda`` the paper's: with N = n + 1 rows the objective is the mean loss plus
        ``lambda |b|^2``, so that ``penalty * (1 - l1_ratio) = 2 lambda (n + 1) / n`` (to have it literally,
        fit with ``standardize=False`` and without intercept); and ``C`` the largest loss over the range of
        the responses. ``attrs`` have the ``bound`` that is used unless another is named, and the formula of
        its ``tau``, with ``a_i = |x_i| / sqrt(2 N lambda)``; None where none applies.
        """
        loss, ridge, unit = self._objective
        spread = float(np.ptp(self._design.y)) / unit
        out = pd.Series(named_constants(loss, ridge, spread, self.nobs), name="constants")
        bound, penalised = default_bound(loss), bool(np.all(ridge > 0))
        none = loss.kind == "step" and not penalised
        tau = None if none else BOUNDS[bound].formula(loss, penalised)
        out.attrs = {"bound": None if none else bound, "tau": tau}
        return out

    def influence(self) -> pd.DataFrame:
        """How far each training row moves its own prediction, and each coefficient.

        All fits without one row come from paths that start at the fit (theory, section 8.1), with units and
        penalty as they are. Returns ``own_prediction`` and a column per coefficient, each the value with
        the row less the value without it, in units of the response and of the design columns.
        """
        left = self._fits.left_out
        rows, index = self._rows(None)
        columns, place, scale = self._columns, self._design.intercept, self._fits.scale
        moves = [columns.coefficients(move, 0.0, scale, place) for move in left.coefficients]
        made = pd.DataFrame(-np.array(moves), index=index, columns=self._design.names)
        made.insert(0, "own_prediction", -left.own / rows.root)
        return made

    def plot_influence(self, coefficient: str | None = None, ax: Axes = None) -> Axes:
        """How far each training row moves its own prediction, or a coefficient, over its residual.

        The rows that move it most are named.
        """
        name = "own_prediction" if coefficient is None else coefficient
        made, known = self.influence(), ", ".join(self._design.names)
        if name not in made:
            raise InputError(f"coefficient={coefficient!r} is not in the model: give one of {known}")
        what = "its own prediction" if coefficient is None else coefficient
        return draw_influence(self.resid.to_numpy(), made[name], what, self._design.response, ax)

    def tau(self, exog: New = None, bound: Bound = None, z: float | None = None) -> pd.DataFrame:
        """Stability bounds: how far each prediction can move when a new response joins the fit.

        ``z`` is that response; by default the bounds hold for every one, and are infinite for losses that
        are not Lipschitz. ``bound`` is as in `conf_int_conformal`. Returns a row per new row, a column per
        training row and one, ``"new"``, for the new row itself; in units of the response.
        """
        rows, index = self._rows(exog)
        trained = self._rows(None)[0]
        name = bound or default_bound(self._objective[0])
        out = np.full((len(rows), self.nobs + 1), np.nan)
        for i in np.flatnonzero(rows.complete):
            at = None if z is None else z * rows.root[i]
            moves = row_tau(self._fits, rows.as_fitted[i : i + 1], name, at)
            out[i] = moves / np.append(trained.root, rows.root[i])
        return pd.DataFrame(out, index, columns=pd.Index([*self._design.index, "new"], dtype=object))
