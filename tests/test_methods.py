"""Every other method against a computation of its own definition, and what they promise."""

import pickle

import numpy as np
import pandas as pd
import pytest
from problems import (
    KINDS,
    batch,
    cross,
    cv_plus,
    draw,
    exact,
    fits_of,
    grid,
    interpolation,
    jackknife_plus,
    parted_fits,
    replace_one,
    root,
    split,
    stable,
)
from referee import p_value, refit, training_location_scale
from scipy import optimize, stats

import stabconf
from stabconf import AssumptionError, InputError, InputTypeError
from stabconf.losses import LAD, LOSSES, Huber, LogCosh, Loss, Quantile, Squared
from stabconf.rank import conformal_rank
from stabconf.sets import METHODS, Fits, Method
from stabconf.sets.intervals import Intervals as simple_intervals

LIPSCHITZ = [LAD(), Quantile(0.8), Huber(), LogCosh()]
ALPHA = 0.2


def name_of(loss):
    return loss.describe()


@pytest.fixture
def frame():
    rng = np.random.default_rng(8)
    made = pd.DataFrame({"x": rng.standard_normal(60), "g": np.tile(list("abc"), 20)})
    made["y"] = 2.0 * made["x"] + rng.standard_t(3, 60)
    return made


# Replace-one, batch, interpolation -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [*LIPSCHITZ, Squared()], ids=name_of)
def test_replace_one_and_batch_hold_the_exact_set_and_their_inner_ones_lie_in_it(loss, kind):
    drawn = draw(kind, 3, n=30, penalty=0.5, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    for side in ("two-sided", "upper"):
        (full,) = exact(fits, drawn.new, [ALPHA], side=side)
        for z_hat in (None, np.quantile(drawn.y, [0.9])):
            for method in (replace_one, batch):
                (made,) = method(fits, drawn.new, [ALPHA], side=side, z_hat=z_hat, inner=True)
                near = 2e-6 * fits.scale
                assert made.lower[0] <= full.lower[0] + near and full.upper[0] <= made.upper[0] + near
                if not np.isnan(made.inner_lower[0]):
                    assert full.lower[0] <= made.inner_lower[0] + near
                    assert made.inner_upper[0] <= full.upper[0] + near


@pytest.mark.parametrize("loss", LIPSCHITZ, ids=name_of)
def test_replace_one_is_its_definition_with_the_published_constant(loss):
    """mu +- (k-th smallest of |r_i| + tau_i, plus tau_N), tau_i = 2 rho |x_i| |x_N| / (n penalty)."""
    drawn = draw("plain", 6, n=25, penalty=0.7, l1_ratio=0.0)
    fits = fits_of(drawn, loss, standardize=False)
    z_hat = float(np.median(drawn.y))
    (made,) = replace_one(fits, drawn.new, [ALPHA], z_hat=np.array([z_hat]), bound="paper")
    residuals = refit(
        drawn.X, drawn.y, drawn.new, z_hat, loss, drawn.ridge, drawn.lasso, standardize=False
    )[0]
    weight = drawn.ridge[0]
    norms = np.linalg.norm(np.vstack([drawn.X, drawn.new]), axis=1)
    tau = 2.0 * loss.lipschitz * norms * norms[-1] / weight
    k = conformal_rank(ALPHA, drawn.n)
    half = np.sort(np.abs(residuals[:-1]) + tau[:-1])[k - 1] + tau[-1]
    middle = z_hat - residuals[-1]
    assert [made.lower[0], made.upper[0]] == pytest.approx([middle - half, middle + half], abs=1e-5)


def test_the_published_constants_of_smooth_and_of_strongly_convex_losses():
    """2 sqrt(2 nu C) a_i a_N / (1 - nu a_N^2) with a penalty, 2 rho / mu without, C on the range of y."""
    drawn = draw("plain", 6, n=40, penalty=4.0, l1_ratio=0.0)
    start, new = np.zeros(drawn.X.shape[1]), np.array([[1.0, 0.1, 0.0, 0.2]])
    k, bound = conformal_rank(ALPHA, 40), np.sqrt(2.0 * 0.5 * np.ptp(drawn.y) ** 2)
    for ridge in (drawn.ridge, np.zeros(4)):
        solving = {"solver": "auto", "tol": 1e-8, "max_iter": 1000}
        fits = Fits(drawn.X, drawn.y, Squared(), ridge, np.zeros(4), 0.0, 1.0, start, solving)
        made = stable(fits, new, ALPHA, bound="paper")
        solution = fits.base.solution
        tau = np.full(41, 2.0 * bound)
        if ridge.any():
            norms = np.linalg.norm(np.vstack([drawn.X, new]), axis=1) / np.sqrt(ridge[0])
            tau = 2.0 * bound * norms * norms[-1] / (1.0 - norms[-1] ** 2)
        half = np.sort(np.abs(solution.r) + tau[:-1])[k - 1] + tau[-1]
        end = float(new[0] @ solution.x) + half
        wanted = end if end <= np.max(drawn.y) else np.inf
        assert made.upper[0] == pytest.approx(wanted, abs=1e-6)
        (full,) = exact(fits, new, [ALPHA])
        assert made.lower[0] <= full.lower[0] and full.upper[0] <= made.upper[0]
        beyond = np.array([np.max(drawn.y) + 1.0])  # a pin out of the range bounds nothing
        (pinned,) = replace_one(fits, new, [ALPHA], z_hat=beyond, bound="paper")
        assert np.isinf([pinned.lower[0], pinned.upper[0]]).all()


@pytest.mark.parametrize("z_hat", [-50.0, 0.0, 50.0])
@pytest.mark.parametrize("side", ["upper", "lower"])
def test_one_sided_replace_one_sets_hold_the_exact_one_from_any_pin(side, z_hat):
    """Also where the order statistic is negative, so that the set ends behind the fit."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame(rng.standard_normal((30, 2)), columns=["x", "u"])
    data["y"] = data["x"] + rng.standard_normal(30)
    new = pd.DataFrame(2.0 * rng.standard_normal((3, 2)), columns=["x", "u"])
    res = stabconf.fit("y ~ x + u", data, loss="huber", penalty=0.3)
    for alpha in (0.4, 0.6, 0.8):
        full = res.conf_int_conformal(new, alpha=alpha, side=side)
        for bound in ("norm", "curvature", "paper"):
            options = {"side": side, "z_hat": z_hat, "bound": bound, "method": "replace_one"}
            made = res.conf_int_conformal(new, alpha=alpha, **options)
            assert (made["lower"] <= full["lower"] + 1e-9).all()
            assert (made["upper"] >= full["upper"] - 1e-9).all()
    with pytest.raises(AssumptionError, match="bound='ball' needs to know"):
        res.conf_int_conformal(new, method="batch", bound="ball")


def test_a_batch_of_one_is_replace_one_and_more_points_never_widen_it():
    drawn = draw("heavy", 1, n=40, penalty=0.3, l1_ratio=0.0)
    rows = np.vstack([drawn.new, drawn.X[:4]])
    for loss in LIPSCHITZ:
        fits = fits_of(drawn, loss)
        points = np.quantile(drawn.y, [0.3, 0.5, 0.8]) * np.ones((len(rows), 1))
        (together,) = batch(fits, rows, [ALPHA], z_hat=points)
        for column in points.T:
            (alone,) = replace_one(fits, rows, [ALPHA], z_hat=column)
            (single,) = batch(fits, rows, [ALPHA], z_hat=column[:, None])
            np.testing.assert_array_equal([single.lower, single.upper], [alone.lower, alone.upper])
            assert np.all(together.lower >= alone.lower) and np.all(together.upper <= alone.upper)


@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal"])
@pytest.mark.parametrize("loss", LIPSCHITZ, ids=name_of)
def test_interpolation_holds_the_exact_set(loss, kind):
    drawn = draw(kind, 2, n=30, penalty=1.0, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    (full,) = exact(fits, drawn.new, [ALPHA])
    for queries in (1, 4, [float(np.median(drawn.y)), float(np.max(drawn.y) + 1.0)]):
        (made,) = interpolation(fits, drawn.new, [ALPHA], queries=queries, inner=True)
        assert made.lower[0] <= full.lower[0] + 1e-9 and full.upper[0] <= made.upper[0] + 1e-9
        if not np.isnan(made.inner_lower[0]):
            assert full.lower[0] <= made.inner_lower[0] and made.inner_upper[0] <= full.upper[0]


@pytest.mark.parametrize(("bound", "factor"), [("norm", 1.0), ("paper", 3.0)])
def test_interpolation_is_its_definition_on_a_grid(bound, factor):
    """Outer: |z - mu(z)| - c tau_N <= k-th smallest of |y_i - mu_i(z)| + c tau_i, mu interpolated.

    By default c is 1 and tau bounds moves from the fits at the queries; the paper has 3 and 2 rho a_i a_N.
    """
    drawn = draw("plain", 4, n=20, penalty=1.0, l1_ratio=0.0)
    loss = Huber()
    fits = fits_of(drawn, loss, standardize=False)
    queries = np.quantile(drawn.y, [0.1, 0.5, 0.9])
    (made,) = interpolation(fits, drawn.new, [ALPHA], queries=queries, bound=bound)
    X = np.vstack([drawn.X, drawn.new])
    fitted, slopes = [], []
    for z in queries:
        residuals = refit(
            drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso, standardize=False
        )[0]
        fitted.append(np.append(drawn.y, z) - residuals)
        slopes.append(abs(float(np.clip(residuals[-1], -loss.d, loss.d))))
    norms = np.linalg.norm(X, axis=1)
    apart = 2.0 * loss.d if bound == "paper" else loss.d + max(slopes)
    tau = factor * apart * norms * norms[-1] / drawn.ridge[0]
    k = conformal_rank(ALPHA, drawn.n)
    kept = []
    for z in np.linspace(made.lower[0] - 1.0, made.upper[0] + 1.0, 4001):
        mu = np.array([np.interp(z, queries, each) for each in np.transpose(fitted)])
        upper = np.sort(np.abs(drawn.y - mu[:-1]) + tau[:-1])[k - 1]
        if abs(z - mu[-1]) - tau[-1] <= upper:
            kept.append(z)
    step = (made.width[0] + 2.0) / 4000
    assert [kept[0], kept[-1]] == pytest.approx([made.lower[0], made.upper[0]], abs=1.01 * step)


def test_a_method_refuses_what_it_cannot_certify_and_names_the_assumption(frame):
    free = stabconf.fit("y ~ x", frame, loss="lad", penalty=0)
    for method in ("stable", "replace_one", "batch", "interpolation"):
        with pytest.raises(AssumptionError, match="ridge part of the penalty"):
            free.conf_int_conformal(frame, method=method)
    smooth = stabconf.fit("y ~ x", frame, loss="squared", penalty=0.1)
    with pytest.raises(AssumptionError, match="not Lipschitz"):
        smooth.conf_int_conformal(frame, method="interpolation")
    weak = stabconf.fit("y ~ x", frame, loss="squared", penalty=0.01)
    with pytest.raises(AssumptionError, match="assumes nu < lambda"):
        weak.conf_int_conformal(frame, method="replace_one", bound="paper")
    steep = stabconf.fit("y ~ x", frame, loss="power", penalty=0.1)
    with pytest.raises(AssumptionError, match="assumes a Lipschitz loss or a smooth one"):
        steep.conf_int_conformal(frame, method="stable", bound="paper")
    rough = stabconf.fit("y ~ x", frame, loss="huber", penalty=0)
    with pytest.raises(AssumptionError, match="assumes a strongly convex loss"):
        rough.conf_int_conformal(frame, method="stable", bound="paper")


# Root, grid ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
@pytest.mark.parametrize("loss", LIPSCHITZ, ids=name_of)
def test_root_and_grid_agree_with_exact_to_their_resolution(loss, side):
    drawn = draw("plain", 5, n=40, penalty=0.1, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    (full,) = exact(fits, drawn.new, [ALPHA], side=side)
    (found,) = root(fits, drawn.new, [ALPHA], side=side, tol=1e-6)
    (near,) = grid(fits, drawn.new, [ALPHA], side=side, points=400)
    step = 1.5 * np.ptp(drawn.y) / 399
    for made, resolution in ((found, 3e-6 * fits.scale), (near, 1.01 * step)):
        ends = [made.lower[0], made.upper[0]]
        assert ends == pytest.approx([full.lower[0], full.upper[0]], abs=resolution)
        assert not made.certified and "resolution" in made.guarantee


def test_root_ends_where_there_is_no_number_between_two_responses():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30)
    data = pd.DataFrame({"x": x, "y": 1e12 + x + rng.standard_normal(30)})
    res = stabconf.fit("y ~ x", data, loss="huber")
    made = res.conf_int_conformal({"x": [0.5]}, alpha=0.1, method="root")
    np.testing.assert_allclose(made, res.conf_int_conformal({"x": [0.5]}, alpha=0.1), rtol=0, atol=1e-3)


def test_root_finds_one_sided_sets_that_end_behind_the_prediction(frame):
    res = stabconf.fit("y ~ x", frame, loss=Quantile(0.9), penalty=0.1)
    full = res.conf_int_conformal(frame.iloc[:2], alpha=0.3, side="upper")
    found = res.conf_int_conformal(frame.iloc[:2], alpha=0.3, side="upper", method="root")
    assert (full["upper"] < res.predict(frame.iloc[:2])).all()
    np.testing.assert_allclose(found["upper"], full["upper"], atol=1e-5)


# Parts of the rows -----------------------------------------------------------------------------------


def by_hand(X, y, which, penalty):
    """A ridge fit in standardised units, written out: columns and response by the rows themselves."""
    mean, spread = X[which].mean(axis=0), X[which].std(axis=0)
    mean[0], spread[0] = 0.0, 1.0
    Z = (X[which] - mean) / spread
    ordered, n = np.sort(y[which]), len(which)
    centre = ordered[int(np.ceil(0.5 * n)) - 1]
    scale = (ordered[int(np.ceil(0.75 * n)) - 1] - ordered[int(np.ceil(0.25 * n)) - 1]) / 1.349
    gram = Z.T @ Z + n * penalty * np.eye(X.shape[1])
    theta = np.linalg.solve(gram, Z.T @ ((y[which] - centre) / scale))
    return lambda rows: centre + scale * ((rows - mean) / spread @ theta)


def in_units_of_all(X, y, which, penalty):
    """A ridge fit to some rows in the units, and with the penalty, of the fit to all of them."""
    centre, scale = training_location_scale(y, 0.5)
    gram = X[which].T @ X[which] + len(y) * penalty * np.eye(X.shape[1])
    theta = np.linalg.solve(gram, X[which].T @ ((y[which] - centre) / scale))
    return lambda rows: centre + scale * (rows @ theta)


@pytest.fixture
def squares():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(30), rng.standard_normal((30, 2)) * [1.0, 5.0]])
    y = X @ [1.0, 2.0, 0.3] + rng.standard_t(3, 30)
    new = np.column_stack([np.ones(4), rng.standard_normal((4, 2))])
    return X, y, new, parted_fits(X, y, Squared(), 0.1)


def test_split_is_its_definition(squares):
    X, y, new, fits = squares
    (made,) = split(fits, new, [ALPHA], calibration=0.4, random_state=7)
    order = np.random.default_rng(7).permutation(30)
    held, fitted = order[:12], order[12:]
    predict = by_hand(X, y, fitted, 0.1)
    half = np.sort(np.abs(y[held] - predict(X[held])))[int(np.ceil(0.8 * 13)) - 1]
    np.testing.assert_allclose([made.lower, made.upper], [predict(new) - half, predict(new) + half])
    assert made.certified and made.n == 12


def test_cross_cv_plus_and_jackknife_plus_are_their_definitions(squares):
    X, y, new, fits = squares
    for method, folds, options in (
        (cross, 5, {"folds": 5, "random_state": 2}),
        (cv_plus, 5, {"folds": 5, "random_state": 2}),
        (jackknife_plus, 30, {}),
    ):
        (made,) = method(fits, new, [ALPHA], **options)
        order = np.arange(30) if folds == 30 else np.random.default_rng(2).permutation(30)
        R, mu = np.empty(30), np.empty((4, 30))
        for held in np.array_split(order, folds):
            rest = np.setdiff1d(np.arange(30), held)
            predict = by_hand(X, y, rest, 0.1) if folds < 30 else in_units_of_all(X, y, rest, 0.1)
            R[held], mu[:, held] = np.abs(y[held] - predict(X[held])), predict(new)[:, None]
        if method is cross:
            for i in range(4):
                z = np.linspace(made.lower[i] - 1, made.upper[i] + 1, 2001)
                p = (1 + np.sum(np.abs(z[:, None] - mu[i]) <= R, axis=1)) / 31
                pieces = made.pieces.get(i, [(made.lower[i], made.upper[i])])
                inside = np.any([(low <= z) & (z <= high) for low, high in pieces], axis=0)
                np.testing.assert_array_equal(inside, p > ALPHA)
        else:
            lower = np.sort(mu - R, axis=1)[:, int(np.floor(ALPHA * 31)) - 1]
            upper = np.sort(mu + R, axis=1)[:, int(np.ceil((1 - ALPHA) * 31)) - 1]
            np.testing.assert_allclose([made.lower, made.upper], [lower, upper])
        assert "1 - 2 alpha" in made.guarantee


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_methods_cover_as_they_promise():
    rng = np.random.default_rng(1)
    alpha, draws, hits = 0.2, 300, {"split": 0, "cross": 0, "cv+": 0, "jackknife+": 0, "replace_one": 0}
    for _ in range(draws):
        x = rng.standard_normal(25)
        data = pd.DataFrame({"x": x, "y": x + rng.standard_t(2, 25)})
        res = stabconf.fit("y ~ x", data.iloc[:24], loss="huber", penalty=0.2)
        for method in hits:
            ends = res.conf_int_conformal(data.iloc[24:], alpha=alpha, method=method).iloc[0]
            hits[method] += ends["lower"] <= data["y"].iloc[24] <= ends["upper"]
    for method, count in hits.items():
        level = 1 - alpha if method in ("split", "replace_one") else 1 - 2 * alpha
        assert count >= stats.binom.ppf(1e-4, draws, level), (method, count)


# Candidates, transduction, comparison, extension -----------------------------------------------------


def test_a_conformal_set_holds_the_candidates_with_a_large_p_value():
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.standard_normal(80)})
    data["y"] = np.clip(np.round(1.5 + data["x"] + 0.3 * rng.standard_normal(80)), 0, 3)
    res = stabconf.fit("y ~ x", data, loss="huber", penalty=0.1)
    new = pd.DataFrame({"x": [0.0, None, 3.0]}, index=["a", "b", "c"])
    sets = res.conformal_set(new, candidates=[0, 1, 2, 3], alpha=0.1)
    p = res.conformity(new.loc[["a", "c"]], [0, 1, 2, 3])["p"].unstack()
    for row in ("a", "c"):
        assert sets[row] == tuple(z for z in (0, 1, 2, 3) if p.loc[row, z] > 0.1)
    assert sets["b"] is None and set(sets["a"]) <= {1, 2} and sets.attrs["p"].shape == (3, 4)
    with pytest.raises(InputError, match=r"candidates=\[\] is empty"):
        res.conformal_set(new, candidates=[])
    named = res.conformal_set(new, candidates=["none", "few", "some", "many"], alpha=0.1)
    for row in ("a", "c"):
        assert named[row] == tuple(["none", "few", "some", "many"][z] for z in sets[row])
    assert named["b"] is None and named.attrs["p"].columns.tolist() == ["none", "few", "some", "many"]
    labelled = res.conformity(new, ["none", "few", "some", "many"])
    assert labelled.loc[("a", "few"), "p"] == p.loc["a", 1]
    np.testing.assert_array_equal(labelled, res.conformity(new, [0, 1, 2, 3]))
    for labels, message in (
        (["none", "few", "some"], "a training response is 3: code the responses so and give every label"),
        (["none", "few", "few", "many"], "has a label twice"),
        (["none", 1, 2, 3], "is a str: give finite numbers, or labels"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            res.conformal_set(new, candidates=labels)


def test_labels_are_candidates_of_bands_and_of_two_values_too():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.standard_normal(60)})
    data["y"] = (data["x"] + 0.4 * rng.standard_normal(60) > 0).astype(float)
    new = data.iloc[:3]
    for res in (stabconf.fit("y ~ x", data), stabconf.fit_quantiles("y ~ x", data)):
        made = res.conformity(new, [False, True])
        np.testing.assert_array_equal(made, res.conformity(new, [0.0, 1.0]))
        assert made.index.get_level_values("z").tolist() == [False, True] * 3
    with pytest.raises(InputError, match="give their labels in that order to conformity"):
        stabconf.fit("g ~ x", data.assign(g=np.where(data["y"] > 0, "yes", "no")))


@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
@pytest.mark.parametrize("method", ["exact", "stable", "replace_one", "split", "cv+"])
def test_a_transductive_map_treats_all_rows_alike(method):
    """Swapping the new row with a training row changes nothing about the joint design."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_exponential(30), "g": np.tile(list("ab"), 15)})
    data["y"] = data["x"] + rng.standard_normal(30)
    formula = "y ~ standardize(x) + bs(x, df=4) + C(g)"
    for new in ([29], [3]):
        training = data.drop(index=new)
        res = stabconf.fit(formula, training, loss="huber", penalty=0.1)
        design, columns, rows, _ = res._design.together(data.loc[new], True)
        both = columns.apply(np.vstack([design.X, rows]))
        order = np.argsort(np.append(training.index, new))
        if new == [29]:
            first = both[order]
        else:
            np.testing.assert_allclose(both[order], first)
        plain = res.conf_int_conformal(data.loc[new], alpha=0.2, method=method)
        joint = res.conf_int_conformal(data.loc[new], alpha=0.2, method=method, transductive=True)
        assert joint.attrs["transductive"] and not plain.attrs["transductive"]
        # The difference that it makes is of the order of one row among n.
        assert np.abs(joint - plain).max(axis=None) < 0.3 * res._fitted.scale
        assert np.abs(joint - plain).max(axis=None) > 0


def test_a_transductive_map_keeps_the_order_of_categories(frame):
    ordered = frame.assign(g=pd.Categorical(frame["g"], categories=["c", "a", "b"]))
    res = stabconf.fit("y ~ x + g", ordered, loss="huber", penalty=0.1)
    design, *_ = res._design.together(pd.DataFrame({"x": [0.0], "g": ["b"]}), True)
    assert design.names == res._design.names == ["Intercept", "g[T.a]", "g[T.b]", "x"]
    logs = stabconf.fit("y ~ np.log(x)", frame.assign(x=np.exp(frame["x"])), loss="huber", penalty=0.1)
    with np.errstate(invalid="ignore"):
        ends = logs.conf_int_conformal({"x": [1.0, -1.0]}, transductive=True)
    assert np.isfinite(ends.iloc[0]).all() and np.isnan(ends.iloc[1]).all()


def test_transductive_intervals_keep_rows_with_missing_values_and_need_new_rows(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.1)
    new = pd.DataFrame({"x": [0.0, np.nan]}, index=["a", "b"])
    ends = res.conf_int_conformal(new, transductive=True)
    assert np.isnan(ends.loc["b"]).all() and np.isfinite(ends.loc["a"]).all()
    with pytest.raises(InputError, match="give them as exog"):
        res.conf_int_conformal(transductive=True)
    with pytest.raises(InputTypeError, match="transductive='yes' is not a flag"):
        res.conf_int_conformal(new, transductive="yes")


def test_z_hat_is_a_number_the_prediction_or_a_callable(frame):
    res = stabconf.fit("y ~ x", frame, loss="lad", penalty=0.5)
    new = frame.iloc[:3].assign(x=[0.0, np.nan, 2.0])
    options = {"alpha": 0.2, "method": "replace_one"}
    usual = res.conf_int_conformal(new, **options)
    pd.testing.assert_frame_equal(
        res.conf_int_conformal(new, z_hat="prediction", **options), usual, atol=1e-6
    )
    number = res.conf_int_conformal(new, z_hat=1.5, **options)
    called = res.conf_int_conformal(new, z_hat=lambda exog: np.full(len(exog), 1.5), **options)
    pd.testing.assert_frame_equal(called, number)
    several = res.conf_int_conformal(new, alpha=0.2, method="batch", z_hat=["prediction", 1.5])
    assert (several["upper"].dropna() <= number["upper"].dropna()).all()
    with pytest.raises(InputTypeError, match="z_hat='mean' is a str"):
        res.conf_int_conformal(new, z_hat="mean", **options)
    with pytest.raises(InputError, match="use method='batch'"):
        res.conf_int_conformal(new, z_hat=[1.0, 2.0], **options)
    mapped = {"x": [0.0, 2.0]}
    ends = res.conf_int_conformal(mapped, z_hat=lambda exog: 2.0 * exog["x"], **options)
    assert np.isfinite(ends).all(axis=None)
    for method in METHODS:
        assert res.conf_int_conformal({"x": [np.nan]}, alpha=0.2, method=method).isna().all(axis=None)


def test_compare_measures_methods_on_the_same_splits_and_resumes(frame, tmp_path):
    path = tmp_path / "runs.csv"
    methods = ["oracle", "exact", "split"]
    given = {"methods": methods, "penalty": [1.0, 0.1], "progress": False}
    few = stabconf.compare("y ~ x", frame, **given, repeats=3, resume=path)
    more = stabconf.compare("y ~ x", frame, **given, repeats=5, resume=path)
    fresh = stabconf.compare("y ~ x", frame, **given, repeats=5)
    spread = fresh.runs.groupby(["penalty", "method"])["coverage"].std() / np.sqrt(5)
    keys = pd.MultiIndex.from_frame(pd.DataFrame(fresh)[["penalty", "method"]])
    np.testing.assert_allclose(fresh["coverage_se"], spread.loc[keys])
    exactly = ["method", "penalty", "coverage", "length", "length_sd", "infinite", "repeats"]
    pd.testing.assert_frame_equal(pd.DataFrame(more)[exactly], pd.DataFrame(fresh)[exactly])
    assert list(few["repeats"]) == [3] * 6 and list(more["repeats"]) == [5] * 6
    assert len(fresh.plot().get_yticks()) == 6
    with pytest.raises(InputError, match="other settings"):
        stabconf.compare("y ~ x", frame, methods, alpha=0.3, repeats=1, resume=path)
    other = {"split": {"calibration": 0.3}}
    with pytest.raises(InputError, match="other settings"):
        stabconf.compare("y ~ x", frame, **given, repeats=1, resume=path, options=other)
    with pytest.raises(InputError, match="other settings"):
        stabconf.compare("y ~ x", frame.iloc[:40], **given, repeats=1, resume=path)
    with pytest.raises(InputError, match="options has 'splt'"):
        stabconf.compare("y ~ x", frame, **given, options={"splt": {}})
    with pytest.raises(InputError, match="'jacknife', which is unknown"):
        stabconf.compare("y ~ x", frame, ["jacknife"])


@pytest.mark.slow
def test_oracle_root_and_exact_have_the_same_length_on_diabetes():
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True).frame
    formula = "target ~ " + " + ".join(table.columns.drop("target"))
    made = stabconf.compare(
        formula, table, ["oracle", "root", "exact"], penalty=[1.0, 0.1], repeats=30, new=2, progress=False
    )
    lengths = made.set_index(["penalty", "method"])["length"]
    for penalty in (1.0, 0.1):
        of = lengths[penalty]
        assert of.max() / of.min() < 1.02, of


