"""What every results class can show: summary, width reports, figures, and a report of all of it.

Options go through to ``conf_int_conformal``, so whatever method it has, these have.
"""

import os
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates, check_one_alpha
from ..data.bins import crossed
from ..errors import AssumptionError, InputError, InputTypeError, StabconfWarning
from ..show.coverage import coverage_table
from ..show.plots import draw_conformity, draw_coverage, draw_intervals, draw_stability, draw_widths
from ..show.report import Background, check_path, collect, write_report
from ..show.shown import Shown
from ..show.summary import Summary
from ..show.widths import WidthReport
from .exchangeability import CheckedResults
from .options import Bound, Level, New, Numbers, Side
from .penalty_path import as_penalties, stability_path
from .rows import Rows
from .showing import shown_of, shown_of_levels
from .spec import ModelSpec

__all__ = ["Presentation"]

Axes: TypeAlias = Any  # matplotlib's, which only figures import
By: TypeAlias = str | Mapping[str, Any] | Sequence[Any] | None

_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_PATH_ROWS = 100
_SUMMARY_ROWS = 200


class Presentation(CheckedResults):
    """Tables, figures and reports of results; a part of every results class.

    A subclass has ``_summarised(alpha, shown, options)``: the summary tables at a level, which may use the
    intervals ``shown`` that a report has made already, with these options.
    """

    def _summarised(self, alpha: float, shown: Shown | None = None, options: Iterable[str] = ()) -> Summary:
        raise NotImplementedError

    def summary(self, alpha: Level = None) -> Summary:
        """Summary tables: the fit, the coefficients and what the intervals promise.

        Parameters
        ----------
        alpha : float, optional
            Level at which the interval block is computed, at the training design points (at 200 of them
            where there are more).

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Text, ``as_html()``, ``as_latex()``, ``as_csv()``.

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
        return self._summarised(check_one_alpha(self._level(alpha)))

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
        shown = shown_of(self, new, alpha, response, options)
        return shown.report(self._groups(shown, by))

    def plot_intervals(
        self,
        new: New = None,
        x: str | None = None,
        alpha: Level = None,
        response: Any = None,
        ax: Axes = None,
        **options: Any,
    ) -> Axes:
        """Intervals with predictions, and responses over them where they are known.

        Rows with missing values are left out; infinite ends go to the edge, marked.

        Parameters
        ----------
        x : str, optional
            A column, or a term, to draw them against; by default rows are sorted by their prediction.
        new, alpha, response, **options
            As in `width_report`.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> ax = res.plot_intervals(x="income", alpha=0.1)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('income', 'foodexp')
        """
        shown = shown_of(self, new, alpha, response, options)
        return draw_intervals(shown, None if x is None else self._column(shown, x), x, ax)

    def plot_conformity(
        self,
        new: New,
        alpha: Level = None,
        z: Numbers = None,
        side: Side = "two-sided",
        bound: Bound = None,
        ax: Axes = None,
    ) -> Axes:
        """The conformity function of one row: p, between p_lo and p_up, with the set marked.

        Parameters
        ----------
        new : DataFrame
            One row.
        z : sequence of float, optional
            Candidate responses; by default 201 of them about the set.
        alpha, side, bound
            As in `conf_int_conformal`.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> ax = res.plot_conformity({"income": [500.0]}, alpha=0.1)
        >>> ax.get_xlabel()
        'candidate for foodexp'
        """
        if not hasattr(self, "conformity"):
            raise AssumptionError(
                f"plot_conformity needs p-values of candidates, and {type(self).__name__} has none: fit "
                "with a loss and a penalty"
            )
        shown = shown_of(self, new, alpha, None, {"method": "exact", "side": side})
        if len(shown.frame) != 1 or np.isnan(shown.lower).any():
            raise InputError(
                f"new has {len(shown.frame)} rows, {int(np.isnan(shown.lower).sum())} of them with missing "
                "values: give one complete row, new.iloc[[0]] say"
            )
        lower, upper = shown.lower[0], shown.upper[0]
        if z is None:
            z = _candidates(lower, upper, shown.mean[0], self._design.y)
        candidates = np.sort(check_candidates(z))
        p = self.conformity(new, candidates, side, **({} if bound is None else {"bound": bound}))
        # Without bounds the curve itself stands for them.
        exact, low, high = (p.get(name, p["p"]).to_numpy() for name in ("p", "p_lo", "p_up"))
        pieces = next(iter(shown.attrs["pieces"].values()), [(lower, upper)])
        labels = shown.attrs["alpha"], shown.mean[0], shown.attrs["response"]
        return draw_conformity(candidates, exact, low, high, pieces, *labels, ax)

    def plot_widths(
        self, new: New = None, by: By = None, alpha: Level = None, ax: Axes = None, **options: Any
    ) -> Axes:
        """The distribution of the widths: a histogram, or by group a box (5, 25, 50, 75, 95 %) and points.

        Parameters
        ----------
        new, by, alpha, **options
            As in `width_report`; several groupings are crossed.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> [label.get_text() for label in res.plot_widths(by={"income": 2}).get_yticklabels()]
        ['[377.1, 884]\\n(n = 118)', '(884, 4958]\\n(n = 117)']
        """
        shown = shown_of(self, new, alpha, None, options)
        labels, name = crossed(self._groups(shown, by))
        return draw_widths(shown.widths, labels, name, shown.attrs, ax)

    def plot_stability(
        self,
        new: New = None,
        penalties: Numbers = None,
        alpha: Level = None,
        ax: Axes = None,
        progress: bool | None = False,
    ) -> Axes:
        """Mean width of exact, stable and ball intervals over penalties; the fit's own is marked.

        Refits with each penalty. Choosing one by this figure uses the rows that the intervals rest on:
        `stabconf.select_penalty` chooses without harm to the guarantee. The right axis has the share of the
        stable width that is owed to stability.

        Parameters
        ----------
        new : DataFrame, optional
            New rows; by default up to 100 of the training design points.
        penalties : sequence of float, optional
            By default from 0.001 to 10.
        alpha : float, optional
            Miscoverage, as in `width_report`.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.
        progress : bool or None
            Show a progress bar.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="lad")
        >>> ax = res.plot_stability(penalties=[0.01, 0.1, 1.0], alpha=0.1)
        >>> [line.get_label() for line in ax.get_lines()]
        ['exact', 'stable', 'ball', 'chosen: 0.01']
        """
        if not hasattr(self, "_with_penalty"):
            raise AssumptionError(
                f"plot_stability refits with other penalties, and {type(self).__name__} has none: fit with "
                "a loss and a penalty"
            )
        self._require_refit("plot_stability")
        level = check_one_alpha(self._level(alpha))
        assert isinstance(self.model, ModelSpec)
        chosen = float(self.model.penalty.strength)
        strengths = as_penalties(penalties, [*_PENALTIES, chosen])
        if new is None:
            new = self._design.frame_of(None).iloc[_evenly(self.nobs, _PATH_ROWS)]
        path = stability_path(self._with_penalty, new, strengths, level, progress)
        return draw_stability(path, chosen, level, self._design.response, ax)

    def plot_coverage(
        self, new: New, alphas: Numbers = None, response: Any = None, ax: Axes = None, **options: Any
    ) -> Axes:
        """Coverage of known responses against what was asked for, over levels.

        The band is where the coverage falls in 95 % of samples (of the training rows and as many new ones)
        if intervals cover as promised, at each level; `WidthReport` says more. With ``weights`` there is
        none.

        Parameters
        ----------
        new : DataFrame
            New rows, which the fit has not seen, with their responses.
        alphas : sequence of float, optional
            By default 0.05, 0.1, 0.2, ..., 0.8, and ``default_alpha``.
        response, **options
            As in `width_report`.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[:150], loss="huber")
        >>> res.plot_coverage(data.iloc[150:]).get_xlabel()
        'coverage asked for, 1 - alpha'
        """
        if new is None:
            raise InputError("new=None: coverage is of rows that the fit has not seen; give them as new")
        if response is None and self._design.responses(new) is None:
            raise InputError(
                f"new does not have the columns of the response {self._design.response!r}: add them, or "
                "give response="
            )
        if "alpha" in options:
            raise InputError(f"alpha={options['alpha']!r}: the figure is over levels; give them as alphas")
        own, _ = check_alpha(self.default_alpha)
        wanted = sorted({*_LEVELS, *own}) if alphas is None else sorted(set(check_alpha(alphas)[0]))
        levels = shown_of_levels(self, new, wanted, response, options)
        if np.isnan(levels[0].hits).all():
            raise InputError(
                f"none of the {len(levels[0].hits)} new rows has both an interval and a response: give "
                "complete rows"
            )
        return draw_coverage(coverage_table(levels), ax)

    def report(
        self,
        path: str | os.PathLike[str],
        new: New = None,
        alpha: Level = None,
        by: By = None,
        response: Any = None,
        **options: Any,
    ) -> Path:
        """Write a report: summary, widths, figures, data checks, how to cite, versions.

        Where responses of new rows are known it says whether exchangeability is plausible.

        Parameters
        ----------
        path : path-like
            ``.html`` for one file that needs nothing else; ``.md`` for Markdown, with its figures in
            a folder beside it, ``name_files`` for ``name.md``. Files appear whole or not at all, and the
            same input gives the same bytes.
        new, alpha, by, response, **options
            As in `width_report`.

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
        shown = shown_of(self, new, alpha, response, options)
        groups = self._groups(shown, by)
        with warnings.catch_warnings():  # said above, by the intervals themselves
            warnings.simplefilter("ignore", StabconfWarning)
            summary = self._summarised(shown.attrs["alpha"], shown, options)
            checked = self._checked(shown, new, response, options)
        rows = None if new is None else self._rows_as_fitted(new, options)
        about = Background.of(self.model.formula, self._design, self._rows_as_fitted(None, {}), rows)
        return write_report(target, collect(shown, groups, summary, about, checked))

    def _summary_rows(self) -> tuple[Rows, str]:
        """Training rows where a summary shows intervals, all or evenly spaced ones, and which in words."""
        which = _evenly(self.nobs, _SUMMARY_ROWS)
        some = "" if len(which) == self.nobs else f"{_SUMMARY_ROWS} of "
        return self._rows(None)[0].take(which), f"{some}the training points"

    def _groups(self, shown: Shown, by: By) -> pd.DataFrame | None:
        return shown.groups(by, lambda term: self._design.terms(term, shown.frame, "by"))

    def _column(self, shown: Shown, x: Any) -> Any:
        """A column of the frame, or the value of a term."""
        columns = shown.frame.columns
        if not isinstance(x, Hashable):
            raise InputTypeError(f"x is a {type(x).__name__}: give the name of a column, or a term")
        if x in columns:
            return shown.column(x)
        if not isinstance(x, str):
            raise InputError(f"x={x!r} is not a column: there are {', '.join(map(str, columns))}")
        values = list(self._design.terms(x, shown.frame, "x").values())
        if len(values) != 1:
            raise InputError(f"x={x!r} has {len(values)} parts: give one column or term")
        return values[0]


def _evenly(count: int, most: int) -> np.ndarray:
    """Places of all of ``count`` rows, or of ``most`` that are evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def _candidates(lower: float, upper: float, prediction: float, y: np.ndarray) -> np.ndarray:
    """Candidates about the set, and about the responses where it is infinite."""
    reach = np.ptp(y)
    low = lower if np.isfinite(lower) else min(prediction, y.min()) - 0.2 * reach
    high = upper if np.isfinite(upper) else max(prediction, y.max()) + 0.2 * reach
    margin = 0.4 * (high - low) or 1.0
    return np.unique(np.append(np.linspace(low - margin, high + margin, 199), [low, high]))
