"""Residuals divided by a scale, learned on all the data or fixed, against refits of both regressions."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import KINDS, draw, zone_fits
from referee import augmented_location_scale, conic_minimiser
from scipy import stats

import stabconf
from stabconf import AssumptionError
from stabconf.conformal import FixedScale, LearnedScale, exact
from stabconf.conformal.scaled import exact_scaled, stable_scaled
from stabconf.losses import LAD, Huber, LogCosh, PseudoHuber, Quantile, Squared
from stabconf.scores import Peers

FLOOR = 0.01


def scores(drawn, z, loss, scale, side):
    """Scores of all N rows: a regression of the response, one of the residuals' sizes, by clarabel."""
    rows, responses = np.vstack([drawn.X, drawn.new]), np.append(drawn.y, z)
    centre, unit = augmented_location_scale(responses, loss.level)
    v = (responses - centre) / unit
    r = v - rows @ conic_minimiser(rows, v, loss, drawn.ridge, drawn.lasso)
    if isinstance(scale, FixedScale):
        sigma = np.append(scale.trained, scale.new)
    else:
        columns = np.vstack([scale.trained, scale.new])
        mean, spread = scale.trained[:, 1:].mean(axis=0), scale.trained[:, 1:].std(axis=0)
        columns[:, 1:] = (columns[:, 1:] - mean) / np.where(spread > 0, spread, 1.0)
        q = columns.shape[1]
        phi = conic_minimiser(columns, np.abs(r), loss, drawn.ridge[:q], drawn.lasso[:q])
        sigma = np.maximum(columns @ phi, FLOOR)
    return {"two-sided": np.abs(r), "upper": r, "lower": -r}[side] / sigma


def p_value(values, slack, peers):
    slack = slack * max(1.0, abs(values[-1]))
    return float(np.ravel(peers.p(values[:-1] >= values[-1] - slack))[0])


def assert_hull_is_exact(drawn, loss, scale, side, alpha, peers=None):
    fits = zone_fits(drawn, loss)
    (made,) = exact_scaled(fits, drawn.new, [alpha], scale, side=side, peers=peers)
    if any(zone.keep for zone in fits.zones):
        return
    peers = peers or Peers(drawn.n)
    low, high = made.lower[0], made.upper[0]
    unit = max(fits.scale, augmented_location_scale(drawn.y, 0.5)[1])
    for end, inward in ((low, 1), (high, -1)):
        if not np.isfinite(end):
            continue
        size = max(1.0, abs(end) / unit)
        outside = scores(drawn, end - inward * 2e-6 * unit * size, loss, scale, side)
        assert p_value(outside, -1e-6, peers) <= alpha, (end, low, high)
        if side == "two-sided":  # an end may be a single point, where a score ties
            steps = (1e-5 * unit * size, 0.0, 1e-9)
            inside = [scores(drawn, end + inward * step, loss, scale, side) for step in steps]
            assert max(p_value(values, 1e-5, peers) for values in inside) > alpha, (end, low, high)
    for z in np.quantile(drawn.y, [0.0, 0.1, 0.5, 0.9, 1.0]):
        if not low <= z <= high:
            assert p_value(scores(drawn, z, loss, scale, side), -1e-6, peers) <= alpha


@pytest.mark.slow
@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from([kind for kind in KINDS if kind != "wide"]),
    seed=st.integers(0, 10_000),
    n=st.integers(8, 60),
    p=st.integers(2, 6),
    penalty=st.floats(-3, 1).map(lambda power: 10.0**power),
    loss=st.sampled_from([LAD(), LAD(), Quantile(0.3), Quantile(0.8)]),
    columns=st.integers(1, 6),
    side=st.sampled_from(["two-sided", "two-sided", "upper", "lower"]),
    alpha=st.sampled_from([0.1, 0.2, 0.3, 0.5]),
)
def test_ends_with_a_learned_scale_flip_the_p_value(kind, seed, n, p, penalty, loss, columns, side, alpha):
    drawn = draw(kind, seed, n, p, penalty, l1_ratio=0.0)
    scale = LearnedScale(drawn.X[:, :columns], drawn.new[:, :columns])
    assert_hull_is_exact(drawn, loss, scale, side, alpha)


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal", "unscaled"])
def test_ends_with_a_fixed_scale_flip_the_p_value(kind, side):
    rng = np.random.default_rng(1)
    drawn = draw(kind, 4, n=40, penalty=0.02, l1_ratio=0.0)
    scale = FixedScale(rng.uniform(0.2, 3.0, drawn.n), np.array([0.7]))
    for loss in (LAD(), Quantile(0.7)):
        assert_hull_is_exact(drawn, loss, scale, side, 0.2)


def test_learned_scales_within_groups_and_with_weights():
    rng = np.random.default_rng(4)
    for seed in range(4):
        drawn = draw("heavy", seed, n=40, penalty=0.05, l1_ratio=0.0)
        scale = LearnedScale(drawn.X[:, :2], drawn.new[:, :2])
        group, weights = np.flatnonzero(rng.random(40) < 0.6), rng.exponential(size=40)
        for peers in (Peers(40, group), Peers(40, None, weights, np.array([1.2]))):
            assert_hull_is_exact(drawn, LAD(), scale, "two-sided", 0.3, peers)


