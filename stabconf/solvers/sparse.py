"""Designs whose columns mostly repeat one value, such as the indicators of a factor (theory, section 4).

A centred and scaled indicator is a sparse column less a constant, so such a design is ``X = S - 1 m'`` with
S sparse. Newton systems and those of an active set are of one kind, and sparse with two more unknowns
``q = m' theta`` and ``t = 1' u``: their work grows with the entries of S, not with the cube of the columns.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

_MANY = 100  # columns from which on a design may be worth taking as sparse
_SPARSE = 0.1  # share of entries that are not their column's most common value, at the most
_SAMPLE = 101  # rows in which the most common value of a column is looked for
_EXACT = 1e-9  # relative residual of a solution that is taken
_ROUNDS = 3  # of iterative refinement


@dataclass(frozen=True)
class SparseDesign:
    """``X = S - 1 m'`` with ``S`` (n, p) sparse by rows and ``m`` (p,)."""

    S: sparse.csr_array
    m: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> "SparseDesign | None":
        """The same design; None where too many entries differ from their columns' most common values."""
        n, p = X.shape
        if p < _MANY or not n:
            return None
        sample = X[np.linspace(0, n - 1, min(n, _SAMPLE)).astype(int)]
        common = np.quantile(sample, 0.5, axis=0, method="lower")
        if np.mean(sample != common) > _SPARSE:
            return None
        other = X != common  # noqa: SIM300
        dense = np.mean(other, axis=0) > 0.5
        constant = ~other.any(axis=0)
        common[dense | constant] = 0.0
        other[:, dense | constant] = True
        rows, columns = np.nonzero(other)
        if len(rows) > _SPARSE * n * p:
            return None
        S = sparse.csr_array((X[rows, columns] - common[columns], (rows, columns)), shape=(n, p))
        return cls(S, -common)

    def take(self, rows: np.ndarray, columns: np.ndarray) -> "SparseDesign":
        """Some rows and columns of it, by their numbers."""
        return SparseDesign(self.S[rows][:, columns], self.m[columns])

    def newton_step(self, w: np.ndarray, diagonal: np.ndarray, gradient: np.ndarray) -> np.ndarray | None:
        """The solution (p,) of ``(diag(diagonal) + X' diag(w) X) x = gradient``; None where the matrix is
        singular, or nearly so. Its unknowns besides are ``q = m' x`` and ``t = s' x - sum(w) q``."""
        total, s = w.sum(), self.S.T @ w
        gram = self.S.T @ sparse.diags_array(w) @ self.S + sparse.diags_array(diagonal)
        columns = sparse.csr_array(np.column_stack([-s, -self.m]))
        rows = sparse.csr_array(np.stack([self.m, s]))
        corner = sparse.csr_array([[-1.0, 0.0], [-total, -1.0]])
        found = _solution([[gram, columns], [rows, corner]], np.append(gradient, [0.0, 0.0]))
        return None if found is None else found[:-2]

    def solve(
        self, ridge: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """``theta`` (p,) and ``u`` (n,) with ``ridge theta - X' u = a`` and ``X theta = b``; None where the
        system is singular, or nearly so."""
        n, p = self.S.shape
        m = sparse.csr_array(self.m[None])
        ones = sparse.csr_array(np.ones((1, n)))
        one = sparse.csr_array([[1.0]])
        blocks = [
            [sparse.diags_array(ridge), -self.S.T, None, m.T],
            [self.S, None, -ones.T, None],
            [-m, None, one, None],
            [None, -ones, None, one],
        ]
        found = _solution(blocks, np.concatenate([a, b, [0.0, 0.0]]))
        return None if found is None else (found[:p], found[p : p + n])


def _solution(blocks: list[list[sparse.sparray | None]], right: np.ndarray) -> np.ndarray | None:
    """The solution of a sparse system; None where it is singular, or nearly so."""
    system = sparse.block_array(blocks, format="csc")
    try:
        factors = splu(system)
    except RuntimeError:  # exactly singular
        return None
    found = factors.solve(right)
    for _ in range(_ROUNDS):
        found += factors.solve(right - system @ found)
    off = np.abs(right - system @ found)
    size = abs(system) @ np.abs(found) + np.abs(right)
    return found if np.all(off <= _EXACT * np.maximum(size, 1e-300)) else None
