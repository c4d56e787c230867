"""A fit to a table in parts is that to the table in memory, and holds no more than a part of it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stabconf
from stabconf.cli import main
from stabconf.data.parts import TableParts
from stabconf.data.table_files import read_table
from stabconf.data.units import ColumnKinds, column_units, location_scale, spans_constant
from stabconf.rank import kth_of_blocks
from stabconf.results.fitting import fit_in_scope

N = 6_000
LOSSES = ["squared", "lad", stabconf.Quantile(0.8), "huber", "pseudo_huber", "logcosh"]


def make(n, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": random.normal(size=n),
            "w": random.uniform(1.0, 2.0, size=n),
            "b": random.integers(3, 5, size=n),
            "g": random.choice(["a", "b", "c"], size=n),
        }
    )
    frame["y"] = frame.x + np.sin(3 * frame.w) + (frame.g == "b") + random.standard_t(3, size=n)
    return frame


DATA = make(N)
DATA.loc[::50, "x"] = np.nan
DATA.loc[N - 300 :, "g"] = DATA.g[N - 300 :].replace("a", "z")  # a level of the last part alone
NEW = make(40, seed=1).assign(x=lambda d: d.x * np.repeat([1.0, 8.0], 20))


def in_parts(frame, cuts=(0, 1500, 1500, 1600, 5000)):
    """The frame in parts, one of them empty."""
    ends = [*cuts[1:], len(frame)]
    pieces = [frame.iloc[first:last] for first, last in zip(cuts, ends, strict=True)]
    return TableParts(frame.columns, lambda _: [lambda piece=piece: piece for piece in pieces])


def both(formula, data=DATA, **options):
    pair = data, in_parts(data)
    return [fit_in_scope({}, formula, each, **options) for each in pair]


@pytest.fixture(autouse=True)
def few_rows_in_memory(monkeypatch):
    monkeypatch.setattr("stabconf.sets.blocks._SAMPLE", 900)
    monkeypatch.setattr("stabconf.data.parts._BLOCK", 4_000)


def assert_same(whole, parted, new=NEW, alpha=0.1, side="two-sided"):
    assert parted.nobs == whole.nobs and parted.converged and whole.converged
    pd.testing.assert_series_equal(parted.params, whole.params, rtol=0, atol=1e-8)
    pd.testing.assert_series_equal(parted.predict(new), whole.predict(new), rtol=0, atol=1e-8)
    assert parted.scale == pytest.approx(whole.scale, rel=1e-9)
    own = whole.conf_int_conformal(new, alpha, "stable", side)
    got = parted.conf_int_conformal(new, alpha, side=side)
    # Ends of LAD have the radius of the certificate in them, which is some rounding errors' square root.
    pd.testing.assert_frame_equal(got, own, rtol=0, atol=1e-6)
    assert got.attrs["guarantee"] == own.attrs["guarantee"]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss_has_the_fit_and_the_intervals_of_the_table_in_memory(loss):
    whole, parted = both("y ~ x + w + b + C(g)", loss=loss)
    assert_same(whole, parted)
    assert_same(whole, parted, alpha=[0.05, 0.3], side="upper")


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x * g + center(w)",
        "np.exp(y / 9) ~ bs(w, df=5) + standardize(b)",
        "y ~ 0 + C(g) + w",
        "y ~ 0 + x + w",
        "y ~ 1",
        "y ~ x:w + C(b)",
    ],
)
def test_every_kind_of_column_has_its_units(formula):
    whole, parted = both(formula, loss="huber")
    assert_same(whole, parted, NEW[NEW.w.between(DATA.w.min(), DATA.w.max())])


def test_units_are_those_of_the_columns_in_memory():
    _, parted = both("y ~ x * g + w + b", loss="squared")
    whole = fit_in_scope({}, "y ~ x * g + w + b", DATA, loss="squared")
    np.testing.assert_allclose(parted._columns.mean, whole._columns.mean, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(parted._columns.scale, whole._columns.scale, rtol=1e-12)
    assert parted._fitted.centre == whole._fitted.centre and parted._fitted.scale == whole._fitted.scale


def test_a_scale_where_the_quartiles_are_one():
    data = DATA.assign(y=np.where(np.arange(N) % 7 == 0, DATA.y.round(), 0.0))
    whole, parted = both("y ~ x + g", data, loss="squared")
    assert parted._fitted.scale == pytest.approx(location_scale(whole._design.y)[1], rel=1e-12)
    pd.testing.assert_series_equal(parted.params, whole.params, rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:stability makes up:stabconf.StabilityWarning")
def test_few_rows_are_fitted_as_they_are(monkeypatch):
    monkeypatch.setattr("stabconf.sets.blocks._SAMPLE", 20_000)
    for loss in ("lad", "huber"):
        assert_same(*both("y ~ x + g", DATA.iloc[:1700], loss=loss))


def test_tables_of_nearest_rows_answer_as_all_rows_do(monkeypatch):
    monkeypatch.setattr("stabconf.stability.frozen._LEAST", 500)
    monkeypatch.setattr("stabconf.sets.frozen._ENTRIES", 100)
    for loss in ("lad", "huber", "squared"):
        whole, parted = both("y ~ x + g", loss=loss, penalty=0.1)
        table = parted.predictor(0.1)._fits.stable[0.1]
        assert len(table.base.solution.r) == 500 and table.below > 0
        assert_same(whole, parted, NEW.iloc[:20])
        known = whole.predictor(0.1, methods="stable")._fits.stable[0.1]
        assert table.below == known.below
        for kappa, metric in known.base.metrics.items():
            assert table.base.metric(kappa).holds == pytest.approx(metric.holds, rel=1e-6)


def test_rows_that_were_on_the_wrong_side_come_back(monkeypatch):
    monkeypatch.setattr("stabconf.solvers.blocks.APPROACH_STEPS", 0)
    monkeypatch.setattr("stabconf.sets.blocks._SAMPLE", 60)
    assert_same(*both("y ~ x + w + g", loss="lad"))


def test_too_few_rows_for_a_level_make_the_whole_line():
    _, parted = both("y ~ x", DATA.iloc[:1620], loss="huber")
    with pytest.warns(stabconf.SampleSizeWarning):
        ends = parted.conf_int_conformal(NEW, alpha=1e-5)
    assert np.isinf(ends).all().all()


values = st.lists(st.integers(-4, 4) | st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values, st.integers(1, 9), st.integers(1, 60), st.data())
def test_order_statistics_of_blocks_are_exact_whatever_the_sample(numbers, size, some, data):
    array = np.array(numbers, dtype=float)
    sample = array[data.draw(st.lists(st.integers(0, len(array) - 1), min_size=1, max_size=some))]
    ranks = [1, (len(array) + 1) // 2, len(array), len(array) + 1]
    blocks = [array[first : first + size] for first in range(0, len(array), size)]
    found = kth_of_blocks(lambda: blocks, sample, len(array), ranks)
    assert found == [*np.sort(array)[[rank - 1 for rank in ranks[:-1]]], np.inf]


def test_a_constant_in_the_span_is_found():
    _, parted = both("y ~ 0 + g", loss="huber")
    X = np.eye(4)[np.arange(8) % 4]
    np.testing.assert_allclose(parted._fitted.constant, spans_constant(X), atol=1e-12)
    assert both("y ~ 0 + x", loss="huber")[1]._fitted.constant is None
    units, _ = column_units(X, ColumnKinds.numeric(4, None))
    assert units.mean.tolist() == [0.0] * 4


def test_the_predictor_is_small_ships_and_is_made_once():
    _, parted = both("y ~ x + g", loss="huber")
    predictor = parted.predictor(0.1)
    assert predictor is parted.predictor(0.1)
    content = pickle.dumps(predictor)
    assert len(content) < 2_000_000
    own = parted.conf_int_conformal(NEW, 0.1)
    pd.testing.assert_frame_equal(pickle.loads(content).conf_int_conformal(NEW), own)
    frame = parted.get_prediction(NEW, alpha=0.1).summary_frame()
    assert frame.obs_ci_upper.tolist() == own.upper.tolist()


def test_the_summary_has_what_is_known():
    whole, parted = both("y ~ x + g", loss="huber")
    text = str(parted.summary())
    assert str(parted.nobs) in text and "g[T.z]" in text and "Rows dropped:" in text
    assert len(parted._design.dropped) == len(whole._design.dropped) == 120
    assert "6000 rows" not in repr(parted) and f"{parted.nobs} rows" in repr(parted)


def test_what_needs_the_rows_is_refused_with_a_way_out(tmp_path):
    _, parted = both("y ~ x", loss="huber")
    for ask in (
        lambda: parted.conf_int_conformal(NEW, method="exact"),
        lambda: parted.report,
        lambda: parted.conformity,
        lambda: parted.save(tmp_path / "results"),
    ):
        with pytest.raises(
            stabconf.AssumptionError, match=r"needs the training rows in memory.*: .*, or fit"
        ):
            ask()
    with pytest.raises(stabconf.InputTypeError, match="give new rows as exog"):
        parted.predict()
    with pytest.raises(stabconf.InputTypeError, match="option 'groups' is not for a predictor"):
        parted.conf_int_conformal(NEW, groups="g")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = parted.nothing


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loss": "power"}, "loss 'power.*' is not for rows that come in parts: use squared, lad"),
        ({"penalty": 0}, "need a ridge penalty on every coefficient: give penalty=0.01"),
        ({"l1_ratio": 0.5}, "need a ridge penalty"),
        ({"standardize": False}, "leave both at their defaults"),
        ({"solver": "scipy"}, "leave both at their defaults"),
    ],
)
def test_models_that_need_the_rows_are_refused(options, says):
    with pytest.raises(stabconf.AssumptionError, match=says):
        fit_in_scope({}, "y ~ x", in_parts(DATA), **options)


def test_tables_that_cannot_be_fitted_say_why():
    with pytest.raises(stabconf.FormulaError, match="one response at a time: call fit once for each"):
        fit_in_scope({}, "y + w ~ x", in_parts(DATA))
    with pytest.raises(stabconf.FormulaError, match=r"Series 'other' of the calling .*make it a col"):
        fit_in_scope({"other": DATA.x}, "y ~ other", in_parts(DATA))
    with pytest.raises(stabconf.InputError, match="missing values in column 'x'"):
        fit_in_scope({}, "y ~ x", in_parts(DATA), missing="raise")
    with pytest.raises(stabconf.InputError, match="missing='omit' is unknown"):
        fit_in_scope({}, "y ~ x", in_parts(DATA), missing="omit")
    with pytest.raises(stabconf.InputTypeError, match="formula=3 is a int: give a string"):
        fit_in_scope({}, 3, in_parts(DATA))
    with pytest.raises(stabconf.InputError, match="0 rows"):
        fit_in_scope({}, "y ~ x", in_parts(DATA.iloc[:0]))
    with pytest.raises(stabconf.FormulaError, match="name 'q' is not defined"):
        fit_in_scope({}, "y ~ q", in_parts(DATA))
    with pytest.raises(stabconf.FormulaError, match="each part would have its own: write center"):
        fit_in_scope({"np": np}, "y ~ I(x - np.mean(x))", in_parts(DATA))
    with pytest.raises(stabconf.InputError, match="gives inf for 'w' in row 5999"):
        fit_in_scope({}, "y ~ w", in_parts(DATA.assign(w=DATA.w.where(DATA.index < N - 1, np.inf))))
    with pytest.warns(stabconf.DataWarning, match="response 'c' is 2 in every row"):
        fit_in_scope({}, "c ~ x", in_parts(DATA.assign(c=2.0)))
    with pytest.warns(stabconf.DataWarning, match="column 'c' of the design is constant"):
        fit_in_scope({}, "y ~ x + c", in_parts(DATA.assign(c=2.0)))


def test_the_command_line_fits_files_one_by_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for place, first in enumerate(range(0, N, 2000)):
        DATA.iloc[first : first + 2000].to_csv(f"train-{place}.csv", index=False)
    DATA.to_csv("whole.csv", index=False)
    NEW.to_csv("new-1.csv", index=False)
    rest = ["--loss", "huber", "--new", "new-1.csv", "--method", "stable"]
    assert main(["fit", "y ~ x + C(g)", "train-*.csv", *rest, "--intervals", "parts.csv"]) == 0
    assert "No. Observations:" in capsys.readouterr().out
    assert main(["fit", "y ~ x + C(g)", "whole.csv", *rest, "--intervals", "whole-out.csv"]) == 0
    one, other = (read_table(name) for name in ("parts.csv", "whole-out.csv"))
    pd.testing.assert_frame_equal(one, other, rtol=0, atol=1e-8)
    rest = ["--loss", "huber", "--new", "new-*.csv", "--intervals", "out", "--quiet"]
    assert main(["fit", "y ~ x + C(g)", "train-*.csv", *rest]) == 0
    pd.testing.assert_frame_equal(read_table("out/new-1.csv"), one)
    assert main(["fit", "y ~ x", "train-*.csv", "--report", "out.html"]) == 1
    assert "neither --report nor --by" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_dask_frame_is_fitted_partition_by_partition():
    dd = pytest.importorskip("dask.dataframe")
    lazy = dd.from_pandas(DATA, npartitions=5)
    parted = stabconf.fit("y ~ x + C(g)", lazy, loss="huber")
    whole = stabconf.fit("y ~ x + C(g)", DATA, loss="huber")
    assert_same(whole, parted)
    ends = parted.conf_int_conformal(dd.from_pandas(NEW, npartitions=2), 0.1)
    own = parted.conf_int_conformal(NEW, 0.1)
    own.attrs = {}
    pd.testing.assert_frame_equal(ends.compute(scheduler="sync"), own)


def _ballast(seed):
    """A part of 50 MB, most of which no formula needs."""
    return make(25_000, seed).join(pd.DataFrame(np.full((25_000, 250), 1.0 * seed)).add_prefix("more"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_that_cannot_hold_the_table_fit_it():
    dd = pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    seeds = range(20)
    lazy = dd.from_map(_ballast, seeds, meta=_ballast(0).iloc[:0])
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": "400MB"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        parted = stabconf.fit("y ~ x + C(g) + more0", lazy, loss="huber")
    whole = stabconf.fit(
        "y ~ x + C(g) + more0",
        pd.concat([make(25_000, seed).assign(more0=1.0 * seed) for seed in seeds], ignore_index=True),
        loss="huber",
    )
    assert_same(whole, parted, NEW.assign(more0=3.0))
