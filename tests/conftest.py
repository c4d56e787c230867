import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

import stabconf

# The same examples in every run; `pytest --hypothesis-profile=fresh --hypothesis-seed=N` draws others.
patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}
settings.register_profile("fresh", **patient)
settings.register_profile("steady", **patient, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def frame():
    """A small table with a number, a category and heavy-tailed noise."""
    rng = np.random.default_rng(0)
    n = 80
    data = pd.DataFrame(
        {
            "x1": rng.standard_normal(n),
            "x2": rng.uniform(0.0, 10.0, n),
            "g": rng.choice(["a", "b", "c"], n),
        },
        index=[f"row{i}" for i in range(n)],
    )
    data["y"] = 3.0 + data["x1"] - 0.2 * data["x2"] + (data["g"] == "b") + rng.standard_t(3, n)
    return data


@pytest.fixture(scope="session")
def results(frame):
    return stabconf.fit("y ~ x1 + x2 + g", frame, loss="huber", penalty=0.05)


@pytest.fixture
def figures():
    """pyplot without a display; nothing stays open, nothing global is changed."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    yield plt
    plt.close("all")
    assert dict(matplotlib.rcParams) == before
