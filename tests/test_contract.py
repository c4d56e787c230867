"""Every registered loss keeps what it declares: slopes, smoothness, curvature, where its slope bends."""

import numpy as np
import pytest

from stabconf.losses import LOSSES, Linex, LogCosh, Power, PseudoHuber, Quantile

INSTANCES = [
    *(made() for made in LOSSES.values()),
    *(Quantile(0.9), Linex(-0.7), Linex(2.0), Power(1.1), Power(2.0), LogCosh(0.2), PseudoHuber(3.0)),
]
RANGE = np.linspace(-6, 6, 4001)


@pytest.fixture(params=INSTANCES, ids=lambda loss: loss.describe())
def loss(request):
    return request.param


def test_slopes_lie_in_the_declared_range_and_grow(loss):
    slope = loss.derivative(RANGE)
    down, up = loss.slopes
    assert np.all(np.diff(slope) >= -1e-12)
    assert -down - 1e-12 <= slope.min() and slope.max() <= up + 1e-12
    assert loss.lipschitz == max(down, up)


def test_the_kind_says_what_the_slope_is(loss):
    down, up = loss.slopes
    away = RANGE[np.abs(RANGE) > 1e-9]
    shapes = {"step": np.where(away > 0, up, -down), "line": np.clip(away, -down, up)}
    kinds = [kind for kind, shape in shapes.items() if np.array_equal(loss.derivative(away), shape)]
    assert kinds == ([] if loss.kind == "bending" else [loss.kind])


def test_slopes_are_those_of_the_value(loss):
    step = 1e-6
    away = np.abs(RANGE) > 2 * step
    made = (loss.value(RANGE + step) - loss.value(RANGE - step)) / (2 * step)
    np.testing.assert_allclose(made[away], loss.derivative(RANGE)[away], rtol=1e-4, atol=1e-4)


def test_the_slope_changes_no_faster_than_the_smoothness(loss):
    steepest = np.max(np.diff(loss.derivative(RANGE)) / np.diff(RANGE))
    assert steepest <= loss.smoothness * (1 + 1e-9)


def test_curvature_over_an_interval_lies_between_its_declared_bounds_inside_too(loss):
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = np.sort(rng.uniform(-5, 5, 2))
        least, most = (float(bound(low, high)) for bound in (loss.min_curvature, loss.max_curvature))
        inside = np.linspace(low, high, 50)
        chords = np.diff(loss.derivative(inside)) / np.diff(inside)
        assert np.all(chords >= least - 1e-6 * max(1.0, least))
        assert np.all(chords <= most + 1e-6 * max(1.0, most) if np.isfinite(most) else True)


def test_the_slope_is_convex_or_concave_on_each_side_of_zero(loss):
    assert loss.bends_once
    for side in (RANGE[RANGE > 0.01], RANGE[RANGE < -0.01]):
        bends = np.diff(loss.derivative(side), 2)
        scale = max(np.max(np.abs(loss.derivative(side))), 1e-12)
        assert np.all(bends >= -1e-9 * scale) or np.all(bends <= 1e-9 * scale)


def test_a_loss_in_another_unit_is_a_multiple_of_a_loss_of_its_kind(loss):
    for unit in (1e-6, 0.3, 50.0):
        made, factor = loss.rescaled(unit)
        r = np.linspace(-2, 2, 41) / max(1.0, unit)
        np.testing.assert_allclose(loss.value(unit * r), factor * made.value(r), rtol=1e-6, atol=1e-12)


def test_inverse_slopes_invert_slopes(loss):
    if loss.kind == "step" or loss.name == "huber":
        return
    r = np.linspace(-1, 1, 61)
    np.testing.assert_allclose(loss.inverse_derivative(loss.derivative(r)), r, atol=1e-6)
