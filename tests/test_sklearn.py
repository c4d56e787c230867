"""The scikit-learn regressor: estimator checks, pipelines, grids, the intervals of `stabconf.fit`."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import stabconf
from stabconf.errors import FormulaError
from stabconf.sklearn import ConformalRegressor


@parametrize_with_checks(
    [
        ConformalRegressor(),
        ConformalRegressor(loss="huber", penalty=0.1),
        ConformalRegressor(estimator=Ridge()),
    ]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_takes_it_for_an_estimator_of_its_own(estimator, check):
    check(estimator)


def drawn(n=80):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=["a", "b", "c"])
    frame["g"] = np.resize(["u", "v"], n)
    return frame, frame["a"] - 2.0 * frame["b"] + (frame["g"] == "v") + rng.standard_t(3, n)


def test_intervals_are_those_of_stabconf():
    frame, y = drawn()
    X, new = frame[["a", "b", "c"]], frame[["a", "b", "c"]].iloc[:4]
    wanted = stabconf.fit("y ~ a + b + c", X.assign(y=y), loss="huber")
    for rows, some in ((X, new), (X.to_numpy(), new.to_numpy())):
        made = ConformalRegressor(loss="huber", alpha=0.2).fit(rows, y)
        np.testing.assert_allclose(made.predict(some), wanted.predict(new))
        np.testing.assert_allclose(made.predict_interval(some), wanted.conf_int_conformal(new, 0.2))
    stable = made.predict_interval(new.to_numpy(), 0.1, "stable", "upper", bound="norm")
    np.testing.assert_allclose(stable, wanted.conf_int_conformal(new, 0.1, "stable", "upper", bound="norm"))
    several = made.predict_interval(new.to_numpy(), [0.1, 0.3])
    assert several.shape == (4, 2, 2)
    np.testing.assert_allclose(several[:, :, 1], made.predict_interval(new.to_numpy(), 0.3))
    assert ConformalRegressor().fit(X, y).results_.model.exog_names == ["Intercept", "a", "b", "c"]
    odd = X.rename(columns={"a": "a b"})
    assert ConformalRegressor().fit(odd, y).results_.model.exog_names[1] == "x0"


def test_a_formula_reads_the_columns_of_a_frame():
    frame, y = drawn()
    wanted = stabconf.fit("y ~ a + bs(b, df=4) + g", frame.assign(y=y)).conf_int_conformal(frame[:5], 0.2)
    for formula in ("~ a + bs(b, df=4) + g", "response ~ a + bs(b, df=4) + g"):
        made = ConformalRegressor(formula, alpha=0.2).fit(frame, y)
        np.testing.assert_allclose(made.predict_interval(frame[:5]), wanted)
        assert list(made.feature_names_in_) == ["a", "b", "c", "g"]
    taken = ConformalRegressor("~ a + y").fit(frame.rename(columns={"c": "y"}), y)
    assert taken.results_.model.endog_names == "y_"
    for formula in ("a + b", "np.log(y) ~ a"):
        with pytest.raises(FormulaError, match="TransformedTargetRegressor"):
            ConformalRegressor(formula).fit(frame, y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        ConformalRegressor("~ a").fit(frame, y[:-1])


def test_a_column_may_have_the_name_of_the_constant_and_ends_are_an_array():
    frame, y = drawn()
    named = frame[["a"]].rename(columns={"a": "Intercept"})
    made = ConformalRegressor().fit(named, y)
    plain = ConformalRegressor().fit(frame[["a"]], y)
    np.testing.assert_allclose(made.predict_interval(named), plain.predict_interval(frame[["a"]]))
    with pytest.raises(stabconf.errors.InputTypeError, match="predict_interval gives an array"):
        made.predict_interval(named, to="polars")


def test_it_works_in_pipelines_grids_and_cross_validation():
    frame, y = drawn()
    X = frame[["a", "b", "c"]].to_numpy()
    pipe = make_pipeline(StandardScaler(), ConformalRegressor(loss="huber"))
    assert np.mean(cross_val_score(pipe, X, y, cv=4)) > 0.4
    grid = {"conformalregressor__penalty": [0.01, 100.0], "conformalregressor__loss": ["lad", "squared"]}
    found = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert found.best_params_["conformalregressor__penalty"] == 0.01
    best = found.best_estimator_
    ends = best[-1].predict_interval(best[:-1].transform(X), alpha=0.2)
    assert np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) >= 0.8
    logs = TransformedTargetRegressor(ConformalRegressor(), func=np.log1p, inverse_func=np.expm1)
    assert logs.fit(X, np.exp(y)).predict(X).shape == (80,)


def test_any_regressor_goes_in_and_is_not_changed():
    frame, y = drawn()
    trees = GradientBoostingRegressor(n_estimators=10, random_state=0)
    made = ConformalRegressor("~ a + b", estimator=trees, method="cv+", alpha=0.2)
    assert made.get_params()["estimator__n_estimators"] == 10
    ends = clone(made).fit(frame, y).predict_interval(frame[:3], folds=4)
    wanted = stabconf.fit("y ~ a + b", frame.assign(y=y), estimator=trees)
    np.testing.assert_allclose(ends, wanted.conf_int_conformal(frame[:3], 0.2, "cv+", folds=4))
    assert not hasattr(trees, "estimators_")
    with pytest.raises(ValueError, match="cannot be combined"):
        ConformalRegressor(estimator=trees, loss="huber").fit(frame[["a"]], y)


def test_without_scikit_learn_the_package_works_and_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import stabconf\n"
        "try:\n    import stabconf.sklearn\n"
        "except ImportError as error:\n    sys.stdout.write(str(error))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'stabconf[sklearn]'" in out
