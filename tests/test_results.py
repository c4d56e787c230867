"""The results object: labels, shapes, alphas, sides, warnings, persistence; what a user sees."""

import csv
import inspect
import io
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression

import stabconf
from stabconf.errors import (
    AssumptionError,
    ConvergenceWarning,
    DataWarning,
    InputError,
    InputTypeError,
    SampleSizeWarning,
    StabilityWarning,
)

FORMULAS = [
    "y ~ x1 + x2",
    "y ~ x1 * C(g)",
    "y ~ bs(x2, df=4) + center(x1)",
    "y ~ standardize(x2) + np.exp(x1)",
    "y ~ 0 + x1 + g",
    "y ~ x1:x2 + I(x1**2)",
    "y ~ 1",
    "np.log(y + 20) ~ x1",
    "y ~ double(x1)",
]


def double(x):
    return 2.0 * x


@pytest.mark.parametrize("formula", FORMULAS)
def test_fitted_values_are_predictions_at_the_training_rows(frame, formula):
    res = stabconf.fit(formula, frame, loss="huber", penalty=0.01)
    pd.testing.assert_series_equal(res.predict(frame), res.fittedvalues)
    few = frame.sample(7, random_state=1)
    pd.testing.assert_series_equal(res.predict(few), res.fittedvalues[few.index], rtol=1e-10)
    assert list(res.params.index) == res.model.exog_names
    np.testing.assert_allclose(res.predict(frame), res._design.X @ res.params, rtol=1e-8, atol=1e-8)
    ends = res.conf_int_conformal(few, alpha=0.2)
    assert ends.index.equals(few.index) and (ends["lower"] < ends["upper"]).all()


def test_predictions_do_not_depend_on_which_rows_come_along(results, frame):
    """Stateful transforms remember training, and intervals of a row are those it has alone."""
    res = stabconf.fit("y ~ bs(x2, df=4) + g", frame, loss="huber", penalty=0.1)
    whole = res.conf_int_conformal(frame, alpha=0.1)
    for label in ("row3", "row40"):
        pd.testing.assert_frame_equal(
            whole.loc[[label]], res.conf_int_conformal(frame.loc[[label]], alpha=0.1)
        )


def test_params_are_those_of_the_objective_in_its_own_units(frame):
    res = stabconf.fit("y ~ x1 + x2", frame, loss="squared", penalty=0.0)
    ols = sm.OLS(frame["y"], sm.add_constant(frame[["x1", "x2"]])).fit()
    np.testing.assert_allclose(res.params, ols.params, rtol=1e-8)
    np.testing.assert_allclose(res.resid, ols.resid, atol=1e-8)


def test_without_standardisation_squared_loss_is_statsmodels_ridge(frame):
    res = stabconf.fit("y ~ x1 + x2", frame, loss="squared", penalty=0.3, standardize=False)
    ridge = sm.OLS.from_formula("y ~ x1 + x2", frame).fit_regularized(alpha=0.3, L1_wt=0.0)
    np.testing.assert_allclose(res.params, ridge.params, atol=1e-6)


def test_without_intercept_columns_are_scaled_only():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(1, 2, 30)})
    data["y"] = 2.0 * data["x"]
    res = stabconf.fit("y ~ 0 + x", data, loss="squared", penalty=0.0)
    assert res.params["x"] == pytest.approx(2.0)
    assert res._columns.mean[0] == 0 and res._columns.scale[0] == pytest.approx(data["x"].std(ddof=0))


def test_a_missing_value_keeps_its_row(results, frame):
    new = frame.iloc[:4].copy()
    new.iloc[1, new.columns.get_loc("x1")] = np.nan
    new.iloc[2, new.columns.get_loc("g")] = None
    ends = results.conf_int_conformal(new, alpha=0.1)
    assert ends.index.equals(new.index)
    assert ends.isna().all(axis=1).tolist() == [False, True, True, False]
    summary = results.get_prediction(new).summary_frame(alpha=0.1)
    assert summary["mean"].isna().tolist() == [False, True, True, False]
    assert list(summary.columns) == ["mean", "obs_ci_lower", "obs_ci_upper"]
    assert results.conf_int_conformal(new.iloc[[1]]).isna().all().all()
    assert len(results.conf_int_conformal(new.iloc[:0])) == 0


