"""Coverage where categories are rare: a row that owns one must not fit itself more than a new row does."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import stabconf

ALPHA, CHANCE, EFFECT = 0.1, 1e-4, 4.0  # the effect of a category, in standard deviations of the noise
INDICATORS = "y ~ " + " + ".join(f"d{j}" for j in range(20))


def indicators(rng, rows):
    """Twenty 0/1 columns, each 1 in 2 % of the rows, and expected responses.

    About a third of the columns are 0 in all of 49 training rows; one new row in seven has a 1 in those.
    Nothing of their effects can be learned, and a warning names them: here effects are no larger than
    noise.
    """
    X = (rng.uniform(size=(rows, 20)) < 0.02).astype(float)
    return pd.DataFrame(X).add_prefix("d"), X @ rng.standard_normal(20)


def factor(rng, rows):
    """The same as a factor: a common level and twenty rare ones, all of them declared."""
    codes = rng.choice(21, rows, p=[0.6, *[0.02] * 20])
    frame = pd.DataFrame({"g": pd.Categorical(codes, categories=range(21))})
    return frame, EFFECT * rng.standard_normal(21)[codes]


def ids(rng, rows):
    """A factor with one row per level: the new rows' levels are declared, and no training row has them."""
    frame = pd.DataFrame({"g": pd.Categorical(rng.permutation(rows), categories=range(rows))})
    return frame, EFFECT * rng.standard_normal(rows)


def lowest_allowed(coverage, n):
    """What the mean of coverage (sets, rows) falls below once in 10,000, if it is expected to be 1 - alpha.

    The noise is known to be normal, so an interval's coverage is the probability that it holds the new
    response: the expectation of a hit given the interval, with the binomial part of its variance left out.
    Sets are independent, rows of one are not: the error is that of the sets' means. It is taken no smaller
    than the one of sets that cover like the k-th smallest of n uniform numbers, k = (1 - alpha)(n + 1),
    whose variance is alpha (1 - alpha) / (n + 2). Student's law allows for the estimated variance.
    """
    sets = len(coverage)
    variance = max(coverage.mean(axis=1).var(ddof=1), ALPHA * (1 - ALPHA) / (n + 2))
    return 1 - ALPHA + stats.t.ppf(CHANCE, sets - 1) * np.sqrt(variance / sets)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stabconf.StabconfWarning")
@pytest.mark.parametrize("loss", ["lad", "huber", "squared"])
@pytest.mark.parametrize(("draw", "formula"), [(indicators, INDICATORS), (factor, "y ~ g"), (ids, "y ~ g")])
def test_intervals_cover_where_categories_are_rare(draw, formula, loss):
    """An indicator divided by its own standard deviation gives less than nominal, ids less than 0.7."""
    rng, n, new, sets = np.random.default_rng(49), 49, 8, 150
    coverage = np.empty((sets, new))
    for i in range(sets):
        frame, mean = draw(rng, n + new)
        frame["y"] = mean + rng.standard_normal(n + new)
        res = stabconf.fit(formula, frame.iloc[new:], loss=loss)
        made = res.conf_int_conformal(frame.iloc[:new], alpha=ALPHA, method="exact", progress=False)
        lower, upper = made.to_numpy().T - mean[:new]
        coverage[i] = stats.norm.cdf(upper) - stats.norm.cdf(lower)
    assert coverage.mean() >= lowest_allowed(coverage, n)
