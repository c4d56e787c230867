"""Random splits: coverage, length and cost of any way to make intervals, on the same rows for all.

`stabconf.compare` does this for the package's own methods; here a contender may be anything, so that
other packages, estimators and one method under several options stand in one table.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from common import best_time

import stabconf


@dataclass(frozen=True)
class Contender:
    """A model and the intervals that are made from one fit of it.

    Attributes
    ----------
    label : str
    fit : callable
        Of a frame of training rows.
    methods : dict
        Names, and callables of what ``fit`` returned and a frame of new rows, which return their ends
        (m, 2). The frame holds the responses, for the oracle; nothing else may look at them.
    limits : dict
        Names of methods that are run on the first so many splits alone, for they take long.
    """

    label: str
    fit: Callable
    methods: dict
    limits: dict = field(default_factory=dict)


def ends(frame):
    """Lower and upper ends (m, 2) of the package's interval frames."""
    return frame[["lower", "upper"]].to_numpy()


def by(method, alpha, **options):
    """A way to make intervals: a method of the package at a level."""

    def make(fitted, new):
        return ends(fitted.conf_int_conformal(new, alpha=alpha, method=method, **options))

    return make


def measured(table, contenders, repeats, new, seed):
    """A frame with a line a contender, method and split.

    Columns: model, method, split, ``coverage`` and mean ``length`` of the new rows, and the seconds of the
    fit and of the intervals. Split i depends on ``seed`` and i alone.
    """
    lines = []
    for split in range(repeats):
        order = np.random.default_rng([seed, split]).permutation(len(table.frame))
        training, held_out = table.frame.iloc[order[new:]], table.frame.iloc[order[:new]]
        y = held_out[table.response].to_numpy()
        for contender in contenders:
            fit_time, fitted = timed(contender.fit, training)
            for method, make in contender.methods.items():
                if split >= contender.limits.get(method, repeats):
                    continue
                seconds, made = timed(make, fitted, held_out)
                lines.append(
                    {
                        "model": contender.label,
                        "method": method,
                        "split": split,
                        "coverage": np.mean((made[:, 0] <= y) & (y <= made[:, 1])),
                        "length": np.mean(made[:, 1] - made[:, 0]),
                        "fit": fit_time,
                        "intervals": seconds,
                    }
                )
    print(f"{table.name}: {repeats} splits done", flush=True)
    return pd.DataFrame(lines)


def timed(function, *arguments):
    """`best_time` of one call, without advice about wide intervals and slow convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stabconf.StabconfWarning)
        warnings.filterwarnings("ignore", module="sklearn")
        return best_time(lambda: function(*arguments), 1)


def coverage_cell(coverage, rows):
    """Coverage and its binomial standard error, for ``rows`` new rows in all."""
    return f"{coverage:.3f} ± {np.sqrt(max(coverage * (1 - coverage), 1 / rows) / rows):.3f}"
