"""Base fits, one a zone, warm-started from the training fit and made once, on first use."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from ..columns import column_scales
from ..path import ClippedFit
from ..response import Zone, location_scale, zones
from ..solvers import Problem, minimise
from ..stability import BaseFit

__all__ = ["ZoneFits"]

_WHOLE_LINE = Zone(-math.inf, math.inf, 0.0, 1.0, (0.0, 0.0), (1.0, 1.0))
_VANISHING = 1e-9  # ridge weight a row that stands for one tending to 0: for it only ties have a say


class ZoneFits:
    """The zones of the response and the base fit in each.

    Parameters
    ----------
    X : (n, p) array
        Design in the units of the fit.
    y : (n,) array
        Responses in their own units.
    loss : Loss
    ridge, lasso : (p,) arrays
        Penalty weights.
    intercept : int or None
    standardize : bool
        False leaves the response as it is: one zone.
    start : (p,) array
        Coefficients of the training fit.
    solver, tol, max_iter
        As in `stabconf.solvers.minimise`.
    scale : float
        Of the response where it is not standardised; a constant that is no statistic of the responses.
    ties : bool
        Where there is no ridge part, take of several minimisers the one of smallest norm, the limit of a
        vanishing ridge part: a symmetric rule. An objective of straight pieces reaches that limit already
        at a small weight.
    level : float, optional
        Level of the location; that of the loss by default.
    """

    def __init__(
        self,
        X,
        y,
        loss,
        ridge,
        lasso,
        intercept,
        standardize,
        start,
        solver,
        tol,
        max_iter,
        scale=1.0,
        ties=False,
        level=None,
    ):
        self.X, self.y, self.intercept = X, y, intercept
        self._level = loss.level if level is None else level
        self.loss, factor = loss.simplest()
        self.ridge, self.lasso = ridge / factor, lasso / factor
        self.vanishing = ties and self.loss.piecewise_linear and not np.all(self.ridge > 0)
        self.ridge_of_fits = self.ridge + _VANISHING * len(y) if self.vanishing else self.ridge
        self.standardize, self._scale = standardize, scale
        whole = replace(_WHOLE_LINE, scale=scale, scales=(scale, scale))
        self.zones = zones(y, self.level) if standardize else [whole]
        self._start = start
        self.tol, self._options = tol, {"solver": solver, "tol": tol, "max_iter": max_iter}
        self._fits, self._clipped, self._solved = {}, {}, {}

    @property
    def n(self):
        return len(self.y)

    @property
    def scale(self):
        """A typical scale of the response."""
        return self.zones[self.reference].scale

    @cached_property
    def longest_row(self):
        """Largest length of a design row."""
        return float(np.max(np.linalg.norm(self.X, axis=1)))

    @property
    def reference(self):
        """Index of the zone whose fit is the reference for new rows: the first that can be fitted."""
        return next((j for j, zone in enumerate(self.zones) if not zone.keep), 0)

    def fit(self, j):
        """The `BaseFit` of zone ``j``."""
        if j not in self._fits:
            zone = self.zones[j]
            problem = self.problem(zone.centre, zone.scale)
            solution = minimise(problem, self._start, **self._options)
            problem = replace(problem, ridge=self.ridge)  # what vanishes bounds nothing
            self._fits[j] = BaseFit(zone, problem, solution, self.intercept)
        return self._fits[j]

    def clipped(self, centre, scale):
        """The `ClippedFit` at a location and scale: by the default solver, for paths start at a minimiser
        and not near one."""
        if (centre, scale) not in self._clipped:
            fit = ClippedFit.of(*self.solved(centre, scale))
            self._clipped[centre, scale] = replace(fit, penalised=False) if self.vanishing else fit
        return self._clipped[centre, scale]

    def problem(self, centre, scale, tilt=None):
        """The training rows standardised by a location and scale."""
        return Problem(self.X, (self.y - centre) / scale, self.loss, self.ridge_of_fits, self.lasso, tilt)

    def solved(self, centre, scale):
        """`problem` and its `Solution` by the default solver."""
        if (centre, scale) not in self._solved:
            problem = self.problem(centre, scale)
            self._solved[centre, scale] = problem, minimise(problem, self._start)
        return self._solved[centre, scale]

    @property
    def level(self):
        """Level of the location; None where it is fixed at 0."""
        return None if self.intercept is None else self._level

    def standardised(self, X, y):
        """The `Problem` of another sample of responses, with its location and scale."""
        centre, scale = location_scale(y, self.level) if self.standardize else (0.0, self._scale)
        return Problem(X, (y - centre) / scale, self.loss, self.ridge_of_fits, self.lasso), centre, scale

    def predictor(self, which):
        """A fit to some of the training rows alone, as a function from design rows to predictions.

        Columns and response are standardised by those rows, and the penalty is per row of them.
        """
        columns, _ = column_scales(self.X[which], self.intercept, self.standardize)
        problem, centre, scale = self.standardised(columns.apply(self.X[which]), self.y[which])
        share = len(problem.v) / self.n
        problem = replace(problem, ridge=share * self.ridge_of_fits, lasso=share * self.lasso)
        theta = minimise(problem, self._start, **self._options).x
        return lambda rows: centre + scale * (columns.apply(rows) @ theta)

    def drift(self, one, other, length):
        """How far fits of steps move, in the norm of P and the units of zone ``one``, where they have the
        location and scale of ``other``; and by what share the scale changes. ``length`` is theirs.

        Such losses see location and scale through the ridge part alone.
        """
        growth = max(abs(scale - one.scale) for scale in other.scales) / one.scale
        shift = max(abs(centre - one.centre) for centre in other.centres) / one.scale
        pull = 0.0 if self.intercept is None else math.sqrt(self.ridge[self.intercept])
        return growth * length + shift * pull, growth

    def hull(self, count, ends_of):
        """Hulls (count, 2) of sets whose ends in zone ``j``, were it the whole line, ``ends_of(j)`` gives;
        NaN where a set is empty."""
        found = np.full((count, 2), np.nan)
        for j, zone in enumerate(self.zones):
            ends = [[zone.lower, zone.upper]] * count if zone.keep else ends_of(j)
            low, high = np.clip(np.transpose(ends), [[zone.lower], [-np.inf]], [[np.inf], [zone.upper]])
            there = low <= high
            found[there, 0] = np.fmin(found[there, 0], low[there])
            found[there, 1] = np.fmax(found[there, 1], high[there])
        return found

    def in_range(self, rows):
        """Whether the predictions of new rows lie in the range of the responses, in every zone (bools)."""
        fits = [self.fit(j) for j, zone in enumerate(self.zones) if not zone.keep]
        made = np.array([fit.predict(rows) for fit in fits]).reshape(len(fits), len(rows))
        return np.all((made >= np.min(self.y)) & (made <= np.max(self.y)), axis=0)

    def at(self, z):
        """Index of a zone that holds the candidate ``z``."""
        return next(j for j, zone in enumerate(self.zones) if zone.lower <= z <= zone.upper)