def test_duplicate_index_labels_are_kept(results, frame):
    new = pd.concat([frame.iloc[:2], frame.iloc[:2]])
    ends = results.conf_int_conformal(new)
    assert ends.index.equals(new.index)
    np.testing.assert_array_equal(ends.iloc[:2], ends.iloc[2:])


def test_training_rows_with_missing_values_are_dropped_or_refused(frame):
    data = frame.copy()
    data.loc["row5", "x1"] = np.nan
    res = stabconf.fit("y ~ x1", data)
    assert res.nobs == len(frame) - 1 and "row5" not in res.fittedvalues.index
    with pytest.raises(
        InputError, match=r"data has missing values in column 'x1' \(1 rows, the first row5\)"
    ):
        stabconf.fit("y ~ x1", data, missing="raise")


def test_several_alphas_give_a_column_level_and_nest(results, frame):
    ends = results.conf_int_conformal(frame.iloc[:5], alpha=[0.05, 0.2, 0.5])
    assert ends.columns.names == ["alpha", None] and ends.columns.nlevels == 2
    pd.testing.assert_frame_equal(
        ends[0.2], results.conf_int_conformal(frame.iloc[:5], alpha=0.2), check_names=False
    )
    for wide, narrow in ((0.05, 0.2), (0.2, 0.5)):
        assert (ends[wide]["lower"] <= ends[narrow]["lower"]).all()
        assert (ends[wide]["upper"] >= ends[narrow]["upper"]).all()
    assert ends.attrs["alpha"] == [0.05, 0.2, 0.5]


def test_one_sided_intervals_are_open_on_the_other_side(results, frame):
    upper = results.conf_int_conformal(frame, alpha=0.1, side="upper")
    lower = results.conf_int_conformal(frame, alpha=0.1, side="lower")
    both = results.conf_int_conformal(frame, alpha=0.1)
    assert np.isneginf(upper["lower"]).all() and np.isposinf(lower["upper"]).all()
    assert upper["upper"].mean() < both["upper"].mean() and lower["lower"].mean() > both["lower"].mean()


def test_inner_ends_lie_within_the_outer_ones(results, frame):
    ends = results.conf_int_conformal(frame, alpha=0.1, inner=True)
    assert list(ends.columns) == ["lower", "upper", "inner_lower", "inner_upper"]
    assert (ends["lower"] <= ends["inner_lower"]).all() and (ends["inner_upper"] <= ends["upper"]).all()


def test_the_frame_says_what_it_promises(frame):
    res = stabconf.fit("np.log(y + 20) ~ x1", frame, loss="huber")
    ends = res.conf_int_conformal(frame.iloc[:2], alpha=0.1)
    assert ends.columns.name == ends.attrs["response"] == "np.log(y + 20)" == res.predict(frame).name
    assert ends.attrs["method"] == "exact" and ends.attrs["certified"] is True
    assert "at least 0.9" in ends.attrs["guarantee"]
    assert "np.log(y + 20)" in str(res.summary())


@pytest.mark.parametrize("loss", ["squared", "lad", "huber", "logcosh", "quantile", "power"])
def test_intervals_are_equivariant(frame, loss):
    """y -> a + b y maps the interval; rescaling or shifting a column and permuting rows change nothing."""
    new = frame.iloc[:6]
    loss = stabconf.Quantile(0.5) if loss == "quantile" else loss
    options = {"loss": loss, "penalty": 0.3, "l1_ratio": 0.2}
    ends = stabconf.fit("y ~ x1 + x2 + g", frame, **options).conf_int_conformal(new, alpha=0.2)
    scale = np.ptp(frame["y"])
    mapped = stabconf.fit("y ~ x1 + x2 + g", frame.assign(y=7.0 + 3.0 * frame["y"]), **options)
    np.testing.assert_allclose(
        mapped.conf_int_conformal(new, alpha=0.2), 7.0 + 3.0 * ends, atol=1e-6 * scale
    )
    flipped = stabconf.fit("y ~ x1 + x2 + g", frame.assign(x1=5.0 - 1000.0 * frame["x1"]), **options)
    moved = flipped.conf_int_conformal(new.assign(x1=5.0 - 1000.0 * new["x1"]), alpha=0.2)
    np.testing.assert_allclose(moved, ends, atol=1e-6 * scale)
    shuffled = stabconf.fit("y ~ x1 + x2 + g", frame.sample(frac=1.0, random_state=3), **options)
    np.testing.assert_allclose(shuffled.conf_int_conformal(new, alpha=0.2), ends, atol=1e-6 * scale)


