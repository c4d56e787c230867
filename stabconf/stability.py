"""How far one new response can move the fit: the stability bounds tau (theory, section 4).

Everything is one lemma. If the objective is strongly convex with a matrix H, a linear term e moves its
minimiser by at most \\|e\\| in the inverse H norm, and into the ball that has the move as a diameter. A new
row adds the tilt ``t x_N`` with \\|t\\| at most the slope of the loss at its residual. Three things may be
added to e: the solver's stationarity residual, the drift of location and scale across a gap piece, and
nothing else. The bounds differ only in H (the penalty alone, or with the curvature of the loss on a
region that the fit provably does not leave) and in using the norm or the ball.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import linalg

from .errors import AssumptionError, InputError
from .response import Zone
from .scores import kth_of_lines, kth_smallest
from .solvers import Problem, Solution

__all__ = ["BaseFit", "Metric", "Score", "BOUNDS", "default_bound", "reach"]

_CHUNK = 16384  # rows per block
_KAPPA_STEPS = 2  # curvature regions per doubling
_KAPPA_TRIES = 12  # regions tried before falling back to the penalty alone
_STEEPEST = 1e6  # curvature counted at most, where a loss has an infinite one
_DRIFT_STEPS = 8
_BALL_ENTRIES = 2_000_000


@dataclass(frozen=True)
class Score:
    """A conformity score of the residuals: ``|r|``, or ``sign * r`` where ``absolute`` is False.

    Attributes
    ----------
    r : (n,) array
        Residuals of the base fit, standardised.
    absolute : bool
    sign : int
        1 or -1; with an absolute score, the side of the set that is being decided.
    """

    r: np.ndarray
    absolute: bool
    sign: int

    @cached_property
    def values(self):
        return np.abs(self.r) if self.absolute else self.sign * self.r


@dataclass(frozen=True)
class BaseFit:
    """The fit T(0) in one zone, from which every bound starts.

    Attributes
    ----------
    zone : Zone
    problem : Problem
        With responses standardised by the zone's location and scale.
    solution : Solution
    intercept : int or None
        Column of the intercept.
    """

    zone: Zone
    problem: Problem
    solution: Solution
    intercept: int | None
    metrics: dict = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def ratios(self):
        """Smallest and largest scale over the zone, relative to the base fit's."""
        low, high = self.zone.scales
        return low / self.zone.scale, high / self.zone.scale

    def slope(self, r, direction):
        """Largest \\|t\\| of a new row with residual ``direction * r``, r >= 0, anywhere in the zone.

        In the units of the base fit the loss is ``rho^2 l(r / rho)`` where the scale is rho times the
        base's; its slope is monotone in rho, so the ends decide.
        """
        loss = self.problem.loss
        best = 0.0
        for ratio in set(self.ratios):
            low, high = loss.subgradient(direction * np.asarray(r, dtype=float) / ratio)
            best = np.maximum(best, ratio * (high if direction > 0 else -low))
        return best

    def steepest(self, direction):
        """Largest slope on one side; ``inf`` where the loss is not Lipschitz there."""
        down, up = self.problem.loss.slopes
        return max(self.ratios) * (up if direction > 0 else down)

    @cached_property
    def residual(self):
        """Stationarity residual with slopes of the loss itself as multipliers (p,)."""
        problem, solution = self.problem, self.solution
        u1 = np.where(
            solution.x != 0, problem.lasso * np.sign(solution.x), solution.l1_multipliers
        )
        pull = problem.X.T @ problem.loss.derivative(solution.r)
        return problem.ridge * solution.x - pull + u1 + problem.tilt

    def metric(self, kappa):
        """The `Metric` for curvature regions of size ``kappa``, made on first use."""
        if kappa not in self.metrics:
            self.metrics[kappa] = _make_metric(self, kappa)
        return self.metrics[kappa]

    @cached_property
    def widths(self):
        """Shape of the curvature regions: row norms in the base Hessian's inverse norm (n,)."""
        curvature = np.minimum(self.problem.loss.curvature(self.solution.r), _STEEPEST)
        return _inverse_root(self.problem, curvature).norms(self.problem.X)


@dataclass(frozen=True)
class _InverseRoot:
    """A matrix W with ``|x|_{H^-1} = |W x|``."""

    W: np.ndarray

    def norms(self, rows):
        out = np.empty(len(rows))
        with np.errstate(invalid="ignore"):
            for first in range(0, len(rows), _CHUNK):
                moved = rows[first : first + _CHUNK] @ self.W.T
                out[first : first + _CHUNK] = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        return np.where(np.isnan(out), np.inf, out)


