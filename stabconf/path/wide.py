"""Paths with many columns and an L1 part: coefficients that it holds at 0 are left out of all systems.

What is left is small and changes by one row and column an event, so that its inverse is kept and updated
(theory, section 5). With soft rows it is that of the Hessian among the free coefficients; with steps it is
that of ``X_ZF P_F^-1 X_ZF'``, Z the data rows that are fitted exactly and F the free coefficients. One step
of refinement makes up for what updates lose.
"""

import numpy as np

from .batch import Batch

__all__ = ["WideBatch"]

_FRESH = 50  # events after which an inverse is made anew
_SINGULAR = 1e-10  # of a diagonal entry: a pivot below is none


class WideBatch(Batch):
    """A batch whose systems are solved path by path."""

    def __init__(self, fit, watched, force, length, limit):
        super().__init__(fit, watched, force, length, limit)
        self.ridge = fit.ridge
        self.data_soft = bool(fit.soft[0])
        # The coefficient of a row of the L1 part, -1 for data rows.
        self.column = np.where(watched >= fit.count, np.argmax(self.X, axis=1), -1)
        self.data_rows = self.X[self.column < 0]
        self.known = [None] * len(force)
        self.inverse = np.zeros((0, 0))  # not used: each path has its own in ``known``
        self.hessian = np.diag(fit.ridge) + fit.curvature
        if self.any_bounded:  # rows that come and go change it
            self.hessian = np.repeat(self.hessian[None], len(force), axis=0)

    def keep(self, which):
        super().keep(which)
        self.known = [self.known[line] for line in np.flatnonzero(which)]
        if self.hessian.ndim == 3:
            self.hessian = self.hessian[which]

    def _hessian(self, line):
        return self.hessian[line] if self.hessian.ndim == 3 else self.hessian

    def _direction(self):
        d = np.zeros(self.theta.shape)
        free = np.zeros(self.theta.shape)
        dm = np.zeros(self.slots.shape)
        find = self._soft_direction if self.data_soft else self._step_direction
        for line in self.lines:
            slots = self.slots[line]
            zero = (slots >= 0) & (self.column[slots] >= 0)
            at_zero = self.column[slots[zero]]
            self.theta[line, at_zero] = 0.0
            d[line], free[line], pull = find(line, at_zero, dm[line])
            dm[line, zero] = (pull - self.force[line])[at_zero]  # what holds a coefficient at 0
        return self._unless_held(d, free), dm

    def _soft_direction(self, line, at_zero, dm):
        """Direction (p,), twice, and the Hessian times it."""
        hessian, force = self._hessian(line), self.force[line]
        known = self.known[line]
        if known is None:
            some = np.delete(np.arange(len(force)), at_zero)
            known = _Inverse(some, hessian[np.ix_(some, some)])
            self.known[line] = known
        d = np.zeros(len(force))
        pull = np.zeros(len(force))
        for _ in range(2):
            d[known.index] += known.value @ (force - pull)[known.index]
            pull = hessian @ d
        return d, d, pull

    def _step_direction(self, line, at_zero, dm):
        """Direction (p,), that without the data rows in slots, and the part of the force that they and the
        penalty take up; fills in the multipliers of those rows."""
        weight = 1.0 / self.ridge
        free = weight * self.force[line]
        weight[at_zero] = 0.0
        d = weight * self.force[line]
        slots = self.slots[line]
        data = np.flatnonzero((slots >= 0) & (self.column[slots] < 0))
        if not len(data):
            return d, free, self.ridge * d
        known = self.known[line]
        if known is None:
            some = np.flatnonzero(weight)
            X = self.X[np.ix_(slots[data], some)]
            known = _Inverse(slots[data], (X * weight[some]) @ X.T)
            self.known[line] = known
        if known.rows is None:
            known.rows = self.X[known.index]
        X = known.rows
        # Inner step rows are fitted exactly: what steps have left of rounding errors is taken back.
        off = self.v[known.index] - X @ self.theta[line]
        self.theta[line] += weight * ((known.value @ off) @ X)
        multipliers = np.zeros(len(known.index))
        for _ in range(2):
            change = -known.value @ (X @ d)
            multipliers += change
            d = weight * (self.force[line] + multipliers @ X)
        place = np.empty(len(self.X), dtype=int)
        place[slots[data]] = data
        dm[place[known.index]] = multipliers
        return d, free, self.ridge * d - multipliers @ X

    def _along(self, moves):
        out = np.empty((len(moves), len(self.X)))
        data = self.column < 0
        out[:, data] = moves @ self.data_rows.T
        out[:, ~data] = moves[:, self.column[~data]]
        return out

    def _leave(self, lines, slot, towards):
        rows = self.slots[lines, slot[lines]]
        super()._leave(lines, slot, towards)
        for line, row in zip(lines, rows, strict=True):
            self._changed(line, row, joins=False)

    def _cross(self, lines, row, onto):
        before = self.slots[lines].copy()
        super()._cross(lines, row, onto)
        for line, was, entering in zip(lines, before, row[lines], strict=True):
            changed = np.flatnonzero(self.slots[line] != was)
            if len(changed) == 1 and was[changed[0]] < 0:
                self._changed(line, entering, joins=True)
            elif len(changed):
                self.known[line] = None

    def _changed(self, line, row, joins):
        """Keep up with a row that joins the slots or leaves them."""
        known, j = self.known[line], self.column[row]
        if known is None:
            return
        known.age += 1
        if known.age > _FRESH:
            self.known[line] = None
        elif self.data_soft:
            if joins:
                known.drop(j)
            else:
                column = self._hessian(line)[:, j]
                known.add(j, column[known.index], column[j])
        elif j >= 0:
            known.change(self.X[known.index, j] / np.sqrt(self.ridge[j]), -1.0 if joins else 1.0)
        elif joins:
            slots = self.slots[line]
            weight = 1.0 / self.ridge
            weight[self.column[slots[(slots >= 0) & (self.column[slots] >= 0)]]] = 0.0
            x = weight * self.X[row]
            known.add(row, self.X[known.index] @ x, self.X[row] @ x)
        else:
            known.drop(row)

    def _change_hessian(self, lines, row, sign):
        for line, x, way in zip(lines, self.X[row], sign, strict=True):
            self.hessian[line] += way * np.outer(x, x)
            if self.known[line] is not None:
                self.known[line].change(x[self.known[line].index], way)


