"""Influence and residuals: what single rows do to a fit, against refits without them and statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import stabconf
from stabconf.errors import InputError


@pytest.mark.parametrize("weights", [None, "w"])
def test_influence_on_least_squares_is_that_of_statsmodels(frame, weights):
    data = frame.assign(w=np.linspace(0.5, 2.0, len(frame)))
    given = {} if weights is None else {"weights": data[weights]}
    res = (smf.ols if weights is None else smf.wls)("y ~ x1 + x2 + g", data, **given).fit()
    made = stabconf.conformal(res).influence()
    names = list(res.params.index)
    for label in data.index[:8]:
        rest = data.drop(label)
        given = {} if weights is None else {"weights": rest[weights]}
        without = (smf.ols if weights is None else smf.wls)("y ~ x1 + x2 + g", rest, **given).fit()
        np.testing.assert_allclose(made.loc[label, names], res.params - without.params, atol=1e-9)
        row = data.loc[[label]]
        moved = res.predict(row).iloc[0] - without.predict(row).iloc[0]
        assert made.loc[label, "own_prediction"] == pytest.approx(moved, abs=1e-9)


@pytest.mark.parametrize("loss", ["lad", "huber", "logcosh"])
def test_influence_is_that_of_a_fit_without_the_row(frame, loss):
    n = len(frame)
    plain = {"standardize": False, "loss": loss}
    res = stabconf.fit("y ~ x1 + x2 + g", frame, penalty=0.02, **plain)
    made = res.influence()
    assert list(made.columns) == ["own_prediction", *res.params.index] and made.index.equals(frame.index)
    for at in range(0, n, 16):
        rest = frame.drop(frame.index[at])
        without = stabconf.fit(
            "y ~ x1 + x2 + g", rest, penalty=0.02 * n / (n - 1), **plain
        )  # a strength per row
        np.testing.assert_allclose(made.iloc[at, 1:], res.params - without.params, atol=1e-5)
        row = frame.iloc[[at]]
        moved = (res.predict(row) - without.predict(row)).iloc[0]
        assert made["own_prediction"].iloc[at] == pytest.approx(moved, abs=1e-5)


def test_moves_of_coefficients_make_the_move_of_the_prediction_in_any_units(results, frame):
    made = results.influence()
    design = pd.DataFrame(results._design.X, index=frame.index, columns=results.params.index)
    np.testing.assert_allclose(
        (made[design.columns] * design).sum(axis=1), made["own_prediction"], atol=1e-9
    )
    assert made["own_prediction"].abs().max() > 0


def test_the_rows_that_move_the_fit_most_are_named(results, figures):
    ax = results.plot_influence()
    most = results.influence()["own_prediction"].abs().nlargest(5).index
    assert {text.get_text() for text in ax.texts} == set(most)
    assert ax.get_ylabel() == "move of its own prediction by the row"
    assert results.plot_influence("x1").get_ylabel() == "move of x1 by the row"
    with pytest.raises(InputError, match="coefficient='x9' is not in the model: give one of Intercept"):
        results.plot_influence("x9")


def test_residuals_are_drawn_over_predictions_or_a_column(results, frame, figures):
    ax = results.plot_residuals()
    drawn = ax.collections[0].get_offsets()
    np.testing.assert_allclose(drawn[:, 0], results.fittedvalues)
    np.testing.assert_allclose(drawn[:, 1], results.resid)
    holes = frame.iloc[:30].copy()
    holes.iloc[0, holes.columns.get_loc("x1")] = np.nan
    holes.iloc[1, holes.columns.get_loc("y")] = np.nan
    ax = results.plot_residuals(holes, x="x2")
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], frame["x2"].iloc[2:30])
    assert ax.get_xlabel() == "x2" and ax.get_ylabel() == "y less its prediction"
    with pytest.raises(InputError, match="add them, or give response="):
        results.plot_residuals(frame.drop(columns="y"))
