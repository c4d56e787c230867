"""Order statistics: the conformal rank, units of the response, the k-th smallest of many lines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stabconf.data.units import location_scale
from stabconf.rank import Peers, Rank, ceil_rank, conformal_rank, kth_of_lines, kth_smallest


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
        assert (Peers(len(scores)).p(scores >= score) > alpha) == (score <= limit)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 400), st.booleans())
def test_kth_of_lines_is_the_sort(seed, n, m, ties):
    rng = np.random.default_rng(seed)
    offset, slope, r = rng.standard_t(2, n), rng.exponential(size=n), rng.standard_t(2, m)
    if ties:
        offset, slope, r = np.round(offset), np.round(slope), np.round(r, 1)
    k = int(rng.integers(1, n + 1))
    expected = np.sort(offset + r[:, None] * slope, axis=1)[:, k - 1]
    np.testing.assert_array_equal(kth_of_lines(offset, slope, Rank(k), r), expected)


def test_kth_of_lines_handles_many_lines_and_infinite_moves():
    rng = np.random.default_rng(0)
    offset, slope, r = rng.exponential(size=20000), rng.exponential(size=20000), rng.exponential(size=3000)
    r[5] = np.inf
    got = kth_of_lines(offset, slope, Rank(18000), r)
    assert np.isposinf(got[5])
    for j in (0, 17, 2999):
        assert got[j] == np.sort(offset + r[j] * slope)[17999]
    assert np.all(np.isposinf(kth_of_lines(offset, slope, Rank(20001), r)))


def test_location_and_scale_are_equivariant():
    rng = np.random.default_rng(0)
    y = rng.standard_t(2, 41)
    centre, scale = location_scale(y)
    moved = location_scale(3.0 + 2.0 * y)
    assert moved == pytest.approx((3.0 + 2.0 * centre, 2.0 * scale))
    assert location_scale(np.full(5, 7.0)) == (7.0, 1.0)
    assert location_scale(y, None)[0] == 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_ranks_of_peers_are_their_p_values_turned_round(grouped, weighted):
    rng = np.random.default_rng(5)
    for trial in range(30):
        n, alpha = 25, float(rng.choice([0.05, 0.1, 0.3, 0.5]))
        scores = np.round(rng.exponential(size=n), 1)
        which = np.flatnonzero(rng.random(n) < 0.6) if grouped else None
        rows = np.arange(n) if which is None else which
        weights = rng.integers(0, 4, len(rows)) / 2.0 if weighted else None
        own = rng.exponential(size=3) if weighted else None
        peers = Peers(n, which, weights, own)
        mass = np.ones(len(rows)) if weights is None else weights
        for new in np.arange(0.0, 5.0, 0.1):
            above = scores >= new
            by_hand = [
                (w + mass @ above[rows]) / (np.sum(mass) + w) for w in (np.ones(1) if own is None else own)
            ]
            np.testing.assert_allclose(np.broadcast_to(peers.p(above), len(by_hand)), by_hand)
            limit = peers.rank(alpha).kth(np.tile(scores, (3, 1)) if weighted else scores)
            inside = np.broadcast_to(new <= limit, len(by_hand))
            np.testing.assert_array_equal(inside, np.array(by_hand) > alpha + 1e-11, err_msg=f"{trial}")
        is_open = np.broadcast_to(peers.open(alpha), len(by_hand))
        np.testing.assert_array_equal(is_open, np.broadcast_to(np.isinf(limit), len(by_hand)))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_window_of_rows_keeps_the_order_statistic(weighted):
    rng = np.random.default_rng(7)
    for _ in range(50):
        n = 40
        low = rng.standard_normal(n)
        high = low + 0.3 * rng.random(n)
        which = np.flatnonzero(rng.random(n) < 0.8)
        rank = Rank(int(rng.integers(1, len(which) + 1)), which)
        if weighted:
            weights = rng.exponential(size=len(which))
            rank = Rank(weights.sum() * rng.uniform(0.1, 0.9, 5), which, weights)
        values = low + (high - low) * rng.random((5, n))
        rows, narrow = rank.window(low, high)
        assert len(rows) < len(which)
        np.testing.assert_array_equal(narrow.kth(values[:, rows]), rank.kth(values))


def test_peers_among_some_rows_are_ranked_as_those_rows_alone():
    rng = np.random.default_rng(3)
    scores, weights, own = rng.random(30), rng.random(30), rng.random(4)
    held = rng.permutation(30)[:17]
    for which in (None, np.arange(0, 30, 2)):
        rows = held if which is None else held[held % 2 == 0]
        among = Peers(30, which).among(held)
        assert among.size == len(rows)
        assert among.rank(0.3).kth(scores[held]) == Rank(conformal_rank(0.3, len(rows))).kth(scores[rows])
        own_weights = weights if which is None else weights[which]
        among = Peers(30, which, own_weights, own).among(held)
        alone = Peers(len(rows), None, weights[rows], own)
        np.testing.assert_array_equal(among.rank(0.3).kth(scores[held]), alone.rank(0.3).kth(scores[rows]))


def test_the_first_rows_that_have_the_mass_end_at_the_order_statistic():
    rng = np.random.default_rng(4)
    values, weights = rng.random(20), rng.random(20)
    for rank in (Rank(7), Rank(3, np.arange(5, 15)), Rank(np.array([1.0, 4.0]), None, weights)):
        rows, last = rank.first(values)
        np.testing.assert_array_equal(values[rows][last], rank.kth(values))
    assert np.isinf(Rank(99.0, None, weights).kth(values))
    assert Rank(99.0, None, weights).within().kth(values) == np.max(values)
