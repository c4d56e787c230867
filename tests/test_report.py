"""Reports: whole, self-contained, escaped, the same bytes for the same input."""

import html
import io
import re
import warnings
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import stabconf
from stabconf.errors import InputError, SampleSizeWarning, StabconfError
from stabconf.results.showing import shown_of
from stabconf.show.coverage import coverage_along, parts_along, shortfalls
from stabconf.show.drift import _in_digits
from stabconf.show.plots.curve_plots import draw_coverage_along
from stabconf.show.report.background import leverages
from stabconf.show.report.listing import lead_sentence
from stabconf.show.tables import (
    Table,
    cell,
    latex_escaped,
    markdown_escaped,
    percent,
    promised,
    shortened,
    told_apart,
)

BAD = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def half(frame):
    return stabconf.fit("y ~ x1 + g", frame.iloc[::2], penalty=0.1), frame.iloc[1::2]


def test_a_page_has_every_section_and_needs_nothing_else(half, tmp_path):
    res, new = half
    path = res.report(tmp_path / "my réport.html", new, alpha=0.2, by="g")
    page = path.read_text(encoding="utf-8")
    sections = (
        "summary",
        "widths",
        "intervals",
        "exchangeability",
        "checks",
        "cite",
        "versions",
    )
    for section in sections:
        assert f'<section id="{section}">' in page
    assert page.count("data:image/svg+xml;base64,") == 4
    assert page.index('id="intervals"') < page.index('id="widths"') < page.index('id="summary"')
    assert "<script" not in page and not re.search(r'(src|href)="(?!data:|#)', page)
    for words in (
        "Ndiaye",
        "stabconf",
        "Python",
        "Leverage",
        "Categories of g",
        "viewport",
        "@media print",
    ):
        assert words in page
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_input_gives_the_same_bytes(half, tmp_path):
    res, new = half
    one, two = (res.report(tmp_path / name, new.iloc[:5], alpha=0.2) for name in ("a.html", "b.html"))
    assert one.read_bytes() == two.read_bytes()


def test_markdown_has_its_figures_beside_it(half, tmp_path):
    res, new = half
    path = res.report(tmp_path / "my report.md", new, alpha=0.2, by={"x1": 2})
    text = path.read_text(encoding="utf-8")
    for name in ("intervals", "widths", "coverage"):
        assert f"(my%20report_files/{name}.svg)" in text
        assert (tmp_path / "my report_files" / f"{name}.svg").read_bytes().startswith(b"<?xml")
    for words in ("## Data checks", "Pseudo R-squared", "| x1 |", "## How to cite"):
        assert words in text
    beside = pd.read_csv(tmp_path / "my report_files" / "intervals.csv", index_col="row")
    assert "(my%20report_files/intervals.csv)" in text and list(beside.index) == list(new.index)


def test_tables_are_escaped_where_they_need_it():
    table = Table("", ["", "width"], [["a|b", "1.5"]])
    assert table.markdown() == "|  | width |\n| :-- | --: |\n| a\\|b | 1.5 |"
    assert markdown_escaped("a|b <i>") == r"a\|b &lt;i>"
    assert latex_escaped("50 % of x_1") == r"50 \% of x\_1"
    assert latex_escaped("~^<>") == r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}"
    assert latex_escaped("|\\") == r"\textbar{}\textbackslash{}"


def test_shares_and_powers_are_said_in_a_few_digits():
    assert [cell(each) for each in (235, 153.2871, np.nan, "north")] == ["235", "153.3", "", "north"]
    assert shortened("Department of Economics", 18) == "Department...omics"
    assert [percent(share) for share in (0.0512, 1.0, 0.0)] == ["5.1 %", "100 %", "0 %"]
    assert [promised(share) for share in (0.9, np.nan)] == ["at least 90 %", "not certified"]
    assert [_in_digits(power) for power in (1.5, 3.21, 400.0)] == ["32", "1,622", "1e400"]


def lead(res, new, **options):
    shown = shown_of(res, new, 0.2, None, options)
    return lead_sentence([shown], shown.report(None))


