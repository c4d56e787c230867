"""The fit that every full-data method starts from, made once and kept.

A method sees plain arrays: the training rows in the units of the fit, which are the same for every
candidate response (theory, section 2). `Fits` holds them with the base fit, and the clipped fit that paths
start from.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ..data.units import location_scale
from ..errors import ConvergenceWarning, warn_user
from ..losses import Loss
from ..path import ClippedFit, Polyline, chord_fits, crossover, leave_one_out, polylines, sharpened, ties_of
from ..solvers import Problem, Solution, TieBreak, is_only, minimise, patchy, smallest_norm, solve
from ..stability import BaseFit
from ..threads import one_thread
from .parallel import parts_of
from .training import Parts, Solving, linear

LEARNED = ", given the units learned in training"  # what a guarantee is given

Residuals = tuple[np.ndarray, np.ndarray, np.ndarray]  # training rows' (g, n), new row's (g,), ties (g,)
_FAR = 100.0  # how far the prediction of a new row follows its response, relative to its residual
_NEWTON = 150
_MISSED = 1e-9  # of a response that a tilted fit was to have, relative to its terms


@dataclass(frozen=True)
class LeftOut:
    """What the fits without each training row say; units and the penalty's weights are those of the fit to
    all rows."""

    own: np.ndarray  # (n,): move of each row's own prediction when the row goes, in units of the response
    coefficients: np.ndarray  # (n, p): moves of the coefficients, in units of the fit
    theta: np.ndarray  # (p,): coefficients of the fit to all rows


@dataclass(frozen=True)
class Fits:
    """A problem and its fits; the fit is of ``(y - centre) / scale``."""

    X: np.ndarray  # (n, p): design in the units of the fit
    y: np.ndarray  # (n,): responses in their own units
    loss: Loss  # of residuals in units of ``scale``
    ridge: np.ndarray  # penalty weights (p,)
    lasso: np.ndarray
    centre: float
    scale: float
    start: np.ndarray  # (p,): coefficients of the training fit
    solving: Solving
    parts: Parts | None = None  # fits to some of the rows; None where units are known beforehand
    solved: Solution | None = None  # the training fit, where it is one of this very problem
    vanishing: bool = False  # whether weights break ties that only some fits with a new row have

    @property
    def given(self) -> str:
        """What the guarantee of full-data sets is given, in words: nothing where units are no
        statistics."""
        learned = self.parts is not None and self.parts.model.standardize
        return LEARNED if learned else ""

    def in_unit(self, unit: float | None = None) -> "Fits":
        """The same fits of responses in another unit, by default one in which they are moderate numbers, by
        the simplest loss; in their own where the loss has no other."""
        unit = location_scale(self.y, None)[1] if unit is None else unit
        ratio = unit / self.scale
        known = self.loss.rescaled(ratio)
        if known in (None, (self.loss, 1.0)):
            return self
        loss, factor = known
        ridge, lasso = self.ridge * ratio**2 / factor, self.lasso * ratio / factor
        start = self.start / ratio
        return replace(self, loss=loss, ridge=ridge, lasso=lasso, scale=unit, start=start, solved=None)

    @property
    def n(self) -> int:
        return len(self.y)

    @cached_property
    def ties(self) -> TieBreak:
        """What makes the minimiser unique (a `TieBreak`)."""
        known = None if self.solved is None else self.solved.ties
        return known or smallest_norm(self.whole, self.vanishing)

    @cached_property
    def held(self) -> "Fits | None":
        """The same with `vanishing` weights, where slopes are flat in places; else None."""
        if self.ties.extra is not None or not patchy(self.whole):
            return None
        return replace(self, solved=None, vanishing=True)

    def _tied(self, problem: Problem, solution: Solution) -> bool:
        """Whether a problem has other minimisers than this, among which `held` chooses."""
        return self.held is not None and not is_only(problem, solution.multipliers, solution.l1_multipliers)

    @cached_property
    def whole(self) -> Problem:
        """The problem as it was given."""
        v = (self.y - self.centre) / self.scale
        return Problem(self.X, v, self.loss, self.ridge, self.lasso)

    @cached_property
    def problem(self) -> Problem:
        """The training rows' `Problem`, which has one minimiser."""
        return self.ties.apply(self.whole)

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """New rows (m, p) as the fits see them, and which of them have a part that no training row has:
        such a row is fitted exactly whatever its response (bools)."""
        return self.ties.coordinates(rows), self.ties.outside(rows)

    @cached_property
    def base(self) -> BaseFit:
        """The `BaseFit`."""
        problem = self.problem
        solution = None if self.solved is None else self.solved.unique
        if solution is None or not solution.success:
            solution = minimise(problem, self.ties.start(self.start), **self.solving)
        if self.held is not None and self._tied(problem, solution):
            return self.held.base
        if self.ties.extra is not None:  # what vanishes bounds nothing
            problem = replace(problem, ridge=problem.ridge - self.ties.extra)
        return BaseFit(problem, solution, self.centre, self.scale)

    @cached_property
    def clipped(self) -> ClippedFit:
        """The `ClippedFit`: paths start at a minimiser and not near one, whatever ``tol`` is."""
        solution = self.base.solution
        if not (solution.success and self.solving["tol"] <= 1e-8):
            solution = minimise(self.problem, solver=self.solving["solver"])
        if not solution.success:  # slopes of the residuals, from which the path to the minimiser starts
            solution = replace(solution, multipliers=self.loss.derivative(solution.r))
        made = crossover(ClippedFit.of(self.problem, solution, self.ties.extra))
        return made if made.hessian_inverse is not None or self.held is None else self.held.clipped

    @cached_property
    def solution(self) -> Solution:
        """The `Solution` of the problem as it was given."""
        return self.ties.lift(self.whole, self.base.solution, self.solving["tol"])

    def refit(self, tilt: np.ndarray) -> tuple[np.ndarray, float]:
        """Fresh coefficients and their certified radius at a tilt (p,), where a path cannot be trusted."""
        solution = self._solved(replace(self.problem, tilt=tilt), self.base.solution.x)
        return solution.x, solution.radius

    @cached_property
    @one_thread
    def left_out(self) -> LeftOut:
        """The fits without each training row (theory, section 8.1)."""
        theta = self.base.solution.x if self.loss.kind == "bending" else self.clipped.theta
        moves, known = leave_one_out(self.clipped) if self.loss.kind != "bending" else self._chords()
        theta, moves = self.ties.moves(theta), self.ties.moves(moves)
        for i in np.flatnonzero(~known):
            rest = np.delete(np.arange(self.n), i)
            problem = replace(self.whole, X=self.whole.X[rest], v=self.whole.v[rest])
            moves[i] = solve(problem, sharpened).x - theta
        own = self.scale * np.einsum("ij,ij->i", self.X, moves)
        return LeftOut(own, moves, theta)

    def _chords(self) -> tuple[np.ndarray, np.ndarray]:
        """As `leave_one_out` for losses that bend."""
        problem = self.problem
        root = self.base.base_root.W
        theta = np.repeat(self.base.solution.x[None], self.n, axis=0)
        known = np.full(self.n, bool(np.all(np.isfinite(root)) and not self.lasso.any()))
        for part in parts_of(self.n, self.n if known.all() else 0):
            rows, start = np.arange(self.n)[part], theta[part]
            theta[part] = chord_fits(problem, root.T @ root, np.zeros(start.shape), start, rows)[0]
        return theta - self.base.solution.x, known

    def augmented(self, row: np.ndarray, w: float, start: np.ndarray | None = None) -> Solution:
        """The `Solution` with a new row (p,) of response ``w``, both in units of the fit."""
        problem = self.problem
        problem = replace(problem, X=np.vstack([problem.X, row]), v=np.append(problem.v, w))
        return self._solved(problem, start)

    def _solved(self, problem: Problem, start: np.ndarray | None) -> Solution:
        """The `Solution` of a problem near the training rows', by the solver that was asked for."""
        solution = sharpened(problem, minimise(problem, start, **self.solving), self.ties.extra)
        if self.held is None or not self._tied(problem, solution):
            return solution
        extra = self.held.ties.extra
        return self.held._solved(replace(problem, ridge=problem.ridge + extra), solution.x)

    def check_refit(self, solution: Solution) -> None:
        """Warn where a fit with a new row did not reach its tolerance."""
        if not solution.success:
            warn_user(
                f"a refit with a new row did not converge in {self.solving['max_iter']} steps: raise "
                "max_iter in fit; the interval may be off",
                ConvergenceWarning,
            )

    def responses(self, z: np.ndarray | float) -> np.ndarray:
        """Responses in units of the fit."""
        return (np.asarray(z) - self.centre) / self.scale

    def paths(self, rows: np.ndarray) -> list[Polyline | None]:
        """The `Polyline`s of new rows, for losses with clipped slopes, None where there is no knowing.
        Those that come to where fits tie are `held`."""
        out: list[Polyline | None] = [None] * len(rows)
        if self.clipped.hessian_inverse is not None:
            out = polylines(self.clipped, rows, self.loss.slopes, self.refit)
        left = [i for i, path in enumerate(out) if path is None or path.extent]
        if left and self.held is not None:
            for i, path in zip(left, self.held.paths(rows[left]), strict=True):
                out[i] = path
        return out

    def residuals(self, row: np.ndarray, w: np.ndarray) -> Residuals:
        """As `refitted`, read off the path of the row as far as it is known."""
        (path,) = self.paths(row[None]) if self.loss.kind != "bending" else (None,)
        if path is None:
            return self.refitted(row, w)
        r, e, tie = path.residuals(self.problem.X, self.problem.v, w)
        known = path.knows(w)
        if not known.all():
            r[~known], e[~known], tie[~known] = self.refitted(row, w[~known])
        return r, e, tie

    def refitted(self, row: np.ndarray, w: np.ndarray) -> Residuals:
        """Residuals of augmented fits at responses, of the training rows (g, n) and of the new one (g,), in
        units of the fit; and differences of scores that are ties (g,)."""
        r = np.empty((len(w), self.n))
        e = np.empty(len(w))
        theta = np.empty((len(w), len(row)))
        eta = row @ self.base.solution.x
        nearest = dict.fromkeys((False, True), self.base.solution.x)  # fits so far, by whether above
        bending = self.loss.kind == "bending"
        far = bending and self.base.base_root.norms(row[None])[0] ** 2 > _FAR
        steep = bending and math.isinf(self.loss.lipschitz)
        tilted: dict[float, Solution] = {}
        for i in np.argsort(np.abs(w - eta)):
            start = nearest[bool(w[i] > eta)]
            known = _tilted_to(self, row, w[i], start, tilted) if far else None
            if known is None:
                solution = self.augmented(row, w[i], start)
                if not solution.success:  # far responses: a fit that goes through the new row is nearer
                    through = start + (w[i] - row @ start) / (row @ row or 1.0) * row
                    solution = min(solution, self.augmented(row, w[i], through), key=lambda each: each.fun)
                if steep and not (far or solution.success):
                    known = _tilted_to(self, row, w[i], start, tilted)
            if known is None:
                self.check_refit(solution)
                known = solution.r[:-1], solution.r[-1], solution.x
            r[i], e[i], theta[i] = known
            nearest[bool(w[i] > eta)] = theta[i]
        return r, e, ties_of(self.problem.X, theta, refitted=bending)

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Predictions of the fit to the training rows (m,)."""
        return self.base.predict(rows)

    @property
    def spread(self) -> float:
        """A typical size of responses, that steps and tolerances are in units of."""
        return self.scale

    def predictor(self, which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to some of the training rows alone, as a function from design rows to predictions; its
        penalty is per row of them."""
        if self.parts is not None:
            return self.parts.predictor(which)
        share, whole = len(which) / self.n, self.whole
        problem = replace(
            whole, X=whole.X[which], v=whole.v[which], ridge=share * whole.ridge, lasso=share * whole.lasso
        )
        return partial(linear, self.centre, self.scale, solve(problem, **self.solving).x)

    def without(self, row: int) -> Callable[[np.ndarray], np.ndarray]:
        """A fit to all training rows but one, likewise; units and penalty are those of all of them."""
        theta = self.scale * (self.left_out.theta + self.left_out.coefficients[row])
        return partial(linear, self.centre, 1.0, theta)

    def in_range(self, rows: np.ndarray) -> np.ndarray:
        """Whether the predictions of new rows lie in the range of the responses (bools)."""
        made = self.base.predict(rows)
        return (made >= np.min(self.y)) & (made <= np.max(self.y))


