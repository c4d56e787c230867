"""Files that appear whole or not at all."""

from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path, content):
    """Write bytes beside ``path`` and rename, so that a reader never sees half a file.

    Returns
    -------
    pathlib.Path
    """
    target = Path(path)
    part = target.with_name(target.name + ".part")
    part.write_bytes(content)
    return part.replace(target)
