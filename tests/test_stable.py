"""Stable sets against brute force: outer contains, inner is contained, tau bounds every movement."""

from dataclasses import replace

import numpy as np
import pytest
from problems import KINDS, LOSS_INSTANCES, draw, fits_of, plain_fits, stable
from referee import p_value, refit

from stabconf.losses import LAD, Huber, LogCosh, Power, PseudoHuber, Quantile, Squared
from stabconf.solvers import Problem, minimise
from stabconf.stability import BOUNDS, default_bound, reach

ALPHAS = (0.05, 0.1, 0.3, 0.5)


def bounds_for(loss):
    names = dict.fromkeys([default_bound(loss), "norm", "ball", "paper"])
    return [name for name in names if name != "paper" or np.isfinite(loss.lipschitz)]


def candidates(lower, upper, scale, rng):
    """Points outside the interval, near its ends and far."""
    size = (upper - lower) if np.isfinite(upper - lower) else scale
    steps = size * np.array([1e-3, 0.05, 0.5])
    points = np.concatenate([lower - steps, upper + steps * rng.uniform(0.5, 1.5, 3)])
    return points[np.isfinite(points)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSS_INSTANCES[:-1], ids=lambda loss: loss.describe())
def test_stable_contains_and_inner_is_contained_in_the_brute_force_set(loss, kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for seed, alpha in enumerate(ALPHAS):
        standardize = not (kind == "unscaled" or seed == 3)
        penalty = 10.0 ** (seed - 2.5) if seed else 0.001
        drawn = draw(kind, seed, n=24, penalty=penalty)
        fits = fits_of(drawn, loss, standardize)
        cache = {}

        def p_at(z, drawn=drawn, standardize=standardize, cache=cache, slack=0.0):
            if z not in cache:
                cache[z] = refit(
                    drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso, standardize
                )[0]
            return p_value(cache[z], slack=slack)

        for bound in bounds_for(loss):
            made = stable(fits, drawn.new, alpha, bound=bound, inner=True)
            lower, upper = made.lower[0], made.upper[0]
            tiny = 1e-7 * np.ptp(drawn.y)
            for z in candidates(lower, upper, np.ptp(drawn.y), rng):
                assert p_at(z, slack=-tiny) <= alpha, (bound, z)
            inner = made.inner_lower[0], made.inner_upper[0]
            if np.isnan(inner[0]):
                continue
            assert lower <= inner[0] + tiny and inner[1] <= upper + tiny
            far = 3.0 * np.ptp(drawn.y)
            ends = np.clip(inner, drawn.y.min() - far, drawn.y.max() + far)
            for z in np.linspace(*ends, 3):
                assert p_at(z, slack=tiny) > alpha, (bound, z)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("loss", [LAD(), Quantile(0.8), Huber(), Squared()], ids=lambda loss: loss.name)
def test_one_sided_sets_contain_the_brute_force_ones(loss, side):
    sign = 1 if side == "upper" else -1
    rng = np.random.default_rng(1)
    for seed, alpha in enumerate((0.1, 0.3, 0.8)):
        drawn = draw("plain", seed, n=30, penalty=0.3)
        fits = fits_of(drawn, loss)
        made = stable(fits, drawn.new, alpha, side=side, bound=default_bound(loss), inner=True)
        end = (made.upper if side == "upper" else made.lower)[0]
        other = (made.lower if side == "upper" else made.upper)[0]
        assert other == -sign * np.inf and np.isfinite(end)
        inner = (made.inner_upper if side == "upper" else made.inner_lower)[0]
        for step in (1e-3, 0.1, 1.0) * rng.uniform(1, 2, 3):
            z = end + sign * step
            residuals = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)[0]
            assert p_value(sign * residuals, score=np.asarray, slack=-1e-7) <= alpha
            if np.isfinite(inner):
                z = inner - sign * (step - 1e-3)
                residuals = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)[0]
                assert p_value(sign * residuals, score=np.asarray, slack=1e-7) > alpha


@pytest.mark.parametrize("kind", ["plain", "unscaled", "wide", "bimodal"])
@pytest.mark.parametrize(
    "loss", [LAD(), Quantile(0.8), Huber(), LogCosh(), PseudoHuber()], ids=lambda loss: loss.name
)
def test_no_prediction_moves_by_more_than_tau(loss, kind):
    for seed in range(2):
        drawn = draw(kind, seed, n=20)
        fits = fits_of(drawn, loss, standardize=kind != "unscaled")
        spread = np.ptp(drawn.y)
        for z in (drawn.y.min() - 3 * spread, np.median(drawn.y) + 1e-3, drawn.y.max() + 100 * spread):
            base = fits.base
            _, theta, centre, scale = refit(
                drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso, kind != "unscaled"
            )
            rows = np.vstack([drawn.X, drawn.new])
            moved = np.abs(centre + scale * (rows @ theta) - base.predict(rows)) / fits.scale
            for bound in bounds_for(loss):
                moves = reach(base, drawn.new, bound)
                t = np.array([max(base.steepest(1), base.steepest(-1))])
                tau = np.append(moves.tau(t)[0], moves.shift(t)[0])
                assert np.all(moved <= tau * (1 + 1e-6) + 1e-6), bound


