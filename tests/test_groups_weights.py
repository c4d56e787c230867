"""Ranks within groups and by weight: brute-force refits, definitions, coverage, labels, errors."""

import pickle

import numpy as np
import pandas as pd
import pytest
from problems import (
    KINDS,
    batch,
    draw,
    exact,
    fits_of,
    interpolation,
    replace_one,
    root,
    scored_stable,
    stable,
)
from referee import conic_minimiser, refit
from scipy import stats

import stabconf
from stabconf.data.units import location_scale
from stabconf.errors import AssumptionError, FormulaError, InputError, InputTypeError, SampleSizeWarning
from stabconf.losses import LAD, Huber, LogCosh, PseudoHuber, Quantile, Squared
from stabconf.rank import Peers, Rank, kth_of_lines
from stabconf.sets import METHODS, Method, conformity
from stabconf.sets.intervals import Intervals as simple_intervals
from stabconf.sets.intervals import join
from stabconf.stability import default_bound

LOSSES = [LAD(), Quantile(0.8), Huber(), Squared(), LogCosh()]
SIDES = ["two-sided", "upper", "lower"]
name_of = lambda loss: loss.describe()  # noqa: E731


def drawn_peers(drawn, kind, seed, m=1):
    """Some of the rows, weights that spread over two orders of size (some are 0), or both."""
    rng = np.random.default_rng([seed, 77])
    n = drawn.n
    some = np.flatnonzero(rng.random(n) < 0.4) if kind != "weights" else None
    if some is not None and len(some) < 3:
        some = np.arange(3)
    if kind == "groups":
        return Peers(n, some)
    weights = np.exp(1.5 * rng.standard_normal(n)) * (rng.random(n) < 0.9)
    weights[:3] = 1.0
    own = np.exp(0.5 * rng.standard_normal(m))
    return Peers(n, some, weights if some is None else weights[some], own)


def brute_p(drawn, loss, z, side, peers, slack):
    """p of a new row from a refit by clarabel, and the definition of a weighted rank within a group."""
    residuals, _, _, scale = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)
    scores = {"two-sided": np.abs(residuals), "upper": residuals, "lower": -residuals}[side]
    which = np.arange(drawn.n) if peers.which is None else peers.which
    weights = np.ones(len(which)) if peers.weights is None else peers.weights
    own = 1.0 if peers.own is None else peers.own[0]
    above = scores[:-1][which] >= scores[-1] - slack * scale
    return (own + np.sum(weights[above])) / (own + np.sum(weights))


def assert_ends_flip(drawn, loss, alpha, side, peers, made, steps):
    pieces = made.pieces.get(0, [(made.lower[0], made.upper[0])])
    spread = location_scale(drawn.y, loss.level)[1]
    for end, inward in [(low, 1) for low, _ in pieces] + [(high, -1) for _, high in pieces]:
        if not np.isfinite(end):
            continue
        size = max(1.0, abs(end) / spread)
        for step, slack, wanted in ((steps[0], 1e-6, True), (-steps[1], -1e-7, False)):
            z = end + inward * step * size * spread
            if wanted == any(low <= z <= high for low, high in pieces):
                p = brute_p(drawn, loss, z, side, peers, slack * size)
                assert (p > alpha) == wanted, (end, step, p, pieces)


@pytest.mark.parametrize("ranked", ["groups", "weights", "both"])
@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_exact_endpoints_flip_the_p_value_within_groups_and_by_weight(loss, ranked):
    checked = 0
    for seed, kind in enumerate(KINDS):
        if loss.name == "logcosh" and kind in ("heavy", "bimodal", "unscaled"):
            continue  # the referee's exponential cones fail on heavy tails
        drawn = draw(kind, seed, n=25 + 5 * seed, p=4, penalty=10.0 ** -(seed % 3), l1_ratio=0.0)
        fits, peers = fits_of(drawn, loss), drawn_peers(drawn, ranked, seed)
        alpha, side = (0.3, 0.1, 0.5)[seed % 3], SIDES[0 if seed < 6 else seed % 3]
        (made,) = exact(fits, drawn.new, [alpha], side=side, peers=peers)
        assert bool(np.isinf(made.width[0])) or side == "two-sided" or peers.open(alpha)
        steps = (5e-6, 1e-6) if loss.kind != "bending" else (1e-5, 5e-6)
        assert_ends_flip(drawn, loss, alpha, side, peers, made, steps)
        checked += bool(np.isfinite([made.lower[0], made.upper[0]]).any())
    assert checked >= 3


