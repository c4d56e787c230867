"""Choosing the penalty on pilot rows: what is chosen, what is left, and that coverage holds."""

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.data.design import build_design
from stabconf.errors import InputError
from stabconf.study.selection import _folds


@pytest.mark.parametrize("criterion", ["width", "loss"])
def test_the_pilot_chooses_and_is_left_out(frame, criterion):
    made = stabconf.select_penalty(
        "y ~ x1 + x2", frame, penalties=[0.01, 0.1, 1.0], pilot=0.4, criterion=criterion
    )
    assert len(made.pilot_index) == 32 and made.results.nobs == 48
    assert not set(made.pilot_index) & set(made.results.fittedvalues.index)
    assert made.results.model.penalty.strength == made.penalty
    assert list(made.path.columns) == ["penalty", "criterion", "se", "coverage", "chosen"]
    assert made.path.loc[made.path["chosen"], "penalty"].tolist() == [made.penalty]
    least = made.path.loc[made.path["criterion"].idxmin()]
    near = made.path["criterion"] <= least["criterion"] + least["se"]
    assert made.penalty == made.path.loc[near, "penalty"].max()
    at = made.path[made.path["chosen"]].iloc[0]
    assert f"{at['criterion']:.4g} (se {at['se']:.2g})" in repr(made)
    assert made.path["coverage"].isna().all() == (criterion == "loss")


def test_the_choice_depends_on_the_pilot_rows_alone(frame):
    """New responses of the other rows change the fit, not the penalty: it is a constant to them."""
    options = {"penalties": [0.1, 1.0], "pilot": 30, "folds": 2, "alpha": 0.1}
    made = stabconf.select_penalty("y ~ x1 + x2", frame, **options)
    rest = ~frame.index.isin(made.pilot_index)
    other = frame.copy()
    other.loc[rest, "y"] = np.random.default_rng(5).standard_normal(rest.sum())
    again = stabconf.select_penalty("y ~ x1 + x2", other, **options)
    pd.testing.assert_frame_equal(again.path, made.path)
    assert again.pilot_index.equals(made.pilot_index)
    assert not np.allclose(again.results.params, made.results.params)


def test_seeds_decide_and_rows_with_missing_values_take_no_part(frame):
    data = frame.copy()
    data.iloc[0, 0] = np.nan
    options = {"penalties": [0.1], "pilot": 20, "alpha": 0.1}
    one, two = (stabconf.select_penalty("y ~ x1", data, random_state=seed, **options) for seed in (1, 2))
    assert one.results.nobs == two.results.nobs == 59 and not one.pilot_index.equals(two.pilot_index)
    assert "row0" not in one.pilot_index


def test_the_plot_marks_the_chosen_penalty(frame, figures):
    made = stabconf.select_penalty("y ~ x1", frame, penalties=[0.1, 1.0], pilot=0.5)
    ax = made.plot()
    assert ax.get_xlabel() == "penalty" and ax.get_ylabel() == "mean width of the exact intervals"
    assert f"chosen: {made.penalty:g}" in [line.get_label() for line in ax.get_lines()]
    _, given = figures.subplots()
    assert made.plot(given) is given


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pilot": 1.5}, "pilot=1.5 is not allowed"),
        ({"pilot": 0.05}, r"is 4 of 80 complete rows: give at least 10"),
        ({"pilot": 79}, "leave 2 or more for the fit"),
        ({"folds": 1}, "folds=1 is not allowed"),
        ({"random_state": -1}, "random_state=-1 is not allowed"),
        ({"criterion": "nothing"}, "criterion='nothing' is unknown: give one of width, loss"),
        ({"penalties": []}, r"penalties=\[\] is empty"),
        (
            {"pilot": 12, "alpha": 0.01},
            "infinite at every penalty: give pilot=124 or more rows",
        ),
    ],
)
def test_what_cannot_be_chosen_is_said(frame, options, words):
    with pytest.raises(InputError, match=words):
        stabconf.select_penalty("y ~ x1", frame, **options)


@pytest.mark.slow
def test_coverage_holds_after_choosing():
    """Over 40 draws coverage is at least 1 - alpha but for three standard errors."""
    rng, alpha, hits = np.random.default_rng(3), 0.2, []
    for seed in range(40):
        X = rng.standard_normal((60, 8))
        data = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
        data["y"] = X[:, 0] + rng.standard_t(3, 60)
        formula = "y ~ " + " + ".join(data.columns[:-1])
        options = {
            "penalties": [0.01, 0.1, 1.0],
            "pilot": 20,
            "folds": 2,
            "loss": "squared",
            "criterion": "loss",
        }
        made = stabconf.select_penalty(formula, data.iloc[1:], random_state=seed, alpha=alpha, **options)
        ends = made.results.conf_int_conformal(data.iloc[:1], alpha=alpha)
        hits.append(ends["lower"].iloc[0] <= data["y"].iloc[0] <= ends["upper"].iloc[0])
    assert np.mean(hits) >= 1 - alpha - 3 * np.sqrt(alpha * (1 - alpha) / len(hits))


def test_folds_share_out_the_levels_of_a_category(frame):
    """Each fold has rows of every level, so that all others can be told from the rest."""
    data = frame.assign(h=np.where(np.arange(len(frame)) % 8 == 0, "few", "many"))
    design = build_design("y ~ x1 + g + h", data, {})
    pilot = np.random.default_rng(0).permutation(len(data))
    for fold in _folds(design, pilot, 5):
        assert set(data["h"].iloc[fold]) == {"few", "many"} and len(fold) == len(data) // 5


def test_a_level_of_one_pilot_row_is_left_out_of_the_judgement(frame):
    data = frame.assign(g=["rare", *frame["g"].iloc[1:]])
    options = {"penalties": [0.1, 1.0], "pilot": len(data) - 10, "loss": "huber"}
    made = stabconf.select_penalty("y ~ x1 + g", data, **options)
    assert made.pilot_index.isin(["row0"]).any() and np.isfinite(made.path["criterion"]).all()
