"""Far ends of the sets of many new rows on one side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...rank import Rank

__all__ = ["Ends"]


@dataclass(frozen=True)
class Ends:
    """Ends on one side, one row per rank, in units of the fit.

    Attributes
    ----------
    ends : (len(ranks), m) array
        Infinite where a set has no end.
    simple : (len(ranks), m) array of bool
        False where the set must be taken apart piece by piece, and ``ends`` says nothing.
    tol : (len(ranks), m) array
        How far outside of the exact one an end may be.
    """

    ends: np.ndarray
    simple: np.ndarray
    tol: np.ndarray

    @classmethod
    def unknown(cls, ranks: Sequence[Rank], m: int) -> "Ends":
        """Nothing known of m rows."""
        shape = len(ranks), m
        return cls(np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.zeros(shape))