class _Inverse:
    """The inverse ``value`` (k, k) of a positive definite matrix whose rows and columns ``index`` (k,) come
    and go; NaN where it has none."""

    def __init__(self, index, matrix):
        self.index = index
        self.rows = None  # of the design that it belongs to, for who cares
        self.age = 0
        scale = np.sqrt(np.diag(matrix))
        try:
            self.value = np.linalg.inv(matrix / scale[:, None] / scale) / scale[:, None] / scale
        except np.linalg.LinAlgError:
            self.value = np.full(matrix.shape, np.nan)

    def add(self, j, column, corner):
        """A row and column: ``column`` (k,) among the others, ``corner`` its own entry."""
        moved = np.append(self.value @ column, -1.0)
        pivot = corner - column @ moved[:-1]
        share = 1.0 / pivot if pivot > _SINGULAR * corner else np.nan
        self.value = np.pad(self.value, (0, 1)) + np.outer(share * moved, moved)
        self.index = np.append(self.index, j)
        self.rows = None

    def drop(self, j):
        """A row and column less."""
        at = int(np.flatnonzero(self.index == j)[0])
        rest = np.delete(np.arange(len(self.index)), at)
        column = self.value[rest, at]
        self.value = self.value[np.ix_(rest, rest)] - np.outer(column / self.value[at, at], column)
        self.index = self.index[rest]
        self.rows = None

    def change(self, x, sign):
        """Add ``sign * x x'``."""
        moved = self.value @ x
        pivot = 1.0 + sign * (x @ moved)
        share = sign / pivot if pivot > _SINGULAR else np.nan
        self.value = self.value - np.outer(share * moved, moved)
