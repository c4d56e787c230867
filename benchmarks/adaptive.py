"""Widths that follow the data: exact conformalised quantile regression beside split and constant widths.

Width: exact sets of quantile bands fitted to all training rows, beside MAPIE's split intervals of the same
quantile model and penalty, which fit to half of them and calibrate on the other half; and LAD intervals of
constant width, in proportion to a column (exact), and in proportion to a learned scale (split). Coverage:
by thirds of the width of the fitted band, where constant widths are too wide at one end and too narrow at
the other.
Coverage along a formula: by tenths of the predictions on California housing, with and without
``conditional=``, beside MAPIE's split conformal prediction along the same columns.
Cost: the time of a new row's set relative to the fits, and along a formula relative to a plain one.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import patsy
from common import (
    FEATURES,
    TARGET,
    Report,
    best_time,
    diabetes,
    interval_time,
    parse_arguments,
    solver_time,
)
from exact import housing
from sklearn.base import BaseEstimator, RegressorMixin
from statsmodels.datasets import engel

import stabconf

try:
    from mapie.regression import ConformalizedQuantileRegressor
except ImportError:
    ConformalizedQuantileRegressor = None

try:  # from MAPIE 1.5 on, with cvxpy
    import cvxpy  # noqa: F401
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor
except ImportError:
    ConditionalSplitConformalRegressor = None

ALPHA = 0.1
LEVELS = (ALPHA / 2, 1 - ALPHA / 2)
EXACT, SEPARATE, COMMON = "exact CQR", "split CQR, two corrections", "split CQR, one correction"
CONSTANT, FIXED, LEARNED = "exact LAD, constant", "exact LAD, fixed scale", "split LAD, learned scale"
PEERS = (SEPARATE, COMMON) if ConformalizedQuantileRegressor else ()
METHODS = (EXACT, *PEERS, CONSTANT, FIXED, LEARNED)
THIRDS = ("narrow", "middle", "wide")
CURVE = "~ cr(guess, df=8)"
CURVES = "~ cr(guess, df=8) + " + " + ".join(
    f"cr({name}, df=4)" for name in ("MedInc", "AveOccup", "Latitude", "Longitude")
)
PLAIN, MAPIE = "LAD, plain", "MAPIE, split LAD, curve"
ALONG = {  # which fit, and the options of its intervals
    PLAIN: ("lad", {}),
    "LAD, groups": ("lad", {"groups": "tenth"}),
    "LAD, line": ("lad", {"conditional": "~ guess"}),
    "LAD, curve": ("lad", {"conditional": CURVE}),
    "LAD, curves": ("lad", {"conditional": CURVES}),
    "split LAD, curve": ("lad", {"conditional": CURVE, "method": "split", "random_state": 0}),
    "band, plain": ("band", {}),
    "band, curve": ("band", {"conditional": CURVE}),
    "band, curves": ("band", {"conditional": CURVES}),
}


@dataclass(frozen=True)
class Study:
    """A table and how it is split.

    Attributes
    ----------
    label, formula : str
    table : DataFrame
    penalties : tuple of float
    column : str
        The fixed scale.
    scale : str or True
        What the learned scale depends on.
    test, training : int
        Rows that widths are averaged over, drawn once, and rows to fit, drawn anew for each split.
    fresh : bool
        Whether coverage is over all rows that are not fitted, not over the test rows.
    splits : int
    """

    label: str
    formula: str
    table: pd.DataFrame
    penalties: tuple
    column: str
    scale: object
    test: int
    training: int
    fresh: bool
    splits: int

    @property
    def response(self):
        return self.formula.split(" ~ ")[0]


class FittedLevel(RegressorMixin, BaseEstimator):
    """One quantile of a fit, as MAPIE wants to see it."""

    def __init__(self, results, level):
        self.results, self.level = results, level
        self.fitted_ = True  # what MAPIE looks for

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.results.predict(X)[self.level].to_numpy()


def split_bands(study, training, new, penalty, random):
    """MAPIE's intervals (frames by method): half of the training rows to fit, half to calibrate."""
    order, half = random.permutation(len(training)), len(training) // 2
    fitting, rest = training.iloc[order[:half]], training.iloc[order[half:]]
    levels = (LEVELS[0], LEVELS[1], 0.5)
    results = stabconf.fit_quantiles(study.formula, fitting, quantiles=levels, penalty=penalty)
    models = [FittedLevel(results, level) for level in levels]
    split = ConformalizedQuantileRegressor(models, confidence_level=1 - ALPHA, prefit=True)
    split.conformalize(rest.drop(columns=study.response), rest[study.response].to_numpy())
    frames = {}
    for method, symmetric in ((SEPARATE, False), (COMMON, True)):
        _, ends = split.predict_interval(
            new.drop(columns=study.response), symmetric_correction=symmetric, allow_infinite_bounds=True
        )
        frames[method] = pd.DataFrame(ends[:, :, 0], index=new.index, columns=["lower", "upper"])
    return frames


