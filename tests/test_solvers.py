"""The solver against clarabel, scipy, statsmodels; and its certificate against the truth."""

import numpy as np
import pytest
import statsmodels.api as sm
from problems import KINDS, LOSS_INSTANCES, draw
from referee import conic_minimiser, objective
from scipy import optimize

from stabconf import solvers
from stabconf.errors import InputError
from stabconf.losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from stabconf.solvers import Problem, minimise
from stabconf.solvers.sparse import SparseDesign

SMOOTH = [Squared(), Huber(), PseudoHuber(), LogCosh(), Linex(0.3)]


def solve(drawn, loss, **options):
    v = drawn.standardised(loss.level)
    problem = Problem(drawn.X, v, loss, drawn.ridge, drawn.lasso)
    return problem, minimise(problem, **options)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "heavy"])
@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_minimiser_is_the_conic_solvers(loss, kind):
    for seed in range(3):
        drawn = draw(kind, seed)
        problem, solution = solve(drawn, loss)
        theta = conic_minimiser(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso)
        best = objective(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso, theta)
        assert solution.success
        assert solution.fun <= best + 1e-9 * abs(best)
        size = np.sqrt(np.mean(drawn.X**2, axis=0))
        np.testing.assert_allclose(
            solution.x * size, theta * size, atol=1e-6 * max(1, np.abs(theta * size).max())
        )


@pytest.mark.parametrize("loss", [Squared(), LAD(), Quantile(0.8), Huber()], ids=lambda loss: loss.name)
def test_heavy_tails_do_not_change_the_agreement(loss):
    for seed in range(4):
        drawn = draw("heavy", seed)
        problem, solution = solve(drawn, loss)
        theta = conic_minimiser(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso)
        best = objective(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso, theta)
        assert solution.fun <= best + 1e-9 * abs(best)
        np.testing.assert_allclose(solution.x, theta, atol=1e-6 * max(1.0, np.abs(theta).max()))


@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_heavy_tails_converge_for_every_loss(loss):
    for seed in range(4):
        _, solution = solve(draw("heavy", seed), loss)
        assert solution.success
        assert solution.gap <= 1e-9 * max(1.0, solution.fun)


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.name)
def test_minimiser_is_scipys_for_smooth_losses(loss):
    for seed in range(3):
        drawn = draw("plain", seed, l1_ratio=0.0)
        problem, solution = solve(drawn, loss)

        def gradient(theta, problem=problem):
            slope = problem.loss.derivative(problem.v - problem.X @ theta)
            return problem.ridge * theta - problem.X.T @ slope

        found = optimize.root(gradient, np.zeros(len(problem.ridge)), method="hybr", tol=1e-13)
        np.testing.assert_allclose(solution.x, found.x, atol=1e-6)


def test_squared_loss_is_statsmodels_elastic_net():
    drawn = draw("plain", 1, penalty=0.05, l1_ratio=0.5)
    slopes = np.arange(drawn.X.shape[1]) > 0
    fitted = sm.OLS(drawn.y, drawn.X).fit_regularized(
        method="elastic_net",
        alpha=0.05 * np.ones(len(slopes)),
        L1_wt=0.5,
        maxiter=2000,
        cnvrg_tol=1e-14,
        zero_tol=1e-14,
    )
    # statsmodels puts the L1 part on every column; ours spares the intercept, so give it to all here.
    lasso = np.full(len(slopes), drawn.n * 0.05 * 0.5)
    solution = minimise(Problem(drawn.X, drawn.y, Squared(), drawn.ridge, lasso))
    np.testing.assert_allclose(solution.x, fitted.params, atol=1e-6)


def test_quantile_loss_without_penalty_is_quantreg():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(80), rng.standard_normal((80, 3))])
    y = X @ [1.0, 2.0, 0.0, -1.0] + rng.standard_t(3, 80)
    for q in (0.25, 0.5, 0.9):
        theirs = sm.QuantReg(y, X).fit(q=q, p_tol=1e-10, max_iter=5000).params
        solution = minimise(Problem(X, y, Quantile(q), np.zeros(4), np.zeros(4)))
        assert solution.success
        assert solution.fun <= np.sum(Quantile(q).value(y - X @ theirs)) * (1 + 1e-9)
        np.testing.assert_allclose(solution.x, theirs, atol=1e-5)


