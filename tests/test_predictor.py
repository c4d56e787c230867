"""A predictor is small, holds no training row, and answers as its results do."""

import pickle

import numpy as np
import pandas as pd
import pytest

import stabconf


def make(n, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": random.normal(size=n),
            "w": random.uniform(1.0, 2.0, size=n),
            "g": random.choice(["a", "b", "c"], size=n),
        }
    )
    noise = random.standard_t(3, size=n)
    return frame.assign(y=frame.x + np.sin(3 * frame.w) + (frame.g == "b") + noise)


DATA = make(300)
NEW = make(40, seed=1).assign(x=lambda d: d.x * np.repeat([1.0, 8.0], 20))
FORMULAS = ["y ~ x", "y ~ x * C(g, Sum) + w", "y ~ bs(w, df=5) + standardize(x) + g", "y ~ cr(w, df=4)"]
LOSSES = ["lad", "huber", "squared", "pseudo_huber", "logcosh", stabconf.Quantile(0.7), stabconf.Power(1.5)]


def shipped(predictor):
    content = pickle.dumps(predictor)
    assert len(content) < 2_000_000
    return pickle.loads(content)


def assert_same(res, predictor, new, alpha, side, methods=("stable", "split")):
    pd.testing.assert_series_equal(predictor.predict(new), res.predict(new), check_exact=True)
    for method in methods:
        own = res.conf_int_conformal(new, alpha, method, side)
        got = predictor.conf_int_conformal(new, alpha, method)
        pd.testing.assert_frame_equal(got, own, check_exact=True)
        assert got.attrs == own.attrs


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_answers_are_those_of_the_results_for_each_kind_of_column(formula):
    res = stabconf.fit(formula, DATA, loss="huber", unseen="nan")
    new = NEW[NEW.w.between(DATA.w.min(), DATA.w.max())]
    assert_same(res, shipped(res.predictor([0.1, 0.3])), new, [0.1, 0.3], "two-sided")


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_answers_are_those_of_the_results_for_each_loss_and_side(loss, side):
    res = stabconf.fit("y ~ x + g", DATA, loss=loss)
    assert_same(res, shipped(res.predictor(0.1, side)), NEW, 0.1, side)


@pytest.mark.parametrize("alpha", [0.1, 0.6])
@pytest.mark.parametrize("loss", ["lad", "huber", "squared"])
@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_answers_stay_the_same_where_most_rows_are_left_out(loss, alpha, monkeypatch):
    monkeypatch.setattr("stabconf.stability.frozen._LEAST", 1000)
    monkeypatch.setattr("stabconf.sets.frozen._ENTRIES", 200)
    data = make(8_000)
    for side in ("two-sided", "upper"):
        res = stabconf.fit("y ~ x + g", data, loss=loss, penalty=0.1)
        predictor = shipped(res.predictor(alpha, side, "stable"))
        assert len(predictor._fits.stable[alpha].base.solution.r) == 1000
        assert_same(res, predictor, NEW.iloc[:20], alpha, side, ["stable"])


@pytest.mark.filterwarnings("ignore:stability makes up:stabconf.StabilityWarning")
def test_rows_beyond_the_table_have_wider_intervals_never_narrower(monkeypatch):
    monkeypatch.setattr("stabconf.stability.frozen._LEAST", 200)
    monkeypatch.setattr("stabconf.sets.frozen._ENTRIES", 20)
    res = stabconf.fit("y ~ x", make(2_000), loss="lad", penalty=1.0)
    new = pd.DataFrame({"x": [0.0, 1e3, 1e5]})
    own = res.conf_int_conformal(new, 0.1, "stable")
    with pytest.warns(stabconf.StabilityWarning, match="intervals are infinite"):
        got = res.predictor(0.1).conf_int_conformal(new)
    assert got.iloc[0].equals(own.iloc[0])
    assert np.all(got.lower <= own.lower) and np.all(got.upper >= own.upper)
    assert np.isinf(got.upper[2]) and np.isfinite(own.upper[2])


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["lad", "huber"])
def test_it_stays_small_with_many_rows_and_answers_the_same(loss):
    res = stabconf.fit("y ~ x + g + bs(w, df=5)", make(100_000), loss=loss)
    predictor = shipped(res.predictor([0.05, 0.1]))
    new = NEW[NEW.w.between(1.01, 1.99)]
    assert_same(res, predictor, new, [0.05, 0.1], "two-sided")


def test_no_training_row_is_inside():
    data = DATA.assign(secret=[f"secret-{i}" for i in range(len(DATA))])
    res = stabconf.fit("y ~ x + g", data)
    with pytest.raises(stabconf.InputError, match="values that training did not have"):
        res.predict(data.assign(g="z"))  # what was evaluated then is not inside either
    content = pickle.dumps(res.predictor())
    assert b"secret" not in content
    assert len(content) < 40 * len(data)


def test_units_levels_and_missing_values_are_as_in_the_results():
    data = DATA.assign(y=np.exp(DATA.y))
    res = stabconf.fit("np.log(y) ~ x + g", data, penalty=0.1, unseen="nan")
    predictor = shipped(res.predictor(0.2))
    new = NEW.iloc[:4].assign(x=[0.0, np.nan, 1.0, 2.0], g=["a", "b", "z", "c"])
    for more in ({}, {"units": "response"}, {"in_range": True}):
        with pytest.warns(stabconf.DataWarning, match="values that training did not have"):
            own = res.conf_int_conformal(new, 0.2, "stable", **more)
        with pytest.warns(stabconf.DataWarning, match="values that training did not have"):
            got = predictor.conf_int_conformal(new, **more)
        pd.testing.assert_frame_equal(got, own, check_exact=True)
    with pytest.raises(stabconf.InputError, match="values that training did not have"):
        predictor.conf_int_conformal(new, unseen="raise")
    asked = NEW.iloc[:20], "stable"
    both = [each.get_prediction(*asked, alpha=0.2).summary_frame() for each in (res, predictor)]
    pd.testing.assert_frame_equal(*both)


def test_what_it_was_not_made_for_is_refused_with_the_fix():
    res = stabconf.fit("y ~ x", DATA, loss="huber")
    predictor = res.predictor(0.1, methods="stable")
    for asked, message in {
        ("alpha", 0.2): "alpha=0.2 is not in this predictor, which has 0.1: make one",
        ("side", "upper"): "side='upper' is not in this predictor",
        ("method", "split"): "method='split' is not in this predictor: make one with methods=",
        ("method", "exact"): "method='exact' is not for these results: give .* stable, split",
        ("scale", "w"): "option 'scale' is not for a predictor",
    }.items():
        with pytest.raises((stabconf.InputError, stabconf.InputTypeError), match=message):
            predictor.conf_int_conformal(NEW, **dict([asked]))
    with pytest.raises(stabconf.InputTypeError, match="no training rows: give new rows"):
        predictor.predict()
    with pytest.raises(stabconf.InputError, match="methods='exact' is not allowed: give 'stable', 'split'"):
        res.predictor(methods="exact")
    with pytest.raises(stabconf.AssumptionError, match="strong convexity"):
        stabconf.fit("y ~ x", DATA, penalty=0).predictor()


def test_too_few_rows_give_the_whole_line_as_in_the_results():
    res = stabconf.fit("y ~ x", DATA.iloc[:12], loss="huber")
    with pytest.warns(stabconf.SampleSizeWarning):
        got = shipped(res.predictor(0.01)).conf_int_conformal(NEW)
    assert np.all(np.isinf(got))
