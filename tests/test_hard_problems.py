"""Problems that once went wrong: more columns than rows, extreme rows, ties, walks that never ended."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from problems import Drawn, fits_of
from referee import conic_minimiser, p_value, smallest_norm_of_huber
from scipy import optimize

import stabconf
from stabconf import Huber, Linex, LogCosh, Power
from stabconf.sets import Fits, conformity
from stabconf.solvers import minimise


def frame_of(X, y=None):
    made = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return made if y is None else made.assign(y=y)


def formula_of(X):
    return "y ~ " + " + ".join(f"x{j}" for j in range(X.shape[1]))


def members(ends, label=0):
    """The pieces of a row's set."""
    return ends.attrs["pieces"].get(label, [tuple(ends.loc[label, ["lower", "upper"]])])


@pytest.mark.parametrize("n, p, penalty", [(9, 18, 0.001), (9, 9, 0.01), (19, 25, 0.001)])
def test_bands_with_as_many_columns_as_rows_cover(n, p, penalty):
    """Both fits go through all rows for a long range of responses, all of which are in the set."""
    rng, hits, draws = np.random.default_rng(1), 0, 30
    for _ in range(draws):
        X = rng.standard_normal((n + 1, p))
        y = X[:, 0] + rng.standard_normal(n + 1)
        res = stabconf.fit_quantiles(
            formula_of(X),
            frame_of(X[:n], y[:n]),
            quantiles=(0.1, 0.9),
            penalty=penalty,
            standardize=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = res.conf_int_conformal(frame_of(X[n:]), alpha=0.1)
        hits += any(low <= y[n] <= high for low, high in members(ends))
    # At nominal 0.90 fewer than 21 of 30 has probability below 1e-3; it was 0 to 5.
    assert hits >= 21


def test_a_scale_with_as_many_columns_as_rows_leaves_no_candidate_out():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((15, 30)), rng.standard_normal(15)
    data = frame_of(X, y).assign(s=rng.uniform(0.5, 2.0, 15))
    res = stabconf.fit(formula_of(X), data, loss="lad", penalty=0.1)
    new = frame_of(rng.standard_normal((1, 30))).assign(s=1.0)
    scaled, plain = (res.conf_int_conformal(new, alpha=0.2, **more) for more in ({"scale": "s"}, {}))
    # Wherever the fit goes through all rows every score is 0, whatever the scale.
    p = res.conformity(new, np.linspace(plain["lower"].iloc[0], plain["upper"].iloc[0], 9))["p"].to_numpy()
    inside = np.linspace(plain["lower"].iloc[0], plain["upper"].iloc[0], 9)[p == 1.0]
    assert len(inside) >= 3
    assert (scaled["lower"].iloc[0] <= inside).all() and (inside <= scaled["upper"].iloc[0]).all()


def test_squared_loss_at_extreme_leverage_is_the_dual_form_in_long_double():
    """|r_i - t b_i| against |t| for t = (z - mu) / (1 + h): no difference of large numbers."""
    rng = np.random.default_rng(3)
    for far in (1.0, 3e3, 1e6):
        X, y = rng.standard_normal((20, 25)), rng.standard_normal(20)
        new = far * rng.standard_normal((1, 25))
        res = stabconf.fit(
            formula_of(X) + " - 1", frame_of(X, y), loss="squared", penalty=1e-4, standardize=False
        )
        rows = np.vstack([X, new]).astype(np.longdouble)
        gram = (rows[:20].T @ rows[:20]).astype(float) + 20 * 1e-4 * np.eye(25)
        inverse = np.linalg.inv(gram).astype(np.longdouble)
        for _ in range(3):  # Newton's iteration for the inverse, in long double
            inverse = inverse @ (2 * np.eye(25) - gram.astype(np.longdouble) @ inverse)
        theta = inverse @ rows[:20].T @ y
        b, lever = rows[:20] @ inverse @ rows[20], rows[20] @ inverse @ rows[20]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stabconf.StabilityWarning)  # of infinite ends
            ends = res.conf_int_conformal(frame_of(new), alpha=0.2)
        pieces = members(ends)
        size = float(1 + lever)
        for t in np.concatenate([np.linspace(-4, 4, 41), [-1e3, 1e3]]):
            z = float(rows[20] @ theta + t * (1 + lever))
            p = (1 + np.sum(np.abs(y - rows[:20] @ theta - t * b) >= abs(t))) / 21
            assert (p > 0.2) == any(low <= z <= high for low, high in pieces), (far, t, size)


