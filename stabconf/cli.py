"""Command line: ``python -m stabconf demo``."""

import argparse
import sys
from pathlib import Path

import pandas as pd

from .errors import StabconfError
from .model import fit
from .report import write_report

__all__ = ["main"]


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m stabconf",
        description="Distribution-free prediction intervals from formulas.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="fit Engel's food-expenditure data, print the summary, write a report"
    )
    demo.add_argument(
        "--output",
        type=Path,
        default=Path("stabconf-demo.md"),
        help="where to write the report (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        return _demo(options.output)
    except (StabconfError, OSError) as error:
        print(f"stabconf: {error}", file=sys.stderr)
        return 1


def _demo(output):
    from statsmodels.datasets import engel

    results = fit("foodexp ~ income", engel.load_pandas().data, loss="huber", penalty=0.01)
    new = pd.DataFrame({"income": [500.0, 1000.0, 2000.0]})
    print(results.summary(alpha=0.1))
    print("\n90 % prediction intervals for new households\n")
    print(new.join(results.get_prediction(new).summary_frame(alpha=0.1)).round(1).to_string())
    print(f"\nReport written to {write_report(results, output, new, alpha=0.1)}")
    return 0