def test_the_lead_sentence_says_width_and_coverage(half, tmp_path):
    res, new = half
    width = res.width_report(new, alpha=0.2)
    inside = res.augment(new, alpha=0.2)["inside"].sum()
    low, high = (round(40 * width[name].iloc[0]) for name in ("expected_lower", "expected_upper"))
    said = (
        f"80 % intervals of y at 40 new rows are ±{width['mean'].iloc[0] / 2:.4g} on average; "
        f"{inside} of 40 new responses are inside ({percent(inside / 40)}). "
        f"Between {low} and {high} would be no surprise."
    )
    assert lead(res, new) == said
    assert f'<p class="lead">{said}</p>' in res.report(tmp_path / "r.html", new, alpha=0.2).read_text(
        encoding="utf-8"
    )
    far = lead(res, new.assign(y=new["y"] + 20))
    assert "0 of 40 new responses are inside" in far and "fewer than chance explains" in far
    assert lead(res, new.drop(columns="y")).endswith("on average.")
    assert "above predictions on average" in lead(res, new, side="upper")
    assert "at the training points are" in lead(res, None)
    assert lead(res, new.iloc[:0]).endswith("are none.")


@pytest.mark.parametrize(
    "method, promised",
    [("exact", "at least 80 %"), ("cv+", "at least 50 %"), ("jackknife+", "at least 60 %"), ("root", None)],
)
def test_a_report_promises_what_the_method_does(half, tmp_path, method, promised):
    res, new = half
    ends = res.conf_int_conformal(new.iloc[:5], alpha=0.2, method=method)
    page = res.report(tmp_path / "a.md", new.iloc[:5], alpha=0.2, method=method).read_text("utf-8")
    if method == "cv+":  # about 1 - 2 alpha, less what its folds cost
        promised = f"at least {percent(ends.attrs['promise'])}"
        assert 0.4 < ends.attrs["promise"] < 0.6
    promised = promised or "not certified"
    assert promised in page and ("at least 80 %" in page) == (method == "exact")
    low = f"{ends.attrs['promise']:.3g}"
    assert low in ends.attrs["guarantee"] or np.isnan(ends.attrs["promise"])


def test_errors_of_new_rows_are_those_of_the_predictions(half, tmp_path):
    res, new = half
    text = res.report(tmp_path / "r.md", new, alpha=0.2).read_text(encoding="utf-8")
    away = new["y"] - res.predict(new)
    assert f"- mean abs. error: {away.abs().mean():.4g}" in text
    assert f"- root mean sq. error: {np.sqrt((away**2).mean()):.4g}" in text


def test_all_rows_can_be_downloaded_from_the_page(frame, tmp_path):
    data = frame.assign(g=frame["g"].map({"a": 'a, "quoted" #1 % é', "b": "b & c", "c": "<c>"}))
    res = stabconf.fit("y ~ x1 + g", data.iloc[::2])
    new = pd.concat([data.iloc[1::2]] * 6)
    page = res.report(tmp_path / "r.html", new, alpha=0.2).read_text(encoding="utf-8")
    link = html.unescape(re.search(r'download="intervals.csv" href="([^"]*)"', page).group(1))
    start, text = link.split(",", 1)
    assert start == "data:text/csv;charset=utf-8"
    made = pd.read_csv(io.StringIO(unquote(text)), index_col="row")
    known = res.augment(new, alpha=0.2)
    assert len(made) == 240 and list(made.index) == list(new.index) and "first 200 of 240" in page
    np.testing.assert_allclose(
        made[["prediction", "lower", "upper"]], known[["prediction", "lower", "upper"]], rtol=1e-6
    )
    assert (made["inside"] == known["inside"].map({True: "yes", False: "missed"})).all()
    assert made["g"].tolist() == new["g"].tolist()


def test_a_report_of_many_rows_stays_small(tmp_path):
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.standard_normal((20_200, 6)), columns=[f"x{i}" for i in range(6)])
    data["y"] = data["x0"] + rng.standard_t(3, len(data))
    res = stabconf.fit("y ~ " + " + ".join(data.columns[:6]), data.iloc[:200], loss="huber")
    path = res.report(tmp_path / "many.html", data.iloc[200:], alpha=0.1, method="stable")
    page = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 5_000_000
    assert "1500 of 20000 rows are drawn" in page and page.count("%0A") > 20_000


