"""Replace-one sets: bounds from the fit with the new row at some response z_hat (theory, section 6).

The fit at z and the fit at z_hat are both tilted fits of the training rows, so the bounds are those of
the stable method, from a base fit that is tilted as z_hat tilts it and for tilts as far apart as the
slopes of the two residuals can be. Several z_hat give a batch: each one's set holds the exact one, so
their intersection does, and the union of their inner sets is contained in it.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from ..errors import AssumptionError, InputError
from ..rank import Peers
from ..solvers import certify
from ..stability import BaseFit, default_bound
from .intervals import join
from .stable import stable

__all__ = ["batch", "replace_one"]

_SPREAD = (-1.0, 0.0, 1.0)  # default responses of a batch: the prediction, and a scale to either side


class PinnedFits:
    """`Fits` of one new row (p,) whose base fit contains it with response ``z_hat``."""

    def __init__(self, fits, row, z_hat):
        self._fits, self._row, self._z_hat = fits, row, z_hat
        self.loss, self.n, self.y = fits.loss, fits.n, fits.y

    def in_range(self, rows):
        """As for `Fits`; the response that pins the fit must be in the range too."""
        inside = np.min(self.y) <= self._z_hat <= np.max(self.y)
        return self._fits.in_range(rows) & inside

    @cached_property
    def base(self):
        """The `BaseFit`."""
        fits, row = self._fits, self._row
        found = fits.augmented(row, fits.responses(self._z_hat), fits.base.solution.x)
        pull = float(found.multipliers[-1])
        tilted = replace(fits.base.problem, tilt=-pull * row)
        parts = found.x, found.multipliers[:-1], found.l1_multipliers
        solution = certify(tilted, *parts, tol=fits.solving["tol"], nit=found.nit)
        return BaseFit(tilted, solution, fits.centre, fits.scale, pull)


def replace_one(fits, rows, alphas, *, side="two-sided", z_hat=None, bound=None, inner=False, peers=None):
    """The paper's Algorithm 1: one fit a new row, with a response that is replaced.

    Parameters
    ----------
    fits : Fits
    rows : (m, p) array
    alphas : list of float
    side : {"two-sided", "upper", "lower"}
    z_hat : (m,) array, optional
        The predictions by default.
    bound : str, optional
        As in `stable`; "paper" has the constant as published, twice that of leaving the row out.
    inner : bool
    peers : Peers, optional
        The rows to rank among; all by default.

    Returns
    -------
    list of Intervals
    """
    if z_hat is None:
        z_hat = fits.base.predict(rows)
    if np.shape(z_hat) != (len(rows),):
        raise InputError("z_hat has several values a row: use method='batch', or give one")
    made = _at(fits, rows, z_hat, alphas, side, bound, inner, peers)
    return [replace(each, method="replace_one") for each in made]


def batch(fits, rows, alphas, *, side="two-sided", z_hat=None, bound=None, inner=False, peers=None):
    """Replace-one sets of several responses a row, intersected.

    Parameters
    ----------
    z_hat : (m, b) array, optional
        By default the prediction, and the scale of the response to either side of it.
    fits, rows, alphas, side, bound, inner, peers
        As in `replace_one`.
    """
    if z_hat is None:
        z_hat = fits.base.predict(rows)[:, None] + fits.scale * np.array(_SPREAD)
    z_hat = np.asarray(z_hat, dtype=float)
    z_hat = z_hat[:, None] if z_hat.ndim == 1 else z_hat
    made = [_at(fits, rows, z, alphas, side, bound, inner, peers) for z in z_hat.T]
    return [_together(each) for each in zip(*made, strict=True)]


def _at(fits, rows, z_hat, alphas, side, bound, inner, peers):
    """`Intervals` of all rows at one response each, an alpha after the other."""
    bound = bound or default_bound(fits.loss)
    if bound == "ball":
        raise AssumptionError(
            "bound='ball' needs to know to which side the fit moves, which it does from the fit without "
            "the new row alone: use bound='norm' or 'curvature', or method='stable'"
        )
    pinned = [PinnedFits(fits, row, z) for row, z in zip(rows, z_hat, strict=True)]
    peers, out = Peers(fits.n) if peers is None else peers, []
    rest = {"side": side, "bound": bound, "inner": inner}
    for alpha in alphas:
        each = [
            stable(fixed, row[None], alpha, peers=peers.take(slice(i, i + 1)), **rest)
            for i, (fixed, row) in enumerate(zip(pinned, rows, strict=True))
        ]
        none = stable(fits, rows[:0], alpha, peers=peers.take(slice(0, 0)), **rest)
        made = join([none, *each], [np.arange(0), *np.arange(len(rows))[:, None]])
        out.append(replace(made, n=none.n, k=made.k if np.ndim(none.k) else none.k))
    return out


def _together(each):
    """The intersection of several outer sets, with the longest inner one that their union holds."""
    lower = np.max([one.lower for one in each], axis=0)
    upper = np.min([one.upper for one in each], axis=0)
    tightest = np.argmin([one.width for one in each], axis=0)
    picked = np.arange(len(lower))
    more = {
        name: np.array([getattr(one, name) for one in each])[tightest, picked]
        for name in ("surcharge", "tau")
    }
    if each[0].inner_lower is not None:
        ends = np.array([[one.inner_lower, one.inner_upper] for one in each])
        more["inner_lower"], more["inner_upper"] = _longest(ends)
    empty = lower > upper
    lower, upper = np.where(empty, np.nan, lower), np.where(empty, np.nan, upper)
    return replace(each[0], lower=lower, upper=upper, method="batch", **more)


def _longest(ends):
    """The longest unbroken part of unions of intervals (b, 2, m); NaN where there is none."""
    order = np.argsort(ends[:, 0], axis=0)  # NaN comes last
    low, high = (np.take_along_axis(ends[:, side], order, axis=0) for side in (0, 1))
    start, stop = low[0], high[0]
    best = start, stop
    for next_low, next_high in zip(low[1:], high[1:], strict=True):
        with np.errstate(invalid="ignore"):
            joins = next_low <= stop
            start = np.where(joins, start, next_low)
            stop = np.where(joins, np.maximum(stop, next_high), next_high)
            longer = stop - start > best[1] - best[0]
        best = np.where(longer, start, best[0]), np.where(longer, stop, best[1])
    return best