def test_a_constant_fixed_scale_changes_nothing():
    drawn = draw("heavy", 8, n=60, penalty=0.02, l1_ratio=0.0)
    fits = zone_fits(drawn, LAD())
    plain = exact(fits, drawn.new, [0.1])[0]
    (made,) = exact_scaled(fits, drawn.new, [0.1], FixedScale(np.full(60, 3.0), np.full(1, 3.0)))
    assert [made.lower[0], made.upper[0]] == pytest.approx([plain.lower[0], plain.upper[0]], abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", [Huber(), LogCosh(), PseudoHuber(1.0), Squared()], ids=lambda loss: loss.describe()
)
@pytest.mark.parametrize("side", ["two-sided", "upper"])
def test_enclosures_of_smooth_losses_hold_the_set(loss, side):
    for seed, kind in enumerate(["plain", "heavy", "tied", "bimodal", "unscaled"]):
        drawn = draw(kind, seed, n=60, p=3, penalty=0.1, l1_ratio=0.0)
        fits, scale = zone_fits(drawn, loss), LearnedScale(drawn.X[:, :2], drawn.new[:, :2])
        (made,) = stable_scaled(fits, drawn.new, [0.2], scale, side=side)
        low, high = made.lower[0], made.upper[0]
        reach = np.ptp(drawn.y)
        outside = [low - 1e-3 * reach, low - reach, high + 1e-3 * reach, high + reach]
        for z in [z for z in outside if np.isfinite(z)]:
            assert p_value(scores(drawn, z, loss, scale, side), -1e-6, Peers(60)) <= 0.2


def test_enclosures_of_squared_loss_end_where_the_p_value_flips():
    for seed, kind in enumerate(["plain", "heavy", "unscaled"]):
        drawn = draw(kind, seed, n=60, p=3, penalty=0.1, l1_ratio=0.0)
        fits, sizes = zone_fits(drawn, Squared()), np.random.default_rng(seed).uniform(0.5, 2.0, 61)
        learned = LearnedScale(drawn.X[:, :2], drawn.new[:, :2])
        for scale in (learned, FixedScale(sizes[:60], sizes[60:])):
            (made,) = stable_scaled(fits, drawn.new, [0.2], scale)
            for end, inward in ((made.lower[0], 1), (made.upper[0], -1)):
                for step, wanted in ((1e-4, True), (-1e-4, False)):
                    z = end + step * inward * np.ptp(drawn.y)
                    values = scores(drawn, z, Squared(), scale, "two-sided")
                    assert (p_value(values, 1e-5 * np.sign(step), Peers(60)) > 0.2) == wanted


@pytest.mark.slow
def test_coverage_with_a_learned_scale_is_within_binomial_error():
    rng = np.random.default_rng(11)
    n, alpha, draws, new, hits = 29, 0.1, 100, 4, 0
    for _ in range(draws):
        data = pd.DataFrame({"x": rng.uniform(0, 3, n + new)})
        data["y"] = data["x"] + (0.2 + data["x"]) * rng.standard_t(3, n + new)
        res = stabconf.fit("y ~ x", data.iloc[:n], loss="lad", penalty=0.02)
        ends, y = res.conf_int_conformal(data.iloc[n:], alpha=alpha, scale="~ x"), data["y"].iloc[n:]
        hits += int(((ends["lower"] <= y) & (y <= ends["upper"])).sum())
    variance = draws * new * (1 - alpha) * alpha * (1 + (new - 1) / (n + 2))
    assert hits >= stats.norm.ppf(1e-4, draws * new * (1 - alpha), np.sqrt(variance))


def test_widths_follow_a_learned_scale_and_the_frame_carries_it():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(0, 4, 200)})
    data["y"] = data["x"] + (0.1 + data["x"]) * rng.standard_normal(200)
    new = pd.DataFrame({"x": [0.5, 3.5, None]})
    res = stabconf.fit("y ~ x", data, loss="lad", penalty=0.01)
    frame = res.get_prediction(new, scale="~ x").summary_frame(alpha=0.1)
    width = frame["obs_ci_upper"] - frame["obs_ci_lower"]
    assert width[1] > 3 * width[0] and frame["scale"][1] > 3 * frame["scale"][0]
    assert frame.attrs["method"] == "exact" and np.isnan(frame["scale"][2])
    own = res.conf_int_conformal(new, alpha=0.1, scale=True)
    np.testing.assert_allclose(own.to_numpy(), frame[["obs_ci_lower", "obs_ci_upper"]].to_numpy())
    huber = stabconf.fit("y ~ x", data, loss="huber", penalty=0.05)
    assert huber.conf_int_conformal(new, alpha=0.1, scale="~ x").attrs["method"] == "stable"


def test_scales_that_cannot_be_used_are_refused_with_a_fix():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(0, 4, 60)})
    data["y"] = data["x"] + rng.standard_normal(60)

    def ask(loss, **options):
        return stabconf.fit("y ~ x", data, loss=loss, penalty=0.1).conf_int_conformal(
            data.iloc[:2], alpha=0.2, scale="~ x", **options
        )

    with pytest.raises(AssumptionError, match="use method='exact'"):
        ask("lad", method="stable")
    with pytest.raises(AssumptionError, match="LAD and quantile loss"):
        ask("huber", method="exact")
    with pytest.raises(AssumptionError, match="slope is bounded"):
        ask("power")
    with pytest.raises(AssumptionError, match="score='absolute'"):
        ask("huber", score="dual")
    with pytest.raises(AssumptionError, match="method='exact'"):
        ask("lad", method="root")
