"""Any estimator with ``fit`` and ``predict``: its sets, p-values and bounds against refits by hand."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neural_network import MLPRegressor

import stabconf
from stabconf import AssumptionError, InputError, InputTypeError
from stabconf.rank import conformal_rank
from stabconf.results.asking import Asked, Rows
from stabconf.sets import ESTIMATOR_METHODS, EstimatorFits, make_intervals
from stabconf.study.comparison import oracle

pytestmark = pytest.mark.filterwarnings("ignore:tau makes up")

FOREST = RandomForestRegressor(n_estimators=5, max_depth=3, random_state=0)
NETWORK = MLPRegressor(hidden_layer_sizes=(4,), max_iter=50, random_state=0, tol=1.0)
BOOSTING = GradientBoostingRegressor(n_estimators=20, random_state=0)
ESTIMATORS = [LinearRegression(), Ridge(2.0), FOREST, BOOSTING, NETWORK]
PLAIN = {"standardize": False}  # so that features are the columns themselves
COLUMNS = ["x1", "x2"]


class RowCount(RegressorMixin, BaseEstimator):
    """Predicts how many rows it was fitted to: replacing a response moves nothing, adding one does."""

    def fit(self, X, y):
        self.value_ = float(len(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)


def name_of(estimator):
    return type(estimator).__name__


@pytest.fixture
def frame():
    rng = np.random.default_rng(8)
    made = pd.DataFrame(rng.standard_normal((40, 2)), columns=COLUMNS)
    made["g"], made["w"] = np.tile(list("ab"), 20), rng.uniform(0.5, 2.0, 40)
    made["y"] = 2.0 * made["x1"] + rng.standard_t(3, 40)
    return made


@pytest.fixture
def new():
    made = pd.DataFrame({"x1": [0.3, -1.0, 2.5], "x2": [0.0, 1.0, -0.5]}, index=["a", "b", "c"])
    return made.assign(g=["a", "b", "a"], w=[1.0, 0.7, 1.6])


def fitted(frame, estimator, **more):
    return stabconf.fit("y ~ x1 + x2", frame, estimator=estimator, **PLAIN, **more)


def by_hand(frame, row, z, estimator):
    """Predictions at the training rows and then at the new row, of the fit that has it at z."""
    X = np.vstack([frame[COLUMNS], row[COLUMNS].astype(float)])
    return clone(estimator).fit(X, np.append(frame["y"], z)).predict(X)


def p_by_hand(frame, row, z, estimator):
    E = np.abs(np.append(frame["y"], z) - by_hand(frame, row, z, estimator))
    return np.mean(E[-1] - 1e-10 <= E)


# Replace-one and batch -------------------------------------------------------------------------------


def test_bounds_of_0_that_hold_give_the_full_conformal_set():
    """The fit to the n rows, which these sets are not made from, predicts another number."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"x1": np.zeros(19), "x2": np.zeros(19), "y": 20.0 + np.round(rng.normal(size=19), 1)}
    )
    res = fitted(frame, RowCount(), tau=0.0)
    assert res.predict(frame).eq(19.0).all()
    ends = res.conf_int_conformal(frame.iloc[:1], alpha=0.2, method="replace_one", inner=True).iloc[0]
    far = np.sort(np.abs(frame["y"] - 20.0))[conformal_rank(0.2, 19) - 1]
    np.testing.assert_allclose(ends, [20.0 - far, 20.0 + far] * 2)
    z = np.round(np.arange(16.0, 24.05, 0.1), 1)
    p = [p_by_hand(frame, frame.iloc[0], one, RowCount()) for one in z]
    inside = z[np.array(p) > 0.2]
    assert (inside[0], inside[-1]) == pytest.approx((ends["lower"], ends["upper"]))
    np.testing.assert_allclose(res.conformity(frame.iloc[:1], z)["p"], p)
    assert (res.conformity(frame.iloc[:1], z)["gap"] == 0).all()
    for method in ("root", "grid"):
        found = res.conf_int_conformal(frame.iloc[:1], alpha=0.2, method=method).iloc[0]
        step = 1e-5 if method == "root" else 0.05
        assert np.all(np.abs(found - ends[["lower", "upper"]]) <= step), method


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
def test_with_the_exact_movement_of_ridge_the_set_of_refits_lies_between_outer_and_inner(frame, new, side):
    """Ridge moves by h_iN (z - z_hat), so within a distance D its tau is exact."""
    distance = 12.0

    def tau(X, row):
        rows = np.vstack([X, row])
        rows = rows - rows.mean(axis=0)
        hat = rows @ np.linalg.solve(rows.T @ rows + 2.0 * np.eye(2), rows[-1])
        return distance * np.abs(hat + 1.0 / len(rows))

    res = fitted(frame, Ridge(2.0), tau=tau)
    ends = res.conf_int_conformal(new, alpha=0.2, method="replace_one", side=side, inner=True)
    for label, row in new.iterrows():
        z_hat = res.predict(new)[label]
        moves = by_hand(frame, row, z_hat + distance, Ridge(2.0)) - by_hand(frame, row, z_hat, Ridge(2.0))
        np.testing.assert_allclose(res.tau(new).loc[label], np.abs(moves), rtol=1e-9)
        z = np.linspace(z_hat - distance, z_hat + distance, 41)
        p = res.conformity(new.loc[[label]], z, side)
        assert (p["p_lo"] <= p["p"]).all() and (p["p"] <= p["p_up"]).all() and (p["gap"] < 1).any()
        np.testing.assert_allclose(p["gap"], p["p_up"] - p["p_lo"])
        inside = z[p["p"].to_numpy() > 0.2]
        lower, upper, inner_lower, inner_upper = ends.loc[label]
        assert lower <= inside[0] and inside[-1] <= upper
        assert set(z[(z >= inner_lower) & (z <= inner_upper)]) <= set(inside)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_replace_one_is_the_papers_algorithm_1(frame, new, estimator):
    res = fitted(frame, estimator, tau="norm/n")
    ends = res.conf_int_conformal(new, alpha=0.1, method="replace_one", z_hat=1.5)
    assert not ends.attrs["certified"] and ends.attrs["bound"] == "norm/n"
    words = "replacing the response of the new row moves no prediction by more than tau, which is taken on"
    assert words in ends.attrs["guarantee"] and "units" not in ends.attrs["guarantee"]
    scaled = stabconf.fit("y ~ x1", frame, estimator=estimator, tau=0.1)
    attrs = scaled.conf_int_conformal(new.iloc[:1], alpha=0.1, method="replace_one").attrs
    assert attrs["guarantee"].endswith("given the units learned in training")
    for label, row in new.iterrows():
        mu = by_hand(frame, row, 1.5, estimator)
        X = np.vstack([frame[COLUMNS], row[COLUMNS].astype(float)])
        tau = np.linalg.norm(X, axis=1) / 41.0
        half = np.sort(np.abs(frame["y"] - mu[:-1]) + tau[:-1])[conformal_rank(0.1, 40) - 1] + tau[-1]
        np.testing.assert_allclose(ends.loc[label], [mu[-1] - half, mu[-1] + half])
    assert not hasattr(estimator, "n_features_in_"), "the user's object is left alone"


