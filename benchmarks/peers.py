"""The package beside its peers: the same rows, model class and level.

Ridge at 0.1 a row, medians, and conformalised quantiles; by stabconf, by MAPIE, crepes and puncc around
scikit-learn's Ridge and QuantileRegressor, and by online-cp's own ridge. Medians and quantiles have a
penalty of 0.01 in stabconf, where it hardly matters, and none in the peers. online-cp's full conformal
sets rank signed residuals, alpha / 2 on each side; stabconf's rank their sizes. A peer that is not
installed is named and skipped.
"""

import numpy as np
import pandas as pd
from common import Report, available, best_time, boston, california, diabetes, parse_arguments
from sklearn.linear_model import QuantileRegressor, Ridge
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from splits import Contender, by, coverage_cell, measured, timed

import stabconf

ALPHA = 0.1
PENALTY = 0.1  # of ridge, a row
COUNTS = (1, 100, 10_000)
FOLDS = 10
REFITS = 1000  # jackknife+ refits for every row: up to this many of them


class Peers:
    """Contenders of every package for one table; each method of the class is one package."""

    def __init__(self, table):
        self.table, self.columns = table, table.features
        self.small = len(table.frame) <= REFITS

    def arrays(self, frame):
        return frame[self.columns].to_numpy(dtype=float), frame[self.table.response].to_numpy(dtype=float)

    def half(self, training):
        """Arrays of the half that is fitted and of the one that calibrates; rows are in random order."""
        middle = len(training) // 2
        return *self.arrays(training.iloc[:middle]), *self.arrays(training.iloc[middle:])

    def models(self, rows):
        """Scikit-learn's models that stand for stabconf's on so many training rows, by class."""
        median = QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs")
        return {
            "ridge": make_pipeline(StandardScaler(), Ridge(alpha=PENALTY * rows)),
            "median": make_pipeline(StandardScaler(), median),
        }

    def contender(self, model, name, fit, make):
        """A contender with one method: ``fit(training)``, then ``make(fitted, X)`` gives the ends."""
        return Contender(model, fit, {name: lambda fitted, new: make(fitted, self.arrays(new)[0])})

    # Packages ------------------------------------------------------------------------------------

    def stabconf(self):
        methods = {
            f"stabconf {name}": by(name, ALPHA, **options)
            for name, options in (
                ("exact", {"progress": False}), ("stable", {}), ("split", {}), ("cv+", {"folds": FOLDS})
            )
        }  # fmt: skip
        settings = {
            "ridge": {"loss": "squared", "penalty": PENALTY},
            "median": {"loss": "lad", "penalty": 0.01},
        }
        for model, options in settings.items():

            def fit(training, options=options):
                return stabconf.fit(self.table.formula, training, **options)

            # Without curvature a stable interval rests on the penalty, and this one is too small for it.
            kept = {
                name: make for name, make in methods.items() if model == "ridge" or "stable" not in name
            }
            yield Contender(model, fit, kept)
        levels = (ALPHA / 2, 0.5, 1 - ALPHA / 2)

        def quantiles(training):
            return stabconf.fit_quantiles(self.table.formula, training, quantiles=levels, penalty=0.01)

        yield Contender("quantiles", quantiles, {"stabconf CQR, full": by("auto", ALPHA)})

    def mapie(self):
        from mapie.regression import (
            ConformalizedQuantileRegressor,
            CrossConformalRegressor,
            SplitConformalRegressor,
        )

        def ends_of(fitted, X):
            return fitted.predict_interval(X)[1][:, :, 0]

        for model in ("ridge", "median"):

            def split(training, model=model):
                X, y, X2, y2 = self.half(training)
                made = SplitConformalRegressor(self.models(len(X))[model], 1 - ALPHA, prefit=False)
                return made.fit(X, y).conformalize(X2, y2)

            def cross(training, folds, model=model):
                made = CrossConformalRegressor(self.models(len(training))[model], 1 - ALPHA, cv=folds)
                return made.fit_conformalize(*self.arrays(training))

            yield self.contender(model, "MAPIE split", split, ends_of)
            yield self.contender(model, "MAPIE CV+", lambda t, make=cross: make(t, FOLDS), ends_of)
            if self.small and model == "ridge":
                yield self.contender(
                    model, "MAPIE jackknife+", lambda t, make=cross: make(t, LeaveOneOut()), ends_of
                )

        def quantiles(training):
            X, y, X2, y2 = self.half(training)
            estimator = QuantileRegressor(alpha=0.0, solver="highs")
            made = ConformalizedQuantileRegressor(estimator, 1 - ALPHA).fit(X, y)
            return made.conformalize(X2, y2)

        yield self.contender("quantiles", "MAPIE CQR", quantiles, ends_of)

    def crepes(self):
        from crepes import WrapRegressor
        from crepes.extras import DifficultyEstimator

        for normalised in (False, True):

            def fit(training, normalised=normalised):
                X, y, X2, y2 = self.half(training)
                made = WrapRegressor(self.models(len(X))["ridge"])
                made.fit(X, y)
                difficulty = None
                if normalised:
                    difficulty = DifficultyEstimator()
                    difficulty.fit(X=X, residuals=y - made.predict(X), scaler=True)
                made.calibrate(X2, y2, de=difficulty)
                return made

            name = "crepes normalised" if normalised else "crepes split"
            yield self.contender(
                "ridge", name, fit, lambda fitted, X: fitted.predict_int(X, confidence=1 - ALPHA)
            )

    def puncc(self):
        from deel.puncc.api.prediction import BasePredictor
        from deel.puncc.regression import CVPlus, SplitCP

        def ends_of(fitted, X):
            return np.column_stack(fitted.predict(X, alpha=ALPHA)[1:])

        def split(training):
            X, y, X2, y2 = self.half(training)
            made = SplitCP(BasePredictor(self.models(len(X))["ridge"]))
            made.fit(X_fit=X, y_fit=y, X_calib=X2, y_calib=y2)
            return made

        def cross(training):
            made = CVPlus(BasePredictor(self.models(len(training))["ridge"]), K=FOLDS, random_state=0)
            made.fit(*self.arrays(training))
            return made

        yield self.contender("ridge", "puncc split", split, ends_of)
        yield self.contender("ridge", "puncc CV+", cross, ends_of)

    def online_cp(self):
        from online_cp import ConformalRidgeRegressor

        def design(scaler, X):
            return np.column_stack([np.ones(len(X)), scaler.transform(X)])

        def fit(training):
            X, y = self.arrays(training)
            scaler, centre = StandardScaler().fit(X), np.median(y)
            made = ConformalRidgeRegressor(a=PENALTY * len(X), warnings=False)
            made.learn_initial_training_set(design(scaler, X), y - centre)
            return made, scaler, centre

        def ends_of(fitted, X):
            made, scaler, centre = fitted
            sets = [made.predict(row, epsilon=ALPHA) for row in design(scaler, X)]
            return centre + np.array([[one.lower, one.upper] for one in sets])

        yield self.contender("ridge", "online-cp full", fit, ends_of)


