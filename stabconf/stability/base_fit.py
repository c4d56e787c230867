"""The fit that every bound starts from, and the metrics in which it is strongly convex.

A metric is a matrix H (the penalty's P, or P with the loss's curvature on a region around the fit)
together with all that may move the fit before any new row does: the solver's stationarity residual, and
the drift of location and scale across a gap piece.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..response import Zone
from ..solvers import Problem, Solution

__all__ = ["BaseFit", "Metric"]

_CHUNK = 16384  # rows per block
_STEEPEST = 1e6  # curvature counted at most, where a loss has an infinite one
_DRIFT_STEPS = 8
_FINEST, _FINER = 0.004, 8  # movement of a typical row in the finest region, and quarterings of it


@dataclass(frozen=True)
class BaseFit:
    """The fit in one zone from which every bound starts: T(0), or T(-pinned) for replace-one bounds.

    Attributes
    ----------
    zone : Zone
    problem : Problem
        With responses standardised by the zone's location and scale.
    solution : Solution
    intercept : int or None
        Column of the intercept.
    pinned : float
        Slope of a new row's loss at the response that it was fitted with; its pull is then the tilt of
        ``problem``. 0 for the fit without it.
    """

    zone: Zone
    problem: Problem
    solution: Solution
    intercept: int | None
    pinned: float = 0.0
    metrics: dict = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def ratios(self):
        """Smallest and largest scale over the zone, relative to the base fit's."""
        low, high = sorted(self.zone.scales)
        return low / self.zone.scale, high / self.zone.scale

    def predict(self, rows):
        """Predictions at rows (m, p), in units of the response."""
        return self.zone.centre + self.zone.scale * (rows @ self.solution.x)

    def slope(self, r, direction):
        """Largest change of the tilt by a new row whose residual is between 0 and ``direction * r``.

        In the units of the base fit the loss is ``rho^2 l(r / rho)`` where the scale is rho times the
        base's; its slope is monotone in rho, so the ends decide.
        """
        loss = self.problem.loss
        best = 0.0
        for ratio in set(self.ratios):
            low, high = loss.subgradient(direction * np.asarray(r, dtype=float) / ratio)
            best = np.maximum(best, ratio * (high if direction > 0 else -low))
        return self._from_pinned(best, direction)

    def _from_pinned(self, slope, direction):
        """Largest distance of slopes between 0 and ``direction * slope`` from the pinned one."""
        return np.maximum(slope - direction * self.pinned, abs(self.pinned)) if self.pinned else slope

    def steepest(self, direction):
        """Largest change of the tilt on one side; ``inf`` where the loss is not Lipschitz there."""
        down, up = self.problem.loss.slopes
        return float(self._from_pinned(max(self.ratios) * (up if direction > 0 else down), direction))

    @cached_property
    def residual(self):
        """Stationarity residual with slopes of the loss itself as multipliers (p,)."""
        problem, solution = self.problem, self.solution
        u1 = np.where(solution.x != 0, problem.lasso * np.sign(solution.x), solution.l1_multipliers)
        pull = problem.X.T @ problem.loss.derivative(solution.r)
        return problem.ridge * solution.x - pull + u1 + problem.tilt

    def metric(self, kappa):
        """The `Metric` for curvature regions of size ``kappa``, made on first use."""
        if kappa not in self.metrics:
            self.metrics[kappa] = _make_metric(self, kappa)
        return self.metrics[kappa]

    @cached_property
    def base_root(self):
        """Inverse root of the base Hessian."""
        curvature = np.minimum(self.problem.loss.curvature(self.solution.r), _STEEPEST)
        return _inverse_root(self.problem, curvature)

    @cached_property
    def finest_region(self):
        """Size of the smallest curvature region worth having, a power of 2.

        A typical row moves little in it, and its norms are those at the fit but for 1 %.
        """
        typical = float(np.median(self.widths))
        if not 0 < typical < math.inf:
            return 1.0
        kappa = 2.0 ** round(math.log2(_FINEST / typical))
        for _ in range(_FINER):
            if self.metric(kappa).inflation <= 1.01:
                break
            kappa /= 4.0
        return kappa

    def held(self, moved, off, pull=0.0, row=None):
        """The smallest curvature region that surely holds the fit of a changed problem: its `Metric`, and
        how far the fit may move in it; None if there is none.

        Parameters
        ----------
        moved : (n,) array
            How far the rows' residuals move besides.
        off : (n,) array
            Bounds on the changes of the rows' slopes at the fit.
        pull : float
            Bound on the tilt along a new ``row`` (p,).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = float(np.max(np.where(self.widths > 0, moved / self.widths, 0.0)))
        kappa = max(2.0 * needed, self.finest_region)
        for _ in range(4):
            metric = self.metric(2.0 ** math.ceil(math.log2(kappa)))
            with np.errstate(invalid="ignore"):  # a region without curvature bounds nothing
                by_rows = float(off @ metric.rows)
            size = metric.start + min(by_rows, self._spread(metric) * float(np.linalg.norm(off)))
            if pull:
                size += pull * float(metric.root.norms(row[None])[0])
            if not math.isfinite(size):
                return None
            if np.all(moved + metric.rows * size < metric.kappa * self.widths + (self.widths == 0)):
                return metric, size
            kappa *= 4.0
        return None

    @cached_property
    def _gram(self):
        return self.problem.X.T @ self.problem.X

    def _spread(self, metric):
        """Largest norm of ``X' c`` in a metric, over vectors c of length 1."""
        if not np.all(np.isfinite(metric.root.W)):
            return math.inf
        return math.sqrt(float(np.linalg.eigvalsh(metric.root.W @ self._gram @ metric.root.W.T)[-1]))

    @cached_property
    def drift_steps(self):
        """How the gradient at the fit changes with the scale over a gap piece, for smooth losses.

        Pairs: the change so far (p,), and the size of each row's next change (n,). The coefficients are
        monotone in the scale, so between two steps they stay between their values.
        """
        loss, r = self.problem.loss, self.solution.r
        slope, out = loss.derivative(r), []
        for end in self.ratios:
            previous = np.zeros(len(r))
            for ratio in np.linspace(1.0, end, _DRIFT_STEPS + 1)[1:]:
                here = slope - ratio * loss.derivative(r / ratio)
                out.append((self.problem.X.T @ previous, np.abs(here - previous)))
                previous = here
        return out

    @cached_property
    def widths(self):
        """Shape of the curvature regions: row norms in the base Hessian's inverse norm (n,)."""
        return self.base_root.norms(self.problem.X)


