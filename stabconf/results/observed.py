"""New rows whose responses are known: their p-values, and one frame with all there is to say of each row.

A part of every results class; `exchangeability` and `figures` build on it (theory, section 1).
"""

from typing import Any

import pandas as pd

from ..data.frames import copied
from ..data.response_units import as_units
from ..errors import InputError
from .asking import PValues, ask_own_p
from .base import BaseResults
from .options import Groups, Level, New, PerRow, Side
from .showing import responses_of, shown_of

__all__ = ["ObservedResults"]

# Options of intervals that p-values have too, and those that do not change which responses are inside.
_SHARED = ("side", "groups", "weights", "conditional", "wls_weights")
_NEUTRAL = {"method", "tol", "budget", "units", "n_jobs", "progress"}


class ObservedResults(BaseResults):
    """Results that can say how new responses agree with their intervals.

    A subclass has ``_p_of(side)``: p-values of one row at candidates.
    """

    def _p_of(self, side: Side) -> PValues:
        raise NotImplementedError

    def p_values(
        self,
        new: New,
        response: Any = None,
        side: Side = "two-sided",
        *,
        groups: Groups = None,
        weights: PerRow = None,
        conditional: str | None = None,
    ) -> pd.Series:
        """Exact conformal p-values of new rows, each at its own response.

        Under exchangeability a p-value is at most alpha with probability at most alpha. A response is in
        the conformal set at alpha if and only if its p-value is larger. Those of several rows share the
        training rows, and are not independent: `check_exchangeability` looks at many rows together.

        Parameters
        ----------
        new : DataFrame
            New rows, which the fit has not seen.
        response : str or sequence of float, optional
            Their responses as the model has them, or a column. By default the left side of the formula.
        side, groups, weights, conditional : optional
            As in `conf_int_conformal`.

        Returns
        -------
        Series
            On the index of ``new``; NaN where a row, or its response, is missing.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[:200])
        >>> res.p_values(data.iloc[200:203]).round(3).tolist()
        [0.771, 0.413, 0.687]
        """
        values = self._p_of(side)
        if new is None:
            raise InputError("new=None: p-values are of rows that the fit has not seen; give them as new")
        y = responses_of(self._design, new, self._design.frame_of(new), response)
        if y is None:
            raise InputError(
                f"new does not have the columns of the response {self._design.response!r}: add them, or "
                "give response="
            )
        made = ask_own_p(self, new, y, groups, weights, values, conditional)
        return pd.Series(made, index=self._rows(new)[1], name="p")

    def augment(
        self, new: New = None, alpha: Level = None, *, response: Any = None, **options: Any
    ) -> pd.DataFrame:
        """The rows themselves, with what is predicted for them and what came true, in one frame.

        Parameters
        ----------
        new : DataFrame, optional
            New rows; the training rows by default.
        alpha, response, **options
            As in `width_report`: ``method``, ``side``, ``groups``, ``units`` and so on.

        Returns
        -------
        DataFrame
            The columns of ``new``, then ``prediction``, ``lower`` and ``upper``; where responses are known
            ``actual``, and for new rows ``inside``, whether the interval holds it (missing where that
            cannot be judged), and with exact intervals its p-value ``p``, as in `p_values`.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("np.log(foodexp) ~ np.log(income)", data.iloc[:200])
        >>> res.augment(data.iloc[200:203], alpha=0.1, units="response").round(2).T
                       200     201     202
        income       608.5  958.66  835.94
        foodexp     444.56  680.42  576.28
        prediction  418.13  618.11  549.42
        lower       333.59  493.74  438.55
        upper       523.46  774.57  688.44
        actual      444.56  680.42  576.28
        inside        True    True    True
        p             0.68     0.5    0.74
        """
        shown = shown_of(self, new, alpha, response, options)
        frame = copied(shown.frame)
        made: dict[str, Any] = {"prediction": shown.mean, "lower": shown.lower, "upper": shown.upper}
        if shown.y is not None:
            made["actual"] = shown.y
            if not shown.training:
                made["inside"] = pd.array(shown.hits, dtype="boolean")
        given = {name: value for name, value in options.items() if value is not None}
        exact = shown.attrs["method"] == "exact" and set(given) <= {*_SHARED, *_NEUTRAL}
        if shown.y is not None and "inside" in made and exact:
            back = as_units(options.get("units"), self._design)
            y = shown.y if back is None else back.there(shown.y)
            shared = {name: given[name] for name in _SHARED if name in given}
            made["p"] = self.p_values(new, y, **shared).to_numpy()
        taken = [name for name in made if name in frame.columns]
        if taken:
            raise InputError(
                f"new has columns {', '.join(taken)} already: rename or drop them, for augment adds its own"
            )
        for name, values in made.items():
            frame[name] = values
        frame.attrs = shown.attrs
        return frame
