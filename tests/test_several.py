"""Several responses: joint boxes against brute force, labels, and coverage of all responses at once."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from problems import plain_fits
from referee import conic_minimiser
from statsmodels.datasets import statecrime

import stabconf
from stabconf.losses import LAD, Huber, LogCosh, Power, Quantile, Squared
from stabconf.rank import Peers, conformal_rank, kth_smallest
from stabconf.sets import METHODS, SEVERAL_METHODS, Request, SeveralFits, box_conformity

ALPHA = 0.2


def draw_several(seed, n=14, p=3, q=2, loss=None, penalty=None):
    """`SeveralFits` of random rows with heavy tails, and a new row."""
    rng = np.random.default_rng([seed, q])
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    row = np.append(1.0, rng.standard_normal(p - 1))
    Y = X @ rng.standard_normal((p, q)) + rng.standard_t(2.0, (n, q)) * 10.0 ** rng.uniform(-1, 1, q)
    ridge = n * (10.0 ** rng.uniform(-3, -0.5) if penalty is None else penalty)
    each = [plain_fits(X, Y[:, j], loss or LAD(), ridge) for j in range(q)]
    units = [1.4826 * fits.scale * np.median(np.abs(fits.base.solution.r)) for fits in each]
    return SeveralFits(each, units, True), row


def boxes(fits, rows, method, alphas=(ALPHA,), **options):
    """Lower and upper ends (m, q) at the first level, and the records."""
    asked = Request.of(fits, np.atleast_2d(rows), alphas, **options)
    made = SEVERAL_METHODS[method].run(fits, asked)
    first = made[: len(fits.each)]
    return np.array([one.lower for one in first]).T, np.array([one.upper for one in first]).T, made


def refitted(fits, row, z):
    """Sizes of the residuals of all rows, the new one last (g, n + 1), by clarabel, at responses (g,)."""
    problem, out = fits.problem, []
    for w in fits.responses(np.asarray(z)):
        X, v = np.vstack([problem.X, row]), np.append(problem.v, w)
        r = v - X @ conic_minimiser(X, v, problem.loss, problem.ridge, problem.lasso)
        out.append(fits.scale * np.abs(r))
    return np.array(out)


def brute_p(fits, row, grids, slack=1e-7):
    """p-values (g_1, ..., g_q) on the product of grids, from refits of each response."""
    scores = np.zeros(())
    for j, (one, grid) in enumerate(zip(fits.each, grids, strict=True)):
        sizes = refitted(one, row, grid) / fits.units[j]
        shape = [1] * len(grids) + [fits.n + 1]
        shape[j] = len(grid)
        scores = np.maximum(scores, sizes.reshape(shape))
    return (1 + np.sum(scores[..., :-1] >= scores[..., -1:] - slack, axis=-1)) / (fits.n + 1)


def path_grid(fits, row, count):
    """Responses through which the fit passes, from its lower to its upper end tilt, and some beyond."""
    far = 1e3 * fits.scale
    low, high = (fits.centre + side * far - side * refitted(fits, row, [fits.centre + side * far])[0, -1]
                 for side in (-1, 1))  # fmt: skip
    margin = 0.05 * (high - low)
    return np.concatenate([[low - 3 * margin], np.linspace(low, high, count), [high + 3 * margin]])


# Exact ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, q", [*((seed, 2) for seed in range(8)), (0, 3)])
def test_exact_ends_are_those_of_the_hull_by_brute_force(seed, q):
    loss = Quantile(0.7) if seed == 1 else LAD()
    fits, row = draw_several(seed, q=q, loss=loss)
    lower, upper, made = boxes(fits, row, "exact")
    assert max(float(np.max(one.tol / one.wanted)) for one in made) <= 1
    count = 81 if q == 2 else 21
    fine = [path_grid(one, row, count) for one in fits.each]
    for j, (ends, side) in itertools.product(range(q), ((lower, -1), (upper, 1))):
        step = (0.02 if q == 2 else 0.1) * fits.units[j]
        grids = list(fine)
        grids[j] = np.array([ends[0, j] - side * step, ends[0, j] + side * 1e-5 * fits.units[j]])
        p = np.moveaxis(brute_p(fits, row, grids), j, 0)
        assert p[0].max() > ALPHA  # some response within reach of the end is in the set
        assert p[1].max() <= ALPHA  # none beyond it is


def test_corners_alone_miss_a_part_of_the_set():
    # The order statistic is largest where one response is fitted exactly, inside its path.
    missed = 0
    for seed in range(40):
        fits, row = draw_several(seed, n=20)
        k = conformal_rank(ALPHA, fits.n)
        far = [one.centre + 1e3 * np.array([-1.0, 1.0]) * one.scale for one in fits.each]
        at_ends = [
            refitted(one, row, z)[:, :-1] / unit
            for one, z, unit in zip(fits.each, far, fits.units, strict=True)
        ]
        corner = max(kth_smallest(np.maximum(at_ends[0][1], other), k) for other in at_ends[1])
        high = far[0][1] - refitted(fits.each[0], row, far[0][1:])[0, -1]
        reached = (boxes(fits, row, "exact")[1][0, 0] - high) / fits.units[0]
        assert reached >= corner - 1e-6
        missed += reached > corner + 1e-3
    assert missed >= 2


@pytest.mark.parametrize("loss", [LAD(), Huber(), LogCosh()])
def test_a_candidate_is_in_the_set_if_its_p_value_by_refits_says_so(loss):
    fits, row = draw_several(3, loss=loss)
    grids = [np.linspace(-2, 2, 5) * 3 * unit + one.base.predict(row[None])
             for one, unit in zip(fits.each, fits.units, strict=True)]  # fmt: skip
    z = np.array(list(itertools.product(*grids)))
    found = box_conformity(fits, row, z, Peers(fits.n))
    np.testing.assert_array_equal(found, brute_p(fits, row, grids).ravel())
    assert found.min() < ALPHA < found.max()


# Stable ---------------------------------------------------------------------------------------------

SMALL, LARGE = 0.05, 1.0


@pytest.mark.parametrize("loss", [LAD(), Quantile(0.7), Huber(), LogCosh(), Squared(), Power(1.5)])
@pytest.mark.parametrize("seed", range(3))
def test_stable_boxes_contain_the_brute_force_set(loss, seed):
    fits, row = draw_several(seed, n=20, loss=loss, penalty=SMALL if seed else LARGE)
    lower, upper, _ = boxes(fits, row, "stable")
    assert np.isfinite(lower).all()
    centre = [float(one.base.predict(row[None])[0]) for one in fits.each]
    shares = np.concatenate([[-20.0, -1.5], np.linspace(-1.001, 1.001, 9), [1.5, 20.0]])
    reach = [
        np.maximum(high - mid, mid - low) for low, high, mid in zip(lower[0], upper[0], centre, strict=True)
    ]
    grids = [mid + shares * far for mid, far in zip(centre, reach, strict=True)]
    inside = brute_p(fits, row, grids) > ALPHA
    assert inside.any()
    for j, place in enumerate(np.nonzero(inside)):
        found = grids[j][place]
        assert lower[0, j] <= found.min() and found.max() <= upper[0, j]


def test_stable_boxes_of_lad_are_the_closed_form():
    fits, row = draw_several(5)
    lower, upper, _ = boxes(fits, row, "stable")
    k, most, moved = conformal_rank(ALPHA, fits.n), [], []
    for one, unit in zip(fits.each, fits.units, strict=True):
        norms = np.linalg.norm(np.vstack([one.problem.X, row]), axis=1) / np.sqrt(one.problem.ridge[0])
        start = one.base.solution.radius
        tau = one.scale * norms * (norms[-1] + start)
        most.append((one.scale * np.abs(one.base.solution.r) + tau[:-1]) / unit)
        moved.append(tau[-1])
    half = fits.units * kth_smallest(np.max(most, axis=0), k) + moved
    np.testing.assert_allclose((upper - lower)[0] / 2, half, rtol=1e-9)


def test_exact_boxes_lie_in_stable_ones():
    for seed in range(5):
        fits, row = draw_several(seed, n=30, q=3, penalty=0.1)
        inner, outer = boxes(fits, row, "exact"), boxes(fits, row, "stable")
        assert np.all(outer[0] <= inner[0]) and np.all(inner[1] <= outer[1])


# One response is the plain fit ------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEVERAL_METHODS)
def test_one_response_in_a_list_is_the_plain_fit(method):
    loss = LAD() if method == "exact" else Huber()
    fits, row = draw_several(0, n=40, q=1, loss=loss)
    rows = np.vstack([row, fits.each[0].X[:5]])
    lower, upper, _ = boxes(fits, rows, method)
    plain = fits.each[0]
    (made,) = METHODS[method].run(plain, Request.of(plain, rows, [ALPHA]))
    if method in ("exact", "stable", "split"):  # in which one scale for all rows does not matter
        np.testing.assert_allclose(lower[:, 0], made.lower, rtol=1e-9)
        np.testing.assert_allclose(upper[:, 0], made.upper, rtol=1e-9)
    else:
        fits.learned = False
        lower, upper, _ = boxes(fits, rows, method)
        np.testing.assert_array_equal(lower[:, 0], made.lower)
        np.testing.assert_array_equal(upper[:, 0], made.upper)


# Held out ---------------------------------------------------------------------------------------------


def test_split_is_the_order_statistic_of_the_largest_scores():
    fits, _ = draw_several(4, n=41)
    rows = fits.each[0].X[:3]
    lower, upper, _ = boxes(fits, rows, "split", random_state=7)
    order = np.random.default_rng(7).permutation(41)
    held, fitted = order[:21], order[21:]
    scores, centres, units = [], [], []
    for one in fits.each:
        predict = one.predictor(fitted)
        r = np.abs(one.y - predict(one.X))
        units.append(1.4826 * np.median(r[fitted]))
        scores.append(r[held] / units[-1])
        centres.append(predict(rows))
    half = np.sort(np.max(scores, axis=0))[conformal_rank(ALPHA, 21) - 1] * np.array(units)
    np.testing.assert_allclose(lower, np.array(centres).T - half)
    np.testing.assert_allclose(upper, np.array(centres).T + half)


def test_cross_and_cv_boxes_contain_the_joint_cross_conformal_set():
    fits, row = draw_several(6, n=30)
    order = np.random.default_rng(0).permutation(30)
    n, grids = fits.n, [np.linspace(-6, 6, 61) * unit + one.base.predict(row[None])
                        for one, unit in zip(fits.each, fits.units, strict=True)]  # fmt: skip
    scores, new = np.empty((2, n)), np.empty((2, 61, n))
    for j, one in enumerate(fits.each):
        for held in np.array_split(order, 5):
            fitted = np.setdiff1d(order, held)
            predict = one.predictor(fitted)
            r = np.abs(one.y - predict(one.X))
            unit = 1.4826 * np.median(r[fitted])
            scores[j, held] = r[held] / unit
            new[j][:, held] = (np.abs(grids[j] - predict(row[None])) / unit)[:, None]
    joint = np.maximum(new[0][:, None], new[1][None])
    inside = 1 + np.sum(np.max(scores, axis=0) >= joint, axis=-1) > ALPHA * (n + 1)
    assert 0 < inside.mean() < 0.5
    for method in ("cross", "cv+"):
        lower, upper, _ = boxes(fits, row, method, folds=5)
        for j, place in enumerate(np.nonzero(inside)):
            assert lower[0, j] <= grids[j][place].min() and grids[j][place].max() <= upper[0, j]
    wide = boxes(fits, row, "cv+", folds=5)
    narrow = boxes(fits, row, "cross", folds=5)
    assert np.all(wide[0] <= narrow[0]) and np.all(narrow[1] <= wide[1])


def test_a_generator_holds_the_same_rows_out_of_every_response():
    fits, row = draw_several(6, n=30)
    seeded = boxes(fits, row, "cv+", folds=5, random_state=3)[:2]
    drawn = boxes(fits, row, "cv+", folds=5, random_state=np.random.default_rng(3))[:2]
    np.testing.assert_array_equal(seeded, drawn)


# Results ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    n = 90
    data = pd.DataFrame(
        {"x": rng.standard_normal(n), "g": rng.choice(["a", "b"], n), "w": np.arange(1, n + 1) / n},
        index=[f"r{i}" for i in range(n)],
    )
    noise = rng.standard_t(3, (n, 2))
    data["y1"] = 2.0 + data["x"] + noise[:, 0]
    data["y2"] = 100.0 - 30.0 * data["x"] + 20.0 * (noise[:, 0] + noise[:, 1])
    return data


@pytest.fixture(scope="module")
def joint(table):
    return stabconf.fit("y1 + y2 ~ x + g", table.iloc[:60], penalty=0.5)


def test_each_component_is_the_fit_of_its_response_alone(joint, table):
    new = table.iloc[60:65]
    for name in ("y1", "y2"):
        alone = stabconf.fit(f"{name} ~ x + g", table.iloc[:60], penalty=0.5)
        pd.testing.assert_series_equal(joint.params[name], alone.params, check_names=False)
        pd.testing.assert_series_equal(joint.predict(new)[name], alone.predict(new))
        pd.testing.assert_series_equal(joint.resid[name], alone.resid, check_names=False)
        assert joint.scale[name] == alone.scale
        component = joint.components[name]
        assert component.model == alone.model
        pd.testing.assert_frame_equal(component.conf_int_conformal(new), alone.conf_int_conformal(new))


def test_the_sum_of_responses_is_one_response(table):
    total = stabconf.fit("I(y1 + y2) ~ x", table)
    assert isinstance(total, stabconf.Results)
    plain = stabconf.fit("y ~ x", table.assign(y=table["y1"] + table["y2"]))
    np.testing.assert_array_equal(total.params, plain.params)


def test_rows_that_lack_one_of_the_responses_are_dropped(table):
    data = table.copy()
    data.loc["r3", "y2"] = np.nan
    res = stabconf.fit("y1 + y2 ~ x", data)
    assert res.nobs == 89
    np.testing.assert_array_equal(res.params["y1"], stabconf.fit("y1 ~ x", data.drop("r3")).params)


@pytest.mark.parametrize("method", SEVERAL_METHODS)
def test_boxes_are_labelled_by_response(joint, table, method):
    new = table.iloc[60:64].copy()
    new.loc["r61", "x"] = np.nan
    ends = joint.conf_int_conformal(new, alpha=0.1, method=method)
    assert list(ends.columns) == [(name, side) for name in ("y1", "y2") for side in ("lower", "upper")]
    assert ends.index.equals(new.index)
    assert ends.loc["r61"].isna().all() and np.isfinite(ends.drop("r61")).all(axis=None)
    mean = joint.predict(new).drop("r61")
    for name in ("y1", "y2"):
        one = ends[name].drop("r61")
        assert (one["lower"] < mean[name]).all() and (mean[name] < one["upper"]).all()
    assert ends.attrs["method"] == method and ends.attrs["certified"]
    assert ends.attrs["guarantee"].startswith("covers all 2 responses at once with probability at least")
    both = joint.conf_int_conformal(new, alpha=[0.1, 0.3], method=method)
    pd.testing.assert_frame_equal(both[0.1], ends)
    assert both.columns.names == ["alpha", "response", None]


def test_auto_is_exact_for_lad_and_stable_else(joint, table):
    new = table.iloc[60:62]
    assert joint.conf_int_conformal(new).attrs["method"] == "exact"
    assert joint.conf_int_conformal(new, bound="ball").attrs["method"] == "stable"
    assert joint.conf_int_conformal(new, alpha=0.2, conditional="~ g").attrs["method"] == "split"
    huber = stabconf.fit("y1 + y2 ~ x + g", table, loss="huber")
    assert huber.conf_int_conformal(new).attrs["method"] == "stable"


def test_joint_intervals_are_wider_than_those_of_one_response(joint, table):
    new = table.iloc[60:]
    ends = joint.conf_int_conformal(new, alpha=0.1)
    for name, fit in joint.components.items():
        alone = fit.conf_int_conformal(new, alpha=0.1)
        assert np.mean(ends[name]["upper"] - ends[name]["lower"]) > np.mean(alone["upper"] - alone["lower"])


def test_exact_ends_agree_with_conformity(joint, table):
    new = table.iloc[[60]]
    (low1, high1), (low2, high2) = joint.conf_int_conformal(new, alpha=0.1).to_numpy().reshape(2, 2)
    path = np.linspace(low2, high2, 200)
    for end, side in ((low1, -1), (high1, 1)):
        inside = np.column_stack([np.full(200, end - side * 0.02), path])
        outside = np.column_stack([np.full(200, end + side * 1e-6), path])
        assert joint.conformity(new, inside)["p"].max() > 0.1
        assert joint.conformity(new, outside)["p"].max() <= 0.1


def test_candidates_are_labelled_and_may_be_a_frame(joint, table):
    new = table.iloc[60:62]
    frame = pd.DataFrame({"y2": [100.0, 90.0], "y1": [2.0, 3.0]})
    p = joint.conformity(new, frame)
    assert p.index.names == [None, "y1", "y2"]
    assert p.index.tolist() == [
        ("r60", 2.0, 100.0),
        ("r60", 3.0, 90.0),
        ("r61", 2.0, 100.0),
        ("r61", 3.0, 90.0),
    ]
    pd.testing.assert_frame_equal(joint.conformity(new, [[2.0, 100.0], [3.0, 90.0]]), p)
    assert len(joint.conformity(new, (2.0, 100.0))) == 2


def test_p_values_are_those_of_conformity_at_the_own_responses(joint, table):
    new = table.iloc[60:64].copy()
    new.loc["r62", "y2"] = np.nan
    p = joint.p_values(new)
    for label in ("r60", "r61", "r63"):
        assert p[label] == joint.conformity(new.loc[[label]], new.loc[label, ["y1", "y2"]])["p"].iloc[0]
    assert np.isnan(p["r62"])
    with pytest.raises(stabconf.InputError, match=r"lacks columns of the responses 'y1 \+ y2'"):
        joint.p_values(new.drop(columns="y2"))


def test_rows_of_an_unseen_level_have_no_box_where_asked(joint, table):
    new = table.iloc[60:62].assign(g=["a", "z"])
    with pytest.raises(stabconf.InputError, match="unseen='nan'"):
        joint.conf_int_conformal(new)
    with pytest.warns(stabconf.DataWarning, match="no answer"):
        ends = joint.conf_int_conformal(new, unseen="nan")
    assert ends.notna().all(axis=1).tolist() == [True, False]


def test_groups_rank_among_their_own_rows(joint, table):
    new = table.iloc[60:66]
    ends = joint.conf_int_conformal(new, alpha=0.2, groups="g", method="stable")
    for level in ("a", "b"):
        which = np.flatnonzero(table["g"].iloc[:60] == level)
        mine = (new["g"] == level).to_numpy()
        fits = joint._fits
        rows = joint._rows(new)[0].X[mine]
        asked = Request.of(fits, rows, [0.2], peers=Peers(60, which))
        made = SEVERAL_METHODS["stable"].run(fits, asked)
        np.testing.assert_allclose(ends["y1"]["upper"][mine], made[0].upper)
        assert ends.attrs["groups"][level]["n"] == len(which)


@pytest.mark.parametrize("method", ["exact", "stable", "split"])
def test_weights_that_are_equal_change_nothing(joint, table, method):
    new = table.iloc[60:66]
    plain = joint.conf_int_conformal(new, alpha=0.2, method=method)
    same = joint.conf_int_conformal(
        new, alpha=0.2, method=method, weights=lambda frame: np.full(len(frame), 2.0)
    )
    np.testing.assert_allclose(plain, same)
    shifted = joint.conf_int_conformal(new, alpha=0.2, method=method, weights="w")
    assert not np.allclose(plain, shifted) and "under the shift" in shifted.attrs["guarantee"]


def test_boxes_follow_the_units_of_the_responses(table):
    new = table.iloc[60:63]
    plain = stabconf.fit("y1 + y2 ~ x", table.iloc[:60], penalty=0.5)
    moved = stabconf.fit("I(5 + 100 * y1) + y2 ~ x", table.iloc[:60], penalty=0.5)
    for method in ("exact", "stable", "split", "cv+"):
        one, two = (res.conf_int_conformal(new, alpha=0.2, method=method) for res in (plain, moved))
        np.testing.assert_allclose(5 + 100 * one["y1"], two["I(5 + 100 * y1)"], rtol=1e-6)
        np.testing.assert_allclose(one["y2"], two["y2"], rtol=1e-6)


def test_unscaled_responses_are_compared_as_they_are(table):
    res = stabconf.fit("y1 + y2 ~ x", table.iloc[:60], standardize=False, penalty=1e-4)
    for method in ("exact", "split"):
        ends = res.conf_int_conformal(table.iloc[60:63], alpha=0.2, method=method)
        assert "given the units" not in ends.attrs["guarantee"]
        np.testing.assert_allclose(
            ends["y1"].diff(axis=1)["upper"], ends["y2"].diff(axis=1)["upper"], rtol=0.1
        )


def test_a_response_that_is_fitted_perfectly_leaves_the_other_alone(table):
    data = table.iloc[:60].assign(line=lambda frame: 1.0 + 2.0 * frame["x"])
    res = stabconf.fit("y1 + line ~ x", data, penalty=0)
    assert res.scale["line"] < 1e-8
    ends = res.conf_int_conformal(table.iloc[60:63], alpha=0.2)
    alone = res.components["y1"].conf_int_conformal(table.iloc[60:63], alpha=0.2)
    np.testing.assert_allclose(ends["y1"], alone, rtol=1e-4)


def test_no_new_rows_give_no_boxes(joint, table):
    assert joint.conf_int_conformal(table.iloc[:0]).shape == (0, 4)
    assert joint.get_prediction(table.iloc[:0]).summary_frame().shape == (0, 6)


def test_too_few_rows_give_the_whole_plane(table):
    res = stabconf.fit("y1 + y2 ~ x", table.iloc[:8])
    for method in ("exact", "stable", "cv+"):
        with pytest.warns(stabconf.SampleSizeWarning, match="8 rows are too few"):
            ends = res.conf_int_conformal(
                table.iloc[60:62], alpha=0.05, method=method, **{"folds": 4} if method == "cv+" else {}
            )
        assert np.isinf(ends).all(axis=None)


def test_new_rows_that_training_cannot_reach_are_open(table):
    # Without a penalty the fits go through a row that has a part of its own.
    data = table.iloc[:30].assign(c=0.0)
    new = table.iloc[60:62].assign(c=[0.0, 1.0])
    with pytest.warns(stabconf.DataWarning, match="constant"):
        res = stabconf.fit("y1 + y2 ~ x + c", data, penalty=0)
    with pytest.warns(stabconf.StabilityWarning, match="infinite"):
        ends = res.conf_int_conformal(new, alpha=0.2)
    assert np.isfinite(ends.iloc[0]).all() and np.isinf(ends.iloc[1]).all()


def test_processes_and_transductive_maps_give_the_same_kind_of_answer(joint, table):
    new = table.iloc[60:]
    plain = joint.conf_int_conformal(new, alpha=0.2)
    pd.testing.assert_frame_equal(joint.conf_int_conformal(new, alpha=0.2, n_jobs=2), plain)
    learned = joint.conf_int_conformal(new, alpha=0.2, transductive=True)
    assert learned.attrs["transductive"]
    np.testing.assert_allclose(learned, plain, rtol=0.2, atol=0.5)


def test_results_survive_pickling(joint, table, tmp_path):
    new = table.iloc[60:63]
    path = tmp_path / "joint.pickle"
    joint.save(path)
    for back in (stabconf.load(path), pickle.loads(pickle.dumps(joint))):
        pd.testing.assert_frame_equal(back.params, joint.params)
        pd.testing.assert_frame_equal(back.conf_int_conformal(new), joint.conf_int_conformal(new))
        report = back.components["y2"].width_report(table.iloc[60:])
        pd.testing.assert_frame_equal(report, joint.components["y2"].width_report(table.iloc[60:]))


def test_width_report_has_each_response_and_the_boxes(joint, table):
    new = table.iloc[60:]
    ends = joint.conf_int_conformal(new, alpha=0.2)
    report = joint.width_report(new, alpha=0.2)
    assert report.index.tolist() == ["y1", "y2", "jointly"]
    hits = [
        (ends[name]["lower"] <= new[name]) & (new[name] <= ends[name]["upper"]) for name in ("y1", "y2")
    ]
    np.testing.assert_allclose(
        report["coverage"], [hits[0].mean(), hits[1].mean(), (hits[0] & hits[1]).mean()]
    )
    widths = [np.mean(ends[name]["upper"] - ends[name]["lower"]) for name in ("y1", "y2")]
    np.testing.assert_allclose(report["mean"], [*widths, np.nan])
    assert report["expected_lower"].isna().tolist() == [True, True, False]
    grouped = joint.width_report(new, by="g", alpha=0.2)
    assert grouped.index.names == ["response", "g"] and len(grouped) == 6
    assert grouped.loc["jointly", "count"].sum() == 30
    assert "jointly" in report.to_markdown() and "y1 and y2" in repr(report)
    assert "coverage" not in joint.width_report(alpha=0.2)


def test_summary_has_a_column_per_response_and_the_joint_guarantee(joint):
    summary = joint.summary(alpha=0.1)
    text = summary.as_text()
    assert "y1 + y2 ~ x + g" in text and "covers all 2 responses at once" in " ".join(text.split())
    head = next(line for line in text.splitlines() if "y1" in line and "y2" in line and "~" not in line)
    assert head.split() == ["y1", "y2"]
    assert "<table" in summary.as_html() and "tabular" in summary.as_latex()
    logs = stabconf.fit("np.exp(y1 / 10) + y2 ~ x", joint._design.frame_of(None))
    assert "transformed response np.exp(y1 / 10)" in " ".join(logs.summary(0.1).as_text().split())


def test_predictions_and_intervals_stand_side_by_side(joint, table):
    new = table.iloc[60:63]
    frame = joint.get_prediction(new, alpha=0.1).summary_frame()
    assert frame["y2"].columns.tolist() == ["mean", "obs_ci_lower", "obs_ci_upper"]
    ends = joint.conf_int_conformal(new, alpha=0.1)
    np.testing.assert_array_equal(frame["y2"]["obs_ci_upper"], ends["y2"]["upper"])
    np.testing.assert_array_equal(frame["y1"]["mean"], joint.predict(new)["y1"])


def test_tau_has_a_level_per_response(joint, table):
    tau = joint.tau(table.iloc[60:62])
    assert tau.shape == (2, 2 * 61)
    pd.testing.assert_frame_equal(tau["y2"], joint.components["y2"].tau(table.iloc[60:62]))


def test_pairs_are_drawn_with_their_boxes(joint, table, figures):
    ax = joint.plot_pairs(table.iloc[60:], alpha=0.2, boxes=4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("y1", "y2")
    (drawn,) = [each for each in ax.collections if each.get_label().startswith("80 % box")]
    assert len(drawn.get_paths()) == 4
    ends = joint.conf_int_conformal(table.iloc[60:], alpha=0.2)
    first = joint.predict(table.iloc[60:])["y1"].idxmin()
    x, y = drawn.get_paths()[0].vertices[[0, 2]].T
    np.testing.assert_allclose(np.concatenate([x, y]), ends.loc[first].to_numpy())
    figures.figure()
    assert (
        joint.plot_pairs({"x": [0.0], "g": ["a"]}, pair=("y2", "y1"), ax=figures.gca()).get_xlabel() == "y2"
    )


REFUSED = {
    "side": (
        lambda res, new: res.conf_int_conformal(new, side="upper"),
        r"option 'side' is not for several",
    ),
    "score": (lambda res, new: res.conf_int_conformal(new, score="dual"), r"components\['y1'\]"),
    "method": (lambda res, new: res.conf_int_conformal(new, method="root"), r"'root' is not for several"),
    "option": (
        lambda res, new: res.conf_int_conformal(new, method="stable", folds=3),
        r"'folds' is unknown",
    ),
    "conditional": (
        lambda res, new: res.conf_int_conformal(new, method="exact", conditional="~ g"),
        r"'conditional' is unknown to method 'exact'",
    ),
    "weights": (
        lambda res, new: res.conf_int_conformal(new, method="cv+", weights="w"),
        r"'cv\+' has no guarantee with weights",
    ),
    "paper": (
        lambda res, new: res.conf_int_conformal(new, bound="curvature"),
        r"needs a loss with curvature",
    ),
    "z shape": (lambda res, new: res.conformity(new, [1.0, 2.0, 3.0]), r"z has shape \(3,\)"),
    "z names": (lambda res, new: res.conformity(new, pd.DataFrame({"y1": [1.0]})), r"z lacks .* y2"),
    "z words": (lambda res, new: res.conformity(new, ["a", "b"]), r"not numbers"),
    "z finite": (lambda res, new: res.conformity(new, [np.nan, 1.0]), r"not finite"),
    "pair": (lambda res, new: res.plot_pairs(new, pair=("y1", "y3")), r"pair=\('y1', 'y3'\)"),
    "alpha": (lambda res, new: res.get_prediction(new, alpha=[0.1]).summary_frame(), r"takes one number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_for_several_responses_is_refused_with_a_fix(joint, table, case):
    call, message = REFUSED[case]
    with pytest.raises(stabconf.StabconfError, match=message):
        call(joint, table.iloc[60:62])


def test_what_belongs_to_one_response_names_the_component(joint):
    for name in ("plot_widths", "predictive", "check_exchangeability"):
        with pytest.raises(AttributeError, match=rf"components\['y1'\].{name}"):
            getattr(joint, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = joint.nonsense


@pytest.mark.parametrize(
    "call",
    [
        lambda data: stabconf.fit_quantiles("y1 + y2 ~ x", data),
        lambda data: stabconf.compare("y1 + y2 ~ x", data),
        lambda data: stabconf.select_penalty("y1 + y2 ~ x", data),
        lambda data: stabconf.fit("y1 + y2 ~ x", data, estimator=object.__new__(_Mean)),
    ],
)
def test_where_one_response_is_needed_two_are_refused(call, table):
    with pytest.raises(stabconf.FormulaError, match=r"has 2 responses \(y1, y2\)"):
        call(table)


class _Mean:
    def fit(self, X, y):
        self.mean = np.mean(y)

    def predict(self, X):
        return np.full(len(X), self.mean)


def test_exact_boxes_of_other_losses_are_refused_with_a_fix(table):
    res = stabconf.fit("y1 + y2 ~ x", table, loss="huber")
    with pytest.raises(stabconf.AssumptionError, match="use method='stable'"):
        res.conf_int_conformal(table.iloc[:2], method="exact")


# Coverage ---------------------------------------------------------------------------------------------


def standard_error(samples, rows, n, level):
    """Of the mean coverage of so many samples of rows: coverage given the training rows is a beta draw."""
    return np.sqrt(level * (1 - level) * (1 / rows + (1 - 1 / rows) / (n + 2)) / samples)


@pytest.mark.slow
def test_all_responses_are_covered_at_once_as_often_as_promised():
    # 10,000 boxes of two responses: 20,000 intervals.
    samples, m, few, n, alpha = 200, 50, 5, 39, 0.1
    rng = np.random.default_rng(0)
    hits = dict.fromkeys(("set", "exact", "stable", "split"), 0.0)
    for _ in range(samples):
        X = np.column_stack([np.ones(n + m), rng.standard_normal((n + m, 2))])
        noise = rng.standard_t(2.0, (n + m, 2)) @ np.array([[1.0, 0.7], [0.0, 5.0]])
        Y = X @ rng.standard_normal((3, 2)) + noise
        each = [plain_fits(X[:n], Y[:n, j], LAD(), 0.05 * n) for j in range(2)]
        units = [1.4826 * one.scale * np.median(np.abs(one.base.solution.r)) for one in each]
        fits = SeveralFits(each, units, True)
        found = {}
        for method in ("exact", "stable", "split"):
            lower, upper, _ = boxes(fits, X[n:], method, (alpha,))
            found[method] = np.all((lower <= Y[n:]) & (Y[n:] <= upper), axis=1)
        ways = zip(X[n : n + few], Y[n : n + few], strict=True)  # p-values take longer
        found["set"] = np.array([box_conformity(fits, x, y[None], Peers(n))[0] > alpha for x, y in ways])
        assert np.all(found["exact"][:few] >= found["set"]) and np.all(found["stable"] >= found["exact"])
        for name in hits:
            hits[name] += found[name].mean() / samples
    slack = 4 * standard_error(samples, few, n, 1 - alpha)
    assert 1 - alpha - slack <= hits["set"] <= 1 - alpha + 1 / (n + 1) + slack
    slack = 4 * standard_error(samples, m, n, 1 - alpha)
    assert min(hits["exact"], hits["stable"]) >= 1 - alpha - slack
    assert hits["exact"] <= 1 - alpha + 0.03  # the box around a set holds little more
    held = 20
    assert abs(hits["split"] - conformal_rank(alpha, held) / (held + 1)) <= 4 * standard_error(
        samples, m, held, 1 - alpha
    )


def test_a_report_leads_with_the_rows_that_are_wholly_inside(tmp_path):
    data = statecrime.load_pandas().data
    res = stabconf.fit("violent + murder ~ poverty + urban", data.iloc[::2])
    new = data.iloc[1::2]
    ends = res.conf_int_conformal(new, alpha=0.2)
    inside = [new[name].between(ends[name]["lower"], ends[name]["upper"]) for name in ("violent", "murder")]
    page = res.report(tmp_path / "crime.html", new, alpha=0.2).read_text(encoding="utf-8")
    assert f"{int(np.sum(inside[0] & inside[1]))} of {len(new)} rows have all responses inside." in page
    for words in (
        "violent and murder: 80 % joint prediction intervals",
        "murder lower",
        "missed",
        "jointly",
    ):
        assert words in page, words
    assert "training points" not in page and "(pseudo R-squared)" in page  # one mean width a response
    written = res.report(tmp_path / "crime.md", new, alpha=0.2)
    table = pd.read_csv(tmp_path / "crime_files" / "intervals.csv", index_col="row")
    np.testing.assert_allclose(table["murder upper"], ends["murder"]["upper"], rtol=1e-6)
    assert (table["inside"] == "yes").tolist() == (inside[0] & inside[1]).tolist()
    assert "pairs.svg" in written.read_text(encoding="utf-8")
    assert res.report(tmp_path / "training.html", alpha=0.2).exists()
    # By group too, what chance explains is said of all rows.
    lead = next(line for line in page.split("<p") if "rows have all responses inside." in line)
    grouped = res.report(tmp_path / "by.html", new, alpha=0.2, by={"urban": 2}).read_text(encoding="utf-8")
    assert "would be no surprise" in lead and lead in grouped
