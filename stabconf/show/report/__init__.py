"""Reports: everything about a fit and its intervals as one HTML file, or Markdown for version control.

What comes from the user is escaped in both.
"""

import base64
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...errors import InputError, InputTypeError
from ...files import check_folder, write_whole
from ..tables import markdown_escaped
from .background import Background
from .content import Content, Picture, collect, collect_joint

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Background", "check_path", "collect", "collect_joint", "write_report"]


def check_path(path: str | PathLike[str]) -> Path:
    """The path of a report, once it is known that one can be written there."""
    if not isinstance(path, (str, PathLike)):
        raise InputTypeError(
            f"path={path!r} is a {type(path).__name__}: give a name that ends in .html or .md"
        )
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm", ".md"):
        raise InputError(f"path={str(path)!r}: give a name that ends in .html or .md")
    return check_folder(target, "path")


def write_report(target: Path, content: Content) -> Path:
    """Write a report's `Content` to a path that `check_path` gave."""
    if target.suffix.lower() != ".md":
        return write_whole(target, as_html(content).encode("utf-8"))
    folder = target.with_name(target.stem + "_files")
    folder.mkdir(exist_ok=True)
    for picture in filter(None, [content.scatter, *content.pictures, content.evidence]):
        write_whole(folder / f"{picture.name}.svg", picture.svg)
    if content.csv:
        write_whole(folder / "intervals.csv", content.csv.encode("utf-8"))
    return write_whole(target, as_markdown(content, folder.name).encode("utf-8"))


def as_html(content: Content) -> str:
    """One page that needs nothing else: no network, no scripts."""
    return _template("template.html").render(content=content)


def as_markdown(content: Content, folder: str) -> str:
    """Markdown, its figures linked from ``folder``."""
    fence = "`" * 3
    while fence in str(content.summary):
        fence += "`"
    return _template("template.md").render(content=content, folder=folder, fence=fence) + "\n"


@cache
def _template(name: str) -> "Template":
    from jinja2 import Environment, StrictUndefined

    source = files(__package__).joinpath(name).read_text(encoding="utf-8")
    is_html = name.endswith(".html")
    page = Environment(autoescape=is_html, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.filters |= {"svg_uri": _svg_uri, "csv_uri": _csv_uri, "escaped": markdown_escaped, "quoted": quote}
    return page.from_string(source)


def _svg_uri(picture: Picture) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg).decode("ascii")


def _csv_uri(text: str) -> str:
    """CSV as a link that needs no other file; most characters stand for themselves."""
    return "data:text/csv;charset=utf-8," + quote(text, safe=",:;()[]+*/@!$-_.~ ")
