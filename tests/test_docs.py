"""The documentation says what is there: sections that code cites, files, names, code that runs."""

import ast
import re

import pytest
from pages import agree, run, sections
from test_layout import PACKAGE, ROOMS, ROOT, module_files

import stabconf
from stabconf.sets import METHODS
from stabconf.stability import BOUNDS

DOCS = ROOT / "docs"
CITED = re.compile(r"\(theory(?:, sections?)? ([\d.]+(?:(?:, | and | to )[\d.]*\d)*)")
PAGES = [DOCS / "index.md", *sorted((DOCS / "guide").glob("*.md"))]


def read(path):
    return path.read_text(encoding="utf-8")


# Theory ----------------------------------------------------------------------------------------------


def theory_sections():
    return set(re.findall(r"^#{2,3} ([\d.]*\d)", read(DOCS / "theory.md"), re.MULTILINE))


def test_the_theory_has_its_nine_sections():
    assert {str(number) for number in range(1, 10)} <= theory_sections()


def test_every_section_that_code_cites_exists():
    known, cited = theory_sections(), 0
    for path in module_files():
        text = " ".join(read(path).split())
        for found in CITED.findall(text):
            for number in re.findall(r"\d+(?:\.\d+)?", found):
                cited += 1
                assert number in known, f"{path.relative_to(PACKAGE)} cites section {number}"
    assert cited >= 20


def test_every_citation_is_written_so_that_it_can_be_checked():
    for path in module_files():
        text = " ".join(read(path).split())
        for found in re.findall(r"\(theory[^)]*\d[^)]*\)", text):
            assert CITED.match(found), f"{path.relative_to(PACKAGE)}: {found}"


# Architecture ----------------------------------------------------------------------------------------


def table(heading):
    """Cells of the lines of the tables below a heading, which have the same head."""
    text = sections(read(DOCS / "architecture.md"))[heading]
    head, *lines = [line for line in text.splitlines() if line.startswith("|")]
    lines = [line for line in lines if line != head and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names_of(body):
    """Names that statements define or import, and those of the classes among them."""
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for name in names_of(node.body)}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("line", table("Where is ..."), ids=lambda line: line[0])
def test_what_the_table_of_places_names_is_there(line):
    _, file, name = (cell.strip("`") for cell in line)
    path = PACKAGE / file
    assert path.is_file(), f"{file} is gone: say in docs/architecture.md where that is now"
    if name:
        assert name in names_of(ast.parse(read(path)).body), f"{file} has no {name}"


def test_the_table_of_places_is_long():
    assert len(table("Where is ...")) >= 30


def test_the_rooms_are_those_that_are_enforced_in_their_order():
    told = [name for line in table("The rooms") for name in re.findall(r"`(\w+)`", line[0])]
    assert told == [room for room in ROOMS if not room.startswith("_")]


def test_records_are_there():
    defined = set()
    for path in module_files():
        defined |= names_of(ast.parse(read(path)).body)
    for line in table("Records on the way"):
        assert set(re.findall(r"`(\w+)`", line[0])) <= defined


@pytest.mark.parametrize("path", sorted((DOCS / "assets").glob("*.svg")), ids=lambda path: path.stem)
def test_drawings_name_files_that_are_there(path):
    files = re.findall(r">([\w/]+/\w+\.py|rank\.py)<", read(path))
    assert len(files) >= 6
    for file in files:
        assert (PACKAGE / file).is_file(), file
        below = read(path).split(f">{file}<")[1].split("<text")[1]
        for name in re.findall(r">([\w.]+): ", below):
            known = names_of(ast.parse(read(PACKAGE / file)).body)
            assert any(each == name or each.endswith(f".{name}") for each in known), name


# Glossary --------------------------------------------------------------------------------------------


def test_the_glossary_has_the_words_that_a_reader_meets():
    text = read(DOCS / "glossary.md").lower()
    terms = re.findall(r"^(\S.*)\n: ", text, re.MULTILINE)
    told = {part.replace("-", "_") for term in terms for part in term.split(", ")}
    words = {
        "alpha",
        "coverage",
        "exchangeable",
        "conformity score",
        "p_value of a candidate",
        "tilt",
        "tau",
    }
    words |= {"radius", "certified", "residual scale", "units learned in training", "penalty", "l1_ratio"}
    words |= {"rank k", "group", "weight", "band", "pieces", "loose", "tol", "budget", "surcharge"}
    assert words | set(METHODS) | set(BOUNDS) <= told
    assert len(terms) >= 50


# Reference -------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference_once():
    pages = "\n".join(read(path) for path in sorted((DOCS / "api").glob("*.md")))
    told = re.findall(r"^::: stabconf\.(\w+)$", pages, re.MULTILINE)
    assert sorted(told) == sorted(set(stabconf.__all__) - {"__version__"})


def test_every_page_and_notebook_is_in_the_navigation():
    config = read(ROOT / "mkdocs.yml")
    for path in DOCS.rglob("*.md"):
        assert path.relative_to(DOCS).as_posix() in config
    for path in (ROOT / "vignettes").glob("*.ipynb"):
        assert f"gallery/{path.stem}.md" in config


# Guide -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_of_the_guide_runs_and_gives_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line, wanted, got in run(read(path), path.name):
        assert agree(wanted, got), f"{path.name}, line {line}:\n{got}"