@dataclass(frozen=True)
class _InverseRoot:
    """A matrix W with ``|x|_{H^-1} = |W x|``; ``diagonal`` spares the product with it."""

    W: np.ndarray
    diagonal: bool = False

    def norms(self, rows):
        out = np.empty(len(rows))
        with np.errstate(invalid="ignore"):
            for first in range(0, len(rows), _CHUNK):
                block = slice(first, first + _CHUNK)
                if self.diagonal:
                    out[block] = np.sqrt(np.square(rows[block]) @ np.square(np.diag(self.W)))
                else:
                    moved = rows[block] @ self.W.T
                    out[block] = np.sqrt(np.einsum("ij,ij->i", moved, moved))
        return np.where(np.isnan(out), np.inf, out)

    def inflation(self, other):
        """Largest ratio of a norm here to the same vector's norm in ``other``."""
        if not (np.all(np.isfinite(self.W)) and np.all(np.isfinite(other.W))):
            return math.inf
        return float(np.linalg.norm(self.W @ np.linalg.inv(other.W), 2))


def _inverse_root(problem, curvature):
    """Inverse root of ``H = P + X' diag(curvature) X``; infinite norms where H is singular."""
    p = problem.X.shape[1]
    if not np.any(curvature):
        with np.errstate(divide="ignore"):
            return _InverseRoot(np.diag(1.0 / np.sqrt(problem.ridge)), diagonal=True)
    hessian = np.diag(problem.ridge)
    for first in range(0, len(problem.X), _CHUNK):
        part = problem.X[first : first + _CHUNK]
        hessian = hessian + (part * curvature[first : first + _CHUNK, None]).T @ part
    scale = np.sqrt(np.diag(hessian))
    if not np.all(scale > 0):
        return _InverseRoot(np.full((p, p), np.inf))
    try:
        root = np.linalg.cholesky(hessian / scale[:, None] / scale)
    except np.linalg.LinAlgError:
        return _InverseRoot(np.full((p, p), np.inf))
    if np.min(np.diag(root)) < 1e-7:  # numerically singular: its inverse certifies nothing
        return _InverseRoot(np.full((p, p), np.inf))
    return _InverseRoot(np.linalg.solve(root, np.diag(1.0 / scale)))


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
        Largest ratio of ``rows`` to the widths: a move M stays inside if ``M * stretch < kappa``.
    inflation : float
        Any norm is at most this many times the norm in the base Hessian.
    start : float
        Norm of all that may move the fit before any new row does: solver residual and drift.
    """

    root: _InverseRoot
    kappa: float
    rows: np.ndarray
    stretch: float
    inflation: float
    start: float

    @property
    def limit(self):
        """The region holds tilts whose size times the base norm of the new row is below this."""
        if not (np.isfinite(self.start) and np.isfinite(self.inflation)):
            return -math.inf
        room = self.kappa / self.stretch if self.stretch > 0 else math.inf  # no row moves at all
        return (room - self.start) / self.inflation


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
    stretch = inflation = 1.0
    if kappa:  # a region of its own: compare its norms with the base Hessian's
        if math.isfinite(kappa):
            ratio = np.divide(rows, base.widths, out=np.zeros(n), where=base.widths > 0)
            stretch = float(np.max(ratio))
        inflation = root.inflation(base.base_root)
    start = _vector_norm(root, base.residual)
    if not np.any(curvature) and (loss.piecewise_linear or not base.zone.is_gap):
        # The duality-gap radius belongs to P; scaling the response scales its slack along.
        scaled = max(1.0, *base.ratios) * solution.radius
        start = scaled if loss.piecewise_linear else min(start, scaled)
    return Metric(root, kappa, rows, stretch, inflation, start + _drift(base, root, rows))


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
    if not np.all(np.isfinite(rows)):
        return math.inf
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
    steps = base.drift_steps
    return total + max(_vector_norm(root, so_far) + float(change @ rows) for so_far, change in steps)
