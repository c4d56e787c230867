"""Scores other than the absolute one, and scales: sets against refits and definitions."""

import numpy as np
import pandas as pd
import pytest
from problems import draw, fits_of, parted_fits, root, scored_stable, split
from referee import refit

import stabconf
from stabconf import AssumptionError, InputError, InputTypeError, UserScore
from stabconf.losses import LAD, Huber, Linex, LogCosh
from stabconf.rank import conformal_rank
from stabconf.sets import FixedScale, LearnedScale
from stabconf.sets.score import SCORES, FunctionScore, as_score
from stabconf.solvers import Problem, minimise

ALPHA = 0.2


def tilted_size(r):
    """Twice as bad below as above."""
    return np.where(r < 0, -2.0 * r, r)


@pytest.fixture
def frame():
    rng = np.random.default_rng(2)
    made = pd.DataFrame({"x": rng.uniform(1, 3, 80), "w": rng.standard_normal(80)})
    made["s"] = made["x"] ** 2
    made["y"] = made["x"] + 0.3 * made["s"] * rng.standard_normal(80)
    return made


@pytest.mark.parametrize(
    "score",
    [as_score("absolute", None), as_score("squared", None), UserScore(tilted_size, lipschitz=2.0)]
    + [as_score("dual", loss) for loss in (Huber(), LogCosh(), Linex())],
    ids=lambda score: score.name,
)
def test_level_sets_hold_the_residuals_with_scores_up_to_the_level(score):
    for level in (0.1, 0.4, 0.9):
        low, high = (float(end) for end in score.interval(np.array(level)))
        inside = np.linspace(max(low, -50.0), min(high, 50.0), 9)
        assert np.all(score.value(inside) <= level + 1e-9)
        for end, step in ((low, -1e-6), (high, 1e-6)):
            if np.isfinite(end):
                assert score.value(end + step) > level - 1e-9


@pytest.mark.parametrize("loss", [LAD(), Huber(), LogCosh()], ids=lambda loss: loss.describe())
@pytest.mark.parametrize("kind", ["plain", "heavy", "tied"])
def test_stable_sets_of_any_score_hold_the_refitted_one(loss, kind):
    drawn = draw(kind, 3, n=30, penalty=0.5, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    sigma = FixedScale(np.linspace(0.5, 2.0, 30), np.array([1.3]))
    for given, scale in ((UserScore(tilted_size, lipschitz=2.0), None), (None, sigma), ("squared", sigma)):
        (made,) = scored_stable(fits, drawn.new, [ALPHA], score=given, scale=scale)
        trained, new = (np.ones(30), 1.0) if scale is None else (sigma.trained, sigma.new[0])
        score = tilted_size if isinstance(given, UserScore) else np.abs
        for z in np.linspace(made.lower[0] - 2.0, made.upper[0] + 2.0, 41):
            residuals = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)[0]
            scores = score(residuals / np.append(trained, new))
            p = (1 + np.count_nonzero(scores[:-1] >= scores[-1])) / 31
            if p > ALPHA:
                assert made.lower[0] <= z <= made.upper[0], (z, p)


def test_the_closed_form_of_a_scaled_stable_set():
    """mu +- (sigma_N (k-th smallest of (|r_i| + tau_i) / sigma_i) + tau_N)."""
    drawn = draw("plain", 5, n=25, penalty=0.8, l1_ratio=0.0)
    loss = Huber()
    fits = fits_of(drawn, loss, standardize=False)
    sigma = FixedScale(np.linspace(0.5, 2.0, 25), np.array([1.7]))
    (made,) = scored_stable(fits, drawn.new, [ALPHA], scale=sigma, bound="norm")
    solution = minimise(Problem(drawn.X, drawn.y, loss, drawn.ridge, drawn.lasso))
    norms = np.linalg.norm(np.vstack([drawn.X, drawn.new]), axis=1)
    tau = loss.lipschitz * norms * norms[-1] / drawn.ridge[0]
    scores = np.sort((np.abs(solution.r) + tau[:-1]) / sigma.trained)
    half = 1.7 * scores[conformal_rank(ALPHA, 25) - 1] + tau[-1]
    middle = float(drawn.new[0] @ solution.x)
    assert [made.lower[0], made.upper[0]] == pytest.approx([middle - half, middle + half], abs=1e-7)


@pytest.mark.parametrize("given", ["squared", "dual"])
def test_scores_that_rank_as_the_size_does_give_the_same_sets(frame, given):
    res = stabconf.fit("y ~ x", frame, loss="logcosh", penalty=0.2)
    for method in ("exact", "stable", "split", "cv+", "root"):
        plain = res.conf_int_conformal(frame.iloc[:2], alpha=0.1, method=method)
        scored = res.conf_int_conformal(frame.iloc[:2], alpha=0.1, method=method, score=given)
        np.testing.assert_allclose(scored, plain, atol=1e-5)


