"""Reports: everything about a fit and its intervals in one HTML file, or in Markdown for version control."""

from pathlib import Path

from ..errors import InputError
from ..files import write_whole
from .content import collect
from .formats import as_html, as_markdown

__all__ = ["write_report"]


def write_report(results, path, new, alpha, by, response, options):
    """Write a report; arguments as in `Presentation.report`."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".html", ".htm", ".md"):
        raise InputError(f"path={str(path)!r}: give a name that ends in .html or .md")
    if not target.parent.is_dir():
        raise InputError(f"path={str(path)!r}: there is no folder {str(target.parent)!r}; make it first")
    content = collect(results, new, alpha, by, response, options)
    if kind != ".md":
        return write_whole(target, as_html(content).encode("utf-8"))
    folder = target.with_name(target.stem + "_files")
    folder.mkdir(exist_ok=True)
    for picture in content.pictures:
        write_whole(folder / f"{picture.name}.svg", picture.svg)
    return write_whole(target, as_markdown(content, folder.name).encode("utf-8"))
