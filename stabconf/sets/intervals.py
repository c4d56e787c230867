"""The record that every interval method returns, and how records of groups become one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..rank import Peers

Pieces = Sequence[tuple[float, float]]
_PER_ROW = ("lower", "upper", "inner_lower", "inner_upper", "surcharge", "tau", "k", "n", "tol", "centre")


def guarantee(alpha: float, peers: Peers | None = None) -> str:
    """The coverage statement of a certified method, in words."""
    return f"covers with probability at least {1 - alpha:g}{assumed(peers)}"


def assumed(peers: Peers | None) -> str:
    """Where coverage holds and what of, for rows that are ranked among some `Peers`; in words."""
    within = " within each group" if peers is not None and peers.which is not None else ""
    if peers is not None and peers.weights is not None:
        return f"{within} under the shift, if the weights are its likelihood ratios"
    return f"{within} if rows are exchangeable"


@dataclass(frozen=True)
class Intervals:
    """Prediction intervals for m new rows, in units of the response."""

    lower: np.ndarray  # (m,): ends of the hull of the set, infinite where it is unbounded
    upper: np.ndarray
    # Rank of the order statistic, and the number of training rows that it is among: one each for all new
    # rows, or (m,) within groups; with weights k is in units of the mean weight. All of the line if k > n.
    k: int | np.ndarray
    n: int | np.ndarray
    alpha: float
    side: str
    method: str
    bound: str | None = None  # the stability bound, for methods that use one
    certified: bool = True
    guarantee: str = ""  # the coverage statement, in words
    promise: float = np.nan  # the coverage in it: 1 - alpha, or less; NaN where nothing is certified
    inner_lower: np.ndarray | None = None  # (m,): an interval contained in the exact set,
    inner_upper: np.ndarray | None = None  # NaN where none could be certified
    surcharge: np.ndarray | float = 0.0  # (m,): width due to stability (and the solver), not to residuals
    tau: np.ndarray | float = 0.0  # (m,): largest bound on the move of a row's own prediction, in an end
    centre: np.ndarray | None = None  # (m,): predictions of the fits used; None for that to all rows
    pieces: dict[int, Pieces] = field(default_factory=dict)  # of rows whose set is known to be no interval
    tilted_fits: int = 0  # how many were made
    tol: float | np.ndarray = np.nan  # or (m,): how far an end may be outside the exact one; NaN: unknown
    wanted: float = np.inf  # what tol should be; some may be looser, where a budget of fits was used up
    unit: str = "rows"  # what n counts

    @property
    def loose(self) -> np.ndarray:
        """Which rows have ends that are looser than they should be (m,)."""
        return np.broadcast_to(np.asarray(self.tol) > self.wanted, len(self.lower))

    @property
    def too_few(self) -> np.ndarray:
        """Which rows have the whole line as their set, for the rank exceeds the number of rows (m,)."""
        return np.broadcast_to(np.asarray(self.k) > self.n, len(self.lower))

    @property
    def width(self) -> np.ndarray:
        """Width of each interval (m,)."""
        return self.upper - self.lower

    @property
    def is_open(self) -> np.ndarray:
        """Which rows have an infinite end on a side that was asked for (m,)."""
        low, high = np.isinf(self.lower), np.isinf(self.upper)
        return {"upper": high, "lower": low}.get(self.side, low | high)

    @property
    def open_rows(self) -> int:
        """Number of rows with an infinite end on a side that was asked for."""
        return int(np.sum(self.is_open))

    @property
    def largest_tau(self) -> float:
        """Largest `tau` over the rows."""
        return float(np.max(self.tau, initial=0.0))

    @property
    def stability_share(self) -> float:
        """Share of the mean width (over finite intervals) that is due to stability."""
        surcharge = np.broadcast_to(self.surcharge, len(self.lower))
        finite = np.isfinite(self.width) & np.isfinite(surcharge)
        total = float(np.sum(self.width[finite]))
        return float(np.sum(surcharge[finite])) / total if total > 0 else 0.0

    @property
    def certified_gap(self) -> float:
        """How much wider than the exact ones the intervals are on average, at most."""
        if self.inner_lower is None or self.inner_upper is None:
            return float(np.max(self.tol, initial=0.0)) * (2 if self.side == "two-sided" else 1)
        gap = self.width - np.nan_to_num(self.inner_upper - self.inner_lower, nan=0.0)
        gap = gap[np.isfinite(gap)]
        return float(np.mean(gap)) if len(gap) else np.nan


def nonempty(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals, NaN where there is nothing between them."""
    some = lower <= upper
    return np.where(some, lower, np.nan), np.where(some, upper, np.nan)


def hulls(sets: Sequence[Pieces]) -> tuple[np.ndarray, np.ndarray, dict[int, Pieces]]:
    """Ends of the hulls of sets (m,), NaN of empty ones, and the pieces of those that are no intervals."""
    lower = np.array([found[0][0] if found else np.nan for found in sets])
    upper = np.array([found[-1][1] if found else np.nan for found in sets])
    return lower, upper, {i: tuple(found) for i, found in enumerate(sets) if len(found) > 1}


