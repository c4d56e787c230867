"""Quantile fits and the conformal band between two of them, against refits of both at candidates."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import KINDS, draw, exact_band, fits_of, plain_fits, stable_band
from referee import conic_minimiser, training_location_scale
from scipy import stats

import stabconf
from stabconf import AssumptionError, DataWarning, InputError, InputTypeError, SampleSizeWarning
from stabconf.losses import Quantile
from stabconf.rank import Peers
from stabconf.sets import BandFits, band_conformity

TERMS = {"two-sided": (-1, 1), "upper": (1,), "lower": (-1,)}


def band_fits(drawn, pair):
    return BandFits(*(fits_of(drawn, Quantile(q)) for q in pair))


def scores(drawn, z, pair, side):
    """Scores of all N rows in scales of the upper fit, both quantiles refitted by clarabel, each in the
    units of its own level."""
    rows, responses = np.vstack([drawn.X, drawn.new]), np.append(drawn.y, z)
    unit = training_location_scale(drawn.y, pair[1])[1]
    terms = []
    for q, sign in zip(pair, (-1, 1), strict=True):
        if sign in TERMS[side]:
            centre, scale = training_location_scale(drawn.y, q)
            v = (responses - centre) / scale
            theta = conic_minimiser(rows, v, Quantile(q), drawn.ridge, drawn.lasso)
            terms.append(sign * scale / unit * (v - rows @ theta))
    return np.max(terms, axis=0)


def p_value(values, slack, peers):
    return float(np.ravel(peers.p(values[:-1] >= values[-1] - slack))[0])


def assert_set_is_exact(drawn, pair, side, alpha, peers=None):
    fits = band_fits(drawn, pair)
    (made,) = exact_band(fits, drawn.new, [alpha], side=side, peers=peers)
    peers = peers or Peers(drawn.n)
    known = [] if np.isnan(made.lower[0]) else [(made.lower[0], made.upper[0])]
    pieces = made.pieces.get(0, known)
    unit = max(fits.scale, training_location_scale(drawn.y, 0.5)[1])
    places = [(end, way) for piece in pieces for end, way in zip(piece, (1, -1), strict=True)]
    for end, inward in places:
        if np.isinf(end):
            continue
        size = max(1.0, abs(end) / unit)
        for step, wanted in ((5e-6 * unit * size, True), (-1e-6 * unit * size, False)):
            z = end + inward * step
            if wanted != any(low <= z <= high for low, high in pieces):
                continue  # a piece or a hole shorter than the step
            p = p_value(scores(drawn, z, pair, side), (1e-6 if wanted else -1e-7) * size, peers)
            assert (p > alpha) == wanted, (end, step, p, pieces)
    middles = [0.5 * (left[1] + right[0]) for left, right in pairwise(pieces)]
    for z in [*np.quantile(drawn.y, [0.1, 0.5, 0.9]), *middles]:
        inside = any(low <= z <= high for low, high in pieces)
        p = p_value(scores(drawn, z, pair, side), 1e-6 if inside else -1e-6, peers)
        assert (p > alpha) == inside, (z, p, pieces)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
    n=st.integers(5, 60),
    p=st.integers(2, 24),
    penalty=st.floats(-3, 1).map(lambda power: 10.0**power),
    l1_ratio=st.sampled_from([0.0, 0.5]),
    pair=st.sampled_from([(0.05, 0.95), (0.1, 0.9), (0.25, 0.5), (0.5, 0.75), (0.9, 0.1)]),
    side=st.sampled_from(["two-sided", "two-sided", "upper", "lower"]),
    alpha=st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5]),
)
def test_ends_of_the_conformal_band_flip_the_p_value(
    kind, seed, n, p, penalty, l1_ratio, pair, side, alpha
):
    """Also where the quantiles cross: (0.9, 0.1) always do."""
    assert_set_is_exact(draw(kind, seed, n, min(p, 2 * n), penalty, l1_ratio), pair, side, alpha)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_bands_of_mostly_tied_responses_have_each_fit_in_the_scale_of_its_own_level(l1_ratio):
    """Counts that are mostly 0: the quartiles tie, and the scale is the mean distance from the centre,
    which differs between the levels."""
    for seed in range(4):
        drawn = draw("tied", seed, n=24, p=3, penalty=0.001, l1_ratio=l1_ratio)
        counts = np.random.default_rng(seed).poisson(0.25, drawn.n).astype(float)
        drawn = replace(drawn, y=2.0 * counts)
        lower, upper = (training_location_scale(drawn.y, q)[1] for q in (0.05, 0.95))
        assert lower != upper
        assert_set_is_exact(drawn, (0.05, 0.95), "two-sided", 0.2)


@pytest.mark.parametrize("side", TERMS)
def test_ends_flip_within_groups_and_with_weights(side):
    rng = np.random.default_rng(4)
    for seed, kind in enumerate(KINDS):
        drawn = draw(kind, seed, n=40, penalty=0.05, l1_ratio=0.0)
        group = np.flatnonzero(rng.random(drawn.n) < 0.5)
        weights = rng.exponential(size=drawn.n)
        peers = Peers(drawn.n, group), Peers(drawn.n, None, weights, np.array([1.5]))
        for each in (*peers, Peers(drawn.n, group, weights[group], np.array([0.5]))):
            assert_set_is_exact(drawn, (0.1, 0.9), side, 0.3, each)


def test_many_rows_at_once_have_the_sets_that_each_has_alone():
    rng = np.random.default_rng(0)
    drawn = draw("heavy", 1, n=400, p=5, penalty=0.01, l1_ratio=0.0)
    fits, rows = band_fits(drawn, (0.05, 0.95)), np.column_stack([np.ones(40), rng.standard_t(3, (40, 4))])
    together = exact_band(fits, rows, [0.1, 0.3], n_jobs=2)
    for i in range(0, 40, 7):
        alone = exact_band(fits, rows[i : i + 1], [0.1, 0.3])
        for a in range(2):
            assert together[a].lower[i] == pytest.approx(alone[a].lower[0], abs=1e-8)
            assert together[a].upper[i] == pytest.approx(alone[a].upper[0], abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", TERMS)
def test_stable_bands_hold_the_exact_ones(kind, side):
    drawn = draw(kind, 2, n=30, penalty=0.3, l1_ratio=0.0)
    fits = band_fits(drawn, (0.1, 0.9))
    (full,) = exact_band(fits, drawn.new, [0.2], side=side)
    for bound in ("norm", "paper"):
        (made,) = stable_band(fits, drawn.new, [0.2], side=side, bound=bound)
        if not np.isnan(full.lower[0]):
            assert made.lower[0] <= full.lower[0] + 1e-9 and full.upper[0] <= made.upper[0] + 1e-9


def test_the_stable_band_is_its_closed_form():
    """q_lo - tau - K and q_hi + tau + K, K the k-th smallest of scores with tau added to either term."""
    drawn, pair = draw("plain", 5, n=30, penalty=0.5, l1_ratio=0.0), (0.2, 0.7)
    fits = BandFits(*(fits_of(drawn, Quantile(q), standardize=False) for q in pair))
    (made,) = stable_band(fits, drawn.new, [0.2])
    norms = np.linalg.norm(np.vstack([drawn.X, drawn.new]), axis=1)
    terms, own, eta = [], [], []
    for q, sign in zip(pair, (-1, 1), strict=True):
        theta = conic_minimiser(drawn.X, drawn.y, Quantile(q), drawn.ridge, drawn.lasso)
        tau = max(q, 1 - q) * norms * norms[-1] / drawn.ridge[0]
        terms.append(sign * (drawn.y - drawn.X @ theta) + tau[:-1])
        own.append(tau[-1])
        eta.append(float(drawn.new[0] @ theta))
    level = np.sort(np.max(terms, axis=0))[int(np.ceil(0.8 * 31 - 1e-9)) - 1]
    wanted = [eta[0] - own[0] - level, eta[1] + own[1] + level]
    assert [made.lower[0], made.upper[0]] == pytest.approx(wanted, abs=1e-5)


def test_conformity_of_the_band_is_the_p_value_of_refits():
    for kind in ("heavy", "tied", "bimodal"):
        drawn, pair = draw(kind, 3, n=35, penalty=0.05, l1_ratio=0.0), (0.1, 0.9)
        fits, z = band_fits(drawn, pair), np.linspace(*np.quantile(drawn.y, [0.02, 0.98]), 15)
        p = band_conformity(fits, drawn.new[0], z, "two-sided", Peers(drawn.n))
        for candidate, value in zip(z, p, strict=True):
            values = scores(drawn, candidate, pair, "two-sided")
            least, most = (p_value(values, slack, Peers(drawn.n)) for slack in (-1e-6, 1e-6))
            assert least - 1e-12 <= value <= most + 1e-12


@pytest.mark.parametrize("z", [-5.0, -0.0689, -0.0688, 1.0, 2.3, 3.0, 4.4, 4.5, 9.0])
def test_quantiles_that_tie_with_the_new_row_are_those_of_smallest_norm(z):
    """Slopes are held at 0, so a quantile of 4 responses is any number between two of them."""
    y = np.array([-0.06883, 2.25626, 4.42328])
    frame = pd.DataFrame({"y": y, "x": [0.0035, -0.0034, 0.0107]})
    made = stabconf.fit_quantiles(
        "y ~ x", frame, quantiles=(0.25, 0.75), penalty=1, l1_ratio=1, standardize=False
    )
    values = np.append(y, z)
    fitted = []
    for k in (1, 3):
        low, high = np.sort(values)[[k - 1, k]]
        fitted.append(np.clip(0.0, low, high))
    scores = np.maximum(fitted[0] - values, values - fitted[1])
    p = np.mean(scores >= scores[-1] - 1e-9)
    assert made.conformity({"x": [-0.0092]}, [z])["p"].item() == pytest.approx(p)


@pytest.mark.slow
def test_coverage_of_the_band_is_within_binomial_error():
    rng = np.random.default_rng(7)
    n, alpha, draws, new, hits = 39, 0.1, 150, 4, 0
    for _ in range(draws):
        x = rng.uniform(0, 3, (n + new, 1))
        y = x[:, 0] + (0.2 + x[:, 0]) * rng.standard_t(3, n + new)
        X = np.column_stack([np.ones(n + new), x - 1.5])
        fits = BandFits(*(plain_fits(X[:n], y[:n], Quantile(q), n * 0.02) for q in (0.05, 0.95)))
        (made,) = exact_band(fits, X[n:], [alpha])
        hits += int(np.sum((made.lower <= y[n:]) & (y[n:] <= made.upper)))
    # As in the coverage test of the exact method; scores of 0 tie, which only adds coverage.
    variance = draws * new * (1 - alpha) * alpha * (1 + (new - 1) / (n + 2))
    low = stats.norm.ppf(1e-4, draws * new * (1 - alpha), np.sqrt(variance))
    assert low <= hits


# Results ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spread():
    rng = np.random.default_rng(3)
    made = pd.DataFrame({"x": rng.uniform(0, 4, 150), "g": rng.choice(["a", "b"], 150)})
    made["y"] = 1.0 + made["x"] + (0.2 + made["x"]) * rng.standard_normal(150)
    made.loc[5, "x"] = np.nan
    return made


@pytest.fixture(scope="module")
def results(spread):
    return stabconf.fit_quantiles("y ~ x + C(g)", spread, quantiles=(0.95, 0.05, 0.5), penalty=0.01)


def test_each_quantile_is_the_minimiser_of_its_own_problem(results, spread):
    data = spread.dropna()
    X = np.column_stack([np.ones(149), (data["g"] == "b").astype(float), data["x"]])
    spreads = [0.5, X[:, 2].std()]  # an indicator counts as a balanced one
    scaled = np.column_stack([np.ones(149), (X[:, 1:] - X[:, 1:].mean(axis=0)) / spreads])
    assert list(results.params.columns) == [0.05, 0.5, 0.95]
    for q in (0.05, 0.5, 0.95):
        centre, scale = training_location_scale(data["y"].to_numpy(), q)
        weights = np.full(3, 149 * 0.01), np.zeros(3)
        theta = conic_minimiser(scaled, (data["y"].to_numpy() - centre) / scale, Quantile(q), *weights)
        np.testing.assert_allclose(results.params_standardized[q], theta, atol=1e-6)
        np.testing.assert_allclose(X @ results.params[q], centre + scale * scaled @ theta, atol=1e-5)


def test_widths_follow_the_data_and_labels_are_kept(results):
    new = pd.DataFrame({"x": [0.5, 3.5, None], "g": ["a", "b", "a"]}, index=["low", "high", "gone"])
    frame = results.get_prediction(new).summary_frame(alpha=0.1)
    assert list(frame.columns) == ["mean", "q0.05", "q0.5", "q0.95", "obs_ci_lower", "obs_ci_upper"]
    width = frame["obs_ci_upper"] - frame["obs_ci_lower"]
    assert width["high"] > 2 * width["low"] and frame.loc["gone"].isna().all()
    assert results.predict(new).loc["gone"].isna().all()
    several = results.conf_int_conformal(new, alpha=[0.1, 0.2])
    np.testing.assert_allclose(several[0.1].to_numpy(), frame[["obs_ci_lower", "obs_ci_upper"]])
    grouped = results.get_prediction(new, groups="g").summary_frame(alpha=0.1)
    assert grouped["group"].tolist()[:2] == ["a", "b"]


def test_one_sided_bands_and_pairs(results, spread):
    new = spread.iloc[:5]
    upper = results.conf_int_conformal(new, alpha=0.1, side="upper")
    assert np.isneginf(upper["lower"]).all() and np.isfinite(upper["upper"]).all()
    inner = results.conf_int_conformal(new, alpha=0.1, pair=(0.05, 0.5))
    assert inner.attrs["pair"] == (0.05, 0.5)
    p = results.conformity(new.iloc[:1], [inner["upper"].iloc[0] - 1e-6], pair=(0.05, 0.5))["p"]
    assert (p > 0.1).all()


def test_crossing_quantiles_are_reported(results):
    beyond = pd.DataFrame({"x": [2.0, -20.0], "g": ["a", "a"]}, index=["in", "out"])
    assert results.crossing(beyond).tolist() == [False, True]
    with pytest.warns(DataWarning, match=r"cross at 1 of 2 rows \(the first out\)"):
        ends = results.conf_int_conformal(beyond, alpha=0.1)
    assert ends.attrs["crossing"] == ["out"]


def test_summary_pickling_and_transduction(results, spread):
    text = str(results.summary(alpha=0.1))
    assert "(pseudo R-squared)" in text and max(map(len, text.splitlines())) <= 80
    again = pickle.loads(pickle.dumps(results))
    new = spread.iloc[:4]
    pd.testing.assert_frame_equal(
        again.conf_int_conformal(new, alpha=0.1), results.conf_int_conformal(new, alpha=0.1)
    )
    assert results.conf_int_conformal(new, alpha=0.1, transductive=True).attrs["transductive"]
    pd.testing.assert_frame_equal(results.resid, -results.fittedvalues.sub(spread.dropna()["y"], axis=0))


def test_an_empty_set_is_named_and_too_few_rows_give_the_whole_line(spread):
    few = spread.dropna().iloc[:8]
    res = stabconf.fit_quantiles("y ~ x", few, quantiles=(0.1, 0.9), penalty=0.1)
    with pytest.warns(SampleSizeWarning, match="8 rows are too few"):
        ends = res.conf_int_conformal(few.iloc[:1], alpha=0.05)
    assert np.isinf(ends.to_numpy()).all()
    whole = stabconf.fit_quantiles("y ~ x", spread, quantiles=(0.05, 0.95), penalty=0.01)
    with pytest.warns(DataWarning, match="cover 5%"):
        ends = whole.conf_int_conformal(spread.dropna().iloc[:20], alpha=0.95)
    assert ends.attrs["empty"] == ends.index[ends["lower"].isna()].tolist()


def test_bad_arguments_are_named_with_their_fix(results, spread):
    for quantiles, message in (
        ([], "is empty"),
        ([0.0, 0.5], "between 0 and 1"),
        (["a"], "give levels between 0 and 1, such as"),
        ([0.1, 0.1], "a level twice"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            stabconf.fit_quantiles("y ~ x", spread, quantiles=quantiles)
    for pair, message in (
        ((0.05, 0.9), "not fitted"),
        ((0.5, 0.05), "not ascending"),
        ("ab", "not a pair"),
    ):
        with pytest.raises((InputError, InputTypeError), match=message):
            results.conf_int_conformal(spread.iloc[:2], pair=pair)
    one = stabconf.fit_quantiles("y ~ x", spread, quantiles=0.9, penalty=0.01)
    with pytest.raises(AssumptionError, match="a band has two"):
        one.conf_int_conformal(spread.iloc[:2])
    assert np.isfinite(one.conf_int_conformal(spread.iloc[:2], side="upper", alpha=0.1)["upper"]).all()
    with pytest.raises(InputError, match="one of norm, paper"):
        results.conf_int_conformal(spread.iloc[:2], method="stable", bound="ball")
    with pytest.raises(InputTypeError, match="option 'tol' is unknown"):
        results.conf_int_conformal(spread.iloc[:2], method="exact", tol=0.1)


def test_a_column_that_is_there_twice_changes_nothing_without_a_penalty(spread):
    doubled = spread.assign(copy=spread["x"])
    twice = stabconf.fit_quantiles("y ~ x + copy", doubled, penalty=0)
    once = stabconf.fit_quantiles("y ~ x", doubled, penalty=0)
    ends = [each.conf_int_conformal(doubled.iloc[:3], alpha=0.2) for each in (twice, once)]
    np.testing.assert_allclose(*ends, atol=1e-7)


def test_a_method_that_bands_do_not_have_is_said_to_be_none_of_theirs(results, spread):
    with pytest.raises(
        InputError, match="method='split' is not for bands of quantiles: give 'auto' or one of"
    ):
        results.conf_int_conformal(spread.iloc[:2], method="split")


def test_p_values_of_bands_refuse_a_response_to_start_from(frame):
    res = stabconf.fit_quantiles("y ~ x1", frame)
    for ask in (
        lambda: res.conformity(frame[:1], [1.0], z_hat=3.0),
        lambda: res.plot_conformity(frame[:1], z_hat=3.0),
    ):
        with pytest.raises(stabconf.InputTypeError, match="z_hat= goes with stability bounds"):
            ask()
