"""Training arrays of a statsmodels result, and the map from new rows to its design.

A model from a patsy formula gets stabconf's own `Design` of it where this gives the model's matrix. Models
from arrays, from formulaic formulas and all others (a frame that was changed since, ``drop_cols``, columns
that `stabconf.fit` refuses) get a `ModelDesign`, by the model's arrays and the map that statsmodels keeps.
"""

import pickle
import warnings
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import patsy

from ..data.design import Design, build_design
from ..data.formulas import names_in
from ..data.frames import as_frame, check_duplicates, check_finite, collected, listed
from ..data.units import ColumnKinds
from ..errors import InputError


def removed(what: str) -> InputError:
    """An error about data that a result no longer has."""
    return InputError(
        f"the {what} are no longer in this result (remove_data() was called): call stabconf.conformal(res) "
        "before remove_data(), or fit the model again"
    )


def design_of(model: Any) -> Design:
    """The `Design` of a statsmodels model; an error where the training data are no longer there."""
    arrays = []
    for name in ("endog", "exog"):
        values = getattr(model, name, None)
        if values is None:  # formula models keep their frames through remove_data()
            values = getattr(model.data, f"orig_{name}", None)
        if values is None:
            raise removed("training rows")
        arrays.append(np.array(values, dtype=float, order="C"))
    y, X = arrays[0].reshape(len(arrays[0])), arrays[1]
    info = getattr(model.data, "model_spec", None) or getattr(model.data, "design_info", None)
    design = _formula_design(model, info, y, X) if hasattr(info, "factor_infos") else None
    return ModelDesign(model, info, y, X) if design is None else design


def _formula_design(model: Any, info: Any, y: np.ndarray, X: np.ndarray) -> Design | None:
    """The `Design` of a patsy formula, on all rows of the frame or on those used; None where it differs."""
    states = [factor.state for factor in info.factor_infos.values()]
    scope = ChainMap(*(state["eval_env"].namespace for state in states if "eval_env" in state))
    frame, used = as_frame(model.data.frame, "data"), model.data.row_labels
    known = frame.index.is_unique and used.isin(frame.index).all()
    for rows in (frame, frame.loc[used]) if known else (frame,):
        try:
            design = build_design(model.formula, rows, scope)
        except InputError:
            continue
        if design.X.shape == X.shape and np.allclose(design.X, X) and np.allclose(design.y, y):
            return design
    return None


