"""How cost grows: with training rows, with columns, and with new rows.

The fit is measured from the formula, in least-squares solves of the same design (its floor: a robust fit
needs at least one), and the solver alone likewise. Intervals are measured from design rows, in the floor
of a new row: one product of the training design with a vector, and one partial sort of its rows.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common import Report, best_time, parse_arguments, peak_memory, sets_of, solver_time

import stabconf
from stabconf.data.design import build_design

ALPHA = 0.1
MODELS = {"lad": 0.1, "huber": 0.01}
BOUNDS = {"lad": "norm", "huber": "curvature"}
PARTS = ("fit", "design", "solver")
EXACT_ROWS = 10
EXACT_MOST = 10_000  # new rows for which exact sets are asked


def draw(rows, columns, seed):
    """A frame with heavy-tailed noise, and its formula."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, columns))
    y = X[:, : min(5, columns)].sum(axis=1) + random.standard_t(3, rows)
    names = [f"x{j}" for j in range(columns)]
    # In blocks, for patsy recurses along a sum: hundreds of terms exceed Python's limit.
    blocks = ["(" + " + ".join(names[j : j + 20]) + ")" for j in range(0, columns, 20)]
    return pd.DataFrame(X, columns=names).assign(y=y), "y ~ " + " + ".join(blocks)


