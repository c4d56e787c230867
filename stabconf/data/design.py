"""From a formula and a frame to plain arrays, and the same map for new rows.

patsy lives here and in `terms` only. The formula sees the columns of the frame, the names of the
caller's scope that it mentions, and nothing else; frame and names are kept, as copies, so that the map can
be rebuilt after pickling (patsy's own objects refuse to be pickled) and that later changes of the user's
frame do not matter. A Series of the scope is matched to the rows by label and becomes a column.
"""

import warnings
from copy import copy

import numpy as np
import pandas as pd
import patsy

from ..errors import DataWarning, FormulaError, InputError, InputTypeError
from .cells import check_column, check_new_column
from .frames import as_frame, by_label, check_duplicates, check_finite, copied, listed, numbers, plain
from .scope import as_columns, modules_by_name, modules_found, row_values, taken_from
from .terms import (
    DropMissing,
    column_kinds,
    column_of,
    factor_codes,
    factor_values,
    formula_codes,
    is_column,
    names_in,
    response_values,
    term_values,
)
from .units import column_units

__all__ = ["Design", "build_design", "caller_scope", "learned_units"]

_MISSING = ("drop", "raise")


def caller_scope(depth):
    """The names visible ``depth`` frames above the caller of this function."""
    return patsy.EvalEnvironment.capture(depth + 1).namespace


