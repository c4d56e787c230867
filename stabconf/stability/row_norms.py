"""New rows as the bounds see them: each through one number, its norm in a reference metric.

What depends on a row through its norm alone is computed once per entry of ``grid``, and rows look it up by
``place``. With ``rounded`` the norms are rounded up by at most 0.4 % to an absolute grid, so that a million
rows have some thousand entries; otherwise every row is its own entry.
"""

import math

import numpy as np

from .base_fit import InverseRoot

__all__ = ["NewRows"]

_GRID = 250  # grid points per factor e


class NewRows:
    """Rows, the norms that stand for them, and which norm each row has.

    Attributes
    ----------
    rows : (m, p) array
    root : InverseRoot
        Of the reference metric.
    grid : (g,) array
        Norms; ``inf`` where the metric says nothing about a row.
    place : (m,) array of int
        Each row's position in ``grid``.
    rounded : bool
    """

    def __init__(self, rows: np.ndarray, root: InverseRoot, rounded: bool) -> None:
        self.rows = rows
        self.root = root
        self.rounded = rounded
        self.grid = root.norms(rows)
        self.place = np.arange(len(rows))
        if rounded:
            self.grid, self.place = _round_up(self.grid)

    def __len__(self) -> int:
        return len(self.place)

    def block(self, first: int, last: int) -> "NewRows":
        """The rows from ``first`` to ``last``, with the same norms to look up."""
        if first == 0 and last >= len(self):
            return self
        other = object.__new__(NewRows)
        other.rows = self.rows[first:last]
        other.place = self.place[first:last]
        other.root = self.root
        other.grid = self.grid
        other.rounded = self.rounded
        return other


def _round_up(norms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Norms on the grid, each once and ascending, and the place of every norm among them."""
    finite = np.isfinite(norms)
    size = np.maximum(np.where(finite, norms, 1.0), 1e-300)
    point = np.ceil(_GRID * np.log(size)).astype(int)
    lowest = int(point.min(initial=0))
    highest = int(point.max(initial=0))
    point = np.where(finite, point - lowest, highest - lowest + 1)
    used = np.flatnonzero(np.bincount(point, minlength=1))
    position = np.zeros(highest - lowest + 2, dtype=np.intp)
    position[used] = np.arange(len(used))
    grid = np.exp((used + lowest) / _GRID)
    if not finite.all():
        grid[-1] = math.inf
    return grid, position[point]
