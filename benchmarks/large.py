"""More rows than one should hold: new rows through dask, a fit to Parquet parts, and what a worker costs.

Everything is measured on Parquet files of one shape (four numbers and a factor of six levels), made in a
temporary folder. Times are processor times of the processes that do the work, and are given as ratios: to
the sum of the files answered one by one, or to the fit of one file in memory.
"""

import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from common import Report, parse_arguments
from distributed import Client, LocalCluster

import stabconf

FORMULA = "y ~ x0 + x1 + x2 + x3 + C(g)"
ALPHA = 0.1
LOSSES = ("huber", "lad")
PEAK = """
def peak():
    # Not ru_maxrss, which a child has from its parent.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM"))
"""
START = """
import pickle, sys
predictor = pickle.load(open(sys.argv[1], "rb"))
predictor.conf_int_conformal({"x0": [0.1], "x1": [0.2], "x2": [0.3], "x3": [0.4], "g": ["b"]})
"""
FIT = """
import pickle, sys
import dask, dask.dataframe as dd
import stabconf
dask.config.set(scheduler="sync")
res = stabconf.fit(sys.argv[1], dd.read_parquet(sys.argv[2]), loss=sys.argv[3])
print(res.params.to_json(double_precision=15))
predictor = res.predictor(float(sys.argv[4])) if len(sys.argv) > 4 else None
print(len(pickle.dumps(predictor)))
"""


def draw(rows, seed):
    """A frame with heavy-tailed noise."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{j}": random.standard_normal(rows) for j in range(4)})
    frame["g"] = random.choice(list("abcdef"), size=rows)
    return frame.assign(y=frame.x0 - 0.5 * frame.x1 + (frame.g == "b") + random.standard_t(3, rows))


def measured(script, *arguments):
    """Processor seconds, elapsed seconds and peak memory in MB of a script of its own, and its output."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = f"{script}\n{PEAK}\nprint(peak())"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - start, float(out[-1]), out[:-1]


def busy():
    """Processor seconds of this process, all of its threads together, and its peak memory in MB."""
    found = {}
    exec(PEAK, found)
    return time.process_time(), found["peak"]()


def one_by_one(predictor, files, folder):
    """Processor and elapsed seconds of the files read, answered and written in turn."""
    spent, start = time.process_time(), time.perf_counter()
    for path in files:
        predictor.conf_int_conformal(pd.read_parquet(path)).to_parquet(folder / path.name)
    return time.process_time() - spent, time.perf_counter() - start


def by_dask(predictor, files, folder):
    """Processor and elapsed seconds of a dask worker with the files in turn, and of two with all of them;
    and the larger's memory."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": "2GB"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        warm = predictor.conf_int_conformal(dd.read_parquet(files[:4]))
        warm.to_parquet(folder / "warm")  # workers import what they need
        alone = client.submit(one_by_one, predictor, files, folder).result()
        before = client.run(busy)
        start = time.perf_counter()
        predictor.conf_int_conformal(dd.read_parquet(files)).to_parquet(folder / "dask")
        elapsed = time.perf_counter() - start
        after = client.run(busy)
    spent = sum(after[worker][0] - before[worker][0] for worker in after)
    return alone, (spent, elapsed), max(memory for _, memory in after.values())


def new_rows(report, files, rows, folder):
    """Answer all files by dask and one by one, and start a worker."""
    data = pd.read_parquet(files[0])
    predictor = stabconf.fit(FORMULA, data, loss="huber").predictor(ALPHA, methods="stable")
    plain = one_by_one(predictor, files, folder)
    alone, dask, memory = by_dask(predictor, files, folder)
    saved = folder / "predictor"
    saved.write_bytes(pickle.dumps(predictor))
    started = [measured(START, saved) for _ in range(3)]
    bare = [measured("import numpy, pandas, patsy, scipy.linalg, scipy.special") for _ in range(3)]
    ratio = [f"{spent / alone[0]:.2f}" for spent, _ in (alone, dask, plain)]
    report.table(
        "New rows",
        f"Stable intervals of {rows:,} new rows in {len(files)} files, Huber loss: read, answered and "
        "written. Aim: two dask workers within 1.5 times the files one by one; a worker starts below 1 s. "
        "Processes outside of dask are faster, for dask lets its workers give memory back after each array "
        "(MALLOC_TRIM_THRESHOLD_).",
        ["", "processor s", "elapsed s", "ratio", "peak memory, MB"],
        [
            ["one dask worker, files one by one", f"{alone[0]:.1f}", f"{alone[1]:.1f}", ratio[0], ""],
            ["two dask workers", f"{dask[0]:.1f}", f"{dask[1]:.1f}", ratio[1], f"{memory:.0f}"],
            ["a process of its own, files one by one", f"{plain[0]:.1f}", f"{plain[1]:.1f}", ratio[2], ""],
            _line("a worker's start and first answer", min(started)),
            _line("import of numpy, pandas, patsy, scipy.linalg", min(bare)),
        ],
    )
    report.text(f"The predictor has {saved.stat().st_size / 1e6:.2f} MB pickled.")


def _line(name, figures):
    spent, elapsed, memory, _ = figures
    return [name, f"{spent:.2f}", f"{elapsed:.2f}", "", f"{memory:.0f}"]


def training_rows(report, files, rows, size):
    """Fit all files part by part, and one of them in memory."""
    lines = []
    for loss in LOSSES:
        data = pd.read_parquet(files[0])
        start = time.process_time()
        whole = stabconf.fit(FORMULA, data, loss=loss)
        one = time.process_time() - start
        spent, elapsed, memory, out = measured(FIT, FORMULA, files[0].parent, loss, ALPHA)
        _, _, _, (params, _) = measured(FIT, FORMULA, files[0], loss)
        gap = np.max(np.abs(whole.params.to_numpy() - list(json.loads(params).values())))
        ratio = spent / one / (rows / size)
        figures = [
            f"{spent:.1f}",
            f"{elapsed:.1f}",
            f"{ratio:.2f}",
            f"{memory:.0f}",
            f"{int(out[-1]) / 1e6:.2f}",
        ]
        lines.append([loss, *figures, f"{gap:.0e}"])
    report.table(
        "Training rows",
        f"A fit to {rows:,} rows in {len(files)} Parquet files and its predictor, in a process of its own. "
        f"The ratio is to a fit of {size:,} rows in memory, per row. The last column is the largest "
        "distance between the coefficients of one file fitted either way.",
        ["loss", "processor s", "elapsed s", "ratio", "peak memory, MB", "predictor, MB", "distance"],
        lines,
    )


def main():
    """Run and write the tables."""
    asked = parse_arguments("large", __doc__.splitlines()[0])
    count, size = (4, 30_000) if asked.quick else (20, 500_000)
    report = Report("More rows than memory holds")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        files = [folder / "data" / f"part-{place:02d}.parquet" for place in range(count)]
        for place, path in enumerate(files):
            draw(size, asked.seed + place).to_parquet(path)
        new_rows(report, files, count * size, folder)
        training_rows(report, files, count * size, size)
    report.write(asked.output, asked.quick)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
