"""The command line: what it prints and writes, its exit codes, its errors in one line."""

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf import cli
from stabconf.cli import main
from stabconf.demo import ALPHA, FORMULA, households, run_demo


@pytest.fixture
def files(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.iloc[::2].to_csv("train.csv", index=False)
    frame.iloc[1::2].to_csv("new.tsv", sep="\t", index=False)
    return tmp_path


def test_fit_prints_and_writes(files, capsys):
    command = [
        "fit",
        "y ~ x1 + g",
        "train.csv",
        "--new",
        "new.tsv",
        "--alpha",
        "0.2",
        "--by",
        "x1=2",
        "--by",
        "g",
    ]
    assert main([*command, "--report", "out put.html", "--intervals", "out.csv"]) == 0
    said = capsys.readouterr()
    for words in ("Regularised robust regression", "y ~ x1 + g", "Widths of 80 % intervals", "coverage"):
        assert words in said.out
    assert "Report written to out put.html" in said.out and said.err == ""
    table = pd.read_csv("out.csv", index_col="row")
    assert list(table.columns) == ["mean", "obs_ci_lower", "obs_ci_upper", "y"] and len(table) == 40
    given = pd.read_csv("new.tsv", sep="\t")["y"]
    np.testing.assert_allclose(
        table["y"], given, rtol=1e-15
    )  # pandas 2 reads text to a unit in the last place
    assert "<html" in (files / "out put.html").read_text(encoding="utf-8")


def test_fit_takes_options_through(files, capsys):
    options = [
        "--loss",
        "huber",
        "--penalty",
        "0.5",
        "--l1-ratio",
        "0.2",
        "--method",
        "split",
        "--side",
        "upper",
    ]
    assert main(["fit", "y ~ x1", "train.csv", *options, "--intervals", "o.tsv", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert pd.read_csv("o.tsv", sep="\t")["obs_ci_lower"].eq(float("-inf")).all()


def test_compare_prints_a_table_and_draws(files, capsys):
    options = ["--repeats", "2", "--methods", "split", "oracle", "--penalty", "1", "0.1"]
    written = ["--output", "table.csv", "--plot", "figure.svg"]
    assert main(["compare", "y ~ x1", "train.csv", *options, *written]) == 0
    assert "coverage" in capsys.readouterr().out
    assert len(pd.read_csv("table.csv")) == 4 and (files / "figure.svg").read_bytes().startswith(b"<?xml")
    assert main(["compare", "y ~ x1", "train.csv", *options, "--plot", "figure.nix"]) == 1
    assert "figures end in one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "y ~ x1", "absent.csv"], "there is no file 'absent.csv'"),
        (["fit", "y ~ x1", "train.xlsx"], "ends in .csv, .tsv or .parquet"),
        (["fit", "y ~ x1", "train.csv", "--new", "empty.csv"], "cannot be read as CSV"),
        (["fit", "y ~ x1", "semi.csv"], "has one column, 'y;x1': separate columns by commas"),
        (["fit", "y ~ x1", "train.csv", "--by", "g", "--by", "g"], "has 'g' twice"),
        (["fit", "y ~ x1", "train.csv", "--intervals", "o.csv.gz"], "not packed"),
        (["fit", "y ~ x1", "train.csv", "--report", "o.pdf"], "ends in .html or .md"),
        (["fit", "y ~ x1", "train.csv", "--alpha", "2"], "alpha=2.0 is not allowed"),
        (["fit", "y ~ x1", "train.csv", "--method", "nothing"], "method='nothing' is unknown"),
        (["compare", "y ~ x1", "train.csv", "--repeats", "0"], "repeats=0 is not allowed"),
        (["demo", "--output", "no/where.html"], "there is no folder 'no'"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(files, capsys, arguments, words):
    (files / "empty.csv").write_text("")
    (files / "semi.csv").write_text("y;x1\n1;2\n3;4\n")
    before = sorted(files.iterdir())
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("stabconf: ") and words in error and error.count("\n") == 1
    assert sorted(files.iterdir()) == before


def test_the_place_in_a_formula_is_pointed_at(files, capsys):
    assert main(["fit", "y ~ x1 + nothing", "train.csv"]) == 1
    error = capsys.readouterr().err
    assert "name 'nothing' is not defined\n    y ~ x1 + nothing\n             ^^^^^^^\nHint:" in error
    assert main(["fit", "y ~ data", "train.csv"]) == 1
    assert "name 'data' is not defined" in capsys.readouterr().err


def test_what_cannot_be_shown_is_said_before_anything_is_printed(files, capsys):
    assert main(["fit", "y ~ x1", "train.csv", "--by", "nope"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "by='nope'" in said.err


def test_unseen_levels_are_left_empty_where_asked(files, capsys):
    new = pd.read_csv("new.tsv", sep="\t").head(3).assign(g=["a", "b", "zz"])
    new.to_csv("odd.csv", index=False)
    command = ["fit", "y ~ x1 + g", "train.csv", "--new", "odd.csv", "--intervals", "o.csv", "--quiet"]
    assert main(command) == 1
    assert "unseen='nan'" in capsys.readouterr().err
    assert main([*command, "--unseen", "nan"]) == 0
    assert pd.read_csv("o.csv")["obs_ci_lower"].isna().tolist() == [False, False, True]


def test_units_of_the_response_go_through(files, capsys):
    table = pd.read_csv("train.csv")
    table["y"] = table["y"] - table["y"].min() + 1
    table.to_csv("positive.csv", index=False)
    command = ["fit", "np.log(y) ~ x1", "positive.csv", "--alpha", "0.2", "--intervals", "o.csv"]
    assert main([*command, "--units", "response"]) == 0
    made = pd.read_csv("o.csv")
    res = stabconf.fit("np.log(y) ~ x1", table)
    logs = res.conf_int_conformal(alpha=0.2)
    np.testing.assert_allclose(np.log(made[["obs_ci_lower", "obs_ci_upper"]]), logs, rtol=1e-9)
    np.testing.assert_allclose(made["y"], table["y"], rtol=1e-15)


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out.split() == ["stabconf", stabconf.__version__]


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["fit"], ["fit", "y ~ x", "d.csv", "--loss", "nothing"]]
)
def test_a_wrong_command_exits_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and "usage" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0 and "examples:" in capsys.readouterr().out


def test_warnings_are_one_line_each(files, capsys):
    assert main(["fit", "y ~ x1", "train.csv", "--alpha", "0.001", "--intervals", "o.csv", "--quiet"]) == 0
    assert capsys.readouterr().err.startswith("stabconf: warning: 40 rows are too few for alpha=0.001")


def test_parquet_works_or_says_what_it_needs(files, frame, capsys):
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert main(["fit", "y ~ x1", "train.csv", "--intervals", "o.parquet"]) == 1
        assert "Parquet needs pyarrow: pip install pyarrow" in capsys.readouterr().err
    else:
        frame.to_parquet("train.parquet")
        assert main(["fit", "y ~ x1", "train.parquet", "--intervals", "o.parquet"]) == 0
        assert len(pd.read_parquet("o.parquet")) == len(frame)


def test_demo_prints_a_summary_and_writes_a_report(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "stabconf", "demo", "--output", "my report.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Regularised quantile regression" in done.stdout and "richest third" in done.stdout
    assert "income" in (tmp_path / "my report.html").read_text(encoding="utf-8")
    assert done.stderr == ""


def test_the_sentence_of_the_demo_is_that_of_counts_by_hand():
    training, held = households()
    said: list[str] = []
    assert len(training) + len(held) == 235 and not set(training.index) & set(held.index)
    one = stabconf.fit(FORMULA, training).conf_int_conformal(held, alpha=ALPHA)
    two = stabconf.fit_quantiles(FORMULA, training).conf_int_conformal(held, alpha=ALPHA)
    inside = [held["foodexp"].between(ends["lower"], ends["upper"]) for ends in (one, two)]
    rich = held["income"] > held["income"].quantile(2 / 3)
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder) / "demo.html", said.append)
    (sentence,) = [line for text in said for line in text.split("\n") if "held-out households lie" in line]
    assert sentence.startswith(f"{inside[1].sum()} of {len(held)} held-out")
    assert f"{inside[0][rich].mean():.0%} of the richest." in sentence


@pytest.mark.parametrize("name", ["cut.csv.gz", "text.csv.zip", "text.csv.xz"])
def test_broken_archives_are_said_in_one_line(files, capsys, name):
    whole = gzip.compress((files / "train.csv").read_bytes())
    (files / name).write_bytes(whole[:200] if name.startswith("cut") else b"y,x1\n1,2\n")
    assert main(["fit", "y ~ x1", name]) == 1
    assert capsys.readouterr().err.startswith(f"stabconf: '{name}' cannot be read as CSV: ")


@pytest.mark.parametrize(
    "more",
    [
        ["compare", "--output", "no/a.csv"],
        ["compare", "--plot", "a.foo"],
        ["fit", "--intervals", "no/a.csv"],
    ],
)
def test_outputs_that_cannot_be_written_are_found_before_the_work(files, capsys, more):
    command, *rest = more
    assert main([command, "y ~ x1", "train.csv", *rest]) == 1
    said = capsys.readouterr()
    assert said.out == "" and rest[1] in said.err and ".part" not in said.err


def test_names_that_the_terminal_cannot_show(files):
    pd.read_csv("train.csv").rename(columns={"x1": "größe"}).to_csv("signs.csv", index=False)
    command = [sys.executable, "-m", "stabconf", "fit", "y ~ größe", "signs.csv"]
    root = str(Path(stabconf.__file__).parents[1])
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and r"gr\xf6\xdfe" in done.stdout, done.stderr


def test_rows_of_several_labels_keep_them(files, frame, monkeypatch):
    """As Parquet files may have them."""
    monkeypatch.setattr(cli, "read_table", lambda path: frame.set_index(["g", "x2"]))
    assert main(["fit", "y ~ x1", "train.csv", "--quiet", "--intervals", "out.csv"]) == 0
    assert list(pd.read_csv("out.csv").columns[:2]) == ["g", "x2"]


def test_a_reader_that_stops_reading_is_no_error(files):
    command = [sys.executable, "-m", "stabconf", "fit", "y ~ x1", str(files / "train.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141
