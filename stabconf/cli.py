"""Command line: ``stabconf fit``, ``stabconf compare``, ``stabconf demo``.

Exit codes: 0 done, 1 the data or the model do not allow it (one line says why), 2 the command is not right,
141 nobody reads the output any more.
"""

import argparse
import io
import json
import os
import sys
import warnings
from pathlib import Path

import pandas as pd

from .checks import DEFAULT_ALPHA
from .data.table_files import check_table_path, read_table, table_kind, write_table
from .errors import InputError, StabconfError
from .files import check_folder, write_whole
from .losses import LOSSES
from .results.fitting import fit_in_scope
from .show.report import check_path
from .study.comparison import compare_in_scope

__all__ = ["main"]

_PIPE = 141  # what shells give a program that a closed pipe has ended
_FIT_EXAMPLES = """examples:
  stabconf fit "mpg ~ wt + hp" cars.csv
  stabconf fit "mpg ~ wt + C(cyl)" cars.csv --loss huber --penalty 0.01 --report cars.html
  stabconf fit "mpg ~ wt + hp" cars.csv --new new.csv --alpha 0.1 --intervals out.csv
  stabconf fit "np.log(price) ~ area" homes.parquet --new new.tsv --by area=4 --by town --report homes.html
  stabconf fit "y ~ x" data.csv --method split --side upper --intervals bounds.tsv
"""
_COMPARE_EXAMPLES = """examples:
  stabconf compare "mpg ~ wt + hp" cars.csv
  stabconf compare "mpg ~ wt" cars.csv --methods exact stable split cv+ --penalty 1 0.1 0.01 --repeats 200
  stabconf compare "mpg ~ wt" cars.csv --output lengths.csv --plot lengths.png
"""


def main(arguments=None):
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal has no signs for
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            warnings.simplefilter("always", UserWarning)
            code = options.run(options)
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE
    except (StabconfError, OSError) as error:
        print(f"stabconf: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stabconf: interrupted", file=sys.stderr)
        return 1


def _one_line(error):
    return " ".join(str(error).split())


def _say_warning(message, *_, **__):
    print(f"stabconf: warning: {_one_line(message)}", file=sys.stderr)


# Arguments -------------------------------------------------------------------------------------------


