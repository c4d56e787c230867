"""Order statistics: the conformal rank, zones of the response, the k-th smallest of many lines."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referee import augmented_location_scale

from stabconf.response import ceil_rank, location_scale, zones
from stabconf.scores import conformal_rank, kth_of_lines, kth_smallest, p_values


def test_rank_is_guarded_against_floating_point():
    assert (1 - 0.7) * 10 > 3  # what the guard is for
    assert ceil_rank(1 - 0.7, 10) == 3
    assert conformal_rank(0.1, 9) == 9
    assert conformal_rank(1 - 0.9, 9) == 9
    assert conformal_rank(0.05, 18) == 19 > 18


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("n", [5, 19, 20, 37])
def test_p_value_and_order_statistic_are_one_rule(n, alpha):
    rng = np.random.default_rng(n)
    scores = np.round(rng.exponential(size=n), 1)  # with ties
    k = conformal_rank(alpha, n)
    limit = kth_smallest(scores, k)
    for score in np.arange(0.0, 5.0, 0.05):
        assert (p_values(scores, score) > alpha) == (score <= limit)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 400), st.booleans())
def test_kth_of_lines_is_the_sort(seed, n, m, ties):
    rng = np.random.default_rng(seed)
    offset, slope, r = rng.standard_t(2, n), rng.exponential(size=n), rng.standard_t(2, m)
    if ties:
        offset, slope, r = np.round(offset), np.round(slope), np.round(r, 1)
    k = int(rng.integers(1, n + 1))
    expected = np.sort(offset + r[:, None] * slope, axis=1)[:, k - 1]
    np.testing.assert_array_equal(kth_of_lines(offset, slope, k, r), expected)


def test_kth_of_lines_handles_many_lines_and_infinite_moves():
    rng = np.random.default_rng(0)
    offset, slope, r = rng.exponential(size=20000), rng.exponential(size=20000), rng.exponential(size=3000)
    r[5] = np.inf
    got = kth_of_lines(offset, slope, 18000, r)
    assert np.isposinf(got[5])
    for j in (0, 17, 2999):
        assert got[j] == np.sort(offset + r[j] * slope)[17999]
    assert np.all(np.isposinf(kth_of_lines(offset, slope, 20001, r)))


@pytest.mark.parametrize("level", [0.5, 0.1, 0.25, 0.9, None])
@pytest.mark.parametrize("kind", ["normal", "ties", "bimodal", "constant", "few"])
def test_zones_cover_the_line_with_the_augmented_location_and_scale(kind, level):
    rng = np.random.default_rng(3)
    y = {
        "normal": rng.standard_normal(30),
        "ties": np.round(rng.standard_normal(25)),
        "bimodal": np.append(rng.standard_normal(12), 50 + rng.standard_normal(12)),
        "constant": np.full(8, 2.0),
        "few": np.array([0.0, 1.0]),
    }[kind]
    pieces = zones(y, level)
    assert pieces[0].lower == -np.inf and pieces[-1].upper == np.inf
    for left, right in pairwise(pieces):
        assert left.upper == right.lower
    for piece in pieces:
        low, high = max(piece.lower, -200.0), min(piece.upper, 200.0)
        for z in np.linspace(low, high, 7)[1:-1]:
            centre, scale = augmented_location_scale(np.append(y, z), level)
            if piece.keep:
                continue
            assert piece.centres[0] - 1e-12 <= centre <= piece.centres[1] + 1e-12
            assert min(piece.scales) - 1e-12 <= scale <= max(piece.scales) + 1e-12
            if not piece.is_gap:
                assert (piece.centre, piece.scale) == pytest.approx((centre, scale), abs=1e-12)


def test_location_and_scale_are_equivariant():
    rng = np.random.default_rng(0)
    y = rng.standard_t(2, 41)
    centre, scale = location_scale(y)
    moved = location_scale(3.0 + 2.0 * y)
    assert moved == pytest.approx((3.0 + 2.0 * centre, 2.0 * scale))
    assert location_scale(np.full(5, 7.0)) == (7.0, 1.0)
    assert location_scale(y, None)[0] == 0.0
