"""Seeded simulations: coverage, and tightness against brute-force full conformal sets."""

import numpy as np
import pandas as pd
import pytest
from problems import plain_fits, stable
from scipy import stats
from sklearn.datasets import load_diabetes

import stabconf
from stabconf.losses import LAD, Huber, LogCosh, Quantile, Squared
from stabconf.solvers import Problem, minimise
from stabconf.stability import default_bound


def covered(rng, n, loss, alpha, penalty, side):
    """Whether one new response falls into its stable interval; heavy tails, uneven noise."""
    p = 3
    X = np.column_stack([np.ones(n + 1), rng.standard_normal((n + 1, p - 1))])
    noise = rng.standard_t(1.5, n + 1) * (1.0 + X[:, 1] ** 2)
    y = X @ [1.0, 2.0, -1.0] + noise
    fits = plain_fits(X[:n], y[:n], loss, n * penalty)
    made = stable(fits, X[n:], alpha, side=side, bound=default_bound(loss))
    return made.lower[0] <= y[n] <= made.upper[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, penalty, side",
    [
        (LAD(), 0.5, "two-sided"),
        (Quantile(0.7), 0.5, "two-sided"),
        (Huber(), 0.01, "two-sided"),
        (LogCosh(), 0.0, "two-sided"),
        (Squared(), 0.1, "two-sided"),
        (Huber(), 0.05, "upper"),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else str(value),
)
def test_coverage_is_not_below_nominal_beyond_binomial_error(loss, penalty, side):
    rng = np.random.default_rng(2022)
    draws = 500
    for alpha, sizes in ((0.1, (20, 60, 200)), (0.3, (20, 60, 200))):
        hits = sum(covered(rng, int(rng.choice(sizes)), loss, alpha, penalty, side) for _ in range(draws))
        # Twelve such counts in all: each fails by chance with probability below 1e-4.
        assert hits >= stats.binom.ppf(1e-4, draws, 1.0 - alpha)


def diabetes_problem():
    data = load_diabetes(as_frame=True)
    frame = data.data.assign(y=data.target.to_numpy(dtype=float))
    order = np.random.default_rng(0).permutation(len(frame))
    return frame.iloc[order[12:]], frame.iloc[order[:12]], "y ~ " + " + ".join(data.data.columns)


def brute_force_end(fits, row, alpha, start, inside, direction):
    """Outer end of {z : p(z) > alpha} by bisection with refits, starting at a point outside."""

    def is_in(z):
        v = (np.append(fits.y, z) - fits.centre) / fits.scale
        problem = Problem(np.vstack([fits.X, row]), v, fits.loss, fits.ridge, fits.lasso)
        scores = np.abs(minimise(problem, fits.base.solution.x).r)
        return (1 + np.sum(scores[:-1] >= scores[-1])) / len(scores) > alpha

    low, high = inside, start
    assert not is_in(high + direction * 1e-6 * abs(high - low))
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_in(middle) else (low, middle)
    return 0.5 * (low + high)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.1, 0.01, 0.001, 0.0])
@pytest.mark.parametrize("loss", ["huber", "logcosh"])
def test_curvature_bound_is_within_six_percent_of_full_conformal_on_diabetes(loss, penalty):
    train, new, formula = diabetes_problem()
    res = stabconf.fit(formula, train, loss=loss, penalty=penalty)
    rows, _ = res._new_rows(new)
    ends = res.conf_int_conformal(new, alpha=0.1, method="stable", bound="curvature")
    exact = [
        brute_force_end(res._fits, rows[i : i + 1], 0.1, ends["upper"].iloc[i], middle, 1)
        - brute_force_end(res._fits, rows[i : i + 1], 0.1, ends["lower"].iloc[i], middle, -1)
        for i, middle in enumerate(ends.mean(axis=1))
    ]
    ratio = (ends["upper"] - ends["lower"]).mean() / np.mean(exact)
    assert 1.0 <= ratio <= 1.06


def test_intervals_for_many_rows_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(300)})
    data["y"] = data["x"] + rng.standard_t(2, 300)
    new = pd.DataFrame({"x": 3.0 * rng.standard_normal(5000)})
    for loss, penalty in (("lad", 0.3), ("huber", 0.01), ("squared", 0.01)):
        res = stabconf.fit("y ~ x", data, loss=loss, penalty=penalty)
        many = res.conf_int_conformal(new, alpha=0.1)
        few = res.conf_int_conformal(new.iloc[::977], alpha=0.1)
        np.testing.assert_allclose(many.iloc[::977], few, rtol=1e-9)