@pytest.mark.parametrize("solver", ["newton", "scipy"])
@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_the_true_minimiser_lies_within_the_certified_radius(loss, solver):
    for kind in ("plain", "tied", "wide", "unscaled"):
        drawn = draw(kind, 7)
        problem, solution = solve(drawn, loss, solver=solver)
        exact = (
            solve(drawn, loss)[1].x
            if solver == "scipy"
            else conic_minimiser(drawn.X, problem.v, loss, drawn.ridge, drawn.lasso)
        )
        distance = np.sqrt(problem.ridge @ (solution.x - exact) ** 2)
        referee_error = 1e-5 * (1.0 + np.sqrt(problem.ridge @ exact**2)) if solver == "newton" else 1e-7
        assert distance <= solution.radius + referee_error


def test_the_radius_of_a_poor_point_is_not_small():
    drawn = draw("plain", 3, penalty=0.1, l1_ratio=0.0)
    problem, solution = solve(drawn, LAD(), max_iter=2)
    exact = minimise(problem).x
    assert not solution.success
    assert np.sqrt(problem.ridge @ (solution.x - exact) ** 2) <= solution.radius


def test_a_tilt_is_a_linear_term():
    drawn = draw("plain", 2, penalty=0.1)
    v = drawn.standardised()
    tilt = 0.7 * drawn.new[0]
    for loss in (LAD(), Huber(), Power(1.5)):
        solution = minimise(Problem(drawn.X, v, loss, drawn.ridge, drawn.lasso, tilt))
        theta = conic_minimiser(drawn.X, v, loss, drawn.ridge, drawn.lasso, tilt)
        np.testing.assert_allclose(solution.x, theta, atol=1e-6)


def test_a_warm_start_ends_at_the_same_point():
    drawn = draw("plain", 4, n=300)
    for loss in LOSS_INSTANCES:
        problem, cold = solve(drawn, loss)
        warm = minimise(problem, cold.x + 0.1)
        np.testing.assert_allclose(warm.x, cold.x, atol=1e-7)


@pytest.mark.parametrize("loss", [LAD(), Quantile(0.9), Huber()], ids=lambda loss: loss.name)
def test_many_rows_use_few_and_stay_exact(loss):
    rng = np.random.default_rng(0)
    n, p = 6000, 3
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    v = X @ [0.0, 1.0, -1.0] + rng.standard_t(2, n)
    order = np.argsort(v)  # sorted rows are the worst case for evenly spaced subsamples
    problem = Problem(X[order], v[order], loss, np.full(p, 0.01 * n), np.zeros(p))
    solution = minimise(problem)
    theta = conic_minimiser(problem.X, problem.v, loss, problem.ridge, problem.lasso)
    assert solution.success
    np.testing.assert_allclose(solution.x, theta, atol=1e-6)


def test_extreme_outliers_do_not_break_exponential_losses():
    drawn = draw("plain", 0, penalty=0.1, l1_ratio=0.0)
    v = drawn.standardised()
    v[0] = 3000.0
    for loss in (Linex(0.5), Power(1.1), LogCosh(0.1)):
        solution = minimise(Problem(drawn.X, v, loss, drawn.ridge, drawn.lasso))
        assert solution.success
        slope = loss.derivative(solution.r)
        gradient = drawn.ridge * solution.x - drawn.X.T @ slope
        assert np.abs(gradient).max() <= 1e-5 * np.abs(slope).max()


