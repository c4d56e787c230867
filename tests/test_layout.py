"""The layout holds: who may import whom, module sizes, docstrings, notebooks that run."""

import ast
import doctest
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import stabconf

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(stabconf.__file__).resolve().parent
NOTEBOOKS = sorted((ROOT / "vignettes").glob("*.ipynb"))

# Modules of the package that each part may import, and third-party packages it may see.
ALLOWED = {
    "errors": (set(), set()),
    "_version": (set(), set()),
    "checks": (set(), set()),
    "files": ({"errors"}, set()),
    "units": (set(), {"numpy"}),
    "cells": ({"errors"}, {"numpy", "pandas"}),
    "user_frames": ({"cells", "errors"}, {"numpy", "pandas"}),
    "scope": ({"user_frames"}, {"numpy", "pandas"}),
    "terms": ({"errors", "units", "user_frames"}, {"numpy", "pandas", "patsy"}),
    "design": (
        {"cells", "errors", "scope", "terms", "units", "user_frames"},
        {"numpy", "pandas", "patsy"},
    ),
    "losses": ({"checks", "errors"}, {"numpy", "scipy"}),
    "penalties": ({"checks", "errors"}, {"numpy"}),
    "solvers": ({"errors", "losses", "penalties"}, {"numpy", "scipy"}),
    "scores": ({"units"}, {"numpy"}),
    "stability": (
        {"errors", "losses", "penalties", "scores", "solvers"},
        {"numpy", "scipy"},
    ),
    "path": ({"scores", "solvers"}, {"numpy", "scipy"}),
    "conformal": (
        {"checks", "errors", "losses", "path", "residual_scores", "scores", "solvers", "stability"}
        | {"units"},
        {"numpy", "scipy", "tqdm"},
    ),
    "residual_scores": ({"checks", "errors"}, {"numpy"}),
    "advice": ({"checks", "conformal", "errors", "user_frames"}, {"numpy"}),
    "ranking": ({"errors", "scores", "user_frames"}, {"numpy", "pandas"}),
    "tables": (set(), set()),
    "summary": ({"tables"}, {"numpy", "statsmodels"}),
    "frames": (set(), {"numpy", "pandas"}),
    "grouping": ({"checks", "errors"}, {"numpy", "pandas"}),
    "coverage": (set(), {"numpy", "pandas", "scipy"}),
    "widths": ({"coverage", "tables"}, {"numpy", "pandas"}),
    "interval_data": (
        {"advice", "coverage", "errors", "frames", "grouping", "user_frames", "widths"},
        {"numpy", "pandas"},
    ),
    "plots": ({"tables"}, {"matplotlib", "numpy"}),
    "penalty_path": ({"checks", "conformal", "errors"}, {"numpy", "pandas"}),
    "report": (
        {
            "_version",
            "advice",
            "interval_data",
            "coverage",
            "errors",
            "files",
            "grouping",
            "plots",
            "summary",
        }
        | {"tables"},
        {"jinja2", "matplotlib", "numpy", "pandas"},
    ),
    "presentation": (
        {"advice", "interval_data", "coverage", "errors", "grouping", "penalty_path", "plots", "report"},
        {"numpy", "pandas"},
    ),
    "prediction": ({"errors", "user_frames"}, {"numpy", "pandas"}),
    "fitting": ({"losses", "path", "solvers", "units"}, {"numpy"}),
    "results_base": (
        {"advice", "conformal", "errors", "files", "frames", "prediction", "presentation"} | {"ranking"},
        {"numpy", "pandas"},
    ),
    "results": (
        {"advice", "conformal", "design", "errors", "fitting", "frames", "losses"}
        | {"penalties", "results_base", "stability", "summary", "units"},
        {"numpy", "pandas"},
    ),
    "estimator": ({"advice", "conformal", "errors", "results_base", "summary"}, {"numpy"}),
    "model": (
        {"cells", "checks", "design", "errors", "estimator", "fitting", "losses", "penalties", "results"}
        | {"solvers", "user_frames"},
        {"numpy"},
    ),
    "quantile_results": (
        {"advice", "conformal", "errors", "fitting", "frames", "losses", "penalties", "results"}
        | {"results_base", "scores", "summary"},
        {"numpy", "pandas"},
    ),
    "quantiles": (
        {"checks", "design", "errors", "model", "penalties", "quantile_results"},
        {"numpy"},
    ),
    "benchmarking": (
        {"advice", "checks", "conformal", "design", "errors", "files", "model", "plots", "results"}
        | {"scores", "user_frames"},
        {"matplotlib", "numpy", "pandas"},
    ),
    "statsmodels_plugin": (
        {"advice", "checks", "conformal", "design", "errors", "fitting", "losses", "penalties", "units"}
        | {"results", "solvers", "summary", "user_frames"},
        {"numpy", "pandas", "patsy", "statsmodels"},
    ),
    "selection": (
        {
            "advice",
            "interval_data",
            "checks",
            "conformal",
            "design",
            "errors",
            "model",
            "penalty_path",
            "plots",
        }
        | {"results"},
        {"numpy", "pandas"},
    ),
    "data_files": ({"errors", "files"}, {"pandas"}),
    "cli": (
        {"advice", "benchmarking", "data_files", "errors", "files", "losses", "model", "report"},
        {"matplotlib", "pandas", "statsmodels"},
    ),
    "__main__": ({"cli"}, set()),
}
THIRD_PARTY = {"numpy", "scipy", "pandas", "patsy", "statsmodels", "matplotlib", "jinja2", "tqdm"}


def module_files():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imported(path):
    """Parts of the package and third-party packages that a module imports."""
    depth = len(path.relative_to(PACKAGE).parts)
    own, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            own |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            outside.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
    return own, outside & THIRD_PARTY


@pytest.mark.parametrize("path", module_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_architecture(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    own, outside = imported(path)
    allowed_own, allowed_outside = ALLOWED[part]
    assert own <= allowed_own, f"{part} must not import {own - allowed_own}"
    assert outside <= allowed_outside, f"{part} must not see {outside - allowed_outside}"


@pytest.mark.parametrize("path", module_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small_and_documented(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 420
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            doc = node.body[0] if ast.get_docstring(node) else None
            documented = doc.end_lineno - doc.lineno + 1 if doc else 0
            assert node.end_lineno - node.lineno + 1 - documented <= 62, node.name


@pytest.mark.parametrize("name", [name for name in stabconf.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name):
    assert (getattr(stabconf, name).__doc__ or "").strip()


def test_the_version_is_said_once_everywhere():
    assert f"## {stabconf.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {stabconf.__version__}\n" in citation


def test_the_library_prints_nothing():
    for path in module_files():
        if path.name not in ("cli.py", "__main__.py"):
            assert not re.search(r"^\s*print\(", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_keep_their_output(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    stored = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in stored), "store the notebook with its output"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_the_readme_says_what_happens():
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert outcome.attempted >= 6 and outcome.failed == 0
