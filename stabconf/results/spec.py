"""What was fitted, as the user asked for it: ``results.model``.

`fit` and `fit_quantiles` make these records; a refit changes one of their fields. The sets fit rows by the
objective of a `ModelSpec` (theory, section 2).
"""

from dataclasses import dataclass, fields, replace

from ..losses import Loss, Quantile
from ..penalties import Penalty

__all__ = ["EstimatorSpec", "ModelSpec", "QuantileSpec", "SeveralSpec"]


@dataclass(frozen=True)
class ModelSpec:
    """A regression with a loss and a penalty; the fields are the arguments of `stabconf.fit`."""

    formula: str
    loss: Loss
    penalty: Penalty
    standardize: bool
    missing: str
    solver: str
    tol: float
    max_iter: int
    endog_names: str
    exog_names: list[str]

    @property
    def solving(self) -> dict[str, str | float | int]:
        """Options of the solver."""
        return {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}

    def describe(self) -> str:
        """The model in a few words."""
        return f"{self.loss.describe()}, {self.penalty.describe()}"


@dataclass(frozen=True)
class QuantileSpec(ModelSpec):
    """Several quantile regressions at ascending levels; ``loss`` is that of the one nearest to 0.5."""

    quantiles: tuple[float, ...] = ()

    @property
    def levels(self) -> list[ModelSpec]:
        """The regression of each level."""
        return [replace(self, loss=Quantile(level)) for level in self.quantiles]

    def describe(self) -> str:
        """The levels and the penalty."""
        levels = ", ".join(f"{level:g}" for level in self.quantiles)
        return f"quantiles {levels}, {self.penalty.describe()}"


@dataclass(frozen=True)
class SeveralSpec(ModelSpec):
    """One regression for each of several responses; ``endog_names`` has them all, with plus signs."""

    responses: tuple[str, ...] = ()

    @property
    def each(self) -> list[ModelSpec]:
        """The regression of each response, as a fit of its own would have it."""
        known = {one.name: getattr(self, one.name) for one in fields(ModelSpec)}
        right = self.formula.split("~", 1)[1].strip()
        return [
            ModelSpec(**{**known, "formula": f"{name} ~ {right}", "endog_names": name})
            for name in self.responses
        ]

    def describe(self) -> str:
        """The number of responses, the loss and the penalty."""
        return f"{len(self.responses)} responses, {super().describe()}"


@dataclass(frozen=True)
class EstimatorSpec:
    """Any estimator with ``fit`` and ``predict``; it is not fitted itself, copies of it are."""

    formula: str
    estimator: object
    tau: object
    standardize: bool
    missing: str
    endog_names: str
    exog_names: list[str]

    def describe(self) -> str:
        """The estimator's class."""
        return type(self.estimator).__name__
