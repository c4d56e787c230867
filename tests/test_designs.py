"""Designs are those of plain patsy, made in a fraction of its time: each factor evaluated once."""

import numpy as np
import pandas as pd
import patsy
import pytest

import stabconf
from stabconf.data import factors
from stabconf.data.design import build_design
from stabconf.errors import DataWarning, InputError

N = 90


def drawn(n=N, seed=0):
    """A frame with a column of every kind that a formula may name."""
    rng = np.random.default_rng(seed)
    words = np.array(["west", "North", "east", "10", "9"])
    frame = pd.DataFrame(
        {
            "y": rng.standard_normal(n),
            "x": rng.standard_normal(n),
            "z": rng.uniform(0.5, 2.0, n),
            "k": rng.integers(0, 4, n),
            "b": rng.uniform(size=n) < 0.5,
            "s": rng.choice(words, n),
            "a b": rng.standard_normal(n),
        },
        index=np.arange(1000, 1000 + n),
    )
    frame["half"] = frame["k"] / 2.0
    frame["o"] = pd.Series(rng.choice(words[:3], n), index=frame.index).astype(object)
    frame["c"] = pd.Categorical(rng.choice(["lo", "hi", "mid"], n), ["lo", "mid", "hi", "never"])
    frame["r"] = pd.Categorical(rng.choice(["lo", "hi", "mid"], n), ["lo", "mid", "hi"], ordered=True)
    frame["cut"] = pd.cut(frame["x"], [-9.0, -0.5, 0.5, 9.0])
    return frame


FORMULAS = [
    "y ~ 1",
    "y ~ 0 + x",
    "y ~ x + s",
    "y ~ s - 1",
    "y ~ o + s + c + r + b",
    "y ~ x:s + z",
    "y ~ o*c*x",
    "y ~ 0 + o:s",
    "y ~ b*s + C(b)",
    "y ~ C(k) + C(half)",
    "y ~ C(k, Sum)*x + C(r, Poly)",
    "y ~ C(s, Treatment(reference='east')) + C(o, Helmert)",
    "y ~ C(s, levels=['west', '9', 'east', '10', 'North'])",
    "y ~ C(C(k), Diff)",
    "y ~ C(k > 1) + C(c) + C(cut)",
    "y ~ cut + r:x",
    "y ~ bs(x, df=4) + cr(z, df=3)",
    "y ~ bs(x, df=4):s + te(cr(x, df=3), cr(z, df=3))",
    "y ~ center(x)*standardize(z)",
    "y ~ Q('a b')*C(Q('s'))",
    "np.log(z) ~ I(x**2) + np.exp(x):k + I(k * k)",
    "y ~ (x > 0) + (s == 'east') + np.where(o == 'west', x, z)",
    "y ~ s.str.len() + s.str.upper()",
    "y ~ x*z*k + x:z:s:b",
]
TRANSFORMS = ("bs(", "center(", "str", "==")


def of_patsy(formula, frame):
    return patsy.dmatrices(formula, frame, patsy.EvalEnvironment([{"np": np}]), return_type="dataframe")


def check_same(design, formula, frame):
    left, right = of_patsy(formula, frame)
    assert design.names == list(right.columns)
    assert np.array_equal(design.X, right.to_numpy())
    assert np.array_equal(design.y, left.to_numpy()[:, 0])
    assert design.index.equals(right.index)
    assert design.X.flags.c_contiguous
    return right.design_info


@pytest.mark.parametrize("formula", FORMULAS)
def test_designs_are_those_of_patsy_to_the_last_bit(formula):
    frame = drawn()
    design = build_design(formula, frame, {"np": np})
    info = check_same(design, formula, frame)
    new = frame.iloc[[5, 3, 80, 41]]
    expected = patsy.build_design_matrices([info], new)[0]
    assert np.array_equal(design.new_rows(new)[0], expected)


# A transform learns nothing from missing values, and expressions of text make a level of them: as in patsy.
PLAIN = [formula for formula in FORMULAS if not any(word in formula for word in TRANSFORMS)]


@pytest.mark.parametrize("formula", PLAIN)
def test_rows_with_missing_values_are_those_that_patsy_drops(formula):
    frame = drawn()
    for row, name in enumerate(["y", "x", "z", "s", "o", "c", "r", "a b"], 2):
        frame.loc[frame.index[row], name] = None if name == "o" else np.nan
    check_same(build_design(formula, frame, {"np": np}), formula, frame)


@pytest.mark.parametrize("step", [1, 7, 64])
def test_blocks_of_rows_of_any_size_make_the_same_columns(monkeypatch, step):
    frame = drawn()
    formula = "y ~ o*c*x + bs(z, df=4):s"
    whole = build_design(formula, frame, {}).X
    monkeypatch.setattr(factors, "_CELLS", step * whole.shape[1])
    assert np.array_equal(build_design(formula, frame, {}).X, whole)


def test_text_that_patsy_takes_for_missing_is_missing():
    frame = drawn()
    frame.loc[frame.index[:3], "s"] = ["nan", "NaN", "none"]
    design = build_design("y ~ s", frame, {})
    check_same(design, "y ~ s", frame)
    assert len(design.dropped) == 2


