"""The fit that every bound starts from, and the metrics in which it is strongly convex.

A metric is a matrix H (the penalty's P, or P with the loss's curvature on a region around the fit)
together with what may move the fit before any new row does: the solver's stationarity residual.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import linalg

from ..solvers import Problem, Solution

__all__ = ["BaseFit", "Metric"]

_CHUNK = 16384  # rows per block
_STEEPEST = 1e6  # curvature counted at most, where a loss has an infinite one
_FINEST, _FINER = 0.004, 8  # movement of a typical row in the finest region, and quarterings of it


@dataclass(frozen=True)
class BaseFit:
    """The fit from which every bound starts: T(0), or T(-pinned) for replace-one bounds.

    Attributes
    ----------
    problem : Problem
    solution : Solution
    centre, scale : float
        Of the response: ``problem`` is in units of ``(y - centre) / scale``.
    pinned : float
        Slope of a new row's loss at the response that it was fitted with; its pull is then the tilt of
        ``problem``. 0 for the fit without it.
    """

    problem: Problem
    solution: Solution
    centre: float
    scale: float
    pinned: float = 0.0
    metrics: dict = field(default_factory=dict, repr=False, compare=False)
    spreads: dict = field(default_factory=dict, repr=False, compare=False)

    def predict(self, rows):
        """Predictions at rows (m, p), in units of the response."""
        return self.centre + self.scale * (rows @ self.solution.x)

    def slope(self, r, direction):
        """Largest change of the tilt by a new row whose residual is between 0 and ``direction * r``."""
        low, high = self.problem.loss.subgradient(direction * np.asarray(r, dtype=float))
        return self._from_pinned(high if direction > 0 else -low, direction)

    def _from_pinned(self, slope, direction):
        """Largest distance of slopes between 0 and ``direction * slope`` from the pinned one."""
        return np.maximum(slope - direction * self.pinned, abs(self.pinned)) if self.pinned else slope

    def steepest(self, direction):
        """Largest change of the tilt on one side; ``inf`` where the loss is not Lipschitz there."""
        down, up = self.problem.loss.slopes
        return float(self._from_pinned(up if direction > 0 else down, direction))

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
            if self.metric(kappa).stretch <= 1.01:
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
        for _ in range(4 if 0 < kappa < math.inf else 0):
            metric = self.metric(2.0 ** math.ceil(math.log2(kappa)))
            start = metric.start + (pull * float(metric.root.norms(row[None])[0]) if pull else 0.0)
            for more in self._slope_moves(metric, off):  # the cheap bound first
                if not math.isfinite(start + more):
                    return None
                room = metric.kappa * self.widths + (self.widths == 0)
                if np.all(moved + metric.rows * (start + more) < room):
                    return metric, start + more
            kappa *= 4.0
        return None

    def _slope_moves(self, metric, off):
        """Bounds on how far changes ``off`` (n,) of the rows' slopes move the fit."""
        with np.errstate(invalid="ignore"):  # a region without curvature bounds nothing
            by_rows = float(off @ metric.rows)
        yield by_rows
        if metric.kappa not in self.spreads:
            self.spreads[metric.kappa] = metric.root.spread(self.problem.X)
        yield min(by_rows, self.spreads[metric.kappa] * float(np.linalg.norm(off)))

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

    def spread(self, X):
        """Largest norm of ``X' c`` over vectors c of length 1."""
        if not np.all(np.isfinite(self.W)):
            return math.inf
        moved = X @ self.W.T
        small = moved @ moved.T if len(moved) < moved.shape[1] else moved.T @ moved
        return math.sqrt(max(float(np.linalg.eigvalsh(small)[-1]), 0.0))

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
        part = problem.X[first : first + _CHUNK] * np.sqrt(curvature[first : first + _CHUNK, None])
        hessian = hessian + part.T @ part
    scale = np.sqrt(np.diag(hessian))
    if not np.all(scale > 0):
        return _InverseRoot(np.full((p, p), np.inf))
    try:
        root = np.linalg.cholesky(hessian / scale[:, None] / scale)
    except np.linalg.LinAlgError:
        return _InverseRoot(np.full((p, p), np.inf))
    if np.min(np.diag(root)) < 1e-7:  # numerically singular: its inverse certifies nothing
        return _InverseRoot(np.full((p, p), np.inf))
    return _InverseRoot(linalg.solve_triangular(root, np.diag(1.0 / scale), lower=True, check_finite=False))


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
    start : float
        Norm of what may move the fit before any new row does: the solver's residual.
    reference : _InverseRoot or None
        That of the base Hessian, for a region of its own.
    """

    root: _InverseRoot
    kappa: float
    rows: np.ndarray
    stretch: float
    start: float
    reference: _InverseRoot | None = None

    @cached_property
    def inflation(self):
        """Any norm is at most this many times the norm in the base Hessian."""
        return 1.0 if self.reference is None else self.root.inflation(self.reference)

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
        curvature = loss.min_curvature(solution.r - d, solution.r + d)
        curvature = np.minimum(curvature, _STEEPEST)
    root = _inverse_root(problem, curvature)
    rows = root.norms(problem.X)
    stretch = 1.0
    if kappa and math.isfinite(kappa):  # a region of its own: compare its norms with the base Hessian's
        ratio = np.divide(rows, base.widths, out=np.zeros(n), where=base.widths > 0)
        stretch = float(np.max(ratio))
    start = float(root.norms(base.residual[None])[0]) if np.any(base.residual) else 0.0
    if not np.any(curvature):  # the duality-gap radius belongs to P
        start = solution.radius if loss.piecewise_linear else min(start, solution.radius)
    return Metric(root, kappa, rows, stretch, start, base.base_root if kappa else None)
