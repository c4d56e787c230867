"""Seeded random problems: heavy tails, ties, duplicated rows, collinear columns, more columns than rows."""

from dataclasses import dataclass, replace

import numpy as np

from stabconf.data.units import ColumnKinds, ColumnUnits, location_scale
from stabconf.losses import LAD, Huber, Linex, LogCosh, Power, PseudoHuber, Quantile, Squared
from stabconf.penalties import as_penalty
from stabconf.results.regression import ModelSpec
from stabconf.sets import BAND_METHODS, METHODS, Fits, Request
from stabconf.sets.training import Parts

LOSS_INSTANCES = [
    Squared(),
    LAD(),
    Quantile(0.8),
    Huber(),
    PseudoHuber(1.0),
    LogCosh(),
    Linex(0.5),
    Power(1.5),
    Power(2.0),
]
KINDS = ["plain", "wide", "duplicated", "tied", "heavy", "collinear", "unscaled", "bimodal"]


@dataclass(frozen=True)
class Drawn:
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    penalty: float
    l1_ratio: float

    @property
    def n(self):
        return len(self.y)

    @property
    def ridge(self):
        return np.full(self.X.shape[1], self.n * self.penalty * (1 - self.l1_ratio))

    @property
    def lasso(self):
        slopes = np.arange(self.X.shape[1]) > 0
        return self.n * self.penalty * self.l1_ratio * slopes

    def standardised(self, level=0.5):
        centre, scale = location_scale(self.y, level)
        return (self.y - centre) / scale


def fits_of(drawn, loss, standardize=True, solver="auto"):
    start, solving = np.zeros(drawn.X.shape[1]), {"solver": solver, "tol": 1e-8, "max_iter": 1000}
    given = drawn.X, drawn.y, loss, drawn.ridge, drawn.lasso
    if not standardize:
        return Fits(*given, 0.0, 1.0, start, solving).in_unit()
    centre, scale = location_scale(drawn.y, loss.level)
    return Fits(*given, centre, scale, start, solving).in_unit(scale)


def parted_fits(X, y, loss, penalty):
    """`Fits` of rows as they are whose fits to parts of them learn their units from the part."""
    given = ("auto", 1e-8, 1000, "y", [])
    model = ModelSpec("y ~ x", loss, as_penalty(penalty), True, "drop", *given)
    same = ColumnUnits(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    parts = Parts(X, y, ColumnKinds.numeric(X.shape[1], 0), same, model)
    return replace(plain_fits(X, y, loss, penalty * len(y)), parts=parts)


def plain_fits(X, y, loss, ridge, standardize=True):
    """`Fits` of rows as they are, with a ridge weight for all coefficients."""
    drawn = Drawn(X, y, X[:1], ridge / len(y), 0.0)
    return fits_of(drawn, loss, standardize)


def draw(kind, seed, n=40, p=4, penalty=None, l1_ratio=None):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind == "wide":
        n, p = 12, 20
    X = rng.standard_normal((n, p))
    new = rng.standard_normal((1, p))
    if kind == "tied":
        X, new = np.round(X), np.round(new)
    if kind == "collinear" and p > 2:
        X[:, 2], new[:, 2] = X[:, 1], new[:, 1]
    if kind == "unscaled":
        size = 10.0 ** rng.uniform(-2, 2, p)
        X, new = X * size, new * size
    X[:, 0] = new[:, 0] = 1.0
    signal = X @ (rng.standard_normal(p) / np.maximum(1.0, np.abs(X).max(axis=0)))
    y = signal + (rng.standard_t(1.5, n) if kind == "heavy" else 0.5 * rng.standard_normal(n))
    if kind == "bimodal":
        y = y + 30.0 * (rng.random(n) < 0.5)
    if kind == "tied":
        y = np.round(y)
    if kind == "duplicated":
        half = n // 2
        X[half : 2 * half], y[half : 2 * half] = X[:half], y[:half]
    penalty = 10.0 ** rng.uniform(-3, 1) if penalty is None else penalty
    l1_ratio = float(rng.choice([0.0, 0.5])) if l1_ratio is None else l1_ratio
    return Drawn(X, y, new, penalty, l1_ratio)


def _method(name, methods=METHODS):
    """A method as a function of fits, rows, alphas and options, whose needs are checked."""

    def run(fits, rows, alphas, **options):
        asked = Request.of(fits, rows, alphas, **options)
        methods[name].check(name, fits, asked)
        return methods[name].run(fits, asked)

    return run


exact, root, grid, split = (_method(name) for name in ("exact", "root", "grid", "split"))
replace_one, batch, interpolation = (_method(name) for name in ("replace_one", "batch", "interpolation"))
cross, cv_plus, jackknife_plus = (_method(name) for name in ("cross", "cv+", "jackknife+"))
exact_band, stable_band = (_method(name, BAND_METHODS) for name in ("exact", "stable"))
scored_stable = _method("stable")


def stable(fits, rows, alpha, **options):
    """Stable intervals at one level."""
    return scored_stable(fits, rows, [alpha], **options)[0]