def test_the_default_z_hat_is_the_training_prediction_and_batch_intersects(frame, new):
    res = fitted(frame, Ridge(2.0), tau=0.3)
    ask = {"alpha": 0.2, "inner": True}
    plain = res.conf_int_conformal(new, method="replace_one", **ask)
    told = res.conf_int_conformal(new, method="replace_one", z_hat="prediction", **ask)
    pd.testing.assert_frame_equal(plain, told)
    one = res.conf_int_conformal(new, method="batch", z_hat=["prediction"], **ask)
    np.testing.assert_array_equal(one, plain)
    z_hat = [-2.0, 0.0, 3.0]
    each = [res.conf_int_conformal(new, method="replace_one", z_hat=z, **ask) for z in z_hat]
    both = res.conf_int_conformal(new, method="batch", z_hat=z_hat, **ask)
    np.testing.assert_array_equal(both["lower"], np.max([ends["lower"] for ends in each], axis=0))
    np.testing.assert_array_equal(both["upper"], np.min([ends["upper"] for ends in each], axis=0))
    assert both.attrs["method"] == "batch" and not both.attrs["certified"]
    p = [res.conformity(new, [0.0, 4.0], z_hat=z) for z in z_hat]
    several = res.conformity(new, [0.0, 4.0], z_hat=z_hat)
    np.testing.assert_array_equal(several["p_lo"], np.max([one["p_lo"] for one in p], axis=0))
    np.testing.assert_array_equal(several["p_up"], np.min([one["p_up"] for one in p], axis=0))
    with pytest.raises(InputError, match="several values a row: use method='batch'"):
        res.conf_int_conformal(new, method="replace_one", z_hat=z_hat)