PACKAGES = ("stabconf", "mapie", "crepes", "puncc", "online_cp")


def contenders(table):
    """Contenders of the packages that are installed, and the names of the others."""
    found, absent = [], []
    for package in PACKAGES:
        try:
            found += getattr(Peers(table), package)()
        except ImportError:
            absent.append(package)
    return found, absent


def times(table, contender, repeats, seed):
    """Seconds of the fit, and of intervals for one row, a hundred and ten thousand, by method."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(table.frame))
    training = table.frame.iloc[order[len(order) // 5 :]]
    fit_time = min(timed(contender.fit, training)[0] for _ in range(repeats))
    _, fitted = timed(contender.fit, training)
    out = {}

    def drawn(count):  # other rows in each try: those of the last calls are looked up
        return table.frame.iloc[random.integers(len(table.frame), size=count)].reset_index(drop=True)

    for method, make in contender.methods.items():
        found = []
        for count in COUNTS:
            tries = repeats if count <= 100 else 1
            found.append(min(timed(make, fitted, drawn(count))[0] for _ in range(tries)))
        out[method] = [fit_time, *found]
    return out


def unit_of(table, repeats):
    """Seconds of one fit of scikit-learn's standardised ridge."""
    peers = Peers(table)
    X, y = peers.arrays(table.frame)
    return best_time(lambda: peers.models(len(X))["ridge"].fit(X, y), 5 * repeats)[0]


