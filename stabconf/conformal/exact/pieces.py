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
    theta : (m, p) array
        Coefficients of those fits.
    """

    ends: np.ndarray
    prediction: np.ndarray
    simple: np.ndarray
    theta: np.ndarray


@dataclass(frozen=True)
class OuterEnds:
    """Outer ends on one side: for each row the end, the zone it was found in, the fit that decided.

    Attributes
    ----------
    ends : (m,) array
    theta : (m, p) array
    zone : (m,) array of int
        -1 where nothing is known.
    """

    ends: np.ndarray
    theta: np.ndarray
    zone: np.ndarray

    @classmethod
    def unknown(cls, m, p):
        """Nothing known of m rows."""
        return cls(np.full(m, np.nan), np.zeros((m, p)), np.full(m, -1))

    def take(self, which):
        """The same for some of the rows."""
        return OuterEnds(self.ends[which], self.theta[which], self.zone[which])

    def put(self, which, ends, theta, zone):
        """Set what is known of some of the rows."""
        self.ends[which], self.theta[which], self.zone[which] = ends, theta, zone


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

    def residuals(self, j, row, z):
        """Residuals of the augmented fits at candidates in zone or gap ``j`` (g, N); None if unknown."""
        return None

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
