"""What exact conformal intervals of a statsmodels model cost beside its classical ones.

Time of ``stabconf.conformal(res).conf_int_conformal(new)`` in units of the time of
``res.get_prediction(new).summary_frame()`` on the same rows; memory as a share of an n times m matrix.
"""

import numpy as np
import statsmodels.api as sm
from common import Report, best_time, parse_arguments, peak_memory

import stabconf

ALPHA = 0.05


def drawn(n, p, m, seed):
    """Training rows with heavy tails, their weights, and new rows."""
    random = np.random.default_rng(seed)
    X, new = (sm.add_constant(random.standard_normal((count, p - 1))) for count in (n, m))
    y = X @ random.standard_normal(p) + random.standard_t(3, n)
    return y, X, random.uniform(0.5, 2.0, n), new


def cost_row(label, fit, n, p, m, repeats, seed):
    """A line of the cost table."""
    y, X, weights, new = drawn(n, p, m, seed)
    res = fit(y, X, weights)
    classical, _ = best_time(lambda: res.get_prediction(new).summary_frame(alpha=ALPHA), repeats)
    made, options = stabconf.conformal(res, alpha=ALPHA), {"progress": False}
    if label == "WLS":
        options["wls_weights"] = 1.0

    def again():
        return made.conf_int_conformal(new, **options)

    def first():
        return stabconf.conformal(res, alpha=ALPHA).conf_int_conformal(new, **options)

    times = [best_time(function, repeats)[0] / classical for function in (again, first)]
    share = peak_memory(again) / (8 * n * m)
    return [label, str(n), str(p), f"{m:,}", *(f"{ratio:.1f}" for ratio in times), f"{share:.4f}"]


def cost_table(report, quick, repeats, seed):
    """Cost beside statsmodels' own intervals."""
    sizes = [(500, 5, 1000)] if quick else [(500, 5, 10_000), (5000, 20, 10_000), (5000, 20, 100_000)]
    fits = {
        "OLS": lambda y, X, weights: sm.OLS(y, X).fit(),
        "WLS": lambda y, X, weights: sm.WLS(y, X, weights=weights).fit(),
    }
    report.table(
        f"Exact intervals beside classical ones, alpha = {ALPHA:g}",
        "Time in units of `get_prediction(new).summary_frame()` on the same rows: intervals of a result "
        "that `stabconf.conformal` has made, and that call included. Peak memory as a share of an n times "
        "m matrix of numbers.",
        ["model", "n", "p", "new rows", "intervals", "with conformal(res)", "memory"],
        [cost_row(label, fit, *size, repeats, seed) for label, fit in fits.items() for size in sizes],
    )


def main():
    """Run the comparison and write the table."""
    arguments = parse_arguments("statsmodels_plugin", __doc__.splitlines()[0])
    report = Report("Conformal intervals of statsmodels results")
    cost_table(report, arguments.quick, 2 if arguments.quick else 20, arguments.seed)
    report.write(arguments.output, arguments.quick)


if __name__ == "__main__":
    main()
