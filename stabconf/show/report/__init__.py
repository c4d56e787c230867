"""Reports: everything about a fit and its intervals as one HTML file, or Markdown for version control."""

from os import PathLike
from pathlib import Path

from ...errors import InputError, InputTypeError
from ...files import check_folder, write_whole
from .content import collect
from .formats import as_html, as_markdown
from .joint import collect_joint
from .parts import Background, Content

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
    more = [] if content.exchangeable is None else [content.exchangeable.picture]
    for picture in [content.scatter, *content.pictures, *more]:
        write_whole(folder / f"{picture.name}.svg", picture.svg)
    if content.csv:
        write_whole(folder / "intervals.csv", content.csv.encode("utf-8"))
    return write_whole(target, as_markdown(content, folder.name).encode("utf-8"))
