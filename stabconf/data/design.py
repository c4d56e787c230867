"""From a formula and a frame to plain arrays, and the same map for new rows.

Fits start here with `build_design`. The formula sees the columns of the frame, the names of the caller's
scope that it mentions, and nothing else. Copies of both are kept, so that the map can be rebuilt after
pickling (patsy's own objects refuse it) and that later changes of the user's frame do not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from ..errors import FormulaError, InputError
from . import formulas
from .factors import at_both, check_responses, depending, design_rows, learned, learning, right_side
from .frames import (
    as_frame,
    by_label,
    check_column,
    check_finite,
    check_new_column,
    column_or_call,
    copied,
    lacking,
    listed,
    numbers,
    plain_columns,
    refuse_missing,
)
from .units import ColumnUnits, column_units
from .unseen import new_row_error, placed_rows, row_values, values_as_columns

Unseen = Literal["raise", "nan"]


class Design:
    """Training arrays and the map that made them; see `build_design`.

    Attributes
    ----------
    y, response
        Responses (n,) as the formula makes them, and their name, ``"np.log(y)"`` say; of the first where
        there are several, see `each`. ``transformed`` is whether they are more than a column.
    X, names, kinds
        Design columns (n, p) in their own units, their names, and what they are made of.
    labels, index, kept, dropped
        Labels of the rows that the user gave, labels and positions (n,) of those used, and labels of those
        left out because a value is missing.
    predictors
        Columns of the frame that the right-hand side of the ``formula`` uses.
    """

    _outside: tuple[str, ...] = ()  # names of the columns that were Series of the calling scope
    _place = 0  # of the response, among several
    unseen: Unseen = "raise"  # what is done with new rows that the map cannot place

    def __init__(
        self, formula: str, data: pd.DataFrame, scope: Mapping[str, Any], outside: tuple[str, ...] = ()
    ) -> None:
        sides = formulas.sides_of(formula)
        used = formulas.names_in(*(code for side in sides for code in formulas.codes_of(side)))
        names, columns = formulas.taken_from(scope, used - set(data.columns), data.index)
        data = copied(data)  # all of it, for options may name any column
        for name, values in columns.items():
            data[name] = values
        frame = checked_frame(data, sides)
        with learning(formula):
            infos, made = learned(sides, frame, names)
            check_responses(formula, infos[0])
        self._take(formula, sides, names, infos, frame)
        self._data = data
        self._outside = (*outside, *columns)
        self._Y: np.ndarray = made.matrix(self._left)
        self.X: np.ndarray = made.matrix(self._info)
        self.kept: np.ndarray = made.kept
        self.labels: pd.Index = frame.index
        self.index: pd.Index = frame.index[self.kept]
        self.dropped: pd.Index = frame.index.delete(self.kept)
        self.kinds = made.kinds(self._info)
        self._choose(0)

    def _take(
        self,
        formula: str,
        sides: Sequence[list[Any]],
        scope: Mapping[str, Any],
        infos: Sequence[Any],
        frame: pd.DataFrame,
    ) -> None:
        """Take the map of a formula's sides, learned from rows with the columns of a frame."""
        left, right = (formulas.names_in(*formulas.codes_of(side)) for side in sides)
        self.formula, self._scope, self._frame = formula, scope, frame
        self._left, self._info = infos
        self.names: list[str] = list(self._info.column_names)
        self.predictors: list[str] = [column for column in frame.columns if column in right]
        self._responding = [column for column in frame.columns if column in left]

    def _choose(self, place: int) -> None:
        """Take one of the responses for the response."""
        self._place = place
        self.response: str = self._left.column_names[place]
        self.y: np.ndarray = np.ascontiguousarray(self._Y[:, place])
        columns = self._frame.columns
        quoted = (code for name in columns for code in (f"Q({name!r})", f'Q("{name}")'))
        self.transformed: bool = self.response not in columns and self.response not in quoted

    @property
    def responses_named(self) -> list[str]:
        """Names of the responses of the left side."""
        return list(self._left.column_names)

    def each(self) -> list["Design"]:
        """One copy per response of the left side, with that response as its own."""
        made = [self._copy() for _ in self.responses_named]
        for place, one in enumerate(made):
            one._choose(place)
        return made

    def _copy(self, **changes: Any) -> Self:
        """The same, but for some attributes."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made

    @property
    def intercept(self) -> int | None:
        """Position of the intercept column, or None."""
        return self.kinds.intercept

    @property
    def levels(self) -> dict[str, list]:
        """Levels of each categorical factor on the right-hand side, by its expression."""
        infos = self._info.factor_infos.items()
        return {factor.code: list(info.categories) for factor, info in infos if info.type == "categorical"}

    @property
    def depending(self) -> list[str]:
        """Columns whose values at a row depend on what other rows are there."""
        return depending(self._info, self.X, self._frame, self.kept)

    def frame_of(self, new: object) -> pd.DataFrame:
        """New rows as a frame; the training rows where there are none."""
        return self._data.iloc[self.kept] if new is None else as_frame(new, "exog")

    def new_rows(self, new: object) -> tuple[np.ndarray, pd.Index]:
        """Design rows (m, p) of new rows and their index; a row that lacks a value is NaN throughout."""
        frame, columns, complete = self._complete_rows(new)
        try:
            rows = self._mapped(columns, frame.index, complete)
        except Exception as error:
            rows = self._mapped(columns, frame.index, placed_rows(self, error, frame, columns, complete))
        check_finite(rows, self.names, frame.index, "exog", allow_nan=True)
        return rows, frame.index

    def _mapped(self, columns: Mapping[Any, pd.Series], index: pd.Index, asked: np.ndarray) -> np.ndarray:
        """Design rows (m, p), NaN where not ``asked`` for."""
        return design_rows(self._info, columns, index, asked)

    def together(
        self, new: object, standardize: bool
    ) -> tuple["Design", ColumnUnits, np.ndarray, pd.Index]:
        """A copy with a map learned from training and new rows, its units, and what `new_rows` returns."""
        frame, columns, complete = self._complete_rows(new)
        trained = self._frame[self.predictors].iloc[self.kept]
        asked = pd.DataFrame({name: columns[name].to_numpy()[complete] for name in self.predictors})
        both = pd.concat([trained.astype(object), asked], ignore_index=True)
        both = pd.DataFrame(plain_columns(both, self.predictors, "exog"), index=both.index)
        for name in self.predictors:
            if isinstance(trained[name].dtype, pd.CategoricalDtype):  # the order of levels is the user's
                levels = list(trained[name].cat.categories)
                levels += [level for level in pd.unique(both[name]) if level not in levels]
                both[name] = pd.Categorical(both[name], categories=levels)
        try:
            info, made = right_side(self.formula, both, self._scope)
        except Exception as error:
            raise new_row_error(self, error, frame) from error
        n = len(self.y)
        place, X = made.kept, made.matrix(info)
        kinds = made.kinds(info)
        learned = {"_info": info, "names": list(info.column_names), "kinds": kinds.take(slice(n))}
        design = self._copy(X=np.ascontiguousarray(X[:n]), **learned)
        rows = np.full((len(frame), X.shape[1]), np.nan)
        rows[np.flatnonzero(complete)[place[n:] - n]] = X[n:]
        check_finite(rows, design.names, frame.index, "exog", allow_nan=True)
        return design, column_units(X, kinds, standardize)[0], rows, frame.index

    def responses(self, new: object) -> np.ndarray | None:
        """Responses of new rows as the formula makes them (m,), NaN where missing; None if not there."""
        frame, used = as_frame(new, "exog"), self._responding
        if not used or set(used) - set(frame.columns):
            return None
        columns = plain_columns(frame, used, "exog")
        with formulas.formula_errors(f"exog cannot be put through the left side of {self.formula!r}"):
            return design_rows(self._left, columns, frame.index)[:, self._place]

    def beside(
        self, what: str | Callable[[pd.DataFrame], Any], new: object, complete: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A column, function or formula of the training rows and of the complete new rows."""
        frames = self.frame_of(None), self.frame_of(new)[complete]
        if isinstance(what, str) and what.lstrip().startswith("~"):
            with formulas.formula_errors(f"scale={what!r} cannot be evaluated"):
                return at_both(what, frames, {"np": np, **self._scope})
        name = "the values of scale" if callable(what) else f"scale={what!r}"
        pair = zip(column_or_call(what, frames, "scale", "a callable"), frames, strict=True)
        first, second = (numbers(by_label(values, frame.index, name), name) for values, frame in pair)
        return first, second

    def along(self, formula: str, new: object) -> tuple[np.ndarray, np.ndarray]:
        """The design of a one-sided formula with a constant, at the training rows (n, d) and the new ones
        (m, d), NaN where one of these lacks a value."""
        formula = formula if formula.lstrip().startswith("~") else f"~ {formula}"
        knots = "; where new rows lie beyond the training rows use cr(x, df=4)" if "bs(" in formula else ""
        with formulas.formula_errors(f"conditional={formula!r} cannot be evaluated", knots):
            frames = self.frame_of(None), self.frame_of(new)
            pair = at_both(formula, frames, {"np": np, "pd": pd, **self._scope}, "nan")
        trained, rows = (np.column_stack([np.ones(len(each)), each]) for each in pair)
        return trained, rows

    def factors(
        self, term: str, new: object, argument: str, scope: Mapping[str, Any] | None = None
    ) -> dict[str, pd.Series]:
        """A column, or the factors of a formula term, at new rows (training rows if None), by position.

        Terms may name numpy, pandas, what the formula does, and ``scope``.
        """
        frame, columns = self.frame_of(new), self._data.columns
        known = term in columns or term in frame.columns  # a column is one, whatever its name says
        codes = [term] if known else formulas.factor_codes(term, argument)
        named = {term} if known else formulas.names_in(*codes)
        rows, absent = "new", [name for name in columns if name in named and name not in frame.columns]
        if known and term not in columns:
            rows, absent = "training", [term]
        if absent:
            raise InputError(
                f"{argument}={term!r} goes by {listed(absent, 'column')}, which the {rows} rows lack: "
                "give both frames the column"
            )
        names = {"np": np, "pd": pd, **(scope or {}), **self._scope}
        return {code: formulas.term_values(code, frame, names, argument) for code in codes}

    def terms(self, term: str, new: object, argument: str) -> dict[str, pd.Series]:
        """The same, where terms may have patsy's transforms."""
        found = self.factors(term, new, argument, formulas.TRANSFORMS)
        return {name: values.infer_objects() for name, values in found.items()}

    def _complete_rows(self, new: object) -> tuple[pd.DataFrame, dict[Any, pd.Series], np.ndarray]:
        """A new frame, its columns that the formula uses, and which of its rows lack no value."""
        frame = as_frame(new, "exog")
        absent = [column for column in self.predictors if column not in frame.columns]
        here = [column for column in absent if column not in self._outside]
        if here:
            raise InputError(
                f"exog lacks {listed(here, 'column')} that the formula {self.formula!r} uses: add "
                "to the frame what training had"
            )
        if len(frame) == len(self.labels):  # patsy would take the training values
            absent += row_values(self, frame)
        if absent:
            raise InputError(f"exog cannot be put through {self.formula!r}: {values_as_columns(absent)}")
        columns = plain_columns(frame, {*self.predictors, *self._scope}, "exog", self._frame)
        for name in self.predictors:
            check_new_column(columns[name], name, self._frame)
        return frame, columns, ~lacking(columns, len(frame))

    def leaving_unseen(self, unseen: Unseen) -> Self:
        """The same map, with another answer to new rows that it cannot place."""
        if unseen not in ("raise", "nan"):
            raise InputError(f"unseen={unseen!r} is unknown: give 'raise' or 'nan'")
        return self._copy(unseen=unseen)

    def __getstate__(self) -> dict[str, Any]:
        # A module cannot be pickled: its name stands for it.
        modules = {name: value for name, value in self._scope.items() if isinstance(value, ModuleType)}
        return {
            "formula": self.formula,
            "data": self._data,
            "outside": self._outside,
            "place": self._place,
            "unseen": self.unseen,
            "scope": {name: value for name, value in self._scope.items() if name not in modules},
            "modules": {name: module.__name__ for name, module in modules.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        modules = {name: import_module(module) for name, module in state["modules"].items()}
        scope = {**state["scope"], **modules}
        Design.__init__(self, state["formula"], state["data"], scope, state["outside"])
        self._choose(state["place"])
        self.unseen = state["unseen"]


def checked_frame(data: pd.DataFrame, sides: Sequence[list[Any]]) -> pd.DataFrame:
    """The columns that a formula's sides name, made plain; refused where the formula would misread one."""
    left, right = map(formulas.codes_of, sides)
    columns = plain_columns(data, formulas.names_in(*left, *right), "data")
    frame = pd.DataFrame(columns, index=data.index, copy=False)
    for code in left + right:
        name, category = formulas.column_of(code)
        if name in frame.columns:
            check_column(frame[name], name, code in left, category)
    return frame


def build_design(
    formula: str,
    data: object,
    scope: Mapping[str, Any],
    missing: Literal["drop", "raise"] = "drop",
    unseen: Unseen = "raise",
    several: bool = False,
) -> Design:
    """The `Design` of a formula with a response, on a frame or a mapping of columns.

    ``scope`` has the names of the caller, for functions and variables that are not columns; ``several`` is
    whether the left side may have several terms, each a response.

    >>> frame = pd.DataFrame({"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, None]})
    >>> design = build_design("y ~ x", frame, {})
    >>> design.names, design.y, list(design.dropped)
    (['Intercept', 'x'], array([1., 2.]), [2])
    """
    formulas.check_asked(formula, missing)
    frame = as_frame(data, "data")
    if len(frame) == 0:
        raise InputError("data has 0 rows: give a frame with training rows")
    with formulas.hints(formula, frame.columns):
        design = Design(formula, frame, scope)
    names = design.responses_named
    if len(names) > 1 and not several:
        raise FormulaError(
            f"formula={formula!r} has {len(names)} responses ({', '.join(names)}), and one is needed here: "
            f"write 'I({' + '.join(names)}) ~ ...' for their sum; stabconf.fit with a loss takes several"
        )
    if missing == "raise" and len(design.dropped):
        refuse_missing(formula, design._frame, design.dropped)
    if len(design.y) < 2:
        raise InputError(f"data has {len(design.y)} complete rows (of {len(frame)}): at least 2 are needed")
    check_finite(design._Y, names, design.index, "data")
    check_finite(design.X, design.names, design.index, "data")
    return design.leaving_unseen(unseen)
