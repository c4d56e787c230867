"""How much width the stable intervals give away, and what they cost for many new rows.

Width: full conformal prediction refits the model for every candidate response; the stable method
bounds what those refits can do. Both are run on held-out rows of one table. Cost: the conformal
part of a million new rows against building their design matrix, which any prediction has to do.
"""

import numpy as np
import pandas as pd
from common import (
    FEATURES,
    TARGET,
    Report,
    best_time,
    california_housing,
    diabetes,
    parse_arguments,
    peak_memory,
    sets_of,
)

import stabconf

ALPHA = 0.1
WIDTH_PENALTIES = (0.1, 0.01, 0.001, 0.0)
WIDTH_LOSSES = ("huber", "logcosh")
COST_PENALTIES = (0.1, 0.01)
COST_MODELS = (("lad", "norm"), ("huber", "curvature"))
TOLERANCE = 1e-7  # of the ends by root finding


def mean_widths(training, new, formula, loss, penalty):
    """Mean widths of the stable and the full conformal intervals, in robust sd of the response."""
    results = stabconf.fit(formula, training, loss=loss, penalty=penalty)
    stable = results.conf_int_conformal(new, alpha=ALPHA, bound="curvature")
    full = results.conf_int_conformal(new, alpha=ALPHA, method="root", tol=TOLERANCE, progress=False)
    return [np.mean(ends["upper"] - ends["lower"]) / results._fits.scale for ends in (stable, full)]


def width_table(report, held_out, seed):
    """Stable against full conformal widths on the diabetes data."""
    formula, table = diabetes().formula, diabetes().frame
    table = table.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    new, training = table.iloc[:held_out], table.iloc[held_out:]
    rows = []
    for loss in WIDTH_LOSSES:
        for penalty in WIDTH_PENALTIES:
            stable, exact = mean_widths(training, new, formula, loss, penalty)
            ratio = f"{stable / exact:.4f}"
            rows.append([loss, f"{penalty:g}", f"{stable:.3f}", f"{exact:.3f}", ratio])
    report.table(
        f"Width, diabetes data, {len(training)} training, {held_out} new rows, alpha = {ALPHA:g}",
        "Mean widths in units of the response's robust standard deviation. Full conformal: the "
        "model is refitted for every candidate response, the ends found by bisection.",
        ["loss", "penalty", "stable", "full conformal", "ratio"],
        rows,
    )


def new_features(table, count, seed):
    """New rows like those of the table: drawn with replacement and jittered, so that all differ."""
    random = np.random.default_rng([seed, count])
    drawn = table[FEATURES].to_numpy()[random.integers(len(table), size=count)]
    drawn *= 1.0 + 0.01 * random.standard_normal(drawn.shape)
    return pd.DataFrame(drawn, columns=FEATURES)


def housing_fit(table, loss, penalty):
    """A model of all columns of the housing table."""
    formula = f"{TARGET} ~ " + " + ".join(FEATURES)
    return stabconf.fit(formula, table, loss=loss, penalty=penalty)


def cost_row(table, rows, unit, loss, bound, penalty, repeats):
    """Cells of one line: times relative to ``unit`` and memory of the conformal part."""
    results = housing_fit(table, loss, penalty)

    def later():
        return sets_of("stable", results._fits, rows, ALPHA, bound=bound)

    def first():
        results.__dict__.pop("_fits", None)
        return later()

    first_time, _ = best_time(first, repeats)
    later_time, _ = best_time(later, repeats)
    return [
        loss,
        bound,
        f"{penalty:g}",
        f"{first_time / unit:.2f}",
        f"{later_time / unit:.2f}",
        f"{peak_memory(first) / rows.nbytes:.2f}",
    ]


def cost_table(report, data_dir, count, repeats, seed):
    """The conformal part against the design matrix of the new rows."""
    table, label = california_housing(data_dir)
    frame = new_features(table, count, seed)
    results = housing_fit(table, "lad", 0.1)  # the design does not depend on the model
    unit, (new_rows, _) = best_time(lambda: results._new_rows(frame), 3 * repeats)
    rows = [
        cost_row(table, new_rows, unit, loss, bound, penalty, repeats)
        for loss, bound in COST_MODELS
        for penalty in COST_PENALTIES
    ]
    report.table(
        f"Cost of {count:,} new rows, {label}, n = {len(table)}, alpha = {ALPHA:g}",
        "Time of the conformal part relative to building the design matrix of the new rows: at the "
        "first call, which also makes the base fit, and at later ones. Memory: peak of the first call "
        "beyond what was held before, in units of the new design matrix.",
        ["loss", "bound", "penalty", "first call", "later calls", "memory"],
        rows,
    )


def main():
    """Run both comparisons and write the tables."""
    arguments = parse_arguments("stable", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    report = Report("Stable intervals")
    width_table(report, 10 if quick else 40, seed)
    count = 100_000 if quick else 1_000_000
    cost_table(report, arguments.data_dir, count, 1 if quick else 3, seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