def test_tau_is_in_units_of_the_response_and_the_papers_is_twice_the_norm(frame):
    res = stabconf.fit("y ~ x1", frame, loss="lad", penalty=0.2, standardize=False)
    new = frame.iloc[:3]
    tau = res.tau(new)
    assert tau.shape == (3, res.nobs + 1) and tau.columns[-1] == "new" and tau.index.equals(new.index)
    radius = 1e-6 * np.ptp(frame["y"])
    np.testing.assert_allclose(res.tau(new, bound="paper"), 2.0 * tau, atol=radius)
    assert (res.tau(new, bound="ball") <= tau + radius).all().all()
    assert (res.tau(new, z=3.0) <= tau + radius).all().all()
    squared = stabconf.fit("y ~ x1", frame, loss="squared", penalty=0.2)
    assert np.isinf(squared.tau(new)).all().all() and np.isfinite(squared.tau(new, z=3.0)).all().all()


def test_too_few_rows_give_infinite_intervals_and_one_warning(frame):
    res = stabconf.fit("y ~ x1", frame.iloc[:12])
    with pytest.warns(
        SampleSizeWarning, match="12 rows are too few for alpha=0.05.*at least 19 rows"
    ) as caught:
        ends = res.conf_int_conformal(frame.iloc[:3], alpha=[0.05, 0.06])
    assert len(caught) == 1
    assert np.isneginf(ends.xs("lower", axis=1, level=1)).all().all()
    assert np.isposinf(ends.xs("upper", axis=1, level=1)).all().all()


def test_a_level_beyond_the_sample_has_finite_intervals(frame):
    res = stabconf.fit("y ~ x1", frame, loss=stabconf.Quantile(0.995), penalty=0.5)
    assert np.isfinite(res.conf_int_conformal(frame.iloc[:3], alpha=0.1)).all(axis=None)


@pytest.mark.parametrize("loss", ["lad", stabconf.Quantile(0.8)])
@pytest.mark.parametrize("penalty", [{"penalty": 0.0}, {"penalty": 0.1, "l1_ratio": 1.0}])
def test_losses_without_curvature_refuse_the_stable_method_without_a_ridge_part(frame, loss, penalty):
    res = stabconf.fit("y ~ x1", frame, loss=loss, **penalty)
    assert res.converged
    with pytest.raises(AssumptionError, match=r"strong convexity.*which is 0 here: use penalty > 0"):
        res.conf_int_conformal(frame, method="stable")
    with pytest.raises(AssumptionError, match="needs a loss with curvature"):
        res.conf_int_conformal(frame, method="stable", bound="curvature")


@pytest.mark.parametrize("loss", ["huber", "logcosh", "squared", "pseudo_huber"])
def test_losses_with_curvature_need_no_penalty(frame, loss):
    res = stabconf.fit("y ~ x1", frame, loss=loss, penalty=0.0)
    ends = res.conf_int_conformal(frame, alpha=0.1)
    assert np.isfinite(ends).all().all()
    covered = (ends["lower"] <= frame["y"]) & (frame["y"] <= ends["upper"])
    assert covered.mean() > 0.85


def test_costly_stability_is_said_with_its_remedy(frame):
    res = stabconf.fit("y ~ x1 + x2", frame, loss="lad", penalty=0.001)
    with pytest.warns(StabilityWarning, match="stability makes up 9.%.*use method='exact'"):
        ends = res.conf_int_conformal(frame, alpha=0.1, method="stable")
    assert ends.attrs["stability_share"] > 0.9


def test_a_bound_that_does_not_apply_is_refused_by_its_assumption(frame):
    res = stabconf.fit("y ~ x1", frame, loss="power")
    with pytest.raises(AssumptionError, match="assumes a Lipschitz loss"):
        res.conf_int_conformal(frame, bound="paper")


def test_linex_has_no_upper_end_and_says_so(frame):
    res = stabconf.fit("y ~ x1", frame, loss="linex", penalty=0.1)
    with pytest.warns(StabilityWarning, match="slope is bounded"):
        ends = res.conf_int_conformal(frame, alpha=0.1)
    assert np.isposinf(ends["upper"]).all() and np.isfinite(ends["lower"]).all()


