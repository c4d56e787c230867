"""What is kept of a user's data: copies, matched to the rows by label, and no column misread."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import stabconf
from stabconf.errors import DataWarning, FormulaError, InputError, InputTypeError
from stabconf.study.comparison import oracle

N = 60


def drawn(n=N, start=100):
    """A frame with labels that are not positions, and columns that options may name."""
    rng = np.random.default_rng(n)
    frame = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "g": pd.Categorical(rng.choice(["a", "b"], n)),
            "w": rng.uniform(1.0, 2.0, n),
            "s": rng.uniform(0.5, 1.0, n),
            "h": rng.choice(["u", "v"], n),
        },
        index=np.arange(start, start + n),
    )
    frame["y"] = 1.0 + frame["x"] + frame["s"] * rng.standard_normal(n)
    return frame


NEW = drawn(6, start=500)


class Mean:
    def fit(self, X, y):
        self.mean = y.mean() + X.sum()

    def predict(self, X):
        return np.full(len(X), self.mean)


# Changes of the user's frame -------------------------------------------------------------------------


def set_columns(frame):
    for name in ("x", "w", "s", "y"):
        frame[name] = 1.0 + np.arange(len(frame))


def set_cells(frame):
    frame.loc[frame.index[:20], ["x", "y", "w", "s"]] = 50.0
    frame.loc[frame.index[5], "x"] = np.nan


def add_a_row_and_drop_columns(frame):
    frame.loc[999] = frame.loc[100]
    for name in ("x", "g", "w", "s", "h"):
        del frame[name]


def recode(frame):
    frame["g"] = frame["g"].cat.rename_categories({"a": "b", "b": "a"})
    frame["h"] = "v"
    frame["more"] = 1.0


def relabel(frame):
    frame.index = range(len(frame))
    frame.columns = [f"other_{name}" for name in frame.columns]


CHANGES = [set_columns, set_cells, add_a_row_and_drop_columns, recode, relabel]
MAKERS = {
    "fit": lambda data: stabconf.fit("y ~ x + g", data, loss="huber", penalty=0.1),
    "quantiles": lambda data: stabconf.fit_quantiles("y ~ x + g", data, penalty=0.1),
    "estimator": lambda data: stabconf.fit("y ~ x + g", data, estimator=Mean()),
    "statsmodels": lambda data: stabconf.conformal(smf.ols("y ~ x + g", data).fit()),
    "weighted": lambda data: stabconf.conformal(smf.wls("y ~ x + g", data, weights=data["w"]).fit()),
}


def answers(res):
    """All that a user can ask that may go back to the frame."""
    weighted = isinstance(res, stabconf.StatsmodelsResults) and "WLS" in repr(res)
    more = {"wls_weights": "w"} if weighted else {}
    scaled = not isinstance(res, stabconf.QuantileResults) and not weighted
    options = [{}, {"groups": "h"}, {"groups": ["g", "h"]}, {"groups": "w > 1.5"}, {"weights": "w"}]
    if scaled:
        options += [{"scale": scale, "method": "split"} for scale in ("s", lambda frame: frame["s"])]
    made = [res.conf_int_conformal(NEW, alpha=0.3, **more, **each) for each in options]
    made += [res.conf_int_conformal(alpha=0.3, groups="h"), res.predict(NEW), res.fittedvalues, res.resid]
    made += [pd.DataFrame(res.width_report(by=by, alpha=0.3)) for by in ("g", "h", {"w": 2}, "s > 0.7")]
    return [*made, pd.Series([res.nobs])]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        (pd.testing.assert_frame_equal if one.ndim == 2 else pd.testing.assert_series_equal)(one, other)


@pytest.mark.parametrize("kind", MAKERS)
def test_later_changes_of_the_frame_change_nothing(kind, tmp_path):
    wanted = answers(MAKERS[kind](drawn()))
    for change in CHANGES:
        data = drawn()
        res = MAKERS[kind](data)
        change(data)
        assert_same(answers(res), wanted)
        assert_same(answers(pickle.loads(pickle.dumps(res))), wanted)
    res.save(tmp_path / "kept.pickle")
    assert_same(answers(stabconf.load(tmp_path / "kept.pickle")), wanted)


def test_later_changes_of_arrays_under_the_data_change_nothing():
    source = drawn()
    arrays = {name: source[name].to_numpy(dtype=float, copy=True) for name in ("x", "w", "y")}
    values, labels = source[["x", "w", "y"]].to_numpy(copy=True), source.index.to_numpy(copy=True)
    frame = pd.DataFrame(values, columns=["x", "w", "y"], index=labels, copy=False)
    z = arrays["x"] ** 2
    edges = [-1.0, np.array([0.0, 1.0])]

    def below(x, edges):
        return (x < edges[1][0]).astype(float)

    results = []
    for data in (arrays, frame):  # a comprehension has a scope of its own
        results.append(stabconf.fit("y ~ x + z + below(x, edges)", data, loss="huber"))
    new = {"x": [-0.5, 0.5], "w": [1.0, 1.5], "z": [0.0, 1.0]}
    asked = [(res, new, options) for res in results for options in ({}, {"weights": "w"})]
    wanted = [res.conf_int_conformal(rows, alpha=0.3, **options) for res, rows, options in asked]
    indices = [res.fittedvalues for res in results]
    for array in (*arrays.values(), values, z, edges[1]):
        array[...] = 9.0
    labels += 1000
    assert_same(
        [res.conf_int_conformal(rows, alpha=0.3, **options) for res, rows, options in asked], wanted
    )
    assert_same([res.fittedvalues for res in results], indices)


def test_later_changes_of_statsmodels_arrays_change_nothing_and_its_result_stays():
    source = drawn()
    y, X = source["y"].to_numpy(copy=True), sm.add_constant(source[["x", "w"]].to_numpy(copy=True))
    theirs = sm.OLS(y, X).fit()
    res, params = stabconf.conformal(theirs), theirs.params.copy()
    wanted = res.conf_int_conformal(X[:3], alpha=0.3)
    rows = X[:3].copy()
    assert theirs.model.exog is X and theirs.model.endog is y
    y[...], X[...], theirs.params[...] = 0.0, 1.0, 7.0
    assert_same([res.conf_int_conformal(rows, alpha=0.3)], [wanted])
    np.testing.assert_array_equal(res.params, params)


def test_later_changes_of_new_rows_change_no_prediction(results, frame):
    new, weights = frame.iloc[:4].copy(), np.ones(len(frame) + 4)
    asked = results.get_prediction(new, weights=weights)
    wanted = asked.summary_frame(0.3)
    new["x1"], weights[:40] = 5.0, 9.0
    assert_same([asked.summary_frame(0.3)], [wanted])


def test_later_changes_of_an_estimator_and_its_bounds_change_nothing():
    data, estimator, tau = drawn(), Mean(), np.full(N + 1, 0.1)
    res = stabconf.fit("y ~ x", data, estimator=estimator, tau=tau)
    asked = [{"method": "replace_one"}, {"method": "split", "transductive": True}]
    wanted = [res.conf_int_conformal(NEW, alpha=0.3, **options) for options in asked]
    tau[...] = 9.0
    estimator.predict = lambda X: np.full(len(X), 1e3)
    assert_same([res.conf_int_conformal(NEW, alpha=0.3, **options) for options in asked], wanted)


# Series go by label ----------------------------------------------------------------------------------


def shuffled(values):
    return values.sample(frac=1.0, random_state=1)


def test_a_series_of_the_calling_scope_is_matched_by_label():
    data = drawn()
    z = shuffled(data["x"] * 2.0 + data["w"])
    wanted = stabconf.fit("y ~ z", data.assign(z=z), loss="huber")
    for other in (z, pd.concat([z, pd.Series([1.0], index=[-1])])):
        z = other
        for found in (
            stabconf.fit("y ~ z", data, loss="huber"),
            pickle.loads(pickle.dumps(stabconf.fit("y ~ z", data, loss="huber"))),
        ):
            pd.testing.assert_series_equal(found.params, wanted.params)
            pd.testing.assert_series_equal(found.fittedvalues, wanted.fittedvalues)
            rows = NEW.assign(z=1.0)
            assert_same([found.conf_int_conformal(rows)], [wanted.conf_int_conformal(rows)])
            ranked = {"groups": "z > 1", "transductive": True, "alpha": 0.3}
            assert_same(
                [found.conf_int_conformal(rows, **ranked)], [wanted.conf_int_conformal(rows, **ranked)]
            )
    z = shuffled(data["g"].cat.reorder_categories(["b", "a"]))
    assert "z[T.a]" in stabconf.fit("y ~ z", data).params.index
    z = shuffled(pd.Series(np.arange(N) % 7, index=data.index, dtype="Int64"))
    assert list(stabconf.fit("y ~ z", data).params.index) == ["Intercept", "z"]
    z = shuffled(data["y"] ** 2)
    pd.testing.assert_series_equal(
        stabconf.fit("z ~ x", data).params, stabconf.fit("I(y ** 2) ~ x", data).params
    )


@pytest.mark.parametrize(
    "index, message",
    [
        (range(N), r"'z' of the calling scope is a Series whose index lacks the label 100 of a row"),
        ([100, *range(100, 99 + N)], r"'z' of the calling scope.*lacks the label 159"),
        ([*range(100, 100 + N), 100], r"'z' of the calling scope.*has the label 100 more than once"),
    ],
)
def test_a_series_that_cannot_be_matched_is_refused(index, message):
    data, z = drawn(), pd.Series(1.0, index=index)
    with pytest.raises(InputError, match=message + r".*\.to_numpy\(\)"):
        stabconf.fit("y ~ x + z", data)
    z = z.to_numpy()[:N] + data["w"].to_numpy()
    assert stabconf.fit("y ~ x + z", data).nobs == N


def test_duplicated_labels_go_by_position_only_where_they_are_the_same():
    data = drawn().set_axis(np.arange(N) // 2)
    z = data["w"] ** 2
    wanted = stabconf.fit("y ~ z", data.assign(z=z.to_numpy()))
    pd.testing.assert_series_equal(stabconf.fit("y ~ z", data).params, wanted.params)
    weights = data["w"], NEW["w"]
    assert_same(
        [wanted.conf_int_conformal(NEW.assign(z=1.0), alpha=0.3, weights=weights)],
        [wanted.conf_int_conformal(NEW.assign(z=1.0), alpha=0.3, weights="w")],
    )
    z = z.sample(frac=1.0, random_state=0)
    with pytest.raises(InputError, match=r"'z' of the calling scope.*more than once"):
        stabconf.fit("y ~ z", data)
    with pytest.raises(InputError, match=r"weights of the training rows is a Series.*more than once"):
        wanted.conf_int_conformal(NEW.assign(z=1.0), weights=(shuffled(weights[0]), weights[1]))


def test_a_series_that_is_no_column_stays_a_parameter():
    data, knots = drawn(), drawn()["x"].quantile([0.25, 0.5, 0.75])
    assert len(stabconf.fit("y ~ bs(x, knots=knots, degree=1)", data).params) == 2 + len(knots)
    with pytest.raises(FormulaError, match="its index, and a value for each row"):
        stabconf.fit("y ~ x + knots", data)


def test_series_that_functions_make_with_other_labels_are_refused():
    data = drawn()

    def squared(x):
        return pd.Series(x.to_numpy() ** 2)

    other = pd.DataFrame({"z": np.arange(float(N))})
    assert len(other) == N
    for formula in ("y ~ squared(x)", "y ~ other['z']"):
        with pytest.raises(FormulaError, match=r"(?s)Index mismatch.*its index, and a value for each row"):
            stabconf.fit(formula, data)
    assert stabconf.fit("y ~ squared(x)", data.reset_index(drop=True)).nobs == N


def test_values_of_training_rows_are_never_taken_for_as_many_new_ones():
    data, other = drawn(), drawn().set_axis(np.arange(900, 900 + N))
    for z in (data["w"] ** 2, data["w"].to_numpy() ** 2):
        res = stabconf.fit("y ~ x + z", data)
        assert len(z) == len(other)
        with pytest.raises(
            InputError, match="variable 'z' of the calling scope had one value a training row"
        ):
            res.predict(other)
        assert res.predict(other.assign(z=1.0)).notna().all()
    response = data["y"].to_numpy() ** 2
    assert len(response) == len(other)
    assert stabconf.fit("response ~ x", data).predict(other).notna().all()


def test_comparing_and_choosing_take_a_series_of_the_calling_scope_along():
    data = drawn()
    z = shuffled(data["x"] + data["w"])
    whole = data.assign(z=z)
    options = {"repeats": 2, "progress": False}
    made = stabconf.compare("y ~ z", data, ["split"], **options)
    assert list(made["length"]) == list(stabconf.compare("y ~ z", whole, ["split"], **options)["length"])
    options = {"progress": False, "alpha": 0.2}
    chosen = stabconf.select_penalty("y ~ z", data, **options)
    pd.testing.assert_frame_equal(chosen.path, stabconf.select_penalty("y ~ z", whole, **options).path)


def test_weights_given_as_series_are_matched_by_label():
    data = drawn()
    data.loc[[103, 110], "x"] = np.nan
    res = stabconf.fit("y ~ x", data, loss="huber", penalty=0.1)
    wanted = res.conf_int_conformal(NEW, alpha=0.3, weights="w")
    old, new = shuffled(data["w"]), shuffled(NEW["w"])
    known = shuffled(data["w"].drop([103, 110]))
    pairs = [(old, new), (known, new), (data["w"], NEW["w"]), (data["w"].to_numpy(), new)]
    both = [pd.concat([old, new]), shuffled(pd.concat([known, new])), pd.concat([data["w"], NEW["w"]])]
    callables = [lambda frame: shuffled(frame["w"])]
    for weights in (*pairs, *both, *callables):
        assert_same([res.conf_int_conformal(NEW, alpha=0.3, weights=weights)], [wanted])
    bad = [
        (old.reset_index(drop=True), new),
        (old, new.reset_index(drop=True)),
        pd.concat([old, new], ignore_index=True),
        lambda frame: frame["w"].reset_index(drop=True),
    ]
    for weights in bad:
        with pytest.raises(InputError, match=r"weights.* is a Series whose index lacks the label"):
            res.conf_int_conformal(NEW, alpha=0.3, weights=weights)


def test_weights_of_a_weighted_model_are_matched_by_label():
    data = drawn()
    res = stabconf.conformal(smf.wls("y ~ x", data, weights=data["w"]).fit())
    wanted = res.conf_int_conformal(NEW, wls_weights="w")
    assert_same([res.conf_int_conformal(NEW, wls_weights=shuffled(NEW["w"]))], [wanted])
    with pytest.raises(InputError, match="wls_weights is a Series whose index lacks the label 500"):
        res.conf_int_conformal(NEW, wls_weights=NEW["w"].reset_index(drop=True))


def test_what_callables_return_is_matched_by_label():
    res = stabconf.fit("y ~ x", drawn(), loss="huber", penalty=0.1)
    for name, options in {"z_hat": {"method": "replace_one"}, "scale": {"method": "split"}}.items():
        plain, mixed, other = (
            {name: change}
            for change in (
                lambda frame: frame["w"].to_numpy(),
                lambda frame: shuffled(frame["w"]),
                lambda frame: frame["w"].reset_index(drop=True),
            )
        )
        wanted = res.conf_int_conformal(NEW, alpha=0.3, **plain, **options)
        assert_same([res.conf_int_conformal(NEW, alpha=0.3, **mixed, **options)], [wanted])
        with pytest.raises(InputError, match=rf"{name}.* is a Series whose index lacks the label"):
            res.conf_int_conformal(NEW, alpha=0.3, **other, **options)
    with pytest.raises(InputTypeError, match="z_hat is a Series: give a number"):
        res.conf_int_conformal(NEW, method="replace_one", z_hat=NEW["w"])


def test_responses_are_matched_by_label():
    res, new = stabconf.fit("y ~ x", drawn(), loss="huber", penalty=0.1), NEW.drop(columns="y")
    wanted = pd.DataFrame(res.width_report(NEW, alpha=0.3))
    assert wanted["coverage"].iloc[0] > 0
    assert_same([pd.DataFrame(res.width_report(new, alpha=0.3, response=shuffled(NEW["y"])))], [wanted])
    with pytest.raises(InputError, match="response is a Series whose index lacks the label 500"):
        res.width_report(new, response=NEW["y"].reset_index(drop=True))
    assert_same([oracle(res, new, shuffled(NEW["y"]))], [oracle(res, new, NEW["y"].to_numpy())])


# Columns that would be misread -----------------------------------------------------------------------


def with_cells(cells, column="x", text=False):
    data = drawn()
    values = data[column].map(str) if text else data[column]
    data[column] = values.astype(object)
    for label, value in cells.items():
        data.loc[label, column] = value
    return data


@pytest.mark.parametrize("text", [True, False])
def test_text_among_numbers_is_named(text):
    data = with_cells({117: "unknown", 130: None}, text=text)
    message = (
        r"column 'x' of data has 'unknown' \(row 117\) among numbers.*"
        r"data\['x'\] = pd.to_numeric\(data\['x'\], errors='coerce'\).*or write C\(x\) if it is a category"
    )
    for formula in ("y ~ x", "y ~ I(x) + w", "y ~ w:x", "y ~ Q('x')"):
        with pytest.raises(InputError, match=message):
            stabconf.fit(formula, data)
        with pytest.raises(InputError, match=message):
            stabconf.fit_quantiles(formula, data.astype({"x": "string"}))
    data["x"] = pd.to_numeric(data["x"], errors="coerce")
    assert stabconf.fit("y ~ x", data).nobs == N - 2


def test_cells_that_are_not_numbers_are_counted_and_the_response_is_no_category():
    cells = dict.fromkeys((101, 102, 103, 104, 105), "-")
    with pytest.raises(InputError, match=r"'-' \(row 101\), .*'-' \(row 103\) and 2 more such cells"):
        stabconf.fit("y ~ x", with_cells(cells))
    with pytest.raises(InputError, match=r"column 'y' of data has '-'.*counts as missing\)$"):
        stabconf.fit("y ~ x", with_cells(cells, "y"))
    spaced = with_cells(cells).rename(columns={"x": "a b"})
    with pytest.raises(InputError, match=r"write C\(Q\('a b'\)\)"):
        stabconf.fit("y ~ Q('a b')", spaced)


def test_texts_of_numbers_among_numbers_are_named():
    with pytest.raises(InputError, match=r"column 'x' of data has '2.5' \(row 104\) among numbers"):
        stabconf.fit("y ~ x", with_cells({104: "2.5"}))


def test_categories_of_text_and_of_texts_of_numbers_stay_categories():
    data = drawn()
    for levels in (["1", "2", "3"], ["1", "2", "4+"], ["u", "v", "7"], ["u", 1.5, 2]):
        data["k"] = pd.Series(levels * (N // 3), index=data.index, dtype=object)
        assert len(stabconf.fit("y ~ k", data).params) == 3
    sized = pd.Series(["1", "2", "3", "4", "5+"] * (N // 5), index=data.index)
    assert len(stabconf.fit("y ~ C(k)", data.assign(k=sized)).params) == 5
    assert len(stabconf.fit("y ~ k", data.assign(k=sized.astype("category"))).params) == 5


@pytest.mark.parametrize("kind", [int, float, Decimal, np.float32, "mixed"])
def test_objects_that_are_numbers_are_numeric(kind):
    data = drawn().assign(x=np.arange(N) % 9)
    kinds = [int, float, Decimal] if kind == "mixed" else [kind]
    cells = [kinds[i % len(kinds)](int(value)) for i, value in enumerate(data["x"])]
    given = data.assign(x=pd.Series(cells, index=data.index, dtype=object))
    given.loc[105, "x"] = data.loc[105, "x"] = None
    res, wanted = stabconf.fit("y ~ x + np.sqrt(x)", given), stabconf.fit("y ~ x + np.sqrt(x)", data)
    pd.testing.assert_series_equal(res.params, wanted.params)
    new = pd.DataFrame({"x": [*cells[:3], None]}, dtype=object)
    assert_same([res.predict(new)], [wanted.predict({"x": [0.0, 1.0, 2.0, None]})])


@pytest.mark.parametrize("transductive", [False, True])
def test_text_in_new_rows_of_a_number_is_named(transductive):
    res = stabconf.fit("y ~ x", drawn(), loss="huber")
    new = NEW.assign(x=[1.0, 2.0, "unknown", None, 3.0, 4.0])
    with pytest.raises(InputError, match=r"exog has 'unknown' in 'x', which was numeric .* \(row 502\)"):
        res.conf_int_conformal(new, transductive=transductive)


DAYS = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N) % 6, "D"), index=drawn().index)
TIMES = {
    "naive": (DAYS, "dates"),
    "zone": (DAYS.dt.tz_localize("UTC"), "dates"),
    "date": (DAYS.dt.date, "dates"),
    "duration": (DAYS - DAYS.min(), "durations"),
    "period": (DAYS.dt.to_period("D"), "periods"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_refused_and_both_remedies_work(kind):
    times, word = TIMES[kind]
    data = drawn().assign(t=times)
    with pytest.raises(
        InputError, match=f"column 't' of data holds {word} .*: give a number.*category"
    ) as seen:
        stabconf.fit("y ~ t", data)
    said = str(seen.value)
    names = {"pd": pd, "data": data}
    if "data['days']" in said:
        exec(said[said.index("t = ") : said.index(", or")], names)
    else:
        data["days"] = eval(said[said.index("pd.") : said.index(" say")], names)
    assert len(np.unique(stabconf.fit("y ~ days", data)._design.X[:, 1])) == 6
    if "write C(t)" in said:
        made = stabconf.fit("y ~ C(t)", data)
    else:
        assert "data['t'].astype(str)" in said
        with pytest.raises(InputError, match=f"holds {word}"):
            stabconf.fit("y ~ C(t)", data)
        made = stabconf.fit("y ~ k", data.assign(k=data["t"].astype(str)))
    assert len(made.params) == 6
    with pytest.raises(InputError, match=f"column 't' of data holds {word}(?!.*category)"):
        stabconf.fit("t ~ x", data)


def test_parts_of_dates_are_numbers():
    data = drawn().assign(t=TIMES["zone"][0])
    assert list(stabconf.fit("y ~ t.dt.day", data).params.index) == ["Intercept", "t.dt.day"]
    assert isinstance(TIMES["date"][0].iloc[0], datetime.date)


def test_a_category_with_nearly_as_many_levels_as_rows_is_named():
    data = drawn()
    for formula, values in {
        "y ~ k": data["x"].map(str),
        "y ~ C(k)": np.arange(N) // 1.5,
    }.items():
        code = formula.removeprefix("y ~ ")
        with pytest.warns(DataWarning, match=r"nearly as many levels as the 60 rows: ") as seen:
            stabconf.fit(formula, data.assign(k=values))
        assert f"{code!r} (" in str(seen[0].message) and "pd.to_numeric" in str(seen[0].message)
        assert seen[0].filename == __file__
        with pytest.warns(DataWarning, match="nearly as many levels"):
            stabconf.fit_quantiles(formula, data.assign(k=values))
    stabconf.fit("y ~ C(k)", data.assign(k=np.arange(N) // 2))  # pairs
    stabconf.fit("y ~ C(k)", data.iloc[:20].assign(k=np.arange(20)))  # few rows


def test_levels_that_differ_in_blanks_alone_are_named():
    data = drawn().assign(k=["a b", " a b", "c", "C", "d"] * (N // 5))
    with pytest.warns(DataWarning, match=r"'k' has levels that differ in blanks alone, such as ' a b': "):
        stabconf.fit("y ~ k", data)
    stabconf.fit("y ~ k + C(j)", data.assign(k=data["k"].str.strip(), j=[1, 2.5] * (N // 2)))


def test_text_with_missing_values_and_cut_columns_work():
    data = drawn().assign(k=pd.array(["a", "b", None] * (N // 3), dtype="string"))
    data["c"] = pd.cut(data["x"], [-9.0, 0.0, 9.0])
    res = stabconf.fit("y ~ k + c", data)
    assert res.nobs == N * 2 // 3 and len(res.params) == 3
    np.testing.assert_allclose(res.predict(data).dropna(), res.fittedvalues)


# Columns are no code ---------------------------------------------------------------------------------


def test_a_column_that_new_rows_lack_is_named_and_never_evaluated():
    ran, name = [], "doubled()"

    def doubled(x=None):
        return ran.append(1) if x is None else 2 * x

    res = stabconf.fit("y ~ doubled(x)", drawn().rename(columns={"h": name, "w": "sum"}), loss="huber")
    rows = NEW[["x"]]
    asked = {
        "groups": lambda column: res.conf_int_conformal(rows, groups=column),
        "by": lambda column: res.width_report(rows, by=column),
        "x": lambda column: res.plot_intervals(rows, x=column),
    }
    for argument, ask in asked.items():
        for column, lacking in {name: name, "sum": "sum", "C(sum)": "sum", "sum > 1.5": "sum"}.items():
            with pytest.raises(InputError) as seen:
                ask(column)
            said = f"{argument}={column!r} goes by column {lacking!r}, which the new rows lack: give both"
            assert said in str(seen.value)
    with pytest.raises(InputError, match=r"by='sum' goes by column 'sum'"):
        res.width_report(rows, by={"sum": 2})
    with pytest.raises(InputError, match=r"by=3 is not a column"):
        res.width_report(rows, by={3: 2})
    rows = rows.assign(**{"doubled( )": "a"})
    with pytest.raises(InputError, match=r"groups='doubled\( \)' goes by .* the training rows lack"):
        res.conf_int_conformal(rows, groups="doubled( )")
    assert ran == []