@pytest.mark.parametrize("ranked", ["groups", "weights", "both"])
@pytest.mark.parametrize("loss", [LAD(), Huber(), Squared(), PseudoHuber(1.0)], ids=name_of)
def test_enclosures_contain_the_exact_set_and_inner_sets_lie_in_it(loss, ranked):
    for seed, kind in enumerate(("plain", "wide", "tied", "heavy", "bimodal")):
        drawn = draw(kind, seed, n=40, penalty=0.3, l1_ratio=0.0)
        fits, peers = fits_of(drawn, loss), drawn_peers(drawn, ranked, seed)
        bound = default_bound(loss)
        for side in SIDES:
            (sharp,) = exact(fits, drawn.new, [0.3], side=side, peers=peers)
            outer = [stable(fits, drawn.new, 0.3, side=side, bound=bound, inner=True, peers=peers)]
            if loss.name != "squared":
                outer.append(stable(fits, drawn.new, 0.3, side=side, bound="ball", inner=True, peers=peers))
                outer += interpolation(fits, drawn.new, [0.3], side=side, inner=True, peers=peers)
            outer += replace_one(fits, drawn.new, [0.3], side=side, inner=True, peers=peers)
            outer += batch(fits, drawn.new, [0.3], side=side, inner=True, peers=peers)
            slack = 1e-6 * fits.scale
            for made in outer:
                if np.isfinite(sharp.lower[0]) or np.isfinite(sharp.upper[0]):
                    assert made.lower[0] <= sharp.lower[0] + slack, made.method
                    assert made.upper[0] >= sharp.upper[0] - slack, made.method
                if not np.isnan(made.inner_lower[0]) and not sharp.pieces:
                    assert made.inner_lower[0] >= sharp.lower[0] - slack, made.method
                    assert made.inner_upper[0] <= sharp.upper[0] + slack, made.method


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_many_rows_with_their_own_weights_have_the_sets_they_have_alone(loss):
    drawn = draw("bimodal", 3, n=50, penalty=0.05, l1_ratio=0.0)
    fits, rng = fits_of(drawn, loss), np.random.default_rng(5)
    rows = rng.standard_normal((12, 4))
    rows[:, 0] = 1.0
    peers = drawn_peers(drawn, "weights", 1, len(rows))
    peers = Peers(peers.count, None, peers.weights, np.append(peers.own[:-1], 1e4))  # the last is open
    runs = [
        lambda rows, peers: exact(fits, rows, [0.2, 0.4], peers=peers)[0],
        lambda rows, peers: exact(fits, rows, [0.2, 0.4], side="upper", peers=peers)[1],
        lambda rows, peers: stable(fits, rows, 0.2, bound=default_bound(loss), inner=True, peers=peers),
        lambda rows, peers: exact(fits, rows, [0.2], n_jobs=2, peers=peers)[0],
    ]
    for run in runs:
        made = run(rows, peers)
        alone = [run(rows[i : i + 1], peers.take(slice(i, i + 1))) for i in range(len(rows))]
        for name in ("lower", "upper"):
            expected = np.concatenate([getattr(one, name) for one in alone])
            np.testing.assert_allclose(getattr(made, name), expected, rtol=1e-5, atol=1e-5)
        assert np.isneginf(made.lower[-1]) and np.isposinf(made.upper[-1])