def test_stopping_early_is_said_and_stays_valid(frame):
    with pytest.warns(ConvergenceWarning, match=r"raise max_iter \(now 1\)"):
        res = stabconf.fit("y ~ x1", frame, loss="lad", max_iter=1)
    assert not res.converged
    good = stabconf.fit("y ~ x1", frame, loss="lad")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)
        rough, fine = (r.conf_int_conformal(frame, alpha=0.2) for r in (res, good))
    assert rough.to_numpy() == pytest.approx(fine.to_numpy(), rel=1e-9)
    stable = (r.conf_int_conformal(frame, alpha=0.2, method="stable") for r in (res, good))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)
        rough, fine = stable
    assert (rough["lower"] <= fine["lower"]).all() and (rough["upper"] >= fine["upper"]).all()
    assert "did not reach its tolerance" in str(res.summary())


def test_constant_columns_and_responses_are_named(frame):
    with pytest.warns(DataWarning, match="column 'one' of the design is constant"):
        res = stabconf.fit("y ~ x1 + one", frame.assign(one=4.0))
    assert res.params["one"] == pytest.approx(0.0, abs=1e-12)
    with pytest.warns(DataWarning, match="response 'y' is 2 in every row"):
        res = stabconf.fit("y ~ x1", frame.assign(y=2.0), penalty=1.0)
    assert res.predict(frame).to_numpy() == pytest.approx(2.0)


def test_rank_deficient_designs_work(frame):
    data = frame.assign(copy=frame["x1"], twice=2 * frame["x1"])
    res = stabconf.fit("y ~ x1 + copy + twice", data, loss="huber", penalty=0.1)
    assert res.converged and res.params["x1"] == pytest.approx(res.params["copy"])
    assert np.isfinite(res.conf_int_conformal(data)).all().all()


def test_results_survive_pickling_and_saving(results, frame, tmp_path):
    for formula in ("y ~ bs(x2, df=4) + C(g)", "np.log(y + 20) ~ double(x1)"):
        res = stabconf.fit(formula, frame, loss="huber")
        res.save(tmp_path / "fit one.pickle")
        for copy in (pickle.loads(pickle.dumps(res)), stabconf.load(tmp_path / "fit one.pickle")):
            pd.testing.assert_series_equal(copy.params, res.params)
            pd.testing.assert_frame_equal(
                copy.conf_int_conformal(frame.iloc[:3]), res.conf_int_conformal(frame.iloc[:3])
            )
    (tmp_path / "other").write_bytes(pickle.dumps(3))
    with pytest.raises(InputTypeError, match="holds a int, not stabconf results"):
        stabconf.load(tmp_path / "other")
    local = lambda x: x  # noqa: E731
    res = stabconf.fit("y ~ local(x1)", frame)
    assert local(1) == 1
    with pytest.raises(InputTypeError, match="must be importable"):
        res.save(tmp_path / "lambda")
    assert not list(tmp_path.glob("*.part")) and not (tmp_path / "lambda").exists()


def test_results_are_deterministic_and_leave_their_input_alone(frame):
    before = frame.copy()
    ends = [stabconf.fit("y ~ x1 + g", frame).conf_int_conformal(frame) for _ in range(2)]
    pd.testing.assert_frame_equal(*ends)
    pd.testing.assert_frame_equal(frame, before)


def test_summary_has_every_format_and_fits_eighty_columns(results):
    summary = results.summary(alpha=0.1)
    text = summary.as_text()
    for words in ("Regularised robust regression", "y ~ x1 + x2 + g", "huber(d=1.345)", "ridge, 0.05"):
        assert words in text
    for words in ("at least 90 %", "Mean width", "Pseudo R-squared", "Mean abs. error", "Residual scale"):
        assert words in text
    hidden = ("Distance to exact", "Due to stability", "Median tau", "Order statistic")
    detailed = str(results.summary(alpha=0.1, details=True))
    assert all(words in detailed and words not in text for words in hidden)
    assert max(map(len, detailed.splitlines())) <= 80
    assert max(map(len, text.splitlines())) <= 80
    assert "<table" in summary.as_html() and "tabular" in summary.as_latex()
    assert "std err" not in text
    rows = list(csv.reader(io.StringIO(summary.as_csv())))
    penalty = next(row for row in rows if row[0] == "Penalty:")
    assert penalty[:3] == ["Penalty:", "ridge, 0.05", "Mean abs. error:"]