def test_scores_and_scales_are_those_of_other_methods(frame, new):
    """Residuals in units of w: the half width is w times the order statistic of (|r_i| + tau) / w_i."""
    res = fitted(frame, Ridge(2.0), tau=0.3)
    ends = res.conf_int_conformal(new, alpha=0.2, method="replace_one", z_hat=0.0, scale="w")
    steep = stabconf.UserScore(lambda r: np.where(r < 0, -2.0 * r, r), lipschitz=2.0)
    other = res.conf_int_conformal(new, alpha=0.2, method="replace_one", z_hat=0.0, score=steep)
    k = conformal_rank(0.2, 40)
    for label, row in new.iterrows():
        mu = by_hand(frame, row, 0.0, Ridge(2.0))
        r = frame["y"] - mu[:-1]
        half = row["w"] * np.sort((np.abs(r) + 0.3) / frame["w"])[k - 1] + 0.3
        np.testing.assert_allclose(ends.loc[label], [mu[-1] - half, mu[-1] + half])
        level = np.sort(np.maximum(-2.0 * (r - 0.3), r + 0.3))[k - 1]
        np.testing.assert_allclose(other.loc[label], [mu[-1] - level / 2 - 0.3, mu[-1] + level + 0.3])


# p-values, root, grid, oracle ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("estimator", [Ridge(2.0), FOREST, NETWORK], ids=name_of)
def test_p_values_are_those_of_refits_by_hand_and_agree_with_sets(frame, new, estimator):
    res = fitted(frame, estimator)
    z = [-4.0, 0.0, 0.7, 3.0, 9.0]
    p = res.conformity(new, z)
    wanted = [p_by_hand(frame, row, one, estimator) for _, row in new.iterrows() for one in z]
    np.testing.assert_allclose(p["p"], wanted)
    assert (p["p_lo"] == 0).all() and (p["p_up"] == 1).all(), "nothing is known without tau"
    ends = res.conf_int_conformal(new.iloc[[0]], alpha=0.2, method="root", tol=1e-4).iloc[0]
    step = 1e-3
    near = [ends["lower"] - step, ends["lower"] + step, ends["upper"] - step, ends["upper"] + step]
    p = res.conformity(new.iloc[[0]], near)["p"].to_numpy()
    assert list(p > 0.2) == [False, True, True, False]
    grid = res.conf_int_conformal(new.iloc[[0]], alpha=0.2, method="grid", points=30).iloc[0]
    gap = 1.5 * np.ptp(frame["y"]) / 29
    assert np.all(np.abs(grid - ends) <= gap + step)


