"""Work shared among joblib's workers: the same answers, and no hang whatever else the process does."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import joblib
import numpy as np
import pandas as pd
import pytest

import stabconf
from stabconf.sets.parallel import in_chunks, progress_bar

PATIENCE = 100  # seconds after which a script counts as hanging


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 2)), columns=["x1", "x2"])
    return frame.assign(y=frame.x1 - frame.x2 + random.standard_t(3, size=60))


def run(script):
    """A script's output; a time limit stands for a hang."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SETUP = """
    import threading
    import numpy as np
    import pandas as pd
    import stabconf
    random = np.random.default_rng(0)
    d = pd.DataFrame(random.normal(size=(60, 2)), columns=["x", "y"])
    res = stabconf.fit("y ~ x", d, loss="huber")
    new = d.iloc[:6]
    one = res.conf_int_conformal(new, 0.2, "cv+", n_jobs=1)
"""


def test_workers_beside_busy_threads_do_not_hang():
    said = run(
        SETUP
        + """
    stop = threading.Event()
    def busy():
        a = random.normal(size=(200, 200))
        while not stop.is_set():
            a @ a
    threads = [threading.Thread(target=busy) for _ in range(2)]
    [thread.start() for thread in threads]
    out = []
    askers = [
        threading.Thread(target=lambda: out.append(res.conf_int_conformal(new, 0.2, "cv+", n_jobs=2)))
        for _ in range(3)
    ]
    [thread.start() for thread in askers]
    [thread.join() for thread in askers]
    stop.set()
    [thread.join() for thread in threads]
    print(len(out), all(np.allclose(each, one, rtol=1e-12, atol=0) for each in out))
    """
    )
    assert said == ["3", "True"]


def _dies(rows):
    if 3 in rows:
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def _doubled(rows):
    return 2 * rows


def test_a_killed_worker_is_an_error_and_the_next_call_works():
    with pytest.raises(stabconf.WorkerError, match=r"a worker process ended .* smaller n_jobs \(now 2\)"):
        in_chunks(_dies, np.arange(6), n_jobs=2, size=1)
    assert np.concatenate(in_chunks(_doubled, np.arange(6), n_jobs=2, size=1)).tolist() == [
        0,
        2,
        4,
        6,
        8,
        10,
    ]


def test_another_backend_of_joblib_gives_the_same_numbers(data):
    res = stabconf.fit("y ~ x1 + x2", data, loss="huber")
    asked = {"alpha": 0.2, "method": "replace_one"}
    one = res.conf_int_conformal(data.iloc[:8], **asked)
    seen = set()

    def here(rows):
        seen.add(threading.get_ident())
        return rows

    with joblib.parallel_config(backend="threading", n_jobs=2):
        in_chunks(here, np.arange(4), size=1)
        fresh = stabconf.fit("y ~ x1 + x2", data, loss="huber").conf_int_conformal(data.iloc[:8], **asked)
    assert seen and threading.main_thread().ident not in seen
    pd.testing.assert_frame_equal(fresh, one)


def _where(rows):
    return [os.getpid()] * len(rows)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_workers_of_a_dask_cluster_give_the_same_numbers(data):
    distributed = pytest.importorskip("distributed")
    res = stabconf.fit("y ~ x1 + x2", data, loss="huber")
    asked = {"alpha": 0.2, "method": "replace_one", "n_jobs": 2}
    one = res.conf_int_conformal(data.iloc[:8], **asked)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        workers = set(client.run(os.getpid).values())
        with joblib.parallel_config(backend="dask", n_jobs=2):
            seen = set(np.concatenate(in_chunks(_where, np.arange(8), size=1)))
            fresh = stabconf.fit("y ~ x1 + x2", data, loss="huber").conf_int_conformal(
                data.iloc[:8], **asked
            )
    assert seen <= workers and os.getpid() not in seen
    pd.testing.assert_frame_equal(fresh, one)


def test_a_backend_that_answers_all_at_once_gives_the_same(monkeypatch):
    from joblib._parallel_backends import ThreadingBackend

    monkeypatch.setattr(ThreadingBackend, "supports_return_generator", False)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert np.concatenate(in_chunks(_doubled, np.arange(5), size=2)).tolist() == [0, 2, 4, 6, 8]


def test_the_order_of_the_rows_is_kept_and_a_bar_can_show(capsys):
    made = in_chunks(_doubled, np.arange(7), n_jobs=1, progress=True, size=3, unit="fold")
    assert np.concatenate(made).tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert "conformal sets" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [0, True, 1.5, "2"])
def test_a_number_of_workers_that_is_none_is_refused(bad):
    with pytest.raises(stabconf.InputError, match=r"n_jobs=.* is not allowed: give a number of processes"):
        in_chunks(_doubled, np.arange(3), n_jobs=bad)


def test_a_bar_that_is_not_wanted_asks_for_no_widgets(monkeypatch):
    """Importing ``tqdm.auto`` warns in notebooks that lack widgets."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # importing it now fails
    for progress in (None, False):
        with progress_bar(1, "row", "intervals", progress) as bar:
            assert bar.disable
    with pytest.raises(ImportError):
        progress_bar(1, "row", "intervals", True)
