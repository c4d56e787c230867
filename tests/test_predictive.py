"""Predictive distributions: against one-sided intervals, refits by the referee, integrals, simulations."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from problems import LOSS_INSTANCES, draw, fits_of
from referee import refit
from scipy import integrate, stats

import stabconf
from stabconf import LAD, AssumptionError, Huber, InputError, InputTypeError, LogCosh, PseudoHuber, Squared
from stabconf.rank import Rank
from stabconf.sets.exact import ClippedSets
from stabconf.sets.score import Score
from stabconf.sets.smooth import SmoothSets

LEVELS = [0.01, 0.05, 0.1, 1 / 3, 0.5, 0.62, 0.75, 0.9, 0.95, 0.99]


def sample(seed, n, rows=1):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x1": rng.standard_normal(n + rows), "x2": rng.uniform(-1.0, 1.0, n + rows)})
    data["y"] = 1.0 + data["x1"] - data["x2"] + rng.standard_t(3, n + rows)
    return data.iloc[:n], data.iloc[n:]


def fitted(train, loss, penalty=0.05, **more):
    return stabconf.fit("y ~ x1 + x2", train, loss=loss, penalty=penalty, **more)


@pytest.fixture(scope="module")
def new(frame):
    out = frame.iloc[:6].copy()
    out.loc["row2", "x1"] = np.nan
    return out


@pytest.fixture(scope="module")
def made(results, new):
    return results.predictive(new)


# Steps and intervals --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=str)
def test_quantiles_are_the_ends_of_one_sided_intervals(loss):
    train, new = sample(3, 39, 3)
    res = fitted(train, loss)
    made = res.predictive(new)
    slack = 1e-9 if loss.kind != "bending" else 2e-6 * res.resid.std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stabconf.StabilityWarning)  # linex has sets without an end
        upper, lower = made.quantile(LEVELS), made.quantile(LEVELS, step="lower")
    assert upper.columns.name == "q" and upper.columns.tolist() == LEVELS
    for q in LEVELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stabconf.StabconfWarning)
            above = res.conf_int_conformal(new, alpha=1 - q, side="upper")["upper"]
            below = res.conf_int_conformal(new, alpha=q, side="lower")["lower"]
        for one, two in ((upper[q], above), (lower[q], below), (made.quantile(q), above)):
            np.testing.assert_allclose(one, two, rtol=0, atol=slack)
    interval = made.interval(0.2)  # of ranks that are known by now
    assert interval["upper"].equals(made.quantile(0.9).rename("upper"))
    assert interval["lower"].equals(made.quantile(0.1, step="lower").rename("lower"))


@pytest.mark.parametrize("loss", ["lad", "huber", "squared", "logcosh"])
def test_functions_rise_and_are_a_step_apart(loss):
    train, new = sample(5, 30, 4)
    made = fitted(train, loss).predictive(new)
    grid = np.tile(np.linspace(-12.0, 12.0, 400), (4, 1))
    found = made.cdf(grid)
    lower, upper = (found[name].to_numpy().reshape(grid.shape) for name in ("lower", "upper"))
    assert (np.diff(lower) >= 0).all() and (np.diff(upper) >= 0).all()
    assert (lower[:, 0] == 0).all() and np.allclose(upper[:, -1], 1.0)
    apart = np.round(31 * (upper - lower)).astype(int)
    assert (apart >= 1).all()
    assert (apart[~made.widened.to_numpy()] == 1).all()  # no point of the grid is a step
    assert made.widened.any() or loss != "lad"


def test_at_a_step_the_functions_are_two_shares_apart():
    train, new = sample(6, 30)
    made = fitted(train, "squared").predictive(new)
    step = float(made.upper_steps[10].iloc[0])
    np.testing.assert_allclose(made.cdf(step).iloc[0], [9 / 31, 11 / 31])
    assert step == made.lower_steps[10].iloc[0] == made.quantile(10 / 31).iloc[0]


@pytest.mark.filterwarnings("ignore::stabconf.StabilityWarning")
def test_bands_are_found_wide_where_most_steps_are_infinite():
    """More columns than rows: the distribution functions are two shares apart over a long range."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 33))
        names = [f"x{j}" for j in range(33)]
        data = pd.DataFrame(X, columns=names).assign(y=rng.standard_normal(30))
        res = stabconf.fit("y ~ " + " + ".join(names), data, loss="squared", penalty=0.01)
        made = res.predictive(pd.DataFrame(2.0 * rng.standard_normal((1, 33)), columns=names))
        upper, lower = made.upper_steps.to_numpy()[0], made.lower_steps.to_numpy()[0]
        apart = [high - low for high, low in zip(upper, lower, strict=True) if high != low]
        assert made.widened.iloc[0] == (max(apart, default=0.0) > 1e-3)
        found.append((np.isinf(upper).mean() > 0.3, made.widened.iloc[0]))
    assert (True, True) in found