def test_rows_with_responses_get_p_values_and_the_prediction_of_the_fit_that_made_their_interval(frame):
    res = fitted(frame.iloc[:36], FOREST, tau="norm/n")
    rest = frame.iloc[36:]
    wanted = [p_by_hand(frame.iloc[:36], row, row["y"], FOREST) for _, row in rest.iterrows()]
    np.testing.assert_allclose(res.p_values(rest), wanted)
    made = res.augment(rest, alpha=0.5)
    assert made["prediction"].between(made["lower"], made["upper"]).all()
    text = " ".join(res.summary(alpha=0.1, details=True).as_text().split())
    assert "Stable certified: NO" in text and "tau, which is taken on trust, not certified" in text


def test_p_values_within_groups_and_under_weights_agree_with_root(frame, new):
    res = fitted(frame, Ridge(2.0), tau=50.0)
    for options in ({"groups": "g"}, {"weights": "w"}, {"groups": "g", "weights": "w"}):
        ends = res.conf_int_conformal(new, alpha=0.3, method="root", **options)
        held = res.conf_int_conformal(new, alpha=0.3, method="replace_one", **options)
        assert (held["lower"] < ends["lower"]).all() and (held["upper"] > ends["upper"]).all()
        for label, (low, high) in ends.iterrows():
            z = [low - 1e-3, low + 1e-3, high - 1e-3, high + 1e-3]
            p = res.conformity(new.loc[[label]], z, **options)
            assert list(p["p"] > 0.3) == [False, True, True, False]
            assert (p["p_lo"] <= p["p"]).all() and (p["p"] <= p["p_up"]).all()


def test_the_oracle_is_the_fit_that_has_seen_the_response(frame, new):
    res = fitted(frame, FOREST)
    y = [0.5, -2.0, 4.0]
    made = oracle(res, new, y, alpha=0.2)
    for z, (label, row) in zip(y, new.iterrows(), strict=True):
        mu = by_hand(frame, row, z, FOREST)
        far = np.sort(np.abs(frame["y"] - mu[:-1]))[conformal_rank(0.2, 40) - 1]
        np.testing.assert_allclose(made.loc[label], [mu[-1] - far, mu[-1] + far])


def test_estimators_are_compared_over_splits(frame, tmp_path):
    path = tmp_path / "runs.csv"
    methods = ["oracle", "replace_one", "batch", "root", "split"]
    given = {"alpha": 0.2, "estimator": Ridge(2.0), "tau": "estimate", "new": 2, "progress": False}
    few = stabconf.compare("y ~ x1 + x2", frame, methods, repeats=2, resume=path, **given)
    more = stabconf.compare("y ~ x1 + x2", frame, methods, repeats=3, resume=path, **given)
    assert list(few["method"]) == methods and "penalty" not in few and list(more["repeats"]) == [3] * 5
    assert len(more.plot().get_yticks()) == 5
    length = more.set_index("method")["length"]
    assert length["replace_one"] >= length["batch"] > length["root"]
    with pytest.raises(InputError, match="other settings"):
        stabconf.compare(
            "y ~ x1 + x2", frame, methods, repeats=1, resume=path, **{**given, "estimator": Ridge(3.0)}
        )
    with pytest.raises(InputError, match="'exact', which is unknown: give some of auto, oracle, split"):
        stabconf.compare("y ~ x1", frame, ["exact"], estimator=Ridge())
    with pytest.raises(InputError, match="penalty cannot be combined with estimator"):
        stabconf.compare("y ~ x1", frame, ["split"], penalty=1.0, estimator=Ridge(), progress=False)


