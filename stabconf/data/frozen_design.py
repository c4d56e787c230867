"""The map from new rows to design rows without the rows that it was learned from, for predictors.

What patsy learned (means, knots, levels, contrasts) is pickled object by object, for patsy's classes refuse
it. Of the training columns types and ranges are kept, which messages about new rows go by.
"""

import io
import pickle
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError
from .design import Design
from .formulas import TRANSFORMS
from .units import ColumnKinds

_KEPT = (  # attributes that have no entry per training row
    *("formula", "names", "predictors", "response", "transformed", "unseen"),
    *("_info", "_left", "_outside", "_place", "_responding", "_scope"),
)
_NAMES = {id(transform): name for name, transform in TRANSFORMS.items()}  # patsy's wrappers have others


class FrozenDesign(Design):
    """As a `Design` for new rows; ``y`` (2,) is the range of the training responses."""

    def __init__(self, design: Design) -> None:
        self.__dict__.update({name: getattr(design, name) for name in _KEPT})
        numeric = design._frame[design.predictors].iloc[design.kept].select_dtypes("number")
        self.hold(design._frame.iloc[:0], numeric, len(design.labels), design.kinds.take(slice(0)))
        self.y = np.array([design.y.min(), design.y.max()])

    def hold(self, frame: pd.DataFrame, numeric: pd.DataFrame, count: int, kinds: ColumnKinds) -> None:
        """Take columns without rows, numeric ones, of which ranges are kept, and the count of all rows."""
        self._frame: pd.DataFrame = frame
        self._data: pd.DataFrame = numeric.agg(["min", "max"]) if len(numeric.columns) else frame
        self.labels = pd.RangeIndex(count)
        self.kinds = kinds
        self.X = np.empty((0, len(self.names)))

    def frame_of(self, new: object) -> pd.DataFrame:
        return self._data if new is None else super().frame_of(new)

    def __getstate__(self) -> dict[str, Any]:
        """The state, in bytes."""
        out = io.BytesIO()
        try:
            _Pickler(out).dump(vars(self))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the map of {self.formula!r} cannot be pickled ({error}): functions that the formula "
                "takes from the calling scope must be importable from a module"
            ) from error
        return {"learned": out.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(pickle.loads(state["learned"]))


class _Pickler(pickle.Pickler):
    """Pickles patsy's objects by their attributes, and modules by their names."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            return import_module, (value.__name__,)
        if id(value) in _NAMES:
            return _transform, (_NAMES[id(value)],)
        kind = type(value)
        learned = any(base.__module__.startswith("patsy.") for base in kind.__mro__)
        if learned and hasattr(value, "__dict__"):
            return _rebuilt, (kind, vars(value))
        return NotImplemented


def _transform(name: str) -> Any:
    return TRANSFORMS[name]


def _rebuilt(kind: type, attributes: dict[str, Any]) -> Any:
    """An object by its class and attributes; keys of mappings have theirs before they are hashed."""
    made: Any = object.__new__(kind)
    made.__dict__.update(attributes)
    return made
