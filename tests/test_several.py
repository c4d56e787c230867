"""Several responses: joint boxes against brute force, labels, and coverage of all responses at once."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from problems import plain_fits
from referee import conic_minimiser

import stabconf
from stabconf.losses import LAD, Huber, LogCosh, Power, Quantile, Squared
from stabconf.rank import Peers, conformal_rank, kth_smallest
from stabconf.sets import METHODS, SEVERAL_METHODS, Request, SeveralFits, box_conformity

ALPHA = 0.2


def draw_several(seed, n=14, p=3, q=2, loss=None, penalty=None):
    """`SeveralFits` of random rows with heavy tails, and a new row."""
    rng = np.random.default_rng([seed, q])
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    row = np.append(1.0, rng.standard_normal(p - 1))
    Y = X @ rng.standard_normal((p, q)) + rng.standard_t(2.0, (n, q)) * 10.0 ** rng.uniform(-1, 1, q)
    ridge = n * (10.0 ** rng.uniform(-3, -0.5) if penalty is None else penalty)
    each = [plain_fits(X, Y[:, j], loss or LAD(), ridge) for j in range(q)]
    units = [1.4826 * fits.scale * np.median(np.abs(fits.base.solution.r)) for fits in each]
    return SeveralFits(each, units, True), row


def boxes(fits, rows, method, alphas=(ALPHA,), **options):
    """Lower and upper ends (m, q) at the first level, and the records."""
    asked = Request.of(fits, np.atleast_2d(rows), alphas, **options)
    made = SEVERAL_METHODS[method].run(fits, asked)
    first = made[: len(fits.each)]
    return np.array([one.lower for one in first]).T, np.array([one.upper for one in first]).T, made


def refitted(fits, row, z):
    """Sizes of the residuals of all rows and the new one last (g, n + 1), by clarabel, at responses (g,)."""
    problem, out = fits.problem, []
    for w in fits.responses(np.asarray(z)):
        X, v = np.vstack([problem.X, row]), np.append(problem.v, w)
        r = v - X @ conic_minimiser(X, v, problem.loss, problem.ridge, problem.lasso)
        out.append(fits.scale * np.abs(r))
    return np.array(out)


def brute_p(fits, row, grids, slack=1e-7):
    """p-values (g_1, ..., g_q) on the product of grids, from refits of each response."""
    scores = np.zeros(())
    for j, (one, grid) in enumerate(zip(fits.each, grids, strict=True)):
        sizes = refitted(one, row, grid) / fits.units[j]
        shape = [1] * len(grids) + [fits.n + 1]
        shape[j] = len(grid)
        scores = np.maximum(scores, sizes.reshape(shape))
    return (1 + np.sum(scores[..., :-1] >= scores[..., -1:] - slack, axis=-1)) / (fits.n + 1)


def path_grid(fits, row, count):
    """Responses through which the fit passes, from its lower to its upper end tilt, and some beyond."""
    far = 1e3 * fits.scale
    low, high = (fits.centre + side * far - side * refitted(fits, row, [fits.centre + side * far])[0, -1]
                 for side in (-1, 1))  # fmt: skip
    margin = 0.05 * (high - low)
    return np.concatenate([[low - 3 * margin], np.linspace(low, high, count), [high + 3 * margin]])


# Exact ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed, q", [*((seed, 2) for seed in range(8)), (0, 3)])
def test_exact_ends_are_those_of_the_hull_by_brute_force(seed, q):
    loss = Quantile(0.7) if seed == 1 else LAD()
    fits, row = draw_several(seed, q=q, loss=loss)
    lower, upper, made = boxes(fits, row, "exact")
    assert max(float(np.max(one.tol / one.wanted)) for one in made) <= 1
    count = 81 if q == 2 else 21
    fine = [path_grid(one, row, count) for one in fits.each]
    for j, (ends, side) in itertools.product(range(q), ((lower, -1), (upper, 1))):
        step = (0.02 if q == 2 else 0.1) * fits.units[j]
        grids = list(fine)
        grids[j] = np.array([ends[0, j] - side * step, ends[0, j] + side * 1e-5 * fits.units[j]])
        p = np.moveaxis(brute_p(fits, row, grids), j, 0)
        assert p[0].max() > ALPHA  # some response within reach of the end is in the set
        assert p[1].max() <= ALPHA  # none beyond it is


def test_corners_alone_miss_a_part_of_the_set():
    # The order statistic is largest where one response is fitted exactly, inside its path.
    missed = 0
    for seed in range(40):
        fits, row = draw_several(seed, n=20)
        k = conformal_rank(ALPHA, fits.n)
        far = [one.centre + 1e3 * np.array([-1.0, 1.0]) * one.scale for one in fits.each]
        at_ends = [refitted(one, row, z)[:, :-1] / unit for one, z, unit in zip(fits.each, far, fits.units, strict=True)]
        corner = max(kth_smallest(np.maximum(at_ends[0][1], other), k) for other in at_ends[1])
        high = far[0][1] - refitted(fits.each[0], row, far[0][1:])[0, -1]
        reached = (boxes(fits, row, "exact")[1][0, 0] - high) / fits.units[0]
        assert reached >= corner - 1e-6
        missed += reached > corner + 1e-3
    assert missed >= 2


@pytest.mark.parametrize("loss", [LAD(), Huber(), LogCosh()])
def test_a_candidate_is_in_the_set_if_its_p_value_by_refits_says_so(loss):
    fits, row = draw_several(3, loss=loss)
    grids = [np.linspace(-2, 2, 5) * 3 * unit + one.base.predict(row[None])
             for one, unit in zip(fits.each, fits.units, strict=True)]  # fmt: skip
    z = np.array(list(itertools.product(*grids)))
    found = box_conformity(fits, row, z, Peers(fits.n))
    np.testing.assert_array_equal(found, brute_p(fits, row, grids).ravel())
    assert found.min() < ALPHA < found.max()


# Stable ---------------------------------------------------------------------------------------------

SMALL, LARGE = 0.05, 1.0


@pytest.mark.parametrize("loss", [LAD(), Quantile(0.7), Huber(), LogCosh(), Squared(), Power(1.5)])
@pytest.mark.parametrize("seed", range(3))
def test_stable_boxes_contain_the_brute_force_set(loss, seed):
    fits, row = draw_several(seed, n=20, loss=loss, penalty=SMALL if seed else LARGE)
    lower, upper, _ = boxes(fits, row, "stable")
    assert np.isfinite(lower).all()
    centre = [float(one.base.predict(row[None])[0]) for one in fits.each]
    shares = np.concatenate([[-20.0, -1.5], np.linspace(-1.001, 1.001, 9), [1.5, 20.0]])
    reach = [np.maximum(high - mid, mid - low) for low, high, mid in zip(lower[0], upper[0], centre, strict=True)]
    grids = [mid + shares * far for mid, far in zip(centre, reach, strict=True)]
    inside = brute_p(fits, row, grids) > ALPHA
    assert inside.any()
    for j, place in enumerate(np.nonzero(inside)):
        found = grids[j][place]
        assert lower[0, j] <= found.min() and found.max() <= upper[0, j]


def test_stable_boxes_of_lad_are_the_closed_form():
    fits, row = draw_several(5)
    lower, upper, _ = boxes(fits, row, "stable")
    k, most, moved = conformal_rank(ALPHA, fits.n), [], []
    for one, unit in zip(fits.each, fits.units, strict=True):
        norms = np.linalg.norm(np.vstack([one.problem.X, row]), axis=1) / np.sqrt(one.problem.ridge[0])
        start = one.base.solution.radius
        tau = one.scale * norms * (norms[-1] + start)
        most.append((one.scale * np.abs(one.base.solution.r) + tau[:-1]) / unit)
        moved.append(tau[-1])
    half = fits.units * kth_smallest(np.max(most, axis=0), k) + moved
    np.testing.assert_allclose((upper - lower)[0] / 2, half, rtol=1e-9)


def test_exact_boxes_lie_in_stable_ones():
    for seed in range(5):
        fits, row = draw_several(seed, n=30, q=3, penalty=0.1)
        inner, outer = boxes(fits, row, "exact"), boxes(fits, row, "stable")
        assert np.all(outer[0] <= inner[0]) and np.all(inner[1] <= outer[1])


# One response is the plain fit ------------------------------------------------------------------------


@pytest.mark.parametrize("method", SEVERAL_METHODS)
def test_one_response_in_a_list_is_the_plain_fit(method):
    loss = LAD() if method == "exact" else Huber()
    fits, row = draw_several(0, n=40, q=1, loss=loss)
    rows = np.vstack([row, fits.each[0].X[:5]])
    lower, upper, _ = boxes(fits, rows, method)
    plain = fits.each[0]
    (made,) = METHODS[method].run(plain, Request.of(plain, rows, [ALPHA]))
    if method in ("exact", "stable", "split"):  # in which one scale for all rows does not matter
        np.testing.assert_allclose(lower[:, 0], made.lower, rtol=1e-9)
        np.testing.assert_allclose(upper[:, 0], made.upper, rtol=1e-9)
    else:
        fits.learned = False
        lower, upper, _ = boxes(fits, rows, method)
        np.testing.assert_array_equal(lower[:, 0], made.lower)
        np.testing.assert_array_equal(upper[:, 0], made.upper)
