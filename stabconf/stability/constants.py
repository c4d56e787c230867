"""The constants of the paper, by its names (theory, section 4).

`Results.constants` and the summary show them; the bound "paper" is made of them.
"""

import math

import numpy as np

from ..losses import Loss


def needs_range(loss: Loss) -> bool:
    """Whether the constants hold only for responses in the range of the training ones."""
    return math.isinf(loss.lipschitz)


def largest_loss(loss: Loss, spread: float) -> float:
    """C: the largest loss of a response in the range of the training ones, and of a prediction in it."""
    return float(np.max(loss.value(np.array([-spread, spread]))))


def named_constants(loss: Loss, ridge: np.ndarray, spread: float, n: int) -> dict[str, float]:
    """Constants of the mean loss over N = n + 1 rows plus ``lambda |b|^2``, by name.

    ``ridge`` (p,) are the weights of half the squared coefficients in the sum over rows, and ``spread`` is
    the range of the responses in units of the fit.

    Examples
    --------
    >>> from stabconf.losses import LAD
    >>> named_constants(LAD(), np.full(2, 3.0), 4.0, 14)
    {'rho': 1.0, 'nu': inf, 'gamma': 1.0, 'lambda': 0.1, 'L_Phi': 1.0, 'C': 4.0}
    """
    return {
        "rho": float(loss.lipschitz),
        "nu": float(loss.smoothness),
        "gamma": 1.0,
        "lambda": float(np.min(ridge)) / (2.0 * (n + 1)),
        "L_Phi": 1.0,
        "C": largest_loss(loss, spread),
    }
