"""What the penalty does to the intervals: refits over a path of penalties.

`plot_stability` draws it; `study.select_penalty` uses the same penalties and means.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..checks import check_numbers
from ..errors import AssumptionError, quietly
from ..sets import progress_bar
from .options import New, Options

if TYPE_CHECKING:
    from .base import BaseResults

__all__ = ["as_penalties", "mean_finite", "stability_path"]

_WAYS: dict[str, dict[str, Any]] = {
    "exact": {"method": "exact"},
    "stable": {"method": "stable"},
    "ball": {"method": "stable", "bound": "ball"},
}


def as_penalties(penalties: Any, default: Iterable[float]) -> list[float]:
    """Penalties in increasing order, each once."""
    if penalties is None:
        return sorted(set(default))
    fix = "give numbers, 0 or larger, such as [0.001, 0.01, 0.1, 1]"
    values, _ = check_numbers(penalties, "penalties", lambda one: 0 <= one < np.inf, fix)
    return sorted(set(values))


def stability_path(
    refit: Callable[[float], "BaseResults"], new: New, penalties: list[float], alpha: float, progress: Any
) -> pd.DataFrame:
    """Mean widths by method, one row per penalty that is refitted with; NaN where a method refuses.

    Columns are ``penalty``, ``exact``, ``stable``, ``ball``, and ``share``, the part of the stable width
    that is owed to stability.
    """
    lines = []
    with progress_bar(len(penalties), "penalty", "refitting", progress) as bar:
        for penalty in penalties:
            fitted = refit(penalty)
            line = {"penalty": penalty, "share": np.nan}
            for name, options in _WAYS.items():
                ends = _quietly(fitted, new, alpha, options)
                line[name] = np.nan if ends is None else mean_finite(ends["upper"] - ends["lower"])
                if name == "stable" and ends is not None:
                    line["share"] = ends.attrs["stability_share"]
            lines.append(line)
            bar.update()
    return pd.DataFrame(lines, columns=["penalty", *_WAYS, "share"])


def mean_finite(widths: pd.Series | np.ndarray) -> float:
    """Mean of the finite widths; infinity where there are none."""
    finite = np.asarray(widths)[np.isfinite(widths)]
    return float(np.mean(finite)) if len(finite) else np.inf


def _quietly(fitted: "BaseResults", new: New, alpha: float, options: Options) -> pd.DataFrame | None:
    """Intervals without the warnings that the path itself shows; None where the method refuses."""
    with quietly():
        try:
            return fitted.conf_int_conformal(new, alpha=alpha, **options)
        except AssumptionError:
            return None