@pytest.mark.parametrize("loss", [LAD(), Huber(), Squared(), LogCosh()], ids=name_of)
def test_constant_weights_and_one_group_change_nothing(loss):
    drawn = draw("heavy", 2, n=40, penalty=0.1, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    for peers in (Peers(40, np.arange(40)), Peers(40, None, np.full(40, 0.3), np.array([0.3]))):
        for alpha in (0.1, 0.3, 5 / 41):
            plain, same = (exact(fits, drawn.new, [alpha], peers=each)[0] for each in (None, peers))
            np.testing.assert_allclose([same.lower, same.upper], [plain.lower, plain.upper], rtol=1e-9)
            bound = default_bound(loss)
            plain, same = (stable(fits, drawn.new, alpha, bound=bound, peers=p) for p in (None, peers))
            np.testing.assert_allclose([same.lower, same.upper], [plain.lower, plain.upper], rtol=1e-9)


def test_weighted_order_statistics_of_lines_are_the_sort_for_masses_of_their_own():
    rng = np.random.default_rng(8)
    for n, m in ((30, 7), (900, 60)):
        offset, slope, weights = rng.standard_normal(n), rng.random(n), rng.random(n)
        r, mass = rng.standard_normal(m), rng.random(m) * 1.1 * weights.sum()
        values = offset + r[:, None] * slope
        order = np.argsort(values, axis=1)
        heap = np.cumsum(weights[order], axis=1)
        expected = [
            np.append(values[i, order[i]], np.inf)[np.searchsorted(heap[i], mass[i])] for i in range(m)
        ]
        rank = Rank(mass, np.arange(n), weights)
        np.testing.assert_allclose(kth_of_lines(offset, slope, rank, r), expected)


def test_p_values_are_those_of_the_refit_and_lie_between_their_bounds():
    for seed, loss in enumerate((LAD(), Huber(), Squared())):
        drawn = draw("plain", seed, n=30, penalty=0.2, l1_ratio=0.0)
        fits, peers = fits_of(drawn, loss), drawn_peers(drawn, "both", seed)
        z = np.linspace(np.min(drawn.y), np.max(drawn.y), 9)
        p, low, high, _ = conformity(fits, drawn.new[0], z, "two-sided", default_bound(loss), peers.take(0))
        expected = [brute_p(drawn, loss, one, "two-sided", peers, 1e-8) for one in z]
        np.testing.assert_allclose(p, expected, atol=1e-9)
        assert np.all(low <= p + 1e-12) and np.all(p <= high + 1e-12)


def test_scored_sets_contain_the_refitted_ones_within_groups_by_weight():
    drawn, loss = draw("plain", 4, n=30, penalty=0.5, l1_ratio=0.0), Huber()
    fits, peers = fits_of(drawn, loss), drawn_peers(draw("plain", 4, n=30), "both", 4)
    (made,) = scored_stable(fits, drawn.new, [0.3], score="dual", peers=peers)
    (sharp,) = root(fits, drawn.new, [0.3], score="dual", peers=peers)
    assert made.lower[0] <= sharp.lower[0] + 1e-5 and made.upper[0] >= sharp.upper[0] - 1e-5


# Frames -----------------------------------------------------------------------------------------------


@pytest.fixture
def frame():
    rng = np.random.default_rng(11)
    n = 80
    data = pd.DataFrame(
        {"x": rng.standard_normal(n), "g": rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])}
    )
    data["h"], data["w"], data["s"] = rng.choice([1, 2], n), rng.random(n) + 0.2, rng.random(n) + 0.5
    data["y"] = data.x + rng.standard_normal(n) * np.where(data.g == "a", 0.5, 2.0)
    return data


@pytest.fixture
def results(frame):
    return stabconf.fit("y ~ x", frame, loss="huber", penalty=0.1)


@pytest.fixture
def new(frame):
    return frame.drop(columns="y").iloc[[3, 1, 7, 20, 41]]


