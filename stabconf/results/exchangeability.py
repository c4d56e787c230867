"""``check_exchangeability`` of every results class: labels on the evidence that `sets.check_rows` finds.

`Presentation` builds on this, and written reports show the answer.
"""

from typing import Any

import numpy as np
import pandas as pd

from ..data.response_units import as_units
from ..errors import InputError
from ..sets import STREAMS, check_rows
from ..sets.exchangeability import SHARE
from ..show.drift import ExchangeabilityCheck
from ..show.shown import Shown
from .observed import ObservedResults
from .options import New, Options
from .rows import Rows
from .showing import responses_of

__all__ = ["CheckedResults"]


class CheckedResults(ObservedResults):
    """Results that can say whether new rows look exchangeable with the training rows.

    A subclass has ``_parts(rows)``: fits with a ``predictor`` of parts of the training rows, and new rows
    as these take them.
    """

    def _parts(self, rows: Rows) -> tuple[Any, np.ndarray]:
        raise NotImplementedError

    def check_exchangeability(
        self, new: New, response: Any = None, random_state: int | np.random.Generator = 0
    ) -> ExchangeabilityCheck:
        """Is it plausible that new rows with known responses are exchangeable with the training rows?

        Half of the training rows, drawn at random, are fitted. The others are the reference: each new row
        is ranked among them and the new rows before it, by its residual (level), by the size of its
        residual (spread) and by how far out its covariates lie. Under exchangeability these p-values are
        uniform and independent, exactly, given the map of the formula (knots and the like). Three test
        martingales, which show where a change began, and three Kolmogorov-Smirnov tests share the level.

        Parameters
        ----------
        new : DataFrame
            New rows that the fit has not seen, in the order in which they came, with their responses.
        response : str or sequence of float, optional
            As in `width_report`; by default the left side of the formula.
        random_state : int or numpy Generator
            Decides which training rows are fitted, and where among ties a row is ranked. The first answer
            counts: one that is picked from several seeds is no test.

        Returns
        -------
        ExchangeabilityCheck
            With ``sentence``, ``p_value``, the p-values ``p``, ``summary()`` and ``plot()``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[:150], loss="huber")
        >>> res.check_exchangeability(data.iloc[150:]).plausible
        True
        >>> dearer = data.iloc[150:].assign(foodexp=lambda rows: rows["foodexp"] + 100)
        >>> check = res.check_exchangeability(dearer)
        >>> check.departures[0], check.p_value < 0.001
        ('level', True)
        """
        if new is None:
            raise InputError(
                "new=None: rows that were fitted tell nothing; give new rows with their responses"
            )
        rows, index = self._rows(new)
        y = responses_of(self._design, new, self._design.frame_of(new), response)
        if y is None:
            raise InputError(
                f"new does not have the columns of the response {self._design.response!r}: add them, or "
                "give response="
            )
        known = rows.complete & ~np.isnan(y)
        if not known.any():
            raise InputError(
                f"none of the {len(y)} new rows is complete and has a response: give rows that are"
            )
        some = rows.take(known)
        fits, fresh = self._parts(some)
        found = check_rows(fits, fresh, some.responses_as_fitted(y[known]), random_state)
        places = np.flatnonzero(known)
        values = {
            "mean_p": np.mean(found.p, axis=0),
            "ks_p": found.uniformity,
            "largest": np.max(found.capital, axis=0),
            "since": list(index[places[found.since]]),
            "peak": list(index[places[found.peak]]),
            "since_row": places[found.since],
            "peak_row": places[found.peak],
        }
        return ExchangeabilityCheck(
            p_values=_on_all(found.p, known, index),
            paths=_on_all(found.capital, known, index).ffill().fillna(np.log10(SHARE)),
            table=pd.DataFrame(values, index=list(STREAMS)),
            p_value=found.p_value,
            fitted=found.fitted,
            reference=found.reference,
        )

    def _checked(self, shown: Shown, new: New, options: Options) -> ExchangeabilityCheck | None:
        """The check for a report; None where responses are not known, or where intervals assume less than
        exchangeability of all rows: with groups, or with weights of a shift."""
        less = any(options.get(name) is not None for name in ("groups", "weights"))
        if less or new is None or shown.y is None or np.isnan(shown.hits).all():
            return None
        back = as_units(options.get("units"), self._design)
        response = shown.y if back is None else back.there(shown.y)
        given = {name: options[name] for name in ("wls_weights",) if name in options}
        try:
            return self.check_exchangeability(new, response, **given)
        except InputError:  # too few rows
            return None


def _on_all(values: np.ndarray, known: np.ndarray, index: pd.Index) -> pd.DataFrame:
    """Values of the known rows (k, 3) on all labels (m,), NaN elsewhere."""
    out = np.full((len(index), len(STREAMS)), np.nan)
    out[known] = values
    return pd.DataFrame(out, index=index, columns=list(STREAMS))
