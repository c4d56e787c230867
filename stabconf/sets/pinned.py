"""Replace-one sets: bounds from the fit with the new row at some response z_hat (theory, section 6).

The fit at z and the fit at z_hat are both tilted fits of the training rows, so the bounds are those of
the stable method, from a base fit that is tilted as z_hat tilts it and for tilts as far apart as the
slopes of the two residuals can be. Several z_hat give a batch: each one's set holds the exact one, so
their intersection does, and the union of their inner sets is contained in it. An estimator's fits are
pinned in the same way (`EstimatorFits.pinned`), with bounds that the user answers for.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..solvers import certify
from ..stability import BaseFit, default_bound
from .dual_gap import dual_sets
from .enclosure import enclosed
from .fits import Fits
from .intervals import Intervals, join, ranked_intervals
from .parallel import in_chunks
from .request import Request

__all__ = ["PinnedFits", "batch", "replace_one"]

_SPREAD = (-1.0, 0.0, 1.0)  # default responses of a batch: the prediction, and a scale to either side


class PinnedFits:
    """`Fits` of one new row (p,) whose base fit contains it with response ``z_hat``."""

    def __init__(self, fits: Fits, row: np.ndarray, z_hat: float) -> None:
        self._fits = fits
        self._row = row
        self._z_hat = z_hat
        self.loss = fits.loss
        self.y = fits.y

    def in_range(self, rows: np.ndarray) -> np.ndarray:
        """As for `Fits`; the response that pins the fit must be in the range too."""
        inside = np.min(self.y) <= self._z_hat <= np.max(self.y)
        return self._fits.in_range(rows) & inside

    @cached_property
    def base(self) -> BaseFit:
        """The `BaseFit`."""
        fits, row = self._fits, self._row
        found = fits.augmented(row, float(fits.responses(self._z_hat)), fits.base.solution.x)
        fits.check_refit(found)
        pull = float(found.multipliers[-1])
        tilted = replace(fits.base.problem, tilt=-pull * row)
        parts = found.x, found.multipliers[:-1], found.l1_multipliers
        solution = certify(tilted, *parts, tol=fits.solving["tol"], nit=found.nit)
        return BaseFit(tilted, solution, fits.centre, fits.scale, pull)

    def enclosed(self, asked: Request, alpha: float) -> Intervals:
        """The interval of the row, which is all that is ``asked`` for."""
        return enclosed(self, asked, alpha, asked.bound or default_bound(self.loss))


def replace_one(fits: Any, asked: Request) -> list[Intervals]:
    """The paper's Algorithm 1: one fit per new row, with a response that is replaced.

    The response is ``z_hat`` (m,), by default the prediction. The bound "paper" has the constant as
    published, twice that of leaving the row out.
    """
    z_hat = fits.predict(asked.rows) if asked.z_hat is None else asked.z_hat
    if np.shape(z_hat) != (len(asked.rows),):
        raise InputError("z_hat has several values a row: use method='batch', or give one")
    if asked.bound == "dual":
        return _by_duality(fits, asked, z_hat[:, None], "replace_one")
    return [replace(one, method="replace_one") for (one,) in _at(fits, asked, z_hat[:, None])]


def batch(fits: Any, asked: Request) -> list[Intervals]:
    """Replace-one sets of several responses per row, ``z_hat`` (m, b), intersected.

    By default these are the prediction, and the scale of the response to either side of it.
    """
    z_hat = asked.z_hat
    if z_hat is None:
        z_hat = fits.predict(asked.rows)[:, None] + fits.spread * np.array(_SPREAD)
    z_hat = z_hat if z_hat.ndim > 1 else z_hat[:, None]
    if asked.bound == "dual":
        return _by_duality(fits, asked, z_hat, "batch")
    return [_together(each) for each in _at(fits, asked, z_hat)]


def _by_duality(fits: Fits, asked: Request, z_hat: np.ndarray, method: str) -> list[Intervals]:
    """`dual_sets` of fits with the new rows at responses (m, b)."""
    each = zip(asked.rows, z_hat, strict=True)
    return dual_sets([[PinnedFits(fits, row, z).base for z in at] for row, at in each], asked, method)


def _at(fits: Any, asked: Request, z_hat: np.ndarray) -> list[list[Intervals]]:
    """`Intervals` of all rows at each of b responses a row (m, b): for every alpha b records."""
    rows = np.arange(len(asked.rows))
    chunk = partial(_at_each, fits, asked, z_hat)
    found = in_chunks(chunk, rows, asked.n_jobs, asked.progress, size=1)
    each = [row for part in found for row in part]
    count = z_hat.shape[1]
    return [
        [_all_rows([row[a][b] for row in each], asked, alpha) for b in range(count)]
        for a, alpha in enumerate(asked.alphas)
    ]


def _at_each(
    fits: Any, asked: Request, z_hat: np.ndarray, which: np.ndarray
) -> list[list[list[Intervals]]]:
    """`Intervals` of some rows, by row, alpha and response."""
    pin = partial(PinnedFits, fits) if isinstance(fits, Fits) else fits.pinned
    out = []
    for i in which:
        alone = np.array([i])
        one = asked.take(alone, asked.peers.take(alone))
        pinned = [pin(asked.rows[i], z) for z in z_hat[i]]
        out.append([[fixed.enclosed(one, alpha) for fixed in pinned] for alpha in asked.alphas])
    return out


def _all_rows(each: list[Intervals], asked: Request, alpha: float) -> Intervals:
    """`Intervals` of single rows as one."""
    if not each:
        none = np.empty(0)
        inner = (none, none) if asked.inner else None
        return ranked_intervals(none, none, asked.peers, alpha, asked.side, "stable", inner=inner)
    made = join(each, list(np.arange(len(each))[:, None]))
    return replace(made, n=each[0].n, k=made.k if asked.peers.own is not None else each[0].k)


def _together(each: Sequence[Intervals]) -> Intervals:
    """The intersection of several outer sets, with the longest inner one that their union holds."""
    lower = np.max([one.lower for one in each], axis=0)
    upper = np.min([one.upper for one in each], axis=0)
    tightest = np.argmin([one.width for one in each], axis=0)
    picked = np.arange(len(lower))
    more = {
        name: np.array([np.broadcast_to(getattr(one, name), len(lower)) for one in each])[tightest, picked]
        for name in ("surcharge", "tau", "centre")
        if getattr(each[0], name) is not None
    }
    if each[0].inner_lower is not None:
        ends = np.array([[one.inner_lower, one.inner_upper] for one in each])
        more["inner_lower"], more["inner_upper"] = _longest(ends)
    empty = lower > upper
    more["lower"] = np.where(empty, np.nan, lower)
    more["upper"] = np.where(empty, np.nan, upper)
    return replace(each[0], method="batch", **more)


def _longest(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
