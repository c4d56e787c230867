"""README's picture: intervals of one width beside bands that fan out, at households that no fit has seen.

    python docs/picture.py

writes ``docs/assets/bands.png``. The split of Engel's data is that of ``stabconf demo``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import stabconf
from stabconf.demo import ALPHA, FORMULA, households
from stabconf.results.figures import Figures

INSIDE, OUTSIDE, BAND = "#2b6a6c", "#c8452d", "#bfd8d2"


def draw(ax: Axes, results: Figures, held: pd.DataFrame, title: str) -> None:
    """The intervals along income, and the households that were held out, inside and outside."""
    grid = {"income": np.linspace(held["income"].min(), held["income"].max(), 120)}
    ends = results.conf_int_conformal(grid, alpha=ALPHA)
    ax.fill_between(grid["income"], ends["lower"], ends["upper"], color=BAND, linewidth=0)
    made = results.augment(held, alpha=ALPHA)
    for inside, colour in ((True, INSIDE), (False, OUTSIDE)):
        some = made[made["inside"].astype(bool) == inside]
        label = f"{len(some)} {'inside' if inside else 'outside'}"
        ax.scatter(some["income"], some["foodexp"], s=16, color=colour, linewidth=0, label=label)
    ax.set_title(title, loc="left", fontsize=11)
    ax.set_xlabel("household income")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left", handletextpad=0.2)


def picture() -> Figure:
    """Both kinds of intervals, side by side on one scale."""
    training, held = households()
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), sharey=True, layout="constrained")
    draw(axes[0], stabconf.fit(FORMULA, training), held, "fit: one width for all")
    bands = stabconf.fit_quantiles(FORMULA, training)
    draw(axes[1], bands, held, "fit_quantiles: a width that follows the data")
    axes[0].set_ylabel("food expenditure")
    title = f"{1 - ALPHA:.0%} prediction intervals at {len(held)} households that no fit has seen"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, weight="bold")
    return figure


if __name__ == "__main__":
    path = Path(__file__).parent / "assets" / "bands.png"
    picture().savefig(path, dpi=130, metadata={"Software": None})
    print(path)
