"""`PartedResults`: a fit to more rows than memory holds, from a dask frame or from files.

The rows stay in files of a temporary folder, and everything takes passes over them; questions are answered
by a predictor (theory, sections 2 and 4).
"""

from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ..checks import check_alpha
from ..data.frozen_design import FrozenDesign
from ..data.parts import StoredRows
from ..data.units import ColumnUnits
from ..errors import AssumptionError
from ..sets.blocks import BlockRows, check_blocks, fit_blocks, residual_scale_of_blocks, tables_of_blocks
from ..sets.request import check_side
from ..sets.training import Fitted
from ..show.summary import FitSummary, summarise
from .base import BaseResults
from .options import New, Numbers, Side
from .predictor import Predictor
from .regression import Coefficients, ModelSpec, Results


class PartedResults(Coefficients, BaseResults):
    """A fitted model whose training rows are not in memory; made by `stabconf.fit` of a dask frame.

    It has ``params``, ``params_standardized``, ``scale``, ``predict``, stable intervals by
    ``conf_int_conformal`` and ``get_prediction``, ``predictor`` and a short ``summary``. Anything else
    needs the rows in memory, and is refused. ``model`` says what was fitted.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> table = dd.from_pandas(engel.load_pandas().data, npartitions=2)
    >>> res = stabconf.fit("foodexp ~ income", table, loss="huber")
    >>> res.conf_int_conformal({"income": [500.0]}, alpha=0.1).round(0)
       lower  upper
    0  213.0  532.0
    """

    _rowless = "the training rows are not in memory"
    can_refit = False
    default_method = "stable"
    model: ModelSpec

    def __init__(
        self, model: ModelSpec, design: FrozenDesign, columns: ColumnUnits, stored: StoredRows
    ) -> None:
        super().__init__(model, design, columns)
        slopes = np.arange(len(design.names)) != design.intercept
        ridge, lasso = model.penalty.weights(stored.n, slopes)
        check_blocks(model, ridge, lasso)
        constant = None if design.intercept is not None else stored.constant()
        spans = design.intercept is not None or constant is not None
        self._stored = BlockRows(partial(stored.blocks, columns), stored.n, ridge, spans)
        self._fitted: Fitted = fit_blocks(self._stored, model, constant)
        self._predictors: dict[Any, Predictor] = {}

    @property
    def nobs(self) -> int:
        """Rows used."""
        return self._stored.n

    @cached_property
    def scale(self) -> float:
        """Residual scale: 1.4826 times the median absolute residual of a LAD fit with the same columns and
        penalty."""
        return residual_scale_of_blocks(self._stored, self.model)[0]

    def predictor(self, alpha: Numbers = None, side: Side = "two-sided") -> Predictor:
        """A small object that predicts and gives stable intervals without the training rows.

        As `Results.predictor`, with the stable method alone. It takes some passes over the rows, and is
        kept for later questions of the same kind.
        """
        check_side(side)
        return self._frozen(tuple(check_alpha(self._level(alpha))[0]), side)

    def conf_int_conformal(
        self,
        exog: New = None,
        alpha: Numbers = None,
        method: str | None = "stable",
        side: Side = "two-sided",
        **options: Any,
    ) -> pd.DataFrame:
        """Stable conformal prediction intervals for new responses.

        As `Results.conf_int_conformal`, for new rows (of a dask frame too), with the options ``unseen``,
        ``in_range`` and ``units``.
        """
        if method not in (None, "auto", "stable"):
            self._refuse(f"method={method!r}", "use method='stable'")
        made = self.predictor(alpha, side)
        return made.conf_int_conformal(exog, self._level(alpha), "stable", side, **options)

    def summary(self) -> FitSummary:
        """Summary tables: the fit and the coefficients."""
        return summarise(self, errors=False)

    def _frozen(self, alphas: tuple[float, ...], side: Side) -> Predictor:
        if (alphas, side) not in self._predictors:
            sets = tables_of_blocks(self._stored, self._fitted, alphas, side)
            self._predictors[alphas, side] = Predictor(self, sets, alphas, side, ("stable",))
        return self._predictors[alphas, side]

    def _by_partition(self, frame: Any, what: str, **asked: Any) -> Any:
        return self._frozen((), "two-sided")._by_partition(frame, what, **asked)

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise AssumptionError(
            f"{what} needs the training rows in memory, and these results are of a table in parts: "
            f"{instead}, or fit to a pandas frame, a sample of the rows say"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Results, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._refuse(f"{name!r}", "use predict, conf_int_conformal, predictor or summary")

    def __getstate__(self) -> dict[str, Any]:
        self._refuse("pickling", "pickle what predictor() gives")
