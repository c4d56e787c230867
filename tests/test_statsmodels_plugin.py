"""Intervals of statsmodels results: refits by statsmodels itself on both sides of every end; manners."""

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from referee import p_value
from scipy.optimize import linprog
from statsmodels.base.elastic_net import RegularizedResults
from statsmodels.gam.api import BSplines
from statsmodels.regression.feasible_gls import GLSHet
from statsmodels.regression.linear_model import OLSResults, RegressionResults
from statsmodels.regression.quantile_regression import QuantRegResults
from statsmodels.robust.robust_linear_model import RLMResults

import stabconf
from stabconf.errors import AssumptionError, DataWarning, InputError, InputTypeError, MismatchWarning
from stabconf.losses import Quantile
from stabconf.show.report.background import leverages
from stabconf.statsmodels_plugin.penalty import recovered_penalty
from stabconf.study.comparison import oracle

FORMULA = "y ~ x1 + x2 + C(g)"
NAMES = ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x1", "x2"]
SMOOTH = "y ~ x1 + x2 + w"  # without categories quantile regression has no ties
SIDES = ("two-sided", "upper", "lower")
SCORES = {"two-sided": np.abs, "upper": np.positive, "lower": np.negative}
VECTOR = np.array([0.0, 0.3, 0.1, 0.2, 0.05])
TIGHT = {"maxiter": 5000, "cnvrg_tol": 1e-13, "zero_tol": 1e-12}


def drawn(seed, n=40):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x1": rng.standard_normal(n),
            "x2": rng.uniform(0.0, 5.0, n),
            "g": rng.permutation(np.resize(["a", "b", "c"], n)),
            "w": rng.uniform(0.3, 3.0, n),
        },
        index=[f"row{i}" for i in range(n)],
    )
    frame["y"] = 1.0 + frame["x1"] - 0.5 * frame["x2"] + (frame["g"] == "b") + rng.standard_t(3, n)
    new = pd.DataFrame({"x1": [0.3, 2.0], "x2": [1.0, 6.0], "g": ["b", "c"], "w": [2.0, 0.5]}, index=[7, 3])
    return frame, new


def ols_residuals(res, X, y, w):
    return sm.OLS(y, X).fit().resid


def wls_residuals(res, X, y, w):
    return np.sqrt(w) * sm.WLS(y, X, weights=w).fit().resid


def regularised(strength, l1_ratio, weighted=False):
    """Refits with the same penalty in all: statsmodels' is per row, and stabconf's per training row."""

    def residuals(res, X, y, w):
        share = (len(y) - 1) / len(y)
        root = np.sqrt(w) if weighted else np.ones(len(y))
        if weighted:
            share *= np.mean(w[:-1])
        model, weight = sm.OLS(root * y, root[:, None] * X), share * strength * np.ones(X.shape[1])
        if not l1_ratio:
            return root * (y - X @ model.fit_regularized(alpha=weight, L1_wt=0).params)
        params = np.asarray(res.params)
        for _ in range(50):  # a coordinate that once is 0 stays so until statsmodels is started again
            last = params
            params = model.fit_regularized(alpha=weight, L1_wt=l1_ratio, start_params=last, **TIGHT).params
            if np.max(np.abs(params - last)) < 1e-12:
                break
        return root * (y - X @ params)

    return residuals


def quantile_residuals(res, X, y, w):
    """Those of statsmodels; of a linear program where its iterations end away from the minimum."""
    params = sm.QuantReg(y, X).fit(q=res.q, p_tol=1e-10, max_iter=2000).params
    n, p = X.shape
    costs = np.concatenate([np.zeros(p), np.full(n, res.q), np.full(n, 1.0 - res.q)])
    bounds = [(None, None)] * p + [(0, None)] * (2 * n)
    best = linprog(costs, A_eq=np.hstack([X, np.eye(n), -np.eye(n)]), b_eq=y, bounds=bounds)
    if Quantile(res.q).value(y - X @ params).sum() > (1 + 1e-6) * best.fun:
        params = best.x[:p]
    return y - X @ params


def robust_residuals(res, X, y, w):
    """Iteratively reweighted least squares with statsmodels' norm, at the scale of the training rows."""
    params = np.asarray(res.params)
    for _ in range(2000):
        weights = res.model.M.weights((y - X @ params) / res.scale)
        last, params = params, sm.WLS(y, X, weights=weights).fit().params
        if np.max(np.abs(params - last)) < 1e-13:
            break
    return y - X @ params


def tightly(model):
    return model.fit(conv="coefs", tol=1e-12, maxiter=1000)