def _inverse_root(problem, curvature):
    """Inverse root of ``H = P + X' diag(curvature) X``; infinite norms where H is singular."""
    p = problem.X.shape[1]
    if not np.any(curvature):
        with np.errstate(divide="ignore"):
            return _InverseRoot(np.diag(1.0 / np.sqrt(problem.ridge)))
    hessian = np.diag(problem.ridge)
    for first in range(0, len(problem.X), _CHUNK):
        part = problem.X[first : first + _CHUNK]
        hessian = hessian + (part * curvature[first : first + _CHUNK, None]).T @ part
    scale = np.sqrt(np.diag(hessian))
    if not np.all(scale > 0):
        return _InverseRoot(np.full((p, p), np.inf))
    try:
        root = linalg.cholesky(hessian / scale[:, None] / scale, lower=True)
    except linalg.LinAlgError:
        return _InverseRoot(np.full((p, p), np.inf))
    if np.min(np.diag(root)) < 1e-7:  # numerically singular: its inverse certifies nothing
        return _InverseRoot(np.full((p, p), np.inf))
    return _InverseRoot(linalg.solve_triangular(root, np.diag(1.0 / scale), lower=True))


@dataclass(frozen=True)
class Metric:
    """A matrix H with which the objective is strongly convex near the base fit.

    Attributes
    ----------
    root : _InverseRoot
    kappa : float
        Valid while each row's prediction moves by less than ``kappa`` times its width; ``inf`` where it
        is valid everywhere.
    rows : (n,) array
        ``|x_i|`` in the inverse H norm.
    stretch : float
        Largest ratio of ``rows`` to the widths: a move of size M stays inside if ``M * stretch < kappa``.
    start : float
        Norm of all that may move the fit before any new row does: solver residual and drift.
    """

    root: _InverseRoot
    kappa: float
    rows: np.ndarray
    stretch: float
    start: float


def _make_metric(base, kappa):
    """``kappa``: a region size, ``inf`` for the whole line, or None for the penalty alone."""
    problem, solution = base.problem, base.solution
    loss, n = problem.loss, len(problem.v)
    if kappa is None:
        curvature = np.zeros(n)
    else:
        d = np.inf if math.isinf(kappa) else kappa * base.widths
        ends = [(solution.r + sign * d) / ratio for sign in (-1, 1) for ratio in base.ratios]
        curvature = loss.min_curvature(np.minimum.reduce(ends), np.maximum.reduce(ends))
        curvature = np.minimum(curvature, _STEEPEST)
    root = _inverse_root(problem, curvature)
    rows = root.norms(problem.X)
    stretch = 0.0
    if kappa is not None and math.isfinite(kappa):
        stretch = float(np.max(np.divide(rows, base.widths, out=np.zeros(n), where=base.widths > 0)))
    start = _vector_norm(root, base.residual)
    if not np.any(curvature) and (loss.piecewise_linear or not base.zone.is_gap):
        # The duality-gap radius belongs to P; scaling the response scales its slack along.
        scaled = max(1.0, *base.ratios) * solution.radius
        start = scaled if loss.piecewise_linear else min(start, scaled)
    return Metric(root, kappa, rows, stretch, start + _drift(base, root, rows))


def _vector_norm(root, vector):
    return float(root.norms(vector[None])[0]) if np.any(vector) else 0.0


def _drift(base, root, rows):
    """Norm bound on the change of the gradient as location and scale move over a gap piece.

    With the scale rho times and the location delta away from the base's (in its units), the gradient at
    the base fit changes by ``sum (l'(r_i) - rho l'(r_i / rho)) x_i - delta P e_0 + (rho - 1) u1``.
    """
    zone, problem, solution = base.zone, base.problem, base.solution
    if not zone.is_gap:
        return 0.0
    low, high = base.ratios
    total = max(abs(low - 1), abs(high - 1)) * _vector_norm(root, solution.l1_multipliers)
    if base.intercept is not None:
        delta = max(abs(c - zone.centre) for c in zone.centres) / zone.scale
        lever = np.zeros(len(problem.ridge))
        lever[base.intercept] = problem.ridge[base.intercept] * delta
        total += _vector_norm(root, lever)
    if low == high:
        return total
    if problem.loss.piecewise_linear:
        pull = _vector_norm(root, problem.X.T @ solution.multipliers)
        return total + max(abs(low - 1), abs(high - 1)) * pull
    # Each coefficient is monotone in rho: between two grid points it stays between their values.
    worst = 0.0
    for end in (low, high):
        previous = np.zeros(len(solution.r))
        for ratio in np.linspace(1.0, end, _DRIFT_STEPS + 1)[1:]:
            slope = problem.loss.derivative(solution.r)
            here = slope - ratio * problem.loss.derivative(solution.r / ratio)
            between = float(np.abs(here - previous) @ rows)
            worst = max(worst, _vector_norm(root, problem.X.T @ previous) + between)
            previous = here
    return total + worst


