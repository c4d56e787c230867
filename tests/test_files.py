"""Files and threads: writers do not disturb each other, bad files are named, warnings stay on."""

import os
import pickle
import stat
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf import cli, files
from stabconf.errors import (
    InputError,
    InputTypeError,
    SampleSizeWarning,
    StabconfWarning,
    quietly,
    warn_user,
)
from stabconf.results import saving


def drawn(n=60):
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n)
    return pd.DataFrame({"x": x, "y": x + rng.standard_normal(n)})


FRAME = drawn()
RESULTS = stabconf.fit("y ~ x", FRAME, loss="huber", penalty=0.1)
COMPARED = {"formula": "y ~ x", "data": FRAME, "methods": ["split"], "penalty": 0.1, "progress": False}


# Writing ---------------------------------------------------------------------------------------------


def test_writers_and_readers_of_one_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "shared.bin"
    files.write_whole(path, b"0" * 50_000)
    mixed = []

    def write(sign):
        for _ in range(40):
            files.write_whole(path, bytes([sign]) * 50_000)
            found = path.read_bytes()
            mixed.append(len(set(found)) != 1 or len(found) != 50_000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, b"abcd"))
    assert len(mixed) == 160 and not any(mixed)
    assert os.listdir(tmp_path) == ["shared.bin"]


def test_the_mode_of_a_file_is_kept_and_a_new_one_has_the_users(tmp_path):
    path, fresh, plain = tmp_path / "mine", tmp_path / "fresh", tmp_path / "plain"
    path.write_bytes(b"old")
    path.chmod(0o600)
    files.write_whole(path, b"new")
    files.write_whole(fresh, b"new")
    plain.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(fresh.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_is_followed_and_a_file_called_part_is_left_alone(tmp_path):
    target, link, part = tmp_path / "target", tmp_path / "link", tmp_path / "link.part"
    target.write_bytes(b"old")
    link.symlink_to(target)
    part.write_bytes(b"mine")
    assert files.write_whole(link, b"new") == link
    assert link.is_symlink() and target.read_bytes() == b"new" and part.read_bytes() == b"mine"


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "results.pickle"

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.Path, "replace", full)
    with pytest.raises(OSError, match=r"No space left on device.*results\.pickle"):
        RESULTS.save(path)
    assert not os.listdir(tmp_path)


# Comparisons that go on ------------------------------------------------------------------------------


def test_two_comparisons_on_one_file_keep_the_splits_of_both(tmp_path):
    path = tmp_path / "runs.csv"
    alone = stabconf.compare(**COMPARED, repeats=6)
    parts = [{"penalty": 0.1}, {"penalty": 0.3}]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: stabconf.compare(**{**COMPARED, **part}, repeats=6, resume=path), parts))
    kept = pd.read_csv(path)
    assert len(kept) == 12 and not kept.duplicated(["method", "penalty", "repeat"]).any()
    held = kept[kept["penalty"] == 0.1].sort_values("repeat")
    assert np.allclose(held["length"], alone.runs["length"])
    assert os.listdir(tmp_path) == ["runs.csv"]


def test_lines_that_stand_twice_in_a_file_count_once(tmp_path):
    path = tmp_path / "runs.csv"
    first = stabconf.compare(**COMPARED, repeats=3, resume=path)
    kept = pd.read_csv(path)
    pd.concat([kept, kept, kept.iloc[:1]]).to_csv(path, index=False)
    again = stabconf.compare(**COMPARED, repeats=3, resume=path)
    assert len(again.runs) == 3
    assert np.allclose(again["coverage"], first["coverage"])


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00\x9c", b'a,b\n1,"2\n3,4,5,6\n'], ids=["empty", "bytes", "cut"]
)
def test_a_corrupt_file_of_runs_is_named(tmp_path, content):
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.csv"):
        stabconf.compare(**COMPARED, repeats=1, resume=path)
    assert path.read_bytes() == content


# Results in files ------------------------------------------------------------------------------------


