"""New rows that the map learned in training cannot place: levels it has not seen, values beyond its knots.

`design` asks which rows these are, to name them in an error, or to leave them without an answer where
``unseen="nan"``.
"""

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["unseen_rows"]


def unseen_rows(
    info: Any, values: pd.DataFrame, trained: pd.DataFrame
) -> tuple[np.ndarray, dict[str, list[object]]]:
    """Which of the complete rows ``values`` a design cannot place (m,), and what they hold, by factor.

    A category is unseen where training has no such level. A number is where its factor (a spline, say)
    cannot be evaluated and it lies outside of the training range.

    Parameters
    ----------
    info : patsy DesignInfo
    values, trained : DataFrame
        New rows with the columns that the design uses, and training rows.
    """
    rows = np.zeros(len(values), dtype=bool)
    found: dict[str, list[object]] = {}
    for factor, learned in info.factor_infos.items():
        try:
            made = factor.eval(learned.state, values)
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
