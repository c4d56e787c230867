"""What results can show in words and numbers: summary, width reports, written reports, and new rows whose
responses are known (theory, section 1).

Options go through to ``conf_int_conformal``, so whatever method it has, these have. `figures` adds figures.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..checks import check_one_alpha
from ..data.bins import group_labels
from ..data.frames import collected, copied
from ..data.response_units import as_units
from ..errors import AssumptionError, InputError, quietly
from ..sets import STREAMS, Intervals, check_rows
from ..sets.exchangeability import SHARE
from ..show.drift import ExchangeabilityCheck
from ..show.report import Background, Content, check_path, collect, write_report
from ..show.shown import Shown, WidthReport
from ..show.summary import FitSummary, Summary, add_intervals, constants_note, stability_lines
from .asking import Asked, PValues, Rows, ask_own_p
from .base import BaseResults
from .options import Groups, Level, New, Options, PerRow, Side
from .showing import evenly, known_responses, shown_of, shown_of_levels

By: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | None

_SUMMARY_ROWS = 20  # exact intervals of so many take less time than ten fits
# Options of intervals that p-values have too, and those that do not change which responses are inside.
_SHARED = ("side", "groups", "weights", "conditional")
_NEUTRAL = {"method", "tol", "budget", "units", "n_jobs", "progress"}


class Tables(BaseResults):
    """Tables and reports of results, from a record per response; a part of every results class."""

    _enclosing = "stable"  # the method that encloses full conformal sets by stability
    _fit_summary: Callable[[], FitSummary]  # of the fit, without intervals
    _content: Callable[..., Content]  # of a report

    def summary(self, alpha: Level = None, details: bool = False) -> Summary:
        """Summary tables: the fit and how good it is, the coefficients, and what the intervals promise.

        Widths at level ``alpha`` are those at 20 of the training design points. ``details`` adds what the
        intervals rest on: order statistic, distance to the exact sets, widths and bounds of the stable
        method, and the constants of the paper. Returns statsmodels' ``Summary``: text, ``as_html()``,
        ``as_latex()``, ``as_csv()``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> print(res.summary(alpha=0.1).tables[2])
        ==================================
                         coef standardized
        ----------------------------------
        Intercept       111.1       0.1794
        income         0.5226        1.155
        ==================================
        """
        rows, level, where = self._summary_rows(alpha)
        made = self._attempt(rows, level, self.default_method)
        more = []
        if details and not isinstance(made, str):
            more = stability_lines(made, self._attempt(rows, level, self._enclosing))
        last = [constants_note(self)] if details and hasattr(type(self), "constants") else []
        return add_intervals(self._fit_summary(), made, where, more, last)

    def _summary_rows(self, alpha: Level) -> tuple[Rows, float, str]:
        """The rows that a summary has intervals of, their level, and what these rows are."""
        which = evenly(self.nobs, _SUMMARY_ROWS)
        where = "the training points" if len(which) == self.nobs else f"{len(which)} of the training points"
        return self._rows(None)[0].take(which), check_one_alpha(self._level(alpha)), where

    def _attempt(self, rows: Rows, alpha: float, method: str) -> Intervals | str:
        """Two-sided `Intervals`, or the reason why the method refuses."""
        try:
            return self._intervals(Asked(rows, [alpha], method))[0]
        except (AssumptionError, InputError) as refusal:
            return str(refusal)

    def width_report(
        self, new: New = None, by: By = None, alpha: Level = None, response: Any = None, **options: Any
    ) -> WidthReport:
        """Widths of the intervals, in all or by group, and their coverage where responses are known.

        Parameters
        ----------
        new : DataFrame, optional
            New rows; the training design points by default.
        by : str, mapping, or list of these, optional
            Groups: a column, a term such as ``"C(g)"`` or ``"income > 500"``; bins of a number as
            ``{"income": 4}`` (of equal counts) or ``{"income": [0, 500, 1000]}`` (closed on the right).
        alpha : float, optional
            Miscoverage, by default ``default_alpha``.
        response : str or sequence of float, optional
            Responses of ``new`` as the model has them (transformed, where the formula does that; a Series
            is matched by label), or their column. By default the left side of the formula, where ``new``
            has its columns. Training rows, which have shaped the fit, are not used to judge coverage.
        **options
            Of `conf_int_conformal`, ``method`` and ``side`` too.

        Returns
        -------
        WidthReport
            A DataFrame, one row per group, with ``to_markdown()``, ``to_latex()`` and ``to_html()``. Beside
            the coverage is the range in which it should fall if intervals cover as promised.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[::2], loss="huber")
        >>> report = res.width_report(data.iloc[1::2], by={"income": [0, 800, 5000]}, alpha=0.1)
        >>> report[["count", "mean", "coverage"]].round(2).reset_index()
                income  count    mean  coverage
        0     (0, 800]     43  338.65      1.00
        1  (800, 5000]     74  338.92      0.88
        """
        groups = self._groups(new, by)
        return self._widths(self._shown(new, alpha, response, options), groups)

    def report(
        self,
        path: str | os.PathLike[str],
        new: New = None,
        alpha: Level = None,
        by: By = None,
        response: Any = None,
        **options: Any,
    ) -> Path:
        """Write a report: intervals, coverage and widths, the model, data checks, how to cite, versions.

        Where responses of new rows are known it marks those that are missed, says where coverage falls
        short beyond chance, and whether exchangeability is plausible. A ``path`` that ends in ``.html`` is
        one file that needs nothing else, with all rows to download as CSV; in ``.md``, Markdown, with its
        figures in a folder beside it, ``name_files`` for ``name.md``. Files appear whole or not at all, and
        the same input gives the same bytes. All other arguments are those of `width_report`.

        Examples
        --------
        >>> import os, tempfile
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     res.report(os.path.join(folder, "Engel.html"), {"income": [500.0]}, alpha=0.1).name
        'Engel.html'
        """
        target = check_path(path)
        groups = self._groups(new, by)
        shown = self._shown(new, alpha, response, options)
        trained = self._covariates(self._rows(None)[0].as_fitted)
        rows = None if new is None else self._covariates(self._rows(new)[0].as_fitted)
        design = self._design
        known = design.predictors, design.frame_of(None), design.dropped
        about = Background(self.model.formula, *known, trained, rows)
        return write_report(target, self._content(shown, groups, about, new, options))

    def _shown(self, new: New, alpha: Level, response: Any, options: Options) -> list[Shown]:
        """What is shown, a record per response."""
        return shown_of_levels(self, new, [check_one_alpha(self._level(alpha))], response, options)

    def _widths(self, shown: list[Shown], groups: pd.DataFrame | None) -> WidthReport:
        return shown[0].report(groups)

    def _groups(self, new: New, by: By) -> pd.DataFrame | None:
        """Labels of groups, one column per grouping; None without any. Asked for before intervals are made,
        which may take long."""
        if by is None:
            return None
        frame = self._design.frame_of(collected(new))
        return group_labels(by, frame, lambda term: self._design.terms(term, frame, "by"))


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

        A response is in the conformal set at alpha if and only if its p-value is larger. Those of several
        rows share the training rows, and are not independent: `check_exchangeability` looks at many rows
        together. ``response`` is as in `width_report`, all else as in `conf_int_conformal`; NaN where a
        row, or its response, is missing.

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

        Half of the training rows, drawn at random, are fitted, and the others are the reference among which
        new rows are ranked; `ExchangeabilityCheck` says more. Under exchangeability these p-values are
        uniform and independent, exactly, given the map of the formula (knots and the like).

        Parameters
        ----------
        new : DataFrame
            New rows that the fit has not seen, in the order in which they came, with their responses.
        response : str or sequence of float, optional
            As in `width_report`; by default the left side of the formula.
        random_state : int or numpy Generator
            Decides which training rows are fitted, and where among ties a row is ranked. One answer that is
            picked from several seeds is no test.

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
        at = {"since": places[found.since], "peak": places[found.peak]}
        values: dict[str, Any] = {"mean_p": np.mean(found.p, axis=0), "ks_p": found.uniformity}
        values["largest"] = np.max(found.capital, axis=0)
        values |= {name: list(index[rows_at]) for name, rows_at in at.items()}
        values |= {f"{name}_row": rows_at for name, rows_at in at.items()}
        streams, on_all = list(STREAMS), np.full((2, len(index), len(STREAMS)), np.nan)
        on_all[:, known] = found.p, found.capital
        p_values, paths = (pd.DataFrame(each, index, streams) for each in on_all)
        paths, table = paths.ffill().fillna(np.log10(SHARE)), pd.DataFrame(values, streams)
        sizes = found.p_value, found.fitted, found.reference
        return ExchangeabilityCheck(p_values, paths, table, *sizes)

    def _content(
        self, shown: list[Shown], groups: pd.DataFrame | None, about: Background, new: New, options: Options
    ) -> Content:
        (one,), check = shown, None
        # Intervals assume less than exchangeability of all rows with groups, clusters, weights of a shift.
        less = any(options.get(name) is not None for name in ("groups", "weights"))
        less |= one.attrs["unit"] == "clusters"
        with quietly():  # said above, by the intervals themselves
            summary = self._fit_summary()
            if not (less or new is None or one.y is None or np.isnan(one.hits).all()):
                with suppress(InputError):  # too few rows
                    check = self.check_exchangeability(new, self._model_responses(one, options))
        return collect(one, groups, summary, about, check)

    def _model_responses(self, shown: Shown, options: Options) -> np.ndarray | None:
        """Responses as the model has them (m,), whatever the units that are shown."""
        return None if shown.y is None else as_units(options.get("units"), self._design).there(shown.y)
