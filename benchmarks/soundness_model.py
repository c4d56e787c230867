"""The model of `soundness.py`: units, scores and p-values of a problem (theory, sections 1, 2 and 7).

Nothing here comes from the package: patsy makes the design, and `soundness_fits` makes the fits. Units are
learned from the training rows; the fit is made anew for every candidate response of the new row.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import patsy
from soundness_fits import Task
from soundness_losses import LONG, make_loss

WITH_UNIT = {"huber", "pseudo_huber", "logcosh", "linex"}  # losses with a parameter in units of residuals
STRICT = 1e-10  # scores that differ by less, relatively, count as tied
LOOSE = 1e-7  # the same where the package's own solver has to be allowed for


def order_statistic(values, share):
    """The ceil(share n)-th smallest value."""
    return np.sort(values)[max(math.ceil(share * len(values) - 1e-9), 1) - 1]


def location(y, level, centred):
    """c: the order statistic of a level where the design spans a constant, else 0."""
    return float(order_statistic(y, level)) if centred else 0.0


def spread(y, centre):
    """s: the interquartile range in units of a normal standard deviation, with two fallbacks."""
    scale = (order_statistic(y, 0.75) - order_statistic(y, 0.25)) / 1.349
    if scale > 0:
        return float(scale)
    scale = 1.2533 * float(np.mean(np.abs(y - centre)))
    return scale if scale > 0 else 1.0


def _is_flat(column):
    return np.ptp(column) <= 1e-13 * np.max(np.abs(column))


def numeric_scale(column):
    """Standard deviation; half the distance of two values; 1 for a constant."""
    values = np.unique(column)
    if len(values) == 2:
        return float(values[1] - values[0]) / 2
    return 1.0 if _is_flat(column) else float(np.std(column))


def column_units(info, X, frame, intercept):
    """Centres and scales (p,) of the design columns."""
    p = X.shape[1]
    centre, scale = np.zeros(p), np.ones(p)
    if intercept is not None:
        centre = X.mean(axis=0)
        centre[intercept] = 0.0
    for term, where in info.term_slices.items():
        kinds = [info.factor_infos[factor].type for factor in term.factors]
        numeric = [f.name() for f, kind in zip(term.factors, kinds, strict=True) if kind == "numerical"]
        if not kinds:
            continue
        if not numeric:
            scale[where] = 0.5
        elif "categorical" in kinds:
            part = np.prod([frame[name].to_numpy(float) for name in numeric], axis=0)
            scale[where] = 0.5 * (1.0 if _is_flat(part) else np.std(part))
        else:
            scale[where] = [numeric_scale(column) for column in X[:, where].T]
    return centre, scale


@dataclass
class Scores:
    """Scores of all N rows at one candidate, in long double, with their errors.

    Attributes
    ----------
    values, error : (N,) arrays
    exact : (N,) array of bool
        Scores that are known without error.
    same : (n,) array of bool
        Training rows that equal the new row, response included: they tie.
    sound : bool
        Whether the fits behind them are verified.
    sizes : bool
        Whether scores are sizes of residuals, so that none is below 0.
    """

    values: np.ndarray
    error: np.ndarray
    exact: np.ndarray
    same: np.ndarray
    sound: bool
    sizes: bool

    def p(self, tolerance=STRICT, floor=0.0):
        """p-values with near-ties counted against z and for it."""
        if self.sizes and self.exact[-1]:
            return 1.0, 1.0
        new, rest = self.values[-1], self.values[:-1]
        gap = rest - new
        near = tolerance * np.maximum(np.abs(rest), np.abs(new)) + floor
        near = near + 10 * (self.error[:-1] + self.error[-1])
        known = self.exact[:-1] & self.exact[-1]
        sure = np.where(known, gap >= 0, gap > near) | self.same
        likely = np.where(known, gap >= 0, gap >= -near) | self.same
        total = len(self.values)
        return (1 + np.sum(sure)) / total, (1 + np.sum(likely)) / total


class Referee:
    """Brute force for one problem: the scores and p-values of any candidate response."""

    def __init__(self, problem):
        self.problem = problem
        left, right = patsy.dmatrices(problem.formula, problem.frame)
        self.info = right.design_info
        self.y = np.asarray(left, dtype=float)[:, 0]
        self.X = np.asarray(right, dtype=float)
        (made,) = patsy.build_design_matrices([self.info], problem.new)
        self.rows = np.asarray(made, dtype=float)
        names = self.info.column_names
        self.intercept = names.index("Intercept") if "Intercept" in names else None
        self.doubts = []
        self._standardise()
        self._tasks = {}

    def _standardise(self):
        """Columns in their units, and whether they span a constant."""
        p = self.X.shape[1]
        centre, scale = np.zeros(p), np.ones(p)
        if self.problem.standardize:
            centre, scale = column_units(self.info, self.X, self.problem.frame, self.intercept)
        self.A = (self.X - centre) / scale
        self.new = (self.rows - centre) / scale
        one = np.ones(len(self.y))
        fitted = self.X @ np.linalg.lstsq(self.X, one, rcond=None)[0]
        self.centred = self.intercept is not None or np.max(np.abs(fitted - one)) < 1e-9

    @property
    def strength(self):
        """Ridge and L1 parts of the penalty: a number, and one for each column."""
        problem = self.problem
        total = len(self.y) * problem.penalty
        lasso = np.full(self.A.shape[1], total * problem.l1_ratio)
        if self.intercept is not None:
            lasso[self.intercept] = 0.0
        return total * (1 - problem.l1_ratio), lasso

    def units(self, level):
        """c and s of the response for a loss of a level."""
        if not self.problem.standardize:
            return 0.0, 1.0
        centre = location(self.y, level, self.centred)
        return centre, spread(self.y, centre)

    @cached_property
    def sigma(self):
        """Residual scale: 1.4826 times the median size of the residuals of a LAD fit."""
        centre, scale = self.units(0.5)
        v = (self.y.astype(LONG) - centre) / scale
        ridge, lasso = self.strength
        found = Task(self.A, make_loss("lad"), ridge, lasso, self._size(v)).fit(v)
        if not found.sound:
            self.doubts.append("the LAD fit of the residual scale is not verified")
        return 1.4826 * scale * float(np.median(np.abs(found.residuals)))

    @cached_property
    def unit(self):
        """h: the loss's unit."""
        problem = self.problem
        if not problem.standardize or problem.loss not in WITH_UNIT:
            return 1.0
        _, scale = self.units(0.5)
        share = self.sigma / scale
        if 1e-9 < share < 1e-4:
            self.doubts.append("the residual scale is close to nothing")
        return 1.0 if share <= 1e-6 else share

    @property
    def losses(self):
        """Pairs of a loss and the level that its responses are centred at."""
        problem = self.problem
        if problem.quantiles is not None:
            return [(make_loss("quantile", q), q) for q in problem.quantiles]
        level = problem.parameter if problem.loss == "quantile" else 0.5
        return [(make_loss(problem.loss, problem.parameter, self.unit), level)]

    @staticmethod
    def _size(v):
        """A scale of responses that far ones do not move."""
        size = float(np.median(np.abs(v - np.median(v))))
        return size or float(np.mean(np.abs(v))) or 1.0

    def fits(self, row, z):
        """Fits of all N rows with the new response at ``z``, and the scales of their residuals."""
        made = []
        ridge, lasso = self.strength
        for place, (loss, level) in enumerate(self.losses):
            centre, scale = self.units(level)
            v = (np.append(self.y, z).astype(LONG) - LONG(centre)) / LONG(scale)
            if (row, place) not in self._tasks:
                A = np.vstack([self.A, self.new[row]])
                self._tasks[row, place] = Task(A, loss, ridge, lasso, self._size(v[:-1]))
            made.append((self._tasks[row, place].fit(v), scale))
        return made

    def scores(self, row, z):
        """The `Scores` of a candidate, in units of the response."""
        fits = self.fits(row, z)
        side = self.problem.side
        same = np.equal(self.A, self.new[row]).all(axis=1) & np.equal(self.y, z)
        parts = []
        for place, (fit, scale) in enumerate(fits):
            residuals = np.where(fit.zero, 0, fit.residuals) * scale
            error = np.where(fit.zero, 0, fit.error) * scale
            low, high = place == 0, place == len(fits) - 1
            if high and side != "lower":
                parts.append((residuals, error, fit.zero))
            if low and side != "upper":
                parts.append((-residuals, error, fit.zero))
        values = np.max([part[0] for part in parts], axis=0)
        error = np.max([part[1] for part in parts], axis=0)
        exact = np.any([zero & (part >= values) for part, _, zero in parts], axis=0)
        sizes = side == "two-sided" and len(fits) == 1
        return Scores(values, error, exact, same, all(fit.sound for fit, _ in fits), sizes)

    @cached_property
    def scale(self):
        """Scale of the response for offsets of candidates."""
        return spread(self.y, float(np.median(self.y)))

    @cached_property
    def size(self):
        """What rounding is relative to: the scale, and responses themselves where nothing centres them."""
        own = 0.0 if self.problem.standardize else 1e-2 * float(np.median(np.abs(self.y)))
        return max(self.scale, own)
