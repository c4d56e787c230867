"""Units of the fit: centre and scale of the response and of the columns (theory, section 2).

The response is centred by an order statistic and divided by its quartile distance. Columns are divided so
that a unit change means the same whatever they are made of: a numeric column by its standard deviation, an
indicator by 1/2, however rare it is. Divided by its own standard deviation, it would let a training row
that owns it fit itself where a new row cannot, and intervals would cover too little.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..rank import ceil_rank

MAD_TO_SD = 1.4826  # standard deviations of normal errors in their median absolute size
_IQR_TO_SD = 1.349
_MEAN_TO_SD = 1.2533
_FIRST = 100  # rows that show for most columns that they have more than two values
_INDICATOR = 0.5  # scale of a column made of categories: that of a balanced indicator


def location_scale(y: np.ndarray, level: float | None = 0.5) -> tuple[float, float]:
    """Location and scale of responses (n,): their level-quantile, and their quartile distance / 1.349.

    A level of None fixes the location at 0, for a design that no constant is in the span of. Where the
    quartiles coincide the scale is 1.2533 times the mean distance from the centre, and 1 where that is 0.

    >>> location_scale(np.array([1.0, 2.0, 3.0, 4.0, 100.0]))[0]
    3.0
    """
    ordered = np.sort(y)
    ends = [ordered[ceil_rank(share, len(y)) - 1] for share in (0.25, 0.75, level or 0.5)]
    return location_scale_from(ends, level, lambda centre: float(np.mean(np.abs(ordered - centre))))


def location_scale_from(
    ends: Sequence[float] | np.ndarray, level: float | None, distance: Callable[[float], float]
) -> tuple[float, float]:
    """`location_scale` from quartiles and the level-quantile (3,), and the mean distance from a centre."""
    low, high, middle = ends
    centre = 0.0 if level is None else float(middle)
    scale = float(high - low) / _IQR_TO_SD
    if not scale > 0:
        scale = _MEAN_TO_SD * distance(centre)
    return centre, scale if scale > 0 else 1.0


def spans_constant(X: np.ndarray) -> np.ndarray | None:
    """Coefficients (p,) with which the columns add up to 1 in every row; None where there are none."""
    found = np.linalg.lstsq(X, np.ones(len(X)), rcond=None)[0]
    return found if np.all(np.abs(X @ found - 1.0) <= 1e-8) else None


@dataclass(frozen=True)
class ColumnKinds:
    """What the columns of a design are made of.

    ``intercept`` is the position of the intercept; ``categorical`` (p,) are the columns made of categorical
    factors alone; ``parts`` the numeric parts (n,) of those made of both kinds, by column.
    """

    intercept: int | None
    categorical: np.ndarray
    parts: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def numeric(cls, count: int, intercept: int | None) -> "ColumnKinds":
        """Columns of numbers alone, as many as ``count``."""
        return cls(intercept, np.zeros(count, dtype=bool))

    def take(self, rows: np.ndarray | slice) -> "ColumnKinds":
        """The same for some of the rows."""
        parts = {j: part[rows] for j, part in self.parts.items()}
        return ColumnKinds(self.intercept, self.categorical, parts)


@dataclass(frozen=True)
class ColumnUnits:
    """Centre ``mean`` and ``scale`` (p,) of the design columns: ``(X - mean) / scale``."""

    mean: np.ndarray
    scale: np.ndarray

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Standardised copy of rows (n, p)."""
        out = X - self.mean
        out /= self.scale
        return out

    def undo(self, rows: np.ndarray) -> np.ndarray:
        """Rows in the units of the design columns from standardised ones."""
        return rows * self.scale + self.mean

    def coefficients(
        self,
        theta: np.ndarray,
        centre: float,
        scale: float,
        intercept: int | None,
        constant: np.ndarray | None = None,
    ) -> np.ndarray:
        """Coefficients (p,) in the units of the design columns from standardised ones.

        ``constant`` (p,) are coefficients that make a constant where no column is the intercept.
        """
        beta = scale * theta / self.scale
        if intercept is not None:  # whose own mean is 0
            beta[intercept] += centre - beta @ self.mean
        elif constant is not None:
            beta = beta + centre * constant
        return beta


