"""Fits without each training row, against refits."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import draw, fits_of
from referee import conic_minimiser

import stabconf
from stabconf.losses import LAD, Huber, Linex, LogCosh, Power, Quantile, Squared
from stabconf.path import leave_one_out, sharpened
from stabconf.solvers import solve

CLIPPED = [LAD(), Quantile(0.8), Huber(0.3), Squared()]


def refits(fits):
    """Coefficients of the fits without each row, by clarabel."""
    whole = fits.whole
    out = []
    for i in range(fits.n):
        rest = np.delete(np.arange(fits.n), i)
        out.append(conic_minimiser(whole.X[rest], whole.v[rest], whole.loss, whole.ridge, whole.lasso))
    return np.array(out)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["plain", "wide", "tied", "duplicated", "heavy"])
@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
def test_paths_that_leave_a_row_out_end_at_refits(loss, kind, l1_ratio):
    fits = fits_of(draw(kind, 3, n=20, p=4, penalty=0.02, l1_ratio=l1_ratio), loss)
    made = fits.left_out
    _, known = leave_one_out(fits.clipped)
    assert known.all()
    expected = refits(fits)
    np.testing.assert_allclose(made.theta + made.coefficients, expected, atol=2e-5)
    moved = np.einsum("ij,ij->i", fits.X, expected) - fits.X @ made.theta
    np.testing.assert_allclose(made.own, fits.scale * moved, atol=1e-4 * fits.scale)


@pytest.mark.parametrize("loss", [LogCosh(), Linex(0.5), Power(1.5)], ids=lambda loss: loss.describe())
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_losses_that_bend_leave_rows_out_too(loss, l1_ratio):
    fits = fits_of(draw("plain", 5, n=15, p=3, penalty=0.05, l1_ratio=l1_ratio), loss)
    made = fits.left_out
    np.testing.assert_allclose(made.theta + made.coefficients, refits(fits), atol=2e-4)


@pytest.mark.parametrize("loss", [LAD(), Huber(0.3), Squared()], ids=lambda loss: loss.describe())
def test_a_row_that_alone_holds_a_coefficient_leaves_the_smallest_norm_behind(loss):
    """Without a penalty the last column is seen by one row: without it the coefficient is 0."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(12), rng.standard_normal(12), np.arange(12) == 7])
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(12)
    fits = fits_of(replace(draw("plain", 0), X=X, y=y, penalty=0.0, l1_ratio=0.0), loss)
    made = fits.left_out
    theta = made.theta + made.coefficients
    assert abs(theta[7, 2]) < 1e-6 < abs(made.theta[2])
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        problem = replace(fits.whole, X=fits.whole.X[rest], v=fits.whole.v[rest])
        np.testing.assert_allclose(theta[i], solve(problem).x, atol=1e-6)


def test_many_rows_are_left_out_with_few_of_them_watched():
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(1500), rng.standard_normal((1500, 4))])
    y = X @ rng.standard_normal(5) + rng.standard_t(2, 1500)
    for loss in CLIPPED:
        fits = fits_of(replace(draw("plain", 0), X=X, y=y, penalty=0.01, l1_ratio=0.0), loss)
        made = fits.left_out
        some = np.concatenate([np.argsort(np.abs(fits.clipped.r))[:8], np.arange(0, 1500, 100)])
        for i in some:
            rest = np.delete(np.arange(1500), i)
            problem = replace(fits.whole, X=X[rest], v=fits.whole.v[rest])
            expected = solve(problem, sharpened).x
            np.testing.assert_allclose(made.theta + made.coefficients[i], expected, atol=1e-9)


@pytest.mark.parametrize("loss", [LAD(), Huber(0.3), Squared()], ids=lambda loss: loss.describe())
def test_wide_fits_with_an_l1_part_leave_rows_out(loss):
    rng = np.random.default_rng(6)
    X = np.column_stack([np.ones(40), rng.standard_normal((40, 119))])
    y = X[:, :4] @ [1.0, 2.0, -1.0, 0.5] + rng.standard_normal(40)
    fits = fits_of(replace(draw("plain", 0), X=X, y=y, penalty=0.05, l1_ratio=0.5), loss)
    made = fits.left_out
    assert leave_one_out(fits.clipped)[1].all()
    for i in range(0, 40, 5):
        rest = np.delete(np.arange(40), i)
        problem = replace(fits.whole, X=X[rest], v=fits.whole.v[rest])
        expected = solve(problem, sharpened).x
        np.testing.assert_allclose(made.theta + made.coefficients[i], expected, atol=1e-9)


@pytest.mark.parametrize("loss", ["lad", "huber", "squared"])
def test_the_jackknife_takes_few_fits_time(loss):
    """500 refits took about 180 fits' time, paths take 2 to 7; the best of three runs of each counts."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((500, 6)), columns=[*"abcdef"])
    data["y"] = data["a"] + rng.standard_t(3, 500)
    fits, asks = [], []
    for _ in range(3):
        begin = time.process_time()
        res = stabconf.fit("y ~ a + b + c + d + e + f", data, loss=loss)
        fitted = time.process_time()
        res.conf_int_conformal(data.iloc[:5], method="jackknife+")
        fits.append(fitted - begin)
        asks.append(time.process_time() - fitted)
    assert min(asks) < 20 * min(fits)