class ModelDesign(Design):
    """A design that statsmodels made; it can be pickled but for the maps of patsy."""

    def __init__(self, model: Any, info: Any, y: np.ndarray, X: np.ndarray) -> None:
        named = model.endog_names
        # Successes and failures: the model's response is the share of successes.
        self.response = named if isinstance(named, str) else f"{named[0]} / ({' + '.join(named)})"
        check_finite(y[:, None], [self.response], pd.RangeIndex(len(y)), "endog")
        self.names = list(model.exog_names)[-X.shape[1] :]  # those of columns for zeros come first
        check_finite(X, self.names, pd.RangeIndex(len(y)), "exog")
        self.y = y
        self.X = X
        self._info = info
        self._scope = {}
        labels = model.data.row_labels
        self.index = pd.RangeIndex(len(y)) if labels is None else pd.Index(labels)
        self.labels = self.index
        self.dropped = pd.Index(getattr(model.data, "missing_row_idx", None) or [])
        self.kept = np.arange(len(y))
        self._named = labels is not None  # names of arrays are statsmodels' inventions
        place = model.data.const_idx
        intercept = place if place is not None and np.all(X[:, place] == 1.0) else None
        self.kinds = ColumnKinds.numeric(X.shape[1], intercept)
        terms = [name for j, name in enumerate(self.names) if j != self.intercept]
        self.formula = getattr(model, "formula", f"{self.response} ~ {' + '.join(terms) or '1'}")
        own = pd.DataFrame(X, columns=self.names, index=self.index)
        frame = getattr(model.data, "frame", None) if info is not None else None
        frame = own if frame is None else as_frame(frame, "data")
        there = frame.index.is_unique and self.index.isin(frame.index).all()
        self._data = frame.loc[self.index] if there else own
        self._frame = frame.iloc[:0]
        self.transformed = info is not None and self.response not in frame.columns
        self.predictors = terms
        if info is not None:
            codes = [factor.code for factor in getattr(info, "factor_infos", ())]
            used = names_in(*codes) if codes else {str(name) for name in info.required_variables}
            self.predictors = [column for column in frame.columns if column in used]

    def frame_of(self, new: Any) -> pd.DataFrame:
        """New rows as a frame; the training rows where there are none."""
        if new is None or self._info is not None:
            return super().frame_of(new)
        new = collected(new)
        if isinstance(new, pd.DataFrame) and self._named and set(self.names) <= set(new.columns):
            return new
        rows, index = self._array_rows(new)
        return pd.DataFrame(rows, columns=self.names, index=index)

    def responses(self, new: Any) -> np.ndarray | None:
        """Responses of new rows (m,), NaN where missing; None if there is no column of their name."""
        frame = self.frame_of(new)
        if self.response not in frame.columns:
            return None
        check_duplicates(frame, [self.response], "exog")
        return pd.to_numeric(frame[self.response], errors="coerce").to_numpy(dtype=float, na_value=np.nan)

    def new_rows(self, new: Any) -> tuple[np.ndarray, pd.Index]:
        """Design rows (m, p) of new rows, NaN where one has a missing value, and their index."""
        if self._info is not None:
            return super().new_rows(new)
        rows, index = self._array_rows(new)
        rows[np.isnan(rows).any(axis=1)] = np.nan
        check_finite(rows, self.names, index, "exog", allow_nan=True)
        return rows, index

    def _array_rows(self, new: Any) -> tuple[np.ndarray, pd.Index]:
        """Rows (m, p) and index; columns by name where exog has some of the model's, else by position."""
        count, new = len(self.names), collected(new)
        known = set(self.names) & set(new.columns) if isinstance(new, pd.DataFrame) and self._named else ()
        if len(known) == count:
            new = new[self.names]
        elif known:
            lacking = [name for name in self.names if name not in new.columns]
            raise InputError(
                f"exog lacks {listed(lacking, 'column')} of the model: add it (a constant with "
                "statsmodels.api.add_constant(exog, has_constant='add'))"
            )
        try:
            values = np.array(new, dtype=float, order="C")
        except (TypeError, ValueError) as error:
            raise InputError(f"exog cannot be made an array of numbers: {error}") from error
        if values.ndim < 2:  # one row, or one column of a model that has but one
            values = values.reshape(-1, 1) if count == 1 else values.reshape(1, -1)
        if values.ndim != 2 or values.shape[1] != count:
            raise InputError(
                f"exog has shape {np.shape(new)}: give rows with the model's {count} columns, "
                f"{', '.join(map(str, self.names))}"
            )
        return values, new.index if isinstance(new, pd.DataFrame) else pd.RangeIndex(len(values))

    def _mapped(self, columns: Mapping[Any, pd.Series], index: pd.Index, asked: np.ndarray) -> np.ndarray:
        """Design rows by the map that statsmodels keeps."""
        rows = np.full((len(index), len(self.names)), np.nan)
        if asked.any():
            values = pd.DataFrame(columns, index=index).reset_index(drop=True)
            made = _matrix(self._info, values[asked])
            rows[made.index.to_numpy()] = np.asarray(made, dtype=float)
        return rows

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self._info, "factor_infos"):
            raise pickle.PicklingError(
                "patsy's maps cannot be pickled, and the formula does not give the model's design again: "
                "was its frame changed since the fit?"
            )
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _matrix(info: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The design of a frame by formulaic or patsy, without the rows that lack a value."""
    if hasattr(info, "get_model_matrix"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # unseen categories would silently be the reference one
            return info.get_model_matrix(frame, na_action="drop")
    return patsy.build_design_matrices([info], frame, NA_action="drop", return_type="dataframe")[0]
