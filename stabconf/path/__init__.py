"""The fit as a new row joins it: tilted fits, the path between them, sets along it (theory, section 5)."""

from .bands import BandEnds, BandPath, BandRows, ends_within
from .chords import chord_fits
from .clipped import ClippedFit
from .lines import Piece, decided_prefix, merge, ties_of
from .polyline import Polyline, polylines
from .tilted import Tilted, both_ways, crossover, leave_one_out, runs_away, sharpened, tilted_fits