# Name: fit of a model class (from_formula or from arrays), refit, options of `conformal`.
CASES = {
    "ols": (lambda make: make(sm.OLS).fit(), ols_residuals, {}),
    "wls": (lambda make: make(sm.WLS).fit(), wls_residuals, {}),
    "ridge": (lambda make: make(sm.OLS).fit_regularized(alpha=0.3, L1_wt=0), regularised(0.3, 0), {}),
    "lasso": (lambda make: make(sm.OLS).fit_regularized(alpha=0.1, **TIGHT), regularised(0.1, 1), {}),
    "elastic net": (
        lambda make: make(sm.OLS).fit_regularized(alpha=0.2, L1_wt=0.5, **TIGHT),
        regularised(0.2, 0.5),
        {},
    ),
    "vector ridge": (
        lambda make: make(sm.OLS).fit_regularized(alpha=VECTOR, L1_wt=0),
        regularised(VECTOR, 0),
        {"penalty": VECTOR, "l1_ratio": 0},
    ),
    "vector elastic net": (
        lambda make: make(sm.OLS).fit_regularized(alpha=VECTOR, L1_wt=0.5, **TIGHT),
        regularised(VECTOR, 0.5),
        {"penalty": VECTOR, "l1_ratio": 0.5},
    ),
    "weighted elastic net": (
        lambda make: make(sm.WLS).fit_regularized(alpha=0.2, L1_wt=0.5, **TIGHT),
        regularised(0.2, 0.5, weighted=True),
        {"penalty": 0.2, "l1_ratio": 0.5},
    ),
    "median": (lambda make: make(sm.QuantReg).fit(q=0.5, p_tol=1e-10), quantile_residuals, {}),
    "quantile": (lambda make: make(sm.QuantReg).fit(q=0.8, p_tol=1e-10), quantile_residuals, {}),
    "huber": (lambda make: tightly(make(sm.RLM)), robust_residuals, {}),
    "least squares": (
        lambda make: tightly(make(sm.RLM, M=sm.robust.norms.LeastSquares())),
        robust_residuals,
        {},
    ),
    "gaussian glm": (lambda make: make(sm.GLM).fit(), ols_residuals, {}),
}
WEIGHTED = ("wls", "weighted elastic net")


def weights_of(name, new):
    """Options that give new rows their weights, where the model has weights."""
    return {"wls_weights": new["w"].to_numpy()} if name in WEIGHTED else {}


def from_formula(frame, smooth=False):
    def make(model, **more):
        weights = {"weights": frame["w"]} if model is sm.WLS else {}
        return model.from_formula(SMOOTH if smooth else FORMULA, frame, **weights, **more)

    return make


def from_arrays(frame, smooth=False, as_frame=False):
    y, X = arrays_of(frame, smooth)
    y, X = (y, X) if as_frame else (np.asarray(y), np.asarray(X))

    def make(model, **more):
        weights = {"weights": np.asarray(frame["w"])} if model is sm.WLS else {}
        return model(y, X, **weights, **more)

    return make


def arrays_of(frame, smooth=False):
    if smooth:
        return frame.get("y"), sm.add_constant(frame[["x1", "x2", "w"]], has_constant="add")
    dummies = pd.get_dummies(frame["g"], dtype=float).reindex(columns=["b", "c"], fill_value=0.0)
    X = pd.concat([pd.Series(1.0, frame.index, name="const"), dummies, frame[["x1", "x2"]]], axis=1)
    return frame.get("y"), X


def assert_ends_flip(residuals, X, y, w, row, weight, pieces, side, alpha, step):
    """Refits a step inside and outside of every finite end."""
    flipped = 0
    for end, inward in [(low, 1) for low, _ in pieces] + [(high, -1) for _, high in pieces]:
        if not np.isfinite(end):
            continue
        for way, wanted in ((step, True), (-step, False)):
            z = end + inward * way
            if wanted != any(low <= z <= high for low, high in pieces):
                continue
            found = residuals(np.vstack([X, row]), np.append(y, z), np.append(w, weight))
            slack = 0.01 * way  # rows that are fitted exactly tie but for rounding errors
            assert (p_value(found, SCORES[side], slack) > alpha) == wanted, (end, way, pieces)
            flipped += 1
    return flipped


@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.IterationLimitWarning")
@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ConvergenceWarning")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("origin", ["formula", "arrays"])
@pytest.mark.parametrize("name", CASES)
def test_p_flips_at_the_ends_when_statsmodels_refits(name, origin, side):
    fit, refit, options = CASES[name]
    quantile, flipped = refit is quantile_residuals, 0
    for seed, alpha in ((0, 0.1), (1, 0.3), (2, 0.2)):
        frame, new = drawn(seed)
        res = fit((from_formula if origin == "formula" else from_arrays)(frame, smooth=quantile))
        made = stabconf.conformal(res, alpha=alpha, **options)
        X, rows = (np.asarray(arrays_of(each, quantile)[1]) for each in (frame, new))
        exog = new if origin == "formula" else rows
        weights = new["w"].to_numpy() if name in WEIGHTED else np.ones(len(new))
        extra = {"wls_weights": weights} if name in WEIGHTED else {}
        ends = made.conf_int_conformal(exog, side=side, **extra)
        y, w = frame["y"].to_numpy(), frame["w"].to_numpy() if name in WEIGHTED else np.ones(len(frame))
        for i, (label, end) in enumerate(ends.iterrows()):
            pieces = ends.attrs["pieces"].get(label, [tuple(end)])
            where = rows[i], weights[i], pieces, side, alpha, 1e-3 if quantile else 1e-5
            flipped += assert_ends_flip(lambda *sample, res=res: refit(res, *sample), X, y, w, *where)
    assert flipped >= 6


@pytest.mark.parametrize("name", ["ols", "wls", "elastic net", "quantile", "huber"])
def test_conformity_is_that_of_refits(name):
    fit, refit, options = CASES[name]
    frame, new = drawn(4)
    smooth = name == "quantile"
    res = fit(from_formula(frame, smooth))
    X, row = np.asarray(arrays_of(frame, smooth)[1]), np.asarray(arrays_of(new, smooth)[1])[0]
    extra = {"wls_weights": [2.0]} if name == "wls" else {}
    z = np.linspace(-4.0, 5.0, 7)
    made = stabconf.conformal(res, **options)
    found = made.conformity(new.iloc[:1], z, **extra)["p"].to_numpy()
    w = np.append(frame["w"], 2.0)
    wanted = [p_value(refit(res, np.vstack([X, row]), np.append(frame["y"], each), w)) for each in z]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    chosen = made.conformal_set(new.iloc[:1], z, alpha=0.2, **extra).iloc[0]
    assert chosen == tuple(each for each, p in zip(z, wanted, strict=True) if p > 0.2)


