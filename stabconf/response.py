"""Order-statistic location and scale of the response, and the zones they make (theory, section 2).

The response is standardised by order statistics of the *augmented* sample, so location and scale are
symmetric in all N responses. As the candidate z runs over the line they change only while z lies between
two neighbouring order statistics. The line is cut there: in a zone both are constant; across a gap one
of them moves with z. Gaps are usually hairlines, but a bimodal response has wide ones, so they are
cut into short pieces over which location and scale move little, and the methods bound that movement.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["Zone", "ceil_rank", "location_scale", "zones"]

_IQR_TO_SD = 1.349
_SHORT = 0.1  # a gap piece is short when it is this share of the scale
_MAX_HALVINGS = 4


def ceil_rank(share, count):
    """``ceil(share * count)``, guarded against floating point: (1 - 0.7) * 10 counts as 3.

    Examples
    --------
    >>> ceil_rank(1 - 0.7, 10), ceil_rank(0.9, 11)
    (3, 10)
    """
    product = share * count
    return math.ceil(product - 1e-12 * max(1.0, product))


@dataclass(frozen=True)
class Zone:
    """A closed piece of the line of candidate responses.

    Attributes
    ----------
    lower, upper : float
    centre, scale : float
        Location c and scale s (at the middle, for a piece of a gap).
    centres, scales : tuple of float
        c and s at the lower and at the upper end, between which they move linearly; equal in a zone
        proper.
    keep : bool
        True where nothing can be decided because c or s degenerates: such a piece stays in every set.
    """

    lower: float
    upper: float
    centre: float
    scale: float
    centres: tuple
    scales: tuple
    keep: bool = False

    @property
    def is_gap(self):
        """True where location or scale moves within the piece."""
        return self.keep or self.centres[0] != self.centres[1] or self.scales[0] != self.scales[1]

    def cut(self, pieces):
        """The parts of intervals (pairs, in units of the response) that lie in it."""
        cut = [(max(low, self.lower), min(high, self.upper)) for low, high in pieces]
        return [(low, high) for low, high in cut if low <= high]

    def cut_scaled(self, pieces):
        """The same for intervals in the units of the fit."""
        return self.cut(
            [(self.centre + self.scale * low, self.centre + self.scale * high) for low, high in pieces]
        )


def _ranks(count, level):
    """Ranks of the lower quartile, the location and the upper quartile among ``count`` responses."""
    centre = None if level is None else ceil_rank(level, count)
    return ceil_rank(0.25, count), centre, ceil_rank(0.75, count)


def _scale(low, high):
    return (high - low) / _IQR_TO_SD or 1.0


def location_scale(y, level=0.5):
    """Location and scale of a sample: its level-quantile and its quartile distance / 1.349.

    Parameters
    ----------
    y : (n,) array
    level : float or None
        None fixes the location at 0 (a model without intercept).

    Returns
    -------
    centre, scale : float
        The scale is 1 where the quartiles coincide.

    Examples
    --------
    >>> location_scale(np.array([1.0, 2.0, 3.0, 4.0, 100.0]))[0]
    3.0
    """
    ordered = np.sort(y)
    first, middle, third = _ranks(len(ordered), level)
    centre = 0.0 if middle is None else float(ordered[middle - 1])
    return centre, float(_scale(ordered[first - 1], ordered[third - 1]))


def zones(y, level=0.5):
    """The pieces of the line for training responses ``y``, from left to right; they cover the line.

    Parameters
    ----------
    y : (n,) array
    level : float or None
        As in `location_scale`.

    Returns
    -------
    list of Zone
    """
    padded = np.concatenate([[-np.inf], np.sort(y), [np.inf]])
    first, middle, third = _ranks(len(y) + 1, level)

    def statistic(rank, z):
        """The rank-th smallest of the augmented sample, as a function of z."""
        return float(min(max(z, padded[rank - 1]), padded[rank]))

    def at(z):
        centre = 0.0 if middle is None else statistic(middle, z)
        return centre, statistic(third, z) - statistic(first, z)

    ranks = {rank for rank in (first, middle, third) if rank is not None}
    edges = {float(padded[rank - side]) for rank in ranks for side in (0, 1)}
    edges = [-math.inf, *sorted(edge for edge in edges if math.isfinite(edge)), math.inf]
    pieces = []
    for lower, upper in pairwise(edges):
        moving = any(padded[k - 1] <= lower and upper <= padded[k] and lower < upper for k in ranks)
        pieces += _gap(lower, upper, at) if moving else [_zone(lower, upper, at)]
    return pieces


def _zone(lower, upper, at):
    inside = lower if math.isfinite(lower) else upper
    if not math.isfinite(inside):
        inside = 0.0
    centre, spread = at(inside)
    scale = _scale(0.0, spread)
    return Zone(lower, upper, centre, scale, (centre, centre), (scale, scale))


def _gap(lower, upper, at, halvings=0):
    """Pieces of a gap, short against the scale where possible."""
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return [Zone(lower, upper, math.nan, math.nan, (math.nan,) * 2, (math.nan,) * 2, keep=True)]
    ends = at(lower), at(upper)
    spreads = [spread for _, spread in ends]
    middle = 0.5 * (lower + upper)
    narrow = upper - lower <= _SHORT * min(spreads) / _IQR_TO_SD
    if not narrow and halvings < _MAX_HALVINGS:
        return _gap(lower, middle, at, halvings + 1) + _gap(middle, upper, at, halvings + 1)
    centre, spread = at(middle)
    return [
        Zone(
            lower,
            upper,
            centre,
            _scale(0.0, spread),
            (ends[0][0], ends[1][0]),
            (ends[0][1] / _IQR_TO_SD, ends[1][1] / _IQR_TO_SD),
            keep=min(spreads) <= 0,
        )
    ]
