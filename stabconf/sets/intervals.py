"""The record that every interval method returns."""

from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["Intervals", "assumed", "guarantee", "join", "opened", "ranked_intervals", "simple_intervals"]


def guarantee(alpha, peers=None):
    """The coverage statement of a certified method, in words."""
    return f"covers with probability at least {1 - alpha:g}{assumed(peers)}"


def assumed(peers):
    """Where coverage holds and what of, for rows that are ranked among some `Peers`; in words."""
    within = " within each group" if peers is not None and peers.which is not None else ""
    if peers is not None and peers.weights is not None:
        return f"{within} under the shift, if the weights are its likelihood ratios"
    return f"{within}, exchangeable rows"


@dataclass(frozen=True)
class Intervals:
    """Prediction intervals for m new rows, in units of the response.

    Attributes
    ----------
    lower, upper : (m,) arrays
        Ends of the hull of the set; infinite where the set is unbounded.
    inner_lower, inner_upper : (m,) arrays or None
        An interval contained in the exact set; NaN where none could be certified.
    surcharge : (m,) array
        Width that is owed to stability (and to the solver's tolerance) rather than to the residuals.
    tau : (m,) array
        Largest bound on the movement of the new row's own prediction that entered an end.
    k, n : int, or (m,) arrays
        Rank of the order statistic and the number of training rows it is among; one a new row within
        groups, and k with weights, in units of the mean weight. The set is the whole line if k > n.
    alpha : float
    side : {"two-sided", "upper", "lower"}
    method : str
    bound : str or None
        Stability bound, for the methods that use one.
    certified : bool
    guarantee : str
        The coverage statement, in words.
    pieces : dict
        ``{row: ((lower, upper), ...)}`` for the rows whose set is not an interval, where the method
        knows; lower and upper above are then the ends of its hull.
    tilted_fits : int
        Tilted fits that were made.
    tol : float or (m,) array
        How far an end may be outside the exact one, in units of the response; NaN where unknown.
    wanted : float
        The tolerance that ends should have; some may be looser, where a budget of fits was used up.
    """

    lower: np.ndarray
    upper: np.ndarray
    inner_lower: np.ndarray | None
    inner_upper: np.ndarray | None
    surcharge: np.ndarray
    tau: np.ndarray
    k: int | np.ndarray
    n: int | np.ndarray
    alpha: float
    side: str
    method: str
    bound: str | None
    certified: bool
    guarantee: str
    pieces: dict = field(default_factory=dict)
    tilted_fits: int = 0
    tol: float | np.ndarray = np.nan
    wanted: float = np.inf

    @property
    def loose(self):
        """Which rows have ends that are looser than they should be (m,)."""
        return np.broadcast_to(np.asarray(self.tol) > self.wanted, len(self.lower))

    @property
    def too_few(self):
        """Which rows have the whole line as their set, for the rank exceeds the number of rows (m,)."""
        return np.broadcast_to(np.asarray(self.k) > self.n, len(self.lower))

    @property
    def width(self):
        """Width of each interval (m,)."""
        return self.upper - self.lower

    @property
    def open_rows(self):
        """Number of rows with an infinite end on a side that was asked for."""
        is_open = np.zeros(len(self.lower), dtype=bool)
        if self.side != "upper":
            is_open |= np.isinf(self.lower)
        if self.side != "lower":
            is_open |= np.isinf(self.upper)
        return int(np.sum(is_open))

    @property
    def largest_tau(self):
        """Largest `tau` over the rows."""
        return float(np.max(self.tau, initial=0.0))

    @property
    def stability_share(self):
        """Share of the mean width (over finite intervals) that is owed to stability."""
        finite = np.isfinite(self.width) & np.isfinite(self.surcharge)
        total = float(np.sum(self.width[finite]))
        return float(np.sum(self.surcharge[finite])) / total if total > 0 else 0.0

    @property
    def certified_gap(self):
        """How much wider than the exact ones the intervals are on average, at most."""
        if self.inner_lower is None:
            return float(np.max(self.tol, initial=0.0)) * (2 if self.side == "two-sided" else 1)
        gap = self.width - np.nan_to_num(self.inner_upper - self.inner_lower, nan=0.0)
        gap = gap[np.isfinite(gap)]
        return float(np.mean(gap)) if len(gap) else np.nan


def simple_intervals(lower, upper, k, n, alpha, side, method, *, inner=(None, None), **more):
    """`Intervals`, by default of a method that uses no stability bound."""
    m = len(lower)
    known = {"surcharge": np.zeros(m), "tau": np.zeros(m), "bound": None}
    known |= {"certified": True, "guarantee": guarantee(alpha), **more}
    return Intervals(
        lower=lower,
        upper=upper,
        inner_lower=inner[0],
        inner_upper=inner[1],
        k=k,
        n=n,
        alpha=alpha,
        side=side,
        method=method,
        **known,
    )


def ranked_intervals(lower, upper, peers, alpha, side, method, *, inner=(None, None), **more):
    """`Intervals` of rows ranked among some `Peers`; sets that are the whole line are opened."""
    is_open = np.broadcast_to(peers.open(alpha), len(lower))
    if is_open.any():
        lower, upper = np.where(is_open, -np.inf, lower), np.where(is_open, np.inf, upper)
        if inner[0] is not None:
            inner = np.where(is_open, -np.inf, inner[0]), np.where(is_open, np.inf, inner[1])
        for name in {"surcharge", "tau", "tol"} & set(more):
            more[name] = np.where(is_open, 0.0, more[name])
        known = more.get("pieces", {})
        more |= {"pieces": {i: found for i, found in known.items() if not is_open[i]}}
    more = {"guarantee": guarantee(alpha, peers), **more}
    return simple_intervals(
        lower, upper, peers.place(alpha), peers.size, alpha, side, method, inner=inner, **more
    )


def opened(intervals, rows):
    """`Intervals` of which some rows (bools) are fitted exactly whatever their response: two-sided sets are
    the whole line; one-sided ones all of it or nothing, and are kept."""
    loose = 0.0 if intervals.side == "two-sided" else np.inf
    ends = {
        "lower": np.where(rows, -np.inf, intervals.lower),
        "upper": np.where(rows, np.inf, intervals.upper),
        "tol": np.where(rows, loose, intervals.tol),
        "pieces": {i: found for i, found in intervals.pieces.items() if not rows[i]},
    }
    if intervals.inner_lower is not None:
        ends["inner_lower"] = np.where(rows, -np.inf, intervals.inner_lower)
        ends["inner_upper"] = np.where(rows, np.inf, intervals.inner_upper)
    return replace(intervals, **ends)


def join(each, places):
    """`Intervals` of groups of new rows as one.

    Parameters
    ----------
    each : list of Intervals
        Of one alpha, side and method.
    places : list of int arrays
        The rows of each group; together all rows.
    """
    if len(each) == 1:
        return each[0]
    m, made = sum(map(len, places)), {}
    for name in ("lower", "upper", "inner_lower", "inner_upper", "surcharge", "tau", "k", "n", "tol"):
        values = [getattr(one, name) for one in each]
        if values[0] is None:
            continue
        made[name] = np.empty(m, dtype=np.result_type(*values))
        for which, part in zip(places, values, strict=True):
            made[name][which] = part
    pieces = {}
    for which, one in zip(places, each, strict=True):
        pieces |= {int(which[i]): found for i, found in one.pieces.items()}
    weakest = min(each, key=lambda one: one.n)  # what holds in the smallest group
    return replace(weakest, **made, pieces=pieces, tilted_fits=sum(one.tilted_fits for one in each))
