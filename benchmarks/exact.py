"""What exact full conformal sets cost, and how wide they are beside split conformal's.

Cost: the time of a new row's set relative to one fit of the same model, and against finding the same set
by bisection with a refit at every candidate response. Width: on held-out rows over random splits, the
exact sets of a model fitted to all training rows beside split conformal intervals, which fit to half of
them and calibrate on the other half.
"""

import numpy as np
from common import (
    FEATURES,
    TARGET,
    Report,
    Table,
    best_time,
    california_housing,
    diabetes,
    parse_arguments,
    peak_memory,
    sets_of,
    solver_time,
)
from solver import clarabel_solver
from splits import Contender, by, measured

import stabconf
from stabconf.data.units import location_scale
from stabconf.rank import Peers
from stabconf.solvers import Problem, minimise

ALPHA = 0.1
PENALTIES = (0.1, 0.01)
LOSSES = ("lad", "quantile", "huber", "squared", "logcosh", "pseudo_huber", "power", "linex")
MANY = {"lad", "quantile", "huber", "squared"}
HALVINGS = 24


def housing(data_dir):
    """The housing table, a formula of all its columns and a label."""
    table, label = california_housing(data_dir)
    return table, f"{TARGET} ~ " + " + ".join(FEATURES), label


def cost_rows(table, formula, label, counts, repeats, seed):
    """Lines of the cost table for one data set."""
    random, lines = np.random.default_rng(seed), []
    for loss in LOSSES:
        side = "lower" if loss == "linex" else "two-sided"
        for penalty in PENALTIES:
            whole, results = best_time(
                lambda: stabconf.fit(formula, table, loss=loss, penalty=penalty),  # noqa: B023
                repeats,
            )
            alone = solver_time(results, repeats)
            count = counts[0] if loss in MANY else counts[1]
            rows = results._X[random.integers(len(table), size=count)]
            options = {"side": side, "progress": False}
            sets_of("exact", results._fits, rows[:2], ALPHA, **options)  # the base fit is made once
            seconds, _ = best_time(lambda: sets_of("exact", results._fits, rows, ALPHA, **options), repeats)  # noqa: B023
            each = seconds / count
            cells = [loss, f"{penalty:g}", str(count), f"{each / whole:.4f}", f"{each / alone:.3f}"]
            lines.append([label, *cells])
    return lines


def cost_table(report, data_dir, counts, repeats, seed):
    """Cost of a new row relative to one fit."""
    table, formula, label = housing(data_dir)
    lines = cost_rows(diabetes().frame, diabetes().formula, "diabetes", counts, repeats, seed)
    lines += cost_rows(table, formula, label, counts, repeats, seed)
    report.table(
        f"Cost of a new row's exact set, alpha = {ALPHA:g}",
        "Time per new row relative to one fit from a formula (`stabconf.fit`), and relative to the solver "
        "alone. New rows are drawn from the training rows. Linex: lower bounds, for its sets have no "
        "finite upper end.",
        ["data", "loss", "penalty", "rows", "of a fit", "of a solve"],
        lines,
    )


def memory_table(report, data_dir, count, repeats, seed):
    """A thousand new rows of the housing table."""
    table, formula, label = housing(data_dir)
    lines = []
    for penalty in PENALTIES:
        results = stabconf.fit(formula, table, loss="lad", penalty=penalty)
        rows = results._X[np.random.default_rng(seed).integers(len(table), size=count)]
        whole, _ = best_time(lambda: stabconf.fit(formula, table, loss="lad", penalty=penalty), repeats)  # noqa: B023
        alone = solver_time(results, repeats)

        def first(results=results, rows=rows):
            results.__dict__.pop("_fits", None)
            return sets_of("exact", results._fits, rows, ALPHA, progress=False)

        seconds, _ = best_time(first, repeats)
        share = peak_memory(first) / (len(table) * count * 8)
        cells = [f"{penalty:g}", f"{seconds / whole:.1f}", f"{seconds / alone:.1f}", f"{share:.3f}"]
        lines.append(cells)
    report.table(
        f"LAD, {count:,} new rows at once, {label}, n = {len(table)}",
        "Time in fits from a formula and in solves, base fit included; peak memory as a share of an n "
        "times m matrix of numbers.",
        ["penalty", "fits", "solves", "memory"],
        lines,
    )


def own_residuals(problem, start):
    """Residuals of a warm refit by our own solver."""
    return minimise(problem, start).r


def conic_residuals(problem, _):
    """Residuals of a refit by clarabel."""
    return problem.v - problem.X @ clarabel_solver(problem)()