def test_the_smallest_and_the_largest_shares_are_infinite_quantiles(made):
    complete = made.quantile(0.5).notna()
    assert np.isposinf(made.quantile(0.999)[complete]).all()
    assert np.isneginf(made.quantile(0.001, step="lower")[complete]).all()
    assert np.isfinite(made.quantile(0.001)[complete]).all()


# Brute force ----------------------------------------------------------------------------------------


def shares(train, x_new, z, loss, penalty):
    """Shares of smaller and of no larger signed residuals, itself included, refitted by clarabel."""
    X = np.column_stack([np.ones(len(train)), train[["x1", "x2"]]])
    ridge = np.full(3, len(train) * penalty)
    found = refit(X, train["y"], x_new, z, loss, ridge, np.zeros(3), standardize=False)[0]
    r, e = found[:-1], found[-1]
    return np.sum(r < e - 1e-7), 1 + np.sum(r <= e + 1e-7)


@pytest.mark.parametrize("loss", [LAD(), Huber(0.7), Squared(), LogCosh()], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_steps_are_where_refits_say(loss, seed):
    train, new = sample(seed, 14)
    made = fitted(train, loss, 0.1, standardize=False).predictive(new)
    x_new = np.array([1.0, *new[["x1", "x2"]].iloc[0]])
    upper, lower = made.upper_steps.to_numpy()[0], made.lower_steps.to_numpy()[0]
    steps = np.sort(np.concatenate([upper, lower]))
    grid = np.concatenate([np.linspace(steps[0] - 1, steps[-1] + 1, 60), upper - 1e-4, lower + 1e-4])
    grid = np.sort(grid[np.min(np.abs(grid[:, None] - steps), axis=1) > 5e-5])
    smaller, no_larger = np.array([shares(train, x_new, z, loss, 0.1) for z in grid]).T
    for k in range(1, 15):
        # The last response with fewer than k rows below it, and the first with k rows that are not above.
        before = grid < upper[k - 1]
        assert smaller[~before].min(initial=15) >= k > smaller[before][-1]
        after = grid > lower[k - 1]
        assert no_larger[~after].max(initial=0) <= k < no_larger[after][0]
    found = made.cdf(grid[None]) * 15
    np.testing.assert_allclose(found["lower"], np.minimum.accumulate(smaller[::-1])[::-1])
    np.testing.assert_allclose(found["upper"], np.maximum.accumulate(no_larger))


def test_conformity_has_the_same_shares(results, new, made):
    z = np.linspace(-6.0, 10.0, 25)
    found = made.cdf(np.tile(z, (6, 1)))
    upper = results.conformity(new, z, side="upper")["p"].to_numpy()
    lower = results.conformity(new, z, side="lower")["p"].to_numpy()
    kept = np.repeat(~made.widened.to_numpy(), 25)
    np.testing.assert_allclose(found["lower"][kept], 1.0 - upper[kept])
    np.testing.assert_allclose(found["upper"][kept], lower[kept])
    assert kept.sum() >= 75


# Scores ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["lad", "huber"])
def test_crps_is_the_integral_between_the_outermost_steps(loss):
    train, new = sample(8, 25, 3)
    made = fitted(train, loss).predictive(new)
    y = np.array([-9.0, 0.3, 30.0])
    found = made.crps(y)
    for i in range(3):
        steps = np.sort(np.concatenate([made.upper_steps.iloc[i], made.lower_steps.iloc[i]]))

        def squared(x, i=i, steps=steps):
            ends = made.cdf(np.where(np.arange(3) == i, x, 0.0)).iloc[i].mean()
            share = 0.0 if x < steps[0] else 1.0 if x > steps[-1] else ends
            return (share - (x >= y[i])) ** 2

        cuts = np.unique([min(steps[0], y[i]), *steps, y[i], max(steps[-1], y[i])])
        value = sum(integrate.fixed_quad(np.vectorize(squared), a, b, n=1)[0] for a, b in pairwise(cuts))
        assert found.iloc[i] == pytest.approx(value, rel=1e-9)


def test_a_better_model_has_a_better_score():
    train, test = sample(11, 80, 200)
    good = fitted(train, "huber").predictive(test).crps(test["y"])
    poor = stabconf.fit("y ~ 1", train, loss="huber").predictive(test).crps(test["y"])
    assert good.mean() < 0.85 * poor.mean()


# Guarantee ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["lad", "huber", "squared"])
def test_responses_fall_below_quantiles_as_often_as_promised(loss):
    """Shares of responses at or below quantile(q), and the place of responses in the band."""
    count, n, levels = 400, 19, np.array([0.1, 0.25, 0.5, 0.8, 0.95])
    rng = np.random.default_rng(0)
    below, under, places = np.zeros(5), np.zeros(5), []
    for seed in range(count):
        train, new = sample([7, seed], n)
        made = fitted(train, loss, standardize=False).predictive(new)
        y = float(new["y"].iloc[0])
        low, high = made.cdf(y).iloc[0]
        places.append(low + rng.uniform() * (high - low))
        below += y <= made.quantile(levels).to_numpy()[0]
        under += y < made.quantile(levels, step="lower").to_numpy()[0]
    error = 3.5 * np.sqrt(levels * (1 - levels) / count)
    assert (below / count >= levels - error).all()
    assert (under / count <= levels + error).all()
    assert stats.kstest(places, "uniform").pvalue > 1e-3


# Speed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["lad", "huber"])
def test_many_levels_share_one_path_per_row(loss):
    train, new = sample(2, 120, 20)
    res = fitted(train, loss)
    levels = list(np.arange(2, 99) / 100)
    many = res.conf_int_conformal(new, alpha=levels, side="upper")
    assert many.attrs["tilted_fits"] <= 4 * len(new)
    for alpha in levels[:85:14]:
        one = res.conf_int_conformal(new, alpha=alpha, side="upper")["upper"]
        np.testing.assert_allclose(many[alpha]["upper"], one, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "duplicated", "wide"])