def test_summary_of_a_long_formula_wraps_at_eighty_columns(frame):
    formula = "np.log(y + 20) ~ " + " + ".join(
        f"np.sqrt(np.abs(x1) + {i}.25) + I(x2 ** {i})" for i in range(1, 6)
    )
    res = stabconf.fit(formula, frame, loss=stabconf.Quantile(0.12345678), penalty=0.1, l1_ratio=0.25)
    text = res.summary(alpha=0.1).as_text()
    assert max(map(len, text.splitlines())) <= 80
    said = " ".join(" ".join(line.split()) for line in text.splitlines()[2:9])
    assert "I(x2 ** 5)" in said


def test_summary_escapes_what_a_user_may_name(frame):
    data = frame.rename(columns={"x1": "<script>alert(1)</script> & 50%_$"})
    summary = stabconf.fit("y ~ Q('<script>alert(1)</script> & 50%_$')", data).summary(alpha=0.1)
    assert "<script>" not in summary.as_html() and "&lt;script&gt;" in summary.as_html()
    assert r"50\%\_\$" in summary.as_latex() and r"\textless{}" in summary.as_latex()


def test_lad_without_a_penalty_answers_whatever_ties_there_are(frame):
    data = frame.assign(copy=frame["x1"])
    res = stabconf.fit("y ~ x1 + copy", data, loss="lad", penalty=0.0)
    assert res.params["x1"] == pytest.approx(res.params["copy"])
    alone = stabconf.fit("y ~ x1", data, loss="lad", penalty=0.0)
    ends, plain = (each.conf_int_conformal(data.iloc[:4], alpha=0.1) for each in (res, alone))
    np.testing.assert_allclose(ends, plain, atol=1e-7)
    assert "exact" in str(res.summary())


def test_scope_variables_work_and_missing_ones_are_explained(frame):
    weight = frame["x1"] ** 2
    res = stabconf.fit("y ~ weight", frame)
    assert weight.name == "x1" and res.nobs == len(frame)
    with pytest.raises(InputError, match="variable 'weight' of the calling scope"):
        res.predict(frame.iloc[:3])
    assert len(res.predict(frame.iloc[:3].assign(weight=1.0))) == 3


def test_column_names_that_are_not_identifiers_work(frame):
    data = frame.rename(columns={"x1": "my column, é"})
    res = stabconf.fit("y ~ Q('my column, é')", data)
    assert len(res.conf_int_conformal(data.iloc[:2])) == 2
    with pytest.raises(InputError, match="lacks column 'my column, é'"):
        res.predict(frame)


def test_mappings_and_single_rows_are_accepted(results, frame):
    one = results.predict(frame.iloc[0])
    assert one.iloc[0] == pytest.approx(results.fittedvalues.iloc[0])
    made = results.predict({"x1": [0.0], "x2": [1.0], "g": ["a"]})
    assert np.isfinite(made.iloc[0])


def test_nullable_and_categorical_columns_work(frame):
    data = frame.assign(
        count=pd.array([1, 2, None, 4] * 20, dtype="Int64"),
        flag=pd.array([True, False] * 40, dtype="boolean"),
        g=pd.Categorical(frame["g"], categories=["c", "b", "a"]),
    )
    res = stabconf.fit("y ~ count + flag + g", data, loss="huber")
    assert res.nobs == 60 and "g[T.a]" in res.params.index
    new = pd.DataFrame(
        {"count": pd.array([3, None], dtype="Int64"), "flag": [True, False], "g": ["a", "b"]}
    )
    assert res.predict(new).isna().tolist() == [False, True]


def test_every_results_class_says_what_it_is(frame):
    import statsmodels.formula.api as smf
    from sklearn.linear_model import LinearRegression

    made = [
        stabconf.fit("y ~ x1", frame, penalty=0.1),
        stabconf.fit_quantiles("y ~ x1", frame, penalty=0.1),
        stabconf.fit("y ~ x1", frame, estimator=LinearRegression()),
        stabconf.conformal(smf.ols("y ~ x1", frame).fit()),
    ]
    words = ["ridge, 0.1", "quantiles 0.05, 0.5, 0.95", "LinearRegression", "OLS"]
    for results, word in zip(made, words, strict=True):
        assert repr(results).startswith(f"<{type(results).__name__} of 'y ~ x1': ")
        assert word in repr(results) and f"{len(frame)} rows>" in repr(results)
    chosen = stabconf.select_penalty("y ~ x1", frame, penalties=[0.1], pilot=20, alpha=0.1)
    assert repr(chosen).startswith("<Selection: penalty 0.1, mean width of the exact intervals ")
    assert "from 20 pilot rows; <Results of 'y ~ x1'" in repr(chosen)


