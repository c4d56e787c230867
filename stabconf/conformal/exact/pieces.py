"""What the exact method needs to know of a loss: ends in a zone, and sets piece by piece."""

from dataclasses import dataclass

import numpy as np

from ..stable import far_ends, inner_hull

__all__ = ["OuterEnds", "Pieces", "ZoneEnds"]


@dataclass(frozen=True)
class ZoneEnds:
    """Far ends of the sets of m new rows on one side, were the whole line one zone.

    Attributes
    ----------
    ends : (len(ranks), m) array
    prediction : (m,) array
        Predictions of the fits that decide: between prediction and end the set has no holes.
    simple : (len(ranks), m) array of bool
        False where the set must be taken apart piece by piece.
    size : (m,) array
        Lengths of the coefficients of those fits.
    """

    ends: np.ndarray
    prediction: np.ndarray
    simple: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class OuterEnds:
    """Outer ends on one side: for each row the end, the zone it was found in, and the fit's `size`.

    Attributes
    ----------
    ends, size : (m,) arrays
    zone : (m,) array of int
    """

    ends: np.ndarray
    size: np.ndarray
    zone: np.ndarray

    def take(self, which):
        """The same for some of the rows."""
        return OuterEnds(self.ends[which], self.size[which], self.zone[which])


class Pieces:
    """Sets of new rows, zone by zone, in units of the response.

    A loss with curvature has tight stability bounds, which tell where nothing needs to be solved.

    Parameters
    ----------
    fits : ZoneFits
    side : {"two-sided", "upper", "lower"}
    """

    def __init__(self, fits, side):
        self.fits, self.side = fits, side
        self.sign = {"two-sided": 0, "upper": 1, "lower": -1}[side]
        self.tilted = 0  # tilted fits made

    def score(self, r):
        """Scores of residuals."""
        return np.abs(r) if not self.sign else self.sign * r

    def ends(self, j, rows, ranks, direction):
        """`ZoneEnds` of zone ``j``."""
        raise NotImplementedError

    def pieces(self, j, row, k):
        """All intervals of a row's set in zone or gap ``j`` (a list of pairs)."""
        raise NotImplementedError

    def may_reach(self, j, rows, k, direction, outer):
        """Rows whose set may reach into gap ``j``, given their `OuterEnds` in the zone outside it."""
        zone = self.fits.zones[j]
        ends = far_ends(self.fits.fit(j), rows, k, self.side, "curvature", direction)
        return direction * (ends - (zone.lower if direction > 0 else zone.upper)) >= 0

    def unbroken(self, rows, k, low, high):
        """Rows whose set surely has no holes between the zones of its `OuterEnds`: array of bool."""
        zones = self.fits.zones
        inner = self.surely_in(rows, k, low, high)
        top = np.array([zones[j].upper for j in low.zone])
        bottom = np.array([zones[j].lower for j in high.zone])
        with np.errstate(invalid="ignore"):
            return (low.zone == high.zone) | ((inner[0] <= top) & (inner[1] >= bottom))

    def surely_in(self, rows, k, low, high):
        """Ends of intervals that surely lie in the sets, two (m,) arrays."""
        return inner_hull(self.fits, rows, k, self.side, "curvature", (low.ends, high.ends))
