"""``units="response"``: a transformed left side, answered in the units of the response."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import stabconf
from stabconf.errors import InputError, StabconfError

WAYS = {
    "np.log(w)": np.exp,
    "np.log1p(w)": np.expm1,
    "np.log10(w)": lambda z: 10.0**z,
    "np.log2(w)": np.exp2,
    "np.sqrt(w)": lambda z: np.maximum(z, 0.0) ** 2,
    "np.log(Q('w'))": np.exp,
    "I(np.log(w))": np.exp,
}


@pytest.fixture(scope="module")
def positive():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.standard_normal(90), "g": rng.choice(["a", "b"], 90)})
    data["w"] = np.round(np.exp(2.0 + data["x"] + 0.4 * rng.standard_normal(90)), 2)
    return data


@pytest.mark.parametrize("left", WAYS)
def test_ends_predictions_and_quantiles_are_those_of_the_model_taken_back(positive, left):
    train, new = positive.iloc[:60], positive.iloc[60:]
    back = WAYS[left]
    for fit in (stabconf.fit, stabconf.fit_quantiles):
        res = fit(f"{left} ~ x", train)
        plain = res.conf_int_conformal(new, alpha=0.2)
        made = res.conf_int_conformal(new, alpha=0.2, units="response")
        np.testing.assert_allclose(made, back(plain), rtol=1e-12)
        assert made.attrs["response"] == "w" and made.columns.name is None
        np.testing.assert_allclose(res.predict(new, units="response"), back(res.predict(new)))
        frame = res.get_prediction(new, alpha=0.2, units="response").summary_frame()
        centre = res.predict(new) if fit is stabconf.fit else res.predict(new)[0.5]
        np.testing.assert_allclose(frame["mean"], back(centre))
        np.testing.assert_allclose(frame[["obs_ci_lower", "obs_ci_upper"]], made)


def test_coverage_widths_and_figures_are_in_units_of_the_response(positive, figures):
    train, new = positive.iloc[:60], positive.iloc[60:]
    res = stabconf.fit("np.log(w) ~ x", train)
    made = res.conf_int_conformal(new, alpha=0.2, units="response")
    report = res.width_report(new, alpha=0.2, units="response")
    assert report["mean"].iloc[0] == pytest.approx((made["upper"] - made["lower"]).mean())
    assert report["coverage"].iloc[0] == res.width_report(new, alpha=0.2)["coverage"].iloc[0]
    assert "intervals of w" in report.title
    assert res.plot_intervals(new, x="x", alpha=0.2, units="response").get_ylabel() == "w"
    assert res.plot_widths(new, alpha=0.2, units="response").get_xlabel().endswith("for w")


@pytest.mark.parametrize("fit", [stabconf.fit, stabconf.fit_quantiles])
def test_p_values_of_candidates_in_units_of_the_response_are_those_of_their_transforms(positive, fit):
    res = fit("np.log(w) ~ x", positive.iloc[:60])
    new, z = positive.iloc[60:63], [2.0, 7.0, 20.0]
    made = res.conformity(new, z, units="response")
    np.testing.assert_array_equal(made, res.conformity(new, np.log(z)))
    assert made.index.get_level_values("z").tolist() == z * 3
    with pytest.raises(InputError, match=r"z=-1.0 is not a response that np.log\(w\) can have"):
        res.conformity(new, [-1.0, 2.0], units="response")


def test_a_predictive_distribution_answers_in_units_of_the_response(positive, figures):
    new, y = positive.iloc[60:64], positive["w"].iloc[60:64]
    res = stabconf.fit("np.log(w) ~ x", positive.iloc[:60])
    plain, made = res.predictive(new), res.predictive(new, units="response")
    assert "Predictive of w:" in repr(made)
    np.testing.assert_allclose(made.predicted_mean, np.exp(plain.predicted_mean))
    np.testing.assert_allclose(made.quantile([0.1, 0.9]), np.exp(plain.quantile([0.1, 0.9])))
    np.testing.assert_allclose(made.quantile(0.999), np.inf)
    np.testing.assert_allclose(made.upper_steps, np.exp(plain.upper_steps))
    np.testing.assert_array_equal(made.cdf(y), plain.cdf(np.log(y)))
    np.testing.assert_array_equal(made.widened, plain.widened)
    steps = np.sort(np.column_stack([made.upper_steps, made.lower_steps]), axis=1)
    grid = np.append(np.linspace(0.0, 2 * steps.max(), 200_001), y.iloc[0])
    grid.sort()
    share = (1 + np.searchsorted(steps[0], grid[:-1], side="right")) / (steps.shape[1] + 2)
    share[grid[:-1] < steps[0, 0]], share[grid[:-1] >= steps[0, -1]] = 0.0, 1.0
    area = np.sum((share - (grid[:-1] >= y.iloc[0])) ** 2 * np.diff(grid))
    assert made.crps(y).iloc[0] == pytest.approx(area, rel=1e-3)
    assert made.plot(0).get_xlabel() == "w"


def test_the_conformity_function_is_drawn_in_units_of_the_response(positive, figures):
    res = stabconf.fit("np.log(w) ~ x", positive.iloc[:60])
    row = positive.iloc[[60]]
    ax = res.plot_conformity(row, alpha=0.2, units="response", z_hat=2.0)
    assert ax.get_xlabel() == "candidate for w" and ax.get_xlim()[0] > 0
    ends = res.conf_int_conformal(row, alpha=0.2, units="response").to_numpy()[0]
    drawn = np.concatenate([line.get_xdata() for line in ax.get_lines()])
    assert all(np.isclose(drawn, end).any() for end in ends)
    assert np.isclose(ax.collections[-1].get_offsets()[0, 0], np.exp(2.0))


def test_the_observed_response_is_the_column_itself_to_the_last_digit(positive):
    res = stabconf.fit("np.log(w) ~ x", positive.iloc[:60])
    made = res.augment(positive.iloc[60:], alpha=0.2, units="response")
    assert made["actual"].equals(positive["w"].iloc[60:].rename("actual"))


def test_a_statsmodels_model_answers_in_units_of_the_response(positive):
    train, new = positive.iloc[:60], positive.iloc[60:]
    res = stabconf.conformal(smf.ols("np.log(w) ~ x + g", train).fit(), alpha=0.2)
    made = res.augment(new, units="response")
    np.testing.assert_allclose(made[["lower", "upper"]], np.exp(res.conf_int_conformal(new)))
    assert made["actual"].equals(new["w"].rename("actual"))


def test_pieces_tolerances_and_open_ends_go_back_too(positive):
    res = stabconf.fit("np.log(w) ~ x", positive.iloc[:60], loss="logcosh")
    new = positive.iloc[60:64]
    plain = res.conf_int_conformal(new, alpha=0.2)
    made = res.conf_int_conformal(new, alpha=0.2, units="response")
    largest = np.max(np.exp(plain["upper"]) - np.exp(plain["upper"] - plain.attrs["tol"]))
    assert 0 < made.attrs["tol"] <= largest * (1 + 1e-9)
    upper = res.conf_int_conformal(new, alpha=0.2, side="upper", units="response")
    assert (upper["lower"] == 0.0).all() and np.isfinite(upper["upper"]).all()


def test_a_pair_of_functions_goes_there_and_back(positive):
    train, new = positive.assign(c=np.cbrt(positive["w"])).iloc[:60], positive.iloc[60:]
    pair = (np.cbrt, lambda z: z**3)
    direct = stabconf.fit("np.cbrt(w) ~ x", train)
    made = direct.augment(new, alpha=0.2, units=pair)
    assert made.attrs["response"] == "w" and made["actual"].equals(new["w"].rename("actual"))
    column = stabconf.fit("c ~ x", train)
    ends = column.conf_int_conformal(new, alpha=0.2, units=pair)
    np.testing.assert_allclose(ends, made[["lower", "upper"]])
    assert ends.attrs["response"] == "c, back-transformed"


def test_a_response_that_is_a_column_stays_as_it_is(positive):
    res = stabconf.fit("w ~ x", positive)
    new = positive.iloc[:3]
    pd.testing.assert_frame_equal(
        res.conf_int_conformal(new, units="response"), res.conf_int_conformal(new)
    )


@pytest.mark.parametrize(
    ("left", "units", "message"),
    [
        ("w", "log", "units='log' is unknown"),
        ("np.cbrt(w)", "response", "does not know the way back from 'np.cbrt"),
        ("np.log(w)", np.exp, "not a pair of functions"),
        ("np.log(w)", (np.log,), "not a pair of functions"),
        ("np.log(w)", (np.log, np.expm1), "do not invert each other"),
        ("np.log(w)", (np.log, lambda z: np.log(z - 100)), "finite numbers"),
        ("1 / w", (lambda y: 1 / y, lambda z: 1 / z), "fit the negative"),
    ],
)
def test_units_that_cannot_be_are_refused_with_the_way_out(positive, left, units, message):
    res = stabconf.fit(f"I({left}) ~ x" if left == "1 / w" else f"{left} ~ x", positive)
    with pytest.raises(StabconfError, match=message):
        res.conf_int_conformal(positive.iloc[:2], units=units)


def test_augment_refuses_columns_that_it_would_replace(positive):
    res = stabconf.fit("w ~ x", positive)
    with pytest.raises(InputError, match="new has columns lower, upper already"):
        res.augment(positive.assign(lower=0.0, upper=1.0))
