"""Frames of every kind: polars, pyarrow, duckdb, and pandas with the types of others, answered alike."""

import pickle
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import stabconf
from stabconf.errors import FormulaError, InputError, InputTypeError

FORMULA = "y ~ x + k + g + b"


def drawn(n=48):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "k": rng.integers(-20, 100, n),
            "g": np.resize(["a", "b", "c"], n),
            "b": np.resize([True, False, True, True], n),
        }
    )
    return frame.assign(y=frame["x"] + 0.01 * frame["k"] + frame["b"] + rng.standard_normal(n))


def cells(frame):
    """Columns as lists, None where a value is missing."""
    return {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}


CONNECTION = duckdb.connect()  # a relation does not keep its connection open


def relation(frame):
    table = pa.table(cells(frame))
    return CONNECTION.from_arrow(table)


KINDS = {
    "polars": lambda frame: pl.DataFrame(cells(frame)),
    "lazy polars": lambda frame: pl.LazyFrame(cells(frame)),
    "pyarrow": lambda frame: pa.table(cells(frame)),
    "duckdb": relation,
    "pandas, nullable": lambda frame: frame.convert_dtypes(),
    "pandas, arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_is_answered_as_pandas_is(kind):
    make, frame = KINDS[kind], drawn()
    new = frame.iloc[:4].copy()
    wanted = stabconf.fit(FORMULA, frame, loss="huber")
    made = stabconf.fit(FORMULA, make(frame), loss="huber")
    pd.testing.assert_series_equal(made.params, wanted.params)
    pd.testing.assert_frame_equal(made.conf_int_conformal(make(new)), wanted.conf_int_conformal(new))
    np.testing.assert_allclose(made.predict(make(new)), wanted.predict(new))
    np.testing.assert_allclose(wanted.width_report(make(new), by="g"), wanted.width_report(new, by="g"))
    found = made.conf_int_conformal(make(new), 0.2, groups="b", method="cv+", folds=4)
    pd.testing.assert_frame_equal(
        found, wanted.conf_int_conformal(new, 0.2, groups="b", method="cv+", folds=4)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ["x", "k", "g", "b"])
def test_missing_values_of_every_kind_are_missing(kind, column):
    make, frame = KINDS[kind], drawn()
    lacking = frame.astype(object)
    lacking.loc[1, column] = None
    lacking = lacking.infer_objects()
    if column != "b":  # numbers and text as columns of their own type
        lacking[column] = pd.Series([*frame[column]], dtype=frame[column].dtype).where(
            lacking[column].notna()
        )
    made = stabconf.fit(FORMULA, make(lacking))
    wanted = stabconf.fit(FORMULA, frame.drop(index=1))
    np.testing.assert_allclose(made.params, wanted.params)
    ends = made.conf_int_conformal(make(lacking.iloc[:3]))
    assert ends.isna().all(axis=1).tolist() == [False, True, False]
    np.testing.assert_allclose(ends.iloc[0], wanted.conf_int_conformal(frame.iloc[:1]).iloc[0])


def test_results_come_as_pandas_or_as_asked():
    frame = drawn()
    made, new = stabconf.fit(FORMULA, pl.DataFrame(cells(frame))), pl.DataFrame(cells(frame.iloc[:3]))
    ends = made.conf_int_conformal(new, alpha=0.1)
    assert ends.attrs["guarantee"].startswith("covers with probability at least 0.9")
    theirs = made.conf_int_conformal(new, alpha=0.1, to="polars")
    assert isinstance(theirs, pl.DataFrame)
    np.testing.assert_allclose(theirs.to_numpy(), ends)
    several = made.conf_int_conformal(new, alpha=[0.1, 0.25], to="pyarrow")
    assert several.column_names == ["lower_0.1", "upper_0.1", "lower_0.25", "upper_0.25"]
    labelled = made.conf_int_conformal(frame.iloc[:2].set_axis(["u", "v"]), to="polars")
    assert labelled["index"].to_list() == ["u", "v"]
    table = made.get_prediction(new, alpha=0.1, to="polars").summary_frame()
    assert table.columns == ["mean", "obs_ci_lower", "obs_ci_upper"]
    band = stabconf.fit_quantiles("y ~ x", frame, quantiles=(0.2, 0.8)).conf_int_conformal(new, to="polars")
    assert isinstance(band, pl.DataFrame)
    assert len(made.width_report(new, to="polars")) == 1
    with pytest.raises(InputError, match="to='arrow' is unknown"):
        made.conf_int_conformal(new, to="arrow")


def test_categories_of_polars_keep_the_order_of_their_levels():
    frame = drawn()
    levels = pl.Enum(["c", "b", "a"])
    theirs = pl.DataFrame(cells(frame)).with_columns(pl.col("g").cast(levels))
    ordered = frame.assign(g=pd.Categorical(frame["g"], ["c", "b", "a"]))
    made, wanted = stabconf.fit("y ~ x + g", theirs), stabconf.fit("y ~ x + g", ordered)
    pd.testing.assert_series_equal(made.params, wanted.params)
    assert "g[T.b]" in made.params and "g[T.c]" not in made.params
    loose = pl.DataFrame(cells(frame)).with_columns(pl.col("g").cast(pl.Categorical))
    np.testing.assert_allclose(
        made.conf_int_conformal(loose.head(4)), wanted.conf_int_conformal(ordered[:4])
    )


def test_a_query_is_run_once_for_intervals():
    frame, runs = drawn(), []
    made = stabconf.fit(FORMULA, frame)
    lazy = pl.LazyFrame(cells(frame.iloc[:3])).map_batches(lambda rows: (runs.append(1), rows)[1])
    made.conf_int_conformal(lazy, 0.3, groups="b", method="split", scale=lambda rows: 1.0 + rows["k"] ** 2)
    assert len(runs) == 1


def test_models_of_statsmodels_take_polars_for_training_and_new_rows():
    frame = drawn()
    theirs = pl.DataFrame(cells(frame))
    wanted = stabconf.conformal(smf.ols("y ~ x + k", frame).fit()).conf_int_conformal(frame[:3])
    ends = stabconf.conformal(smf.ols("y ~ x + k", theirs).fit()).conf_int_conformal(theirs.head(3))
    np.testing.assert_allclose(ends, wanted)
    X = sm.add_constant(frame[["x", "k"]])
    made = stabconf.conformal(sm.OLS(frame["y"], X).fit())
    rows = pl.DataFrame(cells(X[:3]))
    np.testing.assert_allclose(made.conf_int_conformal(rows), wanted)
    np.testing.assert_allclose(made.predict(rows.select("k", "x", "const")), made.predict(X[:3]))


def test_results_of_other_frames_can_be_pickled():
    frame = drawn()
    made = stabconf.fit(FORMULA, pl.DataFrame(cells(frame)))
    again = pickle.loads(pickle.dumps(made))
    pd.testing.assert_frame_equal(again.conf_int_conformal(frame[:3]), made.conf_int_conformal(frame[:3]))


def test_what_is_no_frame_is_refused():
    for data in ([1, 2], "y", pl.Series("y", [1.0])):
        with pytest.raises(InputTypeError, match=r"pandas DataFrame .or one of polars"):
            stabconf.fit("y ~ 1", data)


# Columns of pandas ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint64"])
def test_small_integers_do_not_overflow_in_formulas(dtype):
    frame = drawn().assign(k=lambda rows: rows["k"].abs())
    wanted = stabconf.fit("y ~ I(k ** 2) + I(-k)", frame)
    small = frame.astype({"k": dtype})
    made = stabconf.fit("y ~ I(k ** 2) + I(-k)", small)
    np.testing.assert_allclose(made.params, wanted.params)
    np.testing.assert_allclose(made.predict(small), wanted.predict(frame))


def test_columns_of_arrow_types_are_numbers_flags_and_categories():
    frame = drawn()
    wanted = stabconf.fit(FORMULA, frame).params
    for name, values in {
        "x": pd.array(
            [Decimal(repr(float(v))) for v in frame["x"].round(6)],
            dtype=pd.ArrowDtype(pa.decimal128(20, 6)),
        ),
        "b": pd.array(frame["b"], dtype=pd.ArrowDtype(pa.bool_())),
        "g": pd.array(frame["g"], dtype=pd.ArrowDtype(pa.large_string())),
    }.items():
        np.testing.assert_allclose(
            stabconf.fit(FORMULA, frame.assign(**{name: values})).params, wanted, rtol=1e-3
        )
    coded = pa.chunked_array([pa.array(frame["g"].tolist()).dictionary_encode()])
    coded = pd.arrays.ArrowExtensionArray(coded)
    np.testing.assert_allclose(stabconf.fit(FORMULA, frame.assign(g=coded)).params, wanted)


def test_text_with_pandas_na_is_missing():
    frame = drawn().astype({"g": object})
    frame.loc[1, "g"] = pd.NA
    made = stabconf.fit(FORMULA, frame)
    assert made.nobs == len(frame) - 1
    assert made.conf_int_conformal(frame[:3]).isna().any(axis=1).tolist() == [False, True, False]


def test_a_column_called_intercept_is_named_with_the_remedy():
    frame = drawn().rename(columns={"x": "Intercept"})
    with pytest.raises(FormulaError, match="rename the column"):
        stabconf.fit("y ~ Intercept + k", frame)
    assert stabconf.fit("y ~ k", frame).nobs == len(frame)


def test_intervals_of_pd_cut_are_categories_at_new_rows_too():
    edges = [-10.0, -0.5, 0.5, 10.0]
    frame = drawn().assign(c=lambda rows: pd.cut(rows["x"], edges))
    made = stabconf.fit("y ~ c", frame)
    new = pd.DataFrame({"c": pd.cut(pd.Series([0.0, 2.0]), edges)})
    as_term = stabconf.fit("y ~ pd.cut(x, edges)", frame)
    np.testing.assert_allclose(
        made.conf_int_conformal(new), as_term.conf_int_conformal(pd.DataFrame({"x": [0.0, 2.0]}))
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "Ran out of input"), (b"hello", "Unpickling"), (pickle.dumps([1] * 99)[:20], "truncated")],
)
def test_a_file_that_is_not_whole_is_named(tmp_path, content, says):
    path = tmp_path / "model.pickle"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"(?s)model.pickle cannot be read.*{says}.*save again"):
        stabconf.load(path)


def test_labels_of_rows_may_have_the_name_of_a_column_of_the_answer():
    frame = drawn()
    new = frame.iloc[:3].set_axis(pd.Index(["a", "b", "c"], name="lower"))
    made = stabconf.fit(FORMULA, frame).conf_int_conformal(new, to="polars")
    assert made.columns == ["lower of the row", "lower", "upper"]


def test_complex_numbers_are_refused_by_the_name_of_their_column():
    frame = drawn()
    with pytest.raises(InputError, match="column 'x' of data holds complex numbers"):
        stabconf.fit("y ~ x", frame.assign(x=np.arange(48) + 1j))


@pytest.mark.parametrize("to", ["polars", "pyarrow"])
def test_labels_of_several_types_are_words_in_frames_with_one_type_a_column(to):
    frame = pd.DataFrame({"y": [0.2, -0.1, 0.6, 0.1], "x": np.arange(4.0)}, index=["a", 1, 2.5, "b"])
    made = stabconf.fit("y ~ x", frame).conf_int_conformal(frame, alpha=0.5, to=to)
    labels = made["index"].to_list() if to == "polars" else made["index"].to_pylist()
    assert labels == ["a", "1", "2.5", "b"]