def table_of(report, table, repeats, new, seed):
    """One table of all contenders on one data set."""
    found, absent = contenders(table)
    runs = measured(table, found, repeats, new, seed)
    unit = unit_of(table, repeats)
    cost = {}
    for contender in found:
        for method, seconds in times(table, contender, 3, seed).items():
            cost[contender.label, method] = seconds
    lines = []
    for (model, method), one in runs.groupby(["model", "method"], sort=False):
        lines.append(
            {
                "model": model,
                "method": method,
                "coverage": coverage_cell(one["coverage"].mean(), new * len(one)),
                "length": one["length"].mean() / table.frame[table.response].std(),
                "sd": one["length"].std() / table.frame[table.response].std(),
                **dict(zip(["fit", *map(str, COUNTS)], np.array(cost[model, method]) / unit, strict=True)),
            }
        )
    frame = pd.DataFrame(lines).sort_values("model", key=lambda c: c.map(order_of), kind="stable")
    skipped = f" Not installed and skipped: {', '.join(absent)}." if absent else ""
    report.table(
        f"{table.name}: {repeats} splits, {new} new rows each, alpha = {ALPHA:g}",
        "Length and its standard deviation over the splits in standard deviations of the response; time of "
        "the fit and of the intervals for 1, 100 and 10,000 new rows, in fits of scikit-learn's "
        f"standardised ridge. The best figure of a model and column is starred.{skipped} {wins(frame)}",
        ["model", "method", "coverage", "length", "sd", "fit", "1 row", "100 rows", "10,000 rows"],
        cells_of(frame),
    )


def order_of(model):
    """Place of a model in the tables."""
    return ("ridge", "median", "quantiles").index(model)


def best_of(frame, column):
    """Whether each line is the best of its model in a column."""
    return frame[column] == frame.groupby("model")[column].transform("min")


MEASURES = {"length": "shortest", "sd": "steadiest", "fit": "fastest to fit"} | {
    str(count): f"fastest for {count:,} row{'s' if count > 1 else ''}" for count in COUNTS
}


def cells_of(frame):
    """Cells of the table, the best of a model starred."""
    text = frame[["model", "method", "coverage"]].copy()
    for column in MEASURES:
        shown = frame[column].map(lambda x, c=column: f"{x:.3f}" if c in ("length", "sd") else f"{x:.3g}")
        alone = frame.groupby("model")[column].transform("size") == 1
        text[column] = np.where(best_of(frame, column) & ~alone, "* " + shown, shown)
    return text.to_numpy().tolist()


def wins(frame):
    """A sentence on what peers win."""
    won = []
    for column, words in MEASURES.items():
        winners = frame[best_of(frame, column) & ~frame["method"].str.startswith("stabconf")]
        alone = frame.groupby("model")["method"].transform("size") == 1
        winners = winners[~alone[winners.index]]
        won += [f"{line.method} is {words} ({line.model})" for line in winners.itertuples()]
    return f"Where a peer wins: {'; '.join(won)}." if won else "No peer wins a column."


def main():
    """Run all tables."""
    arguments = parse_arguments("peers", __doc__.splitlines()[0])
    quick, seed = arguments.quick, arguments.seed
    loaders = {
        "Boston": boston,
        "diabetes": diabetes,
        "California": lambda: california(arguments.data_dir).subset(1500 if quick else 3000, seed),
    }
    if quick:
        loaders.pop("Boston")
    tables, missing = available(loaders)
    report = Report("Beside peers")
    report.text(" ".join([*__doc__.split("\n\n", 1)[1].split("\n"), *missing]).strip())
    for table in tables:
        table_of(report, table, 2 if quick else 20, 50 if quick else 100, seed)
    report.write(arguments.output, quick)


if __name__ == "__main__":
    main()
