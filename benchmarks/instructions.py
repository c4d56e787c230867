"""Instructions that calls take, counted by callgrind: what a slip costs, whatever else the machine does.

Counts are of the whole call, Python and BLAS, in those of a fit. They hardly differ between two runs, so
their bounds are a fifth above what was counted when they were set. Each call was made once before, so that
what is kept on the results is there. Needs valgrind; without it the script says so and stops.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from common import Report, parse_arguments

import stabconf

BOUNDS = {  # call, and how many fits it may be
    "one exact LAD row": 0.45,
    "20 exact LAD rows": 1.55,
    "one exact Huber row": 0.47,
    "20 exact Huber rows": 1.65,
    "one stable Huber row": 0.13,
}
CALLGRIND = "valgrind", "--tool=callgrind", "--instr-atstart=no"
FIT = "fit"
NOTHING = "nothing"  # what counting itself takes
INSIDE = "STABCONF_COUNTED"  # set in the process whose instructions are counted


def calls():
    """The calls by name, each a function of the first of the new rows, for answers are kept; a fit comes
    before what is counted in units of it."""
    random = np.random.default_rng(0)
    X = random.standard_normal((442, 10))
    frame = pd.DataFrame(X).add_prefix("x").assign(y=X[:, :5].sum(axis=1) + random.standard_t(3, 442))
    formula = "y ~ " + " + ".join(frame.columns.drop("y"))
    out = {NOTHING: lambda first: None}
    for name, loss in {"LAD": "lad", "Huber": "huber"}.items():
        fit = partial(stabconf.fit, formula, frame, loss=loss)
        ask = fit().conf_int_conformal
        out[f"{name} {FIT}"] = lambda first, fit=fit: fit()
        out[f"one exact {name} row"] = lambda first, ask=ask: ask(frame[first : first + 1])
        out[f"20 exact {name} rows"] = lambda first, ask=ask: ask(frame[first : first + 20])
    out["one stable Huber row"] = lambda first: ask(frame[first : first + 1], method="stable")
    return out


def control(*options):
    """Tell callgrind what to do with this process."""
    subprocess.run(["callgrind_control", *options, str(os.getpid())], check=True, capture_output=True)


def count_here():
    """Make each call twice, the second time for other rows and with instructions counted; a dump each."""
    for call in calls().values():
        call(0)
        gc.collect()
        control("--instr=on")
        call(100)
        control("--instr=off")
        control("--dump")


def counted():
    """Instructions of the calls by name."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "counts"
        subprocess.run(
            [*CALLGRIND, f"--callgrind-out-file={file}", sys.executable, __file__],
            env={**os.environ, INSIDE: "1", "OMP_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
        )
        # The last file, without a number, is of what comes after all calls.
        dumps = sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        totals = [int(re.search(r"^totals: (\d+)", path.read_text(), re.M)[1]) for path in dumps]
    return dict(zip(calls(), totals, strict=True))


def has_valgrind():
    """Whether instructions can be counted here."""
    return bool(shutil.which("valgrind") and shutil.which("callgrind_control"))


def checked():
    """For each call its millions of instructions, how many fits they are and may be; and the names of those
    beyond their bounds."""
    found = counted()
    nothing = found.pop(NOTHING)
    out, fit = {}, 1
    for name, count in found.items():
        fit = count - nothing if name.endswith(FIT) else fit
        out[name] = (count - nothing) / 1e6, (count - nothing) / fit, BOUNDS.get(name, 1.0)
    return out, [name for name, (_, ratio, bound) in out.items() if ratio > bound]


def main():
    """Print the counts; the exit status says whether all are within their bounds."""
    arguments = parse_arguments("instructions", __doc__.splitlines()[0])
    if not has_valgrind():
        print("instructions.py needs valgrind, which is not installed here: nothing was counted")
        return
    found, slow = checked()
    report = Report("Instructions")
    heads = ["call", "million instructions", "in those of a fit", "bound"]
    lines = [[name, f"{each[0]:.1f}", f"{each[1]:.2f}", f"{each[2]:g}"] for name, each in found.items()]
    report.table("Counts and their bounds", __doc__.split("\n\n", 1)[1].strip(), heads, lines)
    report.write(arguments.output, arguments.quick)
    sys.exit(bool(slow))


if __name__ == "__main__":
    count_here() if INSIDE in os.environ else main()
