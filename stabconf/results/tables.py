"""What every results class can show in words and numbers: summary, width reports, written reports.

Options go through to ``conf_int_conformal``, so whatever method it has, these have. `figures` adds figures.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from ..checks import check_one_alpha
from ..data.bins import group_labels
from ..data.frames import collected
from ..errors import AssumptionError, InputError
from ..sets import Intervals
from ..show.report import Background, Content, check_path, write_report
from ..show.shown import Shown, WidthReport
from ..show.summary import FitSummary, Summary, add_intervals, stability_lines
from .asking import Asked, Rows
from .base import BaseResults
from .options import Level, New, Options
from .showing import evenly, shown_of_levels

By: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | None

_SUMMARY_ROWS = 20  # exact intervals of so many take less time than ten fits


class Tables(BaseResults):
    """Tables and reports of results; a part of every results class.

    A subclass has ``_fit_summary()``: the summary of the fit, without intervals; ``_content(...)``: what a
    report says; and ``fit_quality``. What is shown is a record per response.
    """

    _enclosing = "stable"  # the method that encloses full conformal sets by stability
    _fit_summary: Callable[[], FitSummary]
    _content: Callable[..., Content]  # of a report

    def _detail_notes(self) -> list[str]:
        """What a summary with details says below its tables."""
        return []

    def summary(self, alpha: Level = None, details: bool = False) -> Summary:
        """Summary tables: the fit and how good it is, the coefficients, and what the intervals promise.

        Widths at level ``alpha`` are those at 20 of the training design points; `width_report` is about all
        of them. ``details`` adds what the intervals rest on: order statistic, distance to the exact sets,
        widths and bounds of the stable method, and the constants of the paper. Returns statsmodels'
        ``Summary``: text, ``as_html()``, ``as_latex()``, ``as_csv()``.

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
        last = self._detail_notes() if details else []
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
            Miscoverage, by default ``default_alpha``: 0.05, or what `stabconf.conformal` was given.
        response : str or sequence of float, optional
            Responses of ``new`` as the model has them (transformed, where the formula does that; a Series
            is matched by label), or their column. By default the left side of the formula, where ``new``
            has its columns. The training rows have shaped the fit: they are not used to judge coverage.
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

        It leads with one sentence about width and coverage. Where responses of new rows are known it marks
        those that are missed, says where coverage falls short beyond chance, and whether exchangeability is
        plausible. All rows can be downloaded from the page as CSV. A ``path`` that ends in ``.html`` is one
        file that needs nothing else; in ``.md``, Markdown, with its figures in a folder beside it,
        ``name_files`` for ``name.md``. Files appear whole or not at all, and the same input gives the same
        bytes. All other arguments are those of `width_report`.

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