class Fair(Loss):
    """c^2 (|r|/c - log(1 + |r|/c)): convex, smooth, with slopes up to c; concave slopes on either side."""

    name, c, bends_once = "fair", 1.4, True

    @property
    def slopes(self):
        return (self.c, self.c)

    @property
    def smoothness(self):
        return 1.0

    def value(self, r):
        size = np.abs(r) / self.c
        return self.c**2 * (size - np.log1p(size))

    def derivative(self, r):
        return np.asarray(r) / (1.0 + np.abs(r) / self.c)

    def inverse_derivative(self, u):
        with np.errstate(divide="ignore"):
            return np.asarray(u) / np.maximum(1.0 - np.abs(u) / self.c, 0.0)

    def min_curvature(self, low, high):
        return (1.0 + np.maximum(np.abs(low), np.abs(high)) / self.c) ** -2.0

    def max_curvature(self, low, high):
        return (1.0 + np.maximum(np.maximum(low, np.negative(high)), 0.0) / self.c) ** -2.0

    def describe(self):
        return self.name


def test_a_method_and_a_loss_are_one_line_each_from_outside(frame, monkeypatch):
    def wide(fits, asked):
        centre, half = fits.base.predict(asked.rows), asked.more["half"]
        known = 1, fits.n
        return [
            simple_intervals(centre - half, centre + half, *known, a, asked.side, "wide", certified=False)
            for a in asked.alphas
        ]

    monkeypatch.setitem(METHODS, "wide", Method(wide, ("half",)))
    monkeypatch.setitem(LOSSES, "fair", Fair)
    res = stabconf.fit("y ~ x", frame, loss="fair", penalty=0.02)
    ends = res.conf_int_conformal(frame, method="wide", half=2.0)
    np.testing.assert_allclose(ends["upper"] - ends["lower"], 4.0)
    v = ((frame["y"] - res._fitted.centre) / res._fitted.scale).to_numpy()
    found = optimize.minimize(
        lambda theta: np.sum(Fair().value(v - res._X @ theta)) + 0.01 * len(v) * theta @ theta,
        np.zeros(2),
        tol=1e-12,
    )
    np.testing.assert_allclose(res.params_standardized, found.x, atol=1e-5)
    ends = res.conf_int_conformal(frame.iloc[:5], alpha=0.2)
    assert ends.attrs["method"] == "exact"
    near = 2.0 * ends.attrs["tol"]
    for label, end in ends.iterrows():
        new = frame.loc[[label]]
        outside = res.conformity(new, [end["lower"] - near, end["upper"] + near])["p"]
        inside = res.conformity(new, [end["lower"] + near, end["upper"] - near])["p"]
        assert (outside <= 0.2).all() and (inside > 0.2).all()


