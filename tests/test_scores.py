"""Scores other than the absolute one, and scales: sets against refits and definitions."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from problems import batch, draw, exact, fits_of, grid, parted_fits, replace_one, root, scored_stable, split
from referee import refit

import stabconf
from stabconf import AssumptionError, InputError, InputTypeError, PairScore, UserScore
from stabconf.losses import LAD, Huber, Linex, LogCosh, Squared
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


def logarithmic(y, mu):
    return np.abs(np.arcsinh(y) - np.arcsinh(mu))


LOGS = PairScore(logarithmic, lipschitz=1.0)


@pytest.mark.parametrize("loss", [LAD(), Huber(), LogCosh()], ids=lambda loss: loss.describe())
@pytest.mark.parametrize("kind", ["plain", "heavy", "tied"])
def test_sets_of_any_score_and_base_fit_hold_the_refitted_one_and_the_inner_is_held(loss, kind):
    drawn = draw(kind, 3, n=30, penalty=0.5, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    sigma = FixedScale(np.linspace(0.5, 2.0, 30), np.array([1.3]))
    points = np.quantile(drawn.y, [[0.3, 0.7]])
    ways = ((scored_stable, {}), (replace_one, {"z_hat": points[:, 0]}), (batch, {"z_hat": points}))
    cases = [(UserScore(tilted_size, lipschitz=2.0), None), (None, sigma), ("squared", sigma), (LOGS, None)]
    sets = []
    for given, scale in cases:
        asked = {"score": given, "scale": scale, "inner": True}
        sets.append([way(fits, drawn.new, [ALPHA], **asked, **more)[0] for way, more in ways])
    low = min(made.lower[0] for found in sets for made in found)
    high = max(made.upper[0] for found in sets for made in found)
    for z in np.linspace(low - 1.0, high + 1.0, 61):
        r = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)[0]
        y = np.append(drawn.y, z)
        for (given, scale), found in zip(cases, sets, strict=True):
            size = tilted_size if isinstance(given, UserScore) else np.abs
            sizes = r if scale is None else r / np.append(sigma.trained, sigma.new)
            scores = logarithmic(y, y - r) if given is LOGS else size(sizes)
            p = (1 + np.count_nonzero(scores[:-1] >= scores[-1] - 1e-9)) / 31
            for made in found:
                if p > ALPHA:
                    assert made.lower[0] <= z <= made.upper[0], (z, p)
                elif not np.isnan(made.inner_lower[0]):
                    assert not made.inner_lower[0] <= z <= made.inner_upper[0], (z, p)


def test_sets_of_a_score_of_response_and_prediction_are_those_of_algorithm_2():
    """S(z, mu_N) - gamma tau_N <= k-th smallest of S(y_i, mu_i) + gamma tau_i, with each base fit."""
    drawn = draw("plain", 5, n=25, penalty=0.8, l1_ratio=0.0)
    loss, gamma = Huber(), 1.5
    score = PairScore(lambda y, mu: 1.5 * logarithmic(y, mu) + 0.0, lipschitz=gamma)
    fits = fits_of(drawn, loss, standardize=False)
    X = np.vstack([drawn.X, drawn.new])
    norms = np.linalg.norm(X, axis=1)
    k = conformal_rank(ALPHA, 25)

    def keeps(z, y, mu, slope):
        tau = slope * norms * norms[-1] / drawn.ridge[0]
        most = np.sort(gamma * logarithmic(drawn.y, mu[:-1]) + gamma * tau[:-1])[k - 1]
        return gamma * logarithmic(z, mu[-1]) - gamma * tau[-1] <= most

    alone = X @ minimise(Problem(drawn.X, drawn.y, loss, drawn.ridge, drawn.lasso)).x
    pinned = []
    for z_hat in (points := np.quantile(drawn.y, [0.2, 0.9])):
        y = np.append(drawn.y, z_hat)
        mu = X @ minimise(Problem(X, y, loss, drawn.ridge, drawn.lasso)).x
        pinned.append((mu, loss.d + abs(np.clip(z_hat - mu[-1], -loss.d, loss.d))))
    naive = {
        "stable": lambda z: keeps(z, drawn.y, alone, loss.d),
        "replace_one": lambda z: keeps(z, drawn.y, *pinned[0]),
        "batch": lambda z: all(keeps(z, drawn.y, *each) for each in pinned),
    }
    given = {"bound": "norm", "score": score}
    made = {
        "stable": scored_stable(fits, drawn.new, [ALPHA], **given)[0],
        "replace_one": replace_one(fits, drawn.new, [ALPHA], z_hat=points[:1], **given)[0],
        "batch": batch(fits, drawn.new, [ALPHA], z_hat=points[None], **given)[0],
    }
    for name, found in made.items():
        candidates = np.linspace(found.lower[0] - 1.0, found.upper[0] + 1.0, 4001)
        inside = [z for z in candidates if naive[name](z)]
        step = (found.width[0] + 2.0) / 4000
        assert [inside[0], inside[-1]] == pytest.approx([found.lower[0], found.upper[0]], abs=1.01 * step)


def test_refits_and_held_out_rows_rank_a_score_of_response_and_prediction(frame):
    drawn = draw("plain", 6, n=20, penalty=0.5, l1_ratio=0.0)
    loss = LAD()
    fits = fits_of(drawn, loss)
    (made,) = root(fits, drawn.new, [ALPHA], score=LOGS, tol=1e-7)
    (near,) = grid(fits, drawn.new, [ALPHA], score=LOGS, points=400)
    assert near.lower[0] <= made.lower[0] and made.upper[0] <= near.upper[0]
    for end, out in ((made.lower[0], -1.0), (made.upper[0], 1.0)):
        for step in (-1e-4, 1e-4):
            z = end + step * out
            r = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)[0]
            y = np.append(drawn.y, z)
            scores = logarithmic(y, y - r)
            assert ((1 + np.count_nonzero(scores[:-1] >= scores[-1])) / 21 > ALPHA) == (step < 0)
    X = np.column_stack([np.ones(80), frame["x"]])
    y = frame["y"].to_numpy()
    parts = parted_fits(X, y, Huber(), 0.1)
    (held_out,) = split(parts, X[:3], [ALPHA], random_state=5, score=LOGS)
    order = np.random.default_rng(5).permutation(80)
    predict = parts.predictor(order[40:])
    held = order[:40]
    level = np.sort(logarithmic(y[held], predict(X[held])))[conformal_rank(ALPHA, 40) - 1]
    np.testing.assert_allclose(held_out.upper, np.sinh(np.arcsinh(predict(X[:3])) + level), rtol=1e-9)
    np.testing.assert_allclose(held_out.lower, np.sinh(np.arcsinh(predict(X[:3])) - level), rtol=1e-9)
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    for method in ("cv+", "jackknife+", "cross"):
        ends = res.conf_int_conformal(frame.iloc[:3], alpha=0.1, method=method, score=LOGS)
        assert np.all(ends["upper"] > res.predict(frame.iloc[:3]))


def test_a_score_of_a_residual_may_be_written_with_response_and_prediction(frame):
    """And its smallest value may be elsewhere than at the prediction."""
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    plain = UserScore(lambda r: tilted_size(r - 0.5), lipschitz=2.0, centre=0.5)
    pair = PairScore(lambda y, mu: tilted_size(y - mu - 0.5), lipschitz=2.0, best=lambda mu: mu + 0.5)
    for method in ("split", "root", "jackknife+"):
        one, two = (
            res.conf_int_conformal(frame.iloc[:2], alpha=0.1, method=method, score=each)
            for each in (plain, pair)
        )
        np.testing.assert_allclose(one, two, atol=2e-5)


def test_bad_scores_of_response_and_prediction_are_named_with_their_fix(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    unknown = PairScore(logarithmic)
    cases = [
        ({"score": unknown}, AssumptionError, "give its lipschitz="),
        ({"score": LOGS, "scale": "s"}, InputError, "divide by the scale in its function"),
        ({"score": LOGS, "side": "upper"}, InputError, "needs side='two-sided'"),
        ({"score": LOGS, "method": "exact"}, AssumptionError, "ranks residuals by their size"),
        ({"score": PairScore(lambda y, mu: 3.0 * logarithmic(y, mu), 0.01)}, InputError, "changes faster"),
        ({"score": PairScore(lambda y, mu: np.abs(y - mu - 1.0), 1.0)}, InputError, "give best="),
        ({"score": PairScore(lambda y, mu: np.sum(y - mu), 1.0)}, InputError, "one number per entry"),
        ({"score": PairScore(lambda y, mu: y + np.nan, 1.0)}, InputError, "is not a number"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            res.conf_int_conformal(frame, **{"method": "stable", "alpha": 0.1, **options})
    for made, error, message in (
        (lambda: PairScore(3, 1.0), InputTypeError, "give a function of responses and predictions"),
        (lambda: PairScore(logarithmic, -1.0), InputError, "lipschitz=-1.0 is not allowed"),
        (lambda: PairScore(logarithmic, 1.0, best=0.0), InputTypeError, "best=0.0 is not callable"),
    ):
        with pytest.raises(error, match=message):
            made()
    assert res.conf_int_conformal(frame.iloc[:2], alpha=0.1, score=LOGS).attrs["method"] == "stable"
    weighted = smf.wls("y ~ x", frame, weights=frame["x"]).fit()
    with pytest.raises(AssumptionError, match="a model with weights ranks weighted ones"):
        stabconf.conformal(weighted).conf_int_conformal(
            frame.iloc[:2], wls_weights="x", method="root", score=LOGS
        )


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


def test_the_dual_score_of_huber_breaks_ties_by_the_residual():
    """Beyond the threshold all slopes are the same: without that the set is the whole line."""
    drawn = draw("heavy", 8, n=30, penalty=0.1, l1_ratio=0.0)
    loss = Huber(0.5)
    fits = fits_of(drawn, loss)
    (made,) = exact(fits, drawn.new, [0.1], score="dual")
    assert np.isfinite(made.width[0])
    for end, out in ((made.lower[0], -1.0), (made.upper[0], 1.0)):
        for step in (-1e-5, 1e-5):
            given = drawn.X, drawn.y, drawn.new, end + step * out, loss, drawn.ridge, drawn.lasso
            r = refit(*given)[0] / fits.scale
            pairs = [(abs(loss.derivative(one)), abs(one)) for one in r]
            assert abs(pairs[-1][0]) == loss.d  # a tie that the size breaks
            p = (1 + sum(pair >= pairs[-1] for pair in pairs[:-1])) / 31
            assert (p > 0.1) == (step < 0)


def conjugate(loss, u):
    """l*(u), by the residual where u is the slope."""
    r = loss.inverse_derivative(u)
    return u * r - loss.value(r)


def dual_fit(drawn, loss, v, w):
    """Coefficients and dual variables of all rows with the new one at ``w``, by brute force."""
    X = np.vstack([drawn.X, drawn.new])
    theta = minimise(Problem(X, np.append(v, w), loss, drawn.ridge, drawn.lasso), tol=1e-14).x
    return theta, loss.derivative(np.append(v, w) - X @ theta)


@pytest.mark.parametrize("loss", [Squared(), Huber(), LogCosh()], ids=lambda loss: loss.describe())
def test_dual_variables_move_by_no_more_than_the_papers_constants(loss):
    """sqrt(2 nu gap), sqrt(2 nu C) from the fit without the new row, and 2 nu rho*."""
    drawn = draw("plain", 9, n=25, penalty=0.2, l1_ratio=0.0)
    v, nu = drawn.standardised(), loss.smoothness
    X = np.vstack([drawn.X, drawn.new])
    without = minimise(Problem(drawn.X, v, loss, drawn.ridge, drawn.lasso), tol=1e-14)
    u_without = np.append(loss.derivative(without.r), 0.0)
    responses = np.quantile(v, [0.0, 0.3, 0.6, 1.0])
    worst = float(loss.value(np.ptp(v)))
    largest = np.max(np.abs(v))  # conjugates of the rows' losses are Lipschitz with it or more
    for w_hat in responses:
        theta, u_hat = dual_fit(drawn, loss, v, w_hat)
        for w in responses:
            y = np.append(v, w)
            u = dual_fit(drawn, loss, v, w)[1]
            moved = np.linalg.norm(u - u_hat)
            primal = np.sum(loss.value(y - X @ theta)) + 0.5 * np.sum(drawn.ridge * theta**2)
            pull = X.T @ u_hat
            dual = np.sum(y * u_hat - conjugate(loss, u_hat)) - 0.5 * np.sum(pull**2 / drawn.ridge)
            assert moved <= np.sqrt(2.0 * nu * max(primal - dual, 0.0)) + 1e-7
            assert moved <= nu * abs(w - w_hat) + 1e-7 <= 2.0 * nu * largest + 1e-7
            assert np.linalg.norm(u - u_without) <= np.sqrt(2.0 * nu * worst)
            assert abs(u_hat[-1]) <= np.sqrt(2.0 * nu * worst)  # so that it rules nothing out


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
@pytest.mark.parametrize("loss", [Squared(), Huber(), LogCosh()], ids=lambda loss: loss.describe())
def test_the_duality_gap_rules_out_what_its_definition_does_and_nothing_exact(loss, side):
    drawn = draw("plain", 7, n=40, penalty=0.3, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    sign = {"two-sided": 0, "upper": 1, "lower": -1}[side]
    low, high = np.min(drawn.y), np.max(drawn.y)
    points = np.array([low - 1.0, low, high, high + 2.0])
    (made,) = batch(fits, drawn.new, [ALPHA], z_hat=points[None], bound="dual", side=side)
    (full,) = exact(fits, drawn.new, [ALPHA], side=side)
    v, k = drawn.standardised(), conformal_rank(ALPHA, 40)
    fitted = []
    for z in points:
        w = (z - fits.centre) / fits.scale
        theta, u = dual_fit(drawn, loss, v, w)
        size = sign * u if sign else np.abs(u)
        fitted.append((float(drawn.new[0] @ theta), u[-1], size[-1] - np.sort(size[:-1])[k - 1]))
    pieces = made.pieces.get(0, ((made.lower[0], made.upper[0]),))
    ruled_out = 0
    for z in np.linspace(low - 6.0, high + 8.0, 501):
        w = (z - fits.centre) / fits.scale
        keeps = True
        for eta, u, room in fitted:
            e = w - eta
            gap = max(loss.value(e) + conjugate(loss, u) - e * u, 0.0)
            keeps &= not room > np.sqrt(2.0) * np.sqrt(2.0 * loss.smoothness * gap)
        inside = any(first <= z <= last for first, last in pieces)
        near = min(abs(z - end) for piece in pieces for end in piece)
        assert inside == keeps or near < 1e-4, z
        ruled_out += not inside
        if full.lower[0] <= z <= full.upper[0]:
            assert inside
    assert ruled_out > 50


def test_the_duality_gap_is_refused_where_it_says_nothing(frame):
    def ask(loss="huber", penalty=0.2, **options):
        res = stabconf.fit("y ~ x", frame, loss=loss, penalty=penalty)
        return res.conf_int_conformal(
            frame.iloc[:2], alpha=0.3, **{"method": "batch", "bound": "dual", **options}
        )

    for options, message in (
        ({"method": "stable"}, "use method='replace_one' or 'batch'"),
        ({"method": "interpolation"}, "use method='replace_one' or 'batch'"),
        ({"loss": "lad"}, "a loss that is smooth and symmetric"),
        ({"loss": "power"}, "a loss that is smooth and symmetric"),
        ({"penalty": 0.0}, "penalty > 0"),
        ({"scale": "s"}, "score='absolute', without scale="),
        ({"inner": True}, "without scale= and inner="),
    ):
        with pytest.raises(AssumptionError, match=message):
            ask(**options)
    made = ask(z_hat=[-30.0, 30.0])
    assert made.attrs["bound"] == "dual" and np.isfinite(made.to_numpy()).all()
    with pytest.warns(stabconf.StabilityWarning, match="several on both sides"):
        one = ask(method="replace_one", z_hat=30.0)
    assert one["upper"].equals(made["upper"]) and np.isneginf(one["lower"]).all()


def test_a_dual_score_is_refused_where_duals_say_nothing(frame):
    lad = stabconf.fit("y ~ x", frame, loss="lad", penalty=0.2)
    with pytest.raises(AssumptionError, match="score='dual' needs a smooth loss"):
        lad.conf_int_conformal(frame, method="stable", score="dual")
    linex = stabconf.fit("y ~ x", frame, loss="linex", penalty=0.2)
    with pytest.raises(AssumptionError, match="belongs to a fit of all rows"):
        linex.conf_int_conformal(frame, method="split", score="dual")


def test_bad_scores_and_scales_are_named_with_their_fix(frame):
    res = stabconf.fit("y ~ x", frame, loss="huber", penalty=0.2)
    cases = [
        ({"score": "median"}, InputError, "score='median' is unknown"),
        ({"score": 3}, InputTypeError, "score=3 is a int"),
        ({"score": "squared", "side": "upper"}, InputError, "needs side='two-sided'"),
        ({"scale": "v"}, InputError, "scale='v' is not a column of data"),
        ({"scale": 2.0}, InputTypeError, "scale=2.0 is a float"),
        ({"scale": "w"}, InputError, "scales must be positive"),
        ({"scale": "~ nothing"}, InputError, "scale='~ nothing' cannot be evaluated"),
        (
            {"scale": "~ x", "method": "root"},
            AssumptionError,
            "takes a scale that is known beforehand",
        ),
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
    steep = UserScore(tilted_size, lipschitz=2.0)
    assert res.conf_int_conformal(frame.iloc[:2], alpha=0.1, score=steep).attrs["method"] == "stable"
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