def test_bounds_on_p_values_hold_where_no_stability_bound_is_finite():
    rng = np.random.default_rng(4)
    a = rng.standard_normal(8)
    data = pd.DataFrame({"a": a, "b": 2.0 * a, "y": rng.standard_normal(8)})
    res = stabconf.fit("y ~ a + b", data, loss="huber", penalty=10.0, l1_ratio=1.0)
    made = res.conformity(data.iloc[:3], [-3.0, 0.0, 0.5, 40.0])
    assert not made.isna().any(axis=None)
    assert (made["p_lo"] <= made["p"]).all() and (made["p"] <= made["p_up"]).all()


def test_an_unbounded_set_of_quantile_regression_is_infinite():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.standard_normal(15)})
    data["y"] = data["x"] + rng.standard_normal(15)
    far = pd.DataFrame({"x": [1e4]})
    for made in (
        stabconf.fit("y ~ x", data, loss=stabconf.Quantile(0.9), penalty=0),
        stabconf.fit("y ~ x", data, loss="lad", penalty=0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = made.conf_int_conformal(far, alpha=0.2)
        assert np.isinf(ends.to_numpy()).all()
        assert (made.conformity(far, [-1e9, 1e9])["p"] > 0.2).all()


def test_exact_sets_of_losses_with_clipped_slopes_have_tolerance_zero_and_agree_with_conformity():
    rng = np.random.default_rng(6)
    for n in (5, 15, 40):
        data = pd.DataFrame({"x": rng.standard_normal(n), "g": np.resize(["a", "b", "c"], n)})
        data["y"] = np.round(data["x"] + 20.0 * (rng.random(n) < 0.5), 1)
        for loss in ("lad", stabconf.Quantile(0.05), "huber", "squared"):
            res = stabconf.fit("y ~ x + g", data, loss=loss)
            for side in ("two-sided", "upper", "lower"):
                ends = res.conf_int_conformal(data.iloc[:2], alpha=0.3, side=side)
                assert ends.attrs["tol"] == 0.0
                z = np.concatenate([np.linspace(-60, 80, 41), [-1e6, 1e6]])
                p = res.conformity(data.iloc[:2], z, side=side)["p"].to_numpy().reshape(2, -1)
                for i, label in enumerate(data.index[:2]):
                    pieces = members(ends, label)
                    inside = [any(low <= each <= high for low, high in pieces) for each in z]
                    np.testing.assert_array_equal(p[i] > 0.3, inside)


@pytest.mark.parametrize(
    "loss, penalty", [(Power(1.1), 0.1), (LogCosh(), 0.0), (Huber(), 0.0), (stabconf.Linex(0.5), 0.01)]
)
def test_no_call_takes_long(loss, penalty):
    """A budget ends every walk; where it is used up the tolerance says so."""
    rng = np.random.default_rng(7)
    for n, p in ((30, 2), (20, 40)):
        X = rng.standard_normal((n, p))
        data = frame_of(X, X[:, 0] + rng.standard_normal(n))
        res = stabconf.fit(formula_of(X), data, loss=loss, penalty=penalty)
        new = frame_of(rng.standard_normal((1, p)))
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = res.conf_int_conformal(new, alpha=0.2)
        assert time.process_time() - began < 5.0
        assert ends.attrs["tol"] >= 0.0


def test_a_budget_that_runs_out_keeps_what_is_undecided_and_says_so():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((12, 20))
    data = frame_of(X, X[:, 0] + rng.standard_normal(12))
    res = stabconf.fit(formula_of(X), data, loss="logcosh", penalty=0.001)
    new = frame_of(rng.standard_normal((1, 20)))
    with pytest.warns(stabconf.StabilityWarning, match=r"budget=.*method='stable'"):
        few = res.conf_int_conformal(new, alpha=0.2, budget=4)
    many = res.conf_int_conformal(new, alpha=0.2, budget=2000)
    assert few.attrs["tol"] > many.attrs["tol"] and few.attrs["loose"]
    near = many.attrs["tol"]
    assert few["lower"].iloc[0] <= many["lower"].iloc[0] + near
    assert many["upper"].iloc[0] - near <= few["upper"].iloc[0]
    assert many["lower"].iloc[0] - few["lower"].iloc[0] <= few.attrs["tol"] + near


@pytest.mark.parametrize("seed", [2, 13, 18])
@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_tolerances_are_honest_of_one_sided_sets_that_end_behind_the_prediction(seed):
    """The budget runs out on the far side of the prediction, and what is behind it was found to be out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    res = stabconf.fit(
        formula_of(X),
        frame_of(X, X[:, 0] + rng.standard_t(3, 60)),
        loss=stabconf.Power(1.2),
        penalty=0.7,
    )
    new = frame_of(2.0 * rng.standard_normal((1, 3)))
    ends = res.conf_int_conformal(new, alpha=0.6, side="upper", budget=6)
    candidates = res.predict(new).iloc[0] + np.linspace(-8.0, 3.0, 1101)
    inside = res.conformity(new, candidates, "upper")["p"].to_numpy() > 0.6
    last = np.max(candidates[inside])
    tol = ends.attrs["tol"]
    assert tol > 1e-3
    assert ends["upper"].iloc[0] - tol - 1e-6 <= last <= ends["upper"].iloc[0] + 1e-6
    for bound in ("norm", "curvature"):  # what encloses the set encloses its loose end, too
        outer = res.conf_int_conformal(new, alpha=0.6, side="upper", method="stable", bound=bound)
        assert ends["upper"].iloc[0] <= outer["upper"].iloc[0]


def test_a_row_outside_of_what_training_spans_is_fitted_exactly_whatever_its_response():
    """Least squares without a penalty: the new row's residual is 0, those of the others stay as they
    are."""
    rng = np.random.default_rng(9)
    data = pd.DataFrame({"x": rng.standard_normal(12), "d": 0.0})
    data["y"] = data["x"] + rng.standard_normal(12)
    with pytest.warns(stabconf.DataWarning, match="'d' of the design is constant"):
        res = stabconf.fit("y ~ x + d", data, loss="squared", penalty=0)
    new = pd.DataFrame({"x": [0.0], "d": [1.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isinf(res.conf_int_conformal(new, alpha=0.2)).all(axis=None)
    assert (res.conformity(new, [-50.0, 0.0, 50.0])["p"] == 1.0).all()
    above = np.sum(res.resid.to_numpy() >= 0)
    upper = res.conformity(new, [-50.0, 0.0, 50.0], side="upper")["p"]
    np.testing.assert_allclose(upper, (1 + above) / 13)


@pytest.mark.parametrize("seed", [24, 30, 36])
def test_p_values_of_linex_with_a_lasso_and_more_columns_than_rows_are_those_of_refits(seed):
    """The fit follows such a row closely; fits that were given up on the way were taken as they were."""
    rng = np.random.default_rng(seed)
    n, p = 11, 20
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    new = np.append(1.0, rng.standard_normal(p - 1))
    y = 2.0 * X[:, 1] + 2.0 * rng.standard_normal(n)
    loss, ridge, lasso = Linex(0.5), np.zeros(p), np.append(0.0, np.full(p - 1, float(n)))
    solving = {"solver": "auto", "tol": 1e-8, "max_iter": 1000}
    fits = Fits(X, y, loss, ridge, lasso, 0.0, 1.0, np.zeros(p), solving).in_unit()
    candidates = np.array([-8.0, 0.5, 7.0, 12.0, 18.0])
    for z, made in zip(candidates, conformity(fits, new, candidates, "two-sided", None)[0], strict=True):
        rows, responses = np.vstack([X, new]), np.append(y, z)
        r = np.abs(responses - rows @ conic_minimiser(rows, responses, loss, ridge, lasso))
        low, high = ((1 + np.sum(r[:-1] >= r[-1] + near)) / (n + 1) for near in (1e-4, -1e-4))
        assert low <= made <= high, (z, made, low, high)


@pytest.mark.parametrize("d", [0.05, 0.3])
def test_huber_without_a_penalty_takes_the_smallest_norm_where_no_row_is_within_d(d):
    """Group means and lines through a few rounded responses: outer rows alone leave stretches free."""
    checked = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 3])
        n, groups = int(rng.integers(5, 12)), seed % 2
        rows = np.eye(3)[rng.integers(0, 3, n + 1)] if groups else 3.0 + rng.standard_normal((n + 1, 1))
        X = np.column_stack([np.ones(n + 1), rows])
        y = np.round(2.0 * rng.standard_normal(n)) / 2.0
        fits = fits_of(Drawn(X[:n], y, X[n:], 0.0, 0.0), Huber(d))
        z = np.concatenate([rng.normal(0.0, 1.0, 3), [-30.0]])
        p = conformity(fits, X[n], z, "two-sided", None)[0]
        for candidate, value in zip(fits.responses(z), p, strict=True):
            v = np.append(fits.whole.v, candidate)
            r = v - X @ smallest_norm_of_huber(X, v, fits.loss.d)
            least, most = (p_value(r, slack=slack) for slack in (-2e-5, 2e-5))
            assert least - 1e-12 <= value <= most + 1e-12, (seed, candidate)
            checked += least == most
    assert checked > 100


@pytest.mark.parametrize("loss", ["lad", "quantile", "huber", "squared"])
@pytest.mark.parametrize("offset", [200.0, 2_000.0, 1e5])
def test_an_offset_of_a_column_that_is_far_from_0_changes_nothing_without_a_penalty(loss, offset):
    """Years, altitudes and the like, taken as they are."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.standard_normal(80), "y": rng.standard_t(3, 80)})
    frame["y"] += frame["x"]
    new = pd.DataFrame({"x": [0.3, -2.0]})
    made = []
    for shift in (0.0, offset):
        data, moved = (each.assign(x=each["x"] + shift) for each in (frame, new))
        res = stabconf.fit("y ~ x", data, loss=loss, penalty=0, standardize=False)
        made.append((res.params["x"], res.predict(moved), res.conf_int_conformal(moved)))
    for here, there in zip(*made, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("loss", ["lad", "quantile", "huber", "squared", "logcosh"])
@pytest.mark.parametrize("seed", [0, 4])
def test_fits_that_go_through_every_row_follow_a_new_one_whatever_the_units_of_its_columns(loss, seed):
    """An indicator per row, and a column of up to 3e10 beside them: every residual is 0, so p is 1."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": 1e3 * rng.standard_cauchy(13) ** 3, "id": [f"i{i}" for i in range(13)]})
    frame["w"], frame["y"] = rng.standard_normal((2, 13))
    new = {"x": [1e9 * rng.standard_normal()], "id": ["i3"], "w": [0.4]}
    res = stabconf.fit("y ~ x + w + id", frame, loss=loss, penalty=0, standardize=False)
    assert (res.conformity(new, [-50.0, 0.3, 70.0])["p"] == 1.0).all()


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("loss", [Linex(0.5), Linex(1.0), LogCosh(1.0)], ids=repr)
def test_scores_of_a_fit_that_goes_through_every_row_tie_on_either_side(loss, side):
    """Residuals are 0 and not a solver's 1e-9, whose signs would rank them."""
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((7, 8))
        res = stabconf.fit(formula_of(X), frame_of(X[:6], 2.0 * X[:6, 0] ** 2), loss=loss, penalty=0)
        assert (res.conformity(frame_of(X[6:]), [0.3, 5.0], side=side)["p"] == 1.0).all()


def test_candidates_far_away_do_not_change_the_p_values_of_others():
    """Each refit starts at another's solution: those of responses of 1e9 scales are no place to start."""
    x = [1.29, -1.49, 0.46, 0.69, 1.94, 0.08, -0.38, -0.18, 0.01, 0.49, 0.27, 0.96]
    y = [0.017, 0.023, -0.078, -0.088, 0.055, 0.058, -0.263, 0.058, -0.060, 0.064, 0.016, 0.054]
    new = pd.DataFrame({"x": [-38.65]})
    frame = pd.DataFrame({"x": x, "y": y})
    res = stabconf.fit("y ~ x", frame, loss=Linex(0.5), penalty=0, standardize=False)
    far, near = [-1e8, -1e5, 1e5, 1e8], [-1e3, -99.6, -1.0, 0.0, 1.0, 99.6]
    for side in ("two-sided", "upper"):
        alone = [res.conformity(new, [z], side=side)["p"].item() for z in near]
        together = res.conformity(new, [*far, *near], side=side)["p"].to_numpy()[len(far) :]
        np.testing.assert_array_equal(together, alone)


def test_candidates_of_a_row_that_the_fit_follows_share_their_tilted_fits(monkeypatch):
    """Each response is looked for between the residuals that are known already."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.standard_normal(30), "y": rng.standard_normal(30)})
    res = stabconf.fit("y ~ x", frame, loss=Linex(1.0))
    new, z = pd.DataFrame({"x": [200.0]}), np.linspace(-10.0, 60.0, 20)
    alone = [res.conformity(new, [each])["p"].item() for each in z]
    calls = []

    def counted(*given, **options):
        calls.append(given)
        return minimise(*given, **options)

    monkeypatch.setattr("stabconf.sets.fits.minimise", counted)
    np.testing.assert_array_equal(res.conformity(new, z)["p"], alone)
    assert 0 < len(calls) <= 8 * len(z)


def test_far_candidates_of_a_row_that_the_fit_follows_have_the_p_values_of_its_set():
    """Their residual stays what it is, while the coefficients grow to sizes of 1e9."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((19, 6)), 3.0 * rng.standard_normal(19)
    frame = frame_of(X, y).assign(g=[f"id{i}" for i in range(18)] + ["id9"])
    model = {"loss": "huber", "penalty": 0.001, "l1_ratio": 1.0, "standardize": False}
    res = stabconf.fit(formula_of(X) + " + g", frame[:18], **model)
    new = frame[18:]
    ends = res.conf_int_conformal(new, alpha=0.2)
    far = [-1e10, -1e6, 1e6, 1e10]
    assert np.isfinite(ends.to_numpy()).all()
    assert (res.conformity(new, far)["p"] <= 0.2).all()


@pytest.mark.parametrize("penalty, l1_ratio", [(0.0, 0.0), (0.01, 1.0)])
def test_huber_fits_of_responses_far_from_0_keep_their_digits(penalty, l1_ratio):
    """Weights that break ties are for fits that tie; others would be off by a share of the distance."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.standard_normal(46), "y": 2.0 * rng.standard_t(3, 46)})
    new = pd.DataFrame({"x": [0.3, 2.0]})
    options = {"loss": "huber", "penalty": penalty, "l1_ratio": l1_ratio, "standardize": False}
    here, there = (
        stabconf.fit("y ~ x", frame.assign(y=frame["y"] + shift), **options).conf_int_conformal(new) - shift
        for shift in (0.0, 1e4)
    )
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_a_set_is_found_where_a_lasso_leaves_no_coefficient():
    data = pd.DataFrame({"g": [f"id{i}" for i in range(12)], "y": np.arange(12.0) - 5.5})
    res = stabconf.fit("y ~ g - 1", data, loss="huber", penalty=10.0, l1_ratio=0.5)
    assert not res.params_standardized.any()
    ends = res.conf_int_conformal(data[:1], alpha=0.5)
    assert ends["lower"].iloc[0] < ends["upper"].iloc[0]


def test_thousands_of_tied_responses_cost_no_more_than_others():
    """All of them are fitted exactly: a system of their number took minutes."""
    rng = np.random.default_rng(0)
    n = 6000
    data = frame_of(rng.standard_normal((n, 3)), np.where(rng.random(n) < 0.85, 0.0, rng.poisson(3.0, n)))
    start = time.process_time()
    res = stabconf.fit("y ~ x0 + x1 + x2", data)
    ends = res.conf_int_conformal(data[:3], alpha=0.1)
    assert time.process_time() - start < 10.0
    assert res.converged and np.allclose(res.params, 0.0, atol=1e-9)
    assert np.allclose(ends["upper"], np.quantile(data["y"], 0.9, method="higher"))


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::stabconf.StabconfWarning")
@pytest.mark.parametrize(
    "loss, n, p, penalty, side",
    [
        ("pseudo_huber", 12, 2, stabconf.ElasticNet(0.01, 1.0), "two-sided"),
        ("pseudo_huber", 12, 20, 0, "two-sided"),
        ("linex", 3, 3, 0, "lower"),
        ("logcosh", 15, 15, 0, "two-sided"),
    ],
)
def test_no_numpy_warning_reaches_the_user(loss, n, p, penalty, side):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n + 1, p))
        data = frame_of(X, X[:, 0] + rng.standard_normal(n + 1))
        res = stabconf.fit(formula_of(X), data[:n], loss=loss, penalty=penalty)
        res.conf_int_conformal(data[n:], alpha=0.4, side=side)
        res.conformity(data[n:], [0.0, 5.0])


@pytest.mark.parametrize("q", [0.5, 0.37])
@pytest.mark.parametrize("shift", [1e3, 1e5])
def test_lad_of_responses_far_from_0_reaches_the_minimum_without_units(shift, q):
    """Against a linear programme, whose optimum does not depend on the shift."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((60, 3)), rng.standard_t(3, 60)
        made = stabconf.fit(
            formula_of(X), frame_of(X, y + shift), loss=stabconf.Quantile(q), penalty=0, standardize=False
        )
        Z = np.column_stack([np.ones(60), X])
        r = y + shift - Z @ made.params.to_numpy()
        best = -optimize.linprog(-y, A_eq=Z.T, b_eq=np.zeros(4), bounds=(q - 1.0, q)).fun
        assert np.sum(np.where(r > 0, q * r, (q - 1.0) * r)) <= best * (1.0 + 1e-9)


def test_saturated_lad_fits_give_one_interval_whatever_rows_are_asked_beside():
    """A response beyond the fit of smallest norm to the other rows is in no set, one before it in all."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"y": rng.standard_t(3, 39), "id": [f"i{i}" for i in range(39)]})
    with pytest.warns(stabconf.errors.DataWarning, match="nearly as many levels"):
        res = stabconf.fit("y ~ id", frame, penalty=0)
    fits, others = res._fits, np.arange(39) != 4
    theta = np.linalg.lstsq(fits.X[others], fits.whole.v[others], rcond=None)[0]
    end = fits.centre + fits.scale * float(fits.X[4] @ theta)
    for rows in (frame[:5], frame[4:5], frame[4::-1]):
        made = res.conf_int_conformal(rows, alpha=0.2).loc[4]
        np.testing.assert_allclose(made, [frame["y"][4], end], atol=1e-5)


@pytest.mark.parametrize("size", [1e155, 1e-170])
@pytest.mark.parametrize("loss", ["lad", "squared"])
def test_columns_whose_squares_are_out_of_range_have_units(loss, size):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(30)})
    frame["y"] = 3.0 * frame["x"] + rng.standard_normal(30)
    here, there = (
        stabconf.fit("y ~ x", each, loss=loss).conf_int_conformal(each[:3], alpha=0.1)
        for each in (frame, frame.assign(x=frame["x"] * size))
    )
    np.testing.assert_allclose(there, here, rtol=1e-9)


def test_linex_of_a_perfect_fit_and_jackknife_of_a_row_per_level_are_silent():
    x = np.random.default_rng(0).standard_normal(30)
    stabconf.fit("y ~ x", pd.DataFrame({"x": x, "y": 2.0 * x + 1.0}), loss=Linex(0.5), penalty=0).summary()
    y = [0.1257302210933933, -0.1321048632913019, 0.6404226504432821, 0.10490011715303971]
    res = stabconf.fit("y ~ 0 + C(k)", pd.DataFrame({"k": range(4), "y": y}), loss="huber")
    assert len(res.conf_int_conformal({"k": [0, 1]}, alpha=0.5, method="jackknife+")) == 2


def test_errors_of_large_responses_do_not_overflow():
    x = np.random.default_rng(0).standard_normal(30)
    made = stabconf.fit("y ~ x", pd.DataFrame({"x": x, "y": 1e300 * (x + x**2)})).fit_quality
    assert 1e299 < made["mae"] < made["rmse"] < 1e301


def test_root_of_a_set_without_an_end_is_infinite():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.standard_normal(25), "g": rng.choice(list("abc"), 25)})
    frame["y"] = np.exp(0.5 + 0.3 * frame["x"] + 0.3 * rng.standard_t(4, 25))
    res = stabconf.fit("y ~ x + g", frame, loss="linex")
    with pytest.warns(stabconf.errors.StabilityWarning, match="infinite"):
        exact, root = (
            res.conf_int_conformal(frame[:1], alpha=0.1, method=method).to_numpy()
            for method in ("exact", "root")
        )
    np.testing.assert_allclose(root, exact, atol=1e-5)
