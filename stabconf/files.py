"""Files that appear whole or not at all: results, tables, reports and figures are written through here."""

from os import PathLike
from pathlib import Path

from .errors import InputError

__all__ = ["check_folder", "write_whole"]


def check_folder(path: str | PathLike[str], argument: str) -> Path:
    """The path of a file to write, once it is known that its folder is there; errors name ``argument``."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(
            f"{argument}={str(path)!r}: there is no folder {str(target.parent)!r}; make it first"
        )
    if target.is_dir():
        raise InputError(f"{argument}={str(path)!r} is a folder: give the name of a file")
    return target


def write_whole(path: str | PathLike[str], content: bytes) -> Path:
    """Write bytes beside ``path`` and rename, so that a reader never sees half a file."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(content)
        return part.replace(target)
    except OSError:
        part.unlink(missing_ok=True)
        raise