@pytest.mark.parametrize("level", [0.5, 0.25, 0.8])
@pytest.mark.parametrize("rounded", [False, True])
def test_ties_of_quantile_regression_go_to_the_smallest_norm(level, rounded):
    """Group quantiles: the minimisers are an interval, of which the point nearest to 0 is taken."""

    def quantile(y):
        y, place = np.sort(y), level * len(y)
        if abs(place - round(place)) > 1e-9:
            return y[int(np.ceil(place)) - 1]
        return np.clip(0.0, y[round(place) - 1], y[round(place)])

    rng, checked = np.random.default_rng(0), 0
    for n in (19, 20, 24):
        frame = pd.DataFrame({"g": np.resize(["a", "b"], n), "y": rng.standard_normal(n) * 2 + 1})
        frame["y"] = frame["y"].round() if rounded else frame["y"]
        made = stabconf.conformal(smf.quantreg("y ~ C(g) - 1", frame).fit(q=level), alpha=0.2)
        ends = made.conf_int_conformal({"g": ["a"]})
        pieces = ends.attrs["pieces"].get(0, [tuple(ends.iloc[0])])
        near = np.ravel(pieces)[:, None] + [-1e-6, 1e-6]
        for z in np.append(near, rng.uniform(-6, 8, 30)):
            groups, y = np.append(frame["g"], "a"), np.append(frame["y"], z)
            centre = {group: quantile(y[groups == group]) for group in "ab"}
            scores = np.abs(y - [centre[group] for group in groups])
            p = (1 + np.sum(scores[:-1] >= scores[-1] - 1e-9)) / len(y)
            assert (p > 0.2) == any(low <= z <= high for low, high in pieces), (n, z, p, pieces)
            checked += 1
    assert checked > 90


# What a user sees ---------------------------------------------------------------------------------


def test_coefficients_and_predictions_are_those_of_statsmodels():
    frame, new = drawn(0)
    for name, (fit, _, options) in CASES.items():
        res = fit(from_formula(frame))
        made = stabconf.conformal(res, **options)
        np.testing.assert_array_equal(made.params, res.params)
        np.testing.assert_allclose(made.predict(new), res.predict(new), rtol=1e-12)
        np.testing.assert_allclose(made.fittedvalues, res.fittedvalues, rtol=1e-10, atol=1e-12)
        assert list(made.fittedvalues.index) == list(frame.index) and made.nobs == len(frame)
        # QuantReg's iterations end near a minimiser, of which there may be many.
        assert made.mismatch < (0.01 if made.recipe.loss.kind == "step" else 1e-6)
        table = made.get_prediction(new, **weights_of(name, new)).summary_frame(alpha=0.2)
        assert list(table.columns) == ["mean", "obs_ci_lower", "obs_ci_upper"]
        assert list(table.index) == [7, 3]


@pytest.fixture
def formulaic():
    options = pytest.importorskip(
        "statsmodels.formula.options", reason="statsmodels before 0.15 has patsy alone"
    )
    before = options.formula_engine
    options.formula_engine = "formulaic"
    yield options
    options.formula_engine = before


def test_formulaic_results_give_what_patsy_results_give(formulaic):
    frame, new = drawn(0)
    new.loc[5] = [np.nan, 1.0, "a", 1.0]
    other = stabconf.conformal(smf.ols(FORMULA, frame).fit())
    assert type(other._design._info).__module__.startswith("formulaic")
    formulaic.formula_engine = "patsy"
    made = stabconf.conformal(smf.ols(FORMULA, frame).fit())
    pd.testing.assert_frame_equal(made.conf_int_conformal(new), other.conf_int_conformal(new))
    again = pickle.loads(pickle.dumps(other))
    pd.testing.assert_frame_equal(again.conf_int_conformal(new), other.conf_int_conformal(new))
    with pytest.raises(InputError, match="that training did not have"):
        other.conf_int_conformal(new.assign(g="z"))
    with pytest.raises(InputError, match="lacks column 'x2'"):
        other.conf_int_conformal(new.drop(columns="x2"))


def test_missing_rows_and_the_index_are_kept():
    frame, new = drawn(0)
    frame.loc["row3", "x1"] = np.nan
    frame.loc["row8", "y"] = np.nan
    new.loc[9] = [np.nan, 1.0, "a", 1.0]
    made = stabconf.conformal(smf.ols(FORMULA, frame).fit())
    assert made.nobs == 38 and "row3" not in made.fittedvalues.index
    for table in (made.conf_int_conformal(new), made.get_prediction(new).summary_frame()):
        assert list(table.index) == [7, 3, 9]
        assert table.loc[9].isna().all() and table.loc[[7, 3]].notna().all(axis=None)
    y, X = arrays_of(frame)
    arrays = stabconf.conformal(sm.OLS(y, X, missing="drop").fit())
    assert list(arrays.fittedvalues.index) == list(made.fittedvalues.index)
    np.testing.assert_allclose(arrays.conf_int_conformal(arrays_of(new)[1]), made.conf_int_conformal(new))
    # Weights that are missing take their rows along.
    frame.loc["row5", "w"] = np.nan
    weighted = stabconf.conformal(smf.wls(FORMULA, frame, weights=frame["w"]).fit())
    assert weighted.nobs == 37


