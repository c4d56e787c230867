"""New rows whose responses are known: their p-values, all there is to say of each row in one frame, and
whether they look exchangeable with the training rows (theory, section 1).

A part of every results class; `figures` builds on it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from ..data.frames import copied
from ..data.response_units import as_units
from ..errors import InputError, quietly
from ..sets import STREAMS, check_rows
from ..sets.exchangeability import SHARE
from ..show.drift import ExchangeabilityCheck
from ..show.report import Background, Content, collect
from ..show.shown import Shown
from .asking import PValues, ask_own_p
from .options import Groups, Level, New, Options, PerRow, Side
from .showing import known_responses, shown_of
from .tables import Tables

# Options of intervals that p-values have too, and those that do not change which responses are inside.
_SHARED = ("side", "groups", "weights", "conditional")
_NEUTRAL = {"method", "tol", "budget", "units", "n_jobs", "progress"}


class ObservedResults(Tables):
    """Results that can say how new responses agree with their intervals."""

    _p_of: Callable[..., PValues]  # of a side: p-values of one row at candidates

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
        ``response`` is as in `width_report`, all else as in `conf_int_conformal`; NaN where a row, or its
        response, is missing.

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
        unseen = "p-values are of rows that the fit has not seen; give them as new"
        y = known_responses(self._design, new, response, unseen)
        asked = {"groups": groups, "weights": weights, "conditional": conditional}
        return pd.Series(ask_own_p(self, new, y, values, **asked), self._rows(new)[1], name="p")

    def augment(
        self, new: New = None, alpha: Level = None, *, response: Any = None, **options: Any
    ) -> pd.DataFrame:
        """The rows themselves, with what is predicted for them and what came true, in one frame.

        Arguments are those of `width_report`. Returns the columns of ``new``, then ``prediction``,
        ``lower`` and ``upper``; where responses are known ``actual``, and for new rows ``inside``, whether
        the interval holds it (missing where that cannot be judged), and with exact intervals its p-value
        ``p``, as in `p_values`.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("np.log(foodexp) ~ np.log(income)", data.iloc[:200])
        >>> res.augment(data.iloc[200:202], alpha=0.1, units="response").round(2).iloc[:, 1:]
             foodexp  prediction   lower   upper  actual  inside     p
        200   444.56      418.13  333.59  523.46  444.56    True  0.68
        201   680.42      618.11  493.74  774.57  680.42    True  0.50
        """
        shown = shown_of(self, new, alpha, response, options)
        frame = copied(shown.frame)
        made: dict[str, Any] = {"prediction": shown.mean, "lower": shown.lower, "upper": shown.upper}
        if shown.y is not None:
            made["actual"] = shown.y
            if not shown.training:
                made["inside"] = pd.array(shown.hits, dtype="boolean")
        asked = {name: value for name, value in options.items() if value is not None}
        exact = shown.attrs["method"] == "exact" and set(asked) <= {*_SHARED, *_NEUTRAL}
        if "inside" in made and exact:
            shared = {name: asked[name] for name in _SHARED if name in asked}
            made["p"] = self.p_values(new, self._model_responses(shown, asked), **shared).to_numpy()
        taken = [name for name in made if name in frame.columns]
        if taken:
            raise InputError(
                f"new has columns {', '.join(taken)} already: rename or drop them, for augment adds its own"
            )
        frame = frame.assign(**made)
        frame.attrs = shown.attrs
        return frame

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

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[:150], loss="huber")
        >>> dearer = data.iloc[150:].assign(foodexp=lambda rows: rows["foodexp"] + 100)
        >>> check = res.check_exchangeability(dearer)
        >>> check.plausible, check.departures[0], check.p_value < 0.001
        (False, 'level', True)
        """
        unseen = "rows that were fitted tell nothing; give new rows with their responses"
        y = known_responses(self._design, new, response, unseen)
        rows, index = self._rows(new)
        known = rows.complete & ~np.isnan(y)
        if not known.any():
            raise InputError(
                f"none of the {len(y)} new rows is complete and has a response: give rows that are"
            )
        some = rows.take(known)
        asked = some.as_fitted, some.responses_as_fitted(y[known]), random_state
        found = check_rows(self._fits, *asked, self._covariates)
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
        streams, on_all = list(STREAMS), np.full((2, len(index), len(STREAMS)), np.nan)
        on_all[:, known] = found.p, found.capital
        p_values, paths = (pd.DataFrame(each, index, streams) for each in on_all)
        paths, table = paths.ffill().fillna(np.log10(SHARE)), pd.DataFrame(values, streams)
        sizes = found.p_value, found.fitted, found.reference
        return ExchangeabilityCheck(p_values, paths, table, *sizes)

    def _content(
        self,
        shown: list[Shown],
        groups: pd.DataFrame | None,
        about: Background,
        new: New,
        options: Options,
    ) -> Content:
        (one,), check = shown, None
        # Intervals assume less than exchangeability of all rows with groups, clusters, weights of a shift.
        less = any(options.get(name) is not None for name in ("groups", "weights"))
        less |= one.attrs["unit"] == "clusters"
        with quietly():  # said above, by the intervals themselves
            if not (less or new is None or one.y is None or np.isnan(one.hits).all()):
                with suppress(InputError):  # too few rows
                    check = self.check_exchangeability(new, self._model_responses(one, options))
            return collect(one, groups, self._fit_summary(), about, check)

    def _model_responses(self, shown: Shown, options: Options) -> np.ndarray | None:
        """Responses as the model has them (m,), whatever the units that are shown."""
        return None if shown.y is None else as_units(options.get("units"), self._design).there(shown.y)