@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
def test_pieces_of_several_ranks_are_those_of_each(kind, side):
    drawn = draw(kind, 1)
    for loss in (LAD(), Huber(), Squared()):
        fits = fits_of(drawn, loss)
        rows, _ = fits.coordinates(drawn.new)
        sets = ClippedSets(fits, Score.of(side), rows[:1], np.ones(1))
        ranks = [Rank(k) for k in range(1, drawn.n + 1, 3)]
        (together,) = sets.pieces([0], [ranks])
        for rank, (pieces, loose) in zip(ranks, together, strict=True):
            assert sets.pieces([0], [[rank]]) == [[(pieces, loose)]]
            assert all(low <= high for low, high in pieces)


@pytest.mark.parametrize("loss", [PseudoHuber(1.0), LogCosh()], ids=str)
@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("kind", ["plain", "heavy", "unscaled"])
def test_ends_behind_the_fit_are_those_of_a_scan(loss, side, kind):
    drawn, tol, behind = draw(kind, 0, penalty=0.1, l1_ratio=0.0), 1e-6, 0
    fits = fits_of(drawn, loss)
    rows, _ = fits.coordinates(drawn.new[:1])
    sets = SmoothSets(fits, Score.of(side), rows, np.ones(1), tol, 200)
    direction = 1 if side == "upper" else -1
    for k in range(1, drawn.n, 4):
        ((found,),), _ = sets.ends([Rank(k)], direction)
        if found * direction < direction * float(rows[0] @ fits.solution.x):  # not so where it is NaN
            (((pieces, loose),),) = sets.pieces([0], [[Rank(k)]])
            end = pieces[-1][1] if side == "upper" else pieces[0][0]
            assert loose <= 1.1 * tol
            assert abs(found - end) <= 2.0 * tol
            behind += 1
    assert behind >= 3


# Labels and what else a user meets ------------------------------------------------------------------


def test_rows_with_missing_values_stay_missing(made, new):
    gone = new.index == "row2"
    for values in (made.quantile(0.5), made.quantile(0.9999), made.crps(1.0), made.cdf(1.0)["lower"]):
        assert values.index.equals(new.index)
        assert (values.isna() == gone).all()
    assert made.quantile([0.2, 0.7]).isna().any(axis=1).equals(made.quantile(0.5).isna())
    y = new["y"].copy()
    y["row0"] = np.nan
    assert made.crps(y.iloc[::-1]).isna().tolist() == [True, False, True, False, False, False]
    with pytest.raises(InputError, match="complete row"):
        made.plot(row=2)


