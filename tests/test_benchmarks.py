"""The benchmarks keep the score: no tenfold slow-down, and what is said of the stored tables is so."""

import re
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = sorted(
    path for path in FOLDER.glob("*.py") if "parse_arguments(" in path.read_text(encoding="utf-8")
)
SCRIPTS.remove(FOLDER / "common.py")
README = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_ratio_is_beyond_its_bound(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    guard = import_module("guard")
    found, slow = guard.checked()
    assert not slow, {name: found[name] for name in slow}


@pytest.mark.slow
def test_no_call_takes_more_instructions_than_its_bound(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    instructions = import_module("instructions")
    if not instructions.has_valgrind():
        pytest.skip("valgrind counts the instructions, and is not installed")
    found, slow = instructions.checked()
    assert not slow, {name: found[name] for name in slow}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_is_explained_and_has_its_tables_or_is_to_be_rerun(path):
    assert f"benchmarks/{path.name}" in README
    (line,) = re.findall(rf"^\| `{path.name}` \|.*$", README, re.MULTILINE)
    stored = FOLDER / "results" / f"{path.stem}.md"
    assert (f"results/{stored.name}" in line) == stored.exists() == ("to be rerun" not in line)


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("*.md")), ids=lambda path: path.stem)
def test_stored_tables_have_date_and_versions(path):
    assert FOLDER / f"{path.stem}.py" in SCRIPTS
    text = path.read_text(encoding="utf-8")
    assert re.search(r"Made on \d{4}-\d\d-\d\d: Python .*numpy ", text), "store a full run, not a quick one"


def test_figures_are_shown_and_small():
    figures = sorted((FOLDER / "results" / "figures").glob("*.png"))
    shown = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "results").glob("*.md"))
    assert figures
    for figure in figures:
        assert f"figures/{figure.name}" in shown
        assert figure.stat().st_size <= 150_000