def test_a_factor_is_evaluated_once_and_learned_once():
    calls = []

    def twice(values):
        calls.append(len(values))
        return 2.0 * values

    frame = drawn()
    design = build_design("y ~ twice(x) + twice(x):s", frame, {"twice": twice})
    assert calls == [N]
    design.new_rows(frame.iloc[:5])
    assert calls == [N, 5]


def test_functions_see_new_rows_numbered_whatever_their_labels():
    def numbered(values):
        return pd.Series(2.0 * values.to_numpy())

    frame = drawn().reset_index(drop=True)
    design = build_design("y ~ numbered(x) + z", frame, {"numbered": numbered})
    assert np.array_equal(design.new_rows(frame.iloc[[7, 3, 3]])[0], design.X[[7, 3, 3]])


def test_categories_of_new_rows_may_have_their_levels_in_any_order():
    frame = drawn()
    design = build_design("y ~ c + C(r, Poly) + c.cat.codes", frame, {})
    new = frame.iloc[:20]
    turned = new.assign(
        c=new["c"].cat.set_categories(["hi", "lo", "mid"]), r=pd.Categorical(new["r"], ["hi", "mid", "lo"])
    )
    assert np.array_equal(design.new_rows(turned)[0], design.X[:20])


def test_levels_of_new_rows_keep_their_places_in_any_dtype():
    frame = drawn()
    design = build_design("y ~ s + C(k) + c", frame, {})
    expected = design.X[:20]
    new = frame.iloc[:20]
    for kind in (object, "category", "string"):
        given = new.assign(s=new["s"].astype(kind), k=new["k"].astype(float), c=new["c"].astype(str))
        assert np.array_equal(design.new_rows(given)[0], expected)
    with pytest.raises(InputError, match="south"):
        design.new_rows(new.assign(s="south"))


def test_numeric_parts_of_interactions_are_the_products_of_their_numbers():
    frame = drawn()
    design = build_design("y ~ 0 + x:s:bs(z, df=3)", frame, {})
    basis = np.asarray(patsy.dmatrix("0 + bs(z, df=3)", frame))
    products = frame["x"].to_numpy()[:, None] * basis
    assert set(design.kinds.parts) == set(range(len(design.names)))
    for j, name in enumerate(design.names):
        held = int(name.split("bs(z, df=3)[")[1][0])
        assert np.array_equal(design.kinds.parts[j], products[:, held])


def test_threads_that_ask_at_once_get_their_own_rows():
    from concurrent.futures import ThreadPoolExecutor

    frame = drawn(400)
    design = build_design("y ~ bs(x, df=5)*s + C(k)", frame, {})
    places = [np.random.default_rng(seed).integers(0, 400, 50) for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda rows: design.new_rows(frame.iloc[rows])[0], places))
    for rows, made in zip(places, found, strict=True):
        assert np.array_equal(made, design.X[rows])


def test_fits_go_through_the_same_designs():
    frame = drawn()
    results = stabconf.fit("y ~ x*s", frame, loss="huber", penalty=0.1)
    _, right = of_patsy("y ~ x*s", frame)
    assert np.allclose(results.predict(frame.iloc[:4]), right.to_numpy()[:4] @ results.params.to_numpy())


def shifted(values):
    return values - values.mean()


@pytest.mark.parametrize("term", ["I(x - np.mean(x))", "shifted(x)", "x.rank()", "np.cumsum(x)"])
def test_terms_that_go_by_other_rows_are_named(term):
    """A row alone has another value than among others, of which patsy says nothing."""
    frame = drawn()
    with pytest.warns(DataWarning, match="whose values depend on what other rows are there"):
        res = stabconf.fit(f"y ~ {term}", frame)
    assert res._design.depending == [res._design.names[1]]
    if term == "shifted(x)":
        assert abs(res.predict(frame.iloc[[0]]).iloc[0] - res.predict(frame).iloc[0]) > 1e-3


def test_terms_that_go_by_row_or_learn_from_training_are_not():
    frame = drawn()
    terms = (
        "bs(x, df=4) + cr(z, df=3) + standardize(x) + center(z) + C(s) * np.log(z) + pd.cut(x, [-9, 0, 9])"
    )
    assert stabconf.fit(f"np.exp(y) ~ {terms} + I(k ** 2):o", frame)._design.depending == []


@pytest.mark.parametrize(
    "term", ["bs(x, df=4)", "cr(x, df=3) + o", "center(x)", "bs(x, df=4):bs(z, df=3):s"]
)
def test_knots_and_means_are_learned_from_the_rows_that_lack_nothing(term):
    """patsy makes knots of a missing value, and no row is complete."""
    frame = drawn()
    lacking = frame.copy()
    lacking.loc[lacking.index[[3, 7]], "x"] = np.nan
    lacking.loc[lacking.index[9], "y"] = np.nan
    res = stabconf.fit(f"y ~ {term}", lacking)
    wanted = stabconf.fit(f"y ~ {term}", frame.drop(index=res._design.dropped))
    assert list(res._design.dropped) == list(frame.index[[3, 7, 9]])
    pd.testing.assert_series_equal(res.params, wanted.params)
    ends = res.conf_int_conformal(lacking.iloc[:5])
    assert ends.isna().any(axis=1).tolist() == [False, False, False, True, False]


def test_terms_that_fill_in_missing_values_keep_their_rows():
    frame = drawn()
    frame.loc[frame.index[:2], "x"] = np.nan
    assert stabconf.fit("y ~ np.where(np.isnan(x), 0, x)", frame).nobs == N
