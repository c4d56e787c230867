"""Bad input: each case names the argument or column, the offending value and what to do."""

import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.errors import StabconfError

GOOD = pd.DataFrame(
    {
        "y": np.arange(30.0) % 7,
        "x": np.arange(30.0) % 5,
        "g": ["a", "b"] * 15,
    }
)


def with_value(column, value, row=3):
    data = GOOD.copy()
    data[column] = data[column].astype(object)
    data.loc[row, column] = value
    return data.infer_objects()


FIT_CASES = {
    "formula is a number": (dict(formula=3), r"formula=3 is a int: give a string"),
    "formula syntax error": (dict(formula="y ~ x +"), r"formula='y ~ x \+' cannot be parsed.*\^"),
    "formula without response": (dict(formula="~ x"), r"formula='~ x' needs a response"),
    "formula without tilde": (dict(formula="y"), r"formula='y' needs a response"),
    "a constant on the left": (dict(formula="y + 1 ~ g"), r"needs a response .* and no constant"),
    "responses of which one is text": (dict(formula="x + g ~ y"), r"response 'g' .* is not numeric"),
    "no terms": (dict(formula="y ~ 0"), r"formula='y ~ 0' has no terms"),
    "unknown column": (dict(formula="y ~ nowhere"), r"'nowhere' is not defined.*give data a column"),
    "failing function": (dict(formula="y ~ np.linalg.inv(x)"), r"formula='y ~ np.linalg.inv\(x\)' cannot"),
    "data is a list": (dict(data=[1, 2]), r"data is a list: give a pandas DataFrame"),
    "data is an array": (dict(data=np.ones((3, 2))), r"data is a ndarray: give a pandas DataFrame"),
    "ragged mapping": (dict(data={"y": [1, 2], "x": [1]}), r"data cannot be made a frame.*one length"),
    "empty frame": (dict(data=GOOD.iloc[:0]), r"data has 0 rows: give"),
    "one row": (dict(data=GOOD.iloc[:1]), r"data has 1 complete rows \(of 1\): at least 2"),
    "only missing rows": (dict(data=GOOD.assign(x=np.nan)), r"data has 0 complete rows \(of 30\)"),
    "duplicate columns": (
        dict(data=pd.concat([GOOD, GOOD[["x"]]], axis=1)),
        r"data has more than one column 'x': rename or drop",
    ),
    "inf in a predictor": (dict(data=with_value("x", np.inf)), r"data gives inf for 'x' in row 3.*remove"),
    "inf in the response": (dict(data=with_value("y", -np.inf)), r"data gives -inf for 'y' in row 3"),
    "log of zero": (dict(formula="np.log(y) ~ x"), r"data gives -inf for 'np.log\(y\)' in row 0"),
    "response is text": (dict(formula="g ~ x"), r"response 'g' .* is not numeric \(levels \['a', 'b'\]\)"),
    "response is a flag": (
        dict(formula="f ~ x", data=GOOD.assign(f=GOOD["x"] > 2)),
        r"response 'f' .* is not numeric",
    ),
    "response has two columns": (dict(formula="np.column_stack([y, y]) ~ x"), r"has 2 columns: give one"),
    "missing is unknown": (dict(missing="ignore"), r"missing='ignore' is unknown: give 'drop' or 'raise'"),
    "missing raises": (
        dict(data=with_value("x", np.nan), missing="raise"),
        r"missing values in column 'x' \(1 rows, the first 3\): fill",
    ),
    "missing raises for what the formula makes": (
        dict(formula="y ~ x.where(x > 2)", missing="raise"),
        r"formula='y ~ x.where\(x > 2\)' has no value where data has one \(.* rows, the first 0.*: fill or",
    ),
    "unknown loss": (dict(loss="hubr"), r"loss='hubr' is unknown: did you mean 'huber'\?"),
    "loss is a number": (dict(loss=2), r"loss=2 is a int: give a name"),
    "penalty negative": (dict(penalty=-1), r"penalty=-1 is not allowed: give a finite number, 0 or larger"),
    "penalty NaN": (dict(penalty=np.nan), r"penalty=nan is not allowed"),
    "penalty infinite": (dict(penalty=np.inf), r"penalty=inf is not allowed"),
    "penalty is text": (dict(penalty="0.1"), r"penalty='0.1' is a str: give a number"),
    "penalty is a flag": (dict(penalty=True), r"penalty=True is a bool: give a number"),
    "l1_ratio too large": (dict(l1_ratio=2), r"l1_ratio=2 is not allowed: give a number from 0"),
    "l1_ratio NaN": (dict(l1_ratio=np.nan), r"l1_ratio=nan is not allowed"),
    "l1_ratio is text": (dict(l1_ratio="half"), r"l1_ratio='half' is a str"),
    "standardize is text": (
        dict(standardize="yes"),
        r"standardize='yes' is not a flag: give True or False",
    ),
    "unknown solver": (dict(solver="sgd"), r"solver='sgd' is unknown: give one of auto, newton, scipy"),
    "tol is zero": (dict(tol=0), r"tol=0 is not allowed: give a positive number"),
    "tol is text": (dict(tol="tight"), r"tol='tight' is not allowed"),
    "max_iter is a fraction": (dict(max_iter=1.5), r"max_iter=1.5 is not allowed: give a whole number"),
    "max_iter is zero": (dict(max_iter=0), r"max_iter=0 is not allowed"),
}


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("case", FIT_CASES, ids=str)
def test_bad_input_to_fit_is_named_with_its_fix(case):
    changes, message = FIT_CASES[case]
    arguments = {"formula": "y ~ x", "data": GOOD} | changes
    formula, data = arguments.pop("formula"), arguments.pop("data")
    with pytest.raises(StabconfError, match="(?s)" + message):
        stabconf.fit(formula, data, **arguments)


