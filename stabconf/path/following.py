"""Following the minimiser of a clipped objective as its linear term grows: the tilted fits T(t).

Between two events the minimiser moves on a line, the solution of its system (see `clipped`). An event is a
row that reaches a bound of its slope (it becomes an outer row) or a threshold of its residual (an inner
one). A batch of paths from one start is followed at once, each with its own sets of rows, looking only at
those that may change sides; who calls checks afterwards that no other row did (theory, section 5).
"""

from dataclasses import dataclass, replace

import numpy as np

from .clipped import ClippedFit, Systems, largest, system

Corners = tuple[np.ndarray, np.ndarray]  # where a path bends: positions (K,) and coefficients (K, p)

_STEPS = 4  # steps per coefficient and watched row before a path is given up
_WORK = 8e8  # or this many over the squared number of columns, a third of it where weights vanish
_LEAST = 500  # but so many steps at least
_VANISHED = 1e-4  # of the length: what vanishing weights can hold is less
_STILL = 1e-11  # a relative movement below this is none
_LAST = 1e-15  # but not at the end of a path whose ties vanishing weights decide
_FEW = 4  # paths under way per one that has arrived, below which those are taken out
_OFTEN = 16  # steps after which rounding errors are taken back
_SOLVED = 1e-11  # relative error of a system's solution to be content with
_TRIES = 4  # to make it smaller; the one in the middle is with a fresh inverse
_ROUNDING = 1e-14  # of the sizes of pulls, which balance but for rounding errors
_GROSS = 1e-4  # of the sum of all pulls, which rounding errors are relative to where all terms are small
_SINGULAR = 1e-10  # pivot of a Hessian that a row leaves
_STATE = "theta r u side position error gone missing slots held still"  # one row per path


@dataclass(frozen=True)
class Followed:
    """Where B paths ended, with the slopes and sides of the c rows that were watched.

    Where vanishing weights alone resist the force on the last stretch a path ends at its first point: in
    the limit the fit goes on without end and the force grows no further.
    """

    theta: np.ndarray  # (B, p)
    position: np.ndarray  # (B,): what was reached of the length
    u: np.ndarray  # (B, c)
    side: np.ndarray  # (B, c)
    arrived: np.ndarray  # (B,) bools: False where a path was given up; theta is then where it started
    corners: list[Corners]  # where each path bends, from its start to its end; empty unless asked for
    direction: np.ndarray  # (B, p): movement of theta per unit of position on the last stretch
    endless: np.ndarray  # (B,) bools: where vanishing weights alone resist
    error: np.ndarray  # (B,): largest stationarity residual on the way, relative to the size of its terms


def follow(
    fit: ClippedFit,
    watched: np.ndarray,
    force: np.ndarray,
    *,
    length: float = 1.0,
    corners: bool = False,
    limit: bool = True,
    without: np.ndarray | None = None,
) -> Followed:
    """Follow the minimiser from ``fit``, whose Hessian has an inverse, up to a ``length`` or without end.

    ``watched`` (c,) are the rows that may change sides, ascending, with all inner step rows. ``force`` (B,
    p) is the change of minus the linear term per unit of position. ``corners`` asks for those of the paths.
    ``limit`` takes vanishing weights as tending to 0, so that a path which they alone hold is endless.
    ``without`` (B,) are rows, one per path, that stay as they are at the start.
    """
    batch = _Batch(fit, watched, force, length, limit)
    if without is not None:
        batch.hold_out(fit, watched, without)
    total, p = force.shape
    none = np.zeros(total, dtype=bool)
    start = batch.theta.copy(), np.zeros(total), batch.u.copy(), batch.side.copy()
    out = Followed(*start, none.copy(), [], np.zeros((total, p)), none.copy(), np.full(total, np.inf))
    index, done = np.arange(total), none  # of the paths under way
    seen = []
    work = _WORK / p**2 / (3 if fit.extra.any() else 1)
    most = min(_STEPS * (p + len(watched)) + 50, max(int(work), _LEAST))
    for step in range(most):
        before = done
        done = batch.advance()
        if corners:
            seen.append((index[~before], batch.corner[0][~before], batch.corner[1][~before]))
        lost = ~np.isfinite(batch.theta).all(axis=1)  # a Hessian became singular
        over = done | lost
        if not lost.any() and _FEW * np.count_nonzero(over) < len(over) and step < most - 1:
            continue  # paths that have arrived stay where they are until it pays to go on without them
        batch.settle()
        done &= ~lost
        at = index[done]
        seen.append((at, batch.position[done], batch.theta[done]))
        out.arrived[at] = True
        for name in ("theta", "position", "u", "side", "direction", "endless", "error"):
            getattr(out, name)[at] = getattr(batch, name)[done]
        index = index[~over]
        if not len(index):
            break
        batch.keep(~over)
        done = over[~over]
    return replace(out, corners=_by_path(seen, total)) if corners else out


