"""Clusters of rows that depend on each other: ranks that hold for a row of a new one (theory, section 6).

Clusters must be exchangeable, and rows within each. A cluster is held out whole, every cluster has the same
weight, spread evenly over its rows, and so has the new row's own. `heldout` ranks by these weights.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import AssumptionError, InputError
from ..rank import Peers, conformal_rank
from .intervals import Intervals


@dataclass(frozen=True)
class Clusters:
    """The cluster of every training row."""

    code: np.ndarray  # (n,): from 0 to the number of clusters less 1, each there
    name: str  # what they are, a column say

    def __post_init__(self) -> None:
        if self.count < 2:
            raise InputError(
                f"folds={self.name!r} is the same in all training rows: give a column with a value for "
                "each cluster, 2 or more"
            )

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(np.max(self.code)) + 1

    def rows(self, which: np.ndarray) -> np.ndarray:
        """The rows of some clusters."""
        return np.flatnonzero(np.isin(self.code, which))

    def parts(self, m: int, parts: tuple[tuple[np.ndarray, Peers], ...]) -> tuple[tuple[np.ndarray, Peers]]:
        """The m new rows, ranked among all clusters; refused where they are in groups or have weights."""
        if any(peers.which is not None or peers.weights is not None for _, peers in parts):
            raise AssumptionError(
                f"folds={self.name!r} keeps clusters together, which has no guarantee with groups or "
                "weights: drop one of them"
            )
        peers = Peers(len(self.code), None, 1.0 / np.bincount(self.code)[self.code], np.ones(m))
        return ((np.arange(m), peers),)

    def labelled(self, intervals: Intervals, count: int, share: float, words: str) -> Intervals:
        """`Intervals` from ranks among ``count`` clusters, with what they promise."""
        says = (
            f"covers a row of a new cluster with probability at least {share:.3g}{words} if clusters "
            f"({self.name}) are exchangeable, and rows within each"
        )
        k = conformal_rank(intervals.alpha, count)
        return replace(intervals, k=k, n=count, unit="clusters", promise=share, guarantee=says)