def test_coverage_that_falls_short_beyond_chance_is_said(frame, tmp_path):
    rng = np.random.default_rng(4)
    data = pd.DataFrame(
        {"x": rng.uniform(0, 1, 900), "g": rng.choice(["calm", "wild"], 900, p=[0.85, 0.15])}
    )
    data["y"] = 10 * data["x"] + np.where(data["x"] > 0.8, 4.0, 0.5) * rng.standard_normal(900)
    data["y"] += np.where(data["g"] == "wild", 3.0, 0.1) * rng.standard_normal(900)
    res = stabconf.fit("y ~ x", data.iloc[:300])
    page = res.report(tmp_path / "short.html", data.iloc[300:], alpha=0.1, by="g").read_text(
        encoding="utf-8"
    )
    assert "Coverage falls short for predictions from" in page
    assert "Coverage falls short for g = wild" in page and "for g = calm" not in page
    even = data.assign(y=10 * data["x"] + rng.standard_normal(900))
    calm = stabconf.fit("y ~ x", even.iloc[:300]).report(tmp_path / "calm.html", even.iloc[300:], alpha=0.1)
    assert "falls short" not in calm.read_text(encoding="utf-8")


@pytest.mark.slow
def test_coverage_that_is_alike_everywhere_is_seldom_said_to_fall_short():
    rng = np.random.default_rng(5)
    said, draws = 0, 200
    for _ in range(draws):
        data = pd.DataFrame({"x": rng.standard_normal(300)})
        data["y"] = data["x"] + rng.standard_normal(300)
        shown = shown_of(
            stabconf.fit("y ~ x", data.iloc[:100]), data.iloc[100:], 0.1, None, {"method": "split"}
        )
        parts = {str(at): places for at, places in enumerate(parts_along(shown))}
        said += bool(shortfalls(shown, parts))
    # promised: at most 2.5 %, here within three standard errors of it
    assert said / draws <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / draws)


def test_reports_in_units_of_the_response(frame, tmp_path):
    data = frame.assign(w=np.exp(frame["y"]).round(3))
    res = stabconf.fit("np.log(w) ~ x1", data.iloc[::2])
    new = data.iloc[1::2]
    text = res.report(tmp_path / "u.md", new, alpha=0.2, units="response").read_text(encoding="utf-8")
    assert text.startswith("# w: 80 % prediction intervals") and "80 % intervals of w at 40" in text
    lines = interval_lines(text)[1:]
    ends = res.conf_int_conformal(new, alpha=0.2, units="response")
    assert [float(line[2]) for line in lines] == pytest.approx(ends["lower"].tolist(), rel=1e-3)
    assert [float(line[4]) for line in lines] == pytest.approx(new["w"].tolist(), rel=1e-3)
    plain = res.report(tmp_path / "p.md", new, alpha=0.2).read_text(encoding="utf-8")
    asked = re.compile(r"exchangeability plausible\?\n\n(.*?)\n")
    assert asked.search(text).group(1) == asked.search(plain).group(1)


def test_long_labels_stay_distinct(frame, tmp_path, figures):
    names = [
        f"Department of applied {what} and its neighbours in the east" for what in ("law", "art", "oil")
    ]
    data = frame.assign(g=frame["g"].map(dict(zip("abc", names, strict=True))))
    res = stabconf.fit("y ~ x1 + g", data.iloc[::2])
    ax = res.plot_widths(data, by="g", alpha=0.2)
    labels = [label.get_text().split("\n")[0] for label in ax.get_yticklabels()]
    assert len(set(labels)) == 3 and max(map(len, labels)) <= 24
    assert {"law", "art", "oil"} == {
        word for word in ("law", "art", "oil") for text in labels if word in text
    }
    assert told_apart(["a" * 40 + "x" + "b" * 40 + str(i) + "c" * 40 for i in range(3)], 20)[2].endswith(
        "..."
    )
    both = [
        "x" * 30 + "1" + "y" * 30 + "1" + "z" * 30,
        "x" * 30 + "1" + "y" * 30 + "2" + "z" * 30,
        "x" * 92,
    ]
    assert len(set(told_apart(both, 12))) == 3


def test_coverage_along_predictions_adds_up_to_the_coverage_of_all_rows(half):
    res, new = half
    bands = shown_of(res, pd.concat([new] * 3), 0.2, None, {})
    table = coverage_along(bands)
    assert table["prediction"].is_monotonic_increasing
    assert table["count"].min() >= 20 and np.ptp(table["count"]) <= 1
    whole = bands.report(None)["coverage"].iloc[0]
    assert np.average(table["coverage"], weights=table["count"]) == pytest.approx(whole)
    few = coverage_along(shown_of(res, new.iloc[:5], 0.2, None, {}))
    assert few["count"].tolist() == [5]
    ax = draw_coverage_along(table, bands.attrs)
    assert ax.get_ylim()[1] > 1.0 and "prediction of y" in ax.get_xlabel()
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said[:2] == ["expected in 95 % of samples", "promised over all rows, 80 %"]
    low = draw_coverage_along(table.assign(coverage=0.1), bands.attrs)
    assert low.get_legend().get_texts()[-1].get_text() == "outside that range"


