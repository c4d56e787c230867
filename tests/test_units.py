"""Units that the fit is made in: learned from the training rows, held fixed, the same for rare and common
rows."""

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf import DataWarning
from stabconf.data.units import location_scale


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.gamma(2.0, size=n), "z": rng.standard_normal(n)})
    frame["g"] = pd.Categorical(np.where(np.arange(n) < 2, "rare", np.resize(["a", "b"], n)))
    frame["two"] = np.where(rng.random(n) < 0.1, 7.0, 3.0)
    frame["y"] = 5.0 + frame["x"] + rng.standard_normal(n)
    return frame


def scale_of(res, name):
    return float(res._columns.scale[res._design.names.index(name)])


def test_indicators_count_as_balanced_ones_however_rare():
    data = table()
    res = stabconf.fit("y ~ x + g + two", data)
    assert scale_of(res, "g[T.rare]") == scale_of(res, "g[T.b]") == 0.5
    assert scale_of(res, "two") == 2.0  # half the distance of its two values
    assert scale_of(res, "x") == pytest.approx(data["x"].std(ddof=0))
    assert scale_of(res, "Intercept") == 1.0


def test_contrasts_and_interactions_of_categories_have_the_scale_of_an_indicator():
    data = table()
    res = stabconf.fit("y ~ C(g, Sum):C(two)", data)
    made = {name: scale_of(res, name) for name in res._design.names}
    assert set(made.values()) == {0.5, 1.0} and made["Intercept"] == 1.0


def test_interactions_with_numbers_have_half_the_spread_of_their_numeric_part_over_all_rows():
    data = table()
    res = stabconf.fit("y ~ g:x + g:x:z + g:bs(x, df=4)", data)
    wanted = 0.5 * data["x"].std(ddof=0)
    assert {round(scale_of(res, name), 12) for name in ("g[a]:x", "g[rare]:x")} == {round(wanted, 12)}
    product = 0.5 * (data["x"] * data["z"]).std(ddof=0)
    assert scale_of(res, "g[b]:x:z") == pytest.approx(product)
    names = [name for name in res._design.names if "bs(" in name]
    for j in range(4):
        same = {round(scale_of(res, name), 12) for name in names if name.endswith(f"[{j}]")}
        assert len(same) == 1  # one numeric part, whatever the category


def test_a_constant_column_keeps_its_scale_and_one_warning_names_it():
    data = table().assign(one=4.0)
    with pytest.warns(DataWarning, match="'one' of the design is constant in training") as caught:
        res = stabconf.fit("y ~ x + one", data)
    assert len(caught) == 1 and scale_of(res, "one") == 1.0


def test_the_centre_is_the_level_of_the_loss_where_the_design_spans_a_constant():
    data = table()
    for formula in ("y ~ x", "y ~ g - 1", "y ~ g + x - 1"):
        for loss, q in (("lad", 0.5), (stabconf.Quantile(0.8), 0.8)):
            res = stabconf.fit(formula, data, loss=loss)
            assert res._fitted.centre == np.sort(data["y"])[int(np.ceil(q * 40 - 1e-9)) - 1]
    assert stabconf.fit("y ~ x - 1", data)._fitted.centre == 0.0
    assert stabconf.fit("y ~ x", data, standardize=False)._fitted.centre == 0.0


def test_without_an_intercept_coefficients_and_predictions_agree():
    data = table()
    res = stabconf.fit("y ~ g + x - 1", data, penalty=0.3)
    np.testing.assert_allclose(res._design.X @ res.params, res.predict(), atol=1e-9)


def test_the_scale_of_a_response_most_of_which_is_one_value_is_its_mean_distance():
    y = np.array([2.0] * 9 + [12.0])
    assert location_scale(y) == (2.0, pytest.approx(1.2533 * 1.0))
    assert location_scale(np.full(4, 3.0)) == (3.0, 1.0)


def test_units_do_not_depend_on_the_candidate():
    """The set is that of the regression alone: refits with the units of the training rows."""
    data = table(30, seed=3)
    res = stabconf.fit("y ~ x + g", data, loss="huber")
    new = data.iloc[[0]]
    for z in (-1e4, 0.0, 1e4):
        fits = res._fits
        solution = fits.augmented(res._new_rows(new)[0][0], fits.responses(z))
        scores = np.abs(solution.r)
        p = (1 + np.sum(scores[:-1] >= scores[-1])) / 31
        assert res.conformity(new, z)["p"].iloc[0] == pytest.approx(p)


def test_fits_to_parts_of_the_rows_learn_their_units_from_the_part():
    data = table(60, seed=4)
    res = stabconf.fit("y ~ x + g", data, loss="huber", penalty=0.05)
    which = np.arange(40)
    part = stabconf.fit("y ~ x + g", data.iloc[which], loss="huber", penalty=0.05)
    predict = res._fits.predictor(which)
    np.testing.assert_allclose(predict(res._new_rows(data)[0]), part.predict(data), atol=1e-7)
