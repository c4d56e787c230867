"""Paths of clipped fits against refits, and sets along them against grids."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import KINDS, draw, fits_of
from referee import conic_minimiser
from scipy import optimize

from stabconf.losses import LAD, Huber, Quantile, Squared
from stabconf.path import (
    ClippedFit,
    Polyline,
    crossover,
    decided_prefix,
    merge,
    polylines,
    sharpened,
)
from stabconf.path.clipped import Systems, system
from stabconf.path.following import follow
from stabconf.path.lines import uncovered
from stabconf.rank import Rank
from stabconf.sets.score import Score
from stabconf.solvers import certify, minimise

CLIPPED = [LAD(), Quantile(0.8), Huber(), Squared()]


def tilted(fits, tilt):
    """Coefficients of a tilted fit by clarabel."""
    problem = fits.problem
    return conic_minimiser(problem.X, problem.v, problem.loss, problem.ridge, problem.lasso, tilt)


@pytest.mark.parametrize("kind", ["plain", "wide", "tied", "duplicated", "collinear"])
@pytest.mark.parametrize("loss", CLIPPED, ids=lambda loss: loss.describe())
def test_a_path_goes_through_refits_at_fifty_tilts(loss, kind):
    drawn = draw(kind, 2, n=30, p=4, penalty=0.05, l1_ratio=0.3)
    fits = fits_of(drawn, loss)
    row, fit = drawn.new[0], fits.clipped
    far = min(loss.slopes[1], 2.0)
    found = follow(fit, np.arange(len(fit.X)), far * row[None], corners=True)
    positions, theta = found.corners[0]
    assert found.arrived[0] and positions[0] == 0.0 and positions[-1] == 1.0
    for share in np.linspace(0.0, 1.0, 50):
        on_path = [np.interp(share, positions, values) for values in theta.T]
        np.testing.assert_allclose(on_path, tilted(fits, -share * far * row), atol=2e-5)


@pytest.mark.parametrize("loss, seed, p", [(LAD(), 24, 2), (Quantile(0.8), 30, 2), (Quantile(0.8), 25, 3)])
def test_pulls_balance_where_paths_of_far_rows_end(loss, seed, p):
    """All rows pull with all they have there: the coefficients are these pulls over the ridge weights."""
    drawn = draw("plain", seed, n=31, p=p, penalty=0.1, l1_ratio=0.0)
    fits = fits_of(drawn, loss, standardize=False)
    fit, problem = fits.clipped, fits.problem
    down, up = problem.loss.slopes
    tilt = up * np.array([[1.0, 184252.87, 0.0]])[:, :p]
    found = follow(fit, np.arange(len(fit.X)), tilt)
    u = np.where(problem.residuals(found.theta[0]) > 0, up, -down)
    wanted = (tilt[0] + problem.X.T @ u) / problem.ridge
    np.testing.assert_allclose(found.theta[0], wanted, rtol=0, atol=5e-14 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_paths_start_at_the_minimiser_wherever_the_solver_stopped(monkeypatch, penalty):
    """With slopes of 0 everywhere, as if every row were fitted exactly."""
    drawn = draw("plain", 3, penalty=penalty, l1_ratio=0.0)
    expected = fits_of(drawn, LAD()).clipped.theta

    def stopped(problem, *start, **solving):
        r, none = problem.residuals(np.ones(4)), np.zeros(4)
        made = certify(problem, np.ones(4), np.zeros(drawn.n), none, tol=1e-8, nit=1)
        assert not made.success and np.any(r)
        return made

    monkeypatch.setattr("stabconf.sets.fits.minimise", stopped)
    np.testing.assert_allclose(fits_of(drawn, LAD()).clipped.theta, expected, atol=1e-10)


@settings(max_examples=60)
@given(
    loss=st.sampled_from(CLIPPED),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    n=st.integers(3, 30),
    p=st.integers(1, 60),
    penalty=st.sampled_from([1e-4, 1e-2, 1.0]),
    l1_ratio=st.sampled_from([0.0, 0.5]),
)
def test_the_augmented_fit_at_any_response_is_on_the_polyline(loss, kind, seed, n, p, penalty, l1_ratio):
    drawn = draw(kind, seed, n, min(p, 2 * n), penalty, l1_ratio)
    fits = fits_of(drawn, loss)
    (path,) = fits.paths(drawn.new)
    assert path is not None and np.all(np.diff(path.w) >= 0)
    problem = fits.problem
    for w in (-1e3, -2.0, 0.0, 0.7, 50.0):
        if not path.knows(np.array([w]))[0]:
            continue
        theta, e = path.at(np.array([w]))
        rows = np.vstack([problem.X, drawn.new])
        whole = replace(problem, X=rows, v=np.append(problem.v, w))
        best = minimise(whole)
        # No solver finds a smaller objective than the path's point has.
        assert whole.value(theta[0]) <= best.fun + 1e-7 * max(1.0, abs(best.fun))
        assert e[0] == pytest.approx(w - rows[-1] @ theta[0], abs=1e-6 * max(1.0, abs(w)))


def test_a_row_that_nothing_holds_is_followed_without_end():
    """LAD without a penalty: a far row outweighs the others, so that the fit goes through any response."""
    X = np.column_stack([np.ones(6), np.linspace(-1, 1, 6)])
    y = np.array([0.1, -0.2, 0.3, 0.1, -0.1, 0.2])
    drawn = replace(draw("plain", 0), X=X, y=y, new=np.array([[1.0, 1e3]]), penalty=0.0, l1_ratio=0.0)
    fits = fits_of(drawn, LAD(), standardize=False)
    (path,) = polylines(fits.clipped, drawn.new, (1.0, 1.0), fits.refit)
    (_, change), speed = path.rays[1], path.speeds[1]
    assert change == 0.0 and speed == pytest.approx(1.0)
    theta, e = path.at(np.array([1e9]))
    assert e[0] == 0.0 and theta[0] @ drawn.new[0] == pytest.approx(1e9)


def _room(rows, least, t):
    return rows @ t - least


def test_crossover_ends_at_the_minimiser_of_smallest_norm():
    rng = np.random.default_rng(1)
    for seed in range(5):
        X = np.column_stack([np.ones(12), np.round(rng.standard_normal((12, 2)))])
        v = np.round(rng.standard_normal(12))
        drawn = replace(draw("plain", seed), X=X, y=v, penalty=0.0, l1_ratio=0.0)
        fits = fits_of(drawn, LAD(), standardize=False)
        theta = fits.ties.moves(fits.clipped.theta) * fits.scale
        # A linear programme for the value, then the smallest norm among its solutions; sizes of residuals
        # are variables of both.
        cost = np.concatenate([np.zeros(3), np.ones(12)])
        sizes = np.block([[X, np.eye(12)], [-X, np.eye(12)]])
        bounds = [(None, None)] * 3 + [(0, None)] * 12
        least = optimize.linprog(cost, -sizes, -np.append(v, -v), bounds=bounds, method="highs").fun
        assert np.sum(np.abs(v - X @ theta)) == pytest.approx(least, abs=1e-8)
        nearest = optimize.minimize(
            lambda t: t[:3] @ t[:3],
            np.append(theta, np.abs(v - X @ theta)),
            jac=lambda t: np.append(2.0 * t[:3], np.zeros(12)),
            constraints=[
                {"type": "ineq", "fun": partial(_room, sizes, np.append(v, -v))},
                {"type": "ineq", "fun": partial(_room, -cost[None], np.array([-least - 1e-9]))},
            ],
            method="SLSQP",
        )
        assert nearest.success
        assert np.linalg.norm(theta) <= np.sqrt(nearest.fun) + 1e-4


def test_a_start_that_is_off_is_brought_to_the_minimiser():
    drawn = draw("heavy", 4, n=25, penalty=0.1, l1_ratio=0.2)
    for loss in CLIPPED:
        problem = fits_of(drawn, loss).problem
        near = minimise(replace(problem, tilt=np.full(4, 0.02)))
        rough = certify(problem, near.x, near.multipliers, near.l1_multipliers, tol=1e-8, nit=0)
        sharp = sharpened(problem, rough)
        assert rough.gap > 1e-6 and sharp.gap < 1e-12
        fit = crossover(ClippedFit.of(problem, rough))
        assert np.max(np.abs(fit.e)) <= 1e-12 * fit.gross_pull
        np.testing.assert_allclose(fit.theta, minimise(problem).x, atol=1e-8)


@settings(max_examples=200)
@given(seed=st.integers(0, 100_000), weighted=st.booleans(), ray=st.booleans())
def test_what_rows_leave_uncovered_is_what_a_grid_says(seed, weighted, ray):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    lines = [(rng.standard_normal(n).round(1), rng.standard_normal(n).round(1)) for _ in range(2)]
    own = [tuple(rng.standard_normal(2).round(1)) for _ in range(int(rng.integers(1, 3)))]
    weights = rng.exponential(size=n) if weighted else None
    mass = float(rng.uniform(0, np.sum(weights))) if weighted else int(rng.integers(1, n + 1))
    pieces = uncovered(lines, own, np.inf if ray else 1.0, Rank(mass, None, weights), 0.0)
    for t in rng.uniform(0, 30.0 if ray else 1.0, 60):
        scores = np.max([start + t * slope for start, slope in lines], axis=0)
        new = max(start + t * slope for start, slope in own)
        if np.min(np.abs(scores - new)) < 1e-9:
            continue
        below = scores < new
        heap = np.sum(below) if weights is None else weights[below].sum()
        assert (heap < mass) == any(low <= t <= high for low, high in pieces)


@settings(max_examples=100)
@given(seed=st.integers(0, 100_000))
def test_a_decided_stretch_holds_for_every_error_within_the_bounds(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    start, slope = rng.standard_normal((2, n))
    e, change = rng.standard_normal(2)
    error, score = 0.3 * rng.random(n), Score()
    rank = Rank(int(rng.integers(1, n + 1)))
    found = decided_prefix(score.lines(start, slope), score.own_lines(e, change), error, rank)
    last, inside = found or (0.0, False)
    assert last <= 1.0
    for t in rng.uniform(0.0, last, 20 if found else 0):
        scores = np.abs(start + t * slope) + error * rng.uniform(-1, 1, n)
        assert (np.abs(e + t * change) <= np.sort(scores)[rank.mass - 1]) == inside


@pytest.mark.parametrize("terms", [(40, 0.5), (0, 0.0)], ids=["kept", "made anew"])
def test_solutions_of_systems_that_change_are_those_of_dense_solvers(terms, monkeypatch):
    monkeypatch.setattr("stabconf.path.clipped._TERMS", terms)
    rng = np.random.default_rng(0)
    p, slots, size = 6, 6, 5
    root = rng.standard_normal((9, p))
    rows = rng.standard_normal((slots, p))
    whole = system(root.T @ root, rows)  # of all coefficients and rows
    at = np.array([0, 1, 2, 4, 5, 7])
    inside = np.zeros((size, p + slots), dtype=bool)
    inside[:, at] = True
    force = rng.standard_normal((size, p))
    start = np.linalg.inv(whole[np.ix_(at, at)])
    systems = Systems(at, start, inside, force, lambda _, some: whole[np.ix_(some, some)])
    for step in range(40):
        line = np.array([step % size])
        coefficients, exact = np.split(systems.inside[line[0]], [p])
        unit, right = np.full(size, -1), np.zeros((size, p + slots))
        place = int(rng.integers(p + slots))
        if systems.inside[line, place][0]:
            if place < p and np.sum(coefficients) - 1 < np.sum(exact):
                continue  # rows that are fitted exactly need as many coefficients
            unit[line] = place
            term = systems.solve(right, unit)[line]
            value = term[:, place]
            systems.inside[line, place] = False
        else:
            if place >= p and np.sum(exact) + 1 > np.sum(coefficients):
                continue
            right[line] = whole[place]
            term = systems.solve(right)[line]
            value = np.einsum("ij,ij->i", right[line], term) - whole[place, place]
            term[:, place] = -1.0
            systems.inside[line, place] = True
        systems.change(line, term, value)
        systems.renew(systems.worn())
        for x, some, pull in zip(systems.x, systems.inside, force, strict=True):
            wanted = np.linalg.solve(whole[np.ix_(some, some)], np.pad(pull, (0, slots))[some])
            np.testing.assert_allclose(x[some], wanted, atol=1e-8 * np.max(np.abs(wanted)))
            assert not x[~some].any()


def test_merge_joins_what_touches_or_is_near():
    assert merge([(2.0, 3.0), (0.0, 1.0), (1.0, 1.5)]) == [(0.0, 1.5), (2.0, 3.0)]
    assert merge([(0.0, 1.0), (1.1, 2.0)], near=0.2) == [(0.0, 2.0)]


def test_ties_grow_with_the_coefficients_along_a_stretch():
    """A row that a path keeps at 0 is off by rounding errors of large coefficients at its far end."""
    path = Polyline(
        x=np.array([1.0]),
        theta=np.array([[0.0], [1e7]]),
        e=np.zeros(2),
        rays=((np.zeros(1), -1.0), (np.zeros(1), 1.0)),
        unknown=np.array([False]),
    )
    X = np.array([[3e-17], [1.0]])  # a residual of -3e-10 at the end, and one of -1e7
    (found,) = path.pieces(X, np.zeros(2), [Rank(2)], Score.of("upper"))
    assert any(low <= 0.0 and high >= 1e7 for low, high in found)


def test_a_place_near_one_corner_keeps_its_digits_whatever_the_distance_of_the_other():
    x, still = np.array([5e4, 1.0]), (np.zeros(2), 0.0)
    path = Polyline(
        x, np.array([[-8e7 / 3, 0.1], [1e-4 / 3, 0.2]]), np.zeros(2), (still, still), np.zeros(1, bool)
    )
    theta, e = path.at(path.w[1] - np.array([1.0, 9.0]))
    assert theta @ x == pytest.approx(path.w[1] - np.array([1.0, 9.0]), rel=1e-14)
    assert theta[:, 1] == pytest.approx(0.2, rel=1e-9) and not e.any()