def row_floor(X, y, repeats):
    """Seconds of one matrix-vector product and one partial sort."""
    theta = np.ones(X.shape[1])
    return best_time(lambda: np.partition(np.abs(y - X @ theta), len(y) * 9 // 10), repeats)[0]


def training_costs(rows, columns, loss, repeats, seed):
    """Costs at one shape: seconds, and memory in units of the design matrix."""
    frame, formula = draw(rows, columns, seed)

    def fit():
        return stabconf.fit(formula, frame, loss=loss, penalty=MODELS[loss])

    fit_time, results = best_time(fit, repeats)
    X, y, fits = results._X, results._design.y, results._fits
    new = X[:EXACT_ROWS]

    def exact_rows():
        return sets_of("exact", fits, new, ALPHA, progress=False)

    exact_rows()  # the base fit is made once, on first use
    return {
        "fit": fit_time,
        "design": best_time(lambda: build_design(formula, frame, {}), repeats)[0],
        "solver": solver_time(results, repeats),
        "least squares": best_time(lambda: np.linalg.lstsq(X, y, rcond=None), repeats)[0],
        "exact row": best_time(exact_rows, repeats)[0] / EXACT_ROWS,
        "row floor": row_floor(X, y, 5 * repeats),
        "memory": peak_memory(fit) / X.nbytes,
    }


def slope(sizes, values):
    """Slope on log axes."""
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def training_table(report, heading, sizes, shape, repeats, seed):
    """Costs over sizes, of which ``shape`` makes numbers of rows and columns; returns the costs."""
    found, lines = {}, []
    for loss in MODELS:
        costs = [training_costs(*shape(size), loss, repeats, seed) for size in sizes]
        found[loss] = costs
        for size, cost in zip(sizes, costs, strict=True):
            floor = cost["least squares"]
            figures = [cost[name] / floor for name in PARTS]
            figures += [cost["exact row"] / cost["row floor"], cost["exact row"] / cost["fit"]]
            cells = [f"{value:.3g}" for value in figures]
            lines.append([loss, f"{size:,}", *cells, f"{cost['memory']:.1f}"])
        slopes = [slope(sizes, [cost[name] for cost in costs]) for name in (*PARTS, "exact row")]
        lines.append([loss, "slope", *(f"{value:.2f}" for value in slopes), "", ""])
    report.table(
        heading,
        "The fit from the formula, and of it the design and the solver, in least-squares solves (numpy's "
        f"lstsq); an exact set (the mean of {EXACT_ROWS}) in products and partial sorts, and in fits; peak "
        "memory of the fit in design matrices. Last lines: slopes of the seconds on log axes.",
        ["loss", "size", *PARTS, "exact row", "exact row / fit", "memory"],
        lines,
    )
    return found


def asking_costs(results, new, bound, repeats):
    """Seconds of the design of new rows and of their intervals, and memory in units of both designs."""
    fits = results._fits
    design, (rows, _) = best_time(lambda: results._new_rows(new), repeats)

    def enclose():
        return sets_of("stable", fits, rows, ALPHA, bound=bound)

    cost = {"design": design, "stable": best_time(enclose, repeats)[0]}
    cost["memory"] = peak_memory(enclose) / (fits.X.nbytes + rows.nbytes)
    if len(new) <= EXACT_MOST:
        cost["exact"] = best_time(lambda: sets_of("exact", fits, rows, ALPHA, progress=False), 1)[0]
    return cost


def new_row_costs(counts, repeats, seed):
    """Seconds of stable and exact intervals and of building the design, by number of new rows."""
    frame, formula = draw(10_000, 10, seed)
    big, _ = draw(counts[-1], 10, seed + 1)
    out = {}
    for loss in MODELS:
        results = stabconf.fit(formula, frame, loss=loss, penalty=MODELS[loss])
        fits, found = results._fits, []
        sets_of("exact", fits, results._X[:2], ALPHA, progress=False)
        for count in counts:
            found.append(asking_costs(results, big.iloc[:count], BOUNDS[loss], repeats))
        out[loss] = found, row_floor(fits.X, fits.y, 5 * repeats)
    return out


def new_rows_table(report, counts, repeats, seed):
    """Costs over numbers of new rows; returns them."""
    found, lines = new_row_costs(counts, repeats, seed), []
    for loss, (costs, floor) in found.items():
        for count, cost in zip(counts, costs, strict=True):
            cells = [f"{cost['stable'] / cost['design']:.3g}", f"{cost['stable'] / (floor * count):.3g}"]
            cells += [f"{cost['exact'] / (floor * count):.3g}" if "exact" in cost else ""]
            lines.append([loss, f"{count:,}", *cells, f"{cost['memory']:.1f}"])
        many = [(count, cost) for count, cost in zip(counts, costs, strict=True) if count >= 100]
        slopes = [slope([c for c, _ in many], [cost["stable"] for _, cost in many])]
        some = [(count, cost["exact"]) for count, cost in many if "exact" in cost]
        slopes.append(slope(*zip(*some, strict=True)) if len(some) > 1 else np.nan)
        lines.append([loss, "slope", "", *(f"{value:.2f}" for value in slopes), ""])
    report.table(
        "New rows, n = 10,000, 10 columns",
        "Stable intervals relative to building the new rows' design; stable and exact a row, in "
        "products of the training design with a vector and partial sorts, which is what a row would need "
        "alone; peak memory of the stable intervals in design matrices, old and new. Last lines: slopes of "
        f"the seconds on log axes, from 100 rows on; exact sets up to {EXACT_MOST:,} rows.",
        ["loss", "new rows", "stable / design", "stable", "exact", "memory"],
        lines,
    )
    return found


def drawing(by_rows, by_columns, by_new, sizes):
    """Seconds on log axes, relative to the smallest of each panel."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    colours = {"lad": "#0072b2", "huber": "#d55e00"}
    for ax, found, values, name in (
        (axes[0], by_rows, sizes[0], "training rows"),
        (axes[1], by_columns, sizes[1], "columns"),
    ):
        for loss, costs in found.items():
            for kind, style in (("fit", "-"), ("solver", "--"), ("exact row", ":")):
                unit = found["lad"][0]["least squares"]
                heights = [cost[kind] / unit for cost in costs]
                ax.loglog(values, heights, style, color=colours[loss], label=f"{kind}, {loss}")
        floor = [cost["least squares"] / found["lad"][0]["least squares"] for cost in found["lad"]]
        ax.loglog(values, floor, color="grey", linewidth=3, alpha=0.5, label="least squares")
        ax.set(xlabel=name, ylabel="least-squares solves of the smallest")
    for loss, (costs, floor) in by_new.items():
        for kind, style in (("stable", "-"), ("exact", ":"), ("design", "--")):
            known = [
                (count, c[kind] / floor) for count, c in zip(sizes[2], costs, strict=True) if kind in c
            ]
            axes[2].loglog(*zip(*known, strict=True), style, color=colours[loss], label=f"{kind}, {loss}")
    axes[2].loglog(sizes[2], sizes[2], color="grey", linewidth=3, alpha=0.5, label="floor a row")
    axes[2].set(xlabel="new rows", ylabel="products and partial sorts")
    for ax in axes[[0, 2]]:
        ax.legend(fontsize=6)
    return figure


def main():
    """Run all three growths."""
    arguments = parse_arguments("scale", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    rows = (1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    columns = (5, 20) if quick else (5, 20, 100, 500)
    counts = (1, 100, 10_000) if quick else (1, 100, 10_000, 100_000, 1_000_000)
    repeats = 1 if quick else 2
    report = Report("Growth")
    report.text(" ".join(__doc__.split("\n\n", 1)[1].split("\n")).strip())
    by_rows = training_table(report, "Training rows, 10 columns", rows, lambda n: (n, 10), repeats, seed)
    wide = 1000 if quick else 2000
    by_columns = training_table(
        report, f"Columns, n = {wide:,}", columns, lambda p: (wide, p), repeats, seed
    )
    by_new = new_rows_table(report, counts, repeats, seed)
    figure = drawing(by_rows, by_columns, by_new, (rows, columns, counts))
    report.figure(figure, "scale", "Growth with training rows, columns and new rows.", arguments.output)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
