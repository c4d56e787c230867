"""Random problems of `soundness.py`: tables, models and questions of every kind that the package takes.

Each is drawn from one seed alone, so that a wrong answer can be asked for again.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

LOSSES = ("squared", "lad", "quantile", "huber", "pseudo_huber", "logcosh", "linex", "power", "bands")
PENALTIES = (0.0, 1e-8, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
PENALTY_WEIGHTS = (0.1, 0.03, 0.12, 0.15, 0.25, 0.2, 0.1, 0.05)
PAIRS = ((0.05, 0.95), (0.25, 0.75), (0.1, 0.5), (0.4, 0.6))
LIMITS = {"linex": 1.0, "power": 2.0, "logcosh": 2.0, "pseudo_huber": 2.0}  # decades of raw responses


@dataclass(frozen=True)
class Problem:
    """A table, a model and what is asked of it."""

    seed: int
    frame: pd.DataFrame
    new: pd.DataFrame
    formula: str
    loss: str
    parameter: float | None
    quantiles: tuple | None
    penalty: float
    l1_ratio: float
    standardize: bool
    alpha: float
    side: str
    kinds: tuple

    @property
    def n(self):
        """Number of training rows."""
        return len(self.frame)

    def describe(self):
        """One line for reports."""
        what = f"{self.loss}({self.parameter:g})" if self.parameter is not None else self.loss
        if self.quantiles is not None:
            what = f"bands{self.quantiles}"
        formula = self.formula if len(self.formula) < 60 else self.formula[:57] + "..."
        return (
            f"seed {self.seed}: n {self.n}, {formula}, {what}, penalty {self.penalty:g}, "
            f"l1_ratio {self.l1_ratio:g}, standardize {self.standardize}, alpha {self.alpha:.4g}, "
            f"{self.side}, {', '.join(self.kinds)}"
        )


def draw_problem(seed):
    """The problem of a seed."""
    random = np.random.default_rng([seed, 20_000])
    loss = str(random.choice(LOSSES))
    standardize = bool(random.random() < 0.6)
    n = _rows(random)
    kinds = []
    frame, new, terms, intercept = _table(random, n, kinds)
    frame["y"] = _response(random, frame, loss, standardize, kinds)
    formula = "y ~ " + " + ".join(terms) + ("" if intercept else " - 1")
    penalty = float(random.choice(PENALTIES, p=PENALTY_WEIGHTS))
    l1_ratio = float(random.choice([0.0, 0.5, 1.0], p=[0.6, 0.25, 0.15]))
    if "dependent" in kinds and penalty * (1 - l1_ratio) == 0:
        penalty, l1_ratio = 0.01, 0.0  # rounding would decide which columns depend on each other
    return Problem(
        seed=seed,
        frame=frame,
        new=new,
        formula=formula,
        loss=loss,
        parameter=_parameter(random, loss),
        quantiles=PAIRS[random.integers(len(PAIRS))] if loss == "bands" else None,
        penalty=penalty,
        l1_ratio=l1_ratio,
        standardize=standardize,
        alpha=_alpha(random, n),
        side=str(random.choice(["two-sided", "upper", "lower"], p=[0.7, 0.15, 0.15])),
        kinds=tuple(kinds),
    )


def _rows(random):
    ranges = [(3, 15), (16, 60), (61, 300)]
    low, high = ranges[random.choice(3, p=[0.4, 0.4, 0.2])]
    return int(random.integers(low, high + 1))


def _parameter(random, loss):
    """The parameter of a loss, None where it has none."""
    choices = {
        "quantile": (0.05, 0.1, 0.5, 0.8, 0.95),
        "huber": (1.345, 0.5, 3.0),
        "pseudo_huber": (1.345, 1.0, 0.3),
        "logcosh": (1.0, 0.3),
        "linex": (0.5, 1.0, 0.1),
        "power": (1.5, 1.1, 1.9, 2.0),
    }
    return float(random.choice(choices[loss])) if loss in choices else None


def _alpha(random, n):
    """A level; mostly one at which sets are finite."""
    alpha = float(random.choice([0.05, 0.1, 0.2, 0.5]))
    few = math.ceil((1 - alpha) * (n + 1) - 1e-9) > n
    if few and random.random() < 0.85:
        return int(random.integers(1, max(2, (n + 1) // 2 + 1))) / (n + 1)
    return alpha


def _table(random, n, kinds):
    """Training and new rows, the terms of the formula, and whether it has an intercept."""
    count = 1 if n == 3 else 2
    total = n + count
    p = _columns(random, n, kinds)
    x = random.standard_normal((total, p))
    if random.random() < 0.2:
        kinds.append("heavy x")
        x = random.standard_t(1.5, (total, p))
    if random.random() < 0.2:
        kinds.append("rounded x")
        x = np.round(x)
    if random.random() < 0.2:
        kinds.append("unscaled x")
        x = x * 10.0 ** random.uniform(-3, 3, p)
    _dependence(random, x, kinds)
    if random.random() < 0.15:
        kinds.append("0/1 columns")
        some = random.random(p) < 0.5
        x[:, some] = (random.random((total, int(some.sum()))) < 0.1).astype(float)
    _duplicates(random, x, n, kinds)
    _far(random, x, n, kinds)
    frame = pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(p)])
    terms, intercept = list(frame.columns), True
    if random.random() < 0.3:
        terms, intercept = _factor(random, frame, n, terms, kinds)
    return frame.iloc[:n].copy(), frame.iloc[n:].reset_index(drop=True), terms, intercept


def _columns(random, n, kinds):
    if random.random() < 0.25:
        kinds.append("wide")
        return int(random.integers(max(1, n // 2), min(2 * n, 60) + 1)) if n <= 60 else 40
    return int(random.integers(1, max(2, min(6, n // 2)) + 1))


def _dependence(random, x, kinds):
    """Columns that repeat others, or are sums of them."""
    p = x.shape[1]
    if p >= 2 and random.random() < 0.12:
        kinds.append("repeated column")
        x[:, p - 1] = x[:, 0] * random.choice([1.0, 2.0])
    if p >= 3 and random.random() < 0.08:
        kinds.append("dependent")
        x[:, p - 2] = x[:, 0] + x[:, p - 1]


def _duplicates(random, x, n, kinds):
    """Rows that repeat others; a new row may repeat a training row."""
    if random.random() < 0.15:
        kinds.append("repeated rows")
        half = n // 2
        x[half : 2 * half] = x[:half]
    if random.random() < 0.1:
        kinds.append("new row seen")
        x[n] = x[0]


def _far(random, x, n, kinds):
    """New rows that are far from the others."""
    if random.random() < 0.2:
        kinds.append("far new row")
        x[n] = x[n] * 10.0 ** random.uniform(0.5, 6)


def _factor(random, frame, n, terms, kinds):
    """Add a factor: balanced, with rare levels, or ids. Returns the terms, and whether with intercept."""
    total = len(frame)
    how = str(random.choice(["balanced", "rare", "ids"], p=[0.4, 0.4, 0.2]))
    kinds.append(f"{how} factor")
    if how == "ids":
        codes = np.arange(total) % max(n - int(random.integers(0, 3)), 2)
        codes[n:] = random.integers(0, min(n, codes.max() + 1), total - n)
    else:
        levels = int(random.integers(2, 6))
        weights = np.ones(levels) if how == "balanced" else 0.15 ** np.arange(levels)
        codes = random.choice(levels, size=total, p=weights / weights.sum())
        codes[n:] = random.choice(codes[:n], size=total - n)
    frame["g"] = [f"g{code:03d}" for code in codes]
    if len(np.unique(codes[:n])) < 2:
        frame.drop(columns="g", inplace=True)
        return terms, True
    kept = terms[: max(1, min(len(terms), n // 3))]
    if random.random() < 0.35:
        kinds.append("no intercept")
        return ["g", *(kept if random.random() < 0.4 else [])], False
    if random.random() < 0.25 and how != "ids" and frame["x1"].iloc[:n].nunique() > 2:
        kinds.append("interaction")
        return [*kept, "g", "g:x1"], True
    return [*kept, "g"], True


def _response(random, frame, loss, standardize, kinds):
    """Responses: a signal and noise of many laws, in any unit."""
    numeric = frame.drop(columns="g", errors="ignore").to_numpy()
    n = len(numeric)
    size = np.maximum(np.median(np.abs(numeric), axis=0), 1e-12)
    effect = random.standard_normal(numeric.shape[1]) * (random.random(numeric.shape[1]) < 0.5)
    y = np.clip(numeric / size, -30, 30) @ effect
    if "g" in frame:
        y = y + 2.0 * (pd.factorize(frame["g"])[0] % 3)
    law = str(random.choice(["normal", "t1.5", "cauchy", "skewed", "none"], p=[0.5, 0.2, 0.1, 0.12, 0.08]))
    kinds.append(f"{law} noise")
    noise = {
        "normal": random.standard_normal(n),
        "t1.5": random.standard_t(1.5, n),
        "cauchy": random.standard_cauchy(n),
        "skewed": random.exponential(size=n) ** 2,
        "none": np.zeros(n),
    }[law]
    y = y + noise * 10.0 ** random.uniform(-2, 0.5)
    if loss == "linex" and not standardize:
        y = np.clip(y, -20, 20)
    if random.random() < 0.15:
        kinds.append("bimodal y")
        y = y + 30.0 * (random.permutation(n) < n / 2) * (0.1 if loss == "linex" else 1.0)
    if random.random() < 0.15:
        kinds.append("rounded y")
        y = np.round(y)
    if "repeated rows" in kinds and random.random() < 0.7:
        half = n // 2
        y[half : 2 * half] = y[:half]
    return _in_units(random, y, loss, standardize, kinds)


def _in_units(random, y, loss, standardize, kinds):
    if random.random() < 0.3:
        decades = 9.0 if standardize else LIMITS.get(loss, 6.0)
        factor = 10.0 ** random.uniform(-decades, decades)
        kinds.append(f"y times {factor:.0e}")
        y = y * factor
        if random.random() < 0.5 and not (loss == "linex" and not standardize):
            kinds.append("y shifted")
            y = y + factor * float(random.choice([-1e4, -50.0, 100.0, 1e4]))
    return y