def test_rows_of_array_models_come_in_any_shape():
    frame, new = drawn(0)
    made = stabconf.conformal(from_arrays(frame, as_frame=True)(sm.OLS).fit())
    exog = arrays_of(new)[1]
    whole = made.conf_int_conformal(exog)
    np.testing.assert_allclose(made.conf_int_conformal(exog.to_numpy()), whole)
    np.testing.assert_allclose(made.conf_int_conformal(exog.to_numpy()[0]), whole.iloc[:1])
    np.testing.assert_allclose(made.conf_int_conformal(exog[exog.columns[::-1]]), whole)  # by name
    plain = made.conf_int_conformal(pd.DataFrame(exog.to_numpy(), index=exog.index))  # by position
    pd.testing.assert_frame_equal(plain, whole)
    assert len(made.conf_int_conformal()) == len(frame)
    # A model of arrays has no names of its own: x1, x2, ... are statsmodels'.
    bare = stabconf.conformal(from_arrays(frame)(sm.OLS).fit())
    pd.testing.assert_frame_equal(bare.conf_int_conformal(exog), whole)
    by_scale = bare.conf_int_conformal(exog, method="split", scale=lambda rows: rows.iloc[:, 4] + 1.0)
    assert by_scale.shape == (2, 2)
    single = stabconf.conformal(sm.OLS(frame["y"].to_numpy(), np.ones(len(frame))).fit())
    assert len(single.conf_int_conformal(np.ones(3))) == 3
    with pytest.raises(InputError, match="add_constant"):
        made.conf_int_conformal(exog.drop(columns="const"))
    with pytest.raises(InputError, match="5 columns"):
        made.conf_int_conformal(exog.to_numpy()[:, :3])
    with pytest.raises(InputError, match="gives inf"):
        made.conf_int_conformal(np.full((1, 5), np.inf))
    with pytest.raises(InputError, match="array of numbers"):
        made.conf_int_conformal([["a", "b"]])


def test_defaults_are_those_that_conformal_was_given():
    frame, new = drawn(0)
    made = stabconf.conformal(smf.ols(FORMULA, frame).fit(), alpha=0.3, method="split")
    ends = made.conf_int_conformal(new)
    assert ends.attrs["alpha"] == 0.3 and ends.attrs["method"] == "split"
    table = made.get_prediction(new).summary_frame()
    np.testing.assert_array_equal(table[["obs_ci_lower", "obs_ci_upper"]], ends)
    assert "0.3" in str(made.summary())
    levels = stabconf.conformal(smf.ols(FORMULA, frame).fit(), alpha=[0.1, 0.3]).conf_int_conformal(new)
    assert levels.shape == (2, 4)
    with pytest.raises(InputError, match="alpha"):
        stabconf.conformal(smf.ols(FORMULA, frame).fit(), alpha=2.0)
    with pytest.warns(stabconf.SampleSizeWarning) as caught:
        assert np.all(np.isinf(made.conf_int_conformal(new, alpha=0.001, method="exact")))
    assert caught[0].filename == __file__  # points at this line


def test_weights_of_new_rows_are_numbers_or_a_column_and_1_by_default():
    frame, new = drawn(0)
    made = stabconf.conformal(smf.wls(FORMULA, frame, weights=frame["w"]).fit())
    by_column = made.conf_int_conformal(new, wls_weights="w")
    np.testing.assert_array_equal(by_column, made.conf_int_conformal(new, wls_weights=new["w"]))
    np.testing.assert_array_equal(
        by_column, made.get_prediction(new, wls_weights="w").summary_frame().iloc[:, 1:]
    )
    with pytest.warns(DataWarning, match="wls_weights is not given"):
        default = made.conf_int_conformal(new)
    np.testing.assert_array_equal(default, made.conf_int_conformal(new, wls_weights=1.0))
    width = {name: ends["upper"] - ends["lower"] for name, ends in {"w": by_column, "1": default}.items()}
    assert width["w"][7] < width["1"][7] and width["w"][3] > width["1"][3]
    # Equal weights change nothing.
    flat = stabconf.conformal(smf.wls(FORMULA, frame, weights=np.full(len(frame), 4.0)).fit())
    same = flat.conf_int_conformal(new, wls_weights=4.0)
    np.testing.assert_allclose(
        same, stabconf.conformal(smf.ols(FORMULA, frame).fit()).conf_int_conformal(new)
    )
    gone = made.conf_int_conformal(new, wls_weights=[np.nan, 1.0])
    assert gone.loc[7].isna().all() and gone.loc[3].notna().all()
    # Bounds on the movement of predictions are in units of the response.
    tau = made.tau(new, z=2.0, wls_weights="w")
    assert tau.shape == (2, 41) and np.all(tau.to_numpy() > 0)
    stable = made.conf_int_conformal(new, method="stable", wls_weights="w")
    assert np.all(stable["lower"] <= by_column["lower"]) and np.all(stable["upper"] >= by_column["upper"])
    one = made.conf_int_conformal(new, method="replace_one", z_hat=1.0, wls_weights="w")
    assert np.all(one["lower"] <= by_column["lower"]) and np.all(one["upper"] >= by_column["upper"])
    for bad in (-1.0, [1.0], "v", [[1.0, 2.0]]):
        with pytest.raises(InputError, match="wls_weights"):
            made.conf_int_conformal(new, wls_weights=bad)
    with pytest.raises(InputError, match="give exog"):
        made.conf_int_conformal(wls_weights=2.0)
    with pytest.raises(InputError, match="go with a weighted model"):
        stabconf.conformal(smf.ols(FORMULA, frame).fit()).conf_int_conformal(new, wls_weights=2.0)


