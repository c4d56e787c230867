"""Figures by their structure: labels, artists, limits; never pixels."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from sklearn.linear_model import LinearRegression

import stabconf
from stabconf.errors import AssumptionError, DataWarning, InputError, InputTypeError, SampleSizeWarning

pytestmark = pytest.mark.usefixtures("figures")


@pytest.fixture(scope="module")
def half(frame):
    return stabconf.fit("y ~ x1 + x2 + g", frame.iloc[::2], loss="huber", penalty=0.05), frame.iloc[1::2]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def shapes(ax, kind):
    return [artist for artist in ax.collections if type(artist) is kind]


def test_intervals_sorted_by_prediction_are_a_band_with_points(half):
    res, new = half
    ax = res.plot_intervals(new, alpha=0.1)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rows, by prediction", "y")
    ends = res.conf_int_conformal(new, alpha=0.1)
    outside = int(((new["y"] < ends["lower"]) | (new["y"] > ends["upper"])).sum())
    words = ["90 % interval", "prediction", f"response inside ({len(new) - outside})"]
    assert legend(ax) == words + ([f"response outside ({outside})"] if outside else [])
    line = next(line for line in ax.get_lines() if line.get_label() == "prediction")
    np.testing.assert_allclose(line.get_ydata(), np.sort(res.predict(new)))
    low, high = ax.get_ylim()
    assert low < min(ends["lower"].min(), new["y"].min()) and high > max(
        ends["upper"].max(), new["y"].max()
    )


def test_intervals_against_a_column_that_is_not_alone_are_bars(half):
    res, new = half
    ax = res.plot_intervals(new, x="x1", alpha=0.1)
    (bars,) = shapes(ax, LineCollection)
    assert ax.get_xlabel() == "x1" and len(bars.get_segments()) == len(new)
    np.testing.assert_allclose(sorted(seg[0][0] for seg in bars.get_segments()), np.sort(new["x1"]))


def test_categories_on_the_x_axis_have_their_names_and_order(half):
    res, new = half
    ax = res.plot_intervals(new, x="g", alpha=0.1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    ordered = new.assign(g=pd.Categorical(new["g"], categories=["c", "b", "a"]))
    ax = res.plot_intervals(ordered, x="g", alpha=0.1)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["c", "b", "a"]
    (bars,) = shapes(ax, LineCollection)
    assert {round(seg[0][0]) for seg in bars.get_segments()} == {0, 1, 2}


def test_terms_dates_and_given_axes_work(half, figures):
    res, new = half
    _, ax = figures.subplots()
    assert res.plot_intervals(new, x="np.exp(x1)", ax=ax) is ax and ax.get_xlabel() == "np.exp(x1)"
    dated = new.assign(day=pd.date_range("2026-01-01", periods=len(new)))
    assert res.plot_intervals(dated, x="day", alpha=0.1).get_xlabel() == "day"
    assert res.plot_intervals(new.iloc[:0]).get_legend() is None


def test_missing_rows_are_left_out_and_unknown_responses_too(half):
    res, new = half
    new = new.copy()
    new.iloc[0, new.columns.get_loc("x1")] = np.nan
    new.iloc[1, new.columns.get_loc("y")] = np.nan
    ax = res.plot_intervals(new, x="x1", alpha=0.1)
    (bars,) = shapes(ax, LineCollection)
    assert len(bars.get_segments()) == len(new) - 1
    points = [c for c in shapes(ax, PathCollection) if c.get_label().startswith("response")]
    assert sum(len(c.get_offsets()) for c in points) == len(new) - 2
    assert not any("response" in words for words in legend(res.plot_intervals(new.drop(columns="y"))))


def test_infinite_ends_go_to_the_edge_and_are_said(half):
    res, new = half
    with pytest.warns(SampleSizeWarning):
        ax = res.plot_intervals(new, alpha=0.001)
    assert "goes on to infinity (40)" in legend(ax) and np.isfinite(ax.get_ylim()).all()
    ax = res.plot_intervals(new, alpha=0.1, side="upper")
    assert "90 % upper bound" in legend(ax) and not any("infinity" in words for words in legend(ax))


def test_ends_far_beyond_all_responses_go_to_the_edge_and_are_said():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, 220), "g": ["rare"] * 3 + ["other"] * 217})
    data["y"] = data["x"] + rng.uniform(-1.0, 1.0, 220)
    bands = stabconf.fit_quantiles("y ~ x + g", data.iloc[1:200])
    new = data.iloc[[0, *range(200, 220)]]
    with pytest.warns(DataWarning, match=r"1 of 21 bands is very wide \(the first 0\)"):
        ends = bands.conf_int_conformal(new, alpha=0.1)
        ax = bands.plot_intervals(new, alpha=0.1)
    low, high = ax.get_ylim()
    assert ends["upper"].iloc[0] > high > max(ends["upper"].iloc[1:].max(), new["y"].max())
    assert "goes on beyond the axis (1)" in legend(ax) and high - low < 10 * np.ptp(data["y"])


def test_training_rows_are_called_that(half):
    res, _ = half
    assert any(words.startswith("training response") for words in legend(res.plot_intervals()))


def test_conformity_has_its_bounds_and_marks_the_set(half):
    res, new = half
    ends = res.conf_int_conformal(new.iloc[[0]], alpha=0.1)
    ax = res.plot_conformity(new.iloc[[0]], alpha=0.1)
    assert ax.get_xlabel() == "candidate for y" and ax.get_ylabel() == "p-value"
    assert {"p, exact", "alpha = 0.1", "90 % set", "between p_lo and p_up", "prediction"} == set(legend(ax))
    marked = next(line for line in ax.get_lines() if line.get_label() == "90 % set")
    np.testing.assert_allclose(marked.get_xdata(), ends.to_numpy()[0])
    curve = next(line for line in ax.get_lines() if line.get_label() == "p, exact")
    z, p = curve.get_xdata(), curve.get_ydata()
    inside = (z > ends["lower"].iloc[0]) & (z < ends["upper"].iloc[0])
    assert (p[inside] > 0.1).all() and (p[~inside][[0, -1]] <= 0.1).all()
    few = res.plot_conformity(new.iloc[[0]], z=[3.0, 1.0, 2.0], alpha=0.1)
    assert few.get_xlim() == (1.0, 3.0)


def test_the_conformity_function_of_an_open_set_is_drawn(frame):
    res = stabconf.fit("y ~ x1", frame, loss="lad", penalty=0.0)
    ax = res.plot_conformity(frame.iloc[[0]], alpha=0.1, side="upper")
    assert np.isfinite(ax.get_xlim()).all()


def test_widths_are_a_histogram_or_boxes(half):
    res, new = half
    ax = res.plot_widths(new, alpha=0.1)
    assert ax.get_xlabel() == "width of the 90 % interval for y"
    assert sum(bar.get_height() for bar in ax.patches) == len(new)
    ax = res.plot_widths(new, by="g", alpha=0.1)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"{g}\n(n = {(new['g'] == g).sum()})" for g in "abc"] and ax.get_ylabel() == "g"
    ax = res.plot_widths(new, by=["g", "x1 > 0"], alpha=0.1, side="lower")
    assert ax.get_ylabel() == "g, x1 > 0" and ax.get_xlabel().startswith("margin of the 90 %")
    with pytest.warns(SampleSizeWarning):
        ax = res.plot_widths(new, alpha=0.001)
    assert legend(ax) == ["40 infinite, not drawn"]
    with pytest.warns(SampleSizeWarning):
        ax = res.plot_widths(new, by="g", alpha=0.001)
    assert all("infinite" in label.get_text() for label in ax.get_yticklabels())


def test_far_and_equal_widths_can_be_drawn():
    from stabconf.show.plots.spread_plots import draw_widths
    from stabconf.show.shown import Shown

    def drawn(widths):
        zero = np.zeros(len(widths))
        shown = Shown(pd.DataFrame(index=range(len(widths))), zero, zero, widths, None, attrs, False)
        return draw_widths(shown, None, None)

    attrs = {"alpha": 0.1, "side": "two-sided", "response": "y"}
    far = np.append(np.random.default_rng(0).normal(1.0, 1e-9, 500), 1e12)
    assert sum(bar.get_height() for bar in drawn(far).patches) == 501
    same = drawn(2.0 + 1e-12 * np.arange(100))
    assert same.get_xlim()[0] < 2.0 < same.get_xlim()[1]
    assert [bar.get_height() for bar in same.patches if bar.get_height()] == [100]


@pytest.mark.parametrize("loss", ["lad", "huber"])
def test_stability_shows_three_methods_and_the_share_over_penalties(frame, loss):
    res = stabconf.fit("y ~ x1", frame, loss=loss, penalty=0.1)
    ax = res.plot_stability(frame.iloc[:10], penalties=[0.0, 0.05, 0.1, 1.0], alpha=0.1)
    names = [line.get_label() for line in ax.get_lines()]
    assert names == ["exact", "stable", "ball", "this fit: 0.1"] and ax.get_xlabel() == "penalty"
    exact, stable, ball = (np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()[:3])
    assert (exact[1:] <= stable[1:] + 1e-9).all() and np.isnan(ball[0])
    assert "share due to stability" in legend(ax)
    (share,) = (other for other in ax.figure.axes if other is not ax)
    assert share.get_ylim() == (0, 100) and "due to stability" in share.get_ylabel()


def test_stability_by_default_takes_some_training_points(half):
    res, _ = half
    ax = res.plot_stability(penalties=[0.05], alpha=0.2)
    assert len(ax.get_lines()[0].get_xdata()) == 1


def test_coverage_lies_about_the_diagonal(half):
    res, new = half
    ax = res.plot_coverage(new, alphas=[0.5, 0.1, 0.2])
    line = next(line for line in ax.get_lines() if line.get_label() == "40 new rows")
    np.testing.assert_allclose(line.get_xdata(), [0.9, 0.8, 0.5])
    assert ax.get_xlabel() == "coverage asked for, 1 - alpha"
    assert legend(ax) == ["expected in 95 % of samples", "as asked for", "40 new rows"]
    given = res.plot_coverage(new.drop(columns="y"), alphas=[0.1], response=new["y"].to_numpy())
    assert given.get_ylim()[1] > 1.0


def test_labels_hold_dollars_and_are_cut(frame):
    data = frame.rename(columns={"x1": "$cost$ " + "x" * 60})
    res = stabconf.fit("y ~ Q('$cost$ " + "x" * 60 + "')", data)
    ax = res.plot_intervals(data, x=data.columns[0], alpha=0.1)
    assert ax.get_xlabel().startswith(r"\$cost\$") and "xxx...xxx" in ax.get_xlabel()
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda res, new: res.plot_conformity(new), InputError, "new has 40 rows.*give one complete row"),
        (lambda res, new: res.plot_intervals(new, x="nothing"), InputError, "neither a column nor a term"),
        (lambda res, new: res.plot_intervals(new, x=3), InputError, "x=3 is not a column"),
        (lambda res, new: res.plot_intervals(new, x="g:x1"), InputError, "has 2 parts"),
        (lambda res, new: res.plot_coverage(None), InputError, "rows that the fit has not seen"),
        (
            lambda res, new: res.plot_coverage(new.drop(columns="y")),
            InputError,
            "columns of the response 'y'",
        ),
        (lambda res, new: res.plot_stability(penalties=[]), InputError, r"penalties=\[\] is empty"),
        (lambda res, new: res.plot_stability(penalties=["a"]), InputTypeError, "penalties='a' is a str"),
        (lambda res, new: res.plot_stability(penalties=[-1.0]), InputError, "0 or larger"),
    ],
)
def test_what_cannot_be_drawn_is_said(half, call, error, words):
    with pytest.raises(error, match=words):
        call(*half)


def test_estimators_have_the_figures_that_apply(frame):
    res = stabconf.fit("y ~ x1 + g", frame.iloc[::2], estimator=LinearRegression())
    new = frame.iloc[1::2]
    assert res.plot_intervals(new, x="x1", alpha=0.2).get_xlabel() == "x1"
    assert res.plot_widths(new, by="g", alpha=0.2, method="cv+").get_ylabel() == "g"
    assert res.plot_coverage(new, alphas=[0.2, 0.5]).get_xlabel()
    assert res.plot_conformity(new.iloc[[0]], alpha=0.2).get_xlabel() == "candidate for y"
    with pytest.raises(AssumptionError, match="plot_stability refits with other penalties"):
        res.plot_stability()


def test_large_tables_are_drawn_as_pictures_within_vector_formats(frame):
    res = stabconf.fit("y ~ x1 + g", frame, loss="huber")
    many = pd.concat([frame] * 20, ignore_index=True)
    ax = res.plot_intervals(many, x="x1", alpha=0.1, method="stable")
    assert all(artist.get_rasterized() for artist in shapes(ax, LineCollection))
    assert matplotlib.rcParams["svg.hashsalt"] is None


def test_times_flags_and_missing_values_on_the_x_axis(half):
    res, new = half
    when = pd.date_range("2024-01-01", periods=len(new), tz="Europe/Berlin")
    flag = pd.array([True, False, None] + [True] * (len(new) - 3), dtype="boolean")
    new = new.assign(when=when, flag=flag, word=pd.Series(flag, index=new.index).astype("string"))
    days = res.plot_intervals(new, x="when", alpha=0.1).get_xlim()
    assert 19000 < days[0] < days[1] < 20000  # matplotlib's days, no nanoseconds
    for name in ("flag", "word", "x1 > 0"):
        ax = res.plot_intervals(new, x=name, alpha=0.1)
        assert [label.get_text() for label in ax.get_xticklabels()] == ["False", "True"]
    with pytest.raises(InputError, match="new has more than one column 'flag'"):
        res.plot_intervals(pd.concat([new, new[["flag"]]], axis=1), x="flag")
    with pytest.raises(InputTypeError, match="x is a Series"):
        res.plot_intervals(new, x=new["x1"])


def test_groups_with_long_names_are_told_apart_and_may_be_none(half):
    res, new = half
    new = new.assign(part=np.where(new["x1"] > 0, "Department of Economics", "Department of Engineering"))
    labels = res.plot_widths(new, by=["part", "g"], alpha=0.1).get_yticklabels()
    words = [label.get_text().split("\n")[0] for label in labels]
    assert len(set(words)) == len(words)
    assert not res.plot_widths(new.iloc[:0], by="g").get_lines()


def test_coverage_without_a_known_response_is_an_error(half):
    res, new = half
    with pytest.raises(InputError, match="none of the 40 new rows"):
        res.plot_coverage(new.assign(y=np.nan))
    with pytest.raises(InputError, match="give them as alphas"):
        res.plot_coverage(new, alpha=0.1)
    assert res.plot_coverage(new, alphas=[0.1, 0.1]).get_xlabel()
