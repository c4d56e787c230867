"""`Predictor`: predictions and intervals without the training rows, to ship to workers or a service.

`Results.predictor` makes it. It is results whose design has no rows and whose fits are tables, so that
questions take the same way as elsewhere (theory, sections 4 and 6). Workers of dask are sent one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..data.frozen_design import FrozenDesign
from ..errors import InputError, InputTypeError
from ..sets import FROZEN_METHODS, FrozenSets, Intervals
from ..sets.training import linear
from .asking import Asked, ask_intervals
from .base import BaseResults
from .options import New, Numbers, Options, Side, shows_options

if TYPE_CHECKING:
    from .parted import PartedResults
    from .regression import Results

_OPTIONS = ("unseen", "in_range", "units", "to")


class Predictor(BaseResults):
    """A fit without its training rows; made by `Results.predictor`.

    It answers the levels ``alphas``, the ``side`` and of "stable" and "split" the ``methods``, the first
    by default.
    """

    can_refit = False
    _methods = FROZEN_METHODS
    _rowless = "a predictor has no training rows"

    def __init__(
        self,
        results: "Results | PartedResults",
        sets: FrozenSets,
        alphas: Sequence[float],
        side: Side,
        methods: tuple[str, ...],
    ) -> None:
        design, fitted = results._design, results._fitted
        frozen = design if isinstance(design, FrozenDesign) else FrozenDesign(design)
        super().__init__(results.model, frozen, results._columns)
        self._fit = fitted.centre, fitted.scale, fitted.solution.x
        self._fits = sets
        self.alphas = tuple(alphas)
        self.side: Side = side
        self.methods = methods
        if self.alphas:
            self.default_alpha = self.alphas[0] if len(self.alphas) == 1 else self.alphas

    @property
    def nobs(self) -> int:
        """Training rows that were used."""
        return self._fits.n

    @shows_options(BaseResults.conf_int_conformal, _OPTIONS)
    def conf_int_conformal(
        self,
        exog: New = None,
        alpha: Numbers = None,
        method: str | None = None,
        side: Side | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Conformal prediction intervals for new responses: those of the results themselves.

        ``alpha``, ``method`` and ``side`` are of those that the predictor was made for, by default all
        levels and the first method; all else is as in `Results.conf_int_conformal`.
        """
        for option in [name for name in options if name not in (*_OPTIONS, "centre")]:
            raise InputTypeError(
                f"option {option!r} is not for a predictor, whose options are unseen, in_range and units: "
                "ask the results themselves"
            )
        if side not in (None, self.side):
            raise InputError(
                f"side={side!r} is not in this predictor, which has {self.side!r}: make one with "
                f"side={side!r}"
            )
        name = self.methods[0] if method in (None, "auto") else method
        if name in FROZEN_METHODS and name not in self.methods:
            raise InputError(
                f"method={name!r} is not in this predictor: make one with methods=('stable', 'split')"
            )
        return ask_intervals(self, exog, self._level(alpha), str(name), self.side, options)

    def _by_partition(self, frame: Any, what: str, **asked: Any) -> Any:
        from dask import delayed

        asked = {name: value for name, value in asked.items() if value is not False}
        meta = _answer(frame._meta, self, what, asked)
        return frame.map_partitions(_answer, delayed(self), what, asked, meta=meta)

    def _predictions(self, X: np.ndarray) -> np.ndarray:
        return linear(*self._fit, X)

    def _intervals(self, asked: Asked) -> list[Intervals]:
        for alpha in asked.alphas:
            if alpha not in self.alphas:
                raise InputError(
                    f"alpha={alpha:g} is not in this predictor, which has "
                    f"{', '.join(f'{known:g}' for known in self.alphas)}: make one with this alpha"
                )
        return super()._intervals(asked)


def _answer(
    part: pd.DataFrame, predictor: Predictor, what: str, asked: Options
) -> pd.DataFrame | pd.Series:
    """A predictor's answer to some rows; what it says of all of them would differ by partition."""
    made = getattr(predictor, what)(part, **asked)
    made.attrs = {}
    return made
