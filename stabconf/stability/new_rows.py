"""New rows as the bounds see them: each through one number, its norm in a reference metric.

What depends on a row through its norm alone is computed an entry of ``grid``, and rows look it up by
``place``. With ``rounded`` the norms are rounded up by at most 0.4 % to an absolute grid, so that a million
rows have some thousand entries; otherwise every row is its own entry.
"""

import math

import numpy as np

__all__ = ["NewRows"]

_GRID = 250  # grid points per factor e


class NewRows:
    """Rows, the norms that stand for them, and which norm each row has.

    Attributes
    ----------
    rows : (m, p) array
    root : inverse root of the reference metric
    grid : (g,) array
        Norms; ``inf`` where the metric says nothing about a row.
    place : (m,) array of int
        Each row's position in ``grid``.
    rounded : bool
    """

    def __init__(self, rows, root, rounded):
        self.rows, self.root, self.rounded = rows, root, rounded
        self.grid, self.place = root.norms(rows), np.arange(len(rows))
        if rounded:
            self.grid, self.place = _round_up(self.grid)

    def __len__(self):
        return len(self.place)

    def block(self, first, last):
        """The rows from ``first`` to ``last``, with the same norms to look up."""
        if first == 0 and last >= len(self):
            return self
        other = object.__new__(NewRows)
        other.rows, other.place = self.rows[first:last], self.place[first:last]
        other.root, other.grid, other.rounded = self.root, self.grid, self.rounded
        return other


def _round_up(norms):
    """Norms on the grid, each once and ascending, and the place of every norm among them."""
    finite = np.isfinite(norms)
    size = np.maximum(np.where(finite, norms, 1.0), 1e-300)
    point = np.ceil(_GRID * np.log(size)).astype(int)
    lowest, highest = int(point.min(initial=0)), int(point.max(initial=0))
    point = np.where(finite, point - lowest, highest - lowest + 1)
    used = np.flatnonzero(np.bincount(point, minlength=1))
    position = np.zeros(highest - lowest + 2, dtype=np.intp)
    position[used] = np.arange(len(used))
    grid = np.exp((used + lowest) / _GRID)
    if not finite.all():
        grid[-1] = math.inf
    return grid, position[point]