@pytest.mark.parametrize("name", CASES)
def test_every_method_and_the_summary_work(name):
    fit, _, options = CASES[name]
    frame, new = drawn(0)
    made = stabconf.conformal(fit(from_formula(frame)), alpha=0.2, **options)
    weights = weights_of(name, new)
    exact = made.conf_int_conformal(new, **weights)
    for method in ("split", "cross", "cv+", "jackknife+"):
        ends = made.conf_int_conformal(new, method=method, **weights)
        assert np.all(ends["lower"] < ends["upper"])
    off = made.conf_int_conformal(new, method="root", **weights) - exact
    assert np.max(np.abs(off.to_numpy())) < 1e-3
    text = str(made.summary())
    assert made.recipe.label in text and "Coefficients are those of statsmodels" in text
    assert "covers with probability" in " ".join(text.split()) and "exact" in text
    expected = {"huber": "scale is held fixed", "wls": "part of the row", "median": "smallest norm"}
    assert expected.get(name, "") in text.replace("\n    ", " ")
    if name in ("ridge", "elastic net"):
        assert "read off the coefficients" in text


def test_pickling_round_trips(tmp_path):
    frame, new = drawn(0)
    for make in (from_formula(frame), from_arrays(frame)):
        exog = new if make.__qualname__.startswith("from_formula") else arrays_of(new)[1].to_numpy()
        res = make(sm.WLS).fit()
        made = stabconf.conformal(res)
        ends = made.conf_int_conformal(exog, wls_weights=2.0)
        made.save(tmp_path / "made.pickle")
        again = stabconf.load(tmp_path / "made.pickle")
        pd.testing.assert_frame_equal(again.conf_int_conformal(exog, wls_weights=2.0), ends)
        afresh = stabconf.conformal(pickle.loads(pickle.dumps(res)))
        pd.testing.assert_frame_equal(afresh.conf_int_conformal(exog, wls_weights=2.0), ends)


def test_after_remove_data_what_survives_serves_and_what_does_not_is_named():
    frame, new = drawn(0)
    res = from_formula(frame)(sm.OLS).fit()
    before = stabconf.conformal(res)
    ends = before.conf_int_conformal(new)
    res.remove_data()
    pd.testing.assert_frame_equal(stabconf.conformal(res).conf_int_conformal(new), ends)  # has its frame
    pd.testing.assert_frame_equal(before.conf_int_conformal(new), ends)
    arrays = from_arrays(frame)(sm.OLS).fit()
    before = stabconf.conformal(arrays)
    arrays.remove_data()
    with pytest.raises(InputError, match="remove_data"):
        stabconf.conformal(arrays)
    np.testing.assert_allclose(before.conf_int_conformal(arrays_of(new)[1].to_numpy()), ends)


def test_frames_that_were_changed_and_dropped_columns_do_no_harm():
    frame, new = drawn(0)
    res = smf.ols(FORMULA, frame).fit()
    ends = stabconf.conformal(res).conf_int_conformal(new)
    frame["x1"] = 0.0
    pd.testing.assert_frame_equal(stabconf.conformal(res).conf_int_conformal(new), ends)
    frame.index = range(len(frame))
    made = stabconf.conformal(res)
    np.testing.assert_allclose(made.conf_int_conformal(new), ends)
    with pytest.raises(InputError, match="that training did not have"):
        made.conf_int_conformal(new.assign(g="z"))
    with pytest.raises(InputTypeError, match="cannot be pickled"):
        made.save("nowhere.pickle")
    frame, new = drawn(0)
    fewer = sm.OLS.from_formula(FORMULA, frame, drop_cols=["x2"]).fit()
    wanted = stabconf.conformal(smf.ols("y ~ x1 + C(g)", frame).fit()).conf_int_conformal(new)
    np.testing.assert_allclose(stabconf.conformal(fewer).conf_int_conformal(new), wanted)


def test_names_of_the_calling_scope_and_transformed_responses_are_known():
    frame, new = drawn(0)
    shift = 10.0

    def root(values):
        return np.sqrt(values + shift)

    res = smf.ols("root(y) ~ np.exp(x1 / shift) + bs(x2, df=4)", frame).fit()
    inside = new.assign(x2=[1.0, 4.0])
    made = stabconf.conformal(res)
    table = made.get_prediction(inside).summary_frame()
    np.testing.assert_allclose(table["mean"], res.predict(inside))
    assert made.conf_int_conformal(inside).columns.name == "root(y)"


def test_coefficients_that_do_not_minimise_are_named():
    frame, _ = drawn(0)
    early = smf.ols(FORMULA, frame).fit_regularized(alpha=0.2, L1_wt=0.5, maxiter=2)
    with pytest.warns(MismatchWarning, match=r"OLS, regularised.*differ from the minimiser.*maxiter"):
        stabconf.conformal(early, penalty=0.2, l1_ratio=0.5)
    with pytest.warns(MismatchWarning, match=r"QuantReg.*p_tol"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=sm.tools.sm_exceptions.IterationLimitWarning)
        stabconf.conformal(smf.quantreg(FORMULA, frame).fit(max_iter=2))
    with pytest.warns(MismatchWarning, match=r"RLM, HuberT.*conv='coefs'"):
        stabconf.conformal(smf.rlm(FORMULA, frame).fit(conv="dev", tol=1.0))
    with pytest.warns(MismatchWarning, match="check the penalty"):
        stabconf.conformal(
            smf.ols(FORMULA, frame).fit_regularized(alpha=0.2, L1_wt=0), penalty=0.1, l1_ratio=0
        )


