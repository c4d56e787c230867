"""Many columns: short cuts against the long way round, and no call that takes long beside its fit."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import KINDS, LOSS_INSTANCES, draw, fits_of
from threadpoolctl import threadpool_limits

import stabconf
from stabconf.losses import LAD, Huber, LogCosh, Quantile, Squared
from stabconf.path.following import follow
from stabconf.solvers import Problem, envelope, minimise

CLIPPED = [LAD(), Quantile(0.8), Huber(), Squared()]
TERMS = "stabconf.path.clipped._TERMS"  # up to how many changes inverses are updated
FEW = "stabconf.solvers.problem._FEW"  # columns up to which fits do not move to the row space


def table(n, p, seed=0):
    """A frame of p columns with some signal, a formula that the parser can take, and a new row."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.standard_normal((n + 1, p))
    frame = pd.DataFrame(X).add_prefix("x").assign(y=X[:, :5].sum(axis=1) + rng.standard_t(3, n + 1))
    names = list(frame.columns.drop("y"))
    blocks = [" + ".join(names[first : first + 60]) for first in range(0, p, 60)]
    return frame.iloc[:n], f"y ~ {' + '.join(f'({block})' for block in blocks)}", frame.iloc[n:]


@pytest.mark.parametrize("kind", [*KINDS, "wider"])
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
def test_paths_by_inverses_that_are_updated_are_the_same(loss, l1_ratio, kind, monkeypatch):
    penalty = {0.5: 0.01, 1.0: 0.05}[l1_ratio]
    drawn = (
        draw("plain", 3, 20, 35, penalty, l1_ratio) if kind == "wider" else draw(kind, 3, 30, 8, penalty)
    )
    fits = fits_of(replace(drawn, l1_ratio=l1_ratio), loss)
    fit = fits.clipped
    if fit.hessian_inverse is None:
        pytest.skip("no path starts at a Hessian without an inverse")
    far = min(loss.slopes[1], 2.0)
    force = np.vstack([far * drawn.new, -far * drawn.new])
    found = []
    for terms in ((10**6, 1.0), (0, 0.0)):
        monkeypatch.setattr(TERMS, terms)
        found.append(follow(fit, np.arange(len(fit.X)), force, corners=True))
    kept, usual = found
    assert np.all(kept.arrived >= usual.arrived)
    size = max(1.0, float(np.max(np.abs(usual.theta))))
    for line in np.flatnonzero(usual.arrived):
        np.testing.assert_allclose(kept.theta[line], usual.theta[line], atol=1e-8 * size)
        (position, theta), (other, corners) = kept.corners[line], usual.corners[line]
        at = np.linspace(0.0, min(position[-1], other[-1]), 7)
        for j in range(theta.shape[1]):
            on = np.interp(at, position, theta[:, j]), np.interp(at, other, corners[:, j])
            np.testing.assert_allclose(*on, atol=1e-8 * size)


@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
def test_wide_paths_go_through_refits(loss):
    drawn = draw("plain", 5, 25, 40, 0.02, 0.5)
    fits = fits_of(drawn, loss)
    (path,) = fits.paths(drawn.new)
    w = np.array([-30.0, -2.0, 0.0, 0.7, 30.0])
    assert path.knows(w).all()
    theta, _ = path.at(w)
    for response, on_path in zip(w, theta, strict=True):
        rows = np.vstack([fits.problem.X, drawn.new])
        whole = replace(fits.problem, X=rows, v=np.append(fits.problem.v, response))
        assert whole.value(on_path) <= minimise(whole).fun * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("loss", ["squared", "lad", "huber", "logcosh", "linex"])