def test_what_a_user_names_is_escaped(frame, tmp_path):
    data = frame.rename(columns={"x1": BAD}).assign(
        g=frame["g"].map({"a": BAD, "b": "](http://x) | b", "c": "c"})
    )
    data.index = [f"<b>{label}</b>" for label in data.index]
    formula = 'y ~ g + Q("' + BAD + '")'
    res = stabconf.fit(formula, data.iloc[::2], penalty=0.1)
    page = res.report(tmp_path / "r.html", data.iloc[1::2], alpha=0.2, by="g").read_text(encoding="utf-8")
    assert "<script" not in page and "<b>" not in page and "&lt;script&gt;" in page
    text = res.report(tmp_path / "r.md", data.iloc[1::2], alpha=0.2, by="g").read_text(encoding="utf-8")
    outside = re.sub(r"```text.*?```", "", text, flags=re.DOTALL)
    assert "<script" not in outside and "<b>" not in outside and "](http" not in outside


def test_data_checks_count_what_is_odd(frame, tmp_path):
    data = frame.copy()
    data.loc["row4", "x1"] = np.nan
    res = stabconf.fit("y ~ x1 + g", data, penalty=0.1)
    new = pd.DataFrame({"x1": [0.0, 50.0, None], "g": ["a", "b", "a"]}, index=["usual", "far", "unknown"])
    text = res.report(tmp_path / "r.md", new, alpha=0.2).read_text(encoding="utf-8")
    assert "| dropped rows | row4 |" in text and "| new rows | 3 |" in text
    assert "| without an interval, a value is missing | 1 |" in text
    assert re.search(r"\| x1 \|.*\| 50 \| 1 \|", text) and "Farther out than any training row: far." in text
    assert "1 (50 %)" in text and "extrapolates" in text


