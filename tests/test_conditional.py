"""Coverage along a formula: thresholds and sets against refits of both regressions by another solver."""

from dataclasses import replace

import numpy as np
import pytest
from problems import draw, fits_of
from referee import refit
from scipy import optimize

from stabconf.losses import LAD, Huber, Quantile
from stabconf.rank import Peers
from stabconf.sets import BandFits, Request
from stabconf.sets.conditional import conditional_band, conditional_set
from stabconf.sets.score import DIRECTIONS, SIDES
from stabconf.sets.thresholds import Along, Scores

NEAR = 1e-4  # of the scale: how far inside and outside of an end the referee looks
LEVELS = [0.05, 0.1, 0.2, 0.3]


def excess(Phi, scores, alpha):
    """How far the last score is above the quantile regression of all of them, by linear programming.

    Where several fits tie the lowest is meant: the level is lowered by a hair.
    """
    level, (n, d) = 1.0 - alpha - 1e-7, Phi.shape
    cost = np.concatenate([np.zeros(d), np.full(n, level), np.full(n, 1.0 - level)])
    parts = np.hstack([Phi, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    sharp = {"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10}
    found = optimize.linprog(cost, A_eq=parts, b_eq=scores, bounds=bounds, options=sharp)
    assert found.status == 0, found.message
    return scores[-1] - Phi[-1] @ found.x[:d]


def drawn_design(kind, rng, x, x_new):
    """A design of n rows and one new row: groups, a line, or overlapping groups with a curve."""
    n = len(x)
    if kind == "groups":
        g = rng.integers(0, 3, n)
        return np.column_stack([np.ones(n), g == 1, g == 2]).astype(float), np.array([[1.0, 0.0, 1.0]])
    if kind == "line":
        return np.column_stack([np.ones(n), x]), np.array([[1.0, x_new]])
    if kind == "twice":  # columns that depend on each other
        return np.column_stack([np.ones(n), x > 0, x <= 0, x]), np.array(
            [[1.0, x_new > 0, x_new <= 0, x_new]]
        )
    made = [np.column_stack([np.ones(len(v)), v, v**2, v > 0.3]) for v in (x, np.array([x_new]))]
    return made[0], made[1]


DESIGNS = ["groups", "line", "twice", "curve"]


@pytest.mark.parametrize("kind", DESIGNS)
@pytest.mark.parametrize("alpha", LEVELS)
def test_the_threshold_is_the_largest_score_that_a_refit_keeps(kind, alpha):
    for seed in range(12):
        rng = np.random.default_rng([seed, DESIGNS.index(kind)])
        n = int(rng.integers(8, 60))
        scores = np.abs(rng.standard_normal(n))
        if seed % 3 == 0:
            scores = np.round(scores, 1)  # ties
        Phi, new = drawn_design(kind, rng, rng.standard_normal(n), float(rng.standard_normal()))
        (most,) = Along(Phi, new).thresholds(Scores.fixed(scores, 1), alpha)
        every = np.vstack([Phi, new])
        if np.isinf(most):
            assert excess(every, np.append(scores, 1e5), alpha) <= 1e-6
            continue
        assert excess(every, np.append(scores, most - 1e-6), alpha) <= 1e-9
        assert excess(every, np.append(scores, most + 1e-6), alpha) > 1e-9


@pytest.mark.parametrize("n", [8, 9, 19, 20, 99, 100])
@pytest.mark.parametrize("alpha", LEVELS)
def test_along_an_intercept_the_threshold_is_the_order_statistic(n, alpha):
    scores = np.abs(np.random.default_rng(n).standard_normal(n))
    (most,) = Along(np.ones((n, 1)), np.ones((1, 1))).thresholds(Scores.fixed(scores, 1), alpha)
    assert most == pytest.approx(float(Peers(n).rank(alpha).kth(scores)), abs=1e-9)


def test_watching_few_rows_gives_what_watching_all_does():
    rng = np.random.default_rng(4)
    n, m = 3000, 40
    Phi = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
    new = np.column_stack([np.ones(m), rng.standard_normal((m, 3))])
    base, moves = np.abs(rng.standard_normal(n)), 0.1 * rng.standard_normal((m, n))
    scores = np.abs(base + moves)
    length = np.abs(moves).max(axis=1)
    made = Along(Phi, new).thresholds(
        Scores(base, np.ones(n), length, lambda some, rows: scores[np.ix_(some, rows)]), 0.1
    )
    for i in range(m):
        alone = Along(Phi, new[i : i + 1]).thresholds(Scores.fixed(scores[i], 1), 0.1)
        assert made[i] == pytest.approx(alone[0], abs=1e-9)


def assert_ends_flip(drawn, alpha, made, fits, scores_at, Phi, new):
    """Just inside of both ends responses are in the set, just outside they are out."""
    every = np.vstack([Phi, new])
    for end, way in ((made.lower[0], -1), (made.upper[0], 1)):
        if not np.isfinite(end):
            continue
        outside = excess(every, scores_at(end + way * NEAR * fits.scale), alpha)
        assert outside > 1e-7, (end, outside)
        if np.max(made.tol) == 0.0:  # the end itself, for a set may end in a single point
            at_end = excess(every, scores_at(end), alpha)
            inside = excess(every, scores_at(end - way * NEAR * fits.scale), alpha)
            assert min(at_end, inside) <= 1e-7, (end, at_end, inside)


@pytest.mark.parametrize("loss", [LAD(), Quantile(0.7), Huber()], ids=lambda loss: loss.describe())
@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal"])
@pytest.mark.parametrize("side", list(SIDES))
def test_ends_flip_where_a_refit_of_both_regressions_says_so(loss, kind, side):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        drawn = draw(kind, seed, n=int(rng.integers(20, 50)), l1_ratio=0.0)
        fits, alpha = fits_of(drawn, loss), float(rng.choice(LEVELS[1:]))
        Phi, new = drawn_design(DESIGNS[seed % 4], rng, drawn.X[:, 1], float(drawn.new[0, 1]))
        asked = replace(
            Request.of(fits, drawn.new, [alpha], side=side), along=Along(Phi, new.astype(float))
        )
        (made,) = conditional_set(fits, asked)

        def scores_at(z, drawn=drawn, fits=fits):
            v, w = fits.responses(drawn.y), float(fits.responses(z))
            r = refit(drawn.X, v, drawn.new, w, loss, drawn.ridge, drawn.lasso)[0]
            r = np.where(np.abs(r) < 1e-7, 0.0, r)  # what optimality says is 0
            return SIDES[side] * r if SIDES[side] else np.abs(r)

        assert_ends_flip(drawn, alpha, made, fits, scores_at, Phi, new)


@pytest.mark.parametrize("kind", ["plain", "heavy", "tied", "bimodal"])
@pytest.mark.parametrize("side", list(SIDES))
def test_ends_of_bands_flip_where_refits_say_so(kind, side):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        drawn = draw(kind, seed, n=int(rng.integers(20, 50)), l1_ratio=0.0)
        pair, alpha = [(0.1, 0.9), (0.2, 0.8), (0.05, 0.6)][seed % 3], float(rng.choice(LEVELS[1:]))
        band = BandFits(*(fits_of(drawn, Quantile(level)) for level in pair))
        Phi, new = drawn_design(DESIGNS[seed % 4], rng, drawn.X[:, 1], float(drawn.new[0, 1]))
        asked = replace(
            Request.of(band, drawn.new, [alpha], side=side), along=Along(Phi, new.astype(float))
        )
        (made,) = conditional_band(band, asked)

        def scores_at(z, drawn=drawn, band=band):
            terms = []
            for sign in DIRECTIONS[side]:
                fits = band.fits[sign]
                v, w = fits.responses(drawn.y), float(fits.responses(z))
                r = refit(drawn.X, v, drawn.new, w, fits.loss, drawn.ridge, drawn.lasso)[0]
                terms.append(sign * np.where(np.abs(r) < 1e-7, 0.0, r))
            return np.max(terms, axis=0)

        assert_ends_flip(drawn, alpha, made, band, scores_at, Phi, new)