class Design:
    """Training arrays and the map that made them; see `build_design`.

    Attributes
    ----------
    formula : str
    y : (n,) array
        Response as the formula makes it.
    X : (n, p) array
        Design columns in their own units.
    names : list of str
        Column names.
    response : str
        Name of the response, ``"np.log(y)"`` say.
    index : Index
        Labels of the rows used.
    kept : (n,) array of int
        Positions of the rows used.
    dropped : Index
        Labels of the rows left out because a value is missing.
    kinds : ColumnKinds
        What the columns are made of.
    """

    _outside = ()  # names of the columns that were Series of the calling scope

    def __init__(self, formula, frame, scope, data=None):
        self.formula, self._frame, self._scope = formula, frame, scope
        self._data = frame if data is None else data
        left, right, self.kept = _evaluate(formula, frame, scope)
        self._info = right.design_info
        self.names = list(self._info.column_names)
        self._left = left.design_info
        self.response = self._left.column_names[0]
        _check_response(left, formula)
        self.y = left.iloc[:, 0].to_numpy(dtype=float)
        self.X = np.ascontiguousarray(right.to_numpy(dtype=float))
        self.index = frame.index[self.kept]
        self.dropped = frame.index.delete(self.kept)
        self.kinds = column_kinds(self._info, frame, self.kept)
        self.transformed = not is_column(self.response, frame.columns)

    @property
    def intercept(self):
        """Position of the intercept column, or None."""
        return self.kinds.intercept

    @property
    def predictors(self):
        """Columns of the frame that the right-hand side uses."""
        used = self._right_names
        return [column for column in self._frame.columns if column in used]

    @property
    def _right_names(self):
        return set().union(*(names_in(factor.code) for factor in self._info.factor_infos))

    def new_rows(self, new):
        """Design rows of a new frame.

        Parameters
        ----------
        new : DataFrame, mapping of columns, or Series (one row)

        Returns
        -------
        rows : (m, p) array
            NaN in every column of a row that has a missing value.
        index : Index
        """
        frame, values, complete = self._complete_rows(new)
        rows = np.full((len(frame), len(self.names)), np.nan)
        if not complete.any():
            return rows, frame.index
        try:
            (made,) = patsy.build_design_matrices(
                [self._info], values[complete], NA_action=DropMissing("drop"), return_type="dataframe"
            )
        except Exception as error:
            raise self._new_row_error(error, frame) from error
        rows[made.index.to_numpy()] = made.to_numpy(dtype=float)
        check_finite(rows, self.names, frame.index, "exog", allow_nan=True)
        return rows, frame.index

    def together(self, new, standardize):
        """A copy whose map is learned from training and new rows together.

        Returns
        -------
        design : Design
        columns : ColumnUnits
            Of training and new rows together.
        rows, index
            As in `new_rows`.
        """
        frame, values, complete = self._complete_rows(new)
        trained = self._frame.reset_index(drop=True)[self.predictors].iloc[self.kept]
        both = pd.concat([trained.astype(object), values.loc[complete, self.predictors]], ignore_index=True)
        both = plain(both)
        for name in self.predictors:
            if isinstance(trained[name].dtype, pd.CategoricalDtype):  # the order of levels is the user's
                levels = list(trained[name].cat.categories)
                levels += [level for level in pd.unique(both[name]) if level not in levels]
                both[name] = pd.Categorical(both[name], categories=levels)
        right = "~" + self.formula.split("~", 1)[1]
        env = patsy.EvalEnvironment([self._scope])
        try:
            made = patsy.dmatrix(right, both, env, NA_action=DropMissing("drop"), return_type="dataframe")
        except Exception as error:
            raise self._new_row_error(error, frame) from error
        design, n = copy(self), len(self.y)
        kept = np.flatnonzero(complete)[made.index.to_numpy()[n:] - n]
        design._info = made.design_info
        design.names = list(design._info.column_names)
        values = made.to_numpy(dtype=float)
        kinds = column_kinds(design._info, both, made.index.to_numpy())
        columns, _ = column_units(values, kinds, standardize)
        design.X, design.kinds = np.ascontiguousarray(values[:n]), kinds.take(slice(n))
        rows = np.full((len(frame), len(design.names)), np.nan)
        rows[kept] = values[n:]
        check_finite(rows, design.names, frame.index, "exog", allow_nan=True)
        return design, columns, rows, frame.index

    def beside(self, what, new, complete):
        """A column, function or formula of the training rows and of the complete new rows (two arrays)."""
        frames = self.frame_of(None), self.frame_of(new)[complete]
        if callable(what):
            name = "the values of scale"
            return tuple(numbers(by_label(what(frame), frame.index, name), name) for frame in frames)
        if what.lstrip().startswith("~"):
            env = patsy.EvalEnvironment([{"np": np, **self._scope}])
            try:
                trained = patsy.dmatrix(what, frames[0], env, NA_action="raise")
                (made,) = patsy.build_design_matrices([trained.design_info], frames[1], NA_action="raise")
            except Exception as error:
                text = str(error).split("\n")[0]
                raise FormulaError(f"scale={what!r} cannot be evaluated: {text}") from error
            return np.asarray(trained), np.asarray(made)
        for frame, argument in zip(frames, ("data", "exog"), strict=True):
            if what not in frame.columns:
                raise InputError(
                    f"scale={what!r} is not a column of {argument}: add it, or give a callable"
                )
        return tuple(numbers(frame[what], f"scale={what!r}") for frame in frames)

    def factors(self, term, new, argument):
        """Values of a column, or of the factors of a formula term, at the training and all new rows.

        Returns
        -------
        list of (name, (n,) array, (m,) array)
        """
        frames = self.frame_of(None), self.frame_of(new)
        codes = self._codes(term, frames[1], argument)
        return [
            (code, *(factor_values(code, frame, self._names, argument) for frame in frames))
            for code in codes
        ]

    def _codes(self, term, frame, argument):
        """The factors of a term as expressions; the name of a column is taken as such, whatever it says."""
        columns = self._data.columns
        known = term in columns or term in frame.columns
        codes = [term] if known else factor_codes(term, argument)
        named = {term} if known else set().union(*map(names_in, codes))
        rows, lacking = "new", [name for name in columns if name in named and name not in frame.columns]
        if known and term not in columns:
            rows, lacking = "training", [term]
        if lacking:
            raise InputError(
                f"{argument}={term!r} goes by {listed(lacking, 'column')}, which the {rows} rows lack: "
                "give both frames the column"
            )
        return codes

    @property
    def labels(self):
        """Labels of the rows that the user gave, dropped ones included."""
        return self._data.index

    @property
    def levels(self):
        """Number of levels of each categorical factor on the right-hand side, by its expression."""
        infos = self._info.factor_infos.items()
        return {factor.code: len(info.categories) for factor, info in infos if info.type == "categorical"}

    def responses(self, new):
        """Responses of new rows as the formula makes them (m,), NaN where missing; None if not there."""
        used = set().union(*(names_in(factor.code) for factor in self._left.factor_infos))
        used &= set(self._frame.columns)
        return response_values(self._left, used, as_frame(new, "exog"), self.formula)

    def terms(self, term, new, argument):
        """Values of the factors of a formula term at new rows: ``{name: (m,) array}``."""
        frame = self.frame_of(new)
        return term_values(self._codes(term, frame, argument), frame, self._names, argument)

    @property
    def _names(self):
        """What terms beside the formula may name: numpy, pandas, and what the formula does."""
        return {"np": np, "pd": pd, **self._scope}

    def frame_of(self, new):
        """New rows as a frame; the training rows where there are none."""
        return self._data.iloc[self.kept] if new is None else as_frame(new, "exog")

    def _complete_rows(self, new):
        """A new frame, its columns that the formula uses, and which of its rows lack no value."""
        frame = as_frame(new, "exog")
        needed = self.predictors
        absent = [column for column in needed if column not in frame.columns]
        here = [column for column in absent if column not in self._outside]
        if here:
            raise InputError(
                f"exog lacks {listed(here, 'column')} that the formula {self.formula!r} uses: add "
                "to the frame what training had"
            )
        if len(frame) == len(self.labels):  # patsy would take the training values
            absent += self._row_values(frame)
        if absent:
            raise InputError(f"exog cannot be put through {self.formula!r}: {as_columns(absent)}")
        check_duplicates(frame, needed, "exog")
        taken = [column for column in frame.columns if column in needed or column in self._scope]
        values = plain(frame[taken], levels_from_data=True).reset_index(drop=True)
        for name in needed:
            check_new_column(values[name], self._frame[name].dtype, name, frame.index)
        return frame, values, ~values.isna().any(axis=1).to_numpy()

    def _row_values(self, frame):
        """Arrays of the calling scope with a value for each training row, and no column in new rows."""
        found = row_values(self._scope, len(self.labels))
        return [name for name in found if name not in frame.columns and name in self._right_names]

    def _new_row_error(self, error, frame):
        """A category or scope error in the user's terms."""
        text = str(error).split("\n")[0]
        if "expected levels" in text or "mismatching" in text:
            return InputError(
                f"exog has a category that training did not have ({text}): drop those rows, recode "
                "them, or refit with data that has the category"
            )
        outside = self._row_values(frame)
        hint = f"; {as_columns(outside)}" if outside else ""
        return FormulaError(f"exog cannot be put through {self.formula!r}: {text}{hint}")

    def __getstate__(self):
        used, scope = list(self._frame.columns), modules_by_name(self._scope)
        state = {"formula": self.formula, "data": self._data, "used": used, "scope": scope}
        return {**state, "outside": self._outside}

    def __setstate__(self, state):
        data = state["data"]  # the user's whole frame, for options may name any of its columns
        self.__init__(state["formula"], plain(data[state["used"]]), modules_found(state["scope"]), data)
        self._outside = state["outside"]