# Penalties ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("free", [False, True])
def test_the_penalty_is_read_off_the_coefficients(l1_ratio, free):
    frame, _ = drawn(1)
    y, X = (np.asarray(each) for each in arrays_of(frame))
    strength = 0.2 * np.ones(5)
    strength[0] = 0.0 if free else 0.2
    res = sm.OLS(y, X).fit_regularized(alpha=strength, L1_wt=l1_ratio, **TIGHT if l1_ratio else {})
    found = recovered_penalty(X, y, res.params, 0)
    np.testing.assert_allclose(found.ridge, (1 - l1_ratio) * strength, atol=1e-7)
    np.testing.assert_allclose(found.lasso, l1_ratio * strength, atol=1e-7)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("formula", ["y ~ x1", "y ~ x1 - 1"])
def test_the_penalty_of_one_predictor_is_read_off_where_two_coefficients_tell_and_else_asked_for(
    formula, l1_ratio
):
    frame, new = drawn(1)
    res = smf.ols(formula, frame).fit_regularized(alpha=0.1, L1_wt=l1_ratio, **TIGHT if l1_ratio else {})
    given = stabconf.conformal(res, penalty=0.1, l1_ratio=l1_ratio).conf_int_conformal(new)
    if formula == "y ~ x1" and l1_ratio != 0.5:
        np.testing.assert_allclose(stabconf.conformal(res).conf_int_conformal(new), given)
    else:
        with pytest.raises(InputError, match="give penalty= and l1_ratio="):
            stabconf.conformal(res)


def test_a_penalty_that_cannot_be_read_off_must_be_given():
    frame, new = drawn(0)
    res = smf.ols(FORMULA, frame).fit_regularized(alpha=VECTOR, L1_wt=0.5, **TIGHT)
    with pytest.raises(InputError, match="give penalty= and l1_ratio="):
        stabconf.conformal(res)
    stabconf.conformal(res, penalty=VECTOR, l1_ratio=0.5)
    with pytest.raises(InputError, match="together"):
        stabconf.conformal(res, penalty=VECTOR)
    with pytest.raises(InputError, match="each of the 5"):
        stabconf.conformal(res, penalty=[1.0, 2.0], l1_ratio=0.5)
    with pytest.raises(InputError, match="l1_ratio"):
        stabconf.conformal(res, penalty=0.1, l1_ratio=2)
    with pytest.raises(InputError, match="go with results of fit_regularized"):
        stabconf.conformal(smf.ols(FORMULA, frame).fit(), penalty=0.1, l1_ratio=0)
    stabconf.register()
    try:
        ends = res.conf_int_conformal(new, penalty=VECTOR, l1_ratio=0.5)
        assert np.all(np.isfinite(ends))
    finally:
        stabconf.unregister()


# Refusals -----------------------------------------------------------------------------------------


def refused():
    """Results that have no intervals, and what their errors must say."""
    frame, _ = drawn(0)
    y, X = frame["y"], arrays_of(frame)[1]
    yield (
        "Logit of a response that is 0 or 1.*set of labels",
        sm.Logit((y > 0).astype(float), X).fit(disp=0),
    )
    near = 0.5 ** np.abs(np.subtract.outer(np.arange(len(y)), np.arange(len(y))))
    yield "GLS has.*not exchangeable.*Instead, fit OLS", sm.GLS(y, X, sigma=near).fit()
    yield "GLS has.*use WLS with weights=1 / sigma", sm.GLS(y, X, sigma=1 / frame["w"]).fit()
    yield "GLS has.*use WLS with weights=1 / sigma", sm.GLS(y, X, sigma=np.diag(1 / frame["w"])).fit()
    yield "GLSAR has.*not exchangeable.*Instead, fit OLS", sm.GLSAR(y.to_numpy(), X.to_numpy()).fit()
    yield "AutoReg has.*not exchangeable.*forecast intervals", sm.tsa.AutoReg(y.to_numpy(), 1).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups, level = np.resize([0, 1, 2, 3], len(y)), (y > y.median()).astype(int) + (y > 2)
        dependent = {
            "OrdinalGEE": sm.OrdinalGEE(level, X[["x1"]], groups=groups),
            "NominalGEE": sm.NominalGEE(level, X[["x1"]], groups=groups),
        }
        dependent = {name: model.fit() for name, model in dependent.items()}
        recursive = sm.RecursiveLS(y.to_numpy(), X.to_numpy()).fit()
        hazard = sm.PHReg(np.exp(y), X[["x1"]]).fit()
        splines = BSplines(frame[["x2"]], df=[6], degree=[3])
        additive = sm.GLMGam(y, X[["const", "x1"]], smoother=splines, alpha=5.0).fit()
        several = GLSHet(y.to_numpy(), X.to_numpy(), exog_var=X.to_numpy()).fit()
    for name, res in dependent.items():
        yield f"{name} has.*category.*set of labels.*conformal_set", res
    yield "RecursiveLS has.*come in an order.*forecast intervals", recursive
    yield "PHReg has.*censored.*logarithms", hazard
    yield "GLMGam has no conformal intervals.*estimator=", additive
    yield "GLSHet has no conformal intervals.*estimator=", several


def test_a_column_that_depends_on_others_changes_no_interval():
    frame, new = drawn(0)
    for fit in (smf.ols, smf.quantreg):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            once, twice = (fit(f"y ~ x1 + x2{more}", frame).fit() for more in ("", " + I(2 * x1)"))
            made = [stabconf.conformal(res).conf_int_conformal(new, alpha=0.2) for res in (once, twice)]
        np.testing.assert_allclose(*made, atol=1e-6)


