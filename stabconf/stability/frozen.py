"""A base fit without its rows: what stable intervals at some levels need of it (theory, section 4).

An order statistic of ``score + move * norm`` is one of the rows whose score is near the plain order
statistic, while moves are small; those rows are kept, and the others counted. `Metric.holds` says up to
which move that is right, and larger moves count as infinite, which encloses. `FrozenSets` asks for these.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ..rank import Rank, Scoring
from .base_fit import BaseFit, InverseRoot, Level, Metric
from .moves import WORN, needs_range, region_growth

_FAR = 100.0  # times the largest norm of a training row: up to there curvature regions are kept
_LEAST = 1000  # rows
_HALVINGS = 80
_SURELY = 1.0 - 1e-9  # against rounding


@dataclass(frozen=True)
class FrozenFit(BaseFit):
    """A `BaseFit` with some of its rows and all of its metrics."""

    n: int = field(kw_only=True)
    base_root: InverseRoot = field(kw_only=True)
    finest_region: float = field(kw_only=True)
    lines: list[tuple[Level, Level]] = field(kw_only=True)  # `ceilings`; empty for a Lipschitz loss

    def ceilings(self, score: Scoring, rank: Rank, metric: Metric) -> list[tuple[Level, Level]]:
        return self.lines

    def metric(self, kappa: float | None) -> Metric:
        """The `Metric` of a region; one that bounds nothing where it is not kept."""
        if kappa is None or math.isinf(kappa):
            return self.metrics[kappa]
        near = [size for size in self.metrics if size and abs(size / kappa - 1.0) < 1e-6]
        if not near:
            return Metric(self.base_root, kappa, np.empty(0), math.inf, math.inf)
        return self.metrics[near[0]]


def frozen_fit(
    base: BaseFit, bound: str, score: Scoring, rank: Rank, entries: int
) -> tuple[FrozenFit, int]:
    """The `FrozenFit` for one order statistic by the bound "norm" or "curvature", with about so many
    entries; and the number of rows below it that are not kept."""
    widest = None if bound == "norm" else math.inf
    metrics = {widest: base.metric(widest), **(_regions(base) if bound == "curvature" else {})}
    count = min(max(_LEAST, entries // (1 + len(metrics))), base.n)
    (level,) = base.kth(lambda X, r: score.values(r), int(rank.mass))
    (cut,) = base.kth(lambda X, r: np.abs(score.values(r) - level), count)
    residuals: list[np.ndarray] = []
    rows: dict[float | None, list[np.ndarray]] = {kappa: [] for kappa in metrics}
    below, above, left = 0, math.inf, count
    stay = dict.fromkeys(metrics, math.inf)
    for X, r in base.parts():
        values = score.values(r)
        kept = np.flatnonzero(np.abs(values - level) <= cut)[:left]
        left -= len(kept)
        residuals.append(r[kept])
        rest = np.delete(np.arange(len(r)), kept)
        under = values[rest] < level
        lower, upper = rest[under], rest[~under]
        below += len(lower)
        above = min(above, float(np.min(values[upper], initial=math.inf)))
        for kappa, metric in metrics.items():
            norms = base.norms_of(X, metric)
            rows[kappa].append(norms[kept])
            with np.errstate(divide="ignore", invalid="ignore"):  # moves at which scores reach the level
                moves = (level - values[lower]) / score.norms(norms[lower])
            stay[kappa] = float(np.min(np.where(np.isnan(moves), 0.0, moves), initial=stay[kappa]))
    near = np.concatenate(residuals)
    values, among = score.values(near), Rank(int(rank.mass) - below)
    slim: dict[float | None, Metric] = {}
    for kappa, metric in metrics.items():
        own = np.concatenate(rows[kappa])
        holds = _SURELY * _up_to(values, score.norms(own), among, above, stay[kappa])
        root = metric.root if kappa is None else base.base_root
        slim[kappa] = replace(metric, root=root, rows=own, holds=holds)
    none = np.empty(0)
    made = FrozenFit(
        replace(base.problem, X=base.problem.X[:1].copy(), v=none),
        replace(base.solution, r=near, multipliers=none, l1_multipliers=none, e=none),
        base.centre,
        base.scale,
        metrics=slim,
        n=base.n,
        finest_region=base.finest_region if bound == "curvature" else 1.0,
        base_root=base.base_root,
        lines=base.ceilings(score, rank, metrics[widest]) if needs_range(base.problem.loss) else [],
    )
    return made, below


def _regions(base: BaseFit) -> dict[float | None, Metric]:
    """Metrics of the curvature regions that new rows can need, unless they are very far."""
    if base.problem.loss.min_curvature(-np.inf, np.inf) > 0 or not 0 < base.finest_region < math.inf:
        return {}
    steepest = max(base.steepest(-1), base.steepest(1))
    if math.isinf(steepest):
        largest = 10.0 * np.max(np.abs(base.solution.r))
        steepest = float(max(base.slope(largest, -1), base.slope(largest, 1)))
    pull = _FAR * steepest * base.largest(lambda X, r: base.widths_of(X))
    out: dict[float | None, Metric] = {}
    kappa = base.finest_region
    while kappa < math.inf:
        out[kappa] = metric = base.metric(kappa)
        if kappa >= pull and (metric.worn >= WORN or metric.limit > pull):
            break
        kappa *= region_growth(base.n)
    return out


def _up_to(values: np.ndarray, rates: np.ndarray, rank: Rank, above: float, most: float) -> float:
    """The largest move, at most ``most``, at which the order statistic is not above a score."""

    def stays(move: float) -> bool:
        with np.errstate(invalid="ignore"):
            return bool(rank.kth(values + move * rates) <= above)

    if math.isinf(above) or (math.isfinite(most) and stays(most)):
        return most
    low, high = 0.0, most if math.isfinite(most) else 1.0
    while math.isinf(most) and stays(high) and high < 1e300:
        low, high = high, 4.0 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stays(middle) else (low, middle)
    return low