def build_design(formula, data, scope, missing="drop"):
    """Evaluate ``formula`` on ``data``.

    Parameters
    ----------
    formula : str
        A patsy formula with a response.
    data : DataFrame or mapping of columns
    scope : mapping
        Names of the caller, for functions and variables that are not columns.
    missing : {"drop", "raise"}

    Returns
    -------
    Design

    Examples
    --------
    >>> frame = pd.DataFrame({"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, None]})
    >>> design = build_design("y ~ x", frame, {})
    >>> design.names, design.y, list(design.dropped)
    (['Intercept', 'x'], array([1., 2.]), [2])
    """
    if not isinstance(formula, str):
        raise InputTypeError(
            f"formula={formula!r} is a {type(formula).__name__}: give a string such as 'y ~ x1 + x2'"
        )
    if missing not in _MISSING:
        raise InputError(f"missing={missing!r} is unknown: give 'drop' or 'raise'")
    data = as_frame(data, "data")
    if len(data) == 0:
        raise InputError("data has 0 rows: give a frame with training rows")
    left, right = formula_codes(formula)
    used = set().union(*map(names_in, left + right))
    check_duplicates(data, [column for column in data.columns if column in used], "data")
    scope, outside = taken_from(scope, used - set(data.columns), data.index)
    data = copied(data)  # all of it, for options may name any column
    for name, values in outside.items():
        data[name] = values
    frame = plain(data[[column for column in data.columns if column in used]])
    for code in left + right:
        name, category = column_of(code)
        if name in frame.columns:
            check_column(frame[name], name, code in left, category)
    design = Design(formula, frame, scope, data)
    design._outside = tuple(outside)
    _check_rows(design, frame, missing)
    check_finite(design.y[:, None], [design.response], design.index, "data")
    check_finite(design.X, design.names, design.index, "data")
    return design


