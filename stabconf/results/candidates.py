"""p-values of candidate responses, from a user's frame to labelled numbers.

``conformity``, ``p_values`` and ``conformal_set`` come here, as intervals go to `asking`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..checks import check_candidates
from ..data.response_units import as_units
from ..errors import InputError
from .asking import prepared
from .options import Groups, New, Numbers, PerRow, Units

if TYPE_CHECKING:
    from .base import BaseResults

# p-values, and their bounds where there are any, of one row (p,) at candidates (g,), among its ``peers``:
# (1 or more, g); it is told the design ``along`` and the responses ``z_hat`` (b,) where these are given.
PValues = Callable[..., np.ndarray]
BOUNDED = ("p", "p_lo", "p_up", "gap")  # columns of p-values that have bounds


def ask_p_values(
    results: "BaseResults",
    exog: New,
    z: Numbers | Sequence[str],
    names: Sequence[str],
    values: PValues,
    units: Units = None,
    **asked: Any,
) -> pd.DataFrame:
    """The frame of ``conformity``, a column per name, indexed by row and candidate; candidates are in
    ``units``, and ``asked`` is what `_p_values` takes beside."""
    candidates, given = check_candidates(z, results._design.y)
    candidates = as_units(units, results._design).candidates(candidates, results._design.response)
    rows, index = results._rows(exog)
    each = np.broadcast_to(candidates, (len(rows), len(candidates)))
    out, pins = _p_values(results, exog, each, len(names), values, **asked)
    labels = [index.take(np.repeat(np.arange(len(index)), len(given))), list(given) * len(index)]
    made = pd.DataFrame(
        np.moveaxis(out, 1, 2).reshape(-1, len(names)),
        index=pd.MultiIndex.from_arrays(labels, names=[index.name, "z"]),
        columns=list(names),
    )
    made.attrs = {} if pins is None else {"z_hat": pins.tolist()}
    return made


def ask_own_p(
    results: "BaseResults", exog: New, y: np.ndarray, values: PValues, **asked: Any
) -> np.ndarray:
    """p-values of new rows at their own responses (m,), NaN where a row lacks a value."""
    made, _ = _p_values(results, exog, y[:, None], 1, values, **asked)
    return made[:, 0, 0]


def _p_values(
    results: "BaseResults",
    exog: New,
    candidates: np.ndarray,
    count: int,
    values: PValues,
    groups: Groups = None,
    weights: PerRow = None,
    conditional: str | None = None,
    z_hat: PerRow = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The first ``count`` of ``values`` at the candidates (m, g) of each row, (m, count, g), and the
    responses ``z_hat`` of each row (m, b), or None."""
    rows, _ = results._rows(exog)
    others = {"groups": groups, "weights": weights, "z_hat": z_hat}
    if conditional is not None and any(value is not None for value in others.values()):
        raise InputError("conditional= takes the place of groups, weights and z_hat: drop one of them")
    known = rows.complete & ~np.isnan(candidates).any(axis=1)
    asked = {"conditional": conditional, **others}
    ranking, complete, options = prepared(asked, results, exog, rows, "exact", known)
    along, told, at_hat = options.get("conditional"), options.get("z_hat"), None
    if told is not None:
        at_hat = np.full((len(rows), 1 if told.ndim == 1 else told.shape[1]), np.nan)
        at_hat[complete] = told.reshape(-1, at_hat.shape[1])
    places = np.flatnonzero(complete)
    out = np.full((len(rows), count, candidates.shape[1]), np.nan)
    for which, peers in ranking.parts(complete):
        for i, at in enumerate(places[which]):
            more = {} if along is None else {"along": along.take(slice(i, i + 1))}
            more |= {} if at_hat is None else {"z_hat": at_hat[at] * rows.root[at]}
            z = candidates[at] * rows.root[at]
            found = values(rows.as_fitted[at], z, peers=peers.take(i), **more)
            out[at] = np.atleast_2d(found)[:count]
    return out, at_hat