def test_a_loss_that_may_bend_more_than_once_is_refused_by_exact_and_enclosed_by_stable(frame):
    class Bumpy(Fair):
        name, bends_once = "bumpy", False

    res = stabconf.fit("y ~ x", frame, loss=Bumpy(), penalty=0.02)
    with pytest.raises(AssumptionError, match="bends once on each side of 0"):
        res.conf_int_conformal(frame.iloc[:2], alpha=0.2, method="exact")
    made = res.conf_int_conformal(frame.iloc[:2], alpha=0.2)
    sharp = stabconf.fit("y ~ x", frame, loss=Fair(), penalty=0.02).conf_int_conformal(
        frame.iloc[:2], alpha=0.2
    )
    assert made.attrs["method"] == "stable"
    assert (made["lower"] <= sharp["lower"]).all() and (sharp["upper"] <= made["upper"]).all()


def test_a_new_row_at_its_prediction_pulls_nothing_so_replace_one_is_stable():
    drawn = draw("plain", 7, n=30, penalty=0.4, l1_ratio=0.0)
    fits = fits_of(drawn, LogCosh(), standardize=False)
    for bound in ("norm", "curvature"):
        (pinned,) = replace_one(fits, drawn.new, [ALPHA], bound=bound)
        plain = stable(fits, drawn.new, ALPHA, bound=bound)
        assert pinned.upper[0] == pytest.approx(plain.upper[0], abs=1e-6)