def _tilted_to(
    fits: Fits, row: np.ndarray, w: float, start: np.ndarray, found: dict[float, Solution]
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Residuals of the training rows, of the new one, and coefficients at a response, for a row that the
    fit follows closely: its residual, a small difference of large numbers, is that whose tilted fit has the
    response. None where no certified fit has it. Fits ``found``, by the new residual, are kept."""
    from scipy import optimize  # it takes long to import

    away = w - float(row @ fits.base.solution.x)

    def beyond(size: float) -> float:
        """How far the response with a residual of this size lies beyond ``w``."""
        e = math.copysign(size, away)
        if e not in found:
            tilt = -float(fits.loss.derivative(e)) * row
            near = found[min(found, key=lambda each: abs(each - e))].x if found else start
            found[e] = minimise(replace(fits.problem, tilt=tilt), near, max_iter=_NEWTON)
        return math.copysign(1.0, away) * (float(row @ found[e].x) + e - w)

    known = [abs(e) for e in found if e * away > 0]
    low = max((size for size in known if beyond(size) < 0), default=0.0)
    most = low - beyond(low)  # the residual grows by no more than the response
    high = min((size for size in known if size > low), default=min(4.0 * low or 1.0, most))
    while high < most and not beyond(high) >= 0:
        low, high = high, min(4.0 * high, most)
    if not beyond(low) < 0 <= beyond(high):
        return None
    size = optimize.toms748(beyond, low, high, rtol=1e-12)
    missed, fit = abs(beyond(size)), found[math.copysign(size, away)]
    if not (fit.success and missed <= _MISSED * (abs(w) + float(np.abs(row) @ np.abs(fit.x)))):
        return None
    return fits.problem.v - fits.problem.X @ fit.x, math.copysign(size, away), fit.x
