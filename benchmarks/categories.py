"""Coverage of exact intervals where categories are rare, with the default options.

A replicate draws effects of the columns, training rows and a few new rows, and makes 90 % intervals. The
law of the responses is known (noise of Student's law with 3 degrees of freedom), so the coverage of an
interval is the probability that the new response falls into it, not a count of hits. Rows of a replicate
share a training set: the standard error is that of the replicates' means, and never below the one of order
statistics. A cell is flagged where it is more than three standard errors outside of the range that is
promised for exchangeable rows with distinct scores.

Factors are categoricals with all their levels declared, so that a new row may be of a level that no
training row has: its column is zero throughout training.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from common import Report, parse_arguments
from scipy.stats import t as student
from splits import timed

import stabconf
from stabconf.rank import conformal_rank

ALPHA = 0.1
ERRORS = 3.0  # standard errors beyond which a cell is flagged
MODELS = {
    "LAD": lambda formula, frame: stabconf.fit(formula, frame, loss="lad"),
    "Huber": lambda formula, frame: stabconf.fit(formula, frame, loss="huber"),
    "squared": lambda formula, frame: stabconf.fit(formula, frame, loss="squared"),
    "band": lambda formula, frame: stabconf.fit_quantiles(formula, frame, quantiles=(0.05, 0.95)),
}
PENALTIES = (0.01, 1.0, 10.0, 100.0)
EFFECT = 4.0  # standard deviation of the effects of categories: of weak ones no fit makes much


@dataclass(frozen=True)
class Design:
    """Rows of one kind.

    Attributes
    ----------
    label : str
    n : int
        Training rows.
    draw : callable
        Of a generator and a number of rows: a frame of columns, and the expected responses (rows,).
    formula : str or None
        Right side; None for the sum of the columns.
    sets, new : int
        Training sets, and new rows of each.
    """

    label: str
    n: int
    draw: Callable
    formula: str | None = None
    sets: int = 250
    new: int = 8


def numeric(random, rows, count=3):
    """Standard normal columns."""
    X = random.standard_normal((rows, count))
    return pd.DataFrame(X).add_prefix("x"), X @ random.standard_normal(count)


def indicators(random, rows, count, share):
    """0/1 columns, each 1 in a share of the rows."""
    X = (random.uniform(size=(rows, count)) < share).astype(float)
    return pd.DataFrame(X).add_prefix("d"), X @ (EFFECT * random.standard_normal(count))


def amounts(random, rows, count, share):
    """Columns that are 0 but in a share of the rows, where they are between 0.5 and 2."""
    frame, mean = indicators(random, rows, count, share)
    return frame * random.uniform(0.5, 2.0, frame.shape), mean


def one_rare(random, rows, share=0.05):
    """Two normal columns and a rare 0/1 column."""
    frame, mean = numeric(random, rows, 2)
    rare, more = indicators(random, rows, 1, share)
    return frame.join(rare), mean + more


def factor(random, rows, levels, shares=None):
    """A factor whose levels are drawn with the given shares; equal ones unless told."""
    return _coded(random, random.choice(levels, rows, p=shares), levels)


def ids(random, rows):
    """A factor with a level a row, so that no row shares its level with another."""
    return _coded(random, random.permutation(rows), rows)


def _coded(random, codes, levels):
    values = pd.Categorical.from_codes(codes, [f"level{j}" for j in range(levels)])
    return pd.DataFrame({"g": values}), EFFECT * random.standard_normal(levels)[codes]


def curve(random, rows):
    """A uniform column, and a wave in it."""
    x = random.uniform(size=rows)
    return pd.DataFrame({"x": x}), 2.0 * np.sin(2.0 * np.pi * x)


RARE = np.array([1 - 20 * 0.02, *[0.02] * 20])
DESIGNS = (
    Design("20 indicators at 2 %", 49, lambda random, rows: indicators(random, rows, 20, 0.02)),
    Design("20 amounts at 2 %", 49, lambda random, rows: amounts(random, rows, 20, 0.02)),
    Design("factor, 20 levels at 2 %", 49, lambda random, rows: factor(random, rows, 21, RARE), "g"),
    Design("ids, a row each", 39, ids, "g"),
    Design("ids drawn from 39", 39, lambda random, rows: factor(random, rows, 39), "g"),
    Design("factor of 30 levels", 40, lambda random, rows: factor(random, rows, 30), "g"),
    Design(
        "200 words at 5 %", 99, lambda random, rows: indicators(random, rows, 200, 0.05), sets=30, new=20
    ),
    Design("bs(x, df=6)", 39, curve, "bs(x, df=6, lower_bound=0, upper_bound=1)"),
    Design("a rare indicator, 2 numeric", 19, one_rare),
    Design("3 numeric", 9, numeric),
    Design("3 numeric", 19, numeric),
    Design("3 numeric", 39, numeric),
)


def replicates(design, fits, freedom, sets, entropy):
    """For each of ``fits`` the coverage and width of every interval, two arrays (sets, new).

    ``fits`` maps names to functions of a formula and a frame; ``freedom`` is that of the noise. The number
    of design columns is returned too.
    """
    noise = student(freedom)
    found = {name: ([], []) for name in fits}
    for i in range(sets):
        random = np.random.default_rng([*entropy, i])
        frame, mean = design.draw(random, design.n + design.new)
        formula = f"y ~ {design.formula or ' + '.join(frame.columns)}"
        frame["y"] = mean + random.standard_t(freedom, len(frame))
        training, new, mean = frame.iloc[design.new :], frame.iloc[: design.new], mean[: design.new]
        for name, fit in fits.items():
            made = timed(fit, formula, training)[1]
            lower, upper = timed(_ends, made, new)[1]
            found[name][0].append(noise.cdf(upper - mean) - noise.cdf(lower - mean))
            found[name][1].append(upper - lower)
    columns = len(made.model.exog_names)
    return {name: tuple(map(np.array, values)) for name, values in found.items()}, columns


def _ends(made, new):
    """Lower and upper ends of exact intervals."""
    return made.conf_int_conformal(new, alpha=ALPHA, method="exact", progress=False).to_numpy().T


def coverage_of(probabilities, n):
    """Coverage, its standard error, and on which side of the promised range it is, if on any."""
    sets, k = len(probabilities), conformal_rank(ALPHA, n)
    coverage = probabilities.mean()
    order = np.sqrt(k * (n + 1 - k) / (n + 2)) / (n + 1)  # of the k-th smallest of n uniform numbers
    error = max(probabilities.mean(axis=1).std(ddof=1), order) / np.sqrt(sets)
    if coverage < 1 - ALPHA - ERRORS * error:
        return coverage, error, "below"
    if coverage > 1 - ALPHA + 1 / (n + 1) + ERRORS * error:
        return coverage, error, "above"
    return coverage, error, ""


def designs_table(report, quick, seed):
    """A row per design and loss."""
    lines, flagged, count = [], {"below": [], "above": []}, 0
    for place, design in enumerate(DESIGNS):
        sets = 2 if quick else design.sets
        found, columns = replicates(design, MODELS, 3, sets, (seed, 0, place))
        for loss, (probabilities, widths) in found.items():
            coverage, error, side = coverage_of(probabilities, design.n)
            if side:
                flagged[side].append(f"{design.label} (n = {design.n}, {loss})")
            lines.append(
                [
                    design.label,
                    str(design.n),
                    str(columns),
                    loss,
                    f"{coverage:.3f} ± {error:.3f}",
                    f"{1 - ALPHA:.2f} to {1 - ALPHA + 1 / (design.n + 1):.3f}",
                    side,
                    _number(np.median(widths)),
                    _number(widths[np.isfinite(widths)].mean()),
                    f"{100 * np.isinf(widths).mean():.1f} %",
                ]
            )
        count += probabilities.size
        print(f"{design.label}, n = {design.n}: done", flush=True)
    for side, names in flagged.items():
        report.text(f"Flagged {side} the range: {', '.join(names) or 'none'}.")
    report.table(
        "Coverage by design and loss",
        f"{count:,} intervals per loss. The range is what exact sets promise where no scores tie. LAD and "
        "quantile fits pass through rows, up to one per column, whose scores tie at 0. Where those are "
        "more than alpha (n + 1), any response that a fit can pass through is in the set, and more is "
        "covered: bands from n = 39 and 4 columns on, LAD with as many columns as rows. Columns include "
        "the intercept; the mean width is that of finite intervals.",
        [
            *("design", "n", "columns", "loss", "coverage", "range", "flag"),
            *("median width", "mean width", "infinite"),
        ],
        lines,
    )


def _number(value):
    return f"{value:.2f}" if value < 1000 else f"{value:,.0f}"


def units_table(report, sizes, sets, seed):
    """Coverage of LAD at penalties so large that the fit is the training rows' median."""
    lines = []
    fits = {
        penalty: lambda formula, frame, penalty=penalty: stabconf.fit(formula, frame, penalty=penalty)
        for penalty in PENALTIES
    }
    for n in sizes:
        found, _ = replicates(Design("", n, numeric, new=2), fits, 1.5, sets, (seed, 1, n))
        cells = [coverage_of(found[penalty][0], n)[:2] for penalty in PENALTIES]
        lines.append([str(n), *(f"{coverage:.3f} ± {error:.3f}" for coverage, error in cells)])
    report.table(
        "What fixed units cost",
        f"Coverage of exact LAD intervals at {1 - ALPHA:.2f}, 3 numeric columns, noise of Student's law "
        "with 1.5 degrees of freedom. The model is shrunk to the median of the training rows, which does "
        "not see the new row: a fit that is little but this median covers a little less in tiny samples.",
        ["n", *(f"penalty {penalty:g}" for penalty in PENALTIES)],
        lines,
    )


def main():
    """Run all cells and write the tables."""
    arguments = parse_arguments("categories", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    report = Report("Rare categories")
    report.text(__doc__.split("\n\n", 1)[1].strip())
    designs_table(report, quick, seed)
    units_table(report, (9, 19, 99), 3 if quick else 800, seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
