"""The range in which coverage should fall: beta-binomial, for the training rows are a draw too."""

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.errors import InputError, SampleSizeWarning
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


@pytest.fixture(scope="module")
def spread():
    """Noise that differs by group and grows along x: 200 training rows, and 400 new ones."""

    def draw(seed):
        rng = np.random.default_rng([seed, 3])
        made = pd.DataFrame(
            {"x": rng.uniform(-1, 1, 600), "g": rng.choice(list("abc"), 600, p=[0.2, 0.3, 0.5])}
        )
        noise = rng.standard_normal(600) * np.where(made["g"] == "a", 2.0, 0.7) * (1.0 + 0.5 * made["x"])
        made["y"] = made["x"] + noise
        return made.iloc[:200], made.iloc[200:]

    return draw


def test_along_indicators_the_limits_are_those_of_the_groups(spread):
    training, new = spread(0)
    res = stabconf.fit("y ~ x", training)
    for more in ({}, {"method": "split", "random_state": 0}):
        along = res.width_report(new, by="g", alpha=0.1, conditional="~ C(g)", **more)
        if not more:
            pd.testing.assert_frame_equal(along, res.width_report(new, by="g", alpha=0.1, groups="g"))
        size = training["g"].value_counts() * along.attrs["n"] / 200
        for label, line in along.iterrows():
            n = round(size[label])
            ends = covered_counts([line["count"]], [conformal_rank(0.1, n)], [n])
            assert line["expected_lower"] == ends[0] / line["count"]
    plain = res.width_report(new, alpha=0.1).loc["all"]
    every = res.width_report(new, alpha=0.1, conditional="~ C(g)").loc["all"]
    assert every["expected_lower"] == pytest.approx(plain["expected_lower"], abs=2 / 201)
    assert plain["expected_upper"] < every["expected_upper"] < plain["expected_upper"] + 3 / 201


def test_limits_along_a_formula_are_left_by_few_samples_in_what_it_spans(spread):
    """Overlapping groups, and parts that the formula cannot indicate but follows."""
    runs, outside = 60, []
    for seed in range(runs):
        training, new = spread(seed)
        shown = shown_of(
            stabconf.fit("y ~ x", training), new, 0.1, None, {"conditional": "~ C(g) + cr(x, df=4)"}
        )
        parts = [pd.DataFrame({"by": labels}) for labels in (new["g"], new["x"] > 0, new["x"].round())]
        reports = pd.concat([shown.report(each) for each in parts])
        share = reports["coverage"]
        outside.append((share < reports["expected_lower"]) | (share > reports["expected_upper"]))
    assert np.mean(outside) <= 0.05


def test_rows_of_the_whole_line_are_covered_along_a_formula_too(spread):
    training, new = spread(1)
    training = training.assign(rare=["r"] * 4 + ["x"] * 196)
    new = new.iloc[:50].assign(rare=["r"] * 10 + ["x"] * 40)
    with pytest.warns(SampleSizeWarning):
        report = stabconf.fit("y ~ x", training).width_report(
            new, by="rare", alpha=0.1, conditional="~ C(rare)"
        )
    assert report.loc["r", ["coverage", "expected_lower", "expected_upper"]].tolist() == [1.0, 1.0, 1.0]
    assert report.loc["x", "expected_lower"] < 0.9


def test_the_figure_by_group_has_plain_intervals_beside_those_along_a_formula(spread):
    training, new = spread(2)
    res = stabconf.fit("y ~ x", training)
    ax = res.plot_coverage(new, by="g", alpha=0.1, conditional="~ C(g) + x")
    assert [text.get_text().split("\n")[0] for text in ax.get_yticklabels()] == ["a", "b", "c"]
    drawn = {line.get_label(): line for line in ax.get_lines()}
    assert list(drawn) == ["plain", "along ~ C(g) + x", "as asked for, 90 %"]
    for label, options in (("plain", {}), ("along ~ C(g) + x", {"conditional": "~ C(g) + x"})):
        report = res.width_report(new, by="g", alpha=0.1, **options)
        np.testing.assert_allclose(drawn[label].get_xdata(), report["coverage"])
    assert drawn["plain"].get_color() != drawn["along ~ C(g) + x"].get_color()
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(words) == sorted([*drawn, "bars: expected in 95 % of samples"])
    alone = res.plot_coverage(new, by=["g", {"x": 2}], alpha=0.1)
    assert len(alone.get_yticklabels()) == 6 and alone.get_ylabel() == "g, x"
    weighted = res.plot_coverage(
        new.assign(w=1.0), by="g", alpha=0.1, weights=lambda frame: np.ones(len(frame))
    )
    assert len(weighted.get_legend().get_texts()) == 2


def test_levels_and_groups_do_not_mix_in_the_figure(spread):
    training, new = spread(2)
    res = stabconf.fit("y ~ x", training)
    with pytest.raises(InputError, match="with by= give one alpha"):
        res.plot_coverage(new, by="g", alphas=[0.1, 0.2])
    with pytest.raises(InputError, match="give them as alphas, or give by="):
        res.plot_coverage(new, alpha=0.1)
