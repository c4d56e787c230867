"""Results in a file, and back: ``res.save(path)`` and `stabconf.load`; the file knows who wrote it."""

import os
import pickle
import platform
from functools import cached_property
from importlib import metadata
from typing import Any

from .._version import __version__
from ..errors import InputError, InputTypeError, StabconfWarning, warn_user
from ..files import write_whole

_MARK = "stabconf results"  # opens a file, with the versions
_PACKAGES = ("numpy", "scipy", "pandas", "patsy", "statsmodels")


class SavedResults:
    """Results that can be pickled; a part of every results class."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Pickle the results to ``path``; `stabconf.load` reads them back.

        The file holds the whole training frame, with the columns that the formula does not use, for options
        may name them: drop what others must not see before the fit.

        Examples
        --------
        >>> import os, tempfile
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     res.save(os.path.join(folder, "engel.pickle"))
        ...     stabconf.load(os.path.join(folder, "engel.pickle")).params.equals(res.params)
        True
        """
        try:
            content = pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputTypeError(
                f"the results cannot be pickled ({error}): functions that the formula takes from the "
                "calling scope, an estimator or its tau must be importable from a module"
            ) from error
        write_whole(path, pickle.dumps((_MARK, _versions())) + content)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is cached, which is made again after loading."""
        kind, given = type(self), vars(self)
        cached = {name for name in given if isinstance(getattr(kind, name, None), cached_property)}
        return {name: value for name, value in given.items() if name not in cached}


def load(path: str | os.PathLike[str]) -> Any:
    """Read results that `save` wrote.

    Pickles run code on loading: load only files that you trust. The file knows the versions that wrote it:
    where it cannot be read the error names those that differ, and results of another stabconf come with a
    warning.
    """
    differing = ""
    with open(path, "rb") as file:
        try:
            results = pickle.load(file)
            if isinstance(results, tuple) and results[:1] == (_MARK,):
                differing = _differing(results[1])
                results = pickle.load(file)
        except Exception as error:  # bytes that are no pickle, or one of other versions, lead anywhere
            told = f", saved under {differing}" if differing else ""
            raise InputError(
                f"{path} cannot be read as saved results{told} ({type(error).__name__}: {error}): it is "
                "not whole, not a file that save() wrote, or from other versions of the packages; fit and "
                "save again"
            ) from error
    if not isinstance(results, SavedResults):
        raise InputTypeError(f"{path} holds a {type(results).__name__}, not stabconf results")
    if "stabconf" in differing:
        warn_user(
            f"{path} was saved under {differing}: its intervals may differ from those of then; fit again "
            "to be sure",
            StabconfWarning,
        )
    return results


def _versions() -> dict[str, str]:
    known = {name: metadata.version(name) for name in _PACKAGES}
    return {"stabconf": __version__, "Python": platform.python_version(), **known}


def _differing(saved: dict[str, str]) -> str:
    """The versions that are not those of now, in words."""
    now = _versions()
    others = {name: version for name, version in saved.items() if now.get(name) != version}
    return ", ".join(f"{name} {then} (now {now.get(name, 'not there')})" for name, then in others.items())
