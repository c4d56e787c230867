"""The paper's own constants, by name and with their assumptions (theory, section 4).

They bound the move between the fits at any two responses, so they do not depend on the tilt:

- a Lipschitz loss and a ridge penalty: tau_i = 2 rho a_i a_N;
- a nu-smooth loss, a ridge penalty with nu a_N^2 < 1 ("nu < lambda"), and losses of at most C:
  tau_i = 2 sqrt(2 nu C) a_i a_N / (1 - nu a_N^2);
- a strongly convex loss without penalty, in prediction space: tau_i = 2 rho / mu for every row.

C is the loss of the range of the training responses, which bounds the losses for responses in that range
and a prediction in it; the slope is then at most rho = sqrt(2 nu C), also where the loss is not Lipschitz.
"""

import math
from collections.abc import Iterator

import numpy as np

from ..errors import AssumptionError
from ..losses import Loss
from ..rank import Rank, Scoring
from .base_fit import BaseFit, InverseRoot, Metric
from .constants import largest_loss
from .moves import Ceilings, Group, NormReach
from .row_norms import NewRows

__all__ = ["PaperReach", "needs_range", "paper_rows"]


def needs_range(loss: Loss) -> bool:
    """Whether the constants hold only for responses in the range of the training ones."""
    return math.isinf(loss.lipschitz)


def paper_rows(base: BaseFit, rows: np.ndarray, rounded: bool) -> NewRows:
    """`NewRows` in the metric that suits the loss and the penalty; refuses where no constant applies."""
    problem = base.problem
    loss = problem.loss
    if np.all(problem.ridge > 0):
        if needs_range(loss) and math.isinf(loss.smoothness):
            raise AssumptionError(
                f"bound='paper' assumes a Lipschitz loss or a smooth one; {loss.describe()} is neither: "
                "use bound='curvature' or 'norm', or a loss such as 'huber'"
            )
        new = NewRows(rows, base.metric(None).root, rounded)
        if needs_range(loss) and np.any(loss.smoothness * np.square(new.grid) >= 1.0):
            raise AssumptionError(
                f"bound='paper' for the smooth loss {loss.describe()} assumes nu < lambda: nu times the "
                "squared norm of each new row must be below n times the penalty: raise penalty, or use "
                "bound='curvature'"
            )
        return new
    if problem.ridge.any() or problem.lasso.any() or not loss.min_curvature(-np.inf, np.inf) > 0:
        raise AssumptionError(
            f"bound='paper' without the ridge part of the penalty assumes a strongly convex loss and no "
            f"penalty at all; loss {loss.describe()} with this penalty is not that: use penalty > 0 with "
            "l1_ratio < 1, or bound='curvature'"
        )
    return NewRows(rows, _Ones(np.eye(problem.X.shape[1])), rounded)


class _Ones(InverseRoot):
    """A metric in which every row has norm 1: predictions themselves are what moves."""

    def norms(self, rows: np.ndarray) -> np.ndarray:
        return np.ones(len(rows))


class PaperReach(NormReach):
    """Moves of one size, whatever the tilt."""

    @classmethod
    def formula(cls, loss: Loss, penalised: bool) -> str:
        slope = "sqrt(2 nu C)" if needs_range(loss) else "rho"
        if not penalised:
            return f"2 {slope} / mu, mu the least curvature of the loss"
        return f"2 {slope} a_i a_N" + (" / (1 - nu a_N^2)" if needs_range(loss) else "")

    def _make_groups(self, t: np.ndarray) -> Iterator[Group]:
        metric = self._metric
        norms = self._widest_norms
        yield slice(None), metric, norms, self._constant * norms + metric.start

    def ceilings(self, score: Scoring, rank: Rank) -> Ceilings:
        lines, _ = super().ceilings(score, rank)
        return lines, lambda t: self._constant * self._widest_norms + self._metric.start

    @property
    def _metric(self) -> Metric:
        base = self.base
        if not isinstance(self.new.root, _Ones):
            return base.metric(None)
        start = float(base.base_root.norms(base.residual[None])[0])
        ones = np.ones(len(base.problem.v))
        return Metric(self.new.root, math.inf, ones, 1.0, start)

    @property
    def _constant(self) -> np.ndarray | float:
        """What the norms are multiplied by, one factor per norm of the new rows or one for all."""
        loss = self.base.problem.loss
        if not needs_range(loss):
            return 2.0 * loss.lipschitz
        worst = largest_loss(loss, float(np.ptp(self.base.problem.v)))
        slope = 2.0 * math.sqrt(2.0 * loss.smoothness * worst)
        if isinstance(self.new.root, _Ones):
            return slope / float(loss.min_curvature(-np.inf, np.inf))
        return slope / (1.0 - loss.smoothness * np.square(self.new.grid))