def test_what_is_not_supported_is_refused_with_a_way_out():
    count = 0
    for match, res in refused():
        with pytest.raises(AssumptionError, match=f"(?s){match}"):
            stabconf.conformal(res)
        count += 1
    assert count == 12
    with pytest.raises(InputTypeError, match="give a fitted result"):
        stabconf.conformal("res")
    frame, new = drawn(0)
    with pytest.raises(AssumptionError, match="transductive"):
        stabconf.conformal(smf.ols(FORMULA, frame).fit()).conf_int_conformal(new, transductive=True)
    with pytest.raises(InputError, match="weights must be positive"):
        stabconf.conformal(smf.wls(FORMULA, frame, weights=frame["w"].clip(lower=1) - 1).fit())


# Registration -------------------------------------------------------------------------------------


def test_register_and_unregister_leave_the_classes_as_found():
    classes = (RegressionResults, OLSResults, QuantRegResults, RLMResults, RegularizedResults)
    before = [dict(vars(kind)) for kind in classes]
    frame, new = drawn(0)
    res = smf.ols(FORMULA, frame).fit()
    assert not hasattr(res, "conf_int_conformal")
    stabconf.register()
    stabconf.register()
    try:
        for name, (fit, _, options) in CASES.items():
            options = {**options, **weights_of(name, new)}
            fitted = fit(from_formula(frame))
            if not hasattr(fitted, "conf_int_conformal"):
                assert isinstance(fitted.model, sm.GLM)
                continue
            ends = fitted.conf_int_conformal(new, alpha=0.2, **options)
            model = {name: options.pop(name) for name in ("penalty", "l1_ratio") if name in options}
            wanted = stabconf.conformal(fitted, **model).conf_int_conformal(new, alpha=0.2, **options)
            pd.testing.assert_frame_equal(ends, wanted)
        with pytest.raises(AssumptionError, match="GLS has"):
            sm.GLS(frame["y"], arrays_of(frame)[1]).fit().conf_int_conformal()
    finally:
        stabconf.unregister()
    stabconf.unregister()
    assert [dict(vars(kind)) for kind in classes] == before
    assert not hasattr(res, "conf_int_conformal")


def test_a_method_of_the_same_name_is_left_alone(monkeypatch):
    monkeypatch.setattr(RLMResults, "conf_int_conformal", len, raising=False)
    with pytest.raises(InputError, match="not stabconf's"):
        stabconf.register()
    assert "conf_int_conformal" not in vars(RegressionResults)
    stabconf.unregister()
    assert RLMResults.conf_int_conformal is len


def test_results_are_not_changed():
    frame, new = drawn(0)
    res = smf.ols(FORMULA, frame).fit()
    before = pickle.dumps([res.params, res.model.exog, res.model.endog, sorted(vars(res.model))])
    stabconf.conformal(res).conf_int_conformal(new)
    assert pickle.dumps([res.params, res.model.exog, res.model.endog, sorted(vars(res.model))]) == before


# Speed --------------------------------------------------------------------------------------------


