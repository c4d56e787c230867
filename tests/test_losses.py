"""Every loss keeps its contract: derivative, inverse, envelope, curvature, constants."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from problems import LOSS_INSTANCES, draw, exact, fits_of
from scipy import optimize

from stabconf.errors import InputError, InputTypeError
from stabconf.losses import LOSSES, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, as_loss
from stabconf.penalties import PENALTIES, ElasticNet, NoPenalty, Ridge, as_penalty
from stabconf.solvers import Problem, minimise

GRID = np.linspace(-6.0, 6.0, 241) + 1e-3
every_loss = pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())


def test_every_registered_loss_is_tested():
    assert {loss.name for loss in LOSS_INSTANCES} == set(LOSSES)


@every_loss
def test_derivative_is_the_slope_of_the_value(loss):
    h = 1e-6
    numeric = (loss.value(GRID + h) - loss.value(GRID - h)) / (2 * h)
    np.testing.assert_allclose(loss.derivative(GRID), numeric, atol=1e-6, rtol=1e-6)


@every_loss
def test_value_is_convex_and_zero_at_zero(loss):
    assert loss.value(0.0) == pytest.approx(0.0, abs=1e-15)
    assert np.all(np.diff(loss.derivative(GRID)) >= -1e-12)


@every_loss
def test_inverse_derivative_inverts(loss):
    u = loss.derivative(GRID)
    inside = np.abs(u) < 0.999 * np.where(u > 0, loss.slopes[1], loss.slopes[0])
    if loss.kind == "step":
        assert np.all(loss.inverse_derivative(u) == 0)
    else:
        np.testing.assert_allclose(loss.inverse_derivative(u[inside]), GRID[inside], rtol=1e-8)


@every_loss
def test_subgradient_holds_the_derivative_and_is_an_interval_only_at_kinks(loss):
    low, high = loss.subgradient(GRID)
    assert np.all((low <= loss.derivative(GRID)) & (loss.derivative(GRID) <= high))
    low, high = loss.subgradient(0.0)
    expected = (-loss.slopes[0], loss.slopes[1]) if loss.kind == "step" else (0.0, 0.0)
    assert (float(low), float(high)) == pytest.approx(expected)


@every_loss
def test_slopes_and_smoothness_bound_the_derivatives(loss):
    slope = loss.derivative(np.linspace(-50, 50, 1001))
    assert slope.max() <= loss.slopes[1] + 1e-12 and -slope.min() <= loss.slopes[0] + 1e-12
    assert loss.lipschitz == max(loss.slopes)
    rate = np.abs(np.diff(loss.derivative(GRID)) / np.diff(GRID))
    assert rate.max() <= loss.smoothness * (1 + 1e-9)


@every_loss
def test_min_curvature_is_a_lower_bound_that_is_reached(loss):
    rng = np.random.default_rng(0)
    low = rng.uniform(-4, 4, 200)
    high = low + rng.exponential(1.0, 200)
    inside = np.linspace(low, high, 101)
    least = np.min(loss.curvature(inside), axis=0)
    np.testing.assert_allclose(loss.min_curvature(low, high), least, rtol=1e-9, atol=1e-12)
    smooth = inside[:, np.abs(low) > 0.05]
    if loss.kind != "step" and loss.name != "huber":
        h = 1e-5
        at = smooth[0][np.abs(smooth[0]) > 0.1]
        numeric = (loss.derivative(at + h) - loss.derivative(at - h)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(at), numeric, rtol=1e-4)


@pytest.mark.parametrize("loss", [loss for loss in LOSS_INSTANCES if loss.needs_prox], ids=repr)
@pytest.mark.parametrize("eps", [1e-6, 0.1, 10.0])
def test_prox_slope_solves_its_equation(loss, eps):
    a = np.array([-30.0, -1.0, -1e-3, 0.0, 1e-9, 0.5, 2.0, 40.0])
    u = loss.prox_slope(a, eps)
    du = loss.prox_curvature(u, eps)
    low, high = loss.subgradient(a - eps * u)
    assert np.all(u >= low - 1e-6 * (1 + np.abs(low))) and np.all(u <= high + 1e-6 * (1 + np.abs(high)))
    assert np.all((du >= 0) & (du <= 1 / eps * (1 + 1e-12)))
    for target, slope in zip(a, u, strict=True):
        best = optimize.minimize_scalar(
            lambda p, t=target: float(loss.value(p)) + (p - t) ** 2 / (2 * eps),
            bounds=(min(target, 0) - 1, max(target, 0) + 1),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert target - eps * slope == pytest.approx(best.x, abs=1e-5 * (1 + abs(target)))


@every_loss
def test_fenchel_gap_is_zero_at_the_slope_and_positive_elsewhere(loss):
    r = GRID[::10]
    assert np.all(loss.fenchel_gap(r, loss.derivative(r)) == 0)
    u = np.clip(loss.derivative(r + 0.3), -loss.slopes[0], loss.slopes[1])
    assert np.all(loss.fenchel_gap(r, u) >= 0)


@every_loss
def test_losses_survive_pickling_and_compare_equal(loss):
    assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.parametrize(
    "make",
    [
        lambda: Quantile(0.0),
        lambda: Quantile(1.5),
        lambda: Huber(-1.0),
        lambda: PseudoHuber(0),
        lambda: LogCosh(np.nan),
        lambda: Linex(np.inf),
        lambda: Power(1.0),
        lambda: Power(2.5),
        lambda: Power("2"),
    ],
)
def test_bad_loss_parameters_are_named(make):
    with pytest.raises(InputError, match="is not allowed: give"):
        make()


def test_the_first_power_is_told_to_be_lad():
    with pytest.raises(InputError, match="or loss='lad'"):
        Power(1)


def test_the_papers_log_cosh_is_that_of_1_with_the_penalty_divided():
    """argmin sum c log(cosh(r) / c) + P |theta|^2 / 2, by another optimiser."""
    drawn = draw("plain", 1, n=30, penalty=0.2, l1_ratio=0.0)
    for c in (0.3, 2.5):

        def objective(theta, c=c):
            r = drawn.y - drawn.X @ theta
            return np.sum(c * np.log(np.cosh(r) / c)) + 0.5 * np.sum(drawn.ridge * theta**2)

        found = optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
        made = minimise(Problem(drawn.X, drawn.y, LogCosh(1.0), drawn.ridge / c, drawn.lasso))
        np.testing.assert_allclose(made.x, found.x, atol=1e-6)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_linex_of_either_sign_is_the_mirror_image_of_the_other(side):
    drawn = draw("plain", 2, n=30, penalty=0.2, l1_ratio=0.5)
    other = {"upper": "lower", "lower": "upper"}[side]
    (one,) = exact(fits_of(drawn, Linex(0.7), False), drawn.new, [0.2], side=side)
    flipped = replace(drawn, y=-drawn.y)
    (two,) = exact(fits_of(flipped, Linex(-0.7), False), drawn.new, [0.2], side=other)
    np.testing.assert_allclose([one.lower, one.upper], [-two.upper, -two.lower], atol=1e-5)
    assert np.isfinite(one.lower[0]) == (side == "lower")  # far responses above drag the fit along


def test_joint_penalties_are_refused_by_name_with_what_to_use_instead():
    for given in ("group lasso", "fused", "nuclear norm", np.linalg.norm):
        with pytest.raises(InputTypeError, match=r"not one of single coefficients.*ElasticNet.*estimator="):
            as_penalty(given)
    with pytest.raises(InputTypeError, match=r"give a number or stabconf\.Ridge\(\.\.\.\)"):
        as_penalty("ridge")
    with pytest.raises(InputTypeError, match="penalty='much' is a str: give a number"):
        as_penalty("much")


def test_names_and_objects_give_losses():
    assert as_loss("huber") == Huber() == as_loss(Huber) == as_loss(Huber())
    with pytest.raises(InputError, match="did you mean 'huber'"):
        as_loss("hubber")
    with pytest.raises(InputTypeError, match="loss=3 is a int"):
        as_loss(3)


def test_penalties_have_values_weights_and_strong_convexity():
    slopes = np.array([False, True, True])
    theta = np.array([1.0, -2.0, 0.5])
    for penalty in (NoPenalty(), Ridge(0.3), ElasticNet(0.3, 0.25)):
        ridge, lasso = penalty.weights(10, slopes)
        expected = (
            10
            * penalty.strength
            * ((1 - penalty.l1_ratio) / 2 * theta @ theta + penalty.l1_ratio * np.abs(theta[1:]).sum())
        )
        assert penalty.value(theta, 10, slopes) == pytest.approx(expected)
        assert np.all(ridge == 10 * penalty.strong_convexity) and lasso[0] == 0
        assert pickle.loads(pickle.dumps(penalty)) == penalty
    assert set(PENALTIES) == {"none", "ridge", "elastic net"}
    assert as_penalty(Ridge(2)) == Ridge(2)
    with pytest.raises(InputError, match=r"l1_ratio=0\.5 goes with a numeric penalty"):
        as_penalty(Ridge(2), l1_ratio=0.5)
