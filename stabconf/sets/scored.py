"""Stable sets with any score (theory, section 6; the paper's Algorithm 2).

The base fit gives bounds tau on the movement of every prediction; the score's own bounds turn
them into upper bounds on the training scores and a lower one on the new score, whose level set is an
interval. The bounds hold for every new response, so the loss must be Lipschitz.
"""

import numpy as np

from ..errors import AssumptionError
from ..rank import Peers
from ..stability import default_bound, new_rows, reach
from .intervals import ranked_intervals

__all__ = ["scored_stable"]


def scored_stable(fits, rows, alphas, scoring, bound=None, peers=None):
    """Stable intervals for a score that is not the absolute one.

    Parameters
    ----------
    fits : Fits
    rows : (m, p) array
    alphas : list of float
    scoring : Scoring
    bound : str, optional
    peers : Peers, optional

    Returns
    -------
    list of Intervals
    """
    if np.isinf(fits.loss.lipschitz):
        raise AssumptionError(
            f"the stable method with a score or scale needs one tau for all responses, which loss "
            f"{fits.loss.describe()} does not have (it is not Lipschitz): use 'huber', or method='split'"
        )
    bound = bound or default_bound(fits.loss)
    trained, new = scoring.scales(np.arange(fits.n), None, fits.n, len(rows))
    peers = Peers(fits.n) if peers is None else peers
    ranks = [peers.rank(alpha) for alpha in alphas]
    ends = np.empty((len(rows), len(ranks), 2))
    for i, row in enumerate(rows):
        given = row[None], [rank.take(i) for rank in ranks], scoring, bound
        ends[i] = _ends(fits.base, *given, trained, new[i])
    out = []
    for a, alpha in enumerate(alphas):
        lower, upper = ends[:, a].T.copy()
        out.append(ranked_intervals(lower, upper, peers, alpha, scoring.side, "stable", bound=bound))
    return out


def _ends(base, row, ranks, scoring, bound, trained, sigma):
    """Ends of the set of one row, a line a rank; NaN where it is empty."""
    scale, scoring = base.scale, scoring.in_units(base.scale)
    moves = reach(base, new_rows(base, row, bound), bound)
    slope = np.array([max(base.steepest(-1), base.steepest(1))])
    tau, own = scale * moves.tau(slope)[0] / trained, scale * float(moves.shift(slope)[0])
    upper, middle = scoring.upper(scale * base.solution.r / trained, tau), float(base.predict(row)[0])
    levels = np.array([rank.kth(upper) for rank in ranks])
    low, high = scoring.interval(levels, sigma)
    # The new score is at most its level while its residual, which may move by tau, is in the interval.
    return np.column_stack([middle + low - own, middle + high + own])
