"""CONTRIBUTING.md shows how to add one of each kind: what it shows is done here."""

import inspect

import numpy as np
import pytest
import test_contract
from pages import run, sections
from test_layout import ROOT

import stabconf
from stabconf.losses import LOSSES
from stabconf.results.figures import Figures
from stabconf.sets import METHODS, SCORES
from stabconf.show.report import content
from stabconf.statsmodels_plugin.adapters import _ADAPTERS

RECIPES = sections((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
ADDED = [heading for heading in RECIPES if heading.startswith("Add ")]
ALPHA = 0.1


@pytest.fixture(autouse=True)
def registries(monkeypatch, tmp_path, figures):
    """Registries as they were once a recipe has been tried; files go to a folder that is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(content, "data_checks", content.data_checks)
    before = [(each, dict(each)) for each in (LOSSES, METHODS, SCORES, _ADAPTERS)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)
    if hasattr(Figures, "plot_ladder"):
        del Figures.plot_ladder


def added(heading):
    """The names that a recipe's code defines."""
    names = {"__name__": "contributing"}
    run(RECIPES[heading], heading, names)
    return names


def flips(results, income, ends):
    """Whether p is above alpha just inside of the ends and not just outside, by refits."""
    near = 1e-4 * float(ends["upper"] - ends["lower"])
    inner = ends["lower"] + near, ends["upper"] - near
    outer = ends["lower"] - near, ends["upper"] + near
    p = results.conformity({"income": [income]}, z=[*inner, *outer])["p"].to_numpy()
    return np.all(p[:2] > ALPHA) and np.all(p[2:] <= ALPHA)


def test_there_is_a_recipe_for_each_kind():
    words = " ".join(ADDED)
    for kind in ("loss", "penalty", "method", "score", "figure", "report", "statsmodels"):
        assert kind in words


@pytest.mark.parametrize("heading", ADDED)
def test_every_recipe_runs_and_is_short(heading):
    made = run(RECIPES[heading], heading)
    assert made == []  # it shows no output that could differ
    code = RECIPES[heading].split("```python\n")[1].split("```")[0]
    lines = [line for line in code.splitlines() if line.strip() and "import" not in line]
    assert len(lines) <= (30 if heading == "Add a loss" else 16)


def test_a_loss_of_ones_own_keeps_the_contract():
    loss = added("Add a loss")["Fair"]()
    for name, test in inspect.getmembers(test_contract, inspect.isfunction):
        if name.startswith("test_"):
            test(loss)


def test_a_loss_of_ones_own_has_exact_and_stable_sets():
    names = added("Add a loss")
    res, ends = names["res"], names["ends"]
    assert ends.attrs["method"] == "exact" and ends.attrs["certified"]
    assert flips(res, 500.0, ends.iloc[0]) and flips(res, 1000.0, ends.iloc[1])
    stable = res.conf_int_conformal({"income": [500.0, 1000.0]}, alpha=ALPHA, method="stable", inner=True)
    assert np.all(stable["lower"] <= ends["lower"]) and np.all(ends["lower"] <= stable["inner_lower"])
    assert np.all(stable["upper"] >= ends["upper"]) and np.all(ends["upper"] >= stable["inner_upper"])


def test_a_loss_of_ones_own_is_not_squared_in_disguise():
    loss = added("Add a loss")["Fair"]()
    assert np.isfinite(loss.lipschitz) and loss.kind == "bending"
    slope = loss.derivative(np.array([1.0, 2.0]))
    assert slope[1] < 1.9 * slope[0]


def test_a_penalty_of_ones_own_leaves_the_intercept_free():
    names = added("Add a penalty")
    res, data = names["res"], names["data"]
    assert res.model.penalty.describe() == "slopes only, 10"
    shrunk = stabconf.fit("foodexp ~ income", data, loss="huber", penalty=10.0)
    pulls = []
    for fit in (res, shrunk):
        slopes = np.clip((data["foodexp"] - fit.predict()) / res.scale, -1.345, 1.345)
        pulls.append(abs(slopes.sum()))
    assert pulls[0] < 0.02 * pulls[1]
    assert flips(res, 500.0, names["ends"].iloc[0])


def test_a_method_of_ones_own_is_called_by_name():
    names = added("Add a method")
    plain, res = names["plain"], names["res"]
    assert plain.attrs["method"] == "naive" and not plain.attrs["certified"]
    limit = np.sort(np.abs(names["data"]["foodexp"] - res.predict()))[plain.attrs["k"] - 1]
    np.testing.assert_allclose(plain["upper"] - plain["lower"], 2 * limit)
    assert names["grouped"].attrs["groups"][True]["n"] < plain.attrs["n"]
    assert np.all(np.isinf(res.conf_int_conformal(names["new"], method="naive", side="upper")["lower"]))
    stretched = names["stretched"]
    np.testing.assert_allclose(stretched["upper"] - stretched["lower"], 2.2 * limit)
    with pytest.raises(stabconf.errors.InputTypeError, match=r"its options are .*units and stretch"):
        res.conf_int_conformal(names["new"], method="naive", folds=3)


def test_a_score_of_ones_own_makes_uneven_intervals():
    names = added("Add a score")
    (middle,) = names["res"].predict({"income": [500.0]})
    above, below = names["ends"]["upper"].iloc[0] - middle, middle - names["ends"]["lower"].iloc[0]
    assert 1.5 < above / below < 2.5


def test_a_figure_of_ones_own_goes_with_all_results():
    names = added("Add a figure")
    assert names["ax"].get_xlabel() == "foodexp"
    bands = stabconf.fit_quantiles("foodexp ~ income", names["data"])
    assert bands.plot_ladder(names["data"].head(5)).get_xlabel() == "foodexp"


def test_a_table_of_ones_own_is_in_the_report():
    assert "First rows" in added("Add a table to a report")["path"].read_text(encoding="utf-8")


def test_a_statsmodels_model_of_ones_own_has_the_sets_of_its_objective():
    names = added("Add a statsmodels model")
    ols = stabconf.fit("foodexp ~ income", names["data"], loss="squared", penalty=0)
    same = ols.conf_int_conformal({"income": [500.0]}, alpha=ALPHA)
    np.testing.assert_allclose(names["ends"].to_numpy(), same.to_numpy(), rtol=1e-6)
