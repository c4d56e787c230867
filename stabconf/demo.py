"""The demo: households of Engel's food data that no fit has seen, two kinds of intervals, what was found.

``stabconf demo`` runs `run_demo`; README's picture shows the same split.
"""

from collections.abc import Callable
from os import PathLike

import numpy as np
import pandas as pd

from .results.fitting import fit, fit_quantiles

FORMULA = "foodexp ~ income"
ALPHA = 0.1
_THIRDS = ["poorest third", "middle third", "richest third"]


def households() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Households to learn from, and every third household, which is held out."""
    from statsmodels.datasets import engel

    data = engel.load_pandas().data
    held = np.arange(len(data)) % 3 == 0
    return data[~held], data[held]


def run_demo(output: str | PathLike[str], say: Callable[[str], None]) -> None:
    """Fit, judge both kinds of intervals at held-out households, write a report to ``output``."""
    training, held = households()
    constant = fit(FORMULA, training)
    bands = fit_quantiles(FORMULA, training)
    say(f"{bands.summary(alpha=ALPHA)}\n")
    say(f"{len(held)} households that neither fit has seen, by income; 90 % intervals\n")
    table, sentence = compared(constant.augment(held, alpha=ALPHA), bands.augment(held, alpha=ALPHA))
    say(f"{table.to_string()}\n\n{sentence}\n")
    say(f"Report written to {bands.report(output, held, alpha=ALPHA, by={'income': 3})}")


def compared(constant: pd.DataFrame, bands: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Widths and coverage of both kinds of intervals by thirds of income, and what they say."""
    thirds = pd.qcut(constant["income"], 3, labels=_THIRDS)
    table = pd.DataFrame({"households": thirds.value_counts(sort=False)})
    for name, made in (("constant", constant), ("band", bands)):
        by_third = made.groupby(thirds, observed=False)
        table[f"{name} width"] = by_third.apply(lambda some: (some["upper"] - some["lower"]).mean())
        table[f"{name} inside"] = by_third["inside"].mean()
    poor, rich = table["band width"].iloc[[0, -1]]
    sentence = (
        f"{int(bands['inside'].sum())} of {len(bands)} held-out households lie inside their quantile band, "
        f"which is {poor:.0f} wide for the poorest third and {rich:.0f} for the richest; the interval of "
        f"constant width, {table['constant width'].iloc[0]:.0f} for everyone, holds "
        f"{table['constant inside'].iloc[0]:.0%} of the poorest third and "
        f"{table['constant inside'].iloc[-1]:.0%} of the richest."
    )
    digits = {"constant width": 0, "band width": 0, "constant inside": 2, "band inside": 2}
    return table.round(digits), sentence