def cut(content):
    return content[: len(content) // 2]


@pytest.mark.parametrize("spoil", [cut, lambda content: b"", lambda content: b"not a pickle"])
def test_a_corrupt_file_of_results_is_named(tmp_path, spoil):
    path = tmp_path / "broken.pickle"
    RESULTS.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match=r"broken\.pickle.*save again"):
        stabconf.load(path)


def test_a_file_that_is_missing_or_holds_something_else_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        stabconf.load(tmp_path / "nothing")
    (tmp_path / "other").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(InputTypeError, match="other holds a dict"):
        stabconf.load(tmp_path / "other")


def test_versions_that_differ_are_named_where_a_file_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "old.pickle"
    now = saving._versions()
    monkeypatch.setattr(saving, "_versions", lambda: {**now, "pandas": "9.9"})
    RESULTS.save(path)
    monkeypatch.setattr(saving, "_versions", lambda: now)
    assert stabconf.load(path).params.equals(RESULTS.params)  # no warning: it could be read
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=rf"pandas 9\.9 \(now {now['pandas']}\)"):
        stabconf.load(path)


def test_results_of_another_stabconf_come_with_a_warning(tmp_path, monkeypatch):
    path = tmp_path / "old.pickle"
    now = saving._versions()
    monkeypatch.setattr(saving, "_versions", lambda: {**now, "stabconf": "0.0.1"})
    RESULTS.save(path)
    monkeypatch.setattr(saving, "_versions", lambda: now)
    with pytest.warns(StabconfWarning, match=r"old\.pickle.*stabconf 0\.0\.1") as told:
        stabconf.load(path)
    assert told[0].filename == __file__


# Warnings --------------------------------------------------------------------------------------------


def test_work_in_threads_leaves_the_filters_of_warnings_as_they_were(tmp_path):
    before = list(warnings.filters)

    def work(place):
        RESULTS.report(tmp_path / f"{place}.html", FRAME.iloc[:3], 0.2, progress=False)
        stabconf.compare(**COMPARED, repeats=1)
        stabconf.select_penalty("y ~ x", FRAME, loss="huber", folds=2, criterion="loss", progress=False)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(6)))
    assert warnings.filters == before


def test_reports_in_threads_leave_the_settings_of_matplotlib_as_they_were(tmp_path):
    before = dict(matplotlib.rcParams)

    def work(place):
        RESULTS.report(tmp_path / f"{place}.html", FRAME.iloc[:3], 0.2, progress=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(16)))
    assert dict(matplotlib.rcParams) == before
    pages = {path.read_bytes() for path in tmp_path.glob("*.html")}
    assert len(pages) == 1


def test_a_thread_that_is_quiet_leaves_the_others_their_warnings():
    inside, told = threading.Event(), threading.Event()

    def silent():
        with quietly():
            inside.set()
            told.wait(10)
            warn_user("not heard", SampleSizeWarning)

    thread = threading.Thread(target=silent)
    thread.start()
    inside.wait(10)
    with pytest.warns(SampleSizeWarning, match="^heard"):
        warn_user("heard", SampleSizeWarning)
    told.set()
    thread.join()


def test_warnings_point_at_the_line_of_the_user():
    for ask in (RESULTS.conf_int_conformal, RESULTS.get_prediction):
        with pytest.warns(SampleSizeWarning) as told:
            made = (
                ask(FRAME.iloc[:2], alpha=0.001)
                if ask == RESULTS.conf_int_conformal
                else ask(FRAME.iloc[:2])
            )
            if ask == RESULTS.get_prediction:
                made.summary_frame(alpha=0.001)
        assert {each.filename for each in told} == {__file__}


def test_the_command_line_says_once_whose_warning_it_is(monkeypatch, capsys):
    say = cli._warnings_once()
    say("too few rows", SampleSizeWarning)
    say("a column of mixed types", pd.errors.DtypeWarning)
    say("too few rows", SampleSizeWarning)
    assert capsys.readouterr().err.splitlines() == [
        "stabconf: warning: too few rows",
        "stabconf: DtypeWarning: a column of mixed types",
    ]
