"""Training arrays of a statsmodels result, and the map from new rows to its design.

A model from a patsy formula gets stabconf's own `Design` of that formula, which is checked against the
model's matrix. Models from arrays and from formulaic formulas get a `ModelDesign`.
"""

import warnings

import numpy as np
import pandas as pd

from ..design import Design, build_design
from ..errors import AssumptionError, FormulaError, InputError
from ..user_frames import check_finite, listed

__all__ = ["ModelDesign", "design_of"]


def design_of(model):
    """The `Design` of a statsmodels model.

    Raises `InputError` where the training data are no longer there.
    """
    y, X = _training_arrays(model)
    spec = getattr(model.data, "model_spec", None) or getattr(model.data, "design_info", None)
    if hasattr(spec, "factor_infos"):
        return _formula_design(model, spec, y, X)
    return ModelDesign(model, spec, y, X)


def _training_arrays(model):
    """Response and design (n,) and (n, p), from wherever statsmodels still has them."""
    found = []
    for name in ("endog", "exog"):
        values = getattr(model, name, None)
        if values is None:  # formula models keep their frames through remove_data()
            values = getattr(model.data, f"orig_{name}", None)
        if values is None:
            raise InputError(
                "the training rows are no longer in this result (remove_data() was called): call "
                "stabconf.conformal(res) before remove_data(), or fit the model again"
            )
        found.append(np.asarray(values, dtype=float))
    return found[0].reshape(len(found[0])), np.ascontiguousarray(found[1])


def _formula_design(model, spec, y, X):
    """The `Design` of a patsy formula, on all rows of the frame or on those that were used."""
    scope = {}
    for factor in spec.factor_infos.values():
        for names in getattr(factor.state.get("eval_env"), "_namespaces", ()):
            scope |= names
    frame, used = model.data.frame, model.data.row_labels
    for rows in (frame, frame.loc[used] if frame.index.is_unique else frame):
        design = build_design(model.formula, rows, scope)
        if design.X.shape == X.shape and np.allclose(design.X, X) and np.allclose(design.y, y):
            return design
    raise InputError(
        f"the formula {model.formula!r} does not give the design that the model was fitted with (the frame "
        "was changed since, or drop_cols= was used): fit the model again, from a formula of just its terms"
    )


class ModelDesign(Design):
    """A design that statsmodels made from arrays or from a formulaic formula.

    Attributes are those of `Design`.
    """

    def __init__(self, model, spec, y, X):
        check_finite(y[:, None], [model.endog_names], pd.RangeIndex(len(y)), "endog")
        check_finite(X, model.exog_names, pd.RangeIndex(len(y)), "exog")
        self.y, self.X, self.names = y, X, list(model.exog_names)
        self.response, self._spec, self._scope = model.endog_names, spec, {}
        labels = model.data.row_labels
        self.index = pd.RangeIndex(len(y)) if labels is None else pd.Index(labels)
        self.dropped = pd.Index(getattr(model.data, "missing_row_idx", None) or [])
        self.kept = np.arange(len(y))
        place = model.data.const_idx
        self.intercept = place if place is not None and np.all(X[:, place] == 1.0) else None
        terms = [name for j, name in enumerate(self.names) if j != self.intercept]
        self.formula = getattr(model, "formula", f"{self.response} ~ {' + '.join(terms) or '1'}")
        frame = getattr(model.data, "frame", None)
        if spec is None or frame is None or not frame.index.is_unique:
            frame = pd.DataFrame(X, columns=self.names, index=self.index)
        else:
            frame = frame.loc[self.index]
        self._frame = self._data = frame
        self.transformed = spec is not None and self.response not in frame.columns

    @property
    def predictors(self):
        """Columns of the frame that the design uses."""
        if self._spec is None:
            return [name for j, name in enumerate(self.names) if j != self.intercept]
        used = {str(name) for name in self._spec.required_variables}
        return [column for column in self._frame.columns if column in used]

    def frame_of(self, new):
        """New rows as a frame; the training rows where there are none."""
        if new is None or self._spec is not None:
            return super().frame_of(new)
        rows, index = self._array_rows(new)
        return pd.DataFrame(rows, columns=self.names, index=index)

    def new_rows(self, new):
        """Design rows (m, p) of new rows, NaN where one has a missing value, and their index."""
        rows, index = self._array_rows(new) if self._spec is None else self._formula_rows(new)
        rows[np.isnan(rows).any(axis=1)] = np.nan
        check_finite(rows, self.names, index, "exog", allow_nan=True)
        return rows, index

    def together(self, new):
        raise AssumptionError(
            "transductive=True learns the design map anew, which a model of statsmodels has once for all: "
            "use stabconf.fit with a formula"
        )

    def _array_rows(self, new):
        """Rows (m, p) and index, columns by name where new rows have these names, else by position."""
        count = len(self.names)
        if isinstance(new, pd.DataFrame) and set(self.names) <= set(new.columns):
            new = new[self.names]
        elif isinstance(new, pd.DataFrame) and set(self.names) & set(new.columns):
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

    def _formula_rows(self, new):
        """Design rows by formulaic."""
        frame, values, complete = self._complete_rows(new)
        rows = np.full((len(frame), len(self.names)), np.nan)
        if complete.any():
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # unseen categories would silently be the reference one
                try:
                    made = self._spec.get_model_matrix(values[complete], na_action="drop")
                except Exception as error:
                    raise self._formulaic_error(error) from error
            rows[made.index.to_numpy()] = np.asarray(made, dtype=float)
        return rows, frame.index

    def _formulaic_error(self, error):
        text = str(error).split("\n")[0]
        if "categories" in text:
            return InputError(
                f"exog has a category that training did not have ({text}): drop those rows, recode "
                "them, or refit with data that has the category"
            )
        return FormulaError(f"exog cannot be put through {self.formula!r}: {text}")

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)
