"""Width reports: groups of every kind, infinite widths, coverage where responses are known."""

import re

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.errors import FormulaError, InputError, InputTypeError, SampleSizeWarning
from stabconf.show.coverage import covered_counts
from stabconf.show.shown import width_report

COLUMNS = ["count", "missing", "mean", "min", "q25", "median", "q75", "max", "infinite"]
COVERAGE = ["coverage", "expected_lower", "expected_upper"]


@pytest.fixture(scope="module")
def half(frame):
    return stabconf.fit("y ~ x1 + x2 + g", frame.iloc[::2], loss="huber", penalty=0.05), frame.iloc[1::2]


def test_a_report_is_what_the_intervals_say(half):
    res, new = half
    ends = res.conf_int_conformal(new, alpha=0.1)
    report = res.width_report(new, alpha=0.1)
    widths = ends["upper"] - ends["lower"]
    line = report.loc["all"]
    assert list(report.columns) == COLUMNS + COVERAGE and line["count"] == len(new) and line["missing"] == 0
    expected = [widths.mean(), widths.min(), *widths.quantile([0.25, 0.5, 0.75]), widths.max(), 0.0]
    np.testing.assert_allclose(line[COLUMNS[2:]].to_numpy(dtype=float), expected)
    inside = ((ends["lower"] <= new["y"]) & (new["y"] <= ends["upper"])).sum()
    assert line["coverage"] == inside / len(new)
    limits = np.divide(covered_counts([len(new)], [ends.attrs["k"]], [ends.attrs["n"]]), len(new))
    np.testing.assert_allclose([line["expected_lower"], line["expected_upper"]], limits)
    assert report.attrs["alpha"] == 0.1 and report.attrs["method"] == "exact"


@pytest.mark.parametrize(
    ("by", "index"),
    [
        ("g", ["a", "b", "c"]),
        ("C(g)", ["a", "b", "c"]),
        ("x1 > 0", [False, True]),
        ({"x2": [0, 5, 10]}, ["(0, 5]", "(5, 10]"]),
        (["g", "x1 > 0"], None),
        ("g:x1 > 0", None),
    ],
)
def test_groups_split_the_rows(half, by, index):
    res, new = half
    report = res.width_report(new, by=by, alpha=0.2)
    assert report["count"].sum() == len(new)
    if index is None:
        assert report.index.names == ["g", "x1 > 0"] and report.index.nlevels == 2
    else:
        assert list(report.index) == index
    overall = res.width_report(new, alpha=0.2).loc["all", "mean"]
    assert np.average(report["mean"], weights=report["count"]) == pytest.approx(overall)


def test_bins_of_equal_counts_cover_the_range(half):
    res, new = half
    report = res.width_report(new, by={"x2": 4}, alpha=0.2)
    assert list(report["count"]) == [10, 10, 10, 10] and report.index[0].startswith("[")
    assert list(res.width_report(new.assign(x2=3.0), by={"x2": 4}, alpha=0.2)["count"]) == [len(new)]


def test_rows_outside_the_bins_and_missing_values_have_their_groups(half):
    res, new = half
    new = new.copy()
    new.iloc[0, new.columns.get_loc("g")] = None
    report = res.width_report(new, by="g", alpha=0.2)
    assert list(report.index) == ["a", "b", "c", "(missing)"]
    assert report.loc["(missing)", ["count", "missing"]].tolist() == [0, 1]
    assert np.isnan(report.loc["(missing)", "mean"]) and np.isnan(report.loc["(missing)", "coverage"])
    outside = res.width_report(new.iloc[1:], by={"x2": [0, 1]}, alpha=0.2)
    assert list(outside.index) == ["(0, 1]", "(outside)"]
    assert "missing" in report.to_markdown() and "missing" not in outside.to_markdown()


def test_categories_keep_the_order_of_the_user(half):
    res, new = half
    ordered = new.assign(g=pd.Categorical(new["g"], categories=["c", "unused", "a", "b"]))
    assert list(res.width_report(ordered, by="g", alpha=0.2).index) == ["c", "a", "b"]


def test_infinite_widths_are_counted_and_never_averaged(half):
    res, new = half
    with pytest.warns(SampleSizeWarning):
        line = res.width_report(new, alpha=0.001).loc["all"]
    assert line["infinite"] == 1.0 and np.isnan(line["mean"]) and np.isposinf(line["median"])
    assert line["coverage"] == 1.0 and line["expected_lower"] == 1.0
    mixed = width_report(np.array([1.0, 3.0, np.inf, np.nan]), None, None, {}).loc["all"]
    assert mixed["mean"] == 2.0 and mixed["median"] == 3.0 and np.isposinf(mixed["max"])
    assert mixed["infinite"] == pytest.approx(1 / 3) and mixed["missing"] == 1


