"""The record that every interval method returns."""

from dataclasses import dataclass, field, replace

import numpy as np

__all__ = ["Intervals", "guarantee", "simple_intervals"]


def guarantee(alpha):
    """The coverage statement of a certified method, in words."""
    return f"covers with probability at least {1 - alpha:g}, exchangeable rows"


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
    k, n : int
        Rank of the order statistic, and the number of training rows.
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
    tol : float
        How far an end may be outside the exact one, in units of the response; NaN where unknown.
    """

    lower: np.ndarray
    upper: np.ndarray
    inner_lower: np.ndarray | None
    inner_upper: np.ndarray | None
    surcharge: np.ndarray
    tau: np.ndarray
    k: int
    n: int
    alpha: float
    side: str
    method: str
    bound: str | None
    certified: bool
    guarantee: str
    pieces: dict = field(default_factory=dict)
    tilted_fits: int = 0
    tol: float = np.nan

    def with_inner(self, lower, upper):
        """The same with an inner set."""
        return replace(self, inner_lower=lower, inner_upper=upper)

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
            return self.tol * (2 if self.side == "two-sided" else 1)
        gap = self.width - np.nan_to_num(self.inner_upper - self.inner_lower, nan=0.0)
        gap = gap[np.isfinite(gap)]
        return float(np.mean(gap)) if len(gap) else np.nan


def simple_intervals(lower, upper, k, n, alpha, side, method, **more):
    """`Intervals` of a method that uses no stability bound."""
    nothing = np.zeros(len(lower))
    known = {"certified": True, "guarantee": guarantee(alpha), "bound": None}
    known |= {"surcharge": nothing, "tau": nothing, **more}
    return Intervals(
        lower=lower,
        upper=upper,
        inner_lower=None,
        inner_upper=None,
        k=k,
        n=n,
        alpha=alpha,
        side=side,
        method=method,
        **known,
    )
