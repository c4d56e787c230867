"""Messages that teach: slips in formulas, rows that training cannot place, alphas meant as levels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import stabconf
from stabconf.errors import DataWarning, FormulaError, InputError

RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame(
    {
        "y": RNG.normal(size=N) + 20,
        "x": RNG.uniform(size=N),
        "g": np.tile(["a", "b", "c"], N // 3),
        "yrs.service": RNG.normal(size=N),
        "my col": RNG.normal(size=N),
    }
)
NEW = pd.DataFrame({"x": [0.5, 9.0, 0.5, 0.5], "g": ["a", "b", "z", None]}, index=list("pqrs"))


@pytest.mark.parametrize(
    ("formula", "hint"),
    [
        ("y ~ .", r"y ~ x \+ g \+ Q\('yrs.service'\) \+ Q\('my col'\)"),
        ("y ~ my col + x", r"Q\('my col'\)"),
        ("y ~ yrs.service", r"Q\('yrs.service'\)"),
        ("log(y) ~ x", r"np\.log"),
        ("y ~ sqrt(x)", r"np\.sqrt"),
        ("y ~ factor(g)", r"C\("),
        ("y ~ as.factor(g)", r"C\("),
        ("y ~ ns(x, 3)", r"cr\(x, df=4\)"),
        ("y ~ poly(x, 2)", r"I\(x\*\*2\)"),
        ("y ~ I(x^2)", r"\*\*"),
        ("y ~ x + (1 | g)", r"groups="),
        ("y ~ X", "did you mean 'x'"),
        ("y ~ zzz", "a column of that name"),
    ],
)
def test_a_slip_in_a_formula_is_told_what_to_write(formula, hint):
    with pytest.raises(FormulaError, match=f"Hint: .*{hint}"):
        stabconf.fit(formula, DATA)


def test_carets_point_at_the_place_in_the_formula():
    with pytest.raises(FormulaError, match=r"y ~ x \+ log\(x\)\n +\^+\n"):
        stabconf.fit("y ~ x + log(x)", DATA)


def test_rows_of_unseen_levels_and_beyond_knots_are_named():
    res = stabconf.fit("y ~ bs(x, df=4) + g", DATA)
    with pytest.raises(
        InputError, match=r"2 rows \(q, r\).*bs\(x, df=4\): 9.0; g: 'z'.*cr\(x.*unseen='nan'"
    ):
        res.conf_int_conformal(NEW)


@pytest.mark.parametrize("formula", ["y ~ bs(x, df=4) + g", "y ~ bs(x, df=4):C(g)", "y ~ bs(x, df=4) * g"])
def test_unseen_rows_are_nan_and_the_others_as_if_they_were_alone(formula):
    res = stabconf.fit(formula, DATA, unseen="nan")
    with pytest.warns(DataWarning, match=r"2 rows \(q, r\)") as caught:
        ends = res.conf_int_conformal(NEW)
    assert len(caught) == 1
    assert ends["lower"].isna().tolist() == [False, True, True, True]
    pd.testing.assert_frame_equal(ends.loc[["p"]], res.conf_int_conformal(NEW.loc[["p"]]))
    with pytest.warns(DataWarning, match="2 rows"):
        assert res.predict(NEW).isna().tolist() == [False, True, True, True]


def test_one_call_may_leave_unseen_rows_without_an_answer():
    res = stabconf.fit("y ~ x + g", DATA)
    with pytest.warns(DataWarning, match=r"1 row \(r\)"):
        ends = res.conf_int_conformal(NEW, unseen="nan")
        made = res.get_prediction(NEW, unseen="nan")
        assert made.summary_frame()["obs_ci_lower"].equals(ends["lower"].rename("obs_ci_lower"))
        assert made.predicted_mean.isna().equals(ends["lower"].isna())
    assert ends["upper"].isna().tolist() == [False, False, True, True]
    with pytest.raises(InputError, match="unseen='nan'"):
        res.conf_int_conformal(NEW)
    with pytest.raises(InputError, match="unseen='drop' is unknown"):
        res.conf_int_conformal(NEW, unseen="drop")


def test_a_frame_of_unseen_rows_alone_has_no_answer():
    res = stabconf.fit("y ~ g", DATA, unseen="nan")
    with pytest.warns(DataWarning):
        assert res.conf_int_conformal(NEW.loc[["r"]]).isna().all(axis=None)


def test_unseen_rows_of_other_results():
    bands = stabconf.fit_quantiles("y ~ g", DATA, unseen="nan")
    model = stabconf.conformal(smf.ols("y ~ x + g", DATA).fit(), unseen="nan")
    for res in (bands, model):
        with pytest.warns(DataWarning, match=r"1 row \(r\)"):
            assert res.conf_int_conformal(NEW)["lower"].isna().tolist() == [False, False, True, True]


def test_unseen_survives_a_pickle(tmp_path):
    res = stabconf.fit("y ~ g", DATA, unseen="nan")
    res.save(tmp_path / "res.pickle")
    with pytest.warns(DataWarning):
        assert stabconf.load(tmp_path / "res.pickle").predict(NEW).isna()["r"]


def test_an_alpha_that_looks_like_a_level_is_questioned():
    res = stabconf.fit("y ~ x", DATA)
    with pytest.warns(DataWarning, match=r"cover 5%.*give alpha=0.05"):
        res.conf_int_conformal(DATA.head(2), alpha=0.95)


def test_an_unknown_option_is_told_all_that_there_are():
    res = stabconf.fit("y ~ x", DATA)
    with pytest.raises(
        TypeError, match=r"'by' is unknown.*groups, weights, transductive, unseen, in_range"
    ):
        res.conf_int_conformal(DATA.head(2), by="g")
