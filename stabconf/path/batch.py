"""Paths under way: many at once, from event to event (theory, section 5).

`following.follow` starts a batch and asks it to advance until every path has arrived. Arrays have one row
per path. ``slots`` hold the inner step rows of a path, -1 if empty.
"""

import numpy as np

from .clipped import ClippedFit

__all__ = ["Batch", "solve"]

_VANISHED = 1e-4  # of the length: what vanishing weights can hold is less
_STILL = 1e-11  # a relative movement below this is none


class Batch:
    """Paths under way from one fit: the rows ``watched`` (c,) may change sides, ``force`` (B, p) pulls."""

    def __init__(
        self, fit: ClippedFit, watched: np.ndarray, force: np.ndarray, length: float, limit: bool
    ) -> None:
        assert fit.hessian_inverse is not None
        size = len(force)
        p = len(fit.theta)
        self.length = length
        self.X = fit.X[watched]
        self.v = fit.v[watched]
        self.down = fit.down[watched]
        self.up = fit.up[watched]
        self.soft = fit.soft[watched]
        self.any_soft = bool(self.soft.any())
        self.any_bounded = bool(np.any(self.soft & np.isfinite(self.up)))
        self.soft_width = self.soft.astype(float)
        self.lengths = np.abs(self.X).sum(axis=1)
        self.force = force
        self.theta = np.repeat(fit.theta[None], size, axis=0)
        self.r = np.repeat(fit.r[watched][None], size, axis=0)
        self.u = np.repeat(fit.u[watched][None], size, axis=0)
        self.side = np.repeat(fit.side[watched][None], size, axis=0)
        self.position = np.zeros(size)
        self.stuck = np.zeros(size, dtype=int)
        place = {row: j for j, row in enumerate(watched.tolist())}
        exact, loose = fit.exact_rows
        slots = np.full(p, -1)
        slots[: len(exact)] = [place[row] for row in exact.tolist()]
        self.slots = np.repeat(slots[None], size, axis=0)
        self.loose = np.array([place[row] for row in loose.tolist()], dtype=int)
        self.inverse = fit.hessian_inverse  # one for all paths, or one each where rows may change it
        if self.any_soft:
            self.inverse = np.repeat(self.inverse[None], size, axis=0)
        self.lines = np.arange(size)
        self.extra = fit.extra if limit and fit.extra.any() else None
        self.gone: np.ndarray | None = None

    def hold_out(self, fit: ClippedFit, watched: np.ndarray, rows: np.ndarray) -> None:
        """Take one row (B,) from each path: it pulls as it did at the start, whatever its residual."""
        place = np.full(len(fit.X), -1)
        place[watched] = np.arange(len(watched))
        self.gone = place[rows]
        self.slots[self.slots == self.gone[:, None]] = -1
        inner = np.flatnonzero(fit.soft[rows] & (fit.side[rows] == 0))
        if len(inner):
            if self.inverse.ndim == 2:
                self.inverse = np.repeat(self.inverse[None], len(rows), axis=0)
            self._change_hessian(inner, fit.X[rows[inner]], np.full(len(inner), -1.0))

    def keep(self, which: np.ndarray) -> None:
        """Go on with some of the paths only (bools)."""
        for name in ("force", "theta", "r", "u", "side", "position", "slots", "stuck"):
            setattr(self, name, getattr(self, name)[which])
        if self.inverse.ndim == 3:
            self.inverse = self.inverse[which]
        if self.gone is not None:
            self.gone = self.gone[which]
        self.lines = np.arange(len(self.theta))

    def slopes(self) -> np.ndarray:
        """Slopes of the watched rows (B, c)."""
        bound = np.where(self.side > 0, self.up, -self.down)
        inner = np.where(self.soft, self.r, self.u) if self.any_soft else self.u
        slopes = np.where(self.side == 0, inner, bound)
        if self.gone is not None:
            some = np.flatnonzero(self.gone >= 0)
            slopes[some, self.gone[some]] = self.u[some, self.gone[some]]
        return slopes

    def advance(self) -> np.ndarray:
        """One step, to the next event or the end; True for the paths that have arrived."""
        rest = self.length - self.position
        close = np.isfinite(rest) & (rest <= _STILL * self.length)
        d, dm = self._direction()
        self.corner = self.position, self.theta.copy()
        d[close] = 0.0
        dm[close] = 0.0
        dr = -self._along(d)
        leave, slot, towards = self._next_leaving(dm)
        enter, row, onto = self._next_crossing(dr)
        h = np.minimum(np.minimum(leave, enter), rest)
        self.endless = self._runs_away(d, h)
        for line in np.flatnonzero(self.endless):  # far out nothing of rounding errors may be left
            inner = self.X[self.side[line] == 0]
            d[line] -= np.linalg.lstsq(inner, inner @ d[line], rcond=None)[0]
        done = (h >= rest) | close | self.endless
        h[np.isinf(h) | self.endless] = 0.0  # no event to come, no end to reach
        self.direction = d
        self.theta += h[:, None] * d
        self.r += h[:, None] * dr
        self.position = self.position + h
        lines, columns = np.nonzero(self.slots >= 0)
        self.u[lines, self.slots[lines, columns]] += (h[:, None] * dm)[lines, columns]
        self.stuck = np.where(h > 0, 0, self.stuck + 1)
        moving = np.flatnonzero(~done)
        leaves = leave[moving] <= enter[moving]
        self._leave(moving[leaves], slot, towards)
        self._cross(moving[~leaves], row, onto)
        return done

    def _along(self, moves: np.ndarray) -> np.ndarray:
        """How much the rows' predictions change on moves (B, p) of theta."""
        return moves @ self.X.T

    def _runs_away(self, d: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Whether a path goes on without end for all that is not vanishing (B,)."""
        if self.extra is None:
            return np.zeros(len(d), dtype=bool)
        work = np.einsum("ij,ij->i", d, self.force)
        unit = self.length if np.isfinite(self.length) else 1.0
        return (work > 0) & (np.square(d) @ self.extra > 0.5 * work) & (h > _VANISHED * unit)

    def _direction(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions of theta (B, p) and of the slots' multipliers (B, p)."""
        slots = self.slots[:, : 1 + np.max(np.nonzero(self.slots >= 0)[1], initial=-1)]  # the rest is empty
        used = slots >= 0
        rows = np.where(used[..., None], self.X[slots], 0.0)
        towards = rows @ self.inverse
        system = towards @ rows.transpose(0, 2, 1)
        diagonal = np.arange(system.shape[1])
        system[:, diagonal, diagonal] += np.where(used, 0.0, 1.0)
        free = (self.inverse @ self.force[..., None])[..., 0]
        # Inner step rows are fitted exactly: what steps have left of rounding errors is taken back.
        off = np.where(used, self.v[slots] - (rows @ self.theta[..., None])[..., 0], 0.0)
        found, back = solve(system, -(towards @ self.force[..., None])[..., 0], off)
        self.theta += (back[:, None, :] @ towards)[:, 0]
        dm = np.zeros(self.slots.shape)
        dm[:, : found.shape[1]] = found
        d = free + (found[:, None, :] @ towards)[:, 0]
        return self._unless_held(d, free), dm

    def _unless_held(self, d: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Directions, 0 where the inner rows take up the whole force; ``free`` (B, p) are those without
        them."""
        self.still = _STILL * np.max(np.abs(free), axis=1)  # what cancels leaves rounding errors
        held = (np.max(np.abs(d), axis=1) <= self.still) | (self.slots >= 0).all(axis=1)
        d[held] = 0.0
        return d

    def _next_leaving(self, dm: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far each path can go until a slot's multiplier is at a bound: distance, slot, side."""
        used = self.slots >= 0
        u = np.take_along_axis(self.u, np.maximum(self.slots, 0), axis=1)
        up = np.where(used, self.up[self.slots], 0.0)
        down = np.where(used, self.down[self.slots], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            to_up = np.where(used & (dm > 0), (up - u) / dm, np.inf)
            to_down = np.where(used & (dm < 0), (down + u) / -dm, np.inf)
        distance = np.maximum(np.minimum(to_up, to_down), 0.0)
        slot = self._first(distance, self.slots)
        towards = np.where(to_up <= to_down, 1, -1)[self.lines, slot]
        return distance[self.lines, slot], slot, towards

    def _next_crossing(self, dr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far until a watched row reaches a threshold: distance, row, and the side it goes to."""
        still = self.still[:, None] * self.lengths
        side = self.side
        bound = np.where(side > 0, self.up, self.down) * self.soft_width if self.any_bounded else 0.0
        room = side * self.r - bound
        rate = side * dr
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(rate < -still, np.maximum(room, 0.0) / -rate, np.inf)
        distance[side == 0] = np.inf
        onto = np.zeros_like(side)
        if self.any_bounded:
            inner = (side == 0) & self.soft
            with np.errstate(divide="ignore", invalid="ignore"):
                to_up = np.where(dr > still, (self.up - self.r) / dr, np.inf)
                to_down = np.where(dr < -still, (self.down + self.r) / -dr, np.inf)
            distance = np.where(inner, np.maximum(np.minimum(to_up, to_down), 0.0), distance)
            onto = np.where(inner, np.where(to_up <= to_down, 1, -1), onto)
        if len(self.loose):
            free = (side[:, self.loose] == 0) & ~self._in_slots(self.loose)
            moved = np.abs(dr[:, self.loose]) > still[:, self.loose]
            distance[:, self.loose] = np.where(free & moved, 0.0, distance[:, self.loose])
        if self.gone is not None:
            some = np.flatnonzero(self.gone >= 0)
            distance[some, self.gone[some]] = np.inf
        row = self._first(distance, np.arange(distance.shape[1]))
        return distance[self.lines, row], row, onto[self.lines, row]

    def _first(self, distance: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The nearest event of each path; after many steps of length 0 that of the first row (Bland's
        rule, which cannot cycle)."""
        nearest = np.argmin(distance, axis=1)
        stuck = np.flatnonzero(self.stuck > self.theta.shape[1])
        if len(stuck):
            tied = distance[stuck] <= distance[stuck].min(axis=1, keepdims=True)
            order = np.broadcast_to(rows, distance.shape)[stuck]
            nearest[stuck] = np.argmin(np.where(tied, order, len(self.X)), axis=1)
        return nearest

    def _in_slots(self, rows: np.ndarray) -> np.ndarray:
        """Which of the rows (k,) each path has in a slot (B, k)."""
        return (self.slots[:, :, None] == rows).any(axis=1)

    def _leave(self, lines: np.ndarray, slot: np.ndarray, towards: np.ndarray) -> None:
        """Slots whose multiplier is at a bound become outer rows."""
        if not len(lines):
            return
        slot = slot[lines]
        side = towards[lines]
        row = self.slots[lines, slot]
        self.side[lines, row] = side
        self.r[lines, row] = 0.0
        self.u[lines, row] = np.where(side > 0, self.up[row], -self.down[row])
        self.slots[lines, slot] = -1

    def _cross(self, lines: np.ndarray, row: np.ndarray, onto: np.ndarray) -> None:
        """Rows at a threshold: outer ones become inner, inner soft ones become outer."""
        if not len(lines):
            return
        row = row[lines]
        onto = onto[lines]
        was = self.side[lines, row]
        soft = self.soft[row]
        if soft.any():
            self._change_hessian(lines[soft], self.X[row[soft]], np.where(was[soft] == 0, -1.0, 1.0))
        step = ~soft
        bound = np.where(was > 0, self.up[row], -self.down[row])
        loose = was == 0  # keeps the multiplier that it had
        self.u[lines, row] = np.where(soft | loose, self.u[lines, row], bound)
        self.r[lines[step], row[step]] = 0.0
        full = step & (self.slots[lines] >= 0).all(axis=1)
        for line, entering in zip(lines[full], row[full], strict=True):
            self._pivot(line, entering)
        self.side[lines[~full], row[~full]] = onto[~full]
        step &= ~full
        free = np.argmin(self.slots[lines[step]], axis=1)
        self.slots[lines[step], free] = row[step]

    def _pivot(self, line: int, row: int) -> None:
        """A row reaches 0 at a corner: its multiplier moves inward until one of them is at a bound."""
        slots = self.slots[line]
        share = np.linalg.lstsq(self.X[slots].T, self.X[row], rcond=None)[0]
        side = self.side[line, row]
        change = side * share  # of the slots' multipliers, per unit by which the row's own moves inward
        u = self.u[line, slots]
        bound = np.where(change > 0, self.up[slots], -self.down[slots])
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(np.abs(change) > _STILL, (bound - u) / change, np.inf)
        room = np.maximum(room, 0.0)
        whole = self.up[row] + self.down[row]
        leaving = int(np.argmin(room))
        step = min(whole, room[leaving])
        self.u[line, slots] += step * change
        self.u[line, row] -= side * step
        if step == whole:
            self.side[line, row] = -side
            return
        out = slots[leaving]
        self.side[line, out] = np.sign(change[leaving])
        self.r[line, out] = 0.0
        self.side[line, row] = 0
        self.slots[line, leaving] = row

    def _change_hessian(self, lines: np.ndarray, x: np.ndarray, sign: np.ndarray) -> None:
        """Rank-one update of the inverse Hessian; a singular one gives NaN, and the path is given up."""
        moved = (self.inverse[lines] @ x[..., None])[..., 0]
        pivot = 1.0 + sign * np.einsum("ij,ij->i", x, moved)
        pivot = np.where(pivot > 1e-10, pivot, np.nan)
        change = moved[:, :, None] * moved[:, None, :]
        self.inverse[lines] -= (sign / pivot)[:, None, None] * change


def solve(system: np.ndarray, *rights: np.ndarray) -> list[np.ndarray]:
    """Solve small systems, one per path, for several right sides; NaN where one is singular beyond help."""
    scale = 1.0 / np.sqrt(np.einsum("bii->bi", system))
    scaled = system * scale[:, :, None] * scale[:, None, :]
    right = np.stack([right * scale for right in rights], axis=-1)
    try:
        found = np.linalg.solve(scaled, right)
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
    return [found[..., j] * scale for j in range(len(rights))]
