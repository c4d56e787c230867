"""From rows and responses to coefficients: learn the units, build the problem, solve it (theory 2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..data.units import MAD_TO_SD, ColumnKinds, ColumnUnits, column_units, location_scale, spans_constant
from ..losses import LAD, Loss
from ..path import sharpened
from ..penalties import Penalty
from ..solvers import SOLVERS, Problem, Solution, solve
from ..threads import one_thread

Solving = dict[str, Any]  # options of `minimise`
_PERFECT = 1e-6  # of the response's scale: residuals below it are rounding errors of a perfect fit


class Model(Protocol):
    """What of a model's specification a fit needs."""

    @property
    def loss(self) -> Loss: ...
    @property
    def penalty(self) -> Penalty: ...
    @property
    def standardize(self) -> bool: ...
    @property
    def solving(self) -> Solving: ...


@dataclass(frozen=True)
class Fitted:
    """A regression and the units it was fitted in: the fit is of ``(y - centre) / scale``."""

    centre: float
    scale: float
    loss: Loss  # with parameters in units of that response
    weights: tuple[np.ndarray, np.ndarray]  # of ridge and lasso (p,)
    constant: np.ndarray | None  # coefficients (p,) of columns that add up to 1, if none is the intercept
    solution: Solution

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predictions at standardised rows (m, p), in units of the response."""
        return linear(self.centre, self.scale, self.solution.x, rows)


@one_thread
def fit_rows(
    X: np.ndarray, y: np.ndarray, kinds: ColumnKinds, columns: ColumnUnits, model: Model
) -> Fitted:
    """Fit a model to rows (n, p) of design columns and responses (n,), both in their own units."""
    rows, slopes = columns.apply(X), np.arange(X.shape[1]) != kinds.intercept
    weights = model.penalty.weights(len(y), slopes)
    centre, scale, loss, constant = 0.0, 1.0, model.loss, None
    before = None
    if model.standardize:
        constant = spans_constant(X) if kinds.intercept is None else None
        spans = kinds.intercept is not None or constant is not None
        centre, scale = location_scale(y, loss.level if spans else None)
        if loss.in_unit(2.0) != loss:
            sigma, before = residual_scale(rows, y, weights, spans, True, model.solving)
            loss = in_loss_unit(loss, sigma, scale)
    solution = solved(Problem(rows, (y - centre) / scale, loss, *weights), model.solving)
    return Fitted(centre, scale, loss, weights, constant, after(before, solution))


def residual_scale(
    rows: np.ndarray,
    y: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray],
    spans: bool,
    standardize: bool,
    solving: Solving,
) -> tuple[float, Solution]:
    """sigma, 1.4826 times the median absolute residual of a LAD fit (theory, section 2), and that fit.

    ``rows`` (n, p) are standardised, ``y`` (n,) is in its own units, ``weights`` are those of ridge and
    lasso; ``spans`` says whether a constant lies in the span of the design.
    """
    centre, scale = location_scale(y, 0.5 if spans else None) if standardize else (0.0, 1.0)
    solution = solved(Problem(rows, (y - centre) / scale, LAD(), *weights), solving)
    return MAD_TO_SD * scale * float(np.median(np.abs(solution.r))), solution


def in_loss_unit(loss: Loss, sigma: float, scale: float) -> Loss:
    """The loss with parameters in units of the residual scale, for responses in units of ``scale``."""
    return loss.in_unit(sigma / scale if sigma > _PERFECT * scale else 1.0)


def after(before: Solution | None, solution: Solution) -> Solution:
    """The solution, which has not converged unless the LAD fit of the residual scale ``before`` it has."""
    if before is None or before.success:
        return solution
    message = f"nor did the LAD fit of the residual scale, {before.message}"
    return replace(solution, success=False, message=message)


def solved(problem: Problem, solving: Solving) -> Solution:
    """The `Solution` by the solver that was asked for, sharpened where that is the package's own."""
    own = SOLVERS[solving["solver"]] is SOLVERS["auto"]
    return solve(problem, sharpened if own else None, **solving)


@dataclass(frozen=True)
class Parts:
    """Fits to some of the training rows alone, whose units are learned from those rows."""

    X: np.ndarray  # (n, p) and
    y: np.ndarray  # (n,), in their own units
    kinds: ColumnKinds
    columns: ColumnUnits  # of the fit to all rows, in whose units new rows are given
    model: Model

    def predictor(self, which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to the rows ``which``, as a function from standardised rows to predictions."""
        kinds = self.kinds.take(which)
        columns, _ = column_units(self.X[which], kinds, self.model.standardize)
        fitted = fit_rows(self.X[which], self.y[which], kinds, columns, self.model)
        own = partial(linear, fitted.centre, fitted.scale, fitted.solution.x)
        return partial(_in_units, own, self.columns, columns)


def linear(centre: float, scale: float, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Predictions at rows (m, p) of coefficients (p,), in units of the response."""
    return centre + scale * (rows @ theta)


def _in_units(
    predict: Callable[[np.ndarray], np.ndarray], given: ColumnUnits, own: ColumnUnits, rows: np.ndarray
) -> np.ndarray:
    """Predictions at rows whose columns are in other units than those of the fit."""
    return predict(own.apply(given.undo(rows)))