# What each class has ---------------------------------------------------------------------------------

CLASSES = {
    "loss": lambda frame: stabconf.fit("y ~ x1", frame, loss="huber", penalty=0.1),
    "quantiles": lambda frame: stabconf.fit_quantiles("y ~ x1", frame, penalty=0.1),
    "estimator": lambda frame: stabconf.fit("y ~ x1", frame, estimator=LinearRegression(), tau=0.1),
    "statsmodels": lambda frame: stabconf.conformal(sm.OLS.from_formula("y ~ x1", frame).fit()),
}
NEEDED = {  # arguments of methods that have some, and what refuses on which classes
    "conformity": {"z": [0.0, 1.0]},
    "conformal_set": {"candidates": [0.0, 1.0]},
}
REFUSED = {
    "plot_stability": {"quantiles", "estimator", "statsmodels"},
    "predictive": {"quantiles"},
}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_public_attribute_can_be_used(frame, kind, tmp_path, figures):
    res, new = CLASSES[kind](frame), frame.iloc[[0]]
    for name in [name for name in dir(res) if not name.startswith("_")]:
        found = getattr(res, name)
        assert found is not None, name
        if not callable(found):
            continue
        given = {"path": tmp_path / "saved.md"} if name in ("save", "report") else {}
        given |= NEEDED.get(name, {})
        takes = inspect.signature(found).parameters
        given |= {rows: new for rows in ("exog", "new") if rows in takes}
        if kind in REFUSED.get(name, ()):
            with pytest.raises(AssumptionError, match=r"stabconf\.fit|loss and a penalty"):
                found(**given)
        else:
            made = found(**given)
            assert made is not None or name == "save", name


OPTIONS = [
    *(
        "groups",
        "weights",
        "conditional",
        "scale",
        "score",
        "bound",
        "inner",
        "tol",
        "budget",
        "z_hat",
        "queries",
    ),
    *("points", "calibration", "folds", "random_state", "transductive", "unseen", "in_range"),
    *("units", "n_jobs", "progress", "to"),
]


def test_options_are_parameters_that_completion_shows():
    for kind in (stabconf.Results, stabconf.EstimatorResults):
        takes = inspect.signature(kind.conf_int_conformal).parameters
        assert list(takes)[1:] == ["exog", "alpha", "method", "side", *OPTIONS, "unknown"]
        assert all(takes[name].kind is inspect.Parameter.KEYWORD_ONLY for name in OPTIONS)
    known = inspect.signature(stabconf.StatsmodelsResults.conf_int_conformal).parameters
    assert set(OPTIONS) - set(known) == {"transductive"} and "wls_weights" in known
    for name in ("conformity", "p_values", "conformal_set", "predictive", "tau", "plot_conformity"):
        assert "wls_weights" in inspect.signature(getattr(stabconf.StatsmodelsResults, name)).parameters
    assert "pair" in inspect.signature(stabconf.QuantileResults.conf_int_conformal).parameters


@pytest.mark.parametrize("kind", CLASSES)
def test_an_unknown_option_is_refused_by_name_everywhere(frame, kind):
    res = CLASSES[kind](frame)
    for ask in (res.conf_int_conformal, res.width_report, res.plot_intervals):
        with pytest.raises(InputTypeError, match="option 'bond' is unknown to method"):
            ask(frame.iloc[:2], bond="norm")


@pytest.mark.parametrize("kind", CLASSES)
def test_a_prediction_keeps_the_alpha_that_it_was_given(frame, kind):
    made = CLASSES[kind](frame).get_prediction(frame.iloc[:2], alpha=0.3)
    assert made.conf_int().attrs["alpha"] == made.summary_frame().attrs["alpha"] == 0.3
    assert made.conf_int(0.2).attrs["alpha"] == made.summary_frame(alpha=0.2).attrs["alpha"] == 0.2
    several = CLASSES[kind](frame).get_prediction(frame.iloc[:2], alpha=[0.1, 0.2])
    assert several.conf_int().shape == (2, 4)
    pd.testing.assert_frame_equal(made.conf_int(obs=True, alpha=0.2), made.conf_int(0.2))
    with pytest.raises(AssumptionError, match="obs=False asks for an interval of the mean"):
        made.conf_int(obs=False)
    with pytest.raises(InputTypeError, match="takes one number"):
        several.summary_frame()