def column_units(
    X: np.ndarray, kinds: ColumnKinds, standardize: bool = True
) -> tuple[ColumnUnits, np.ndarray]:
    """The `ColumnUnits` of a design (n, p), and which of its columns are constant (p,), intercept aside."""
    p = X.shape[1]
    if not standardize:
        return ColumnUnits(np.zeros(p), np.ones(p)), np.zeros(p, dtype=bool)
    spread = {j: float(np.std(part)) for j, part in kinds.parts.items()}
    return units_from(ColumnStatistics.of(X, ~kinds.categorical), spread, kinds)


@dataclass(frozen=True)
class ColumnStatistics:
    """What `column_units` goes by: numbers (p,) of ``count`` rows, and which columns have ``two_values``
    (p,), none but ``low`` and ``high``."""

    count: int
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    two_values: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, own: np.ndarray | slice = slice(None)) -> "ColumnStatistics":
        """Those of rows (n, p); ``sd`` and ``two_values`` of columns ``own`` alone, else 1 and False."""
        columns = np.ascontiguousarray(X.T)  # whose statistics take a quarter of the time
        low = columns.min(axis=1)
        high = columns.max(axis=1)
        mean = columns.mean(axis=1)
        p = len(columns)
        two_values, sd = np.zeros(p, dtype=bool), np.ones(p)
        for j in np.arange(p)[own].tolist():
            some, column = columns[j, :_FIRST], columns[j]
            two_values[j] = np.all((some == low[j]) | (some == high[j])) and np.all(
                (column == low[j]) | (column == high[j])
            )
            size = max(high[j] - mean[j], mean[j] - low[j]) or 1.0  # whose square may be out of range
            from_mean = (column - mean[j]) / size
            sd[j] = size * np.sqrt(from_mean @ from_mean / len(column))
        return cls(len(X), mean, sd, low, high, two_values)

    @classmethod
    def joined(cls, parts: Sequence["ColumnStatistics"]) -> "ColumnStatistics":
        """Those of all rows, from those of parts of them."""
        counts = [part.count for part in parts]
        low = np.min([part.low for part in parts], axis=0)
        high = np.max([part.high for part in parts], axis=0)
        mean = np.average([part.mean for part in parts], axis=0, weights=counts)
        squares = [part.sd**2 + (part.mean - mean) ** 2 for part in parts]
        two_values = np.all([part.two_values for part in parts], axis=0)
        for end in (end for part in parts for end in (part.low, part.high)):
            two_values &= (end == low) | (end == high)
        sd = np.sqrt(np.average(squares, axis=0, weights=counts))
        return cls(sum(counts), mean, sd, low, high, two_values)


def units_from(
    known: ColumnStatistics, spread: Mapping[int, float], kinds: ColumnKinds
) -> tuple[ColumnUnits, np.ndarray]:
    """`column_units` from statistics of the columns, and standard deviations of their numeric parts."""
    low, high = known.low, known.high
    mean = np.zeros(len(low))
    constant = high - low <= 1e-13 * np.maximum(np.abs(low), np.abs(high))
    scale = np.where(known.two_values, (high - low) / 2.0, known.sd)
    scale[constant] = 1.0
    scale[kinds.categorical] = _INDICATOR
    for j, sd in spread.items():
        scale[j] = _INDICATOR * (sd or 1.0)
    if kinds.intercept is not None:
        mean = known.mean.copy()
        mean[kinds.intercept] = 0.0
        scale[kinds.intercept] = 1.0
        constant[kinds.intercept] = False
    return ColumnUnits(mean, scale), constant
