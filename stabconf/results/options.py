"""What a user may ask of the intervals: the types of the options, and how some become arrays.

`conf_int_conformal` and what is made from it call these. Which method takes which option is said in `sets`.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from ..checks import is_number
from ..data.design import Design
from ..data.frames import IntoFrame, as_labels, by_label
from ..errors import InputError, InputTypeError
from ..sets import Along, Clusters, FixedScale, LearnedScale
from ..sets.score import Side as Side

# Types of what a user may give; None is "not given", and for new rows "the training rows".
Table: TypeAlias = pd.DataFrame | Mapping[str, Sequence[Any]] | IntoFrame
New: TypeAlias = Table | None
Level: TypeAlias = float | None
Numbers: TypeAlias = float | Sequence[float] | np.ndarray | None
Bound: TypeAlias = Literal["curvature", "norm", "ball", "paper", "dual"] | None
Groups: TypeAlias = str | Sequence[str] | None
Folds: TypeAlias = int | str | Sequence[Any] | np.ndarray | None
Units: TypeAlias = str | tuple[Callable[..., Any], Callable[..., Any]] | None
PerRow: TypeAlias = float | str | Callable[[pd.DataFrame], Any] | Sequence[Any] | np.ndarray | None

Options: TypeAlias = dict[str, Any]  # by name
Asking = TypeVar("Asking", bound=Callable[..., Any])


def shows_options(of: Callable[..., Any], names: Collection[str]) -> Callable[[Asking], Asking]:
    """Show these options of another method in the signature, where the method itself has ``**options``."""

    def shown(method: Asking) -> Asking:
        own = inspect.signature(method)
        *first, rest = own.parameters.values()
        more = [each for each in inspect.signature(of).parameters.values() if each.name in names]
        vars(method)["__signature__"] = own.replace(parameters=[*first, *more, rest])
        return method

    return shown


def as_responses(
    z_hat: Any, exog: pd.DataFrame, predictions: np.ndarray, complete: np.ndarray
) -> np.ndarray:
    """Responses for the complete new rows, (m,), or (m, b) where several are given.

    ``z_hat`` is a number, "prediction", a callable of ``exog``, or a list of these.
    """
    if isinstance(z_hat, (list, tuple)):
        if not z_hat:
            raise InputError("z_hat=[] is empty: give a response, 'prediction' or a callable, or several")
        each = [as_responses(one, exog, predictions, complete) for one in z_hat]
        return each[0] if len(each) == 1 else np.column_stack(each)
    if isinstance(z_hat, str) and z_hat == "prediction":
        return predictions[complete]
    if callable(z_hat):
        values = np.asarray(by_label(z_hat(exog), exog.index, "what z_hat returns"), dtype=float)
        if values.shape not in ((), predictions.shape):
            raise InputError(
                f"z_hat returned values of shape {values.shape}: it must give one for each of the "
                f"{len(predictions)} rows"
            )
        values = np.broadcast_to(values, predictions.shape)[complete]
    elif is_number(z_hat):
        values = np.full(np.count_nonzero(complete), float(z_hat))
    else:
        named = "z_hat" if np.ndim(z_hat) else f"z_hat={z_hat!r}"
        raise InputTypeError(
            f"{named} is a {type(z_hat).__name__}: give a number, 'prediction' or a callable"
        )
    if not np.all(np.isfinite(values)):
        raise InputError("z_hat has values that are not finite: give finite responses")
    return values


def as_along(conditional: Any, design: Design, exog: New, complete: np.ndarray) -> tuple[Along, np.ndarray]:
    """The design that coverage is asked for along, and which rows have it."""
    if not isinstance(conditional, str):
        raise InputTypeError(
            f"conditional={conditional!r} is a {type(conditional).__name__}: give a formula such as "
            "'~ C(region) + cr(age, df=4)'"
        )
    trained, new = design.along(conditional, exog)
    complete = complete & ~np.isnan(new).any(axis=1)
    return Along(trained, new[complete], conditional), complete


def as_folds(folds: Any, method: str, design: Design) -> int | Clusters:
    """A number of folds as it is; clusters of the training rows from a column, or from a label per row."""
    if not isinstance(folds, str) and np.ndim(folds) == 0:
        if method == "split":
            raise InputTypeError(
                f"folds={folds!r} is a {type(folds).__name__}: method='split' takes the column of clusters "
                "that are to stay together; the share of rows that calibrate is calibration="
            )
        return folds
    frame, name = design.frame_of(None), folds if isinstance(folds, str) else "the labels given as folds"
    if isinstance(folds, str):
        if folds not in frame.columns:
            raise InputError(
                f"folds={folds!r} is not a column of data: give the column that says to which cluster a "
                "row belongs, a label per training row, or a number"
            )
        folds = frame[folds]
    labels = by_label(folds, frame.index, "folds")
    if len(labels) != len(frame):
        raise InputError(f"folds has {len(labels)} labels for {len(frame)} training rows: give one each")
    code, _ = pd.factorize(as_labels(pd.Series(list(labels), dtype=object), name, "folds"))
    if np.any(code < 0):
        raise InputError(
            f"{name} is missing in row {frame.index[code < 0][0]}: every training row needs a cluster"
        )
    return Clusters(code, name)


def as_scale(
    scale: Any, design: Design, exog: New, complete: np.ndarray
) -> tuple[FixedScale | LearnedScale, np.ndarray]:
    """The scale of the rows, fixed numbers or columns that it is learned from, and which rows have one."""
    if scale is True:  # the columns of the model itself
        new = design.X if exog is None else design.new_rows(exog)[0]
        return LearnedScale(design.X, new[complete]), complete
    if not (isinstance(scale, str) or callable(scale)):
        raise InputTypeError(
            f"scale={scale!r} is a {type(scale).__name__}: give a column, a formula such as '~ x1', True "
            "for the model's own columns, or a callable"
        )
    trained, new = design.beside(scale, exog, complete)
    if isinstance(scale, str) and scale.lstrip().startswith("~"):
        return LearnedScale(trained, new), complete
    if new.shape == (int(np.count_nonzero(complete)),):
        known = ~np.isnan(new)
        complete = complete.copy()
        complete[complete] = known
        new = new[known]
    counts = len(design.y), int(np.count_nonzero(complete))
    for values, count, where in zip((trained, new), counts, ("a training row", "a new row"), strict=True):
        if values.shape != (count,):
            raise InputError(f"scale={scale!r} has shape {values.shape}: it must have one value a row")
        if not (np.all(np.isfinite(values)) and np.all(values > 0)):
            bad = values[~(np.isfinite(values) & (values > 0))][0]
            raise InputError(f"scale={scale!r} is {bad:g} in {where}: scales must be positive and finite")
    return FixedScale(trained, new), complete