class NormReach:
    """Moves of size ``t |x_N| + start`` in one metric, the penalty's: tau_i = tbar a_i a_N."""

    factor = 1.0
    widest = None  # the metric that is valid for every move

    def __init__(self, base, rows):
        self.base = base
        self.count = len(rows)
        self._rows = rows
        self._norms = {}

    def norms(self, kappa, which):
        """Norms of the new rows ``which`` in one metric, remembered."""
        if kappa not in self._norms:
            self._norms[kappa] = np.full(self.count, np.nan)
        known = self._norms[kappa]
        todo = which[np.isnan(known[which])]
        if len(todo):
            known[todo] = self.base.metric(kappa).root.norms(self._rows[todo])
        return known[which]

    def _groups(self, t):
        """Yield ``which, metric, norms, move``: rows that share a metric, and how far they move."""
        which = np.arange(self.count)
        metric, norms = self.base.metric(None), self.norms(None, which)
        yield which, metric, norms, _move(self.factor * t, norms, metric)

    def shift(self, t):
        """Bound on the movement of each new row's own prediction (m,)."""
        out = np.empty(self.count)
        for which, _, norms, move in self._groups(t):
            out[which] = move * norms
        return out

    def before(self, t):
        """The part of `shift` that is there whatever the new response is (m,)."""
        out = np.empty(self.count)
        for which, metric, norms, _ in self._groups(t):
            out[which] = metric.start * norms
        return out

    def quantile(self, score, k, t, direction, inner=False):
        """k-th smallest upper (``inner``: lower) bound of the training scores (m,)."""
        out = np.empty(self.count)
        for which, metric, _, move in self._groups(t):
            move = -move if inner else move
            out[which] = kth_of_lines(score.values, metric.rows, k, move)
        return np.maximum(out, 0.0) if score.absolute else out

    def tau(self, t):
        """Bounds on the movement of every training row's prediction (m, n)."""
        out = np.empty((self.count, len(self.base.problem.v)))
        for which, metric, _, move in self._groups(t):
            out[which] = move[:, None] * metric.rows
        return out

    def ceilings(self, score, k):
        """Lines ``height + rise * move`` above the k-th smallest upper bound, and their moves.

        Returns the lines and a function from t to the moves that go with them. Any k rows bound the
        order statistic from above: those with the smallest norms give the line that rises least.
        """
        metric = self.base.metric(self.widest)
        flat = np.argpartition(metric.rows, k - 1)[:k]
        lines = [
            (float(np.max(score.values[flat])), float(np.max(metric.rows[flat]))),
            (float(kth_smallest(score.values, k)), float(np.max(metric.rows))),
        ]
        norms = self.norms(self.widest, np.arange(self.count))
        return lines, lambda t: _move(t, norms, metric)


class PaperReach(NormReach):
    """The paper's replace-one constant, with the norm of the new row: tau_i = 2 rho a_i a_N."""

    factor = 2.0

    def __init__(self, base, rows):
        super().__init__(base, rows)
        if math.isinf(base.problem.loss.lipschitz):
            raise AssumptionError(
                f"bound='paper' assumes a Lipschitz loss; {base.problem.loss.describe()} is not: use "
                "bound='curvature' or 'norm', or a Lipschitz loss such as 'huber'"
            )

    def _groups(self, t):
        return super()._groups(np.full(self.count, self.base.problem.loss.lipschitz))


