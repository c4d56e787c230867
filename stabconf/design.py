"""From a formula and a frame to plain arrays, and the same map for new rows.

patsy lives here and in `terms` only. The formula sees the columns of the frame, the names of the
caller's scope that it mentions, and nothing else; those names are kept, so that the map can be rebuilt
from formula, frame and names after pickling (patsy's own objects refuse to be pickled).
"""

import types
import warnings
from copy import copy
from importlib import import_module

import numpy as np
import pandas as pd
import patsy

from .errors import DataWarning, FormulaError, InputError, InputTypeError
from .terms import (
    column_kinds,
    factor_codes,
    factor_values,
    is_column,
    names_in,
    response_values,
    term_values,
)
from .units import column_units
from .user_frames import as_frame, check_duplicates, check_finite, listed, numbers, numbers_lost, plain

__all__ = ["Design", "build_design", "caller_scope", "learned_units"]

_MISSING = ("drop", "raise")


def caller_scope(depth):
    """The names visible ``depth`` frames above the caller of this function."""
    return patsy.EvalEnvironment.capture(depth + 1).namespace


class _DropMissing(patsy.NAAction):
    """Drops incomplete rows as patsy does, but looks for them in plain arrays.

    Looking through pandas, column by column, takes about a third of the time of a fit to a thousand rows.
    """

    def is_numerical_NA(self, arr):
        return super().is_numerical_NA(np.asarray(arr))


_DROP = _DropMissing("drop")


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

    def __init__(self, formula, frame, scope, data=None):
        self.formula, self._frame, self._scope = formula, frame, scope
        self._data = frame if data is None else data
        left, right = _evaluate(formula, frame, scope)
        kept = self.kept = right.index.to_numpy()
        self._info = right.design_info
        self.names = list(self._info.column_names)
        self._left = left.design_info
        self.response = self._left.column_names[0]
        _check_response(left, formula)
        self.y = left.iloc[:, 0].to_numpy(dtype=float)
        self.X = np.ascontiguousarray(right.to_numpy(dtype=float))
        self.index = frame.index[kept]
        self.dropped = frame.index.delete(kept)
        self.kinds = column_kinds(self._info, frame.reset_index(drop=True), kept)
        self.transformed = not is_column(self.response, frame.columns)

    @property
    def intercept(self):
        """Position of the intercept column, or None."""
        return self.kinds.intercept

    @property
    def predictors(self):
        """Columns of the frame that the right-hand side uses."""
        used = set()
        for factor in self._info.factor_infos:
            used |= names_in(factor.code)
        return [column for column in self._frame.columns if column in used]

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
                [self._info], values[complete].infer_objects(), NA_action=_DROP, return_type="dataframe"
            )
        except Exception as error:
            raise self._new_row_error(error, values) from error
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
        both = both.infer_objects()
        for name in self.predictors:
            if isinstance(trained[name].dtype, pd.CategoricalDtype):  # the order of levels is the user's
                levels = list(trained[name].cat.categories)
                levels += [level for level in pd.unique(both[name]) if level not in levels]
                both[name] = pd.Categorical(both[name], categories=levels)
        right = "~" + self.formula.split("~", 1)[1]
        env = patsy.EvalEnvironment([self._scope])
        try:
            made = patsy.dmatrix(right, both, env, NA_action=_DROP, return_type="dataframe")
        except Exception as error:
            raise self._new_row_error(error, values) from error
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
            return tuple(numbers(what(frame), "the values of scale") for frame in frames)
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
        codes = [term] if term in self._data.columns else factor_codes(term, argument)
        frames = self.frame_of(None), self.frame_of(new)
        return [
            (code, *(factor_values(code, frame, self._names, argument) for frame in frames))
            for code in codes
        ]

    @property
    def total(self):
        """Number of rows that the user gave, dropped ones included."""
        return len(self._data)

    def responses(self, new):
        """Responses of new rows as the formula makes them (m,), NaN where missing; None if not there."""
        used = set().union(*(names_in(factor.code) for factor in self._left.factor_infos))
        used &= set(self._frame.columns)
        return response_values(self._left, used, as_frame(new, "exog"), self.formula)

    def terms(self, term, new, argument):
        """Values of the factors of a formula term at new rows: ``{name: (m,) array}``."""
        return term_values(term, self.frame_of(new), self._names, argument)

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
        if absent:
            raise InputError(
                f"exog lacks {listed(absent, 'column')} that the formula {self.formula!r} uses: add "
                "to the frame what training had"
            )
        check_duplicates(frame, needed, "exog")
        taken = [column for column in frame.columns if column in needed or column in self._scope]
        values = plain(frame[taken], levels_from_data=True).reset_index(drop=True)
        return frame, values, ~values.isna().any(axis=1).to_numpy()

    def _new_row_error(self, error, values):
        """A category, number or scope error in the user's terms."""
        text = str(error).split("\n")[0]
        texts = [name for name in self.predictors if numbers_lost(self._frame[name], values[name])]
        if texts and "expected levels" not in text:
            found = values[texts[0]].dropna().iloc[0]
            return InputError(
                f"exog has {found!r} in {texts[0]!r}, which was numeric in training: give numbers, with "
                "pd.to_numeric say"
            )
        if "expected levels" in text or "mismatching" in text:
            return InputError(
                f"exog has a category that training did not have ({text}): drop those rows, recode "
                "them, or refit with data that has the category"
            )
        outside = sorted(
            name for name, value in self._scope.items() if np.ndim(value) == 1 and len(value) > 1
        )
        hint = f"; {listed(outside, 'variable')} of the calling scope had one value a training row: make "
        hint = hint + "it a column of both frames" if outside else ""
        return FormulaError(f"exog cannot be put through {self.formula!r}: {text}{hint}")

    def __getstate__(self):
        scope = {name: _by_name(value) for name, value in self._scope.items()}
        used = list(self._frame.columns)
        return {"formula": self.formula, "data": self._data, "used": used, "scope": scope}

    def __setstate__(self, state):
        scope = {name: _from_name(value) for name, value in state["scope"].items()}
        data = state["data"]  # the user's whole frame, for options may name any of its columns
        self.__init__(state["formula"], plain(data[state["used"]]), scope, data)


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
    frame = data = as_frame(data, "data")
    if len(frame) == 0:
        raise InputError("data has 0 rows: give a frame with training rows")
    used = _names_in_formula(formula)
    columns = [column for column in frame.columns if column in used]
    check_duplicates(frame, columns, "data")
    frame = plain(frame[columns])
    design = Design(formula, frame, _used_scope(used, frame, scope), data)
    _check_rows(design, frame, missing)
    check_finite(design.y[:, None], [design.response], design.index, "data")
    check_finite(design.X, design.names, design.index, "data")
    return design


