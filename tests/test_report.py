"""Reports: whole, self-contained, escaped, the same bytes for the same input."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import stabconf
from stabconf.errors import InputError, SampleSizeWarning, StabconfError
from stabconf.results.showing import shown_of
from stabconf.show.coverage import coverage_along
from stabconf.show.plots import draw_coverage_along
from stabconf.show.report.checks import leverages

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
        "figures",
        "intervals",
        "exchangeability",
        "checks",
        "cite",
        "versions",
    )
    for section in sections:
        assert f'<section id="{section}">' in page
    assert page.count("data:image/svg+xml;base64,") == 4
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
    for words in ("## Data checks", "Distance to exact", "| x1 |", "## How to cite"):
        assert words in text


def test_the_summary_is_of_the_intervals_that_the_report_shows(half, tmp_path, monkeypatch):
    res, new = half
    made, intervals = [], type(res)._intervals

    def counted(self, rows, alphas, method, *rest):
        made.append((method, len(rows)))
        return intervals(self, rows, alphas, method, *rest)

    monkeypatch.setattr(type(res), "_intervals", counted)
    holes = new.assign(x1=new["x1"].where(np.arange(len(new)) > 1))
    text = res.report(tmp_path / "r.md", holes, alpha=0.2).read_text(encoding="utf-8")
    known = len(new) - 2
    assert made == [("auto", known), ("stable", known)]  # no exact set twice
    assert f"Conformal intervals at {known} new rows" in text
    width = res.width_report(holes, alpha=0.2)["mean"].iloc[0]
    assert re.search(rf"Mean width: +{width:.4g}\b", text)
    within = res.report(tmp_path / "g.md", new, alpha=0.2, groups="g").read_text(encoding="utf-8")
    assert (
        "Conformal intervals at the training points" in within
    )  # ranks within groups: not those of a summary


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
    assert "LinearRegression" in page and '<section id="intervals">' not in page
    assert page.count("data:image/svg+xml") == 2  # no coverage: training rows have shaped the fit


def interval_lines(page):
    """Header and lines of the interval table of a Markdown report."""
    section = page.split("## Intervals")[1].split("## Data checks")[0]
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
    page = res.report(tmp_path / "many.md", pd.concat([rich] * 2), alpha=0.2).read_text(encoding="utf-8")
    assert "The first 50 of 160 rows. The first 8 of 12 columns that the model uses." in page
    header, *lines = interval_lines(page)
    assert header[-1] == "z7" and len(lines) == 50


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
    table = page.split("## Intervals")[1].split("## Data checks")[0].strip().splitlines()[2:]
    assert len({line.count("|") for line in table if line}) == 1


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