def test_it_says_what_it_is_and_what_it_promises(made):
    assert repr(made) == "<Predictive of y: 6 rows, steps of 1/81>"
    assert len(made) == 6 and made.nobs == 80
    assert "at least q" in made.guarantee and "if rows are exchangeable" in made.guarantee
    assert made.guarantee.endswith("given the units learned in training")
    assert made.upper_steps.shape == made.lower_steps.shape == (6, 80)


def test_it_pickles(made):
    made.quantile(0.3)
    again = pickle.loads(pickle.dumps(made))
    assert again.quantile([0.3, 0.8]).equals(made.quantile([0.3, 0.8]))
    assert again.index.equals(made.index)


def test_later_changes_of_the_rows_leave_it_alone(results, frame):
    new = frame.iloc[:2].copy()
    made = results.predictive(new)
    before = results.predictive(frame.iloc[:2]).quantile(0.4)
    new["x1"] = 100.0
    assert made.quantile(0.4).equals(before)


def test_weights_and_scales_go_through(frame):
    weights = 1.0 + frame["x2"]
    res = stabconf.conformal(smf.wls("y ~ x1", frame, weights=weights).fit())
    new = frame.iloc[:3]
    made = res.predictive(new, wls_weights=weights.iloc[:3])
    ends = res.conf_int_conformal(new, alpha=0.2, side="upper", wls_weights=weights.iloc[:3])
    np.testing.assert_allclose(made.quantile(0.8), ends["upper"], atol=1e-9)
    plain = stabconf.fit("y ~ x1", frame.assign(s=weights), loss="lad")
    rows = frame.assign(s=weights).iloc[:3].copy()
    rows.loc["row1", "s"] = np.nan
    scaled = plain.predictive(rows, scale="s")
    ends = plain.conf_int_conformal(rows, alpha=0.2, side="upper", scale="s")
    np.testing.assert_allclose(scaled.quantile(0.8), ends["upper"], atol=1e-9)
    assert scaled.quantile(0.9999).isna().tolist() == [False, True, False]


def test_wrong_arguments_are_named(made, frame):
    with pytest.raises(InputError, match="between 0 and 1"):
        made.quantile(1.0)
    with pytest.raises(InputTypeError, match="q='a'"):
        made.quantile(["a"])
    with pytest.raises(InputError, match="empty"):
        made.quantile([])
    with pytest.raises(InputError, match="step='middle'"):
        made.quantile(0.5, step="middle")
    with pytest.raises(InputError, match="shape"):
        made.cdf([1.0, 2.0])
    with pytest.raises(InputError, match="shape"):
        made.crps(np.zeros((6, 2)))
    with pytest.raises(InputTypeError, match="not numbers"):
        made.cdf("a")
    with pytest.raises(InputError, match="row=9"):
        made.plot(row=9)
    with pytest.raises(AssumptionError, match="Quantile"):
        stabconf.fit_quantiles("y ~ x1", frame).predictive(frame)


def test_the_figure_has_both_functions_and_the_prediction(made, figures):
    ax = made.plot(row=1, y=2.0)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["between the steps", "upper cdf", "lower cdf", "prediction", "response"]
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert lines["prediction"].get_xdata()[0] == pytest.approx(made.predicted_mean.iloc[1])
    x = lines["lower cdf"].get_xdata()
    assert np.all(np.diff(x) > 0)
    middle = 0.5 * (x[40] + x[41])
    found = made.cdf(np.full(6, middle)).iloc[1]
    assert lines["lower cdf"].get_ydata()[40] == pytest.approx(found["lower"])
    assert lines["upper cdf"].get_ydata()[40] == pytest.approx(found["upper"])
    assert made.plot(row=0, ax=ax) is ax


def test_scales_that_are_learned_have_no_column_beside_predictions():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "z": rng.gamma(2.0, size=60)})
    frame["y"] = frame["x"] + frame["z"] * rng.standard_normal(60)
    made = stabconf.fit("y ~ x", frame).get_prediction(frame[:3], method="split", scale="~ z")
    assert list(made.summary_frame(alpha=0.2)) == ["mean", "obs_ci_lower", "obs_ci_upper"]