def _parser():
    parser = argparse.ArgumentParser(
        prog="stabconf",
        description="Distribution-free prediction intervals from formulas.",
        epilog="'stabconf COMMAND --help' has examples.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_fit(commands)
    _add_compare(commands)
    demo = commands.add_parser("demo", help="fit Engel's food data, print the summary, write a report")
    demo.add_argument(
        "--output",
        type=Path,
        default=Path("stabconf-demo.html"),
        help="the report, .html or .md (default: %(default)s)",
    )
    demo.set_defaults(run=_demo)
    return parser


def _command(commands, name, does, examples):
    return commands.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_model(command):
    command.add_argument("formula", metavar="FORMULA", help='such as "y ~ x1 + C(g)"')
    command.add_argument("data", metavar="DATA", type=Path, help="training rows: .csv, .tsv or .parquet")
    names = ", ".join(LOSSES)
    command.add_argument(
        "--loss", default="lad", choices=list(LOSSES), metavar="LOSS", help=f"one of {names}"
    )
    command.add_argument(
        "--l1-ratio", type=float, default=0.0, metavar="SHARE", help="0 ridge (default) to 1"
    )
    command.add_argument(
        "--alpha", type=float, default=DEFAULT_ALPHA, help="miscoverage (default: %(default)s)"
    )


def _add_fit(commands):
    command = _command(commands, "fit", "fit a formula, print the summary, write intervals", _FIT_EXAMPLES)
    _add_model(command)
    command.add_argument("--penalty", type=float, default=0.01, help="strength (default: %(default)s)")
    command.add_argument("--new", type=Path, metavar="FILE", help="new rows; the training rows by default")
    command.add_argument(
        "--method", default="auto", help="interval method (default: exact where there is one)"
    )
    command.add_argument("--side", default="two-sided", choices=["two-sided", "upper", "lower"])
    command.add_argument(
        "--by",
        action="append",
        type=_grouping,
        metavar="COLUMN[=BINS]",
        help="group widths by a column or term, or by bins of a number: x=4 or x=0,10,100; repeatable",
    )
    command.add_argument("--report", type=Path, metavar="FILE", help="write a report: .html or .md")
    command.add_argument("--intervals", type=Path, metavar="FILE", help="write the intervals as a table")
    command.add_argument("--quiet", action="store_true", help="print nothing but errors and warnings")
    command.set_defaults(run=_fit)


def _add_compare(commands):
    does = "compare interval methods over random splits"
    command = _command(commands, "compare", does, _COMPARE_EXAMPLES)
    _add_model(command)
    command.add_argument("--penalty", type=float, nargs="+", default=[0.01], help="one or more strengths")
    command.add_argument("--methods", nargs="+", default=["exact", "stable", "split"], metavar="METHOD")
    command.add_argument("--repeats", type=int, default=100, help="random splits (default: %(default)s)")
    command.add_argument("--random-state", type=int, default=0, metavar="SEED")
    command.add_argument("--output", type=Path, metavar="FILE", help="write the table")
    command.add_argument("--plot", type=Path, metavar="FILE", help="write the figure: .png, .pdf or .svg")
    command.set_defaults(run=_compare)


def _grouping(text):
    """A column or term; a mapping where bins follow its name."""
    name, sign, bins = text.rpartition("=")
    if not sign or not name or name[-1] in "=<>!":
        return text
    try:
        edges = [json.loads(part) for part in bins.split(",")]
    except ValueError:
        return text
    return {name: edges[0] if len(edges) == 1 else edges}


# Commands --------------------------------------------------------------------------------------------


def _fit(options):
    for path in (options.data, options.new):
        if path is not None:
            table_kind(path)
    if options.intervals is not None:
        check_table_path(options.intervals, "--intervals")
    if options.report is not None:
        check_path(options.report)
    data = read_table(options.data)
    new = None if options.new is None else read_table(options.new)
    model = {"loss": options.loss, "penalty": options.penalty, "l1_ratio": options.l1_ratio}
    results = fit_in_scope({}, options.formula, data, **model)
    asked = {"method": options.method, "side": options.side}
    if not options.quiet:
        print(results.summary(alpha=options.alpha))
        print(f"\n{_widths(results, new, options, asked)}")
    if options.intervals is not None:
        frame = results.get_prediction(new, **asked).summary_frame(alpha=options.alpha)
        frame = frame.rename_axis("row") if frame.index.nlevels == 1 else frame
        _say(options, f"Intervals written to {write_table(options.intervals, frame)}")
    if options.report is not None:
        written = results.report(options.report, new, alpha=options.alpha, by=options.by, **asked)
        _say(options, f"Report written to {written}")
    return 0


def _widths(results, new, options, asked):
    """The width report as text."""
    report = results.width_report(new, by=options.by, alpha=options.alpha, **asked)
    return f"At the {'training' if new is None else 'new'} rows\n{report!r}"


def _say(options, text):
    if not options.quiet:
        print(text)


def _compare(options):
    if options.output is not None:
        check_table_path(options.output, "--output")
    if options.plot is not None:
        _figure_kind(check_folder(options.plot, "--plot"))
    data = read_table(options.data)
    made = compare_in_scope(
        {},
        options.formula,
        data,
        options.methods,
        penalty=options.penalty,
        alpha=options.alpha,
        repeats=options.repeats,
        random_state=options.random_state,
        loss=options.loss,
        l1_ratio=options.l1_ratio,
    )
    print(made.round(4).to_string(index=False))
    if options.output is not None:
        print(f"Table written to {write_table(options.output, made)}")
    if options.plot is not None:
        print(f"Figure written to {_save_figure(options.plot, made)}")
    return 0


def _save_figure(path, made):
    """Draw without a display, and write whole."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.2 + 0.34 * len(made)), layout="constrained")
    made.plot(figure.add_subplot())
    out = io.BytesIO()
    figure.savefig(out, format=_figure_kind(path), dpi=150)
    return write_whole(path, out.getvalue())


def _figure_kind(path):
    from matplotlib.backend_bases import FigureCanvasBase

    kind, known = path.suffix.lower().lstrip("."), FigureCanvasBase.get_supported_filetypes()
    if kind not in known:
        raise InputError(f"{str(path)!r}: figures end in one of {', '.join(sorted(known))}")
    return kind


def _demo(options):
    check_path(options.output)
    from statsmodels.datasets import engel

    data = engel.load_pandas().data
    results = fit_in_scope({}, "foodexp ~ income", data, loss="huber", penalty=0.01)
    new = pd.DataFrame({"income": [500.0, 1000.0, 2000.0]})
    print(results.summary(alpha=0.1))
    print("\n90 % prediction intervals for new households\n")
    print(new.join(results.get_prediction(new).summary_frame(alpha=0.1)).round(1).to_string())
    print(f"\nReport written to {results.report(options.output, new, alpha=0.1)}")
    return 0