def _evaluate(formula, frame, scope):
    """Response and design as frames on row positions."""
    env = patsy.EvalEnvironment([scope])
    values = frame.reset_index(drop=True)
    try:
        return patsy.dmatrices(formula, values, env, NA_action=_DROP, return_type="dataframe")
    except patsy.PatsyError as error:
        raise FormulaError(f"formula={formula!r} cannot be used: {error}{_hint(error)}") from error
    except Exception as error:
        raise FormulaError(
            f"formula={formula!r} cannot be evaluated on data: {type(error).__name__}: {error}"
        ) from error


def _hint(error):
    if "is not defined" in str(error):
        return "\nGive data a column of that name, or define the name before calling fit."
    if "zero-size" in str(error) or "no levels" in str(error):
        return "\nEvery row has a missing value in a column of the formula."
    return ""


def _names_in_formula(formula):
    try:
        desc = patsy.ModelDesc.from_formula(formula)
    except (patsy.PatsyError, SyntaxError) as error:
        raise FormulaError(f"formula={formula!r} cannot be parsed: {error}") from error
    except RecursionError as error:
        raise FormulaError(
            f"formula={formula[:60] + '...'!r} has too many terms for the parser: put blocks of a "
            "hundred in parentheses, 'y ~ (x1 + x2 + ...) + (...)'"
        ) from error
    if len(desc.lhs_termlist) != 1 or not desc.lhs_termlist[0].factors:
        raise FormulaError(
            f"formula={formula!r} needs one response on the left of '~': write 'y ~ x1 + x2'"
        )
    if not desc.rhs_termlist:
        raise FormulaError(f"formula={formula!r} has no terms: write 'y ~ 1' for a constant")
    names = set()
    for term in desc.lhs_termlist + desc.rhs_termlist:
        for factor in term.factors:
            names |= names_in(factor.code)
    return names


def _used_scope(used, frame, scope):
    """The caller's names that the formula uses; row-wise Series lose their index, as the frame does."""
    found = {}
    for name in sorted(used - set(frame.columns)):
        try:
            value = scope[name]
        except KeyError:
            if name != "np":
                continue
            value = np
        found[name] = value.to_numpy() if isinstance(value, pd.Series) else value
    return found


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


def _by_name(value):
    return ("module", value.__name__) if isinstance(value, types.ModuleType) else ("value", value)


def _from_name(value):
    kind, content = value
    return import_module(content) if kind == "module" else content


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
