"""Fits to rows that come in blocks, and tables for their stable intervals (theory, sections 2 and 4).

As `fit_rows` and `FrozenSets.of`, for more training rows than memory holds; `PartedResults` asks for both.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ..data.units import MAD_TO_SD, location_scale_from
from ..errors import AssumptionError
from ..losses import LAD, Loss
from ..rank import ceil_rank, kth_of_blocks
from ..solvers import BlockProblem, Problem, Solution, TieBreak, minimise_blocks
from ..stability import BlockFit
from ..threads import one_thread
from .fits import LEARNED
from .frozen import FrozenSets, stable_tables
from .score import Side, as_score
from .training import Fitted, Model, after, in_loss_unit, solved

_SAMPLE = 20_000  # rows that are looked at first


def check_blocks(model: Model, ridge: np.ndarray, lasso: np.ndarray) -> None:
    """Refuse models that need all rows in memory."""
    loss, way_out = model.loss, "or fit to a frame in memory"
    if not (loss.kind in ("step", "line") or (not loss.needs_prox and np.isfinite(loss.lipschitz))):
        raise AssumptionError(
            f"loss {loss.describe()!r} is not for rows that come in parts: use squared, lad, quantile, "
            f"huber, pseudo_huber or logcosh, {way_out}"
        )
    if lasso.any() or not np.all(ridge > 0):
        raise AssumptionError(
            f"{model.penalty.describe()} is not for rows that come in parts, which need a ridge penalty on "
            f"every coefficient: give penalty=0.01 with l1_ratio=0, {way_out}"
        )
    if not model.standardize or model.solving["solver"] not in ("auto", "newton"):
        raise AssumptionError(
            "standardize=False and other solvers than 'newton' are not for rows that come in parts: leave "
            f"both at their defaults, {way_out}"
        )


@dataclass(frozen=True)
class BlockRows:
    """Training rows in blocks of standardised rows (b, p) and responses (b,) in their own units."""

    blocks: Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]
    n: int
    ridge: np.ndarray  # penalty weights (p,)
    spans: bool  # whether a constant lies in the span of the columns

    @cached_property
    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Evenly spaced rows (m, p) and their responses (m,)."""
        places = np.linspace(0, self.n - 1, min(self.n, _SAMPLE)).astype(int)
        kept, first = [], 0
        for X, y in self.blocks():
            here = places[np.searchsorted(places, first) : np.searchsorted(places, first + len(y))] - first
            kept.append((X[here], y[here]))
            first += len(y)
        return np.vstack([X for X, _ in kept]), np.concatenate([y for _, y in kept])

    def location_scale(self, level: float | None) -> tuple[float, float]:
        """As that of responses in memory."""
        ranks = [ceil_rank(share, self.n) for share in (0.25, 0.75, level or 0.5)]
        ends = kth_of_blocks(lambda: (y for _, y in self.blocks()), self.sample[1], self.n, ranks)

        def distance(centre: float) -> float:
            return sum(float(np.sum(np.abs(y - centre))) for _, y in self.blocks()) / self.n

        return location_scale_from(ends, level, distance)

    def problem(self, loss: Loss, centre: float, scale: float) -> BlockProblem:
        """The problem of responses ``(y - centre) / scale``."""

        def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for X, y in self.blocks():
                yield X, (y - centre) / scale

        X, y = self.sample
        return BlockProblem(rows, self.n, loss, self.ridge, (X, (y - centre) / scale))


def _solve(problem: BlockProblem, model: Model) -> Solution:
    X, v = problem.sample
    if len(v) == problem.n:  # they are all in memory
        whole = Problem(X, v, problem.loss, problem.ridge, np.zeros(X.shape[1]))
        return solved(whole, model.solving)
    return minimise_blocks(problem, tol=model.solving["tol"], max_iter=model.solving["max_iter"])


@one_thread
def fit_blocks(rows: BlockRows, model: Model, constant: np.ndarray | None) -> Fitted:
    """As `fit_rows`; ``constant`` (p,) are coefficients of columns that add up to 1."""
    loss = model.loss
    centre, scale = rows.location_scale(loss.level if rows.spans else None)
    before = None
    if loss.in_unit(2.0) != loss:
        sigma, before = residual_scale_of_blocks(rows, model)
        loss = in_loss_unit(loss, sigma, scale)
    solution = _solve(rows.problem(loss, centre, scale), model)
    weights = rows.ridge, np.zeros(len(rows.ridge))
    return Fitted(centre, scale, loss, weights, constant, after(before, solution))


@one_thread
def residual_scale_of_blocks(rows: BlockRows, model: Model) -> tuple[float, Solution]:
    """As `residual_scale`."""
    centre, scale = rows.location_scale(0.5 if rows.spans else None)
    problem = rows.problem(LAD(), centre, scale)
    solution = _solve(problem, model)
    X, v = problem.sample
    some, middle = np.abs(v - X @ solution.x), ((rows.n + 1) // 2, rows.n // 2 + 1)
    each = partial(problem.residuals, solution.x)
    sizes = kth_of_blocks(lambda: (np.abs(r) for _, r in each()), some, rows.n, middle)
    return MAD_TO_SD * scale * float(np.mean(sizes)), solution


@one_thread
def tables_of_blocks(rows: BlockRows, fitted: Fitted, alphas: Collection[float], side: Side) -> FrozenSets:
    """The `FrozenSets` of stable intervals."""
    loss = fitted.loss
    problem = rows.problem(loss, fitted.centre, fitted.scale)
    stub = Problem(rows.sample[0][:1], np.empty(0), loss, rows.ridge, np.zeros(len(rows.ridge)))
    base = BlockFit(stub, fitted.solution, fitted.centre, fitted.scale, blocks=problem)
    tables = stable_tables(base, alphas, as_score(None, loss, side))
    return FrozenSets(rows.n, loss, LEARNED, TieBreak(), tables, None)