def test_mostly_zero_responses_with_an_outlier_converge():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(53), rng.standard_normal((53, 63))])
    v = np.where(rng.random(53) < 0.6, 0.0, 1.349)
    v[7] = -1024.0
    for loss in (LAD(), Quantile(0.06), Power(1.2), Huber()):
        ridge = np.full(64, 4.5)
        solution = minimise(Problem(X, v, loss, ridge, np.zeros(64)))
        theta = conic_minimiser(X, v, loss, ridge, np.zeros(64))
        best = objective(X, v, loss, ridge, np.zeros(64), theta)
        assert solution.success and solution.fun <= best * (1 + 1e-9)


def test_absurd_outliers_with_an_l1_part_converge():
    rng = np.random.default_rng(4)
    X = np.column_stack([np.ones(68), rng.standard_normal((68, 99))])
    lasso = np.where(np.arange(100) > 0, 1.0, 0.0)
    for loss, outlier in ((Huber(1.1), -1e6), (LogCosh(), 1e5), (Linex(0.3), 865.0)):
        v = rng.standard_normal(68)
        v[5] = outlier
        solution = minimise(Problem(X, v, loss, np.ones(100), lasso))
        assert solution.success
        assert solution.gap <= 1e-8 * max(1.0, solution.fun)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("penalty", [0.001, 0.1, 10.0])
def test_linex_on_raw_responses_converges_or_says_that_it_did_not(size, penalty):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(30), rng.standard_normal((30, 2)) * [10.0, 0.1]])
    v = (X[:, 1] + rng.standard_t(2, 30)) * size
    solution = minimise(Problem(X, v, Linex(0.4), np.full(3, 30 * penalty), np.zeros(3)))
    assert np.isfinite(solution.fun) == solution.success
    if solution.success:
        slope = Linex(0.4).derivative(solution.r)
        gradient = 30 * penalty * solution.x - X.T @ slope
        assert np.abs(gradient).max() <= 1e-6 * np.abs(X.T @ np.abs(slope)).max()
    else:
        assert solution.radius == np.inf


def test_an_unknown_solver_is_named():
    with pytest.raises(InputError, match=r"solver='sgd'.*newton"):
        minimise(Problem(np.ones((2, 1)), np.ones(2), LAD(), np.ones(1), np.zeros(1)), solver="sgd")


