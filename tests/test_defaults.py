"""One default alpha: 0.05 everywhere, or what `conformal` was given in all that is made from it."""

import inspect
import re

import pytest
import statsmodels.formula.api as smf

import stabconf
from stabconf.checks import DEFAULT_ALPHA
from stabconf.cli import _parser
from stabconf.study.comparison import oracle

CLASSES = (
    stabconf.Results,
    stabconf.EstimatorResults,
    stabconf.QuantileResults,
    stabconf.StatsmodelsResults,
)
FUNCTIONS = (stabconf.compare, stabconf.select_penalty, stabconf.conformal)


@pytest.fixture(scope="module")
def half(frame):
    res = smf.ols("y ~ x1 + g", frame.iloc[::2]).fit()
    return stabconf.conformal(res, alpha=0.3), frame.iloc[1::2]


def test_no_signature_has_an_alpha_of_its_own():
    methods = [
        method
        for kind in CLASSES
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    ]
    found = [
        inspect.signature(each).parameters["alpha"].default
        for each in (*methods, oracle)
        if "alpha" in inspect.signature(each).parameters
    ]
    assert len(found) > 30 and set(found) == {None}
    assert {inspect.signature(each).parameters["alpha"].default for each in FUNCTIONS} == {DEFAULT_ALPHA}
    assert {kind.default_alpha for kind in CLASSES} == {DEFAULT_ALPHA} == {0.05}
    for command in ("fit", "compare"):
        assert _parser().parse_args([command, "y ~ x", "d.csv"]).alpha == DEFAULT_ALPHA


def test_the_alpha_of_conformal_holds_in_every_table(half):
    made, new = half
    assert made.conf_int_conformal(new).attrs["alpha"] == 0.3
    assert made.width_report(new).attrs["alpha"] == 0.3
    assert made.get_prediction(new).conf_int().attrs["alpha"] == 0.3
    assert made.get_prediction(new).summary_frame().attrs["alpha"] == 0.3
    assert made.conformal_set(new.iloc[:1], [0.0, 1.0]).attrs["alpha"] == 0.3
    assert re.search(r"alpha: +0\.3\b", str(made.summary()))


def test_the_alpha_of_conformal_holds_in_every_figure(half, figures):
    made, new = half
    labels = [made.plot_intervals(new), made.plot_widths(new), made.plot_conformity(new.iloc[[0]])]
    for ax in labels:
        texts = [*ax.get_legend_handles_labels()[1], ax.get_xlabel(), ax.get_ylabel(), ax.get_title()]
        assert any("70 %" in text for text in texts), texts
    odd = stabconf.conformal(smf.ols("y ~ x1", new).fit(), alpha=0.33)
    line = odd.plot_coverage(new).get_lines()[-1]
    assert pytest.approx(0.67) in list(line.get_xdata()) and len(line.get_xdata()) == 10


def test_the_alpha_of_conformal_holds_in_a_report(half, tmp_path):
    made, new = half
    text = made.report(tmp_path / "r.md", new).read_text(encoding="utf-8")
    assert "alpha = 0.3" in text and "Widths of 70 % intervals" in text and "95 % intervals" not in text
    given = made.report(tmp_path / "g.md", new, alpha=0.2).read_text(encoding="utf-8")
    assert "alpha = 0.2" in given and "70 %" not in given