def test_widths_follow_a_scale(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    new = pd.DataFrame({"x": [1.0, 2.0, 3.0], "s": [1.0, 4.0, 9.0]})
    for method in ("stable", "root", "split", "cross", "cv+", "jackknife+"):
        column = res.conf_int_conformal(new, alpha=0.1, method=method, scale="s")
        called = res.conf_int_conformal(new, alpha=0.1, method=method, scale=lambda given: given["x"] ** 2)
        np.testing.assert_allclose(called, column)
        width = column["upper"] - column["lower"]
        assert width[2] > 3.0 * width[0]
    for method in ("split", "cv+"):
        learned = res.conf_int_conformal(new, alpha=0.1, method=method, scale="~ np.log(x)")
        width = learned["upper"] - learned["lower"]
        assert width[2] > 2.0 * width[0] > 0
    upper = res.conf_int_conformal(new, alpha=0.1, method="split", scale="s", side="upper")
    assert np.isneginf(upper["lower"]).all() and np.isfinite(upper["upper"]).all()


def test_split_with_a_learned_scale_is_its_definition(frame):
    X = np.column_stack([np.ones(80), frame["x"]])
    fits = parted_fits(X, frame["y"].to_numpy(), Huber(), 0.1)
    S = np.column_stack([np.ones(80), np.log(frame["x"])])
    (made,) = split(fits, X[:3], [ALPHA], random_state=5, scale=LearnedScale(S, S[:3]))
    order = np.random.default_rng(5).permutation(80)
    held, fitted = order[:40], order[40:]
    predict = fits.predictor(fitted)
    r = frame["y"].to_numpy() - predict(X)
    slopes = np.linalg.lstsq(S[fitted], np.log(np.abs(r[fitted])), rcond=None)[0]
    sigma = np.exp(S @ slopes)
    level = np.sort(np.abs(r[held]) / sigma[held])[conformal_rank(ALPHA, 40) - 1]
    np.testing.assert_allclose(made.upper - predict(X[:3]), level * sigma[:3], rtol=0.02)


def test_a_dual_score_is_refused_where_duals_say_nothing(frame):
    lad = stabconf.fit("y ~ x", frame, loss="lad", penalty=0.2)
    with pytest.raises(AssumptionError, match="score='dual' needs a smooth loss"):
        lad.conf_int_conformal(frame, method="stable", score="dual")
    huber = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    with pytest.raises(AssumptionError, match="belongs to a fit of all rows"):
        huber.conf_int_conformal(frame, method="split", score="dual")


def test_bad_scores_and_scales_are_named_with_their_fix(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    cases = [
        ({"score": "median"}, InputError, "score='median' is unknown"),
        ({"score": 3}, InputTypeError, "score=3 is a int"),
        ({"score": "squared", "side": "upper"}, InputError, "goes with side='two-sided'"),
        ({"scale": "v"}, InputError, "scale='v' is not a column of data"),
        ({"scale": 2.0}, InputTypeError, "scale=2.0 is a float"),
        ({"scale": "w"}, InputError, "scales must be positive"),
        ({"scale": "~ nothing"}, InputError, "scale='~ nothing' cannot be evaluated"),
        (
            {"scale": "~ x", "method": "root"},
            AssumptionError,
            "takes a scale that is known beforehand",
        ),
        ({"score": UserScore(np.abs), "inner": True}, AssumptionError, "inner=True goes with"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            res.conf_int_conformal(frame, **{"method": "stable", **options})
    power = stabconf.fit("y ~ x", frame, loss="power", penalty=0.2)
    with pytest.raises(AssumptionError, match="not Lipschitz"):
        power.conf_int_conformal(frame, method="stable", score=UserScore(np.abs))


def test_a_wrong_lipschitz_constant_is_found_out(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    wrong = UserScore(lambda r: 3.0 * np.abs(r), lipschitz=0.01)
    with pytest.raises(InputError, match=r"changes faster than its lipschitz=0\.01"):
        res.conf_int_conformal(frame, method="stable", score=wrong)


def test_auto_is_stable_where_a_score_needs_it_and_rows_without_a_scale_are_kept(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.5)
    assert res.conf_int_conformal(frame.iloc[:2], alpha=0.4, score="dual").attrs["method"] == "stable"
    new = pd.DataFrame({"x": [1.0, 2.0], "s": [1.0, np.nan]})
    ends = res.conf_int_conformal(new, alpha=0.1, scale="s")
    assert ends.attrs["method"] == "exact" and list(ends.isna().any(axis=1)) == [False, True]
    squares = stabconf.fit("y ~ x", frame, loss="squared", penalty=0.5)
    plain = squares.conf_int_conformal(frame.iloc[:2], alpha=0.1)
    pd.testing.assert_frame_equal(
        squares.conf_int_conformal(frame.iloc[:2], alpha=0.1, score="dual"), plain
    )


def test_a_score_is_one_line_from_outside(frame, monkeypatch):
    class Cubed(FunctionScore):
        name, same_sets = "cubed", False

        def value(self, r):
            return np.abs(r) ** 3

    monkeypatch.setitem(SCORES, "cubed", lambda loss: Cubed())
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    for method in ("split", "root", "stable"):
        plain = res.conf_int_conformal(frame.iloc[:2], alpha=0.1, method=method, bound=None)
        cubed = res.conf_int_conformal(frame.iloc[:2], alpha=0.1, method=method, score="cubed")
        if method == "stable":
            assert (cubed["upper"] >= plain["upper"] - 1e-9).all()
        else:
            np.testing.assert_allclose(cubed, plain, atol=1e-5)


def test_root_with_a_score_flips_the_p_value():
    drawn = draw("plain", 8, n=25, penalty=0.3, l1_ratio=0.0)
    fits = fits_of(drawn, Huber())
    (made,) = root(fits, drawn.new, [ALPHA], score=UserScore(tilted_size, lipschitz=2.0), tol=1e-7)
    for z, wanted in ((made.lower[0] + 1e-4, True), (made.lower[0] - 1e-4, False)):
        residuals = refit(drawn.X, drawn.y, drawn.new, z, Huber(), drawn.ridge, drawn.lasso)[0]
        scores = tilted_size(residuals)
        assert ((1 + np.count_nonzero(scores[:-1] >= scores[-1])) / 26 > ALPHA) == wanted