def test_leverages_are_those_of_the_hat_matrix_also_where_columns_are_collinear():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(20), rng.standard_normal((20, 2))])
    own, other = leverages(np.column_stack([X, X[:, 1]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(own, np.diag(X @ np.linalg.pinv(X)))
    assert own.sum() == pytest.approx(3.0) and other[0] < 0.2


def test_reports_of_the_training_rows_and_of_estimators(frame, tmp_path):
    from sklearn.linear_model import LinearRegression

    res = stabconf.fit("y ~ x1", frame, estimator=LinearRegression())
    page = res.report(tmp_path / "e.html", alpha=0.2).read_text(encoding="utf-8")
    assert "LinearRegression" in page and 'class="long"' not in page and "download=" not in page
    assert page.count("data:image/svg+xml") == 2  # no coverage: training rows have shaped the fit


def interval_lines(page):
    """Header and lines of the interval table of a Markdown report."""
    section = page.split("## Intervals")[1].split("## Coverage and widths")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[text.strip() for text in line] for line in (lines[0], *lines[2:])]


def test_intervals_come_first_then_what_came_true_then_the_columns_of_the_model(half, tmp_path):
    res, new = half
    new = new.iloc[:6].copy()
    new.iloc[0, new.columns.get_loc("x1")] = np.nan
    new.iloc[1, new.columns.get_loc("y")] = np.nan
    new.iloc[2, new.columns.get_loc("y")] = 1000.0
    new.iloc[3, new.columns.get_loc("y")] = res.predict(new).iloc[3]
    header, *lines = interval_lines(res.report(tmp_path / "r.md", new, alpha=0.2).read_text())
    assert header == ["row", "prediction", "lower", "upper", "actual", "inside", "x1", "g"]  # and no x2
    assert [line[0] for line in lines] == list(new.index)
    assert [line[5] for line in lines[:4]] == ["", "", "missed", "yes"]
    assert lines[0][1:4] == ["", "", ""] and lines[1][4] == "" and lines[2][4] == "1000"
    ends = res.conf_int_conformal(new, alpha=0.2)
    for line, (_, row) in zip(lines[1:], ends.iloc[1:].iterrows(), strict=True):
        assert [float(text) for text in line[2:4]] == pytest.approx(row.tolist(), rel=1e-3)
    unknown = res.report(tmp_path / "u.md", new.drop(columns="y"), alpha=0.2).read_text()
    assert interval_lines(unknown)[0] == ["row", "prediction", "lower", "upper", "x1", "g"]


def test_long_and_wide_tables_are_cut_and_say_so(frame, tmp_path):
    rng = np.random.default_rng(0)
    rich = frame.assign(**{f"z{i}": rng.standard_normal(len(frame)) for i in range(12)})
    res = stabconf.fit("y ~ " + " + ".join(f"z{i}" for i in range(12)), rich, loss="huber")
    page = res.report(tmp_path / "many.md", pd.concat([rich] * 3), alpha=0.2).read_text(encoding="utf-8")
    assert "The first 200 of 240 rows. The first 8 of 12 columns that the model uses." in page
    header, *lines = interval_lines(page)
    assert header[-1] == "z7" and len(lines) == 200


def test_infinite_intervals_are_reported(half, tmp_path):
    res, new = half
    with pytest.warns(SampleSizeWarning) as caught:
        page = res.report(tmp_path / "i.html", new, alpha=0.001).read_text(encoding="utf-8")
    assert len(caught) == 1 and "<td>-inf</td>" in page and "<td>100 %</td>" in page


def test_a_report_is_never_half_written(half, tmp_path, monkeypatch):
    res, new = half
    old = tmp_path / "r.html"
    old.write_text("before")
    for path, words in (("r.pdf", "ends in .html or .md"), ("no/where.html", "there is no folder")):
        with pytest.raises(InputError, match=words):
            res.report(tmp_path / path, new)
    with pytest.raises(InputError, match="neither a column"):
        res.report(old, new, by="nothing")

    def fail(*_):
        raise RuntimeError("no more ink")

    monkeypatch.setattr("stabconf.show.report.as_html", fail)
    with pytest.raises(RuntimeError, match="ink"):
        res.report(old, new.iloc[:3], alpha=0.2)
    assert old.read_text() == "before" and list(tmp_path.iterdir()) == [old]


def test_columns_that_are_there_twice_stay_below_their_names(half, tmp_path):
    res, new = half
    twice = pd.concat([new, new[["x2"]]], axis=1)
    page = res.report(tmp_path / "twice.md", twice, alpha=0.2).read_text(encoding="utf-8")
    table = page.split("## Intervals")[1].split("## Coverage and widths")[0].splitlines()
    assert len({line.count("|") for line in table if line.startswith("|")}) == 1


def test_models_of_arrays_have_reports_of_new_rows(frame, tmp_path):
    X = sm.add_constant(frame[["x1", "x2"]])
    res = stabconf.conformal(sm.OLS(frame["y"].iloc[::2], X.iloc[::2]).fit())
    new = X.assign(y=frame["y"], g=frame["g"]).iloc[1::2]
    page = res.report(tmp_path / "arrays.html", new, alpha=0.2, by="g").read_text(encoding="utf-8")
    assert "Coverage of 40 new responses" in page
    assert "coverage" not in res.width_report(X.iloc[1::2], alpha=0.2)


def test_no_new_rows_and_groups_make_a_report(half, tmp_path):
    res, new = half
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert res.report(tmp_path / "none.html", new.iloc[:0], alpha=0.2, by="g").exists()


@pytest.mark.parametrize(("path", "message"), [(None, "path=None is a NoneType"), ("", "is a folder")])
def test_paths_that_are_no_files(half, tmp_path, path, message):
    (tmp_path / "x.html").mkdir()
    with pytest.raises(StabconfError, match=message):
        half[0].report(tmp_path / "x.html" if path == "" else path)
    assert not list(tmp_path.glob("*.part"))


def test_widths_of_many_groups_are_drawn_for_the_largest(tmp_path, figures):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(300), "y": rng.standard_normal(300)})
    new = data.assign(g=[f"group {i}" for i in np.minimum(np.arange(300) // 3, 44)])
    res = stabconf.fit("y ~ x", data)
    text = res.report(tmp_path / "many.html", new, alpha=0.1, by="g").read_text(encoding="utf-8")
    assert "the 40 largest of 45 groups" in text and "group 44" in text