@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_the_row_space_has_the_same_fits_and_sets(loss, penalty, monkeypatch):
    train, formula, new = table(15, 30)
    z = np.linspace(-5.0, 5.0, 5)
    made = []
    for columns in (0, 10**6):
        monkeypatch.setattr(FEW, columns)
        res = stabconf.fit(formula, train, loss=loss, penalty=penalty)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends = res.conf_int_conformal(new, alpha=0.2)
            enclosed = res.conf_int_conformal(new, alpha=0.2, method="stable")
        p = res.conformity(new, z)["p"].to_numpy()
        loose = float(np.max(ends.attrs["tol"]))
        made.append((res, ends.to_numpy()[0], enclosed.to_numpy()[0], p, loose))
    small, whole = made
    assert small[0]._fits.problem.X.shape[1] == 16 and whole[0]._fits.problem.X.shape[1] == 31
    np.testing.assert_allclose(small[0].params, whole[0].params, atol=1e-7)
    np.testing.assert_allclose(small[2], whole[2], rtol=1e-6)
    np.testing.assert_array_equal(small[3], whole[3])
    if max(small[4], whole[4]) < 1e-3:
        np.testing.assert_allclose(small[1], whole[1], atol=1e-5)


def test_bands_in_the_row_space_are_the_same(monkeypatch):
    train, formula, new = table(15, 30, seed=1)
    made = []
    for columns in (0, 10**6):
        monkeypatch.setattr(FEW, columns)
        res = stabconf.fit_quantiles(formula, train, quantiles=(0.1, 0.9), penalty=0.1)
        with pytest.warns(stabconf.DataWarning, match="very wide"):
            ends = res.conf_int_conformal(new, alpha=0.2).to_numpy()
        made.append(np.append(ends, res.conformity(new, [-2.0, 0.0, 2.0])["p"].to_numpy()))
    np.testing.assert_allclose(*made, atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_newton_systems_of_the_rows_lead_to_the_same_minimiser(loss, l1_ratio, monkeypatch):
    drawn = draw("plain", 7, 20, 50, 0.05, l1_ratio)
    problem = Problem(drawn.X, drawn.standardised(loss.level), loss, drawn.ridge, drawn.lasso)
    found = []
    for columns in (0, 10**6):
        # Columns from which on Newton systems are of the rows.
        monkeypatch.setattr(envelope, "_MANY", columns)
        found.append(minimise(problem))
    assert all(solution.success for solution in found)
    np.testing.assert_allclose(found[0].x, found[1].x, atol=1e-7)


@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_a_column_of_zeros_does_not_keep_a_fit_from_its_end(loss):
    drawn = draw("plain", 7, 20, 6, 0.05, 0.0)
    X = np.column_stack([drawn.X, np.zeros(20)])
    problem = Problem(X, drawn.standardised(loss.level), loss, np.full(7, 1.0), np.zeros(7))
    found = minimise(problem, np.append(minimise(problem).x[:6], 1e-16))
    assert found.success and found.nit < 100 and abs(found.x[6]) <= 1e-12


@pytest.mark.parametrize("loss", [LogCosh(), Huber(), Squared()], ids=lambda loss: loss.name)
def test_a_start_at_the_minimiser_is_taken_as_it_is(loss):
    drawn = draw("plain", 8, 30, 10, 0.05, 0.5)
    problem = Problem(drawn.X, drawn.standardised(), loss, drawn.ridge, drawn.lasso)
    best = minimise(problem)
    again = minimise(problem, best.x)
    assert again.success and again.nit <= 1
    np.testing.assert_allclose(again.x, best.x, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, p, l1_ratio, penalty",
    [
        ("lad", 600, 0.5, 0.001),
        ("lad", 600, 1.0, 0.001),
        ("squared", 600, 0.5, 0.001),
        ("huber", 600, 0.5, 0.001),
        ("logcosh", 600, 0.5, 0.1),
        ("logcosh", 600, 1.0, 0.001),
        ("power", 600, 0.5, 0.01),
        ("linex", 600, 0.0, 0.001),
        ("logcosh", 300, 0.0, 0.01),
        ("pseudo_huber", 300, 0.5, 0.001),
        ("power", 300, 0.5, 0.001),
    ],
)
def test_one_new_row_takes_no_more_than_some_fits(loss, p, l1_ratio, penalty):
    """Measured: 1 to 8 fits at 300 rows. Before wide models had ways of their own: up to 40."""
    train, formula, new = table(300, p)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        res = stabconf.fit(formula, train, loss=loss, penalty=penalty, l1_ratio=l1_ratio)
        fit = time.process_time() - began
        began = time.process_time()
        ends = res.conf_int_conformal(new, alpha=0.1)
        asked = time.process_time() - began
    assert asked < 20.0 * fit
    assert float(np.max(ends.attrs["tol"])) >= 0.0
