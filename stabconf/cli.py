"""Command line: ``stabconf fit``, ``stabconf compare``, ``stabconf demo``.

Exit codes: 0 done, 1 the data or the model do not allow it (one line says why), 2 the command is not right,
141 nobody reads the output any more.
"""

import io
import json
import os
import sys
import warnings
from argparse import ArgumentParser, Namespace
from argparse import RawDescriptionHelpFormatter as AsWritten
from collections.abc import Callable, Sequence
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

import pandas as pd

from ._version import __version__
from .checks import DEFAULT_ALPHA
from .data.parts import TableParts
from .data.response_units import as_units
from .data.table_files import check_table_path, read_table, table_kind, write_table
from .demo import run_demo
from .errors import FormulaError, InputError, StabconfError, StabconfWarning
from .files import check_folder, write_whole
from .losses import LOSSES
from .results.base import BaseResults
from .results.fitting import fit_in_scope
from .results.regression import Results
from .results.showing import responses_of
from .show.plots.spread_plots import comparison_size
from .show.report import check_path
from .study.comparison import compare_in_scope

_ASKED = ("conditional", "groups", "units")  # options of the intervals, where they are given
_PIPE = 141  # what shells give a program that a closed pipe has ended
_FIT_EXAMPLES = """examples:
  stabconf fit "mpg ~ wt + hp" cars.csv
  stabconf fit "mpg ~ wt + C(cyl)" cars.csv --loss huber --penalty 0.01 --report cars.html
  stabconf fit "mpg ~ wt + hp" cars.csv --new new.csv --alpha 0.1 --intervals out.csv
  stabconf fit "np.log(price) ~ area" homes.parquet --new new.tsv --by area=4 --by town --report homes.html
  stabconf fit "y ~ x" data.parquet --new 'part-*.parquet' --method stable --intervals out/
  stabconf fit "y ~ x" 'train-*.parquet' --loss huber --new new.parquet --intervals out.parquet
  stabconf fit "y ~ x" data.csv --method split --side upper --intervals bounds.tsv
"""
_COMPARE_EXAMPLES = """examples:
  stabconf compare "mpg ~ wt + hp" cars.csv
  stabconf compare "mpg ~ wt" cars.csv --methods exact stable split cv+ --penalty 1 0.1 0.01 --repeats 200
  stabconf compare "mpg ~ wt" cars.csv --output lengths.csv --plot lengths.png
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal has no signs for
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warnings_once()
            warnings.simplefilter("always", UserWarning)
            options.run(options)
            sys.stdout.flush()
            return 0
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE
    except (StabconfError, OSError) as error:
        _say_on_stderr(error)
    except KeyboardInterrupt:
        _say_on_stderr("interrupted")
    return 1


def _warnings_once() -> Callable[..., None]:
    """What says each warning once, with the name of its kind where it is not the package's own."""
    once = cache(_say_on_stderr)

    def say(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        once(f"{'warning' if issubclass(category, StabconfWarning) else category.__name__}: {message}")

    return say


def _say_on_stderr(message: object) -> None:
    """One line, however many the message has; but a formula keeps the carets below it."""
    words = str(message) if isinstance(message, FormulaError) else " ".join(str(message).split())
    print(f"stabconf: {words}", file=sys.stderr)


# Arguments -------------------------------------------------------------------------------------------


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="stabconf",
        description="Distribution-free prediction intervals from formulas.",
        epilog="'stabconf COMMAND --help' has examples.",
    )
    parser.add_argument("--version", action="version", version=f"stabconf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[Namespace], None], does: str, examples: str = ""
    ) -> Callable[..., Any]:
        made = commands.add_parser(name, help=does, epilog=examples, formatter_class=AsWritten)
        made.description = does[0].upper() + does[1:] + "."
        made.set_defaults(run=run)
        return made.add_argument

    does = "fit a formula, print the summary, write intervals"
    _add_fit(command("fit", _fit, does, _FIT_EXAMPLES))
    does = "compare interval methods over random splits"
    _add_compare(command("compare", _compare, does, _COMPARE_EXAMPLES))
    does = "intervals for households of Engel's food data, judged at held-out ones, and a report"
    says = "the report, .html or .md (default: %(default)s)"
    command("demo", _demo, does)("--output", type=Path, default=Path("stabconf-demo.html"), help=says)
    return parser


