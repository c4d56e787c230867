"""Residuals divided by a scale that is known beforehand, against refits; learned scales with all rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import KINDS, draw, exact, fits_of, stable
from referee import refit

import stabconf
from stabconf import AssumptionError
from stabconf.losses import LAD, Huber, LogCosh, PseudoHuber, Quantile, Squared
from stabconf.rank import Peers
from stabconf.sets import FixedScale
from stabconf.stability import default_bound

LOSSES = [LAD(), Quantile(0.3), Huber(), Squared(), PseudoHuber(1.0)]


def p_value(drawn, z, loss, scale, side, peers, slack):
    r, _, _, unit = refit(drawn.X, drawn.y, drawn.new, z, loss, drawn.ridge, drawn.lasso)
    sigma = np.append(scale.trained, scale.new)
    scores = {"two-sided": np.abs(r), "upper": r, "lower": -r}[side] / sigma
    slack = slack * unit * max(1.0, abs(scores[-1]) / unit)
    return float(np.ravel(peers.p(scores[:-1] >= scores[-1] - slack))[0])


def assert_set_is_exact(drawn, loss, scale, side, alpha, peers=None):
    (made,) = exact(fits_of(drawn, loss), drawn.new, [alpha], side=side, scale=scale, peers=peers)
    peers = peers or Peers(drawn.n)
    pieces = made.pieces.get(0, [] if np.isnan(made.lower[0]) else [(made.lower[0], made.upper[0])])
    unit = fits_of(drawn, loss).scale
    steps = (1e-5, 5e-6) if loss.kind != "bending" else (3e-5, 1e-5)
    for end, inward in [(end, way) for piece in pieces for end, way in zip(piece, (1, -1), strict=True)]:
        if not np.isfinite(end):
            continue
        size = unit * max(1.0, abs(end) / unit)
        inside = max(steps[0] * size, made.tol[0])  # by which an end may be outside of the exact one
        for step, slack, wanted in ((inside, 1e-6, True), (-steps[1] * size, -1e-6, False)):
            z = end + inward * step
            room = 0.999 * step if wanted else 0.0  # the other end may be outside by as much
            if wanted == any(low <= z - room and z + room <= high for low, high in pieces):
                p = p_value(drawn, z, loss, scale, side, peers, slack)
                assert (p > alpha) == wanted, (end, step, p, pieces)
    for z in np.quantile(drawn.y, [0.0, 0.1, 0.5, 0.9, 1.0]):
        if not any(low <= z <= high for low, high in pieces):
            assert p_value(drawn, z, loss, scale, side, peers, -1e-6) <= alpha


@pytest.mark.slow
@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    n=st.integers(8, 50),
    p=st.integers(2, 60),
    penalty=st.floats(-3, 1).map(lambda power: 10.0**power),
    loss=st.sampled_from(LOSSES),
    side=st.sampled_from(["two-sided", "two-sided", "upper", "lower"]),
    alpha=st.sampled_from([0.1, 0.2, 0.3, 0.5]),
)
def test_ends_with_a_fixed_scale_flip_the_p_value(kind, seed, n, p, penalty, loss, side, alpha):
    drawn = draw(kind, seed, n, min(p, 2 * n), penalty, l1_ratio=0.0)
    sizes = np.random.default_rng(seed).uniform(0.2, 3.0, drawn.n + 1)
    assert_set_is_exact(drawn, loss, FixedScale(sizes[:-1], sizes[-1:]), side, alpha)


def test_fixed_scales_within_groups_and_with_weights():
    rng = np.random.default_rng(4)
    for seed in range(4):
        drawn = draw("heavy", seed, n=40, penalty=0.05, l1_ratio=0.0)
        scale = FixedScale(rng.uniform(0.2, 3.0, 40), np.array([0.7]))
        group, weights = np.flatnonzero(rng.random(40) < 0.6), rng.exponential(size=40)
        for peers in (Peers(40, group), Peers(40, None, weights, np.array([1.2]))):
            for loss in LOSSES[:4]:
                assert_set_is_exact(drawn, loss, scale, "two-sided", 0.3, peers)


@pytest.mark.parametrize("loss", [*LOSSES, LogCosh()], ids=lambda loss: loss.describe())
def test_a_constant_fixed_scale_changes_nothing(loss):
    drawn = draw("plain", 8, n=60, penalty=0.02, l1_ratio=0.0)
    fits, scale = fits_of(drawn, loss), FixedScale(np.full(60, 3.0), np.full(1, 3.0))
    plain, made = exact(fits, drawn.new, [0.1])[0], exact(fits, drawn.new, [0.1], scale=scale)[0]
    assert [made.lower[0], made.upper[0]] == pytest.approx([plain.lower[0], plain.upper[0]], abs=1e-5)


@pytest.mark.parametrize("loss", [*LOSSES, LogCosh()], ids=lambda loss: loss.describe())
def test_stable_sets_with_a_fixed_scale_enclose_the_exact_ones(loss):
    for seed, kind in enumerate(["plain", "heavy", "tied", "bimodal", "wide"]):
        drawn = draw(kind, seed, n=60, p=3, penalty=0.1, l1_ratio=0.0)
        sizes = np.random.default_rng(seed).uniform(0.3, 3.0, drawn.n + 1)
        scale, fits = FixedScale(sizes[:-1], sizes[-1:]), fits_of(drawn, loss)
        for side in ("two-sided", "upper", "lower"):
            (sharp,) = exact(fits, drawn.new, [0.2], side=side, scale=scale)
            bound = default_bound(loss)
            made = stable(fits, drawn.new, 0.2, side=side, bound=bound, scale=scale, inner=True)
            near = 3e-6 * fits.scale
            assert made.lower[0] <= sharp.lower[0] + near and sharp.upper[0] <= made.upper[0] + near
            if not np.isnan(made.inner_lower[0]):
                assert sharp.lower[0] <= made.inner_lower[0] + near
                assert made.inner_upper[0] <= sharp.upper[0] + near


def test_a_scale_learned_on_all_the_data_is_refused_and_the_error_says_what_to_use():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(0, 4, 60)})
    data["y"] = data["x"] + rng.standard_normal(60)
    res = stabconf.fit("y ~ x", data)
    for scale in ("~ x", True):
        for method in ("auto", "exact", "stable", "root"):
            with pytest.raises(AssumptionError, match="method='split', 'cv\\+' or 'jackknife\\+'"):
                res.conf_int_conformal(data.iloc[:2], alpha=0.2, scale=scale, method=method)
        for method in ("split", "cv+", "jackknife+"):
            ends = res.conf_int_conformal(data.iloc[:2], alpha=0.2, scale=scale, method=method)
            assert np.isfinite(ends.to_numpy()).all()
