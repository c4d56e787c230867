"""Frames of dask: lazy answers, partition by partition, equal to those of the frame in memory."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import stabconf
from stabconf.cli import main
from stabconf.data.table_files import read_table, write_table

dd = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def make(n, seed=0):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": random.normal(size=n), "g": random.choice(["a", "b"], size=n)})
    return frame.assign(y=frame.x + (frame.g == "b") + random.standard_t(3, size=n))


@pytest.fixture(scope="module")
def res():
    return stabconf.fit("y ~ x + C(g)", make(200), loss="huber")


NEW = make(60, seed=1).drop(columns="y").assign(x=lambda d: d.x.where(d.index != 7))


@pytest.mark.parametrize("method", ["auto", "split"])
def test_intervals_of_a_dask_frame_are_lazy_and_those_of_the_frame(res, method):
    lazy = dd.from_pandas(NEW, npartitions=4)
    made = res.conf_int_conformal(lazy, 0.1, method, "upper", random_state=3 if method == "split" else None)
    assert isinstance(made, dd.DataFrame) and made.npartitions == lazy.npartitions
    more = {"random_state": 3} if method == "split" else {}
    own = res.conf_int_conformal(NEW, 0.1, "stable" if method == "auto" else method, "upper", **more)
    own.attrs = {}
    pd.testing.assert_frame_equal(made.compute(scheduler="threads"), own)
    pd.testing.assert_series_equal(res.predict(lazy).compute(scheduler="sync"), res.predict(NEW))


def test_a_predictor_answers_dask_frames_too(res):
    predictor = res.predictor([0.1, 0.2], methods="stable")
    lazy = dd.from_pandas(NEW, npartitions=2)
    made = predictor.conf_int_conformal(lazy, 0.2).compute(scheduler="sync")
    pd.testing.assert_frame_equal(made, predictor.conf_int_conformal(NEW, 0.2))


def test_what_lazy_frames_cannot_have_is_refused_at_once(res):
    lazy = dd.from_pandas(NEW, npartitions=2)
    with pytest.raises(stabconf.InputError, match="methods='exact' is not allowed: give 'stable', 'split'"):
        res.conf_int_conformal(lazy, method="exact")
    with pytest.raises(stabconf.InputTypeError, match="option 'groups' is not for a predictor"):
        res.conf_int_conformal(lazy, groups="g")
    with pytest.raises(stabconf.InputTypeError, match="one number is needed here"):
        res.conf_int_conformal(lazy, [0.1, 0.2])
    with pytest.raises(stabconf.InputError, match="exog lacks column 'x'"):
        res.conf_int_conformal(lazy[["g"]])
    others = stabconf.conformal(smf.ols("y ~ x", make(50)).fit())
    with pytest.raises(stabconf.AssumptionError, match=r"StatsmodelsResults .* exog.compute\(\)"):
        others.conf_int_conformal(lazy)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_worker_processes_give_the_same(res):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": "500MB"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        made = res.conf_int_conformal(dd.from_pandas(NEW, npartitions=4), 0.1).compute()
    own = res.conf_int_conformal(NEW, 0.1, "stable")
    own.attrs = {}
    pd.testing.assert_frame_equal(made, own)


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_the_command_line_goes_file_by_file(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    make(200).to_csv("train.csv", index=False)
    new = make(30, seed=2)
    for i, part in enumerate((new.iloc[:10], new.iloc[10:])):
        write_table(f"part-{i}{kind}", part.reset_index(drop=True))
    command = ["fit", "y ~ x + C(g)", "train.csv", "--loss", "huber", "--new", f"part-*{kind}"]
    assert main([*command, "--intervals", "out/"]) == 0
    assert "Intervals of 2 files written to out" in capsys.readouterr().out
    made = pd.concat([read_table(f"out/part-{i}{kind}") for i in (0, 1)])
    res = stabconf.fit("y ~ x + C(g)", make(200), loss="huber")
    own = res.conf_int_conformal(new, method="stable")
    np.testing.assert_allclose(made[["obs_ci_lower", "obs_ci_upper"]], own, rtol=1e-9)
    np.testing.assert_allclose(made["y"], new["y"])
    assert main([*command, "--method", "exact", "--intervals", "exact"]) == 0
    exact = pd.concat([read_table(f"exact/part-{i}{kind}") for i in (0, 1)])
    np.testing.assert_allclose(exact["obs_ci_upper"], res.conf_int_conformal(new)["upper"], rtol=1e-9)


def test_a_pattern_of_new_files_that_cannot_be_used_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make(50).to_csv("train.csv", index=False)
    command = ["fit", "y ~ x", "train.csv", "--new"]
    assert main([*command, "nothing-*.csv", "--intervals", "out"]) == 1
    assert "names no file" in capsys.readouterr().err
    assert main([*command, "tr*.csv"]) == 1
    assert "give --intervals out/" in capsys.readouterr().err
    assert main([*command, "tr*.csv", "--intervals", "."]) == 1
    assert "two tables would have one name" in capsys.readouterr().err


def test_bands_and_frames_of_other_kinds_cannot_be_lazy(res):
    lazy = dd.from_pandas(NEW, npartitions=2)
    with pytest.raises(stabconf.InputTypeError, match=r"drop to=, or give exog.compute\(\)"):
        res.conf_int_conformal(lazy, to="polars")
    bands = stabconf.fit_quantiles("y ~ x", make(50))
    for ask in (bands.conf_int_conformal, bands.predict):
        with pytest.raises(stabconf.AssumptionError, match="QuantileResults cannot answer rows of a dask"):
            ask(lazy)