def bisected_end(results, refit, row, inside, outside):
    """An end of the set by bisection, with a refit of the augmented sample at each candidate."""
    fits = results._fits
    X = np.vstack([fits.X, row])
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        v = fits.responses(np.append(fits.y, middle))
        problem = Problem(X, v, fits.loss, fits.ridge, fits.lasso)
        scores = np.abs(refit(problem, fits.start))
        kept = Peers(len(scores) - 1).p(scores[:-1] >= scores[-1]) > ALPHA
        inside, outside = (middle, outside) if kept else (inside, middle)
    return outside


def root_row(results, penalty, label, refit, count, repeats):
    """A line of the root table: time and difference for ``count`` rows."""
    few, many = results._X[:: len(results._X) // count][:count], results._X
    seconds, _ = best_time(lambda: sets_of("exact", results._fits, many, ALPHA, progress=False), repeats)
    made = sets_of("exact", results._fits, few, ALPHA, progress=False)
    prediction, spread = results._predictions(few), 2.0 * made.width

    def roots():
        return np.array(
            [
                [bisected_end(results, refit, row, z, z + sign * far) for sign in (-1, 1)]
                for row, z, far in zip(few, prediction, spread, strict=True)
            ]
        )

    slow, ends = best_time(roots, 1)
    off = np.max(np.abs(ends - np.column_stack([made.lower, made.upper])) / made.width[:, None])
    ratio = (slow / len(few)) / (seconds / len(many))
    return [f"{penalty:g}", label, f"{ratio:.0f}", f"{off:.1e}"]


def root_table(report, count, repeats):
    """The same LAD sets by root finding with refits."""
    table, formula = diabetes().frame, diabetes().formula
    lines = []
    for penalty in PENALTIES:
        results = stabconf.fit(formula, table, loss="lad", penalty=penalty)
        for label, refit in (("own, warm", own_residuals), ("clarabel", conic_residuals)):
            lines.append(root_row(results, penalty, label, refit, count, repeats))
    report.table(
        "LAD by root finding with refits, diabetes, per new row",
        f"Time relative to the exact method's ({HALVINGS} halvings an end), by solver of the refits, and "
        "the largest difference of the ends in units of the width.",
        ["penalty", "refits by", "times as long", "difference"],
        lines,
    )


def width_rows(table, held_out, repeats, seed):
    """Lines of the width table for one data set."""
    contenders = [
        Contender(
            (loss, f"{penalty:g}"),
            lambda training, loss=loss, penalty=penalty: stabconf.fit(
                table.formula, training, loss=loss, penalty=penalty
            ),
            {method: by(method, ALPHA) for method in ("exact", "split")},
        )
        for loss in ("lad", "huber")
        for penalty in PENALTIES
    ]
    _, unit = location_scale(table.frame[table.response].to_numpy())
    lines = []
    for model, runs in measured(table, contenders, repeats, held_out, seed).groupby("model", sort=False):
        lengths = runs.groupby("method")["length"]
        mean, spread = lengths.mean() / unit, lengths.std() / unit
        cells = [f"{mean['exact']:.3f}", f"{mean['split']:.3f}", f"{mean['exact'] / mean['split']:.3f}"]
        lines.append([table.name, *model, *cells, f"{spread['exact']:.4f}", f"{spread['split']:.4f}"])
    return lines


def width_table(report, data_dir, held_out, repeats, seed):
    """Exact against split conformal widths."""
    table, _, label = housing(data_dir)
    lines = width_rows(diabetes(), held_out, repeats, seed)
    lines += width_rows(Table(label, table, TARGET), held_out, repeats, seed)
    report.table(
        f"Width beside split conformal, {repeats} splits, {held_out} new rows each, alpha = {ALPHA:g}",
        "Mean widths in robust standard deviations of the response, their ratio, and the standard "
        "deviation of the mean width over the splits.",
        ["data", "loss", "penalty", "exact", "split", "ratio", "sd exact", "sd split"],
        lines,
    )


def main():
    """Run all comparisons and write the tables."""
    arguments = parse_arguments("exact", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    report = Report("Exact sets")
    cost_table(report, arguments.data_dir, (200, 10) if quick else (1000, 100), 1 if quick else 3, seed)
    memory_table(report, arguments.data_dir, 200 if quick else 1000, 1 if quick else 3, seed)
    root_table(report, 2 if quick else 10, 1 if quick else 3)
    width_table(report, arguments.data_dir, 20 if quick else 100, 3 if quick else 20, seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
