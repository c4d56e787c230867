"""Results in files, with the versions that wrote them; `BaseResults.save` and `load` call this."""

import pickle
import platform
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import InputError, InputTypeError, StabconfWarning, warn_user
from ..files import write_whole

__all__ = ["read_pickle", "write_pickle"]

_MARK = "stabconf results"
_PACKAGES = ("numpy", "scipy", "pandas", "patsy", "statsmodels")


def write_pickle(path: str | PathLike[str], content: object) -> None:
    """Pickle an object to a file, after the versions that it was made with."""
    try:
        made = pickle.dumps(content)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputTypeError(
            f"the results cannot be pickled ({error}): functions that the formula takes from the "
            "calling scope, an estimator or its tau must be importable from a module"
        ) from error
    write_whole(path, pickle.dumps((_MARK, _versions())) + made)


def read_pickle(path: str | PathLike[str]) -> Any:
    """The object in a file of `write_pickle`; an error, or a warning, names versions that differ."""
    if not Path(path).is_file():
        raise FileNotFoundError(2, "there is no such file of results", str(path))
    differing = ""
    try:
        with open(path, "rb") as file:
            made = pickle.load(file)
            if isinstance(made, tuple) and made[:1] == (_MARK,):
                differing = _differing(made[1])
                made = pickle.load(file)
    except OSError:
        raise
    except Exception as error:  # whatever bytes that are no pickle, or one of other versions, lead to
        told = f"; it was saved under {differing}" if differing else ""
        raise InputError(
            f"{str(path)!r} cannot be read as results of stabconf ({type(error).__name__}: {error}){told}: "
            "give a file that save() wrote, under the versions that wrote it, or fit again"
        ) from error
    if "stabconf" in differing:
        warn_user(
            f"{str(path)!r} was saved under {differing}: its intervals may differ from those of then; fit "
            "again to be sure",
            StabconfWarning,
        )
    return made


def _versions() -> dict[str, str]:
    known = {name: metadata.version(name) for name in _PACKAGES}
    return {"stabconf": __version__, "Python": platform.python_version(), **known}


def _differing(saved: dict[str, str]) -> str:
    """The versions that are not those of now, in words."""
    now = _versions()
    return ", ".join(
        f"{name} {version} (now {now.get(name, 'not there')})"
        for name, version in saved.items()
        if now.get(name) != version
    )