def _add_model(add: Callable[..., Any]) -> None:
    add("formula", metavar="FORMULA", help='such as "y ~ x1 + C(g)"')
    add("data", metavar="DATA", type=Path, help="training rows: .csv, .tsv or .parquet")
    says = f"one of {', '.join(LOSSES)}"
    add("--loss", default="lad", choices=list(LOSSES), metavar="LOSS", help=says)
    add("--l1-ratio", type=float, default=0.0, metavar="SHARE", help="0 ridge (default) to 1")
    add("--alpha", type=float, default=DEFAULT_ALPHA, help="miscoverage (default: %(default)s)")


def _add_fit(add: Callable[..., Any]) -> None:
    _add_model(add)
    add("--penalty", type=float, default=0.01, help="strength (default: %(default)s)")
    says = "new rows; the training rows by default. A quoted pattern, 'part-*.csv', goes file by file"
    add("--new", type=Path, metavar="FILE", help=says)
    add("--method", default="auto", help="interval method (default: exact where there is one)")
    add("--side", default="two-sided", choices=["two-sided", "upper", "lower"])
    says = "cover along a formula, such as '~ C(region) + cr(age, df=4)'"
    add("--conditional", metavar="FORMULA", help=says)
    says = "cover within groups of a column or term; repeatable"
    add("--groups", action="append", metavar="TERM", help=says)
    says = "rows of levels that training lacks are an error (default), or left empty"
    add("--unseen", default="raise", choices=["raise", "nan"], help=says)
    says = "answer a transformed response, np.log(y) say, in units of y"
    add("--units", choices=["response"], help=says)
    says = "group widths by a column or term, or by bins of a number: x=4 or x=0,10,100; repeatable"
    add("--by", action="append", type=_grouping, metavar="COLUMN[=BINS]", help=says)
    add("--report", type=Path, metavar="FILE", help="write a report: .html or .md")
    says = "write the intervals as a table, or as tables in a folder"
    add("--intervals", type=Path, metavar="FILE", help=says)
    add("--quiet", action="store_true", help="print nothing but errors and warnings")


def _add_compare(add: Callable[..., Any]) -> None:
    _add_model(add)
    add("--penalty", type=float, nargs="+", default=[0.01], help="one or more strengths")
    add("--methods", nargs="+", default=["exact", "stable", "split"], metavar="METHOD")
    add("--repeats", type=int, default=100, help="random splits (default: %(default)s)")
    add("--random-state", type=int, default=0, metavar="SEED")
    add("--output", type=Path, metavar="FILE", help="write the table")
    add("--plot", type=Path, metavar="FILE", help="write the figure: .png, .pdf or .svg")


def _grouping(text: str) -> str | dict[str, Any]:
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


def _fit(options: Namespace) -> None:
    if options.new is not None and _is_pattern(options.new):
        _fit_parts(options)
        return
    parted = _is_pattern(options.data)
    if parted and (options.report or options.by or (options.intervals and options.new is None)):
        raise InputError(
            "DATA with a pattern is fitted part by part, and its rows are not kept: give --new for "
            "--intervals, and neither --report nor --by"
        )
    if options.intervals is not None:
        check_table_path(options.intervals, "--intervals")
    if options.report is not None:
        check_path(options.report)
    new = None if options.new is None else read_table(options.new)
    results, asked = _fitted(options)
    shown = {"by": options.by, "alpha": options.alpha, **asked}
    say: Callable[[str], None] = (lambda text: None) if options.quiet else print
    if parted:
        say(f"{results.summary()}\n")
    else:
        widths = results.width_report(new, **shown)  # before anything is printed: it checks what was asked
        say(f"{results.summary(alpha=options.alpha)}\n")
        say(f"At the {'training' if new is None else 'new'} rows\n{widths!r}")
    if options.intervals is not None:
        table = _interval_table(results, new, options, asked)
        say(f"Intervals written to {write_table(options.intervals, table)}")
    if options.report is not None:
        say(f"Report written to {results.report(options.report, new, **shown)}")


