"""scipy's and statsmodels' optimisers: the default's minimiser to its certificate, in every method."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import (
    KINDS,
    LOSS_INSTANCES,
    batch,
    cross,
    cv_plus,
    draw,
    exact,
    fits_of,
    grid,
    interpolation,
    jackknife_plus,
    replace_one,
    root,
    split,
    stable,
)
from referee import conic_minimiser
from scipy import optimize

import stabconf
from stabconf import ConvergenceWarning, solvers
from stabconf.errors import InputError
from stabconf.losses import LAD, Huber, Quantile
from stabconf.solvers import Problem, minimise

STEPS = [LAD(), Quantile(0.8)]
PENALTIES = [(0.0, 0.0)] + [(penalty, ratio) for penalty in (0.01, 1.0) for ratio in (0.0, 0.5, 1.0)]


def problem_of(drawn, loss):
    return Problem(drawn.X, drawn.standardised(loss.level), loss, drawn.ridge, drawn.lasso)


def unique(problem):
    """The problem that has one minimiser, whose certificate is a duality gap."""
    return solvers.smallest_norm(problem).apply(problem)


def away(drawn, one, other):
    """Distance of coefficients, in units of the columns."""
    size = np.sqrt(np.mean(drawn.X**2, axis=0))
    return np.max(np.abs(one - other) * size) / max(1.0, np.max(np.abs(other) * size))


@pytest.mark.parametrize(("penalty", "l1_ratio"), PENALTIES)
@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_scipy_reaches_the_gap_and_the_coefficients_of_the_default(loss, penalty, l1_ratio):
    for kind in ("plain", "tied", "duplicated", "heavy", "collinear", "unscaled"):
        drawn = draw(kind, 3, penalty=penalty, l1_ratio=l1_ratio)
        problem = problem_of(drawn, loss)
        usual = solvers.solve(problem)
        found = solvers.solve(problem, solver="scipy")
        assert found.success, found.message
        if np.all(problem.ridge > 0):
            assert found.gap <= 1e-8 * max(1.0, abs(found.fun))
        assert away(drawn, found.x, usual.x) <= 1e-6


@pytest.mark.parametrize(("penalty", "l1_ratio"), PENALTIES)
@pytest.mark.parametrize("loss", [*STEPS, Huber()], ids=lambda loss: loss.describe())
def test_scipy_finds_the_conic_solvers_minimiser(loss, penalty, l1_ratio):
    for kind in ("plain", "unscaled"):
        drawn = draw(kind, 5, n=61, penalty=penalty, l1_ratio=l1_ratio)
        problem = problem_of(drawn, loss)
        found = solvers.solve(problem, solver="scipy")
        theta = conic_minimiser(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso)
        assert found.fun <= problem.value(theta) * (1.0 + 1e-9)
        assert away(drawn, found.x, theta) <= 1e-5


@pytest.mark.parametrize("loss", STEPS, ids=lambda loss: loss.describe())
def test_the_linear_programme_is_solved_by_linprog_and_anything_else_is_not(loss, monkeypatch):
    called = []
    for name in ("linprog", "minimize"):
        real = getattr(optimize, name)
        monkeypatch.setattr(
            optimize,
            name,
            lambda *a, real=real, name=name, **k: called.append(name) or real(*a, **k),
        )
    plain = draw("plain", 0, n=61, penalty=0.0)
    solvers.solve(problem_of(plain, loss), solver="scipy")
    solvers.solve(problem_of(draw("plain", 0, n=61, penalty=0.05, l1_ratio=1.0), loss), solver="scipy")
    assert called == ["linprog", "linprog"]
    called.clear()
    solvers.solve(problem_of(draw("plain", 0, penalty=0.05, l1_ratio=0.0), loss), solver="scipy")
    solvers.solve(problem_of(plain, Huber()), solver="scipy")
    assert set(called) == {"minimize"}


def test_a_flat_linear_programme_ends_at_the_smallest_norm():
    v = np.array([-1.0, 1.0, 2.0, 5.0])
    one = Problem(np.ones((4, 1)), v, LAD(), np.zeros(1), np.zeros(1))
    for solver in ("newton", "scipy"):
        assert solvers.solve(one, solver=solver).x == pytest.approx([1.0], abs=1e-6)


def test_a_tilt_that_no_linear_programme_bears_is_held_by_the_vanishing_weights():
    drawn = draw("plain", 2, penalty=0.0)
    problem = unique(replace(problem_of(drawn, LAD()), tilt=30.0 * drawn.X[0]))
    usual, found = minimise(problem), minimise(problem, solver="scipy")
    assert found.success
    np.testing.assert_allclose(found.x, usual.x, rtol=1e-6)


@pytest.mark.parametrize("loss", STEPS, ids=lambda loss: loss.describe())
def test_quantreg_reaches_the_certificate_and_the_coefficients_of_the_default(loss):
    for kind in KINDS:
        drawn = draw(kind, 0, n=80, penalty=0.0)
        problem = problem_of(drawn, loss)
        found = minimise(unique(problem), solver="statsmodels")
        assert found.success and found.gap <= 1e-8 * max(1.0, found.fun), kind
        assert found.fun == pytest.approx(minimise(unique(problem)).fun, rel=1e-8, abs=1e-8)
        assert found.nit > 1


def test_quantreg_is_for_step_losses_without_a_penalty_and_others_are_told():
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) % 7})
    for options in (dict(loss="huber", penalty=0), dict(penalty=0.01), dict(penalty=0.1, l1_ratio=1)):
        with pytest.raises(InputError, match=r"QuantReg.*penalty=0.*solver='scipy'"):
            stabconf.fit("y ~ x", frame, solver="statsmodels", **options)


@pytest.mark.parametrize("solver", ["scipy", "statsmodels"])
@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_too_few_steps_are_said(frame, solver, penalty):
    if solver == "statsmodels" and penalty:
        pytest.skip("QuantReg has no penalty")
    with pytest.warns(ConvergenceWarning, match=r"raise max_iter \(now 2\)"):
        early = stabconf.fit("y ~ x1 + x2", frame, penalty=penalty, solver=solver, max_iter=2)
    assert not early.converged
    assert stabconf.fit("y ~ x1 + x2", frame, penalty=penalty, solver=solver).converged


def test_too_few_steps_for_the_residual_scale_are_said(frame):
    for solver in ("newton", "scipy"):
        with pytest.warns(ConvergenceWarning, match="LAD fit of the residual scale"):
            stabconf.fit("y ~ x1 + x2", frame, loss="huber", solver=solver, max_iter=3)


@pytest.mark.parametrize("method", ["root", "interpolation", "replace_one", "batch"])
def test_too_few_steps_of_a_refit_are_said(frame, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = stabconf.fit("y ~ x1 + x2", frame, loss="logcosh", solver="scipy", max_iter=1)
    with pytest.warns(ConvergenceWarning, match="refit.*raise max_iter"):
        early.conf_int_conformal(frame[:1], method=method, alpha=0.2)


METHODS = {
    "root": lambda fits, rows: root(fits, rows, [0.2], tol=1e-3),
    "grid": lambda fits, rows: grid(fits, rows, [0.2], points=9),
    "interpolation": lambda fits, rows: interpolation(fits, rows, [0.2], queries=3),
    "replace_one": lambda fits, rows: replace_one(fits, rows, [0.2]),
    "batch": lambda fits, rows: batch(fits, rows, [0.2]),
    "split": lambda fits, rows: split(fits, rows, [0.2], random_state=0),
    "cross": lambda fits, rows: cross(fits, rows, [0.2], folds=3, random_state=0),
    "cv+": lambda fits, rows: cv_plus(fits, rows, [0.2], folds=3, random_state=0),
    "jackknife+": lambda fits, rows: jackknife_plus(fits, rows, [0.2]),
    "stable": lambda fits, rows: [stable(fits, rows, 0.2)],
    "exact": lambda fits, rows: exact(fits, rows, [0.2]),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", [LAD(), Huber()], ids=lambda loss: loss.name)
def test_every_method_takes_the_solver_asked_for_and_gives_the_same_interval(loss, method, monkeypatch):
    drawn = draw("plain", 4, n=25, penalty=0.05, l1_ratio=0.5)
    usual = METHODS[method](fits_of(drawn, loss), drawn.new)[0]

    def refused(*_, **__):
        raise AssertionError("the default solver was called")

    monkeypatch.setitem(solvers.SOLVERS, "auto", refused)
    monkeypatch.setitem(solvers.SOLVERS, "newton", refused)
    made = METHODS[method](fits_of(drawn, loss, solver="scipy"), drawn.new)[0]
    unit = np.ptp(drawn.y)
    tolerance = 2e-3 if method == "root" else 1e-6
    np.testing.assert_allclose([made.lower, made.upper], [usual.lower, usual.upper], atol=tolerance * unit)
