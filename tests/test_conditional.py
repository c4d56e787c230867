"""Coverage along a formula: thresholds and sets against refits of both regressions by another solver."""

import numpy as np
import pandas as pd
import pytest
from problems import draw, fits_of
from referee import refit
from scipy import optimize

import stabconf
from stabconf.errors import AssumptionError, FormulaError, InputTypeError, SampleSizeWarning
from stabconf.losses import LAD, Huber, Quantile
from stabconf.rank import Peers
from stabconf.sets import BandFits, Request, thresholds
from stabconf.sets.conditional import conditional_set
from stabconf.sets.score import DIRECTIONS, SIDES
from stabconf.sets.thresholds import Along, Scores

NEAR = 1e-4  # of the scale: how far inside and outside of an end the referee looks
LEVELS = [0.05, 0.1, 0.2, 0.3]


def excess(Phi, scores, alpha):
    """How far the last score is above the quantile regression of all of them, by linear programming.

    Where several fits tie the lowest is meant: the level is lowered by a hair.
    """
    level, (n, d) = 1.0 - alpha - 1e-7, Phi.shape
    cost = np.concatenate([np.zeros(d), np.full(n, level), np.full(n, 1.0 - level)])
    parts = np.hstack([Phi, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    sharp = {"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10}
    found = optimize.linprog(cost, A_eq=parts, b_eq=scores, bounds=bounds, options=sharp)
    assert found.status == 0, found.message
    return scores[-1] - Phi[-1] @ found.x[:d]


def drawn_design(kind, rng, x, x_new):
    """A design of n rows and one new row: groups, a line, or overlapping groups with a curve."""
    n = len(x)
    if kind == "groups":
        g = rng.integers(0, 3, n)
        return np.column_stack([np.ones(n), g == 1, g == 2]).astype(float), np.array([[1.0, 0.0, 1.0]])
    if kind == "line":
        return np.column_stack([np.ones(n), x]), np.array([[1.0, x_new]])
    if kind == "twice":  # columns that depend on each other
        return np.column_stack([np.ones(n), x > 0, x <= 0, x]), np.array(
            [[1.0, x_new > 0, x_new <= 0, x_new]]
        )
    made = [np.column_stack([np.ones(len(v)), v, v**2, v > 0.3]) for v in (x, np.array([x_new]))]
    return made[0], made[1]


DESIGNS = ["groups", "line", "twice", "curve"]


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("alpha", LEVELS)
def test_the_threshold_is_the_largest_score_that_a_refit_keeps(kind, alpha):
    for seed in range(12):
        rng = np.random.default_rng([seed, DESIGNS.index(kind)])
        n = int(rng.integers(8, 60))
        scores = np.abs(rng.standard_normal(n))
        if seed % 3 == 0:
            scores = np.round(scores, 1)  # ties
        Phi, new = drawn_design(kind, rng, rng.standard_normal(n), float(rng.standard_normal()))
        (most,) = Along(Phi, new).thresholds(Scores.fixed(scores, 1), alpha)
        every = np.vstack([Phi, new])
        if np.isinf(most):
            assert excess(every, np.append(scores, 1e5), alpha) <= 1e-6
            continue
        assert excess(every, np.append(scores, most - 1e-6), alpha) <= 1e-9
        assert excess(every, np.append(scores, most + 1e-6), alpha) > 1e-9


@pytest.mark.parametrize("n", [8, 9, 19, 20, 99, 100])
@pytest.mark.parametrize("alpha", LEVELS)
def test_along_an_intercept_the_threshold_is_the_order_statistic(n, alpha):
    scores = np.abs(np.random.default_rng(n).standard_normal(n))
    (most,) = Along(np.ones((n, 1)), np.ones((1, 1))).thresholds(Scores.fixed(scores, 1), alpha)
    assert most == pytest.approx(float(Peers(n).rank(alpha).kth(scores)), abs=1e-9)


def test_watching_few_rows_gives_what_watching_all_does():
    rng = np.random.default_rng(4)
    n, m = 3000, 40
    Phi = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    new = np.column_stack([np.ones(m), rng.standard_normal((m, 3))])
    base, moves = np.abs(rng.standard_normal(n)), 0.1 * rng.standard_normal((m, n))
    scores = np.abs(base + moves)
    length = np.abs(moves).max(axis=1)
    made = Along(Phi, new).thresholds(
        Scores(base, np.ones(n), length, lambda some, rows: scores[np.ix_(some, rows)]), 0.1
    )
    for i in range(m):
        alone = Along(Phi, new[i : i + 1]).thresholds(Scores.fixed(scores[i], 1), 0.1)
        assert made[i] == pytest.approx(alone[0], abs=1e-9)


def test_only_rows_near_the_fit_take_part_in_the_regressions_of_new_rows(monkeypatch):
    rng = np.random.default_rng(3)
    n, d = 442, 17
    Phi, new = rng.normal(size=(n, d)), rng.normal(size=(60, d))
    base, step = rng.exponential(size=n), rng.normal(size=(60, n))
    scores = base + 0.02 * step
    length = 0.02 * np.max(np.abs(step), axis=1)
    watched = []
    simplex = thresholds._simplex

    def counted(X, v, *more):
        watched.append(len(X) if len(v) > 1 else 0)
        return simplex(X, v, *more)

    monkeypatch.setattr(thresholds, "_simplex", counted)
    made = Along(Phi, new).thresholds(
        Scores(base, np.ones(n), length, lambda some, rows: scores[np.ix_(some, rows)]), 0.2
    )
    assert np.isfinite(made).all() and 0 < max(watched) < n


def assert_ends_flip(drawn, alpha, made, fits, scores_at, Phi, new):
    """Just inside of both ends responses are in the set, just outside they are out."""
    every = np.vstack([Phi, new])
    for end, way in ((made.lower[0], -1), (made.upper[0], 1)):
        if not np.isfinite(end):
            continue
        outside = excess(every, scores_at(end + way * NEAR * fits.scale), alpha)
        assert outside > 1e-7, (end, outside)
        if np.max(made.tol) == 0.0:  # the end itself, for a set may end in a single point
            at_end = excess(every, scores_at(end), alpha)
            inside = excess(every, scores_at(end - way * NEAR * fits.scale), alpha)
            assert min(at_end, inside) <= 1e-7, (end, at_end, inside)


@pytest.mark.parametrize("loss", [LAD(), Quantile(0.7), Huber()], ids=lambda loss: loss.describe())
@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal"])
@pytest.mark.parametrize("side", list(SIDES))
def test_ends_flip_where_a_refit_of_both_regressions_says_so(loss, kind, side):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        drawn = draw(kind, seed, n=int(rng.integers(20, 50)), l1_ratio=0.0)
        fits, alpha = fits_of(drawn, loss), float(rng.choice(LEVELS[1:]))
        Phi, new = drawn_design(DESIGNS[seed % 4], rng, drawn.X[:, 1], float(drawn.new[0, 1]))
        along = Along(Phi, new.astype(float))
        asked = Request.of(fits, drawn.new, [alpha], side=side, conditional=along)
        (made,) = conditional_set(fits, asked)

        def scores_at(z, drawn=drawn, fits=fits):
            v, w = fits.responses(drawn.y), float(fits.responses(z))
            r = refit(drawn.X, v, drawn.new, w, loss, drawn.ridge, drawn.lasso)[0]
            r = np.where(np.abs(r) < 1e-7, 0.0, r)  # what optimality says is 0
            return SIDES[side] * r if SIDES[side] else np.abs(r)

        assert_ends_flip(drawn, alpha, made, fits, scores_at, Phi, new)


@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal"])
@pytest.mark.parametrize("side", list(SIDES))
def test_ends_of_bands_flip_where_refits_say_so(kind, side):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        drawn = draw(kind, seed, n=int(rng.integers(20, 50)), l1_ratio=0.0)
        pair, alpha = [(0.1, 0.9), (0.2, 0.8), (0.05, 0.6)][seed % 3], float(rng.choice(LEVELS[1:]))
        band = BandFits(*(fits_of(drawn, Quantile(level)) for level in pair))
        Phi, new = drawn_design(DESIGNS[seed % 4], rng, drawn.X[:, 1], float(drawn.new[0, 1]))
        along = Along(Phi, new.astype(float))
        asked = Request.of(band, drawn.new, [alpha], side=side, conditional=along)
        (made,) = conditional_set(band, asked)

        def scores_at(z, drawn=drawn, band=band):
            terms = []
            for sign in DIRECTIONS[side]:
                fits = band.fits[sign]
                v, w = fits.responses(drawn.y), float(fits.responses(z))
                r = refit(drawn.X, v, drawn.new, w, fits.loss, drawn.ridge, drawn.lasso)[0]
                terms.append(sign * np.where(np.abs(r) < 1e-7, 0.0, r))
            return np.max(terms, axis=0)

        assert_ends_flip(drawn, alpha, made, band, scores_at, Phi, new)


# Frames -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wages():
    """Two groups that differ in noise, which also grows with age."""
    rng = np.random.default_rng(5)
    n = 220
    made = pd.DataFrame({"age": rng.uniform(20, 60, n), "g": rng.choice(list("ab"), n, p=[0.7, 0.3])})
    noise = rng.standard_normal(n) * (0.5 + 0.03 * made["age"]) * np.where(made["g"] == "b", 2.0, 1.0)
    made["y"] = 0.2 * made["age"] + noise
    return made.iloc[:200], made.iloc[200:]


@pytest.mark.parametrize("loss", ["lad", "quantile"])
@pytest.mark.parametrize("side", list(SIDES))
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
def test_indicators_are_groups_and_a_constant_is_the_plain_set(wages, loss, side, alpha):
    res = stabconf.fit("y ~ age", wages[0], loss=loss)
    for formula, options in (("~ C(g)", {"groups": "g"}), ("~ 1", {}), ("~ C(g) - 1", {"groups": "g"})):
        made = res.conf_int_conformal(wages[1], alpha, side=side, conditional=formula)
        same = res.conf_int_conformal(wages[1], alpha, side=side, **options)
        np.testing.assert_allclose(made, same, atol=1e-9 * res.scale + 1e-9)


def test_split_and_bands_along_indicators_are_groups(wages):
    for loss in ("squared", "logcosh", "lad"):
        res = stabconf.fit("y ~ age", wages[0], loss=loss)
        made = res.conf_int_conformal(wages[1], 0.1, method="split", conditional="~ C(g)")
        same = res.conf_int_conformal(wages[1], 0.1, method="split", groups="g")
        np.testing.assert_allclose(made, same, atol=1e-9)
    band = stabconf.fit_quantiles("y ~ age", wages[0])
    made = band.conf_int_conformal(wages[1], 0.1, conditional="~ C(g)")
    np.testing.assert_allclose(made, band.conf_int_conformal(wages[1], 0.1, groups="g"), atol=1e-8)


def test_p_values_say_what_the_set_does(wages):
    res, new = stabconf.fit("y ~ age", wages[0]), wages[1].iloc[:3]
    ends = res.conf_int_conformal(new, 0.1, conditional="~ C(g) + age")
    for label in new.index:
        z = ends.loc[label].to_numpy() + np.array([1e-6, -1e-6])
        p = res.conformity(new.loc[[label]], z, conditional="~ C(g) + age")["p"]
        assert (p >= 0.1).all()  # levels may cross, so that p may be above alpha just outside too
        far = res.conformity(new.loc[[label]], [-1e6, 1e6], conditional="~ C(g) + age")["p"]
        assert (far < 0.05).all()
    along, grouped = ({"conditional": "~ C(g)"}, {"groups": "g"})
    z = np.linspace(0.0, 15.0, 7)
    made, same = (res.conformity(new, z, **options)["p"] for options in (along, grouped))
    np.testing.assert_allclose(made, same, atol=1e-8)


def test_rows_without_a_value_have_no_interval_and_small_groups_an_infinite_one(wages):
    data = wages[0].assign(rare=["r"] * 4 + ["x"] * 196)
    new = wages[1].assign(rare="x").iloc[:3].astype({"g": object})
    new.iloc[1, new.columns.get_loc("g")] = None
    new.iloc[2, new.columns.get_loc("rare")] = "r"
    res = stabconf.fit("y ~ age", data)
    with pytest.warns(
        SampleSizeWarning, match=f"intervals of rows {new.index[2]} are infinite.*fewer columns"
    ):
        ends = res.conf_int_conformal(new, 0.1, conditional="~ C(g) + C(rare)")
    assert np.isfinite(ends.iloc[0]).all() and ends.iloc[1].isna().all() and np.isinf(ends.iloc[2]).all()
    assert ends.attrs["conditional"] == "~ C(g) + C(rare)"
    assert "within every group" in ends.attrs["guarantee"]


def test_whatever_goes_through_conf_int_takes_a_formula(wages, tmp_path):
    res, new = stabconf.fit("y ~ age", wages[0]), wages[1]
    options = {"alpha": 0.1, "conditional": "~ C(g) + age"}
    ends = res.conf_int_conformal(new, **options)
    frame = res.get_prediction(new, conditional=options["conditional"]).summary_frame(alpha=0.1)
    np.testing.assert_allclose(frame[["obs_ci_lower", "obs_ci_upper"]], ends)
    report = res.width_report(new, by="g", **options)
    widths = (ends["upper"] - ends["lower"]).groupby(new["g"]).mean()
    np.testing.assert_allclose(report["mean"], widths)
    assert res.plot_intervals(new, x="age", **options) is not None
    assert res.report(tmp_path / "wages.html", new, **options).is_file()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"conditional": "~ nosuch"}, FormulaError, "conditional='~ nosuch' cannot be evaluated"),
        ({"conditional": 3}, InputTypeError, "give a formula such as"),
        ({"conditional": "~ g", "groups": "g"}, AssumptionError, "takes the place of groups and weights"),
        ({"conditional": "~ g", "method": "stable"}, InputTypeError, "option 'conditional' is unknown to"),
    ],
)
def test_bad_formulas_and_combinations_are_refused_with_their_fix(wages, options, error, message):
    with pytest.raises(error, match=message):
        stabconf.fit("y ~ age", wages[0]).conf_int_conformal(wages[1], **options)


