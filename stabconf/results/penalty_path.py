"""What the penalty does to the intervals: refits over a path of penalties."""

import warnings

import numpy as np
import pandas as pd

from ..checks import is_number
from ..errors import AssumptionError, InputError, InputTypeError, StabconfWarning
from ..sets import progress_bar

__all__ = ["as_penalties", "mean_finite", "stability_path"]

_WAYS = {
    "exact": {"method": "exact"},
    "stable": {"method": "stable"},
    "ball": {"method": "stable", "bound": "ball"},
}


def as_penalties(penalties, default):
    """Penalties in increasing order, each once."""
    if penalties is None:
        return sorted(set(default))
    values = [penalties] if np.isscalar(penalties) else list(penalties)
    if not values:
        raise InputError("penalties=[] is empty: give numbers such as [0.001, 0.01, 0.1, 1]")
    for value in values:
        if not is_number(value):
            raise InputTypeError(f"penalties has {value!r}, a {type(value).__name__}: give numbers")
        if not 0 <= value < np.inf:
            raise InputError(f"penalties has {value!r}: give numbers, 0 or larger")
    return sorted({float(value) for value in values})


def stability_path(results, new, penalties, alpha, progress):
    """Mean widths by method, and the share of the stable width due to stability, a line a penalty.

    Parameters
    ----------
    results : Results
        Refitted with each penalty.
    new : DataFrame
    penalties : list of float
    alpha : float
    progress : bool or None

    Returns
    -------
    DataFrame
        ``penalty``, ``exact``, ``stable``, ``ball`` and ``share``; NaN where a method refuses.
    """
    lines = []
    with progress_bar(len(penalties), "penalty", "refitting", progress) as bar:
        for penalty in penalties:
            fitted, line = results._with_penalty(penalty), {"penalty": penalty, "share": np.nan}
            for name, options in _WAYS.items():
                ends = _quietly(fitted, new, alpha, options)
                line[name] = np.nan if ends is None else mean_finite(ends["upper"] - ends["lower"])
                if name == "stable" and ends is not None:
                    line["share"] = ends.attrs["stability_share"]
            lines.append(line)
            bar.update()
    return pd.DataFrame(lines, columns=["penalty", *_WAYS, "share"])


def mean_finite(widths):
    """Mean of the finite widths; infinity where there are none."""
    finite = np.asarray(widths)[np.isfinite(widths)]
    return float(np.mean(finite)) if len(finite) else np.inf


def _quietly(fitted, new, alpha, options):
    """Intervals without the warnings that the path itself shows; None where the method refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StabconfWarning)
        try:
            return fitted.conf_int_conformal(new, alpha=alpha, **options)
        except AssumptionError:
            return None
