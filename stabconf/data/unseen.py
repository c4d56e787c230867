"""New rows that the map learned in training cannot place: unseen levels, values beyond its knots.

`design` asks once a map has failed: to name the rows in an error, in the user's words, or to leave them
without an answer where ``unseen="nan"``.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import patsy

from ..errors import DataWarning, FormulaError, InputError, warn_user
from .formulas import names_in
from .frames import listed

if TYPE_CHECKING:
    from .design import Design

Columns = dict[Any, pd.Series]


def placed_rows(
    design: "Design", error: Exception, frame: pd.DataFrame, columns: Columns, complete: np.ndarray
) -> np.ndarray:
    """Which of the ``complete`` rows (m,) of a new frame the map can place, after it could not place all of
    them; the error where these cannot be told, or where ``design.unseen`` is "raise"."""
    if not hasattr(design._info, "factor_infos"):  # a map of formulaic
        raise new_row_error(design, error, frame) from error
    values = pd.DataFrame(columns, index=frame.index)[complete]
    rows, found = _unseen_rows(design._info, values, design.frame_of(None))
    if not rows.any():
        raise new_row_error(design, error, frame) from error
    what = "; ".join(f"{code}: {', '.join(map(repr, told))}" for code, told in found.items())
    labels = values.index[rows]
    some = ", ".join(map(str, labels[:5])) + (", ..." if len(labels) > 5 else "")
    rows_are = f"{len(labels)} row{'s' if len(labels) > 1 else ''} ({some})"
    problem = f"exog has {rows_are} with values that training did not have ({what})"
    if design.unseen == "raise":
        splines = ", write cr(x, df=4) for bs, which goes on in straight lines" if "bs(" in what else ""
        raise InputError(
            f"{problem}: recode or drop them{splines}, or give unseen='nan' to leave them without an answer"
        ) from error
    warn_user(f"{problem}: they have no answer (NaN)", DataWarning)
    placed = complete.copy()
    placed[complete] = ~rows
    return placed


def new_row_error(design: "Design", error: Exception, frame: pd.DataFrame) -> InputError:
    """An error of new rows in the user's terms."""
    text = str(error).split("\n")[0]
    if "categories" in text or "mismatching" in text:  # as formulaic and new levels say it
        return InputError(
            f"exog has a category that training did not have ({text}): recode or drop those rows, or "
            "refit with data that has the category"
        )
    outside = row_values(design, frame)
    hint = f"; {values_as_columns(outside)}" if outside else ""
    return FormulaError(f"exog cannot be put through {design.formula!r}: {text}{hint}")


def row_values(design: "Design", frame: pd.DataFrame) -> list[str]:
    """Arrays of the calling scope with a value for each training row, and no column in new rows."""
    scope, count = design._scope, len(design.labels)
    used = names_in(*(factor.code for factor in design._info.factor_infos)) if scope else set()
    found = {name: value for name, value in scope.items() if name in used - set(frame.columns)}
    return [name for name, value in found.items() if np.ndim(value) == 1 and len(value) == count]


def values_as_columns(names: list[str]) -> str:
    """What to do about variables that new rows need, in words."""
    named = listed(names, "variable")
    return f"{named} of the calling scope had one value a training row: make it a column of both frames"


def _unseen_rows(
    info: Any, values: pd.DataFrame, trained: pd.DataFrame
) -> tuple[np.ndarray, dict[str, list[object]]]:
    """Which of the complete rows ``values`` a design cannot place (m,), and what they hold, by factor.

    A category is unseen where training has no such level. A number is where its factor (a spline, say)
    cannot be evaluated and it lies outside of the training range.
    """
    rows = np.zeros(len(values), dtype=bool)
    found: dict[str, list[object]] = {}
    for factor, learned in info.factor_infos.items():
        try:
            made = patsy.EvalFactor.eval(factor, learned.state, values)
        except Exception:  # whatever a factor of the user's raises
            columns = [name for name in values.columns if name in factor.code]
            outside = _outside(values[columns], trained)
            told = [value for name in columns for value in _distinct(values.loc[outside, name])]
        else:
            if learned.type != "categorical":
                continue
            made = pd.Series(np.asarray(getattr(made, "data", made)).ravel())
            outside = ~made.isin(list(learned.categories)).to_numpy()
            told = _distinct(made[outside])
        if outside.any():
            rows |= outside
            found[factor.code] = told
    return rows, found


def _outside(values: pd.DataFrame, trained: pd.DataFrame) -> np.ndarray:
    """Rows with a number outside of the training range."""
    rows = np.zeros(len(values), dtype=bool)
    for name in values.columns:
        if name in trained.columns and pd.api.types.is_numeric_dtype(trained[name].dtype):
            rows |= ~values[name].between(trained[name].min(), trained[name].max()).to_numpy()
    return rows


def _distinct(values: pd.Series) -> list[object]:
    """The first few values."""
    return values.drop_duplicates().head(3).tolist()
