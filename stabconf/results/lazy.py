"""Predictions and intervals of dask frames: lazy frames themselves, made partition by partition.

`BaseResults.predict` and `ask_intervals` come here with frames of dask, which is not imported unless they
do. Workers are sent a predictor, which has no training rows.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from ..checks import check_one_alpha
from .options import Numbers, Options, Side, Units

if TYPE_CHECKING:
    from .base import BaseResults

__all__ = ["is_lazy", "lazy_intervals", "lazy_predictions"]


def is_lazy(exog: object) -> bool:
    """Whether rows are a dask frame."""
    return type(exog).__module__.partition(".")[0].startswith("dask") and hasattr(exog, "map_partitions")


def lazy_intervals(
    results: "BaseResults", frame: Any, alpha: Numbers, method: str, side: Side, options: Options
) -> Any:
    """`conf_int_conformal` of a dask frame at one alpha: by "stable" unless "split" is asked for."""
    asked: Options = {"alpha": check_one_alpha(alpha), "method": "stable" if method == "auto" else method}
    split = {name: options.pop(name) for name in ("calibration", "random_state") if name in options}
    options = {name: value for name, value in options.items() if value is not False}
    predictor = results._without_rows(asked["alpha"], side, asked["method"], **split)
    return _by_partition(predictor, frame, "conf_int_conformal", {**asked, "side": side, **options})


def lazy_predictions(results: "BaseResults", frame: Any, units: Units) -> Any:
    """`predict` of a dask frame."""
    return _by_partition(results._without_rows(None, "two-sided", ""), frame, "predict", {"units": units})


def _by_partition(predictor: "BaseResults", frame: Any, what: str, asked: Options) -> Any:
    from dask import delayed

    meta = _answer(frame._meta, predictor, what, asked)
    return frame.map_partitions(_answer, delayed(predictor), what, asked, meta=meta)


def _answer(
    part: pd.DataFrame, predictor: "BaseResults", what: str, asked: Options
) -> pd.DataFrame | pd.Series:
    """A predictor's answer to some rows; what it says of all of them would differ by partition."""
    made = getattr(predictor, what)(part, **asked)
    made.attrs = {}
    return made
