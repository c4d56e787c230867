"""Statsmodels models without exact sets: their refits by formula as referee, ranges, clusters, coverage."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.discrete.truncated_model import HurdleCountModel, TruncatedLFPoisson
from statsmodels.miscmodels.ordinal_model import OrderedModel
from statsmodels.othermod.betareg import BetaModel

import stabconf
from stabconf.errors import (
    AssumptionError,
    DataWarning,
    InputError,
    InputTypeError,
    MismatchWarning,
    SampleSizeWarning,
)

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "statsmodels.md"
LOG = sm.families.links.Log()
quiet = pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.ModelWarning")


def drawn(seed=0, n=60, size=5):
    """Rows in clusters of ``size``, and responses of every kind."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "g": np.resize(["a", "b"], n),
            "t": rng.uniform(0.5, 2.0, n),
            "id": np.repeat(np.arange(n // size), size),
        },
        index=[f"row{i}" for i in range(n)],
    )
    frame["log_t"] = np.log(frame["t"])
    effect = rng.standard_normal(n // size)[frame["id"]]
    mean = np.exp(0.8 + 0.5 * frame["x"])
    frame["count"] = rng.poisson(frame["t"] * mean)
    frame["some"] = 1 + rng.poisson(mean)
    frame["zeros"] = frame["count"] * rng.binomial(1, 0.7, n)
    frame["positive"] = rng.gamma(2.0, mean)
    frame["trials"] = rng.integers(3, 12, n)
    frame["good"] = rng.binomial(frame["trials"], 1.0 / (1.0 + np.exp(-frame["x"])))
    frame["bad"] = frame["trials"] - frame["good"]
    frame["share"] = rng.beta(2.0, 3.0, n)
    frame["y"] = frame["x"] + effect + rng.standard_t(3, n)
    new = pd.DataFrame({"x": [-2.0, 0.3, 1.0], "g": ["a", "b", "a"], "t": [0.6, 1.0, 1.9]}, index=[9, 7, 3])
    return frame, new.assign(log_t=np.log(new["t"]), id=[90, 91, 92])


def glm(formula, family, **columns):
    """A GLM whose further inputs are columns of the frame."""

    def fit(frame, **more):
        inputs = {name: frame[column] for name, column in columns.items()}
        return smf.glm(formula, frame, family=family, **inputs, **more).fit()

    return fit


def discrete(model, formula, **columns):
    def fit(frame):
        inputs = {name: frame[column] for name, column in columns.items()}
        return model.from_formula(formula, frame, **inputs).fit(disp=0)

    return fit


families = sm.families
TUKEY = sm.robust.norms.TukeyBiweight()
# A row of the table in the guide: the fit, options of `conformal`, inputs of predictions, the range.
REFITS = {
    "GLM, Poisson": (
        glm("count ~ x + g", families.Poisson(), exposure="t"),
        {"exposure": "t"},
        {"exposure": "t"},
        (0, np.inf),
    ),
    "GLM, NegativeBinomial": (
        glm("count ~ x", families.NegativeBinomial(alpha=0.5), offset="log_t"),
        {"offset": "log_t"},
        {"offset": "log_t"},
        (0, np.inf),
    ),
    "GLM, Gamma": (
        glm("positive ~ x + g", families.Gamma(LOG), var_weights="t"),
        {},
        {},
        (0, np.inf),
    ),
    "GLM, InverseGaussian": (glm("positive ~ x", families.InverseGaussian(LOG)), {}, {}, (0, np.inf)),
    "GLM, Tweedie": (glm("zeros ~ x", families.Tweedie(LOG, var_power=1.5)), {}, {}, (0, np.inf)),
    "GLM, Binomial": (glm("good + bad ~ x", families.Binomial()), {}, {}, (0, 1)),
    "GLM, Gaussian": (glm("y ~ x", families.Gaussian(), var_weights="t"), {}, {}, (-np.inf, np.inf)),
    "GLM, fit_regularized": (
        lambda frame: smf.glm("count ~ x", frame, family=families.Poisson()).fit_regularized(
            alpha=0.1, L1_wt=0.5
        ),
        {"penalty": 0.1, "l1_ratio": 0.5},
        {},
        (0, np.inf),
    ),
    "OLS, fit_regularized(refit=True)": (
        lambda frame: smf.ols("y ~ x + t + log_t", frame).fit_regularized(alpha=0.1, L1_wt=1.0, refit=True),
        {"penalty": 0.1, "l1_ratio": 1.0},
        {},
        (-np.inf, np.inf),
    ),
    "Poisson": (
        discrete(sm.Poisson, "count ~ x", exposure="t"),
        {"exposure": "t"},
        {"exposure": "t"},
        (0, np.inf),
    ),
    "Poisson, fit_regularized": (
        lambda frame: smf.poisson("count ~ x", frame).fit_regularized(alpha=2.0, disp=0),
        {},
        {},
        (0, np.inf),
    ),
    "NegativeBinomial": (
        discrete(sm.NegativeBinomial, "zeros ~ x", offset="log_t"),
        {"offset": "log_t"},
        {"offset": "log_t"},
        (0, np.inf),
    ),
    "NegativeBinomialP": (discrete(sm.NegativeBinomialP, "zeros ~ x"), {}, {}, (0, np.inf)),
    "NegativeBinomialP, exposure": (
        discrete(sm.NegativeBinomialP, "zeros ~ x", exposure="t"),
        {"exposure": "t"},
        {"exposure": "t"},
        (0, np.inf),
    ),
    "GeneralizedPoisson": (
        discrete(sm.GeneralizedPoisson, "zeros ~ x", exposure="t", offset="log_t"),
        {"exposure": "t", "offset": "log_t"},
        {"exposure": "t", "offset": "log_t"},
        (0, np.inf),
    ),
    "ZeroInflatedPoisson": (
        discrete(sm.ZeroInflatedPoisson, "zeros ~ x", exog_infl=["t"]),
        {"exog_infl": "t"},
        {"exog_infl": ["t"]},
        (0, np.inf),
    ),
    "HurdleCountModel": (discrete(HurdleCountModel, "zeros ~ x"), {}, {}, (0, np.inf)),
    "TruncatedLFPoisson": (discrete(TruncatedLFPoisson, "some ~ x"), {}, {}, (1, np.inf)),
    "Logit": (discrete(sm.Logit, "share ~ x"), {}, {}, (0, 1)),
    "BetaModel": (discrete(BetaModel, "share ~ x"), {}, {}, (0, 1)),
    "RLM, TukeyBiweight": (
        lambda frame: smf.rlm("y ~ x + g", frame, M=TUKEY).fit(),
        {},
        {},
        (-np.inf, np.inf),
    ),
    "RLM, HuberT, Huber's scale": (
        lambda frame: smf.rlm("y ~ x", frame, M=sm.robust.norms.Hampel()).fit(
            scale_est=sm.robust.scale.HuberScale()
        ),
        {},
        {},
        (-np.inf, np.inf),
    ),
}
GROUPED = {
    "GEE": (
        lambda frame: smf.gee(
            "count ~ x", "id", frame, family=families.Poisson(), cov_struct=sm.cov_struct.Exchangeable()
        ).fit(),
        (0, np.inf),
    ),
    "MixedLM": (lambda frame: smf.mixedlm("y ~ x", frame, groups="id").fit(), (-np.inf, np.inf)),
}


def predicted(res, frame, inputs):
    """Statsmodels' predictions of rows, with what they take besides the formula's columns."""
    given = {name: frame[column] for name, column in inputs.items()}
    if isinstance(res.model, (sm.NegativeBinomialP, sm.GeneralizedPoisson)) and "exposure" in given:
        # Their predict() compares exposure with 0 and takes no array: its logarithm is an offset.
        given = {"offset": np.log(given["exposure"]) + given.get("offset", 0.0), "exposure": 0}
    return np.asarray(res.predict(frame, **given))


def share_of(res, frame):
    """The response as the model has it."""
    names = res.model.endog_names
    if isinstance(names, str):
        return frame[names].to_numpy(dtype=float)
    return (frame[names[0]] / frame[names].sum(axis=1)).to_numpy()


def cv_plus(fit, frame, new, inputs, folds, weights, alpha):
    """CV+ from refits by formula: weighted order statistics of mu_i(x) -+ R_i."""
    y = share_of(fit(frame), frame)
    low, high = np.empty((2, len(new), len(frame)))
    for held in folds:
        res = fit(frame.drop(index=frame.index[held]))
        mean = predicted(res, new, inputs)[:, None]
        residual = np.abs(y[held] - predicted(res, frame.iloc[held], inputs))
        low[:, held], high[:, held] = mean - residual, mean + residual
    ends = []
    for i in range(len(new)):
        each = []
        for values in (-low[i], high[i]):
            order = np.argsort(values)
            heap = np.cumsum(weights[order])
            place = np.searchsorted(heap, (1 - alpha) * (np.sum(weights) + 1) - 1e-9)
            each.append(np.append(values[order], np.inf)[place])
        ends.append((-each[0], each[1]))
    return np.array(ends)


@quiet
@pytest.mark.filterwarnings("ignore::RuntimeWarning:statsmodels")
@pytest.mark.parametrize("name", REFITS)
def test_cv_plus_is_that_of_refits_by_formula(name):
    fit, options, inputs, span = REFITS[name]
    frame, new = drawn()
    made = stabconf.conformal(fit(frame), alpha=0.2, **options)
    ends = made.conf_int_conformal(new, method="cv+", folds=4, random_state=3)
    folds = np.array_split(np.random.default_rng(3).permutation(len(frame)), 4)
    wanted = cv_plus(fit, frame, new, inputs, folds, np.ones(len(frame)), 0.2)
    np.testing.assert_allclose(ends, np.clip(wanted, *span), atol=1e-6)
    assert made.refit.range == span and ends.attrs["certified"]
    np.testing.assert_allclose(made.predict(new), predicted(fit(frame), new, inputs), atol=1e-9)


@quiet
@pytest.mark.parametrize("name", GROUPED)
def test_models_with_groups_hold_out_whole_groups(name):
    fit, span = GROUPED[name]
    frame, new = drawn(n=40)
    made = stabconf.conformal(fit(frame), alpha=0.3)
    ends = made.conf_int_conformal(new, method="cv+")
    folds = [np.flatnonzero(frame["id"] == i) for i in range(8)]
    wanted = cv_plus(fit, frame, new, {}, folds, np.full(40, 0.2), 0.3)
    np.testing.assert_allclose(ends, np.clip(wanted, *span), atol=1e-6)
    assert ends.attrs["guarantee"].startswith(
        "covers a row of a new cluster with probability at least 0.4 (1 - 2 alpha) if clusters"
    )
    assert made.conf_int_conformal(new).attrs["guarantee"].startswith("covers a row of a new cluster")
    larger = made.conf_int_conformal(new, method="cv+", folds=(frame["id"] // 2).to_numpy())
    assert larger.attrs["n"] == 4
    for wrong in ({"method": "jackknife+"}, {"method": "cv+", "folds": 5}, {"method": "cross"}):
        with pytest.raises(AssumptionError, match="held out together"):
            made.conf_int_conformal(new, **wrong)
    with pytest.raises(AssumptionError, match="held out together"):
        made.conf_int_conformal(new, method="cv+", folds=np.arange(40) % 7)


def test_the_table_of_the_guide_lists_what_is_tried_here():
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Za-z]+)`", text.partition("## Which models")[2], re.MULTILINE)
    exact = {"OLS", "WLS", "QuantReg", "RLM", "GLM"}
    tried = {name.partition(",")[0] for name in REFITS} | set(GROUPED) | exact
    refused = {name for name, _ in refused_models()}
    assert set(rows) == tried | refused


# Rows, inputs, options ----------------------------------------------------------------------------


def test_every_method_and_option_of_held_out_rows_works():
    frame, new = drawn()
    made = stabconf.conformal(REFITS["GLM, Gamma"][0](frame), alpha=0.2, method="jackknife+")
    one = made.conf_int_conformal(new)
    assert one.attrs["method"] == "jackknife+" and np.all(one["lower"] >= 0)
    for options in (
        {"method": "split", "groups": "g"},
        {"method": "split", "conditional": "~ x"},
        {"method": "cross"},
        {"method": "cv+", "scale": "~ x"},
        {"method": "cv+", "side": "upper", "alpha": [0.1, 0.3]},
    ):
        ends = made.conf_int_conformal(new, **options)
        assert not np.isnan(ends.to_numpy()).any()
    with pytest.raises(InputError, match="not for these results"):
        made.conf_int_conformal(new, method="exact")
    with pytest.raises(AssumptionError, match="transductive"):
        made.conf_int_conformal(new, transductive=True)
    assert "GLM, Gamma" in repr(made)
    pd.testing.assert_index_equal(made.params.index, pd.Index(["Intercept", "g[T.b]", "x"]))
    assert made.get_prediction(new).summary_frame().shape == (3, 3)


def test_a_count_is_not_negative_and_a_share_is_between_0_and_1():
    frame, new = drawn()
    for name, (low, high) in {
        "Poisson": (0, np.inf),
        "BetaModel": (0, 1),
        "TruncatedLFPoisson": (1, 99),
    }.items():
        fit, options, _, _ = REFITS[name]
        made = stabconf.conformal(fit(frame), **options)
        ends = made.conf_int_conformal(new, alpha=[0.03, 0.5], method="cv+", folds=3)
        assert ends.to_numpy().min() >= low and ends.to_numpy().max() <= high
        assert (ends.to_numpy() == low).any()
    with pytest.warns(SampleSizeWarning):
        ends = made.conf_int_conformal(new, alpha=0.001, method="cv+")
    assert np.all(ends["lower"] == 1) and np.all(np.isinf(ends["upper"]))


def test_new_rows_need_the_exposure_that_training_had():
    frame, new = drawn()
    res = REFITS["GLM, Poisson"][0](frame)
    with pytest.raises(InputError, match="give exposure=, 't' say"):
        stabconf.conformal(res)
    with pytest.raises(InputError, match="is not what the model was fitted with: give 't' say"):
        stabconf.conformal(res, exposure="x")
    with pytest.raises(InputTypeError, match=r"'offset' cannot be used with GLM, Poisson.*take exposure"):
        stabconf.conformal(res, exposure="t", offset="log_t")
    by_name = stabconf.conformal(res, exposure="t")
    with pytest.raises(InputError, match="exog lacks column 't'"):
        by_name.conf_int_conformal(new.drop(columns="t"))
    ends = by_name.conf_int_conformal(new.assign(t=[1.0, None, 2.0]), method="cv+")
    assert ends.isna().any(axis=1).tolist() == [False, True, False]
    by_call = stabconf.conformal(res, exposure=lambda rows: rows["t"].iloc[::-1])
    pd.testing.assert_frame_equal(*(each.conf_int_conformal(new) for each in (by_name, by_call)))
    with pytest.raises(InputTypeError, match="exposure cannot be used with OLS"):
        stabconf.conformal(smf.ols("y ~ x", frame).fit(), exposure="t")


def test_a_callable_for_exposure_must_give_what_the_model_was_fitted_with():
    frame, new = drawn()
    res = REFITS["GLM, Poisson"][0](frame)
    with pytest.raises(InputError, match="is not what the model was fitted with: give 't' say"):
        stabconf.conformal(res, exposure=lambda rows: 100 * rows["t"])
    of_new = stabconf.conformal(res, exposure=lambda rows: np.array([0.6, 1.0, 1.9]))  # of new rows alone
    by_name = stabconf.conformal(res, exposure="t")
    pd.testing.assert_frame_equal(*(each.conf_int_conformal(new) for each in (by_name, of_new)))


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_an_exposure_that_is_none_names_its_row(value):
    frame, new = drawn()
    made = stabconf.conformal(REFITS["GLM, Poisson"][0](frame), exposure="t")
    with pytest.raises(InputError, match=f"exposure of row 7 is {value:g}, and it must be positive"):
        made.conf_int_conformal(new.assign(t=[1.0, value, 2.0]))


def test_a_model_that_is_not_fitted_is_told_to_be():
    frame, _ = drawn()
    with pytest.raises(InputTypeError, match=r"res is a OLS that is not fitted: give .*\.fit\(\) say"):
        stabconf.conformal(smf.ols("y ~ x", frame))


@quiet
def test_fits_under_constraints_are_refused():
    frame, _ = drawn()
    count = smf.glm("count ~ x + t", frame, family=families.Poisson()).fit_constrained("x = 0.9")
    plain = smf.glm("y ~ x + t", frame).fit_constrained("x = 0.9")
    discrete_count = smf.poisson("count ~ x + t", frame).fit_constrained("x = 0.9", disp=0)
    for res in (count, plain, discrete_count):
        with pytest.raises(AssumptionError, match="fit_constrained cannot be fitted to parts of the rows"):
            stabconf.conformal(res)


def test_what_needs_fits_with_the_new_row_is_said_to():
    frame, new = drawn()
    made = stabconf.conformal(REFITS["GLM, Gamma"][0](frame))
    for name in ("conformity", "conformal_set", "predictive", "predictor", "influence"):
        assert not hasattr(made, name)
        with pytest.raises(AttributeError, match=f"has no {name}, which needs fits that have the new row"):
            getattr(made, name)(new)


def test_the_summary_shows_family_link_inputs_and_coefficients():
    frame, _ = drawn()
    res = REFITS["GLM, NegativeBinomial"][0](frame)
    text = str(stabconf.conformal(res, offset="log_t").summary())
    for words in ("Regression by statsmodels", "NegativeBinomial", "Link:", "Log", "Per row:", "offset"):
        assert words in text
    assert f"{res.params['x']:.4g}" in text and "estimator" not in text


def test_weights_and_groups_are_no_covariates():
    """They stand in columns behind those of the design, which leverages and distances are of."""
    frame, fresh = drawn(n=200)[0], drawn(seed=1, n=40)[0]
    weighted = stabconf.conformal(smf.glm("y ~ x", frame, var_weights=frame["t"]).fit())
    found = weighted.check_exchangeability(fresh).p_values["covariates"]
    own = stabconf.fit("y ~ x", frame).check_exchangeability(fresh).p_values["covariates"]
    np.testing.assert_allclose(found, own)
    grouped = stabconf.conformal(GROUPED["MixedLM"][0](frame))
    assert grouped._covariates(grouped._X).shape == (200, 2)
    with pytest.raises(AssumptionError, match="not exchangeable one by one"):
        grouped.check_exchangeability(fresh)


def test_coverage_of_clusters_is_expected_in_no_range():
    """Rows of one cluster vary together: the range for independent rows left out 14 to 17 % of samples."""
    frame, _ = drawn()
    fresh = drawn(seed=1)[0]
    grouped = stabconf.conformal(GROUPED["MixedLM"][0](frame), alpha=0.3)
    plain = stabconf.fit("y ~ x", frame)
    for report in (
        grouped.width_report(fresh),
        plain.width_report(fresh, alpha=0.3, method="cv+", folds="id"),
    ):
        assert report["coverage"].notna().all()
        assert report[["expected_lower", "expected_upper"]].isna().all(axis=None)


def test_options_that_statsmodels_forgets_are_asked_for():
    frame, new = drawn()
    model = smf.rlm("y ~ x", frame, M=TUKEY)
    res = model.fit(update_scale=False)
    with pytest.warns(MismatchWarning, match="give the others as fit_options"):
        stabconf.conformal(res)
    given = stabconf.conformal(res, fit_options={"update_scale": False})
    assert np.all(np.isfinite(given.conf_int_conformal(new, alpha=0.2)))
    with pytest.raises(InputError, match="give penalty= and l1_ratio="):
        stabconf.conformal(REFITS["GLM, fit_regularized"][0](frame))
    with pytest.raises(InputError, match="go with results of fit_regularized"):
        stabconf.conformal(REFITS["GLM, Gamma"][0](frame), penalty=0.1, l1_ratio=0.0)


def test_models_from_arrays_and_those_registered_give_the_same():
    frame, new = drawn()
    X = sm.add_constant(frame["x"].to_numpy())
    res = sm.GLM(frame["count"].to_numpy(), X, family=families.Poisson()).fit()
    rows = sm.add_constant(new["x"].to_numpy())
    wanted = stabconf.conformal(glm("count ~ x", families.Poisson())(frame)).conf_int_conformal(new)
    np.testing.assert_allclose(stabconf.conformal(res).conf_int_conformal(rows), wanted)
    stabconf.register()
    try:
        np.testing.assert_allclose(res.conf_int_conformal(rows, method="split"), wanted)
        exposed = REFITS["Poisson"][0](frame).conf_int_conformal(new, method="cv+", exposure="t")
    finally:
        stabconf.unregister()
    made = stabconf.conformal(REFITS["Poisson"][0](frame), exposure="t")
    pd.testing.assert_frame_equal(exposed, made.conf_int_conformal(new, method="cv+"))


@pytest.mark.parametrize("name", ["GLM, Poisson", "NegativeBinomial", "BetaModel"])
def test_refitted_results_can_be_saved(name, tmp_path):
    fit, options, _, _ = REFITS[name]
    frame, new = drawn()
    made = stabconf.conformal(fit(frame), **options)
    made.save(tmp_path / "made.pickle")
    again = stabconf.load(tmp_path / "made.pickle")
    pd.testing.assert_frame_equal(again.conf_int_conformal(new), made.conf_int_conformal(new))


def refused_models():
    """Names in the guide's table of what is refused, and results of such models."""
    frame, _ = drawn()
    frame["level"] = np.resize([0, 1, 2], len(frame))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "MNLogit", smf.mnlogit("level ~ x", frame).fit(disp=0)
        yield "OrderedModel", OrderedModel(frame["level"], frame[["x"]]).fit(disp=0)
        yield "Probit", smf.probit("I(1.0 * (y > 0)) ~ t", frame).fit(disp=0)
        yield "GLS", sm.GLS(frame["y"], frame[["x"]]).fit()
        yield "PHReg", smf.phreg("positive ~ x", frame).fit()
        yield "AutoReg", sm.tsa.AutoReg(frame["y"].to_numpy(), 1).fit()


def test_what_has_no_intervals_is_refused_with_a_way_out():
    frame, _ = drawn()
    for name, res in refused_models():
        with pytest.raises(AssumptionError, match=f"{name} has no conformal intervals.*Instead, "):
            stabconf.conformal(res)
    binary = glm("I((x > 0) * 1.0) ~ t", families.Binomial())
    for res in (binary(frame), smf.logit("I((x > 0) * 1.0) ~ t", frame).fit(disp=0)):
        with pytest.raises(AssumptionError, match="a set of labels"):
            stabconf.conformal(res)
    counted = glm("count ~ x", families.Poisson(), freq_weights="trials")(frame)
    with pytest.raises(AssumptionError, match="repeat them"):
        stabconf.conformal(counted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        structure = sm.cov_struct.Autoregressive(grid=True)
        res = smf.gee("y ~ x", "id", frame, cov_struct=structure).fit()
    with pytest.raises(AssumptionError, match="Exchangeable"):
        stabconf.conformal(res)
    gone = glm("count ~ x", families.Poisson())(frame)
    gone.remove_data()
    with pytest.raises(InputError, match="remove_data"):
        stabconf.conformal(gone)


def test_a_refit_that_fails_says_which():
    frame, new = drawn(n=20)
    frame["rare"] = [1.0] + [0.0] * 19
    frame.loc["row0", "zeros"] = 3
    made = stabconf.conformal(smf.poisson("zeros ~ x + rare", frame).fit(disp=0))
    with pytest.raises(InputError, match=r"Poisson cannot be fitted to 19 of the training rows .Singular"):
        made.conf_int_conformal(new.assign(rare=0.0), method="jackknife+")


# Clusters -----------------------------------------------------------------------------------------


def test_clusters_of_a_fit_are_held_out_whole_and_count_alike():
    """Any result: refits by the estimator itself, weights 1 / size."""
    frame, new = drawn(n=40)
    frame = frame.iloc[[*range(3), *range(5, 40)]]  # clusters of 3 and of 5
    sizes = frame.groupby("id")["x"].transform("size").to_numpy()
    fit = smf.ols("y ~ x", frame).fit()
    ends = stabconf.conformal(fit).conf_int_conformal(new, 0.3, "cv+", folds="id")
    folds = [np.flatnonzero(frame["id"] == i) for i in range(8)]
    wanted = cv_plus(lambda part: smf.ols("y ~ x", part).fit(), frame, new, {}, folds, 1.0 / sizes, 0.3)
    np.testing.assert_allclose(ends, wanted)
    assert (ends.attrs["k"], ends.attrs["n"]) == (7, 8)
    labels = frame["id"].map(str)
    given = stabconf.conformal(fit).conf_int_conformal(new, 0.3, "cv+", folds=labels.iloc[::-1])
    np.testing.assert_allclose(ends, given)


def test_split_holds_out_whole_clusters():
    frame, new = drawn(n=40)
    res = stabconf.fit("y ~ x", frame, loss="squared")
    ends = res.conf_int_conformal(new, 0.3, "split", folds="id", random_state=1)
    held = np.random.default_rng(1).permutation(8)[:4]
    inside = frame["id"].isin(held).to_numpy()
    fitted = stabconf.fit("y ~ x", frame, loss="squared")._fits.predictor(np.flatnonzero(~inside))
    X = np.asarray(res._X)
    scores = np.abs(frame["y"].to_numpy() - fitted(X))[inside]
    level = np.sort(scores)[int(np.ceil(0.7 * 5 * 5 - 1e-9)) - 1]  # each row weighs 1 / 5
    np.testing.assert_allclose((ends["upper"] - ends["lower"]) / 2, level)
    assert ends.attrs["guarantee"] == (
        "covers a row of a new cluster with probability at least 0.7 if clusters (id) are "
        "exchangeable, and rows within each"
    )


def test_clusters_that_cannot_be_used_are_refused():
    frame, new = drawn(n=40)
    res = stabconf.fit("y ~ x", frame)
    ask = res.conf_int_conformal
    with pytest.raises(InputError, match="not a column of data"):
        ask(new, method="cv+", folds="nobody")
    with pytest.raises(InputError, match="39 labels for 40"):
        ask(new, method="cv+", folds=list(range(39)))
    with pytest.raises(InputError, match="missing in row row0"):
        ask(new, method="cv+", folds=frame["id"].where(frame["id"] > 0))
    with pytest.raises(InputError, match="the same in all"):
        ask(new, method="cv+", folds=np.zeros(40))
    with pytest.raises(AssumptionError, match="groups or weights"):
        ask(new, method="cv+", folds="id", groups="g")
    with pytest.raises(AssumptionError, match="conditional"):
        ask(new, method="split", folds="id", conditional="~ x")
    with pytest.raises(AssumptionError, match="use method='cv\\+'"):
        ask(new, method="cross", folds="id")
    with pytest.raises(InputTypeError, match="calibration="):
        ask(new, method="split", folds=3)
    with pytest.warns(SampleSizeWarning, match="8 clusters are too few.*at least 19 clusters"):
        ask(new, method="cv+", folds="id")
    with pytest.warns(SampleSizeWarning, match="4 calibration clusters"):
        ask(new, method="split", folds="id")


def test_clustered_covariances_point_at_the_clusters():
    frame, _ = drawn()
    options = {"cov_type": "cluster", "cov_kwds": {"groups": frame["id"]}}
    with pytest.warns(DataWarning, match="folds= the column of the clusters"):
        stabconf.conformal(smf.glm("count ~ x", frame, family=families.Poisson()).fit(**options))


# Coverage -----------------------------------------------------------------------------------------


def poisson_rows(rng, x):
    return rng.poisson(np.exp(1.0 + 0.6 * x))


def gamma_rows(rng, x):
    return rng.gamma(1.5, np.exp(x))


def binomial_rows(rng, x):
    trials = rng.integers(5, 20, len(x))
    good = rng.binomial(trials, 1.0 / (1.0 + np.exp(-x)))
    return np.column_stack([good, trials - good])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "draw"),
    [
        (families.Poisson(), poisson_rows),
        (families.Gamma(LOG), gamma_rows),
        (families.Binomial(), binomial_rows),
    ],
    ids=["Poisson", "Gamma", "binomial counts"],
)
def test_cv_plus_of_generalised_linear_models_covers_as_promised(family, draw):
    """The promise is 0.6 less what folds cost; 0.8 is what is usual. One new row per draw of 30."""
    draws, covered = 2000, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(31)
        X, y = np.column_stack([np.ones(31), x]), draw(rng, x)
        made = stabconf.conformal(sm.GLM(y[:-1], X[:-1], family=family).fit())
        ((low, high),) = made.conf_int_conformal(X[-1:], 0.2, "cv+", folds=2).to_numpy()
        response = y[-1] if y.ndim == 1 else y[-1, 0] / y[-1].sum()
        covered += low <= response <= high
    assert covered / draws >= 0.6
    assert covered / draws >= 0.8 - 3.1 * np.sqrt(0.8 * 0.2 / draws)


class LeastSquares:
    def fit(self, X, y):
        self.coef = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y)[0]

    def predict(self, X):
        return np.column_stack([np.ones(len(X)), X]) @ self.coef


def clustered_rows(rng, clusters, size):
    """Covariates of the cluster, its effect, and rows that differ little: a new cluster is far off."""
    z = rng.standard_normal((clusters, 4))
    frame = pd.DataFrame(np.repeat(z, size, axis=0), columns=list("abcd"))
    frame["id"] = np.repeat(np.arange(clusters), size)
    frame["y"] = np.repeat(z[:, 0] + rng.standard_normal(clusters), size)
    return frame.assign(y=frame["y"] + 0.3 * rng.standard_normal(clusters * size))


@pytest.mark.slow
def test_clustered_folds_cover_rows_of_new_clusters_where_plain_folds_do_not():
    draws, alpha = 300, 0.2
    asked = {"plain": ("cv+", {}), "cv+": ("cv+", {"folds": "id"}), "split": ("split", {"folds": "id"})}
    found = dict.fromkeys(asked, 0)
    for seed in range(draws):
        frame = clustered_rows(np.random.default_rng(seed), 16, 6)
        trained, new = frame[frame["id"] < 15], frame[frame["id"] == 15].iloc[:1]
        made = stabconf.fit("y ~ a + b + c + d", trained, estimator=LeastSquares())
        for name, (method, more) in asked.items():
            ((low, high),) = made.conf_int_conformal(new, alpha, method, **more).to_numpy()
            found[name] += low <= new["y"].iloc[0] <= high
    spread = 3.1 * np.sqrt(alpha * (1 - alpha) / draws)
    assert found["cv+"] / draws >= 1 - alpha - spread
    assert found["split"] / draws >= 1 - alpha - spread
    assert found["plain"] / draws < 1 - alpha - spread


def test_zero_inflated_counts_of_arrays_have_the_names_of_their_own_columns():
    rng = np.random.default_rng(0)
    exog = pd.DataFrame({"const": 1.0, "x": rng.standard_normal(90)})
    counts = pd.Series(rng.poisson(np.exp(0.5 + 0.4 * exog["x"])) * (rng.random(90) > 0.3), name="k")
    res = stabconf.conformal(sm.ZeroInflatedPoisson(counts, exog).fit(disp=0))
    assert res.model.formula == "k ~ x"
    assert res.conf_int_conformal(exog[:3], alpha=0.2).shape == (3, 2)
