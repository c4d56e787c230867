"""The range in which coverage should fall: beta-binomial, for the training rows are a draw too."""

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.rank import conformal_rank
from stabconf.results.showing import shown_of, shown_of_levels
from stabconf.show.coverage import coverage_along, coverage_table, covered_counts


class Zero:
    """Predicts 0 whatever it is fitted to, so that scores are sizes of responses."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize(("n", "m"), [(100, 1000), (100, 50), (19, 200), (1000, 100)])
def test_the_limits_are_left_by_one_sample_in_twenty(n, m, alpha):
    """Coverage given the training rows is an order statistic of uniforms; each tail has at most 2.5 %, and
    as much but for the one number at its limit."""
    runs, rng, k = 20_000, np.random.default_rng(0), conformal_rank(alpha, n)
    counts = rng.binomial(m, np.sort(rng.uniform(size=(runs, n)), axis=1)[:, k - 1])
    low, high = covered_counts([m], [k], [n])
    error = 4 * np.sqrt(0.025 * 0.975 / runs)
    for outside, limit in ((counts < low, low), (counts > high, high)):
        assert 0.025 - np.mean(counts == limit) - error <= np.mean(outside) <= 0.025 + error


def test_limits_of_a_width_report_allow_for_the_training_draw():
    """At 100 calibration rows and 1,000 new ones; the binomial law would be left by more than half."""
    rng, runs, outside, far = np.random.default_rng(1), 400, 0, 0
    data = pd.DataFrame({"x": np.zeros(1103)})
    for _ in range(runs):
        data["y"] = rng.standard_normal(len(data))
        res = stabconf.fit("y ~ 1", data.iloc[:103], estimator=Zero())
        report = res.width_report(data.iloc[103:], alpha=0.1, calibration=0.97)
        line = report.loc["all"]
        outside += not line["expected_lower"] <= line["coverage"] <= line["expected_upper"]
        far += abs(line["coverage"] - 0.9) > 1.96 * np.sqrt(0.09 / 1000)
    assert report.attrs["n"] == 100
    assert outside / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert far / runs > 0.4


def test_limits_over_groups_add_up_independent_draws():
    """Each group has its own training rows: their counts are added, not pooled."""
    counts, n, runs, rng = np.array([30, 80, 80]), [20, 60, 60], 20_000, np.random.default_rng(2)
    k = [conformal_rank(0.1, size) for size in n]
    drawn = sum(
        rng.binomial(m, np.sort(rng.uniform(size=(runs, size)), axis=1)[:, rank - 1])
        for m, rank, size in zip(counts, k, n, strict=True)
    )
    low, high = covered_counts(counts, k, n)
    error = 4 * np.sqrt(0.025 * 0.975 / runs)
    for outside, limit in ((drawn < low, low), (drawn > high, high)):
        assert 0.025 - np.mean(drawn == limit) - error <= np.mean(outside) <= 0.025 + error
    pooled = covered_counts([190], [conformal_rank(0.1, 60)], [60])
    assert high - low < pooled[1] - pooled[0]


def test_rows_that_rank_within_groups_have_the_limits_of_their_groups(frame):
    res, new = stabconf.fit("y ~ x1", frame.iloc[::2], loss="huber"), frame.iloc[1::2]
    report = res.width_report(new, by="g", alpha=0.2, groups="g")
    groups = report.attrs["groups"]
    for label, line in report.iterrows():
        count = int(line["count"])
        ends = covered_counts([count], [groups[label]["k"]], [groups[label]["n"]])
        np.testing.assert_allclose(
            line[["expected_lower", "expected_upper"]].tolist(), np.divide(ends, count)
        )
    every = res.width_report(new, alpha=0.2, groups="g").loc["all"]
    sizes = [int(report.loc[label, "count"]) for label in groups]
    ends = covered_counts(sizes, *([each[name] for each in groups.values()] for name in ("k", "n")))
    np.testing.assert_allclose(
        [every["expected_lower"], every["expected_upper"]], np.divide(ends, len(new))
    )
    # Elsewhere the rank is that of all rows.
    plain = res.width_report(new, by="g", alpha=0.2)
    ends = covered_counts([int(plain.loc["a", "count"])], [plain.attrs["k"]], [40])
    assert plain.loc["a", "expected_lower"] == ends[0] / plain.loc["a", "count"]


def test_every_row_of_the_whole_line_is_covered():
    assert covered_counts([7], [11], [10]) == (7, 7)
    assert covered_counts([0], [9], [10]) == (0, 0)
    low, high = covered_counts([7, 100], [11, 91], [10, 100])
    alone = covered_counts([100], [91], [100])
    assert (low, high) == (alone[0] + 7, alone[1] + 7)


def test_no_limits_are_shown_where_rows_are_weighted(frame):
    """The law of coverage under a shift is not known."""
    res, new = stabconf.fit("y ~ x1", frame.iloc[::2], loss="huber"), frame.iloc[1::2]
    report = res.width_report(new, alpha=0.2, weights="x2")
    assert report[["expected_lower", "expected_upper"]].isna().all(axis=None)
    assert "expected" not in report.strings()[0] and "coverage" in report.strings()[0]
    ax = res.plot_coverage(new, alphas=[0.2, 0.5], weights="x2")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["as asked for", "40 new rows"]


def test_tables_over_levels_and_along_predictions_have_the_same_limits(frame):
    res, new = stabconf.fit("y ~ x1", frame.iloc[::2], loss="huber"), frame.iloc[1::2]
    table = coverage_table(shown_of_levels(res, new, [0.1, 0.3], None, {}))
    for line in table.itertuples():
        ends = covered_counts([40], [conformal_rank(line.alpha, 40)], [40])
        assert (line.expected_lower, line.expected_upper) == tuple(end / 40 for end in ends)
    along = coverage_along(shown_of(res, new, 0.1, None, {}))
    assert along["count"].tolist() == [20, 20]
    ends = covered_counts([20], [conformal_rank(0.1, 40)], [40])
    assert set(along["expected_lower"]) == {ends[0] / 20} and set(along["expected_upper"]) == {ends[1] / 20}


def test_the_limits_of_a_million_rows_take_a_moment():
    low, high = covered_counts([1_000_000], [901], [1000])
    assert 0.87 < low / 1e6 < 0.885 and 0.915 < high / 1e6 < 0.93
