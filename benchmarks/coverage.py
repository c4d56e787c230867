"""Coverage of every certified method over noise laws, sample sizes and levels.

A replicate draws training and new rows, fits once a model and makes the intervals of all its methods and
levels. Rows of a replicate share a training set, so a cell's standard error is that of the replicates'
means, and never below the binomial one of as many independent rows. A cell is flagged where its coverage
is below what is promised (or, for exact sets, above promise + 1 / (n + 1)) by so many standard errors that
one in 10,000 cells is flagged by chance.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common import Report, parse_arguments
from scipy.stats import beta
from scipy.stats import t as student
from splits import timed

import stabconf
from stabconf.rank import conformal_rank

ALPHAS = (0.05, 0.1, 0.2, 0.5)
CHANCE = 1e-4  # of a cell that is flagged though all is well
FORMULA = "y ~ x1 + x2 + x3"
LAWS = {
    "Gaussian": lambda random, x: random.standard_normal(len(x)),
    "t2": lambda random, x: random.standard_t(2, len(x)),
    "Cauchy": lambda random, x: random.standard_cauchy(len(x)),
    "skewed": lambda random, x: random.exponential(size=len(x)) ** 2,
    "heteroscedastic": lambda random, x: np.exp(x) * random.standard_normal(len(x)),
}
MODELS = {
    "lad": {"loss": "lad", "penalty": 0.1},
    "huber": {"loss": "huber", "penalty": 0.01},
    "squared": {"loss": "squared", "penalty": 0.01},
}
METHODS = {  # model, method, options, and of how many of the new rows: "all", a "few", or "one"
    "LAD exact": ("lad", "exact", {"progress": False}, "few"),
    "LAD exact, transductive": ("lad", "exact", {"progress": False, "transductive": True}, "few"),
    "LAD stable, norm": ("lad", "stable", {"bound": "norm"}, "all"),
    "LAD stable, ball": ("lad", "stable", {"bound": "ball"}, "all"),
    "LAD stable, paper": ("lad", "stable", {"bound": "paper"}, "all"),
    "LAD replace-one": ("lad", "replace_one", {}, "few"),
    "LAD batch": ("lad", "batch", {"z_hat": [-0.5, 0.5]}, "one"),
    "LAD interpolation": ("lad", "interpolation", {"queries": 3}, "one"),
    "LAD split": ("lad", "split", {}, "all"),
    "LAD cross": ("lad", "cross", {}, "all"),
    "LAD CV+": ("lad", "cv+", {}, "all"),
    "LAD jackknife+": ("lad", "jackknife+", {}, "one"),
    "Huber exact": ("huber", "exact", {"progress": False}, "few"),
    "Huber stable, curvature": ("huber", "stable", {"bound": "curvature"}, "all"),
    "squared exact": ("squared", "exact", {"progress": False}, "few"),
}
LARGEST = {"LAD jackknife+": 100}  # rows up to which a method is run: it refits the model to each
TWICE = {"LAD cross", "LAD CV+", "LAD jackknife+"}  # they promise 1 - 2 alpha


def draw(law, rows, random):
    """A frame of rows with noise of a law; ``x1`` is what the scale of the noise may depend on."""
    x = random.standard_normal((rows, 3))
    y = x @ np.array([1.0, -0.5, 0.0]) + LAWS[law](random, x[:, 0])
    return pd.DataFrame(x, columns=["x1", "x2", "x3"]).assign(y=y)


def covered(fitted, new, method, options):
    """Whether each new response (m,) is in its interval, for every level (a, m)."""
    _, made = timed(lambda: fitted.conf_int_conformal(new, alpha=list(ALPHAS), method=method, **options))
    y = new["y"].to_numpy()
    lower, upper = (made.xs(end, axis=1, level=1).to_numpy() for end in ("lower", "upper"))
    return (lower <= y[:, None]).T & (y[:, None] <= upper).T


def few(n):
    """New rows for methods that work row by row: exact sets of tiny samples take longest."""
    return 1 if n < 100 else 4


def replicates(law, n, count, new, seed):
    """What `covered` gives: for each of METHODS a list of arrays (a, rows), one a replicate."""
    out = {name: [] for name in METHODS}
    for i in range(count):
        random = np.random.default_rng([seed, list(LAWS).index(law), n, i])
        frame = draw(law, n + new, random)
        training, held_out = frame.iloc[new:], frame.iloc[:new]
        fits = {}
        for name, (model, method, options, kind) in METHODS.items():
            if n > LARGEST.get(name, n):
                continue
            asked = held_out.iloc[: {"one": 1, "few": few(n), "all": new}[kind]]
            if model not in fits:
                fits[model] = timed(lambda m=model: stabconf.fit(FORMULA, training, **MODELS[m]))[1]  # noqa: B023
            out[name].append(covered(fits[model], asked, method, options))
    return out


def cells(laws, sizes, count, new, seed):
    """A frame with a line a law, n, method and level: coverage, standard error, flag."""
    lines = []
    for law in laws:
        for n in sizes:
            for name, hits in replicates(law, n, count, new, seed).items():
                if hits:
                    lines += method_cells(law, n, name, np.array(hits))
            print(f"{law}, n = {n}: done", flush=True)
    return pd.DataFrame(lines)


def method_cells(law, n, name, hits):
    """Lines of one method, from what was covered (replicates, a, rows)."""
    lines = []
    for alpha, values in zip(ALPHAS, hits.mean(axis=2).T, strict=True):
        coverage, rows = values.mean(), hits.shape[2] * len(values)
        promised = 1 - 2 * alpha if name in TWICE else 1 - alpha
        binomial = np.sqrt(promised * (1 - promised) / rows)
        error = max(values.std(ddof=1) / np.sqrt(len(values)), binomial)
        highest = 1.0
        if "exact" in name and conformal_rank(alpha, n) <= n:
            highest = promised + 1 / (n + 1)
        bar = student.ppf(1 - CHANCE, len(values) - 1) * error
        flag = coverage < promised - bar or coverage > highest + bar
        where = {"law": law, "n": n, "method": name, "alpha": alpha}
        lines.append({**where, "coverage": coverage, "error": error, "flag": flag, "intervals": rows})
    return lines


def marginal_tables(report, found):
    """A table a level: coverage by method and law, and one by method and n; flagged cells are listed."""
    flagged = found[found["flag"]]
    report.text(
        f"{found['intervals'].sum():,} intervals in {len(found)} cells; {len(flagged)} cells are flagged."
    )
    for alpha in ALPHAS:
        one = found[found["alpha"] == alpha]
        lines = [
            [
                name,
                *(pooled(part[part[key] == value]) for key in ("law", "n") for value in one[key].unique()),
            ]
            for name, part in one.groupby("method", sort=False)
        ]
        header = ["method", *(str(law) for law in one["law"].unique())]
        header += [f"n = {n}" for n in one["n"].unique()]
        report.table(
            f"Coverage at alpha = {alpha:g}",
            "Per cent, with the standard error, over all n (by law) and over all laws (by n).",
            header,
            lines,
        )
    if len(flagged):
        lines = [
            [row.method, row.law, str(row.n), f"{row.alpha:g}", f"{row.coverage:.3f} ± {row.error:.3f}"]
            for row in flagged.itertuples()
        ]
        report.table("Flagged cells", "", ["method", "law", "n", "alpha", "coverage"], lines)


def pooled(part):
    """Coverage of several cells in per cent, with its standard error."""
    if not len(part):
        return ""
    weight = part["intervals"] / part["intervals"].sum()
    error = np.sqrt(np.sum((weight * part["error"]) ** 2))
    return f"{100 * np.sum(weight * part['coverage']):.1f} ± {100 * error:.1f}"


def conditional_table(report, n, count, new, seed, alpha=0.1):
    """Exact LAD sets: coverage given where the row is, and given the training set."""
    lines = []
    k = conformal_rank(alpha, n)
    for law in LAWS:
        hits, places = [], []
        for i in range(count):
            frame = draw(law, n + new, np.random.default_rng([seed, 1, list(LAWS).index(law), i]))
            held_out = frame.iloc[:new]
            fitted = stabconf.fit(FORMULA, frame.iloc[new:], **MODELS["lad"])
            hits.append(covered(fitted, held_out, "exact", {"progress": False})[ALPHAS.index(alpha)])
            places.append(held_out["x1"].to_numpy())
        hits, places = np.array(hits), np.array(places)
        third = np.digitize(places, np.quantile(places, [1 / 3, 2 / 3]))
        parts = [f"{100 * hits[third == j].mean():.1f}" for j in range(3)]
        sets = hits.mean(axis=1)
        lines.append([law, *parts, f"{100 * sets.std(ddof=1):.1f}", f"{100 * sets.min():.1f}"])
    ideal = np.sqrt(beta(k, n + 1 - k).var() + alpha * (1 - alpha) / new)
    report.table(
        f"Conditional coverage of exact LAD sets, alpha = {alpha:g}, n = {n}",
        f"Per cent, in the thirds of x1, and over {count} training sets with {new} new rows each: standard "
        "deviation of the coverage and its lowest. Only marginal coverage is promised: where the scale of "
        "the noise grows with x1, rows with quiet noise are covered more often than those with loud noise. "
        f"With a fixed fit and {n} calibration rows the standard deviation would be {100 * ideal:.1f}.",
        ["law", "low x1", "middle", "high x1", "sd", "lowest"],
        lines,
    )


def figure_of(found):
    """Every cell's distance from what is promised, in standard errors."""
    names = list(dict.fromkeys(found["method"]))
    figure, ax = plt.subplots(figsize=(7, 0.3 * len(names) + 1), layout="constrained")
    promised = np.where(found["method"].isin(TWICE), 1 - 2 * found["alpha"], 1 - found["alpha"])
    distance = (found["coverage"] - promised) / found["error"]
    height = found["method"].map(names[::-1].index) + 0.12 * (found["alpha"].rank(method="dense") - 2.5)
    ax.scatter(distance.clip(-6, 12), height, s=5, c=np.where(found["flag"], "#d55e00", "#0072b2"))
    ax.axvline(0, color="black", linewidth=0.7)
    ax.set_yticks(range(len(names)), names[::-1], fontsize=8)
    ax.set_xlabel("coverage less what is promised, in standard errors (at most 12)")
    return figure


def main():
    """Run all cells and write the tables."""
    arguments = parse_arguments("coverage", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    laws = list(LAWS)[1::3] if quick else list(LAWS)
    sizes = (10, 100) if quick else (10, 100, 1000)
    report = Report("Coverage")
    report.text(__doc__.split("\n\n", 1)[1].strip())
    found = cells(laws, sizes, 2 if quick else 150, 10 if quick else 20, seed)
    marginal_tables(report, found)
    caption = "Every cell: four levels, all laws and sample sizes; flagged ones in red."
    report.figure(figure_of(found), "coverage", caption, arguments.output)
    conditional_table(report, 300, 2 if quick else 10, 50 if quick else 100, seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