def test_one_sided_widths_are_margins(half):
    res, new = half
    ends = res.conf_int_conformal(new, alpha=0.1, side="upper")
    report = res.width_report(new, alpha=0.1, side="upper")
    assert report.loc["all", "mean"] == pytest.approx((ends["upper"] - res.predict(new)).mean())
    assert report.title.startswith("Margins of 90 % intervals of y")


def test_coverage_is_left_out_where_the_response_is_not_known(half, frame):
    res, new = half
    assert list(res.width_report(new.drop(columns="y")).columns) == COLUMNS
    assert list(res.width_report().columns) == COLUMNS  # the training rows have shaped the fit
    given = res.width_report(new.drop(columns="y"), response=new["y"], alpha=0.1)
    assert given.loc["all", "coverage"] == res.width_report(new, alpha=0.1).loc["all", "coverage"]
    named = res.width_report(new.rename(columns={"y": "seen"}), response="seen", alpha=0.1)
    pd.testing.assert_frame_equal(pd.DataFrame(named), pd.DataFrame(given))


def test_a_transformed_response_is_transformed_for_coverage(frame):
    res = stabconf.fit("np.log(y + 20) ~ x1", frame.iloc[::2], loss="huber")
    report = res.width_report(frame.iloc[1::2], alpha=0.2)
    assert 0.5 < report.loc["all", "coverage"] <= 1.0


def test_the_formats_need_no_other_package_and_escape(half):
    res, new = half
    new = new.assign(**{"a|b <script>": np.where(new["x1"] > 0, "<b>50 %_$</b>", "x|y")})
    report = res.width_report(new, by="a|b <script>", alpha=0.1)
    markdown, latex, html = report.to_markdown(), report.to_latex("50 % & more"), report.to_html("<i>")
    assert markdown.count("\n") == 3 and r"x\|y" in markdown and "<b>" not in markdown
    assert r"\toprule" in latex and r"\caption{50 \% \& more}" in latex and r"50 \%\_\$" in latex
    assert "<script>" not in html and "&lt;b&gt;50" in html and "&lt;i&gt;" in html
    assert "<script>" not in report._repr_html_() and "Widths of 90 % intervals" in report._repr_html_()
    assert type(report[["mean"]]) is pd.DataFrame


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"by": "nothing"}, FormulaError, "'nothing' is neither a column nor a term of a formula"),
        ({"by": "x1 + x2"}, FormulaError, "by='x1 \\+ x2' has 2 terms: give one"),
        ({"by": "bs(x2, df=4)"}, FormulaError, "has several columns"),
        ({"by": "x2"}, InputError, r"has 40 different numbers: give bins, by=\{'x2': 4\}"),
        ({"by": 3}, InputTypeError, "by=3: give a column"),
        ({"by": []}, InputTypeError, "give a column"),
        ({"by": [3]}, InputError, "by=3 is not a column"),
        ({"by": {"g": 4}}, InputError, "bins numbers, and 'g' has other values"),
        ({"by": {"x2": 1}}, InputTypeError, "whole number of bins, 2 or more"),
        ({"by": {"x2": "4"}}, InputTypeError, "whole number of bins, 2 or more"),
        ({"by": {"x2": [5, 1]}}, InputError, "in increasing order"),
        ({"alpha": [0.1, 0.2]}, InputTypeError, "one number is needed"),
        ({"response": "nothing"}, InputError, "response='nothing' is not a column of new"),
        ({"response": [1.0]}, InputError, r"response has shape \(1,\)"),
        ({"response": ["a"] * 40}, InputTypeError, "not numbers"),
        ({"method": "nothing"}, InputError, "method='nothing' is unknown"),
    ],
)
def test_what_cannot_be_reported_is_said(half, options, error, words):
    res, new = half
    with pytest.raises(error, match=words):
        res.width_report(new, **options)


def test_every_results_class_has_a_report(frame):
    from sklearn.linear_model import LinearRegression

    res = stabconf.fit("y ~ x1", frame, estimator=LinearRegression())
    assert res.width_report(frame, by="g", alpha=0.2, method="cv+")["count"].sum() == len(frame)