@pytest.mark.parametrize("loss", ["squared", "logcosh", "power", "linex"])
def test_losses_whose_scores_follow_far_responses_are_refused(wages, loss):
    res = stabconf.fit("y ~ age", wages[0], loss=loss)
    with pytest.raises(AssumptionError, match="use loss 'lad', 'quantile' or 'huber', or method='split'"):
        res.conf_int_conformal(wages[1], conditional="~ g")


@pytest.mark.slow
def test_coverage_holds_in_overlapping_groups_and_under_shifts_that_the_formula_spans():
    """1,000 samples and 20 new rows each: every group and every shift within binomial error."""
    alpha, hits, groups = 0.1, [], []
    for seed in range(1000):
        rng = np.random.default_rng([seed, 17])
        n = 80
        x = rng.uniform(-1, 1, n + 20)
        g = rng.random(n + 20) < 0.4
        y = x + rng.standard_normal(n + 20) * np.where(g, 2.0, 0.5) * (1.0 + 0.5 * x)
        made = pd.DataFrame({"x": x, "g": np.where(g, "a", "b"), "y": y})
        res = stabconf.fit("y ~ x", made.iloc[:n])
        new = made.iloc[n:]
        ends = res.conf_int_conformal(new, alpha, conditional="~ C(g) + x + I(x > 0)")
        hits.append(((ends["lower"] <= new["y"]) & (new["y"] <= ends["upper"])).to_numpy())
        groups.append(new)
    every = pd.concat(groups)
    inside = np.concatenate(hits).reshape(1000, 20)
    weights = {
        "all": np.ones(len(every)),
        "a": every["g"] == "a",
        "b": every["g"] == "b",
        "right": every["x"] > 0,
        "shift": 1.0 + every["x"],
        "other shift": 1.0 - 0.8 * every["x"],
    }
    for name, weight in weights.items():
        weight = np.asarray(weight, dtype=float).reshape(1000, 20)
        share = (weight * inside).sum(axis=1) / weight.sum(axis=1).mean()
        target = (weight * (1 - alpha)).sum(axis=1) / weight.sum(axis=1).mean()
        error = np.std(share - target) / np.sqrt(1000)
        assert -4.0 * error <= np.mean(share - target) <= 4.0 / 81 + 4.0 * error, name


