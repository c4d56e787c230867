"""Paths with many columns and an L1 part: coefficients that it holds at 0 are left out of all systems.

What is left is small and changes by one row and column an event, so that its inverse is kept and updated
(theory, section 5). With soft rows it is that of the Hessian among the free coefficients; with steps it is
that of ``X_ZF P_F^-1 X_ZF'``, Z the data rows that are fitted exactly and F the free coefficients. One step
of refinement makes up for what updates lose.
"""

import copy
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import blas

from .batch import Batch
from .clipped import ClippedFit

__all__ = ["WideBatch"]

_FRESH = 200  # events after which an inverse is made anew, if what it solves is exact until then
_ROOM = 64  # rows and columns that may come meanwhile
_OFTEN = 8  # events after which rows that are fitted exactly are looked at
_REFINEMENTS = 4
_EXACT, _SOLVED = 1e-12, 1e-11  # relative errors of a solution: to stop at, and to be content with
_LOST = 1e-5  # share of a number below which its difference to another has lost too many digits


class WideBatch(Batch):
    """A batch whose systems are solved path by path."""

    def __init__(
        self, fit: ClippedFit, watched: np.ndarray, force: np.ndarray, length: float, limit: bool
    ) -> None:
        super().__init__(fit, watched, force, length, limit)
        self.ridge = fit.ridge
        self.data_soft = bool(fit.soft[0])
        # The coefficient of a row of the L1 part, -1 for data rows.
        self.column = np.where(watched >= fit.count, np.argmax(self.X, axis=1), -1)
        self.data_rows = self.X[self.column < 0]
        self.known: list[_Inverse | None] = [None] * len(force)
        self.alike = True  # all paths stand where they begin
        self.inverse = np.zeros((0, 0))  # not used: each path has its own in ``known``
        self.hessian = np.diag(fit.ridge) + fit.curvature
        if self.any_bounded:  # rows that come and go change it
            self.hessian = np.repeat(self.hessian[None], len(force), axis=0)

    def hold_out(self, fit: ClippedFit, watched: np.ndarray, rows: np.ndarray) -> None:
        if self.data_soft and self.hessian.ndim == 2:
            self.hessian = np.repeat(self.hessian[None], len(rows), axis=0)
        super().hold_out(fit, watched, rows)
        self.alike = False

    def keep(self, which: np.ndarray) -> None:
        super().keep(which)
        self.known = [self.known[line] for line in np.flatnonzero(which)]
        if self.hessian.ndim == 3:
            self.hessian = self.hessian[which]

    def _hessian(self, line: int) -> np.ndarray:
        return self.hessian[line] if self.hessian.ndim == 3 else self.hessian

    def _direction(self) -> tuple[np.ndarray, np.ndarray]:
        d = np.zeros(self.theta.shape)
        free = np.zeros(self.theta.shape)
        dm = np.zeros(self.slots.shape)
        find = self._soft_direction if self.data_soft else self._step_direction
        for line in self.lines.tolist():
            slots = self.slots[line]
            zero = (slots >= 0) & (self.column[slots] >= 0)
            at_zero = self.column[slots[zero]]
            self.theta[line, at_zero] = 0.0
            if self.alike and line:
                self.known[line] = copy.deepcopy(self.known[0])
            d[line], free[line], pull = find(line, at_zero, dm[line])
            dm[line, zero] = (pull - self.force[line])[at_zero]  # what holds a coefficient at 0
        self.alike = False
        return self._unless_held(d, free), dm

    def _soft_direction(
        self, line: int, at_zero: np.ndarray, dm: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Direction (p,), twice, and the Hessian times it."""
        hessian, force = self._hessian(line), self.force[line]
        some = np.delete(np.arange(len(force)), at_zero)
        size = np.sqrt(np.diag(hessian))
        d = np.zeros(len(force))

        def times(part: np.ndarray) -> np.ndarray:
            d[known.index] = part
            return (hessian @ d)[known.index]

        for known in self._known(line, lambda: _Inverse(some, hessian[np.ix_(some, some)])):
            d[known.index], good = known.solve(times, force[known.index], size[known.index])
            if good:
                break
        return d, d, hessian @ d

    def _step_direction(
        self, line: int, at_zero: np.ndarray, dm: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Direction (p,), that without the data rows in slots, and the part of the force that they and the
        penalty take up; fills in the multipliers of those rows."""
        force = self.force[line]
        weight = 1.0 / self.ridge
        free = weight * force
        weight[at_zero] = 0.0
        slots = self.slots[line]
        data = np.flatnonzero((slots >= 0) & (self.column[slots] < 0))
        if not len(data):
            return weight * force, free, self.ridge * (weight * force)

        def fresh() -> _Inverse:
            some = np.flatnonzero(weight)
            X = self.X[np.ix_(slots[data], some)]
            return _Inverse(slots[data], (X * weight[some]) @ X.T, self.X[slots[data]])

        def times(part: np.ndarray) -> np.ndarray:
            return X @ (weight * (part @ X))

        for known in self._known(line, fresh):
            X = known.rows
            right = -X @ (weight * force)
            multipliers, good = known.solve(times, right)
            if good:
                break
        if known.age % _OFTEN == 0:
            # Inner step rows are fitted exactly: what steps have left of rounding errors is taken back.
            off = self.v[known.index] - X @ self.theta[line]
            self.theta[line] += weight * ((known.value @ off) @ X)
        dm[data[np.argsort(slots[data])]] = multipliers[np.argsort(known.index)]
        pull = multipliers @ X
        d = weight * (force + pull)
        return d, free, self.ridge * d - pull

    def _known(self, line: int, fresh: "Callable[[], _Inverse]") -> "Iterator[_Inverse]":
        """The inverse of a path, and a fresh one where that is not good enough."""
        known = self.known[line]
        if known is not None:
            yield known
        made = fresh()
        self.known[line] = made
        yield made

    def _along(self, moves: np.ndarray) -> np.ndarray:
        out = np.empty((len(moves), len(self.X)))
        data = self.column < 0
        out[:, data] = moves @ self.data_rows.T
        out[:, ~data] = moves[:, self.column[~data]]
        return out

    def _leave(self, lines: np.ndarray, slot: np.ndarray, towards: np.ndarray) -> None:
        rows = self.slots[lines, slot[lines]]
        super()._leave(lines, slot, towards)
        for line, row in zip(lines, rows, strict=True):
            self._changed(line, row, joins=False)

    def _cross(self, lines: np.ndarray, row: np.ndarray, onto: np.ndarray) -> None:
        before = self.slots[lines].copy()
        super()._cross(lines, row, onto)
        for line, was, entering in zip(lines, before, row[lines], strict=True):
            changed = np.flatnonzero(self.slots[line] != was)
            if len(changed) == 1 and was[changed[0]] < 0:
                self._changed(line, entering, joins=True)
            elif len(changed):
                self.known[line] = None

    def _changed(self, line: int, row: int, joins: bool) -> None:
        """Keep up with a row that joins the slots or leaves them."""
        known, j = self.known[line], self.column[row]
        if known is None:
            return
        if self.data_soft:
            if joins:
                good = known.drop(j)
            else:
                column = self._hessian(line)[:, j]
                good = known.add(j, column[known.index], column[j])
        elif j >= 0:
            good = known.change(known.rows[:, j] / np.sqrt(self.ridge[j]), -1.0 if joins else 1.0)
        elif joins:
            slots = self.slots[line]
            weight = 1.0 / self.ridge
            weight[self.column[slots[(slots >= 0) & (self.column[slots] >= 0)]]] = 0.0
            x = weight * self.X[row]
            good = known.add(row, known.rows @ x, self.X[row] @ x, self.X[row])
        else:
            good = known.drop(row)
        if not good:
            self.known[line] = None

    def _change_hessian(self, lines: np.ndarray, x: np.ndarray, sign: np.ndarray) -> None:
        for line, each, way in zip(lines, x, sign, strict=True):
            self.hessian[line] += way * np.outer(each, each)
            known = self.known[line]
            if known is not None and not known.change(each[known.index], way):
                self.known[line] = None


class _Inverse:
    """The inverse ``value`` (k, k) of a positive definite matrix whose rows and columns ``index`` (k,) come
    and go; NaN where it has none. Changes say whether it is still good for more.

    It lies in a larger matrix of zeros, so that changes are made in place. ``rows`` (k, p), where given,
    are design rows that come and go with the index.
    """

    def __init__(self, index: np.ndarray, matrix: np.ndarray, rows: np.ndarray | None = None) -> None:
        self.count = len(index)
        self.age = 0
        self._index = np.pad(index, (0, _ROOM))
        self._rows = None if rows is None else np.pad(rows, ((0, _ROOM), (0, 0)))
        self._space = np.zeros((self.count + _ROOM, self.count + _ROOM))
        scale = np.sqrt(np.diag(matrix))
        try:
            inverse = np.linalg.inv(matrix / scale[:, None] / scale) / scale[:, None] / scale
        except np.linalg.LinAlgError:
            inverse = np.full(matrix.shape, np.nan)
        self._space[: self.count, : self.count] = inverse

    @property
    def value(self) -> np.ndarray:
        return self._space[: self.count, : self.count]

    @property
    def index(self) -> np.ndarray:
        return self._index[: self.count]

    @property
    def rows(self) -> np.ndarray:
        assert self._rows is not None
        return self._rows[: self.count]

    def solve(
        self,
        times: Callable[[np.ndarray], np.ndarray],
        right: np.ndarray,
        size: np.ndarray | float = 1.0,
    ) -> tuple[np.ndarray, bool]:
        """The solution of a system, refined, and whether it is one: ``times`` is the matrix as a function,
        ``size`` what errors are relative to."""
        found = self.value @ right
        most = np.max(np.abs(right) / size)
        for _ in range(_REFINEMENTS):
            left = right - times(found)
            error = np.max(np.abs(left) / size)
            if error <= _EXACT * most:
                return found, True
            found = found + self.value @ left
        return found, bool(error <= _SOLVED * most)

    def _good(self, pivot: float, size: float) -> bool:
        self.age += 1
        return pivot > _LOST * size and self.age <= _FRESH

    def _update(self, factor: float, vector: np.ndarray) -> None:
        """``factor * vector vector'`` more, of a vector (k,) or longer."""
        whole = np.pad(vector, (0, len(self._space) - len(vector)))
        blas.dger(factor, whole, whole, a=self._space.T, overwrite_a=1)  # symmetric: in place

    def add(self, j: int, column: np.ndarray, corner: float, row: np.ndarray | None = None) -> bool:
        """A row and column: ``column`` (k,) among the others, ``corner`` its own entry."""
        moved = np.append(self.value @ column, -1.0)
        pivot = corner - column @ moved[:-1]
        if not self._good(pivot, corner) or self.count == len(self._space):
            return False
        self._update(1.0 / pivot, moved)
        self._index[self.count] = j
        if self._rows is not None:
            self._rows[self.count] = row
        self.count += 1
        return True

    def drop(self, j: int) -> bool:
        """A row and column less; the last one takes its place."""
        at = int(np.flatnonzero(self.index == j)[0])
        last = self.count - 1
        column = self.value[at].copy()
        self._update(-1.0 / column[at], column)
        self._space[at] = self._space[last]
        self._space[:, at] = self._space[:, last]
        self._space[at, at] = self._space[last, last]
        self._space[last] = 0.0
        self._space[:, last] = 0.0
        self._index[at] = self._index[last]
        if self._rows is not None:
            self._rows[at] = self._rows[last]
        self.count = last
        return self._good(1.0, 1.0)

    def change(self, x: np.ndarray, sign: float) -> bool:
        """``sign * x x'`` more."""
        moved = self.value @ x
        pivot = 1.0 + sign * (x @ moved)
        if not self._good(pivot, 1.0):
            return False
        self._update(-sign / pivot, moved)
        return True
