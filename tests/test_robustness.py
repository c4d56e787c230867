"""Robust losses are robust at every R-squared, and fits follow the units of their data.

statsmodels' RLM and QuantReg are the referees.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.datasets import stackloss

import stabconf
from stabconf import Linex, Quantile

ROBUST = ["huber", "pseudo_huber", "logcosh"]
SYMMETRIC = ["lad", "squared", *ROBUST]
SKEWED = [Quantile(0.3), Linex(0.5)]
FORMULA = "y ~ x + z + d + g"


def contaminated(seed, n=200):
    """y = 3 x + e, and every tenth row 24 too high; the line explains nearly all of the others."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": np.linspace(0.0, 10.0, n)})
    frame["y"] = 3.0 * frame["x"] + rng.standard_normal(n) + 24.0 * (np.arange(n) % 10 == 5)
    return frame


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", ROBUST)
def test_a_tenth_of_shifted_rows_moves_a_robust_line_as_little_as_rlm(loss, seed):
    frame = contaminated(seed)
    ols = smf.ols("y ~ x", frame).fit().params["Intercept"]
    rlm = smf.rlm("y ~ x", frame, M=sm.robust.norms.HuberT()).fit().params["Intercept"]
    assert ols - rlm > 1.9
    params = stabconf.fit("y ~ x", frame, loss=loss, penalty=1e-3).params
    assert abs(params["Intercept"] - rlm) < 0.1
    assert abs(params["x"] - 3.0) < 0.05


def test_huber_slopes_of_stackloss_are_those_of_rlm_not_of_least_squares():
    data = stackloss.load_pandas().data
    formula = "STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC"
    rlm = smf.rlm(formula, data, M=sm.robust.norms.HuberT()).fit().params.drop("Intercept")
    ols = smf.ols(formula, data).fit().params.drop("Intercept")
    ours = stabconf.fit(formula, data, loss="huber", penalty=1e-4).params.drop("Intercept")
    assert np.abs(ols / rlm - 1.0).max() > 0.3
    assert np.abs(ours / rlm - 1.0).max() < 0.15


@pytest.mark.parametrize("loss", SYMMETRIC)
def test_groups_far_from_zero_keep_their_level_without_an_intercept(loss):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.repeat(["a", "b"], 50)})
    frame["y"] = np.where(frame["g"] == "a", 100.0, 110.0) + rng.standard_normal(100)
    res = stabconf.fit("y ~ g - 1", frame, loss=loss)
    fitted = res.fittedvalues.groupby(frame["g"]).first()
    np.testing.assert_allclose(fitted, frame.groupby("g")["y"].median(), rtol=0.01)
    np.testing.assert_allclose(res.params, fitted, rtol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("loss", SYMMETRIC)
def test_the_scale_is_that_of_the_residuals_of_a_lad_fit(loss, penalty):
    frame = contaminated(1, n=61)
    lad = stabconf.fit("y ~ x", frame, loss="lad", penalty=penalty)
    res = stabconf.fit("y ~ x", frame, loss=loss, penalty=penalty)
    assert res.scale == pytest.approx(1.4826 * np.median(np.abs(lad.resid)), rel=1e-8)
    if penalty == 0:
        median = smf.quantreg("y ~ x", frame).fit(q=0.5, p_tol=1e-10, max_iter=10_000)
        assert res.scale == pytest.approx(1.4826 * np.median(np.abs(median.resid)), rel=1e-4)


def mixed(seed, n=61):
    """Numeric columns, one with two values, a factor, and heavy tails.

    n is odd: order statistics of an even number of responses do not mirror each other.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.standard_normal(n + 5), "z": rng.exponential(size=n + 5)})
    frame["d"] = rng.integers(2, size=n + 5).astype(float)
    frame["g"] = np.array(["a", "b", "c"])[np.arange(n + 5) % 3]
    noise = rng.standard_t(2, n + 5)
    frame["y"] = 1.0 + 2.0 * frame["x"] - frame["z"] + frame["d"] + (frame["g"] == "b") + noise
    return frame.iloc[5:], frame.iloc[:5]


def outcome(training, new, loss):
    """Coefficients, predictions and ends of exact intervals; linex gives them no upper end."""
    res = stabconf.fit(FORMULA, training, loss=loss)
    side = "lower" if isinstance(loss, Linex) else "two-sided"
    made = res.conf_int_conformal(new, alpha=0.2, method="exact", side=side, progress=False)
    return res.params, res.predict(new).to_numpy(), made[["lower", "upper"]].to_numpy()


def assert_same(found, wanted, unit):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * unit)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("loss", "b"),
    [(loss, b) for loss in SYMMETRIC for b in (250.0, -0.4)] + [(loss, 250.0) for loss in SKEWED],
)
def test_everything_follows_the_units_of_the_response(loss, b, seed):
    training, new = mixed(seed)
    params, predicted, ends = outcome(training, new, loss)
    moved = [part.assign(y=1e3 + b * part["y"]) for part in (training, new)]
    wanted = b * params
    wanted["Intercept"] += 1e3
    ends = np.sort(1e3 + b * ends, axis=1)
    assert_same(outcome(*moved, loss), (wanted, 1e3 + b * predicted, ends), abs(b))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("loss", [*SYMMETRIC, *SKEWED])
def test_the_order_of_the_rows_changes_nothing(loss, seed):
    training, new = mixed(seed)
    mixed_up = training.sample(frac=1.0, random_state=seed)
    assert_same(outcome(mixed_up, new, loss), outcome(training, new, loss), 1.0)


@pytest.mark.parametrize("column", ["x", "d"])
@pytest.mark.parametrize("loss", [*SYMMETRIC, *SKEWED])
def test_the_units_of_a_column_change_its_coefficient_alone(loss, column):
    """Of a column with many values and of one with two."""
    training, new = mixed(3)
    params, predicted, ends = outcome(training, new, loss)
    moved = [part.assign(**{column: 7.0 - 40.0 * part[column]}) for part in (training, new)]
    params[column] /= -40.0
    params["Intercept"] -= 7.0 * params[column]
    assert_same(outcome(*moved, loss), (params, predicted, ends), 1.0)