def test_processes_share_the_refits_and_change_nothing(frame, new):
    res = fitted(frame, Ridge(2.0), tau=0.3)
    for method in ("replace_one", "batch", "root", "grid", "cv+", "cross"):
        more = {"points": 20} if method == "grid" else {}
        ends = [res.conf_int_conformal(new, 0.2, method, n_jobs=jobs, **more) for jobs in (1, 2)]
        pd.testing.assert_frame_equal(*ends)
    own = stabconf.fit("y ~ x1", frame, loss="huber")
    for method in ("replace_one", "root", "jackknife+"):
        ends = [own.conf_int_conformal(new, 0.2, method, n_jobs=jobs) for jobs in (1, 2)]
        pd.testing.assert_frame_equal(*ends)
    p = [res.conformity(new.iloc[:1], [0.0, 1.0, 2.0], n_jobs=jobs) for jobs in (1, 2)]
    pd.testing.assert_frame_equal(*p)


def test_refits_have_a_progress_bar(frame, new, capsys):
    res = fitted(frame, Ridge(2.0), tau=0.3)
    for method in ("replace_one", "root", "cv+", "jackknife+"):
        res.conf_int_conformal(new, 0.2, method, progress=True)
        assert "conformal sets" in capsys.readouterr().err
    res.conformity(new, [0.0], progress=True)
    assert "conformal sets" in capsys.readouterr().err


# tau -------------------------------------------------------------------------------------------------


def test_an_estimate_of_tau_is_twice_the_largest_movement_over_refits(frame, new):
    res = fitted(frame, FOREST, tau="estimate")
    made = res.tau(new)
    assert list(made.columns) == [*range(40), "new"] and list(made.index) == ["a", "b", "c"]
    low, high = frame["y"].min(), frame["y"].max()
    z = np.linspace(low - 0.25 * (high - low), high + 0.25 * (high - low), 5)
    for label, row in new.iterrows():
        base = by_hand(frame, row, res.predict(new)[label], FOREST)
        moves = [np.abs(by_hand(frame, row, one, FOREST) - base) for one in z]
        np.testing.assert_allclose(made.loc[label], 2.0 * np.max(moves, axis=0))
    ends = res.conf_int_conformal(new, alpha=0.2, method="replace_one")
    assert "tau, which is estimated, not certified" in ends.attrs["guarantee"]
    assert ends.attrs["bound"] == "estimate" and not ends.attrs["certified"]
    given = fitted(
        frame, FOREST, tau=lambda X, row: made.to_numpy()[np.argmin(np.abs(new["x1"] - row[0, 0]))]
    )
    np.testing.assert_allclose(given.conf_int_conformal(new, alpha=0.2, method="replace_one"), ends)
    p = res.conformity(new, z)
    assert (p["p_lo"] <= p["p"]).all() and (p["p"] <= p["p_up"]).all()
    text = res.summary(alpha=0.2).as_text()
    assert "estimated, not certified" in " ".join(text.split())


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_tau_is_a_name_a_number_an_array_or_a_callable(frame, new):
    norms = np.linalg.norm(np.vstack([frame[COLUMNS], new[COLUMNS].iloc[:1]]), axis=1)
    found = {
        name: fitted(frame, NETWORK, tau=name).tau(new.iloc[:1]).iloc[0].to_numpy()
        for name in ("norm/n", "iterations*norm/n", "norm/10")
    }
    steps = NETWORK.__class__(**NETWORK.get_params()).fit(frame[COLUMNS], frame["y"]).n_iter_
    np.testing.assert_allclose(found["norm/n"], norms / 41.0)
    np.testing.assert_allclose(found["iterations*norm/n"], steps * norms / 41.0)
    np.testing.assert_allclose(found["norm/10"], norms / 10.0)
    same = [0.3, np.full(41, 0.3), [0.3] * 41, lambda X, row: np.full((1, 41), 0.3), lambda X, row: 0.3]
    for tau in same:
        made = fitted(frame, Ridge(2.0), tau=tau).tau(new)
        assert made.shape == (3, 41) and (made == 0.3).all(axis=None)
    part = fitted(frame, Ridge(2.0), tau=0.3).tau(new.assign(x1=[0.0, None, 1.0]))
    assert part.isna().all(axis=1).tolist() == [False, True, False]


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
def test_width_owed_to_the_bounds_is_said(frame, new, side):
    """Bounds of 5 for the training rows and 2 for the new one move each end by 7."""
    tau = np.append(np.full(40, 5.0), 2.0)
    ask = {"alpha": 0.1, "method": "replace_one", "side": side}
    wide, plain = (
        fitted(frame, LinearRegression(), tau=t).conf_int_conformal(new, **ask) for t in (tau, 0.0)
    )
    res = fitted(frame, LinearRegression(), tau=tau)
    (made,) = res._intervals(Asked(Rows(res._new_rows(new)[0]), [0.1], "replace_one", side))
    moved = sum(np.abs(wide[end] - plain[end]) for end in wide if np.isfinite(wide[end]).all())
    np.testing.assert_allclose(moved, 7.0 * (2 if side == "two-sided" else 1))
    np.testing.assert_allclose(made.surcharge, moved)
    np.testing.assert_array_equal(made.tau, np.full(3, 2.0))
    if side == "two-sided":
        width = (wide["upper"] - wide["lower"]).mean()
        assert wide.attrs["stability_share"] == pytest.approx(14.0 / width)
        assert plain.attrs["stability_share"] == pytest.approx(0.0, abs=1e-12)
        with pytest.warns(stabconf.StabilityWarning, match="tau makes up .* use method='root' or 'split'"):
            res.conf_int_conformal(new, **ask)