def test_memory_of_exact_least_squares_does_not_grow_with_n_times_m():
    import tracemalloc

    rng = np.random.default_rng(0)
    X = sm.add_constant(rng.standard_normal((4000, 5)))
    made = stabconf.conformal(sm.OLS(X.sum(axis=1) + rng.standard_t(3, 4000), X).fit())
    new = sm.add_constant(rng.standard_normal((20_000, 5)))
    made.conf_int_conformal(new[:10])
    tracemalloc.start()
    try:
        made.conf_int_conformal(new, progress=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.02 * 8 * 4000 * 20_000, sys.getsizeof(new)


# Weights, and what cannot be fitted again -----------------------------------------------------------


def test_a_users_own_kind_of_a_supported_model_is_taken_for_it():
    class Mine(sm.OLS):
        pass

    frame, new = drawn(0)
    ends = stabconf.conformal(Mine.from_formula(FORMULA, frame).fit()).conf_int_conformal(new)
    wanted = stabconf.conformal(sm.OLS.from_formula(FORMULA, frame).fit()).conf_int_conformal(new)
    pd.testing.assert_frame_equal(ends, wanted)


@pytest.mark.parametrize("name", ["ols", "wls", "ridge", "median", "huber"])
def test_a_model_of_statsmodels_is_not_fitted_again(name):
    """With another penalty weights and scale would be lost: refused, whoever asks."""
    frame, new = drawn(0)
    made = stabconf.conformal(CASES[name][0](from_formula(frame)), alpha=0.2)
    assert not made.can_refit and stabconf.fit(FORMULA, frame).can_refit
    weights = weights_of(name, new)
    for ask in (
        lambda: made.plot_stability(new, penalties=[0.0, 0.1]),
        lambda: oracle(made, new, [0.0, 0.0]),
        lambda: made.conf_int_conformal(new, transductive=True, **weights),
        lambda: made._with_penalty(0.0),
        lambda: made._refit(made.model, made._design, made._columns),
    ):
        with pytest.raises(
            AssumptionError, match=r"fits the model again.*use the results of stabconf\.fit"
        ):
            ask()


def test_leverages_in_a_report_are_those_of_the_weighted_design(tmp_path):
    frame, new = drawn(0)
    res = smf.wls(FORMULA, frame, weights=frame["w"]).fit()
    made = stabconf.conformal(res, alpha=0.2)
    rows = made._rows(None)[0].as_fitted
    own = leverages(rows, rows[:0])[0]
    root = np.sqrt(frame["w"])
    whitened = sm.OLS(root * frame["y"], arrays_of(frame)[1].mul(root, axis=0)).fit()
    np.testing.assert_allclose(own, whitened.get_influence().hat_matrix_diag)
    assert own.sum() == pytest.approx(5.0)
    text = made.report(tmp_path / "r.md", new, wls_weights="w").read_text(encoding="utf-8")
    shown = text[text.index("### Leverage") :]
    X = np.asarray(arrays_of(new)[1]) * np.sqrt(new["w"].to_numpy())[:, None]
    fresh = np.einsum("ij,jk,ik->i", X, res.normalized_cov_params.loc[NAMES, NAMES], X)
    for values in (own, fresh):
        assert f"| {np.median(values):.4g} | {np.max(values):.4g} |" in shown


def test_weights_that_vary_must_be_given_for_new_rows(tmp_path, figures):
    """One warning a call, at the user's line; weight 1 may lie among the training weights."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0.5, 5.0, 60)})
    data["y"] = data["x"] * (1.0 + rng.standard_normal(60))
    data["w"] = data["x"] ** -2.0
    one = data.iloc[:1]
    made = stabconf.conformal(smf.wls("y ~ x", data, weights=data["w"]).fit(), alpha=0.1)
    calls = (
        lambda **more: made.conf_int_conformal(one, **more),
        lambda **more: made.get_prediction(one, **more).summary_frame(),
        lambda **more: made.conformity(one, [1.0], **more),
        lambda **more: made.conformal_set(one, [1.0, 2.0], **more),
        lambda **more: made.tau(one, z=1.0, **more),
        lambda **more: made.width_report(one, **more),
        lambda **more: made.plot_intervals(one, **more),
        lambda **more: made.plot_conformity(one, **more),
        lambda **more: made.plot_coverage(data, **more),
        lambda **more: made.report(tmp_path / "r.md", one, **more),
    )
    for call in calls:
        with pytest.warns(DataWarning, match=r"lie between 0\.04.* and 3.*give wls_weights") as caught:
            call()
        assert len(caught) == 1 and caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(wls_weights="w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.conf_int_conformal()
        made.width_report()
        made.predict(one)
        made.summary()
        flat = stabconf.conformal(smf.wls("y ~ x", data, weights=np.ones(60)).fit())
        flat.conf_int_conformal(one)


def test_intervals_with_the_weights_of_new_rows_cover_and_with_weight_1_do_not():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(0.5, 10.0, 2200)})
    data["y"] = data["x"] * (1.0 + rng.standard_normal(2200))
    data["w"] = data["x"] ** -2.0
    training, new = data.iloc[:200], data.iloc[200:]
    made = stabconf.conformal(smf.wls("y ~ x", training, weights=training["w"]).fit(), alpha=0.1)
    line = made.width_report(new, wls_weights="w").loc["all"]
    assert line["expected_lower"] <= line["coverage"] <= line["expected_upper"]
    with pytest.warns(DataWarning, match="wls_weights"):
        line = made.width_report(new).loc["all"]
    assert line["coverage"] < 0.5 < line["expected_lower"]


def test_a_default_weight_unlike_all_training_weights_is_warned_about():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(1, 2, 60)})
    data["y"] = data["x"] + 30.0 * rng.standard_normal(60)
    made = stabconf.conformal(smf.wls("y ~ x", data, weights=np.full(60, 0.25)).fit())
    with pytest.warns(stabconf.DataWarning, match=r"lie between 0\.25 and 0\.25.*give wls_weights"):
        narrow = made.conf_int_conformal(data.iloc[:1], alpha=0.1)
    wide = made.conf_int_conformal(data.iloc[:1], alpha=0.1, wls_weights=0.25)
    assert np.ptp(wide.to_numpy()) > 1.5 * np.ptp(narrow.to_numpy())


def test_clustered_rows_are_warned_about_once():
    frame, new = drawn(0)
    model, clusters = sm.OLS.from_formula(FORMULA, frame), {"groups": np.arange(len(frame)) // 4}
    res = model.fit(cov_type="cluster", cov_kwds=clusters)
    with pytest.warns(DataWarning, match="OLS with cov_type='cluster'.*hardly exchangeable") as caught:
        made = stabconf.conformal(res)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = stabconf.conformal(model.fit(cov_type="HC3"))
        pd.testing.assert_frame_equal(made.conf_int_conformal(new), plain.conf_int_conformal(new))
    assert "cov_type='cluster'" in str(made.summary()) and "cluster" not in str(plain.summary())


def test_results_of_statsmodels_have_no_fit_of_their_own():
    frame, _ = drawn(0)
    made = stabconf.conformal(smf.ols(FORMULA, frame).fit())
    assert not isinstance(made, stabconf.Results)
    for name in ("params_standardized", "scale", "radius", "converged"):
        assert not hasattr(made, name)


def test_every_end_of_weighted_rows_is_in_units_of_the_response():
    """Weights times 4 and new weights too: the same model, so the same ends, pieces, bounds and tau."""
    frame, new = drawn(3)
    first, second = (
        stabconf.conformal(smf.wls(FORMULA, frame, weights=factor * frame["w"]).fit()) for factor in (1, 4)
    )
    once, again = {"wls_weights": new["w"]}, {"wls_weights": 4 * new["w"]}
    for options in ({}, {"method": "stable", "inner": True}, {"method": "grid"}, {"side": "upper"}):
        ends = first.conf_int_conformal(new, alpha=0.2, **options, **once)
        np.testing.assert_allclose(ends, second.conf_int_conformal(new, alpha=0.2, **options, **again))
    for ask in ("conformity", "tau"):
        z = {"z": 1.0}
        np.testing.assert_allclose(
            getattr(first, ask)(new, **z, **once), getattr(second, ask)(new, **z, **again)
        )