def _evaluate(formula, frame, scope):
    """Response and design as frames, and the positions of their rows in ``frame``.

    patsy sees the labels of the rows, so that it refuses a Series with others.
    """
    env, drop = patsy.EvalEnvironment([scope]), DropMissing("drop")
    try:
        left, right = patsy.dmatrices(formula, frame, env, NA_action=drop, return_type="dataframe")
    except patsy.PatsyError as error:
        raise FormulaError(f"formula={formula!r} cannot be used: {error}{_hint(error)}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}{_hint(error)}"
        raise FormulaError(f"formula={formula!r} cannot be evaluated on data: {text}") from error
    return left, right, drop.kept


def _hint(error):
    if "is not defined" in str(error):
        return "\nGive data a column of that name, or define the name before calling fit."
    if "zero-size" in str(error) or "no levels" in str(error):
        return "\nEvery row has a missing value in a column of the formula."
    if any(words in str(error) for words in ("Index mismatch", "rows mismatch", "broadcast")):
        return "\nGive variables that are not columns of data its index, and a value for each row."
    return ""


def _check_response(left, formula):
    info = left.design_info
    factor = next(iter(info.factor_infos.values()))
    if factor.type != "numerical":
        raise InputError(
            f"response {info.term_names[0]!r} in {formula!r} is not numeric (levels "
            f"{list(factor.categories)[:5]}): convert it, with .astype(float) say"
        )
    if left.shape[1] != 1:
        raise InputError(
            f"response {info.term_names[0]!r} in {formula!r} has {left.shape[1]} columns: give one"
        )


def _check_rows(design, frame, missing):
    if missing == "raise" and len(design.dropped):
        columns = [column for column in frame.columns if frame[column].isna().any()]
        rows = ", ".join(map(str, design.dropped[:5]))
        raise InputError(
            f"data has missing values in {listed(columns, 'column')} ({len(design.dropped)} rows, the "
            f"first {rows}): fill them, or use missing='drop'"
        )
    if len(design.y) < 2:
        raise InputError(f"data has {len(design.y)} complete rows (of {len(frame)}): at least 2 are needed")


def learned_units(design, standardize=True):
    """The `ColumnUnits` of a training design, with one warning that names constant columns."""
    made, constant = column_units(design.X, design.kinds, standardize)
    if constant.any():
        columns = [name for name, is_constant in zip(design.names, constant, strict=True) if is_constant]
        tells = (
            "nothing of their effect can be learned" if len(columns) > 1 else "its effect cannot be learned"
        )
        warnings.warn(
            f"{listed(columns, 'column')} of the design {'is' if len(columns) == 1 else 'are'} "
            f"constant in training, so {tells}: drop the term if that is not meant",
            DataWarning,
            stacklevel=5,
        )
    return made