@pytest.mark.filterwarnings("ignore::stabconf.StabconfWarning")
@pytest.mark.parametrize("seed", [26, 28, 36, 49, 81, 92])
def test_bands_along_indicators_are_those_of_groups_where_scores_tie(seed):
    """Within the range that a quantile fit follows the response a training row may be followed too: both
    scores are 0, and such responses are in the set, whatever the scores are at the ends of the range."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=13))
    y = x + rng.standard_t(2, size=13) * (1 + abs(x))
    g = rng.integers(0, 2, 13)
    g[0] = g[12]
    frame = pd.DataFrame({"x": x, "y": y, "g": g})
    res = stabconf.fit_quantiles("y ~ x", frame[:12], quantiles=(0.1, 0.95), penalty=0.01)
    for alpha in (0.2, 0.3, 0.4):
        along = res.conf_int_conformal(frame[12:], alpha=alpha, conditional="~ C(g)")
        grouped = res.conf_int_conformal(frame[12:], alpha=alpha, groups="g")
        if along.attrs["empty"] or grouped.attrs["empty"]:
            continue
        (low, high), (least, most) = along.to_numpy()[0], grouped.to_numpy()[0]
        assert low <= least + 1e-6 and high >= most - 1e-6
        assert max(least - low, high - most) <= along.attrs["tol"] + 1e-6


def test_scores_that_are_all_0_bound_as_those_of_groups_do():
    """Fits through all rows: every threshold is 0, not infinite."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(16, 15))
        names = [f"x{j}" for j in range(15)]
        frame = pd.DataFrame(X, columns=names).assign(g=[0] * 8 + [1] * 7 + [0])
        frame["y"] = X[:, 0] + rng.normal(size=16)
        res = stabconf.fit("y ~ " + " + ".join(names), frame[:15], penalty=0.001)
        ends = [
            res.conf_int_conformal(frame[15:], alpha=0.4, **more)
            for more in ({"conditional": "~ C(g)"}, {"groups": "g"})
        ]
        np.testing.assert_allclose(*ends, rtol=1e-6)
        assert np.all(np.isfinite(ends[0]))
