"""The fit as the new response, or location and scale, move (theory, section 5)."""

from .augmented import Gap, PathError, gap_paths, moving_fit, response_path, step_paths
from .bands import BandPath, BandRows
from .chords import chord_fits
from .clipped import ClippedFit
from .follow import follow
from .lines import ResponsePath, decided_prefix, merge
from .tilted import Tilted, drift_lengths, tilted_fits

__all__ = [
    "BandPath",
    "BandRows",
    "ClippedFit",
    "Gap",
    "PathError",
    "ResponsePath",
    "Tilted",
    "chord_fits",
    "decided_prefix",
    "drift_lengths",
    "follow",
    "gap_paths",
    "merge",
    "moving_fit",
    "response_path",
    "step_paths",
    "tilted_fits",
]
