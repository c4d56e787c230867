"""Exact sets against brute force: p flips at every end, inner in exact in stable, whatever the shape."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import KINDS, LOSS_INSTANCES, draw, exact, fits_of, plain_fits, stable
from referee import p_value, refit
from scipy import stats

import stabconf
from stabconf.data.units import location_scale
from stabconf.losses import LAD, Huber, LogCosh, Power, PseudoHuber, Quantile, Squared
from stabconf.path import ClippedFit, merge, tilted_fits
from stabconf.sets import conformity
from stabconf.solvers import Problem, minimise
from stabconf.stability import default_bound

ALPHAS = (0.05, 0.1, 0.3, 0.5)
CLIPPED = [loss for loss in LOSS_INSTANCES if loss.kind != "bending"]
# The referee's power cones are accurate to some 1e-6, hence wider steps for these losses; its exponential
# cones (log-cosh) fail on heavy tails. Sets of Power(2) have no finite end where the stable bound has
# none, and those of linex have none above.
BENT = [PseudoHuber(1.0), Power(1.5)]


def score_of(side):
    return {"two-sided": np.abs, "upper": lambda r: r, "lower": lambda r: -r}[side]


def assert_ends_flip(drawn, loss, alpha, side, made, inside, outside):
    """p > alpha a step inside every finite end of every piece, p <= alpha a step outside."""
    pieces = made.pieces.get(0, [(made.lower[0], made.upper[0])])
    for end, inward in [(low, 1) for low, _ in pieces] + [(high, -1) for _, high in pieces]:
        if not np.isfinite(end):
            continue
        # An end many scales away is as near as the referee can tell at that size.
        size = max(1.0, abs(end) / location_scale(drawn.y)[1])
        for step, wanted in ((inside * size, True), (-outside * size, False)):
            z = end + inward * step
            room = 0.999 * step if wanted else 0.0  # the other end may be outside by as much
            if wanted != any(low <= z - room and z + room <= high for low, high in pieces):
                continue  # a piece shorter than two steps, or a gap that narrow
            residuals, _, _, scale = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)
            slack = 1e-6 * scale * size if wanted else -1e-7 * scale * size
            p = p_value(residuals, score_of(side), slack)
            assert (p > alpha) == wanted, (end, step, p, pieces)


def flips(loss, kind, seed, n, p, penalty, l1_ratio, alpha, side, inside, outside):
    drawn = draw(kind, seed, n=n, p=min(p, 2 * n), penalty=penalty, l1_ratio=l1_ratio)
    fits = fits_of(drawn, loss)
    (made,) = exact(fits, drawn.new, [alpha], side=side)
    scale = max(fits.scale, location_scale(drawn.y, loss.level)[1])
    loose = float(made.tol[0])  # an end may be outside of the exact one by as much, and says so
    assert loss.kind == "bending" or loose == 0.0
    assert_ends_flip(drawn, loss, alpha, side, made, max(inside * scale, loose), outside * scale)


problems = {
    "kind": st.sampled_from(KINDS),
    "seed": st.integers(0, 10_000),
    "n": st.integers(5, 60),
    "p": st.integers(2, 24),
    "penalty": st.floats(-3, 1).map(lambda power: 10.0**power),
    "l1_ratio": st.sampled_from([0.0, 0.5]),
    "alpha": st.sampled_from(ALPHAS),
}
thorough = settings(max_examples=40)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
@thorough
@given(**problems)
def test_exact_endpoints_flip_the_p_value_where_slopes_are_clipped(loss, **problem):
    flips(loss, **problem, side="two-sided", inside=5e-6, outside=1e-6)


def test_rounding_errors_of_slopes_that_stay_are_no_corners_of_a_path():
    """Of an L1 part that a new row leaves alone: corners at 1e19 would take the digits of the ends."""
    drawn = {"kind": "tied", "seed": 40, "n": 40, "p": 2, "penalty": 10.0, "l1_ratio": 0.5}
    flips(Squared(), **drawn, alpha=0.05, side="two-sided", inside=5e-6, outside=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", BENT, ids=lambda loss: loss.describe())
@settings(thorough, max_examples=10)
@given(**problems)
def test_exact_endpoints_flip_the_p_value_where_slopes_bend(loss, **problem):
    flips(loss, **problem, side="two-sided", inside=1e-5, outside=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("loss", [LAD(), Huber(), Squared(), LogCosh()], ids=lambda loss: loss.describe())
def test_one_sided_endpoints_flip_the_p_value(loss, side):
    for seed, alpha in enumerate((0.05, 0.1, 0.2, 0.3)):
        kind = ("plain", "heavy", "unscaled", "bimodal")[seed]
        inside, outside = (5e-6, 1e-6) if loss.kind != "bending" else (1e-5, 5e-6)
        flips(loss, kind, seed, 40, 4, 10.0**-seed, 0.0, alpha, side, inside, outside)


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("loss", [LAD(), Quantile(0.8), Huber()], ids=lambda loss: loss.describe())
def test_larger_samples_flip_too(loss, n):
    for seed, penalty in enumerate((0.1, 0.01, 0.001)):
        flips(loss, "heavy", seed, n, 6, penalty, 0.0, 0.1, "two-sided", 5e-6, 1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [LAD(), Huber(), Squared(), LogCosh()], ids=lambda loss: loss.describe())
def test_inner_in_exact_in_stable(loss, kind):
    for seed, alpha in enumerate(ALPHAS):
        drawn = draw(kind, seed, n=30, penalty=10.0 ** (seed - 2), l1_ratio=0.0)
        fits = fits_of(drawn, loss)
        (made,) = exact(fits, drawn.new, [alpha])
        outer = stable(fits, drawn.new, alpha, bound=default_bound(loss), inner=True)
        near = 2e-6 * fits.scale
        assert outer.lower[0] <= made.lower[0] + 1e-9 and made.upper[0] <= outer.upper[0] + 1e-9
        if not np.isnan(outer.inner_lower[0]):
            assert made.lower[0] <= outer.inner_lower[0] + near
            assert outer.inner_upper[0] <= made.upper[0] + near


@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
def test_followed_paths_arrive_where_the_solver_does(loss):
    drawn = draw("heavy", 3, n=200, p=6, penalty=0.01, l1_ratio=0.3)
    fits = fits_of(drawn, loss)
    problem = fits.problem
    fit = ClippedFit.of(problem, minimise(problem))
    rows = np.random.default_rng(0).standard_normal((20, 6))
    tilt = np.random.default_rng(1).uniform(-0.5, 0.5, 20)
    found = tilted_fits(fit, rows, tilt, refit=None)
    for i in range(20):
        fresh = minimise(replace(problem, tilt=tilt[i] * rows[i]))
        assert fit.theta + found.move[i] == pytest.approx(fresh.x, abs=1e-8)


def test_sets_that_are_not_intervals_come_with_their_pieces():
    rng, alpha = np.random.default_rng(49), 0.2
    x = np.sort(rng.uniform(-1, 1, 15))
    data = pd.DataFrame({"x": x, "y": x + 0.5 * rng.standard_t(3, 15)})
    new = pd.DataFrame({"x": [5.0]}, index=["far"])
    res = stabconf.fit("y ~ x", data, loss="squared", penalty=0.01)
    ends = res.conf_int_conformal(new, alpha=alpha)
    pieces = ends.attrs["pieces"]["far"]
    assert len(pieces) > 1
    assert (pieces[0][0], pieces[-1][1]) == (ends.loc["far", "lower"], ends.loc["far", "upper"])
    holes = [0.5 * (left[1] + right[0]) for left, right in pairwise(pieces)]
    assert (res.conformity(new, holes)["p"] <= alpha).all()
    middles = [0.5 * (low + high) for low, high in pieces]
    assert (res.conformity(new, middles)["p"] > alpha).all()


@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_conformity_is_the_p_value_of_the_refitted_sample_and_lies_between_its_bounds(loss):
    drawn = draw("heavy", 5, n=40, penalty=0.05, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    z = np.linspace(*np.quantile(drawn.y, [0.02, 0.98]), 25)
    p, low, high, _ = conformity(fits, drawn.new[0], z, "two-sided", default_bound(loss))
    for candidate, value in zip(z, p, strict=True):
        residuals = refit(drawn.X, drawn.y, drawn.new, candidate, loss, drawn.ridge, drawn.lasso)[0]
        assert p_value(residuals, slack=-1e-6) <= value + 1e-12
        assert p_value(residuals, slack=1e-6) >= value - 1e-12
    assert (low <= p).all() and (p <= high).all()


@pytest.mark.parametrize("loss", ["lad", "huber", "logcosh"])
def test_several_alphas_and_several_processes_change_nothing(loss):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(120)})
    data["y"] = data["x"] + rng.standard_t(3, 120)
    res = stabconf.fit("y ~ x", data, loss=loss, penalty=0.02)
    alone = [res.conf_int_conformal(data.iloc[:30], alpha=alpha) for alpha in (0.1, 0.3)]
    both = res.conf_int_conformal(data.iloc[:30], alpha=[0.1, 0.3], n_jobs=2)
    for alpha, frame in zip((0.1, 0.3), alone, strict=True):
        np.testing.assert_allclose(both[alpha], frame, atol=5e-6)


def test_a_set_between_two_modes_is_found_exactly():
    drawn = draw("bimodal", 4, n=31, penalty=1.0, l1_ratio=0.0)
    for loss in (LAD(), Huber(), Squared()):
        (made,) = exact(fits_of(drawn, loss), drawn.new, [0.5])
        assert_ends_flip(drawn, loss, 0.5, "two-sided", made, 1e-4, 1e-5)


@pytest.mark.parametrize("loss", ["lad", "huber", "squared", "logcosh"])
def test_penalty_zero_works_and_a_column_that_is_there_twice_changes_nothing(loss):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(50), "z": rng.standard_normal(50)})
    data["y"] = data["x"] + rng.standard_t(2, 50)
    res = stabconf.fit("y ~ x + z", data, loss=loss, penalty=0)
    ends = res.conf_int_conformal(data.iloc[:1], alpha=0.2).iloc[0]
    step = 1e-4 * (ends["upper"] - ends["lower"])
    inside = [ends["lower"] + step, ends["upper"] - step]
    outside = [ends["lower"] - step, ends["upper"] + step]
    assert (res.conformity(data.iloc[:1], inside)["p"] > 0.2).all()
    assert (res.conformity(data.iloc[:1], outside)["p"] <= 0.2).all()
    both = stabconf.fit("y ~ x + z + copy", data.assign(copy=data["x"]), loss=loss, penalty=0)
    twice = both.conf_int_conformal(data.assign(copy=data["x"]).iloc[:1], alpha=0.2).iloc[0]
    np.testing.assert_allclose(twice, ends, atol=1e-6)
    assert both.params["x"] == pytest.approx(both.params["copy"], abs=1e-6)  # the smallest norm


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, penalty",
    [(LAD(), 0.05), (Quantile(0.8), 0.01), (Huber(), 0.01), (Squared(), 0.1), (LogCosh(), 0.01)],
    ids=lambda value: value.describe() if hasattr(value, "describe") else str(value),
)
def test_coverage_is_exact_to_binomial_error(loss, penalty):
    rng = np.random.default_rng(2022)
    n, alpha, draws, new = 39, 0.1, 260, 4  # 5 x 260 x 4 = 5,200 responses
    hits = 0
    for _ in range(draws):
        X = np.column_stack([np.ones(n + new), rng.standard_normal((n + new, 2))])
        y = X @ [1.0, 2.0, -1.0] + rng.standard_t(2, n + new)
        fits = plain_fits(X[:n], y[:n], loss, n * penalty)
        (made,) = exact(fits, X[n:], [alpha])
        hits += int(np.sum((made.lower <= y[n:]) & (y[n:] <= made.upper)))
    # New rows of one draw share their training rows, which spreads the count more than a binomial:
    # the variance of coverage given the training rows is that of a beta law, about
    # alpha (1 - alpha) / (n + 2), and the exact level is 1 - alpha for k = 36 of 40.
    level = 1.0 - alpha
    variance = draws * new * level * alpha * (1.0 + (new - 1) / (n + 2))
    low, high = stats.norm.interval(1 - 2e-4, draws * new * level, np.sqrt(variance))
    assert low <= hits <= high + draws * new / (n + 1)


def test_merge_joins_what_touches():
    assert merge([(2.0, 3.0), (0.0, 1.0), (1.0, 1.5)]) == [(0.0, 1.5), (2.0, 3.0)]


def test_a_problem_of_more_columns_than_rows_has_a_valid_set():
    drawn = draw("wide", 7, penalty=0.01, l1_ratio=0.5)
    for loss in (LAD(), Squared(), Huber()):
        (made,) = exact(fits_of(drawn, loss), drawn.new, [0.3])
        assert made.lower[0] <= made.upper[0]
        problem = Problem(drawn.X, drawn.standardised(), loss, drawn.ridge, drawn.lasso)
        assert minimise(problem).success
