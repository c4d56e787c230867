"""What the benchmarks share: arguments, timing, memory, tables, and the housing data.

Every number that is reported is a ratio of two measurements of one run, so that the tables say the
same thing on a fast machine and on a slow one.
"""

import argparse
import datetime
import os
import platform
import sys
import time
import tracemalloc
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

import stabconf

HERE = Path(__file__).resolve().parent
HOUSING = "california_housing.csv.gz"
TARGET = "MedHouseVal"
FEATURES = [
    "MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"
]  # fmt: skip
HOUSING_ROWS = 20640
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "patsy", "scikit-learn", "clarabel", "mapie")


def parse_arguments(script, description):
    """Arguments that every benchmark takes; ``script`` names the file of results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", type=Path, help=f"folder that holds {HOUSING}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats")
    parser.add_argument(
        "--output",
        type=Path,
        default=HERE / "results" / f"{script}.md",
        help="Markdown file for the tables (default: results/ beside the script)",
    )
    return parser.parse_args()


def california_housing(data_dir):
    """The housing table and its label; a synthetic one of its shape where the file is missing."""
    path = None if data_dir is None else data_dir / HOUSING
    if path is not None and path.exists():
        return pd.read_csv(path), "California housing"
    warnings.warn(
        f"{HOUSING} not found, so a synthetic table of its shape is used: pass --data-dir with "
        f"{HOUSING}, or write it once with network access: "
        "sklearn.datasets.fetch_california_housing(as_frame=True)"
        f".frame.to_csv('{HOUSING}', index=False)",
        stacklevel=2,
    )
    return _synthetic_housing(), "synthetic table of the shape of California housing"


def _synthetic_housing():
    """Skewed features, heavy-tailed noise and a capped target, as in the real table."""
    random = np.random.default_rng(0)
    features = random.lognormal(sigma=0.5, size=(HOUSING_ROWS, len(FEATURES)))
    noise = 0.5 * random.standard_t(3, size=HOUSING_ROWS)
    target = np.clip(features @ np.linspace(0.6, -0.2, len(FEATURES)) + noise, 0.15, 5.0)
    return pd.DataFrame(features, columns=FEATURES).assign(**{TARGET: target})


def best_time(function, repeats):
    """Seconds of the fastest of ``repeats`` calls, and what the last of them returned."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def peak_memory(function):
    """Bytes that a call holds at its peak beyond those held before it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        function()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before


class Report:
    """Tables, printed as they are made and written to a Markdown file at the end."""

    def __init__(self, title):
        self._parts = [f"# {title}"]

    def table(self, heading, note, header, rows):
        """Add a table; cells are strings."""
        table = _markdown_table(header, rows)
        self._parts += [f"## {heading}", note, table]
        print(f"\n{heading}\n\n{table}", flush=True)

    def write(self, path, quick):
        """Write the tables with the date and the versions they were made with."""
        made = f"Made on {datetime.date.today():%Y-%m-%d}{' with --quick' if quick else ''}: "
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join([*self._parts, made + _versions()]) + "\n", encoding="utf-8")


def _markdown_table(header, rows):
    """A pipe table, padded so that it reads well as plain text; numbers stand to the right."""
    cells = [header, *rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    lines = []
    for row in cells:
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("| " + " | ".join(padded) + " |")
    rule = ["-" * widths[0]] + ["-" * (width - 1) + ":" for width in widths[1:]]
    return "\n".join([lines[0], "| " + " | ".join(rule) + " |", *lines[1:]])


def _versions():
    """Versions of Python, stabconf and the packages measured, and the number of threads."""
    found = [f"Python {platform.python_version()}", f"stabconf {stabconf.__version__}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    found.append(f"OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'not set')}")
    return f"{', '.join(found)} ({sys.platform})."
