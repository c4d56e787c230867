"""Tables from which stable and split intervals are made without the training rows (theory, sections 4, 6).

`Results.predictor` makes `FrozenSets`. They answer what `make_intervals` asks of `Fits`, at the levels and
on the side that they were made for, with the same numbers.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..losses import Loss
from ..rank import Peers, Rank
from ..solvers import TieBreak
from ..stability import BaseFit, FrozenFit, default_bound, frozen_fit
from ..threads import one_thread
from .enclosure import bound_of, enclosed
from .fits import Fits
from .heldout import fit_without, split_units
from .intervals import Intervals, ranked_intervals
from .request import Method, Request
from .score import Score, Side

_ENTRIES = 180_000  # numbers of stable tables, which are below 1.5 MB


@dataclass(frozen=True)
class _Kept(Peers):
    """`Peers` of which some, surely ``below`` every order statistic, are left out."""

    below: int = 0

    def rank(self, alpha: float) -> Rank:
        made = super().rank(alpha)
        return replace(made, mass=made.mass - self.below)


class _Table(NamedTuple):
    """What `enclosed` asks of fits, at one level; ``below`` rows are not kept."""

    base: FrozenFit
    below: int


@dataclass(frozen=True)
class SplitTable:
    """What split intervals need: a fit to some rows, and order statistics of the others' scores."""

    predict: Callable[[np.ndarray], np.ndarray]
    levels: dict[float, float]  # by alpha
    count: int  # of the rows that calibrate

    @classmethod
    def of(cls, fits: Fits, asked: Request) -> "SplitTable":
        """The table for the levels of a request."""
        held, fitted = split_units(fits.n, asked)
        predict = fit_without(fits, asked, fitted, held)
        scores = asked.score.values(fits.y[held] - predict(fits.X[held]), held)
        ranks = {alpha: Peers(len(held)).rank(alpha) for alpha in asked.alphas}
        return cls(predict, {alpha: float(rank.kth(scores)) for alpha, rank in ranks.items()}, len(held))


@dataclass(frozen=True)
class FrozenSets:
    """Tables for some levels and one side."""

    n: int  # training rows
    loss: Loss
    given: str  # what the guarantee is given
    ties: TieBreak
    stable: dict[float, _Table]  # by alpha; empty where the method was not asked for
    split: SplitTable | None

    @classmethod
    @one_thread
    def of(
        cls, fits: Fits, alphas: Collection[float], side: Side, methods: Collection[str], **options: Any
    ) -> "FrozenSets":
        """The tables of fits; ``options`` are those of split."""
        asked = Request.of(fits, fits.X[:0], tuple(alphas), side=side, **options)
        stable: dict[float, _Table] = {}
        if "stable" in methods:
            bound_of(fits)  # refuses where its assumptions fail
            stable = stable_tables(fits.base, alphas, asked.score)
        split = SplitTable.of(fits, asked) if "split" in methods else None
        return cls(fits.n, fits.loss, fits.given, fits.ties, stable, split)

    def coordinates(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `Fits.coordinates`."""
        return self.ties.coordinates(rows), self.ties.outside(rows)


def stable_tables(base: BaseFit, alphas: Collection[float], score: Score) -> dict[float, _Table]:
    """A table for each level."""
    bound, entries = default_bound(base.problem.loss), _ENTRIES // max(1, len(alphas))
    ranks = {alpha: Peers(base.n).rank(alpha) for alpha in alphas}
    return {alpha: _Table(*frozen_fit(base, bound, score, rank, entries)) for alpha, rank in ranks.items()}


def _stable(fits: FrozenSets, asked: Request) -> list[Intervals]:
    out = []
    for alpha in asked.alphas:
        table = fits.stable[alpha]
        among = replace(asked, peers=_Kept(fits.n, below=table.below))
        out.append(enclosed(table, among, alpha, default_bound(fits.loss)))
    return out


def _split(fits: FrozenSets, asked: Request) -> list[Intervals]:
    table = fits.split
    assert table is not None
    centre = table.predict(asked.rows)
    out = []
    for alpha in asked.alphas:
        ends = asked.score.own_ends(np.full(len(centre), table.levels[alpha]), asked.own, centre)
        out.append(ranked_intervals(*ends, Peers(table.count), alpha, asked.side, "split", centre=centre))
    return out


FROZEN_METHODS = {"stable": Method(_stable, ()), "split": Method(_split, (), together=True)}