def held_out(results, method, fold):
    """Predictions of the fit without each row's fold, at the rows and at other rows."""
    fits, out = results._fits, {}
    whole = fits.whole
    for j in np.unique(fold):
        rest = np.flatnonzero(fold != j)
        if method != "jackknife+":
            out[j] = fits.predictor(rest)
            continue
        theta = conic_minimiser(whole.X[rest], whole.v[rest], whole.loss, whole.ridge, whole.lasso)
        out[j] = lambda rows, theta=theta: fits.centre + fits.scale * (rows @ theta)
    return lambda i, rows: out[fold[i]](rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_split_ranks_the_held_out_rows_of_the_group(results, frame, new, weighted):
    options = {"weights": "w"} if weighted else {}
    ends = results.conf_int_conformal(new, 0.25, "split", groups="g", random_state=4, **options)
    order = np.random.default_rng(4).permutation(80)
    held, fitted = order[:40], order[40:]
    predict = results._fits.predictor(fitted)
    scores = np.abs(frame.y - predict(results._X)).to_numpy()
    for i in range(len(new)):
        which = held[frame.g.to_numpy()[held] == new.g.iloc[i]]
        w = frame.w.to_numpy()[which] if weighted else np.ones(len(which))
        own = new.w.iloc[i] if weighted else 1.0
        centre = predict(results._new_rows(new)[0][i : i + 1])[0]
        inside = [e for e in scores[which] if own + w[scores[which] >= e].sum() > 0.25 * (own + w.sum())]
        is_open = own > 0.25 * (own + w.sum())
        half = np.inf if is_open else max(inside)
        assert ends.to_numpy()[i] == pytest.approx([centre - half, centre + half])


@pytest.mark.parametrize("method, folds", [("cv+", 5), ("cross", 5), ("jackknife+", 80)])
def test_fold_methods_rank_within_the_group_as_defined(results, frame, new, method, folds):
    options = {} if method == "jackknife+" else {"folds": folds, "random_state": 2}
    ends = results.conf_int_conformal(new, 0.25, method, groups="g", **options)
    order = np.arange(80) if folds == 80 else np.random.default_rng(2).permutation(80)
    fold = np.empty(80, dtype=int)
    for j, part in enumerate(np.array_split(order, folds)):
        fold[part] = j
    predict, rows = held_out(results, method, fold), results._new_rows(new)[0]
    at = np.array([predict(i, results._X[i : i + 1])[0] for i in range(80)])
    scores = np.abs(frame.y.to_numpy() - at)
    for i in range(len(new)):
        which = np.flatnonzero(frame.g == new.g.iloc[i])
        k = int(np.ceil(0.75 * (len(which) + 1)))
        centre = np.array([predict(j, rows[i : i + 1])[0] for j in which])
        low, high = centre - scores[which], centre + scores[which]
        if method == "cross":
            z = np.sort(np.concatenate([low, high]))
            kept = [c for c in z if np.sum((low <= c) & (c <= high)) >= len(which) - k + 1]
            expected = [kept[0], kept[-1]]
        else:
            expected = [-np.sort(-low)[k - 1], np.sort(high)[k - 1]]
        assert ends.to_numpy()[i] == pytest.approx(expected)


def test_the_weighted_jackknife_is_that_of_its_paper_and_folds_refuse_weights(results, frame, new):
    ends = results.conf_int_conformal(new, 0.25, "jackknife+", weights="w")
    predict, rows = held_out(results, "jackknife+", np.arange(80)), results._new_rows(new)[0]
    at = np.array([predict(i, results._X[i : i + 1])[0] for i in range(80)])
    scores, w = np.abs(frame.y.to_numpy() - at), frame.w.to_numpy()
    for i, own in enumerate(new.w):
        centre = np.array([predict(j, rows[i : i + 1])[0] for j in range(80)])
        upper = np.sort(centre + scores)
        heap = np.cumsum(w[np.argsort(centre + scores)]) / (w.sum() + own)
        assert ends["upper"].iloc[i] == pytest.approx(upper[np.argmax(heap >= 0.75)])
    assert "0.5 (1 - 2 alpha) under the shift" in ends.attrs["guarantee"]
    for method in ("cross", "cv+"):
        with pytest.raises(AssumptionError, match="use method='exact', 'stable', 'split' or 'jackknife"):
            results.conf_int_conformal(new, method=method, weights="w")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_groups_and_each_group_is_as_it_is_alone(results, frame, new, method):
    options = {"progress": False} if method in ("root", "grid") else {}
    run = lambda rows: results.conf_int_conformal(rows, 0.3, method, groups="g", **options)  # noqa: E731
    ends = run(new)
    assert list(ends.columns) == ["lower", "upper"] and ends.attrs["n"] == 80
    assert set(ends.attrs["groups"]) == set(new.g)
    for _, part in new.groupby("g"):
        pd.testing.assert_frame_equal(run(part), ends.loc[part.index], check_exact=False, rtol=1e-6)
    words = "within each group"
    assert words in ends.attrs["guarantee"]
    pickle.loads(pickle.dumps(ends))


def test_permuted_rows_have_the_same_sets(results, frame, new):
    mixed = frame.sample(frac=1.0, random_state=3)
    again = stabconf.fit("y ~ x", mixed, loss="huber", penalty=0.1)
    for options in ({"groups": "g"}, {"weights": "w"}, {"groups": ["g", "h"], "weights": "w"}):
        one, two = (each.conf_int_conformal(new, 0.3, **options) for each in (results, again))
        pd.testing.assert_frame_equal(one, two, rtol=1e-6)


def test_groups_are_columns_lists_and_terms_alike(results, frame, new):
    def ends(groups):
        return results.conf_int_conformal(new, 0.3, groups=groups)

    pd.testing.assert_frame_equal(ends("g"), ends("C(g)"))
    pd.testing.assert_frame_equal(ends("g"), ends(["g"]))
    pd.testing.assert_frame_equal(ends(["g", "h"]), ends("C(g):h"))
    pd.testing.assert_frame_equal(ends("x > 0"), ends("pd.cut(x, [-np.inf, 0, np.inf])"))
    assert set(ends("x > 0").attrs["groups"]) <= {True, False}
    twice = results.conf_int_conformal(new, [0.3, 0.5], groups="g")
    pd.testing.assert_frame_equal(twice[0.3], ends("g"))
    assert len(twice.attrs["groups"]) == 2


def test_weights_are_columns_callables_and_pairs_alike(frame, new):
    gappy = frame.copy()
    gappy.loc[[5, 9], "x"] = np.nan
    res = stabconf.fit("y ~ x", gappy, loss="lad", penalty=0.1)
    expected = res.conf_int_conformal(new, 0.2, weights="w")
    given = [
        lambda rows: 7.0 * rows["w"],
        (gappy["w"], new["w"]),
        (gappy["w"].drop([5, 9]).to_numpy(), new["w"].to_numpy()),
    ]
    for weights in given:
        pd.testing.assert_frame_equal(res.conf_int_conformal(new, 0.2, weights=weights), expected)
    assert expected.attrs["effective_n"] < 78


def test_missing_groups_and_weights_give_nan_and_peerless_training_rows(frame, new):
    holes, some = frame.copy(), new.copy()
    holes["g"] = holes["g"].where(holes.index % 4 != 0)
    some["g"] = some["g"].where(some.index != 1)
    some.loc[7, "w"] = np.nan
    res = stabconf.fit("y ~ x", holes, loss="huber", penalty=0.1)
    ends = res.conf_int_conformal(some, 0.3, groups="g", weights="w")
    assert list(ends.index[ends["lower"].isna()]) == [1, 7]
    known = holes["g"].notna()
    assert res.conf_int_conformal(some, 0.3, groups="g").attrs["groups"]["a"]["n"] == np.sum(
        known & (holes["g"] == "a")
    )
    table = res.get_prediction(some, groups="g", weights="w").summary_frame(0.3)
    assert pd.isna(table.loc[1, "group"]) and pd.isna(table.loc[7, "weight"])
    p = res.conformity(some, [0.0], groups="g")["p"]
    assert p.isna().sum() == 1
    some.loc[41, "w"] = np.nan
    compared = res.conf_int_conformal(some, 0.3, groups="w > 0.5")  # not known is not False
    assert list(compared.index[compared["lower"].isna()]) == [7, 41]
    nothing = res.conf_int_conformal(some.loc[[1]], 0.3, groups="g")
    assert nothing.isna().all(axis=None)


def test_summary_frames_carry_group_weight_and_scale(results, new):
    one = results.get_prediction(new, groups="g").summary_frame(0.3)
    assert list(one["group"]) == list(new["g"])
    several = results.get_prediction(
        new.rename(columns={}), method="stable", groups=["g", "h"], weights="w", scale="s"
    ).summary_frame(0.3)
    assert list(several.columns) == ["mean", "obs_ci_lower", "obs_ci_upper", "g", "h", "weight", "scale"]
    np.testing.assert_allclose(several["scale"], new["s"])
    assert several.attrs["groups"].keys() == set(zip(new["g"], new["h"], strict=True))


def test_names_of_groups_that_are_taken_get_a_prefix(frame, new):
    data, rows = (each.rename(columns={"h": "scale"}) for each in (frame, new))
    res = stabconf.fit("y ~ x", data, loss="huber", penalty=0.1)
    table = res.get_prediction(rows, groups=["g", "scale"]).summary_frame(0.3)
    assert {"g", "group_scale"} <= set(table.columns)


def test_options_name_any_column_after_pickling(results, new):
    again = pickle.loads(pickle.dumps(results))
    for options in ({"groups": "g", "weights": "w"}, {"groups": "g", "scale": "s", "method": "stable"}):
        pd.testing.assert_frame_equal(
            again.conf_int_conformal(new, 0.3, **options), results.conf_int_conformal(new, 0.3, **options)
        )


def test_small_groups_are_infinite_and_named_once(results, new):
    rows = new.assign(g=["a", "c", "b", "c", "a"])
    with pytest.warns(
        SampleSizeWarning, match=r"groups 'c' \(\d+\) have too few rows.*at least 19 rows"
    ) as seen:
        ends = results.conf_int_conformal(rows, 0.05, groups="g")
    assert len(seen) == 1
    is_c = (rows["g"] == "c").to_numpy()
    assert np.isinf(ends[is_c]).all(axis=None) and np.isfinite(ends[~is_c]).all(axis=None)
    with pytest.warns(SampleSizeWarning, match=r"groups 'c' \(\d+\) have"):
        results.conf_int_conformal(rows[is_c], 0.05, groups="g")
    with pytest.warns(SampleSizeWarning, match="weigh more than 0.05"):
        ends = results.conf_int_conformal(rows, 0.05, weights=(np.ones(80), [1.0, 50.0, 1.0, 1.0, 1.0]))
    assert list(np.isinf(ends["lower"])) == [False, True, False, False, False]
    with pytest.warns(SampleSizeWarning, match="have too few calibration rows"):
        results.conf_int_conformal(rows, 0.05, "split", groups="g")


def test_p_values_and_finite_sets_are_ranked_alike(results, new):
    ends = results.conf_int_conformal(new, 0.3, groups="g", weights="w")
    for i, label in enumerate(new.index):
        low, high = ends.loc[label]
        z = [low - 1e-4, low + 1e-4, high - 1e-4, high + 1e-4]
        p = results.conformity(new.iloc[[i]], z, groups="g", weights="w")["p"].to_numpy()
        assert list(p > 0.3) == [False, True, True, False]
        sets = results.conformal_set(new.iloc[[i]], z, 0.3, groups="g", weights="w")
        assert sets.iloc[0] == tuple(z[1:3])


def test_estimators_take_groups_and_weights(frame, new):
    class Line:
        def fit(self, X, y):
            self.slope = np.polyfit(X[:, 0], y, 1)

        def predict(self, X):
            return np.polyval(self.slope, X[:, 0])

    res = stabconf.fit("y ~ x", frame, estimator=Line(), tau="norm/n")
    for method in ("split", "cross", "cv+", "jackknife+", "replace_one"):
        assert res.conf_int_conformal(new, 0.3, method, groups="g").notna().all(axis=None)
    for method in ("split", "jackknife+", "replace_one"):
        assert res.conf_int_conformal(new, 0.3, method, weights="w").notna().all(axis=None)
    ends = res.conf_int_conformal(new, 0.3, "replace_one", groups="g", z_hat=1.0)
    tau = res.tau(new).to_numpy()
    x, fresh = (res._new_rows(rows)[0][:, 1:] for rows in (frame, new))
    for i in range(len(new)):
        line = Line()
        line.fit(np.vstack([x, fresh[i]]), np.append(frame["y"], 1.0))
        which = np.flatnonzero(frame.g == new.g.iloc[i])
        k = int(np.ceil(0.7 * (len(which) + 1)))
        size = np.abs(frame["y"].to_numpy() - line.predict(x))
        half = np.sort((size + tau[i, :-1])[which])[k - 1] + tau[i, -1]
        assert ends["upper"].iloc[i] == pytest.approx(line.predict(fresh[[i]])[0] + half)


def test_bad_groups_and_weights_are_named_with_their_fix(results, frame, new):
    def two(trained=1.0, fresh=1.0):
        one, other = np.ones(80), np.ones(5)
        one[0], other[0] = trained, fresh
        return one, other

    cases = [
        ({"groups": "region"}, FormulaError, "groups='region' is neither a column nor a term"),
        ({"groups": "g +"}, FormulaError, r"groups='g \+' cannot be parsed"),
        ({"groups": "x + h"}, FormulaError, "has 2 terms: give one"),
        ({"groups": 3}, InputTypeError, "groups=3 is a int: give a column"),
        ({"groups": []}, InputTypeError, r"groups=\[\] is a list"),
        ({"groups": "x"}, InputError, "has 80 values in 80 rows: give a column with few"),
        ({"groups": "pd.qcut(x, 2)"}, InputError, "depends on the other rows: make it a column"),
        ({"groups": "x > x.mean()"}, InputError, "depends on the other rows"),
        ({"groups": "pd.qcut(x, 2, labels=False):h"}, InputError, "depends on the other rows"),
        ({"weights": "v"}, InputError, "weights='v' is not a column of data"),
        ({"weights": "g"}, InputTypeError, "the values of weights='g' are not numbers"),
        ({"weights": np.ones(80)}, InputTypeError, "weights is a ndarray: give a column"),
        ({"weights": (np.ones(79), np.ones(5))}, InputError, r"shape \(79,\) for the 80 training rows"),
        ({"weights": (np.ones(80), np.ones(4))}, InputError, r"shape \(4,\) for the 5 new rows"),
        ({"weights": two(np.nan)}, InputError, "value nan in training: weights must be finite"),
        ({"weights": two(-1.0)}, InputError, "value -1 in training"),
        ({"weights": two(fresh=0.0)}, InputError, "value 0 in a new row: weights of new rows must be"),
        ({"weights": (np.zeros(80), np.ones(5))}, InputError, "is 0 for all training rows"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            results.conf_int_conformal(new, 0.3, **options)
    with pytest.raises(InputError, match=r"training did not have \('z'\): drop those rows"):
        results.conf_int_conformal(new.assign(g="z"), 0.3, groups="g")


def test_a_method_of_ones_own_without_peers_still_runs(results, new, monkeypatch):
    def wide(fits, asked):
        ends = 0 * asked.rows[:, 0], asked.rows[:, 0]
        return [simple_intervals(*ends, 1, fits.n, a, asked.side, "wide") for a in asked.alphas]

    monkeypatch.setitem(METHODS, "wide", Method(wide, ()))
    assert results.conf_int_conformal(new, method="wide").notna().all(axis=None)
    made = [simple_intervals(np.zeros(2), np.ones(2), 1, n, 0.1, "upper", "wide") for n in (3, 5)]
    joined = join(made, [np.array([0, 3]), np.array([1, 2])])
    assert list(joined.n) == [3, 5, 5, 3]


# Coverage ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_coverage_holds_within_groups_and_not_without_them():
    rng, draws, alpha = np.random.default_rng(1), 300, 0.2
    asked = {
        "exact": {"groups": "g"},
        "plain": {},
        "split": {"method": "split", "groups": "g"},
    }
    hits = {name: np.zeros(2) for name in asked}
    for _ in range(draws):
        n = 62
        data = pd.DataFrame({"x": rng.standard_normal(n), "g": np.arange(n) % 2})
        data["y"] = data.x + rng.standard_normal(n) * np.where(data.g == 1, 4.0, 1.0)
        res = stabconf.fit("y ~ x", data.iloc[2:], loss="lad", penalty=0.1)
        for name, options in asked.items():
            ends = res.conf_int_conformal(data.iloc[:2], alpha, **options).to_numpy()
            hits[name] += (ends[:, 0] <= data.y[:2]) & (data.y[:2] <= ends[:, 1])
    low = stats.binom.ppf(1e-4, draws, 1 - alpha)
    assert np.all(hits["exact"] >= low) and np.all(hits["split"] >= low)
    assert np.all(hits["exact"] <= stats.binom.ppf(1 - 1e-4, draws, 1 - alpha + 1 / 31))
    assert hits["plain"][1] < low


@pytest.mark.slow
def test_coverage_holds_under_a_known_shift_and_not_without_weights():
    rng, draws, alpha = np.random.default_rng(2), 400, 0.2
    hits = dict.fromkeys(("exact", "plain", "stable", "jackknife+"), 0)
    for draw_ in range(draws):
        n = 60
        x = np.append(rng.random(n), np.sqrt(rng.random()))  # density 1 in training, 2 x for the new row
        y = x + rng.standard_normal(n + 1) * (0.2 + 3.0 * x**2)
        data = pd.DataFrame({"x": x, "y": y})
        res = stabconf.fit("y ~ x", data.iloc[:n], loss="huber", penalty=0.01)
        for name in list(hits)[: 3 + (draw_ % 4 == 0)]:  # the jackknife+ costs a fit a row
            options = {} if name == "plain" else {"weights": "x", "method": name}
            (low, high), truth = res.conf_int_conformal(data.iloc[n:], alpha, **options).to_numpy()[0], y[n]
            hits[name] += low <= truth <= high
    low = stats.binom.ppf(1e-4, draws, 1 - alpha)
    assert hits["exact"] >= low and hits["stable"] >= hits["exact"]
    assert hits["jackknife+"] >= stats.binom.ppf(1e-4, draws // 4, 1 - 2 * alpha)
    assert hits["plain"] < low


def test_weights_may_be_one_array_of_training_rows_and_then_new_ones(frame):
    res, new = stabconf.fit("y ~ x", frame, loss="lad", penalty=0.1), frame.iloc[:3]
    values = np.random.default_rng(0).exponential(size=len(frame) + 3)
    apart = res.conf_int_conformal(new, alpha=0.2, weights=(values[:-3], values[-3:]))
    pd.testing.assert_frame_equal(res.conf_int_conformal(new, alpha=0.2, weights=values), apart)
