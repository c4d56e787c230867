"""Results in a file, and back: ``res.save(path)`` and `stabconf.load`."""

import os
import pickle
from functools import cached_property
from typing import Any

from ..errors import InputError, InputTypeError
from ..files import write_whole

__all__ = ["SavedResults", "load"]


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
        ...     path = os.path.join(folder, "engel.pickle")
        ...     res.save(path)
        ...     stabconf.load(path).params.equals(res.params)
        True
        """
        try:
            content = pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputTypeError(
                f"the results cannot be pickled ({error}): functions that the formula takes from the "
                "calling scope, an estimator or its tau must be importable from a module"
            ) from error
        write_whole(path, content)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is cached, which is made again after loading."""
        kind = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }


def load(path: str | os.PathLike[str]) -> Any:
    """Read results that `save` wrote.

    Pickles run code on loading: load only files that you trust.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        results = pickle.loads(content)
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as saved results ({type(error).__name__}: {error}): it is not whole, "
            "not a file that save() wrote, or from other versions of the packages; fit and save again"
        ) from error
    if not isinstance(results, SavedResults):
        raise InputTypeError(f"{path} holds a {type(results).__name__}, not stabconf results")
    return results