def compare(study, penalty, seed):
    """Widths and hits by method (splits, rows of the table), NaN where there is none, and thirds."""
    shape = (study.splits, len(study.table))
    widths = {method: np.full(shape, np.nan) for method in METHODS}
    hits, thirds = {method: np.full(shape, np.nan) for method in METHODS}, np.full(shape, -1)
    table = study.table.reset_index(drop=True)
    test, others = np.split(np.random.default_rng(seed).permutation(len(table)), [study.test])
    options = {"alpha": ALPHA, "progress": False}
    for s in range(study.splits):
        random = np.random.default_rng([seed, 1, s])
        order = random.permutation(others)
        training = table.iloc[order[: study.training]]
        places = np.append(test, order[study.training :]) if study.fresh else test
        new = table.iloc[places]
        band = stabconf.fit_quantiles(study.formula, training, quantiles=LEVELS, penalty=penalty)
        lad = stabconf.fit(study.formula, training, loss="lad", penalty=penalty)
        ends = {EXACT: band.conf_int_conformal(new, **options)}
        if SEPARATE in METHODS:
            ends |= split_bands(study, training, new, penalty, random)
        ends[CONSTANT] = lad.conf_int_conformal(new, **options)
        ends[FIXED] = lad.conf_int_conformal(new, scale=study.column, **options)
        split = {"method": "split", "scale": study.scale, "random_state": s}
        ends[LEARNED] = lad.conf_int_conformal(new, alpha=ALPHA, **split)
        for method, made in ends.items():
            y = table.loc[made.index, study.response]
            width = (made["upper"] - made["lower"]).clip(lower=0.0).fillna(0.0)  # of an empty set: 0
            widths[method][s, made.index] = width
            hits[method][s, made.index] = (made["lower"] <= y) & (y <= made["upper"])
        fitted = band.predict(new)
        rank = (fitted[LEVELS[1]] - fitted[LEVELS[0]]).rank(method="first").to_numpy() - 1
        thirds[s, places] = (3 * rank // len(new)).astype(int)
    return {method: made[:, test] for method, made in widths.items()}, hits, thirds


def width_lines(study, penalty, widths, hits):
    """Lines of the table of widths."""
    lines = []
    for method in METHODS:
        own, exact = (widths[name].mean(axis=1) for name in (method, EXACT))
        spread = [made.std(ddof=1) for made in (own, exact)]
        ratio = exact.mean() / own.mean()
        error = (exact - ratio * own).std(ddof=1) / own.mean() / len(own) ** 0.5
        cells = [method, f"{own.mean():.4g}", f"{spread[0]:.2g}"]
        cells += [f"{ratio:.3f} ± {error:.3f}", f"{spread[1] / spread[0]:.2f}"]
        lines.append([study.label, f"{penalty:g}", *cells, f"{np.nanmean(hits[method]):.3f}"])
    return lines


def third_lines(study, penalty, hits, thirds):
    """Lines of the table of coverage by thirds."""
    lines = []
    for method in METHODS:
        parts = [hits[method][(thirds == t) & np.isfinite(hits[method])] for t in range(len(THIRDS))]
        cells = [f"{part.mean():.3f}" for part in parts]
        worst = max(abs(part.mean() - (1 - ALPHA)) for part in parts)
        responses = sum(map(len, parts))
        lines.append([study.label, f"{penalty:g}", method, f"{responses:,}", *cells, f"{worst:.3f}"])
    return lines


def comparison_tables(report, studies, seed):
    """Widths and coverage, each penalty of each table."""
    by_width, by_third = [], []
    for study in studies:
        for penalty in study.penalties:
            widths, hits, thirds = compare(study, penalty, seed)
            by_width += width_lines(study, penalty, widths, hits)
            by_third += third_lines(study, penalty, hits, thirds)
    splits = ", ".join(
        f"{study.label} {study.splits} splits of {study.training:,} training rows" for study in studies
    )
    report.table(
        f"Width, alpha = {ALPHA:g}",
        f"{splits}. Mean width over test rows, drawn once, in units of the response; standard deviation of "
        "this mean over training rows, drawn anew from the other rows of the table, so that training sets "
        "overlap; exact CQR's mean width (± standard error over splits) and standard deviation relative to "
        "the line's. Where fitted quantiles cross a set may be empty: its width is 0. "
        "Split: MAPIE's ConformalizedQuantileRegressor on the same quantile model and penalty, fitted to "
        "half of the training rows, with its default of a correction for each end and with one for both. "
        "The fixed scale is income (Engel) or MedInc (California); the learned one depends on income, or "
        "on all columns. Coverage over all splits and new rows.",
        ["data", "penalty", "method", "width", "sd", "CQR/width", "CQR/sd", "coverage"],
        by_width,
    )
    report.table(
        f"Coverage by thirds of the fitted band's width, nominal {1 - ALPHA:g}",
        "New rows of each split, parted into thirds by the distance between the fitted quantiles of exact "
        "CQR, the same parts for every method; `off` is the largest distance from nominal. Engel: all rows "
        "that are not fitted. `responses` counts rows over splits; the same response occurs in many.",
        ["data", "penalty", "method", "responses", *THIRDS, "off"],
        by_third,
    )


def cost_table(report, data_dir, count, repeats, seed):
    """Cost of a new row relative to the fits that it rests on."""
    table, formula, label = housing(data_dir)
    lines = []
    for penalty in (0.01, 0.001):
        fits = {
            EXACT: lambda p=penalty: stabconf.fit_quantiles(formula, table, quantiles=LEVELS, penalty=p),
            FIXED: lambda p=penalty: stabconf.fit(formula, table, loss="lad", penalty=p),
        }
        for method, fit in fits.items():
            whole, results = best_time(fit, repeats)
            parts = list(results._each.values()) if method == EXACT else [results]
            alone = sum(solver_time(part, repeats) for part in parts)
            options = {"alpha": ALPHA, "progress": False} | ({"scale": "MedInc"} if method == FIXED else {})
            new = table.sample(count, random_state=seed).drop(columns=TARGET)
            seconds = interval_time(results, new, repeats, **options)
            each = seconds / count
            cells = [f"{penalty:g}", str(count), f"{each / whole:.3f}", f"{each / alone:.3f}"]
            lines.append([method, *cells])
    report.table(
        f"Cost of a new row, {label}, n = {len(table)}",
        "Processor time per new row, all in one call, relative to the fit from a formula (`fit_quantiles` "
        "of the pair for CQR, `fit` for LAD) and to its solves alone (two for CQR, one for LAD).",
        ["method", "penalty", "rows", "of the fit", "of the solves"],
        lines,
    )


class FittedMean(RegressorMixin, BaseEstimator):
    """Predictions of a fit, as MAPIE wants to see it: of rows of numbers, the last being the guess."""

    def __init__(self, results):
        self.results = results
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.results.predict(pd.DataFrame(X, columns=[*FEATURES, "guess"])).to_numpy()


def mapie_along(formula, training, new, penalty, random):
    """MAPIE's intervals along the columns of ``CURVE``, half of the training rows held out."""
    order, half = random.permutation(len(training)), len(training) // 2
    fitting, rest = training.iloc[order[:half]], training.iloc[order[half:]]
    design = patsy.dmatrix(CURVE, rest)

    def columns(X):
        return np.asarray(patsy.dmatrix(design.design_info, {"guess": np.atleast_2d(X)[:, -1]}))

    model = FittedMean(stabconf.fit(formula, fitting, loss="lad", penalty=penalty))
    split = ConditionalSplitConformalRegressor(columns, model, confidence_level=1 - ALPHA)
    names = [*FEATURES, "guess"]
    split.conformalize(rest[names].to_numpy(), rest[TARGET].to_numpy())
    _, ends = split.predict_interval(new[names].to_numpy())
    return pd.DataFrame(ends[:, :, 0], index=new.index, columns=["lower", "upper"])


def along_split(table, formula, sizes, penalty, seed):
    """Of one split: the intervals by method, and the new rows with ``part``, the tenth of the predictions.

    The column ``guess`` is the prediction of a fit to pilot rows that take no other part, ``tenth`` its
    tenth.
    """
    random = np.random.default_rng([seed, 2])
    order = random.permutation(len(table))[: sum(sizes)]
    pilot, training, new = (table.iloc[rows] for rows in np.split(order, np.cumsum(sizes)[:-1]))
    guess = stabconf.fit(formula, pilot, loss="lad", penalty=penalty).predict
    training, new = (rows.assign(guess=guess(rows)) for rows in (training, new))
    edges = np.quantile(training["guess"], np.arange(1, 10) / 10)
    training, new = (rows.assign(tenth=np.searchsorted(edges, rows["guess"])) for rows in (training, new))
    fits = {
        "lad": stabconf.fit(formula, training, loss="lad", penalty=penalty),
        "band": stabconf.fit_quantiles(formula, training, quantiles=LEVELS, penalty=penalty),
    }
    new["part"] = pd.qcut(fits["lad"].predict(new), 10, labels=False)
    ends = {}
    for method, (which, options) in ALONG.items():
        more = {} if "method" in options else {"progress": False}
        ends[method] = fits[which].conf_int_conformal(new, alpha=ALPHA, **options, **more)
    if ConditionalSplitConformalRegressor:
        ends[MAPIE] = mapie_along(formula, training, new, penalty, random)
    return ends, new


def along_table(report, data_dir, quick, seed):
    """Coverage by tenths of the predictions, with and without a formula."""
    table, formula, label = housing(data_dir)
    splits, sizes = (2, (500, 1500, 400)) if quick else (10, (2000, 5000, 2000))
    found = []
    for s in range(splits):
        ends, new = along_split(table, formula, sizes, 0.001, [seed, s])
        for method, made in ends.items():
            y = new.loc[made.index, TARGET]
            hit = (made["lower"] <= y) & (y <= made["upper"])
            width = (made["upper"] - made["lower"]).clip(lower=0.0).fillna(0.0)
            parts = {"method": method, "split": s, "part": new["part"], "hit": hit, "width": width}
            found.append(pd.DataFrame(parts))
    lines = []
    for mine in found_by_method(found):
        parts = mine.groupby("part")["hit"].mean()
        finite = mine[np.isfinite(mine["width"])]
        by_split = finite.groupby("split")[["width", "plain"]].mean()
        ratio = by_split["width"] / by_split["plain"]
        error = ratio.std(ddof=1) / splits**0.5
        cells = [
            mine["method"].iloc[0],
            f"{finite['width'].mean():.3f}",
            f"{ratio.mean():.3f} ± {error:.3f}",
        ]
        cells += [f"{100 * (1 - len(finite) / len(mine)):.2f}", f"{mine['hit'].mean():.3f}"]
        cells += [f"{parts.min():.3f}", f"{(parts - 1 + ALPHA).abs().max():.3f}"]
        lines.append([*cells, *(f"{100 * share:.0f}" for share in parts)])
    size = 100 * (ALPHA * (1 - ALPHA) / (splits * sizes[2] / 10)) ** 0.5
    report.table(
        f"Coverage along a formula, {label}, nominal {1 - ALPHA:g}",
        f"{splits} splits: {sizes[0]:,} pilot rows, whose LAD fit gives all other rows the column `guess`; "
        f"{sizes[1]:,} training rows; {sizes[2]:,} new rows, in tenths by the prediction of the plain fit "
        f"(the binomial standard error of a tenth is {size:.1f} points, to which the draws of training "
        "rows add). Penalty 0.001. Mean width of the "
        "finite intervals, relative to the plain ones of the same rows (± standard error over splits), and "
        "the share of infinite ones in per cent; coverage in all, of the tenth that is covered least, and "
        "the largest distance of a tenth from nominal; then coverage by tenth, in per cent. "
        f"Groups: tenths of `guess`. Line: `~ guess`. Curve: `{CURVE}`. Curves: `{CURVES}`. MAPIE: its "
        "ConditionalSplitConformalRegressor along the columns of the curve, half of the training rows held "
        "out.",
        ["method", "width", "of plain", "inf %", "coverage", "least", "off", *map(str, range(1, 11))],
        lines,
    )


def found_by_method(found):
    """Frames of hits and widths, one per method, with the width of the plain interval beside."""
    rows = pd.concat(found, ignore_index=True)
    plain = rows.loc[rows["method"] == PLAIN, "width"].to_numpy()
    return [rows[rows["method"] == method].assign(plain=plain) for method in rows["method"].unique()]


def along_cost_table(report, data_dir, count, repeats, seed):
    """Cost of a new row along a formula, relative to a plain exact one."""
    small, (large, formula, label) = diabetes(), housing(data_dir)
    problems = (
        ("diabetes", small.frame, small.formula, ("~ cr(bmi, df=4)", "~ cr(bmi, df=8) + cr(bp, df=8)")),
        (label, large, formula, ("~ cr(MedInc, df=4)", "~ cr(MedInc, df=8) + cr(HouseAge, df=8)")),
    )
    lines = []
    for name, table, model, along in problems:
        new = table.sample(min(count, len(table)), random_state=seed)
        for kind in ("LAD", "band"):
            options = {"alpha": ALPHA, "progress": False}
            if kind == "LAD":
                results = stabconf.fit(model, table, loss="lad")
            else:
                results = stabconf.fit_quantiles(model, table, quantiles=LEVELS)
            plain = interval_time(results, new, repeats, **options)
            for each in along:
                more = {**options, "conditional": each}
                seconds = interval_time(results, new, repeats, **more)
                columns = patsy.dmatrix(each, table).shape
                size = f"({len(table)}, {len(table.columns)})"
                lines.append([name, size, kind, str(columns[1]), str(len(new)), f"{seconds / plain:.2f}"])
    report.table(
        "Cost of a new row along a formula",
        "Processor time per new row, all in one call, relative to plain exact intervals of the same fit; "
        "the default penalties. `columns` are those of the formula.",
        ["data", "(n, p)", "fit", "columns", "rows", "of plain"],
        lines,
    )


def studies(data_dir, quick):
    """What is compared."""
    food = engel.load_pandas().data
    table, formula, label = housing(data_dir)
    splits, penalties = (4, 2) if quick else (60, 12), (0.01, 0.001)
    few = 50 if quick else 500
    return [
        Study("Engel", "foodexp ~ income", food, penalties, "income", "~ income", 45, 120, True, splits[0]),
        Study(label, formula, table, penalties, "MedInc", True, few, 5000, False, splits[1]),
    ]


def main():
    """Run all comparisons and write the tables."""
    arguments = parse_arguments("adaptive", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    report = Report("Widths that follow the data")
    if SEPARATE not in METHODS:
        report.text("MAPIE is not installed, so its split intervals are left out.")
    cost_table(report, arguments.data_dir, 64 if quick else 512, 1 if quick else 3, seed)
    along_cost_table(report, arguments.data_dir, 64 if quick else 442, 1 if quick else 3, seed)
    along_table(report, arguments.data_dir, quick, seed)
    if not ConditionalSplitConformalRegressor:
        report.text("MAPIE's ConditionalSplitConformalRegressor (and cvxpy) is not installed and left out.")
    comparison_tables(report, studies(arguments.data_dir, quick), seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