def test_a_report_prints_in_full(half):
    res, new = half
    title, header, *lines = repr(res.width_report(new, by="g", alpha=0.2)).splitlines()
    assert title == "Widths of 80 % intervals of y"
    assert header.split() == ["g", *COLUMNS[:1], *COLUMNS[2:], "coverage", "expected"]  # none is missing
    assert all(re.search(r"[\d.]+ % +[\d.]+ to [\d.]+ %$", line) for line in lines)
    assert [line.split()[0] for line in lines] == ["a", "b", "c"]


def test_terms_know_patsys_transforms(half):
    res, new = half
    report = res.width_report(new, by="center(x1) > 0", alpha=0.2)
    above = int((new["x1"] > new["x1"].mean()).sum())
    assert report["count"].to_dict() == {False: len(new) - above, True: above}


def test_terms_keep_missing_values_and_the_order_of_categories(half):
    res, new = half
    size = pd.Categorical(["low", "mid", "high", "low"] * (len(new) // 4), ["low", "mid", "high"])
    new = new.assign(size=size, u=new["x1"].where(new["x2"] > 4))
    assert list(res.width_report(new, by="C(size)").index) == ["low", "mid", "high"]
    lost = int(new["u"].isna().sum())
    assert res.width_report(new, by="u > 0")["count"].loc["(missing)"] == lost
    assert res.width_report(new, by="u.isna()")["count"].loc[True] == lost


def test_columns_that_are_there_twice_do_not_matter_to_terms(half):
    res, new = half
    twice = pd.concat([new.assign(z=1), new.assign(z=2)[["z"]]], axis=1)
    assert res.width_report(twice, by="x1 > 0").equals(res.width_report(new, by="x1 > 0"))


@pytest.mark.parametrize("left", ["abs(y)", "Q", "Q('a b')"])
def test_responses_are_found_whatever_they_are_called(frame, left):
    data = frame.rename(columns={"y": {"Q": "Q", "Q('a b')": "a b"}.get(left, "y")})
    res = stabconf.fit(f"{left} ~ x1", data.iloc[::2], penalty=0.1)
    assert "coverage" in res.width_report(data.iloc[1::2], alpha=0.1)
    assert ("transformed" in str(res.summary())) == (left == "abs(y)")


def test_rows_that_begin_with_a_bracket_are_no_option_of_the_rule_above(half):
    res, new = half
    assert "\\midrule\n{}[" in res.width_report(new, by={"x1": 2}).to_latex()


def test_no_rows_give_no_groups_but_all_columns(half):
    res, new = half
    assert list(res.width_report(new.iloc[:0], by="g").columns) == COLUMNS + COVERAGE


@pytest.mark.parametrize(
    ("by", "message"), [({"x1:x2": 2}, "has 2 parts"), ({"when": 2}, "'when' has other values")]
)
def test_bins_are_of_one_number(half, by, message):
    res, new = half
    new = new.assign(when=pd.date_range("2024-01-01", periods=len(new)))
    with pytest.raises(InputError, match=message):
        res.width_report(new, by=by)


@pytest.mark.parametrize("ask", ["width_report", "plot_widths", "plot_coverage", "report"])
def test_a_group_that_rows_do_not_have_is_refused_before_intervals_are_made(
    ask, frame, tmp_path, monkeypatch
):
    res = stabconf.fit("y ~ x1", frame)

    def never(self, asked):
        raise AssertionError("intervals were made")

    monkeypatch.setattr(type(res), "_intervals", never)
    path = (tmp_path / "report.html",) if ask == "report" else ()
    with pytest.raises(stabconf.FormulaError, match="by='nope' is neither a column nor a term"):
        getattr(res, ask)(*path, frame, by="nope")


def test_bins_take_infinite_values_and_flags_that_lack_some(frame):
    res = stabconf.fit("y ~ x1", frame)
    new = frame.iloc[:40].assign(v=np.r_[np.inf, np.arange(39.0)])
    new["b"] = pd.array([None, *[True, False] * 19, True], dtype="boolean")
    by_number = res.width_report(new, by={"v": 3})
    assert by_number["count"].tolist() == [13, 13, 13, 1] and str(by_number.index[-1]) == "(outside)"
    by_flag = res.width_report(new, by={"b": [-0.5, 0.5, 1.5]})
    assert by_flag["count"].tolist() == [19, 20, 1] and str(by_flag.index[-1]) == "(missing)"