class CurvatureReach(NormReach):
    """As `NormReach`, with the loss's own curvature on the smallest region that holds the move."""

    widest = math.inf

    def _groups(self, t):
        everywhere = self.base.metric(self.widest)
        left = np.arange(self.count)
        if self.base.problem.loss.min_curvature(-np.inf, np.inf) > 0:  # the same everywhere
            norms = self.norms(self.widest, left)
            yield left, everywhere, norms, _move(t, norms, everywhere)
            return
        first = self._first_region(t)
        for attempt in range(_KAPPA_TRIES):
            rest = []
            for level in np.unique(first[left]):
                which = left[first[left] == level]
                if level < np.iinfo(int).max:
                    kappa = 2.0 ** ((level + attempt) / _KAPPA_STEPS)
                    metric = self.base.metric(kappa)
                    norms = self.norms(kappa, which)
                    move = _move(t[which], norms, metric)
                    inside = move * metric.stretch < kappa
                    if inside.any():
                        yield which[inside], metric, norms[inside], move[inside]
                    which = which[~inside]
                rest.append(which)
            left = np.sort(np.concatenate(rest)) if rest else left[:0]
        if len(left):
            norms = self.norms(self.widest, left)
            yield left, everywhere, norms, _move(t[left], norms, everywhere)

    def _first_region(self, t):
        """Index of the smallest region that could hold each move; no region holds an infinite one."""
        base = self.base.metric(0.0)
        move = _move(t, self.norms(0.0, np.arange(self.count)), base)
        level = np.full(self.count, np.iinfo(int).max)
        ok = np.isfinite(move)
        size = np.maximum(move[ok], 1e-12)
        level[ok] = np.floor(_KAPPA_STEPS * np.log2(size)).astype(int) + 1
        return level


class BallReach(NormReach):
    """The ball form with the penalty's metric: it knows on which side each row moves.

    A tilt of size t towards ``direction`` moves row i by ``direction * t * (g_i +- a_i a_N) / 2``. Cost
    grows with n times m, memory does not.
    """

    def _span(self, which, t, direction):
        """Lowest and highest movement of every training row, for the new rows ``which``."""
        metric = self.base.metric(None)
        towards = (self._rows[which] @ metric.root.W.T) @ (self.base.problem.X @ metric.root.W.T).T
        size = np.outer(self.norms(None, which), metric.rows)
        t = t[which, None]
        far, near = t * (towards + size) / 2.0, t * np.minimum(towards - size, 0.0) / 2.0
        start = metric.start * metric.rows
        return (near - start, far + start) if direction > 0 else (-far - start, -near + start)

    def quantile(self, score, k, t, direction, inner=False):
        out = np.empty(self.count)
        for which in self._blocks():
            low, high = self._span(which, np.where(np.isfinite(t), t, 0.0), direction)
            if score.absolute:
                ends = np.abs(score.r - low), np.abs(score.r - high)
                bound = np.minimum(*ends) if inner else np.maximum(*ends)
                if inner:
                    bound = np.where((score.r - low) * (score.r - high) <= 0, 0.0, bound)
            else:
                ends = score.sign * (score.r - low), score.sign * (score.r - high)
                bound = np.minimum(*ends) if inner else np.maximum(*ends)
            out[which] = kth_smallest(bound, k)
        unknown = 0.0 if score.absolute else -np.inf
        return np.where(np.isfinite(t), out, unknown if inner else np.inf)

    def tau(self, t):
        spans = [self._span(np.arange(self.count), t, direction) for direction in (-1, 1)]
        return np.maximum.reduce([np.abs(end) for span in spans for end in span])

    def _blocks(self):
        size = max(1, _BALL_ENTRIES // max(1, len(self.base.problem.v)))
        for first in range(0, self.count, size):
            yield np.arange(first, min(first + size, self.count))


def _move(t, norms, metric):
    """Size of a move: tilt times the new row's norm, plus what is there before."""
    with np.errstate(invalid="ignore"):
        move = t * norms + metric.start
    return np.where(np.isnan(move), np.where(norms == 0, metric.start, np.inf), move)


BOUNDS = {
    "curvature": CurvatureReach,
    "norm": NormReach,
    "ball": BallReach,
    "paper": PaperReach,
}


def default_bound(loss):
    """The bound used when none is named: "curvature" where the loss has any, else "norm"."""
    return "curvature" if loss.has_curvature else "norm"


def reach(base, rows, bound):
    """The stability bound by name for new rows (m, p) around a base fit.

    Raises `AssumptionError` where the bound's assumptions fail for this loss and penalty.
    """
    if bound not in BOUNDS:
        raise InputError(f"bound={bound!r} is unknown: give one of {', '.join(BOUNDS)}")
    loss = base.problem.loss
    if bound == "curvature" and not loss.has_curvature:
        raise AssumptionError(
            f"bound='curvature' needs a loss with curvature; {loss.describe()} has none: use "
            "bound='norm' or 'ball'"
        )
    if bound != "curvature" and not np.all(base.problem.ridge > 0):
        raise AssumptionError(
            f"the stable method with bound={bound!r} and loss {loss.describe()} gets its strong "
            "convexity from the ridge part of the penalty, which is 0 here: use penalty > 0 with "
            "l1_ratio < 1, or a loss with curvature such as 'huber' and bound='curvature'"
        )
    return BOUNDS[bound](base, rows)
