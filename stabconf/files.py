"""Files that appear whole or not at all: results, tables, reports and figures are written through here."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from .errors import InputError

if sys.platform != "win32":  # where two writers of one comparison are not kept apart
    import fcntl


def check_folder(path: str | PathLike[str], argument: str) -> Path:
    """The path of a file to write, once it is known that its folder is there; errors name ``argument``."""
    target, folder = Path(path), Path(path).parent
    if not folder.is_dir():
        raise InputError(f"{argument}={str(path)!r}: there is no folder {str(folder)!r}; make it first")
    if target.is_dir():
        raise InputError(f"{argument}={str(path)!r} is a folder: give the name of a file")
    return target


def write_whole(path: str | PathLike[str], content: bytes) -> Path:
    """Write bytes beside ``path`` and rename, so that a reader never sees half a file.

    The file beside has a name of its own, so writers do not disturb each other. A link is followed, and a
    file that is replaced leaves its mode to the new one.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            file.write(content)
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)  # it is there only where something failed
    return Path(path)


@contextmanager
def alone_in_folder(path: str | PathLike[str]) -> Iterator[None]:
    """Wait until no other thread or process is in here for a file of the same folder."""
    if sys.platform == "win32":
        yield
        return
    folder = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)  # and with it the lock
