"""What the exact method needs to know of a loss: ends in a zone, and sets piece by piece."""

from dataclasses import dataclass, fields

import numpy as np

from ..stable import far_ends, inner_hull

__all__ = ["OuterEnds", "Pieces", "ZoneEnds"]


@dataclass(frozen=True)
class ZoneEnds:
    """Far ends of the sets of m new rows on one side, were the whole line one zone.

    Attributes
    ----------
    ends : (len(ranks), m) array
    prediction : (len(ranks), m) array
        Predictions of the fits that decide: between prediction and end the set has no holes.
    simple : (len(ranks), m) array of bool
        False where the set must be taken apart piece by piece.
    theta : (len(ranks), m, p) array
        Coefficients of those fits.
    tilt : (len(ranks), m) array
        Their tilts.
    gain : (len(ranks), m) array
        How much more than the order statistic at one tilt an end can move, where the tilt moves too.
    """

    ends: np.ndarray
    prediction: np.ndarray
    simple: np.ndarray
    theta: np.ndarray
    tilt: np.ndarray
    gain: np.ndarray

    def of_rank(self, a, j):
        """`OuterEnds` of the a-th rank, in zone ``j``."""
        m = self.ends.shape[1]
        parts = self.ends[a], self.theta[a], self.tilt[a], self.gain[a]
        return OuterEnds(*parts, np.full(m, j))


@dataclass(frozen=True)
class OuterEnds:
    """Outer ends on one side: for each row the end, the zone it was found in, the fit that decided.

    Attributes
    ----------
    ends : (m,) array
    theta : (m, p) array
    tilt, gain : (m,) arrays
        As in `ZoneEnds`.
    zone : (m,) array of int
        -1 where nothing is known.
    """

    ends: np.ndarray
    theta: np.ndarray
    tilt: np.ndarray
    gain: np.ndarray
    zone: np.ndarray

    @classmethod
    def unknown(cls, m, p):
        """Nothing known of m rows."""
        return cls(np.full(m, np.nan), np.zeros((m, p)), np.zeros(m), np.ones(m), np.full(m, -1))

    def take(self, which):
        """The same for some of the rows."""
        return OuterEnds(*(getattr(self, each.name)[which] for each in fields(self)))

    def put(self, which, other, zone):
        """Copy what another record knows of some of the rows, found in a zone."""
        for each in fields(self):
            getattr(self, each.name)[which] = getattr(other, each.name)
        self.zone[which] = zone


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

    def closed(self, rows, ranks, directions):
        """Ends of all sets at once, where a closed form has them; see `ClippedPieces`."""
        return None

    def pieces(self, j, rows, rank):
        """All intervals of each row's set in zone or gap ``j`` (a list of pairs a row)."""
        raise NotImplementedError

    def residuals(self, j, row, z):
        """Residuals of the augmented fits at candidates in zone or gap ``j`` (g, N); None if unknown."""
        return None

    def may_reach(self, j, rows, rank, direction, outer):
        """Rows whose set may reach into gap ``j``, given their `OuterEnds` in the zone outside it."""
        zone = self.fits.zones[j]
        ends = far_ends(self.fits.fit(j), rows, rank, self.side, "curvature", direction)
        return direction * (ends - (zone.lower if direction > 0 else zone.upper)) >= 0

    def doubtful(self, rows, rank, low, high):
        """Which zones might hold holes between the zones of a row's `OuterEnds` (len(zones), m): bools."""
        zones = self.fits.zones
        lower, upper = (np.array([getattr(zone, end) for zone in zones]) for end in ("lower", "upper"))
        inner = self.surely_in(rows, rank, low, high)
        inner = np.where(np.isnan(inner), [[np.inf], [-np.inf]], inner)
        index = np.arange(len(zones))[:, None]
        between = (low.zone <= index) & (index <= high.zone) & (low.zone != high.zone)
        # In the zones of the ends themselves the set has no holes.
        below = (index > low.zone) & (inner[0] > lower[:, None])
        above = (index < high.zone) & (inner[1] < upper[:, None])
        return between & (below | above)

    def surely_in(self, rows, rank, low, high):
        """Ends of intervals that surely lie in the sets, two (m,) arrays."""
        return inner_hull(self.fits, rows, rank, self.side, "curvature", (low.ends, high.ends))