NEW = pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]}, index=["p", "q"])
NEW_CASES = {
    "alpha 0": (dict(alpha=0), r"alpha=0 is not allowed: give a miscoverage between 0 and 1"),
    "alpha 1": (dict(alpha=1), r"alpha=1 is not allowed"),
    "alpha -1": (dict(alpha=-1), r"alpha=-1 is not allowed"),
    "alpha NaN": (dict(alpha=np.nan), r"alpha=nan is not allowed"),
    "alpha is text": (
        dict(alpha="0.1"),
        r"alpha='0.1' is a str: give a miscoverage between 0 and 1, such as 0.05",
    ),
    "alpha is a flag": (dict(alpha=True), r"alpha=True is a bool"),
    "alphas empty": (dict(alpha=[]), r"alpha=\[\] is empty"),
    "one alpha of several": (dict(alpha=[0.1, 2]), r"alpha=2 is not allowed"),
    "unknown method": (dict(method="magic"), r"method='magic' is unknown: give 'auto' or one of"),
    "unknown side": (dict(side="left"), r"side='left' is unknown: give one of two-sided, upper, lower"),
    "unknown bound": (dict(bound="loose"), r"bound='loose' is unknown: give one of curvature"),
    "unknown option": (dict(bond="norm"), r"option 'bond' is unknown to method 'exact': its options are"),
    "option of another method": (
        dict(method="exact", bound="norm"),
        r"option 'bound' is unknown to method 'exact'",
    ),
    "tol negative": (dict(tol=-1.0), r"tol=-1.0 is not allowed: give a share"),
    "tol a string": (dict(tol="1e-6"), r"tol='1e-6' is not allowed: give a share"),
    "no processes": (dict(n_jobs=0), r"n_jobs=0 is not allowed: give a number of processes"),
    "exog is an array": (dict(exog=np.ones((2, 2))), r"exog is a ndarray: give a pandas DataFrame"),
    "exog lacks a column": (dict(exog=NEW[["x"]]), r"exog lacks column 'g' that the formula"),
    "unseen category": (dict(exog=NEW.assign(g="z")), r"exog has 2 rows.*that training did not have.*'z'"),
    "inf in a new row": (dict(exog=NEW.assign(x=[1.0, np.inf])), r"exog gives inf for 'x' in row q"),
    "text for a number": (
        dict(exog=NEW.assign(x=["u", "v"])),
        r"exog has 'u' in 'x', which was numeric in training",
    ),
    "duplicate new columns": (
        dict(exog=pd.concat([NEW, NEW[["x"]]], axis=1)),
        r"exog has more than one column 'x'",
    ),
}