def test_many_rows_without_penalty_converge():
    """Rows near 0 alone may have no minimiser then; skewed columns make that happen."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(20000), rng.lognormal(sigma=1.5, size=(20000, 8))])
    X[:, 1:] = (X[:, 1:] - X[:, 1:].mean(axis=0)) / X[:, 1:].std(axis=0)
    v = X @ rng.standard_normal(9) + rng.standard_t(3, size=20000)
    solution = minimise(Problem(X, v, LAD(), np.zeros(9), np.zeros(9)))
    assert solution.success
    theta = conic_minimiser(X, v, LAD(), np.zeros(9), np.zeros(9))
    assert solution.fun <= np.abs(v - X @ theta).sum() * (1 + 1e-9)


def test_quantiles_of_many_skewed_rows_that_vanishing_weights_alone_hold_converge():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(20000), rng.lognormal(sigma=2.5, size=(20000, 8))])
    X[:, 1:] = (X[:, 1:] - X[:, 1:].mean(axis=0)) / X[:, 1:].std(axis=0)
    v = np.minimum(X @ rng.standard_normal(9) + rng.standard_t(3, size=20000), 2.0)
    for q in (0.1, 0.9):
        problem = Problem(X, v, Quantile(q), np.zeros(9), np.zeros(9))
        found, programme = solvers.solve(problem), solvers.solve(problem, solver="scipy")
        assert found.success and programme.success
        assert found.fun == pytest.approx(programme.fun, rel=1e-9)


def test_solve_finds_the_minimiser_of_smallest_norm_and_hands_the_unique_problem_to_the_finish():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20, 3))[:, [0, 1, 2, 2]]
    v = rng.standard_normal(20)
    none = np.zeros(4)
    seen = []

    def finish(problem, solution, extra):
        seen.append((problem.X.shape[1], extra is None))
        return solution

    squared = solvers.solve(Problem(X, v, Squared(), none, none), finish)
    np.testing.assert_allclose(squared.x, np.linalg.pinv(X) @ v, atol=1e-8)
    lad = solvers.solve(Problem(X, v, LAD(), none, none), finish, tol=1e-7, max_iter=500)
    assert lad.success and lad.x[2] == pytest.approx(lad.x[3], abs=1e-6)
    assert seen == [(3, True), (4, False)]


@pytest.mark.parametrize("seed", [4, 8, 16, 38])
def test_linex_fits_with_a_response_a_million_scales_away_are_stationary(seed):
    """All rows but as many as there are columns are then left behind, and their slopes are constant."""
    rng = np.random.default_rng(seed)
    n, p = 36, 5
    X = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    v = np.append(rng.normal(size=n), 1e6)
    X = np.vstack([X, np.append(1.0, rng.normal(size=p - 1))])
    loss, none = Linex(0.1), np.zeros(p)
    start = minimise(Problem(X[:-1], v[:-1], loss, none, none)).x
    found = minimise(Problem(X, v, loss, none, none), start)
    slopes = loss.derivative(v - X @ found.x)
    assert found.success
    assert np.all(np.abs(X.T @ slopes) <= 1e-8 * (np.abs(X).T @ np.abs(slopes)))


def levels(count, rows, seed=0):
    """A centred design of a number and the indicators of a factor with so many levels, and responses."""
    rng = np.random.default_rng(seed)
    g = np.append(np.arange(count), rng.integers(0, count, rows - count))
    x = rng.standard_normal(rows)
    indicators = 2.0 * (g[:, None] == np.arange(1, count))
    X = np.column_stack([np.ones(rows), x, indicators - indicators.mean(axis=0)])
    return X, x + rng.standard_normal(count)[g] + 0.5 * rng.standard_t(3, rows)


@pytest.mark.parametrize("l1", [0.0, 0.3])
@pytest.mark.parametrize("loss", [LAD(), Quantile(0.8), Huber(0.7), LogCosh(), Power(1.5)], ids=str)
def test_a_factor_of_many_levels_is_fitted_by_sparse_systems_as_by_dense_ones(loss, l1, monkeypatch):
    X, v = levels(120, 500)
    ridge, lasso = np.full(X.shape[1], 0.02 * len(v)), np.full(X.shape[1], l1)
    ridge[0] = lasso[0] = 0.0
    problem = Problem(X, v, loss, ridge, lasso)
    assert problem.sparse is not None
    found = minimise(problem)
    monkeypatch.setattr(SparseDesign, "of", lambda X: None)
    dense = minimise(Problem(X, v, loss, ridge, lasso))
    assert found.success
    np.testing.assert_allclose(found.x, dense.x, atol=1e-8)
    conic = conic_minimiser(X, v, loss, ridge, lasso)
    assert objective(X, v, loss, ridge, lasso, found.x) <= objective(X, v, loss, ridge, lasso, conic) + 1e-7


def test_a_sparse_design_is_the_design_and_refuses_what_is_dense_or_singular():
    X, _ = levels(120, 500)
    made = SparseDesign.of(X)
    np.testing.assert_allclose(made.S.toarray() - made.m, X, atol=1e-15)
    assert made.S.nnz < 0.1 * X.size
    assert SparseDesign.of(np.random.default_rng(0).standard_normal((500, 120))) is None
    assert SparseDesign.of(X[:, :50]) is None  # dense systems are as quick
    p = X.shape[1]
    twice = made.take(np.array([0, 0]), np.arange(p))
    assert twice.solve(np.ones(p), np.zeros(p), np.array([1.0, 2.0])) is None
    few = np.arange(40)
    theta, u = made.take(few, np.arange(p)).solve(np.ones(p), np.arange(p, dtype=float), np.ones(40))
    np.testing.assert_allclose(theta - X[few].T @ u, np.arange(p), atol=1e-10)
    np.testing.assert_allclose(X[few] @ theta, 1.0, atol=1e-10)