def _by_path(seen: list[tuple[np.ndarray, np.ndarray, np.ndarray]], total: int) -> list[Corners]:
    """Corners path by path, from those of all paths step by step."""
    paths, position, theta = (np.concatenate(each) for each in zip(*seen, strict=True))
    order = np.argsort(paths, kind="stable")
    cuts = np.searchsorted(paths[order], np.arange(1, total))
    return list(zip(np.split(position[order], cuts), np.split(theta[order], cuts), strict=True))


class _Batch:
    """Paths under way from one fit: the rows ``watched`` (c,) may change sides, ``force`` (B, p) pulls.

    Arrays have one row per path; ``lines`` are numbers of paths. ``slots`` hold the data rows that are step
    rows and inner, -1 if empty; ``held`` says which rows a system has: those, and coefficients that the L1
    part holds at 0. Unknowns of the systems are the coefficients, then minus the multipliers of the slots;
    ``systems.x`` has their directions.
    """

    def __init__(
        self, fit: ClippedFit, watched: np.ndarray, force: np.ndarray, length: float, limit: bool
    ) -> None:
        assert fit.hessian_inverse is not None
        self.start, self.given = fit, fit.u[watched]
        self.length, size = length, len(force)
        self.data = int(np.searchsorted(watched, fit.count))  # of the rows; the others are of the L1 part
        self.X = fit.X[watched[: self.data]]
        self.columns = np.argmax(fit.X[watched[self.data :]], axis=1)  # coefficients of the L1 part
        given = fit.v, fit.down, fit.up, fit.soft
        self.v, self.down, self.up, self.soft = (each[watched] for each in given)
        self.lengths = np.append(np.abs(self.X).sum(axis=1), np.ones(len(self.columns)))
        self.longest = np.max(self.lengths, initial=0.0)
        self.largest = np.max(np.abs(self.X), initial=0.0)
        self.bends = bool(self.soft.any())
        self.fine = self.bends and bool(fit.extra.any())  # inverses may be of weights that vanish alone
        self.p = len(fit.theta)
        seen = self.X[(self.soft & (fit.side[watched] == 0))[: self.data]]
        self.unseen = None  # curvature of soft rows that are not watched
        if np.count_nonzero(fit.soft & (fit.side == 0)) > len(seen):
            self.unseen = fit.curvature - seen.T @ seen
        self.theta = np.tile(fit.theta, (size, 1))
        self.r = np.tile(fit.r[watched], (size, 1))
        self.u = np.tile(fit.u[watched], (size, 1))
        self.side = np.tile(fit.side[watched], (size, 1))
        self.position, self.error = np.zeros((2, size))  # error: as in `Followed`, so far
        self.gone = np.full(size, -1)  # rows that are held out,
        self.missing = np.zeros((size, self.p))  # and what ``unseen`` has of them
        exact, dependent = (np.searchsorted(watched, rows) for rows in fit.exact_rows)
        slots = np.full(min(self.p, int(np.count_nonzero(~self.soft[: self.data]))), -1)
        slots[: len(exact)] = exact
        self.slots = np.tile(slots, (size, 1))
        held = (fit.side[watched] == 0) & ~self.soft
        held[dependent] = False
        self.held, self.dependent = np.tile(held, (size, 1)), len(dependent) > 0
        at = np.append(fit.free, self.p + np.arange(len(exact)))
        inside = np.tile(np.isin(np.arange(self.p + len(slots)), at), (size, 1))
        self.systems = Systems(at, fit.system_inverse, inside, force, self._matrix)
        self.still = _STILL * largest(force @ fit.hessian_inverse)  # what cancels leaves rounding errors
        self.extra = fit.extra if limit and fit.extra.any() else None
        self.lines, self.age = np.arange(size), 0  # age: steps since rounding errors were looked at

    def hold_out(self, fit: ClippedFit, watched: np.ndarray, rows: np.ndarray) -> None:
        """Take one row (B,) from each path: it pulls as it did at the start, whatever its residual."""
        self.gone = np.where(np.isin(rows, watched), np.searchsorted(watched, rows), -1)
        soft = fit.soft[rows] & (fit.side[rows] == 0)
        x = fit.X[rows] * soft[:, None]
        self.missing = x * (self.gone < 0)[:, None]
        term = self.systems.solve(x)
        value = np.einsum("ij,ij->i", x, term[:, : self.p]) - 1.0
        some = np.flatnonzero(soft)
        self.theta[some[~(-value[some] > _SINGULAR)]] = np.nan  # which gives the path up
        self.systems.change(some, term[some], value[some])
        seen = np.flatnonzero(self.gone >= 0)
        exact = seen[self.held[seen, self.gone[seen]]]
        self._turn(exact, self.gone[exact], np.ones(len(exact), dtype=int))
        self.side[seen, self.gone[seen]] = 1
        self.u[:] = fit.u[watched]

    def keep(self, which: np.ndarray) -> None:
        """Go on with some of the paths only (bools)."""
        for name in _STATE.split():
            setattr(self, name, getattr(self, name)[which])
        self.systems.keep(which)
        self.lines = np.arange(len(self.theta))

    def advance(self) -> np.ndarray:
        """One step, to the next event or the end; True for the paths that have arrived."""
        rest = self.length - self.position
        close = np.isfinite(rest) & (rest <= (_STILL if self.extra is None else _LAST) * self.length)
        d, dr, du = self._direction()
        self.corner = self.position, self.theta.copy()
        distance = self._distances(dr, du)
        row = distance.argmin(axis=1)  # the first that ties: Bland's rule, which cannot cycle
        h = np.minimum(distance[self.lines, row], rest)
        self.endless = self._runs_away(d, h)
        for line in self.endless.nonzero()[0]:  # far out nothing of rounding errors may be left
            inner = np.vstack([self.X, np.eye(self.p)[self.columns]])[self.side[line] == 0]
            d[line] -= np.linalg.lstsq(inner, inner @ d[line], rcond=None)[0]
        done = (h >= rest) | close | self.endless
        h[np.isinf(h) | self.endless | close] = 0.0  # no event to come, no end to reach
        self.direction = d
        self.theta += h[:, None] * d
        self.r += h[:, None] * dr
        self.u += h[:, None] * du
        self.position = self.position + h
        moving = (~done).nonzero()[0]
        row = row[moving]
        leaves = (self.side[moving, row] == 0) & (self.soft[row] | self.held[moving, row])
        self._turn(moving, row, np.where(leaves, np.where(du[moving, row] > 0, 1, -1), 0))
        self.age = (self.age + 1) % _OFTEN
        if not self.age:
            self.settle()
        return done

    def _along(self, moves: np.ndarray) -> np.ndarray:
        """How much the rows' predictions change on moves (B, p) of theta."""
        return np.concatenate([moves @ self.X.T, moves[:, self.columns]], axis=1)

    def _runs_away(self, d: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Whether a path goes on without end for all that is not vanishing (B,)."""
        if self.extra is None:
            return np.zeros(len(d), dtype=bool)
        work = np.einsum("ij,ij->i", d, self.systems.force)
        least = _VANISHED * (self.length if np.isfinite(self.length) else 1.0)
        return (work > 0) & (np.square(d) @ self.extra > 0.5 * work) & (h > least)

    def settle(self) -> None:
        """Take back what steps have left of rounding errors: exact rows are exact, and pulls balance."""
        r = self.v - self._along(self.theta)
        inner = self.soft & (self.side == 0)
        self.u = np.where(inner, r, self.u)
        lines, slot = np.nonzero(self.slots >= 0)
        rows = self.slots[lines, slot]
        off = np.zeros(self.systems.x.shape)
        off[lines, self.p + slot] = r[lines, rows]
        drift, size = self._drift()
        self.error = np.fmax(self.error, np.nan_to_num(largest(drift + self.start.e) / size, nan=np.inf))
        if not self.start.extra.any():  # what vanishes is smaller than rounding errors of pulls
            wrong = np.abs(drift) > np.maximum(_ROUNDING * size, 1e-15 * self.start.gross_pull)[:, None]
            off[:, : self.p] = np.where(wrong & self.systems.inside[:, : self.p], -drift, 0.0)
        back = self.systems.solve(off)
        self.theta += back[:, : self.p]
        self.r = np.where(self.held, 0.0, r - self._along(back[:, : self.p]))
        self.u = np.where(inner, self.r, self.u)
        self.u[lines, rows] -= back[lines, self.p + slot]

    def _drift(self) -> tuple[np.ndarray, np.ndarray]:
        """Changes of the stationarity residuals on the way (B, p), and the size of their terms (B,)."""
        start = self.start
        change = self.u - self.given
        pull = change[:, : self.data] @ self.X
        pull[:, self.columns] += change[:, self.data :]
        force = self.position[:, None] * self.systems.force
        curved = self._curved(self.theta - start.theta, self.lines)
        pulls = np.abs(curved) + np.abs(pull) + np.abs(force) + np.abs(start.ridge * start.theta)
        size = np.maximum(largest(pulls), max(_GROSS * start.gross_pull, 1e-300))
        return curved - pull - force, size

    def _direction(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions of theta (B, p), of the residuals (B, c) and of the slopes (B, c)."""
        self.systems.renew(self.systems.worn())
        look = not self.age or len(self.columns) > 0 or self.fine
        for left in range(_TRIES, -1, -1):
            dr, du, off = self._rates(look)
            d = self.systems.x[:, : self.p]
            error = largest(off[:, self.p :]) / (self.longest * largest(d) + 1e-300)
            if look:
                size = largest(self.systems.force) + self.largest * largest(du)
                error = np.maximum(error, largest(off[:, : self.p]) / (size + 1e-300))
            wrong = ~(error <= _SOLVED)
            if not left or not wrong.any():
                break
            look = True
            if left == _TRIES // 2:
                self.systems.renew(np.flatnonzero(wrong))
            else:
                self.systems.x += self.systems.solve(np.where(wrong[:, None], off, 0.0))
        return d.copy(), dr, du

    def _rates(self, look: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions of residuals and slopes (B, c), and what the solutions are off by (B, q), the part of
        the coefficients only if asked to ``look``. Where inner rows take up the force nothing moves."""
        p = self.p
        inside = self.systems.inside
        d = self.systems.x[:, :p]
        full = inside[:, :p].sum(axis=1) <= inside[:, p:].sum(axis=1)
        d[full | (largest(d) <= self.still)] = 0.0
        dr = -self._along(d)
        lines, slot = (self.slots >= 0).nonzero()
        rows = self.slots[lines, slot]
        du = np.where(self.soft & (self.side == 0), dr, 0.0) if self.bends else np.zeros(dr.shape)
        du[lines, rows] = -self.systems.x[lines, p + slot]
        off = np.zeros(self.systems.x.shape)
        off[lines, p + slot] = dr[lines, rows]
        if look:
            e = self.systems.force - self._curved(d, self.lines) + du[:, : self.data] @ self.X
            size = largest(self.systems.force) + self.largest * largest(du[:, : self.data])
            e[np.abs(e) <= _ROUNDING * size[:, None]] = 0.0  # else events beyond all responses
            du[:, self.data :] = np.where(self.held[:, self.data :], -e[:, self.columns], 0.0)
            off[:, :p] = np.where(inside[:, :p], e, 0.0)
        return dr, du, off

    def _curved(self, d: np.ndarray, lines: np.ndarray) -> np.ndarray:
        """The penalty's part of the Hessian, and that of soft rows that are not watched, times (b, p)."""
        out = self.start.ridge * d
        if self.unseen is not None:
            gone = self.missing[lines]
            out += d @ self.unseen - np.einsum("ij,ij->i", d, gone)[:, None] * gone
        return out

    def _distances(self, dr: np.ndarray, du: np.ndarray) -> np.ndarray:
        """How far each path can go until a row's slope is at a bound, or its residual at a threshold."""
        still = self.still[:, None] * self.lengths
        side = self.side
        edge = np.zeros(1)
        if self.bends:
            edge = np.where(side > 0, self.up, -self.down) * self.soft
            du = np.where(self.soft & (np.abs(dr) <= still), 0.0, du)
        with np.errstate(divide="ignore", invalid="ignore"):
            within = (np.where(du > 0, self.up, -self.down) - self.u) / du
            beyond = (edge - self.r) / dr
        within[du == 0] = np.inf
        beyond[side * dr >= -still] = np.inf
        distance = np.maximum(np.where(side == 0, within, beyond), 0.0)
        if self.dependent:
            left = (side == 0) & ~self.held & ~self.soft
            distance[left] = np.where(np.abs(dr) > still, 0.0, np.inf)[left]
        seen = (self.gone >= 0).nonzero()[0]
        distance[seen, self.gone[seen]] = np.inf
        return distance

    def _turn(self, lines: np.ndarray, rows: np.ndarray, onto: np.ndarray) -> None:
        """Rows (b,) of paths (b,) go to other sides, 0 for inner rows: a step row is in its system while it
        is inner, a coefficient of the L1 part while its row is not, and a soft row changes the Hessian."""
        if not len(lines):
            return
        inner = onto == 0
        soft = self.soft[rows]
        step = ~soft
        l1 = rows >= self.data
        joins = step & (inner != l1)
        goes = step & ~joins
        self.side[lines, rows] = onto
        bound = np.where(onto > 0, self.up[rows], -self.down[rows])
        self.u[lines, rows] = np.where(inner, self.u[lines, rows], bound)
        self.held[lines, rows] = inner & step
        self.r[lines[step], rows[step]] = 0.0
        place = self._places(lines, rows, inner)
        unit = np.full(len(self.lines), -1)
        unit[lines[goes]] = place[goes]
        right = self._border(lines[~goes], rows[~goes], place[~goes])
        term = self.systems.solve(right, unit)[lines]
        right = right[lines]
        value = np.einsum("ij,ij->i", right, term[:, : right.shape[1]])
        value[goes] = term[goes, place[goes]]
        border = (joins & l1).nonzero()[0]
        value[border] -= right[border, place[border]]
        term[joins, place[joins]] = -1.0
        self.systems.inside[lines[step], place[step]] = joins[step]
        sign = np.where(inner, 1.0, -1.0)[soft]
        value[soft] += sign
        self.theta[lines[soft][~(sign * value[soft] > _SINGULAR)]] = np.nan  # which gives the path up
        self.systems.change(lines, term, value)

    def _places(self, lines: np.ndarray, rows: np.ndarray, inner: np.ndarray) -> np.ndarray:
        """The unknowns (b,) of systems that step rows have or are given: a coefficient, or a slot."""
        place = np.zeros(len(lines), dtype=int)
        l1 = rows >= self.data
        place[l1] = self.columns[rows[l1] - self.data]
        self.theta[lines[l1], place[l1]] = 0.0
        step = ~(l1 | self.soft[rows])
        if step.any():
            lines, rows, inner = lines[step], rows[step], inner[step]
            slot = (self.slots[lines] == np.where(inner, -1, rows)[:, None]).argmax(axis=1)
            self.slots[lines, slot] = np.where(inner, rows, -1)
            place[step] = self.p + slot
        return place

    def _border(self, lines: np.ndarray, rows: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Columns (B, k) with which data rows, or coefficients, join the systems of some paths (b,)."""
        right = np.zeros((len(self.lines), self.systems.x.shape[1] if len(self.columns) else self.p))
        data = rows < self.data
        right[lines[data], : self.p] = self.X[rows[data]]
        lines, place = lines[~data], place[~data]
        if len(lines):
            mine = self.X.T[place]  # (b, data): what the rows have of a coefficient
            inner = (self.soft & (self.side[lines] == 0))[:, : self.data]
            curved = self._curved(np.eye(self.p)[place], lines)
            right[lines, : self.p] = curved + np.where(inner, mine, 0.0) @ self.X
            right[lines, self.p :] = np.take_along_axis(mine, self.slots[lines], axis=1)  # of those in use
        return right

    def _matrix(self, line: int, at: np.ndarray) -> np.ndarray:
        """The matrix of a system among its unknowns ``at``."""
        some, slots = at[at < self.p], at[at >= self.p] - self.p
        rows = self.X[np.ix_((self.soft & (self.side[line] == 0))[: self.data], some)]
        exact = self.X[np.ix_(self.slots[line, slots], some)]
        ridge = self._curved(np.eye(self.p)[some], np.full(len(some), line))[:, some]
        return system(ridge + rows.T @ rows, exact)