@pytest.fixture(scope="module")
def fitted():
    return stabconf.fit("y ~ x + g", GOOD, loss="huber")


@pytest.mark.parametrize("case", NEW_CASES, ids=str)
def test_bad_input_to_the_intervals_is_named_with_its_fix(fitted, case):
    changes, message = NEW_CASES[case]
    with pytest.raises(StabconfError, match="(?s)" + message):
        fitted.conf_int_conformal(**({"exog": NEW} | changes))


def test_summary_frame_takes_one_alpha(fitted):
    with pytest.raises(StabconfError, match="takes one number"):
        fitted.get_prediction(NEW).summary_frame(alpha=[0.1, 0.2])


@pytest.mark.parametrize(
    "z, message",
    [
        ([], r"z=\[\] is empty"),
        (["a"], r"z=\['a'\] are labels, which stand for the responses 0 to 0 in this order"),
        (["a", 1.0], r"z='a' is a str: give finite numbers, or labels"),
        ([np.inf], r"z=inf is not allowed: give finite"),
        (None, r"z=None is a NoneType: give finite numbers"),
    ],
)
def test_bad_candidates_are_named_with_their_fix(z, message):
    res = stabconf.fit("y ~ x", pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) ** 2}))
    with pytest.raises((ValueError, TypeError), match=message):
        res.conformity({"x": [1.0]}, z)


def test_a_formula_of_very_many_terms_says_what_to_do():
    many = "y ~ " + " + ".join(["x"] * 2000)
    with pytest.raises(stabconf.FormulaError, match="put blocks of a hundred in parentheses"):
        stabconf.fit(many, GOOD)


@pytest.mark.parametrize("argument", ["groups", "by", "folds"])
def test_a_column_of_lists_makes_no_groups(argument):
    data = GOOD.assign(pair=[[1, 2]] * len(GOOD))
    res = stabconf.fit("y ~ x", data)
    call = res.width_report if argument == "by" else res.conf_int_conformal
    how = {"method": "cv+"} if argument == "folds" else {}
    with pytest.raises(stabconf.InputTypeError, match=rf"{argument}='pair' has the value \[1, 2\], a list"):
        call(data, **{argument: "pair"}, **how)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"conditional": "~ C(h)"}, "a value is missing in the training rows: fill it"),
        ({"scale": "w"}, "scale='w' is nan in a training row"),
    ],
)
def test_values_that_training_rows_lack_beside_the_formula_are_named(options, words):
    beside = {"h": ["u", None, "v", "u", "v"], "w": [1.0, np.nan, 1.0, 1.0, 1.0]}
    frame = pd.DataFrame({"y": [0.2, -0.1, 0.6, 0.1, 0.4], "x": np.arange(5.0), **beside})
    res = stabconf.fit("y ~ x", frame)
    with pytest.raises(stabconf.InputError, match=words):
        res.conf_int_conformal(frame[:1], alpha=0.5, **options)


def test_columns_of_lists_in_a_formula_are_said_to_be_that():
    frame = pd.DataFrame({"y": [0.2, -0.1, 0.6], "x": [[1], [2], [3]]})
    with pytest.raises(stabconf.errors.FormulaError, match="A column has lists or arrays in it"):
        stabconf.fit("y ~ x", frame)