def test_p_values_of_the_referee_agree_with_the_set_of_a_method():
    drawn = draw("plain", 9, n=20, penalty=0.2, l1_ratio=0.0)
    fits = fits_of(drawn, LAD())
    (made,) = root(fits, drawn.new, [ALPHA], tol=1e-7)
    for z, wanted in ((made.upper[0] - 1e-4, True), (made.upper[0] + 1e-4, False)):
        residuals = refit(drawn.X, drawn.y, drawn.new, z, LAD(), drawn.ridge, drawn.lasso)[0]
        assert (p_value(residuals) > ALPHA) == wanted


def test_bad_options_of_the_methods_are_named_with_their_fix(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.1)
    cases = [
        ({"method": "split", "random_state": "a"}, InputError, "random_state='a' is not allowed"),
        ({"method": "split", "calibration": 1.0}, InputError, "calibration=1.0 is not allowed"),
        ({"method": "cv+", "folds": 1}, InputError, "folds=1 is not allowed"),
        ({"method": "cross", "folds": 2.5}, InputError, "folds=2.5 is not allowed"),
        ({"method": "grid", "points": 2}, InputError, "points=2 is not allowed"),
        ({"method": "root", "tol": 0}, InputError, "tol=0 is not allowed"),
        ({"method": "interpolation", "queries": ["a"]}, InputTypeError, "give a number of responses"),
        ({"method": "stable", "bound": "foo", "alpha": 0.001}, InputError, "bound='foo' is unknown"),
        ({"method": "jackknife+", "folds": 3}, InputTypeError, "option 'folds' is unknown to method"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            res.conf_int_conformal(frame, **options)
    assert np.isfinite(res.conf_int_conformal(frame, method="cv+", folds=np.int64(5))).all(axis=None)
    with pytest.raises(InputTypeError, match="one number is needed"):
        res.summary(alpha=[0.1, 0.2])


def test_a_warning_says_why_an_interval_is_infinite(frame):
    wild = frame.copy()
    wild.loc[0:3, "y"] += [9.0, -9.0, 8.0, -8.0]
    flat = stabconf.UserScore(lambda r: np.minimum(np.abs(r), 2.0), lipschitz=1.0)
    cases = [
        (frame, "squared", {"method": "stable", "bound": "paper"}, "says nothing beyond the range"),
        (wild, "huber", {"method": "stable", "score": flat}, "the score is flat"),
        (frame, "huber", {"method": "grid", "points": 20}, "reach the end of the grid"),
    ]
    for data, loss, options, message in cases:
        res = stabconf.fit("y ~ x", data, loss=loss, penalty=0.3)
        with pytest.warns(stabconf.StabilityWarning, match=message):
            res.conf_int_conformal({"x": [4.0]}, alpha=0.02, **options)


def test_compare_takes_one_loss_at_a_time(frame):
    with pytest.raises(InputTypeError, match="compare takes one loss at a time; call it for each"):
        stabconf.compare("y ~ x", frame, loss=["lad", "huber"], repeats=1)
    with pytest.raises(InputError, match="did you mean 'huber'"):
        stabconf.compare("y ~ x", frame, loss="hubr", repeats=1)


@pytest.mark.parametrize("loss", ["lad", "huber", "squared", "logcosh"])
def test_intervals_start_from_the_training_fit_without_another_solve(frame, loss, monkeypatch):
    res = stabconf.fit("y ~ x + C(g)", frame, loss=loss)
    expected = res.conf_int_conformal(frame)
    again = pickle.loads(pickle.dumps(stabconf.fit("y ~ x + C(g)", frame, loss=loss)))

    def refuse(*_, **__):
        raise AssertionError("a base fit was made anew")

    monkeypatch.setattr("stabconf.sets.fits.minimise", refuse)
    assert again.conf_int_conformal(frame).equals(expected)