def test_width_owed_to_the_bounds_is_none_where_sets_are_open(frame, new):
    res = fitted(frame, LinearRegression(), tau=5.0)
    with pytest.warns(stabconf.SampleSizeWarning):
        ends = res.conf_int_conformal(new, alpha=0.001, method="replace_one")
    assert np.isinf(ends).all(axis=None) and ends.attrs["stability_share"] == 0.0
    weighted = res.conf_int_conformal(new, alpha=0.1, method="replace_one", weights="w")
    assert 0.0 < weighted.attrs["stability_share"] < 1.0


def test_bad_estimators_and_taus_are_named_with_their_fix(frame, new):
    with pytest.raises(InputTypeError, match=r"without fit\(\): give an object"):
        fitted(frame, "forest")
    with pytest.raises(InputTypeError, match="not a class"):
        fitted(frame, LinearRegression)
    with pytest.raises(InputError, match="penalty cannot be combined with estimator"):
        fitted(frame, LinearRegression(), penalty=1.0)
    with pytest.raises(InputError, match=r"tau='root' is unknown: give one of 'norm/n'.*'estimate'"):
        fitted(frame, LinearRegression(), tau="root")
    with pytest.raises(InputError, match="tau is for an estimator"):
        stabconf.fit("y ~ x1", frame, tau="norm/n")
    for tau, words in [
        (np.ones(3), r"tau has shape \(3,\)"),
        (-1.0, "negative"),
        ([None], "not numbers|neg|shape"),
    ]:
        with pytest.raises(InputError, match=words):
            fitted(frame, LinearRegression(), tau=tau)
    with pytest.raises(InputError, match=r"tau has shape \(2,\)"):
        fitted(frame, LinearRegression(), tau=lambda X, row: np.ones(2)).tau(new)
    with pytest.raises(InputError, match="needs an estimator with n_iter_"):
        fitted(frame, LinearRegression(), tau="iterations*norm/n").tau(new)
    res = fitted(frame, LinearRegression())
    for ask in (res.tau, lambda rows: res.conf_int_conformal(rows, method="replace_one")):
        with pytest.raises(AssumptionError, match="give tau to fit"):
            ask(new)
    with pytest.raises(InputError, match=r"tau bounds what replacing its response does: .*replace_one"):
        res.conf_int_conformal(new, method="stable")
    with pytest.raises(InputError, match="'exact' is not for these results"):
        res.conf_int_conformal(new, method="exact")
    with pytest.raises(InputTypeError, match="'bound' is unknown to method 'replace_one'"):
        res.conf_int_conformal(new, method="replace_one", bound="norm")
    with pytest.raises(InputError, match="side='left' is unknown"):
        res.conformity(new, [0.0], side="left")