def ranked_intervals(
    lower: np.ndarray,
    upper: np.ndarray,
    peers: Peers,
    alpha: float,
    side: str,
    method: str,
    *,
    inner: Sequence[np.ndarray] | None = None,
    **more: Any,
) -> Intervals:
    """`Intervals` of rows ranked among some `Peers`; sets that are the whole line are opened."""
    if inner is not None:
        more |= {"inner_lower": inner[0], "inner_upper": inner[1]}
    promise = 1.0 - alpha if more.get("certified", True) else np.nan
    more = {"guarantee": guarantee(alpha, peers), "promise": promise, **more}
    made = Intervals(lower, upper, peers.place(alpha), peers.size, alpha, side, method, **more)
    is_open = np.broadcast_to(peers.open(alpha), len(lower))
    if not is_open.any():
        return made
    free: dict[str, Any] = {"tol": made.tol}
    free |= {name: np.where(is_open, 0.0, more[name]) for name in {"surcharge", "tau", "tol"} & set(more)}
    return replace(opened(made, is_open), **free)


def opened(intervals: Intervals, rows: np.ndarray) -> Intervals:
    """`Intervals` of which some rows (bools) are fitted exactly whatever their response: two-sided sets are
    the whole line; one-sided ones all of it or nothing, and are kept."""
    ends: dict[str, Any] = {
        "lower": np.where(rows, -np.inf, intervals.lower),
        "upper": np.where(rows, np.inf, intervals.upper),
        "tol": np.where(rows, 0.0 if intervals.side == "two-sided" else np.inf, intervals.tol),
        "pieces": {i: found for i, found in intervals.pieces.items() if not rows[i]},
    }
    if intervals.inner_lower is not None and intervals.inner_upper is not None:
        ends["inner_lower"] = np.where(rows, -np.inf, intervals.inner_lower)
        ends["inner_upper"] = np.where(rows, np.inf, intervals.inner_upper)
    return replace(intervals, **ends)


def clipped(intervals: Intervals, low: float, high: float) -> Intervals:
    """`Intervals` of responses that are known to lie between ``low`` and ``high``."""
    lower, upper = (np.clip(end, low, high) for end in (intervals.lower, intervals.upper))
    pieces: dict[int, Pieces] = {
        i: tuple((float(a), float(b)) for a, b in np.clip(found, low, high))
        for i, found in intervals.pieces.items()
    }
    return replace(intervals, lower=lower, upper=upper, pieces=pieces)


def cut(intervals: Intervals, y: np.ndarray, least: int) -> Intervals:
    """`Intervals` without what lies beyond the responses ``y`` (n,) on a side that was asked for. A new
    response is the largest of itself and those of the rows that it is exchangeable with, ``least`` at
    least, with probability at most 1 / (least + 1), and as likely the smallest."""
    low = -np.inf if intervals.side == "upper" else np.min(y)
    high = np.inf if intervals.side == "lower" else np.max(y)

    def within(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return nonempty(np.maximum(lower, low), np.minimum(upper, high))

    ends: dict[str, Any] = {}
    ends["lower"], ends["upper"] = within(intervals.lower, intervals.upper)
    pieces: dict[int, Pieces] = {}
    for i, found in intervals.pieces.items():
        inside = [(max(a, low), min(b, high)) for a, b in found if max(a, low) <= min(b, high)]
        ends["lower"][i], ends["upper"][i] = (inside[0][0], inside[-1][1]) if inside else (np.nan, np.nan)
        if len(inside) > 1:
            pieces[i] = tuple(inside)
    if intervals.inner_lower is not None and intervals.inner_upper is not None:
        ends["inner_lower"], ends["inner_upper"] = within(intervals.inner_lower, intervals.inner_upper)
    ends["surcharge"] = np.fmin(intervals.surcharge, np.nan_to_num(ends["upper"] - ends["lower"]))
    loss = (2 if intervals.side == "two-sided" else 1) / (least + 1)
    less = f"less {loss:.2g} for responses beyond the training range, which are left out"
    words, promise = f"{intervals.guarantee}; {less}", max(0.0, intervals.promise - loss)
    return replace(intervals, **ends, pieces=pieces, guarantee=words, promise=promise)


def join(each: Sequence[Intervals], places: Sequence[np.ndarray]) -> Intervals:
    """`Intervals` of groups of new rows as one; ``places`` are the rows of each group, together all."""
    if len(each) == 1:
        return each[0]
    m = sum(map(len, places))
    made: dict[str, Any] = {}
    pieces: dict[int, Pieces] = {}
    for name in _PER_ROW:
        values = [getattr(one, name) for one in each]
        if values[0] is None:
            continue
        made[name] = np.empty(m, dtype=np.result_type(*values))
        for which, part in zip(places, values, strict=True):
            made[name][which] = part
    for which, one in zip(places, each, strict=True):
        pieces |= {int(which[i]): found for i, found in one.pieces.items()}
    weakest = min(each, key=lambda one: int(np.max(one.n)))  # what holds in the smallest group
    return replace(weakest, **made, pieces=pieces, tilted_fits=sum(one.tilted_fits for one in each))