@pytest.mark.parametrize("loss", [Squared(), Power(1.5)], ids=lambda loss: loss.name)
def test_movement_at_z_is_within_tau_of_its_tilt_for_losses_without_lipschitz_constant(loss):
    drawn = draw("plain", 2, n=25, penalty=0.5, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    for z in (drawn.y.max() + 1.0, drawn.y.max() + 30.0):
        base = fits.base
        residuals, theta, _, scale = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)
        t = base.slope(np.abs(residuals[-1:]) / scale, int(np.sign(residuals[-1])))
        for bound in bounds_for(loss):
            tau = reach(base, drawn.new, bound).tau(t)[0]
            assert np.all(np.abs(drawn.X @ (theta - base.solution.x)) <= tau * (1 + 1e-6) + 1e-6)
        assert fits.scale == pytest.approx(scale)


def test_lad_norm_interval_is_the_closed_form():
    drawn = draw("plain", 5, n=60, penalty=0.3, l1_ratio=0.0)
    fits = fits_of(drawn, LAD(), standardize=False)
    made = stable(fits, drawn.new, 0.1, bound="norm")
    theta = minimise(Problem(drawn.X, drawn.y, LAD(), drawn.ridge, drawn.lasso)).x
    norms = np.linalg.norm(drawn.X, axis=1) / np.sqrt(60 * 0.3)
    own = np.linalg.norm(drawn.new) / np.sqrt(60 * 0.3)
    scores = np.sort(np.abs(drawn.y - drawn.X @ theta) + norms * own)
    half = scores[int(np.ceil(0.9 * 61)) - 1] + own**2
    np.testing.assert_allclose(made.upper, drawn.new @ theta + half, atol=1e-6)
    np.testing.assert_allclose(made.lower, drawn.new @ theta - half, atol=1e-6)


def test_bounds_order_as_the_theory_says():
    """Ball is within norm, norm within the paper's constant, curvature within norm."""
    for seed in range(3):
        drawn = draw("plain", seed, n=60, penalty=0.1, l1_ratio=0.0)
        for loss in (LAD(), Huber()):
            fits = fits_of(drawn, loss)
            width = {b: stable(fits, drawn.new, 0.1, bound=b).width[0] for b in bounds_for(loss)}
            assert width["ball"] <= width["norm"] + 1e-9
            assert width["norm"] < width["paper"]
            assert width.get("curvature", 0.0) <= width["norm"] + 1e-9


@pytest.mark.parametrize("solver", ["newton", "scipy"])
def test_a_solver_that_stops_early_widens_the_interval_and_keeps_it_valid(solver):
    drawn = draw("plain", 1, n=40, penalty=0.2, l1_ratio=0.0)
    fits = fits_of(drawn, LAD())
    exact = stable(fits, drawn.new, 0.1, bound="norm")
    early = replace(fits, solving={"solver": solver, "tol": 1e-8, "max_iter": 9})
    assert not early.base.solution.success
    sloppy = stable(early, drawn.new, 0.1, bound="norm")
    assert sloppy.lower[0] <= exact.lower[0] + 1e-9 and sloppy.upper[0] >= exact.upper[0] - 1e-9
    assert sloppy.width[0] <= 1.2 * exact.width[0]


def test_a_set_between_two_modes_is_found():
    rng = np.random.default_rng(0)
    x = np.repeat([-1.0, 1.0], 20)
    X = np.column_stack([np.ones(40), x])
    y = 50.0 * x + rng.standard_normal(40)
    loss, ridge = Huber(), np.full(2, 40 * 1e-3)
    new = np.array([[1.0, 0.1]])
    made = stable(plain_fits(X, y, loss, 40 * 1e-3), new, 0.1, bound="curvature")
    assert made.width[0] < 20.0
    for z in np.linspace(made.lower[0] - 5.0, made.upper[0] + 5.0, 21):
        p = p_value(refit(X, y, new, z, loss, ridge, np.zeros(2))[0])
        assert p <= 0.1 or made.lower[0] <= z <= made.upper[0]
    middle = 0.5 * (made.lower[0] + made.upper[0])
    assert p_value(refit(X, y, new, middle, loss, ridge, np.zeros(2))[0]) > 0.1


def test_every_bound_is_tested():
    assert set(BOUNDS) == {"curvature", "norm", "ball", "paper"}