def _is_pattern(path: Path) -> bool:
    return any(sign in str(path) for sign in "*?[") and not path.exists()


def _files(pattern: Path, argument: str) -> list[Path]:
    found = [Path(name) for name in sorted(glob(str(pattern)))]
    if not found:
        raise InputError(f"{argument} {str(pattern)!r} names no file: try a pattern like 'part-*.parquet'")
    return found


def _fitted(options: Namespace) -> tuple[Any, dict[str, Any]]:
    """Results, and what is asked of them."""
    path = options.data
    data: Any = TableParts.of_files(_files(path, "DATA")) if _is_pattern(path) else read_table(path)
    model = {name: getattr(options, name) for name in ("loss", "penalty", "l1_ratio", "unseen")}
    asked = {"method": options.method, "side": options.side}
    asked |= {name: getattr(options, name) for name in _ASKED if getattr(options, name)}
    return fit_in_scope({}, options.formula, data, **model), asked


def _fit_parts(options: Namespace) -> None:
    """Intervals of new rows in several files, one file in memory at a time."""
    parts = _files(options.new, "--new")
    if options.intervals is None or options.report is not None or options.by:
        raise InputError(
            "--new with a pattern writes tables into a folder: give --intervals out/, without --report "
            "and --by"
        )
    folder = options.intervals
    written = [folder / f"{part.name.split('.')[0]}{table_kind(part)}" for part in parts]
    if len(set(written)) < len(parts) or set(written) & set(parts):
        raise InputError(f"--intervals {str(folder)!r}: two tables would have one name: rename the parts")
    folder.mkdir(parents=True, exist_ok=True)
    results, asked = _fitted(options)
    method = "stable" if options.method == "auto" else options.method
    plain = method in ("stable", "split") and not {"conditional", "groups"} & set(asked)
    if plain and isinstance(results, Results):  # without the training rows, and fitted once
        asked["method"] = method
        results = results.predictor(options.alpha, options.side, method)
    for part, path in zip(parts, written, strict=True):
        write_table(path, _interval_table(results, read_table(part), options, asked))
    if not options.quiet:
        print(f"Intervals of {len(parts)} files written to {folder}")


def _interval_table(
    results: BaseResults, new: pd.DataFrame | None, options: Namespace, asked: dict[str, Any]
) -> pd.DataFrame:
    """Predictions and intervals, and the responses where they are known."""
    frame = results.get_prediction(new, **asked).summary_frame(alpha=options.alpha)
    design = results._design
    y = responses_of(design, new, design.frame_of(new), None, asked.get("units"))
    if y is not None:
        frame[as_units(asked.get("units"), design).response] = y
    return frame.rename_axis("row") if frame.index.nlevels == 1 else frame


def _compare(options: Namespace) -> None:
    if options.output is not None:
        check_table_path(options.output, "--output")
    if options.plot is not None:
        _figure_kind(check_folder(options.plot, "--plot"))
    names = ("penalty", "alpha", "repeats", "random_state", "loss", "l1_ratio")
    asked = {name: getattr(options, name) for name in names}
    made = compare_in_scope({}, options.formula, read_table(options.data), options.methods, **asked)
    print(made.round(4).to_string(index=False))
    if options.output is not None:
        print(f"Table written to {write_table(options.output, made)}")
    if options.plot is not None:
        from matplotlib.figure import Figure  # which needs no display

        figure = Figure(figsize=comparison_size(len(made)), layout="constrained")
        made.plot(figure.add_subplot())
        out = io.BytesIO()
        figure.savefig(out, format=_figure_kind(options.plot), dpi=150)
        print(f"Figure written to {write_whole(options.plot, out.getvalue())}")


def _figure_kind(path: Path) -> str:
    from matplotlib.backend_bases import FigureCanvasBase

    kind, known = path.suffix.lower().lstrip("."), FigureCanvasBase.get_supported_filetypes()
    if kind not in known:
        raise InputError(f"{str(path)!r}: figures end in one of {', '.join(sorted(known))}")
    return kind


def _demo(options: Namespace) -> None:
    check_path(options.output)
    run_demo(options.output, print)