# Rows held out ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
def test_any_estimator_gets_certified_intervals_from_rows_held_out(frame, estimator):
    res = stabconf.fit("y ~ x1 + C(g)", frame, estimator=estimator)
    assert res.predict(frame).equals(res.fittedvalues)
    for method in ("split", "cross", "cv+"):
        ends = res.conf_int_conformal(frame.iloc[:3], alpha=0.1, method=method)
        assert ends.attrs["certified"] and np.isfinite(ends).all(axis=None)
    text = res.summary(alpha=0.1).as_text()
    assert type(estimator).__name__[:10] in text and "NOT certified" not in text


@pytest.mark.parametrize("method", ["split", "cv+", "jackknife+"])
def test_the_mean_beside_an_interval_is_that_of_the_fit_that_made_it(frame, method):
    """Half of a forest's predictions from all rows may lie outside of its 50 % split interval."""
    forest = RandomForestRegressor(n_estimators=5, random_state=0)
    options = {} if method == "jackknife+" else {"random_state": 3}
    for res in (fitted(frame, forest), stabconf.fit("y ~ x1 + x2", frame, loss="huber")):
        table = res.get_prediction(frame, method=method, **options).summary_frame(alpha=0.5)
        assert table["mean"].between(table["obs_ci_lower"], table["obs_ci_upper"]).all()
        if method == "split":
            middle = (table["obs_ci_lower"] + table["obs_ci_upper"]) / 2
            np.testing.assert_allclose(table["mean"], middle, atol=1e-12)
        shown = res.plot_intervals(frame, alpha=0.5, method=method, **options)
        assert shown is not None
    whole = fitted(frame, forest).predict()
    table = fitted(frame, forest).get_prediction(frame, random_state=3).summary_frame(alpha=0.5)
    assert (~whole.between(table["obs_ci_lower"], table["obs_ci_upper"])).mean() > 0.1
    rest = stabconf.fit("y ~ x1", frame, loss="huber").get_prediction(frame).summary_frame(0.2)
    assert rest["mean"].equals(stabconf.fit("y ~ x1", frame, loss="huber").predict(frame).rename("mean"))


def test_an_estimator_is_copied_when_fitted_and_survives_pickling(frame):
    estimator = GradientBoostingRegressor(n_estimators=5, subsample=0.5)  # another one every time
    res = fitted(frame, estimator)
    before = res.predict(frame)
    estimator.n_estimators = 500
    pd.testing.assert_series_equal(res.predict(frame), before)
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(res)).predict(frame), before)
    no_intercept = stabconf.fit("y ~ x1 - 1", frame, estimator=LinearRegression())
    assert np.isfinite(no_intercept.conf_int_conformal(frame, alpha=0.1)).all(axis=None)


# Coverage --------------------------------------------------------------------------------------------


def test_replace_one_with_exact_bounds_covers_no_less_and_no_more_than_the_full_set():
    """tau is 0 exactly, so coverage is k / (n + 1) where scores have no ties."""
    rng, draws, n, alpha = np.random.default_rng(5), 1000, 24, 0.2
    hits = 0
    for _ in range(draws):
        y = rng.normal(24.0, 3.0, n + 1)
        fits = EstimatorFits(np.zeros((n, 1)), y[:n], RowCount(), 0.0)
        asked = np.zeros((1, 1)), [alpha], "replace_one", "two-sided", {}, None, ESTIMATOR_METHODS
        (made,) = make_intervals(fits, *asked)
        hits += made.lower[0] <= y[n] <= made.upper[0]
    level = conformal_rank(alpha, n) / (n + 1)
    assert stats.binom.ppf(1e-4, draws, level) <= hits <= stats.binom.ppf(1 - 1e-4, draws, level)
