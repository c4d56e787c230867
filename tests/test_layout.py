"""The layout holds: who may import whom, module sizes, docstrings, notebooks that run."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import stabconf

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(stabconf.__file__).resolve().parent
NOTEBOOKS = sorted((ROOT / "vignettes").glob("*.ipynb"))

# The rooms in the order in which data walks through them: each may import those above it, and sees the
# third-party packages named here.
ROOMS: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "checks": {"numpy"},
    "files": set(),
    "rank": {"numpy"},
    "threads": {"threadpoolctl"},
    "data": {"numpy", "pandas", "patsy", "narwhals"},
    "losses": {"numpy", "scipy"},
    "penalties": {"numpy"},
    "solvers": {"numpy", "scipy", "statsmodels"},
    "stability": {"numpy", "scipy"},
    "path": {"numpy", "scipy"},
    "sets": {"numpy", "scipy", "tqdm", "joblib"},
    "show": {"numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2"},
    "results": {"numpy", "pandas"},
    "statsmodels_plugin": {"numpy", "pandas", "patsy", "statsmodels"},
    "study": {"numpy", "pandas", "matplotlib"},
    "demo": {"numpy", "pandas", "statsmodels"},
    "sklearn": {"numpy", "pandas", "sklearn"},
    "cli": {"pandas", "matplotlib", "statsmodels"},
    "__main__": set(),
}
NOT_SEEN = {  # what a room has no business with, although it is above
    "losses": {"data", "rank"},
    "solvers": {"data", "rank"},
    "show": {"sets", "path", "stability", "solvers", "losses", "penalties"},
}
THIRD_PARTY = set().union(*ROOMS.values())
HEAVY = (  # what takes long to import and is not needed to answer: a worker starts without it
    *("matplotlib", "jinja2", "scipy.stats", "scipy.optimize", "scipy.signal"),
    *("statsmodels.api", "statsmodels.base", "sklearn", "dask", "joblib", "multiprocessing"),
)


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
def test_imports_go_down_the_list_of_rooms(path):
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    above = set(list(ROOMS)[: list(ROOMS).index(room)]) - NOT_SEEN.get(room, set())
    own, outside = imported(path)
    assert own <= above, f"{room} must not import {own - above}"
    assert outside <= ROOMS[room], f"{room} must not see {outside - ROOMS[room]}"


def test_an_import_leaves_heavy_packages_alone():
    code = "import sys, stabconf; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "stabconf.results.predictor" in loaded.split()
    assert not set(HEAVY) & set(loaded.split())


def test_few_modules_stand_outside_of_rooms():
    assert len(list(PACKAGE.glob("*.py"))) <= 12


def test_no_public_function_hides_a_module():
    modules = {path.stem for path in module_files()} | {path.name for path in PACKAGE.iterdir()}
    assert not modules & set(stabconf.__all__)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_no_function_of_a_package_hides_a_module_of_it(path):
    name = ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    package = importlib.import_module(name)
    submodules = [module.name for module in pkgutil.iter_modules([str(path.parent)])]
    hidden = [each for each in submodules if inspect.isroutine(getattr(package, each, None))]
    assert not hidden


@pytest.mark.parametrize("path", module_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small_and_documented(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 400
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            doc = node.body[0] if ast.get_docstring(node) else None
            documented = doc.end_lineno - doc.lineno + 1 if doc else 0
            assert node.end_lineno - node.lineno + 1 - documented <= 60, node.name


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
