"""Summary, width report, report and figure of several responses; `SeveralResults` builds on this.

Each response is shown by the record of a plain fit, with the ends of the joint box (theory, section 8).
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..checks import check_one_alpha, is_count
from ..errors import InputError, quietly
from ..show.plots import draw_pairs
from ..show.report import Background, check_path, collect_joint, write_report
from ..show.shown import Shown, WidthReport, width_report
from ..show.summary import Summary, summarise_several
from .base import BaseResults
from .figures import Axes, By, evenly
from .options import Level, New, Options
from .showing import ranks_of, responses_of
from .spec import SeveralSpec

__all__ = ["SeveralTables"]

_SUMMARY_ROWS = 20
_BOXES = 6  # that a figure shows, unless told
_JOINT = "jointly"


class SeveralTables(BaseResults):
    """Tables and the figure of several responses.

    A subclass has ``_designs``, one per response, and ``_method(method, options)``, the method meant.
    """

    model: SeveralSpec

    def _method(self, method: str, options: Options) -> str:
        raise NotImplementedError

    def summary(self, alpha: Level = None) -> Summary:
        """Summary tables: the fits, the coefficients and what the joint intervals promise.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals, whose widths are those at 20 of the training design points.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Text, ``as_html()``, ``as_latex()``, ``as_csv()``.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> print(res.summary(alpha=0.2).tables[4])
        =====================================================
                   residual scale mean width due to stability
        -----------------------------------------------------
        violent              98.5      429.8              0 %
        murder              1.719      7.554              0 %
        =====================================================
        """
        which = evenly(self.nobs, _SUMMARY_ROWS)
        some = "" if len(which) == self.nobs else f"{_SUMMARY_ROWS} of "
        level = check_one_alpha(self._level(alpha))
        method = self._method("auto", {})
        made = self._intervals(self._rows(None)[0].take(which), [level], method, "two-sided", {})
        return summarise_several(self, self._design, made, f"{some}the training points")

    def width_report(
        self, new: New = None, by: By = None, alpha: Level = None, **options: Any
    ) -> WidthReport:
        """Widths by response, and coverage where responses are known: of each, and of all at once.

        Parameters
        ----------
        new, by, alpha, **options
            As in `Results.width_report`; responses are read off the columns of ``new``.

        Returns
        -------
        WidthReport
            One row per response and one, ``"jointly"``, for the boxes, (times the groups of ``by``). The
            range expected is that of the joint coverage; each response is covered more often.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> data = statecrime.load_pandas().data
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", data.iloc[::2])
        >>> report = res.width_report(data.iloc[1::2], alpha=0.2)
        >>> report[["mean", "coverage"]].round(2)  # doctest: +NORMALIZE_WHITESPACE
                    mean  coverage
        response
        violent   581.47      0.92
        murder      7.90      1.00
        jointly      NaN      0.92
        """
        return self._widths(self._shown(new, alpha, options), by)

    def _widths(self, shown: list[Shown], by: By) -> WidthReport:
        """The `WidthReport` of what is shown of each response."""
        first = shown[0]
        groups = first.groups(by, lambda term: self._design.terms(term, first.frame, "by"))
        lines = [each.report(groups) for each in shown]
        known = None if first.y is None or first.training else np.min([each.hits for each in shown], axis=0)
        widths = np.max([each.widths for each in shown], axis=0)
        widths = np.where(np.isfinite(widths), 0.0, widths)  # boxes have no width of their own
        joint = width_report(widths, known, groups, first.attrs, first.ranks)
        joint[["mean", "min", "q25", "median", "q75", "max"]] = np.nan
        for each in lines if known is not None else ():
            each[["expected_lower", "expected_upper"]] = np.nan
        keys = [*self.model.responses, _JOINT]
        out = pd.concat([*lines, joint], keys=keys, names=["response", *joint.index.names])
        report = WidthReport(out if by is not None else out.droplevel(1))
        report.attrs = {**first.attrs, "response": " and ".join(self.model.responses)}
        return report

    def report(
        self,
        path: str | os.PathLike[str],
        new: New = None,
        alpha: Level = None,
        by: By = None,
        **options: Any,
    ) -> Path:
        """Write a report of the joint intervals, as `Results.report` does for one response.

        Examples
        --------
        >>> import os, tempfile
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> data = statecrime.load_pandas().data
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", data.iloc[::2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     res.report(os.path.join(folder, "crime.html"), data.iloc[1::2], alpha=0.2).name
        'crime.html'
        """
        target = check_path(path)
        shown = self._shown(new, alpha, options)
        with quietly():  # said above, by the intervals themselves
            summary = self.summary(alpha)
        rows = None if new is None else self._rows(new)[0].X
        about = Background.of(self.model.formula, self._design, self._rows(None)[0].X, rows)
        boxes = _drawn(shown[0], _BOXES)
        return write_report(target, collect_joint(shown, self._widths(shown, by), boxes, summary, about))

    def plot_pairs(
        self,
        new: New = None,
        pair: tuple[str, str] | None = None,
        alpha: Level = None,
        boxes: int = _BOXES,
        ax: Axes = None,
        **options: Any,
    ) -> Axes:
        """Two responses against each other: boxes with their predictions, over the known responses.

        Parameters
        ----------
        new, alpha, **options
            As in `width_report`.
        pair : tuple of str, optional
            Names of two responses; by default the first two.
        boxes : int
            Rows whose box is drawn, evenly spaced along the prediction of the first response (default 6);
            a line joins its prediction and its response. Other responses are faint points.
        ax : matplotlib Axes, optional
            Where it is drawn; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> ax = res.plot_pairs(alpha=0.2, boxes=5)
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('violent', 'murder')
        """
        names = self.model.responses
        pair = (names[0], names[1]) if pair is None else pair
        if isinstance(pair, str) or len(pair) != 2 or len(set(pair) & set(names)) != 2:
            raise InputError(f"pair={pair!r} is not allowed: give two of {', '.join(map(repr, names))}")
        if not is_count(boxes):
            raise InputError(f"boxes={boxes!r} is not allowed: give a whole number, 1 or larger")
        shown = dict(zip(names, self._shown(new, alpha, options), strict=True))
        one, two = shown[pair[0]], shown[pair[1]]
        return draw_pairs((one, two), _drawn(one, boxes), ax)

    def _shown(self, new: New, alpha: Level, options: Options) -> list[Shown]:
        """What tables and figures show of each response; ranks are those of the boxes."""
        level = check_one_alpha(self._level(alpha))
        ends = self.conf_int_conformal(new, alpha=level, centre=True, **options)
        frame = self._design.frame_of(new)
        made = []
        for design in self._designs:
            name = design.response
            mean, lower, upper = (ends[name][part].to_numpy() for part in ("centre", "lower", "upper"))
            y = responses_of(design, new, frame, None)
            attrs = {**ends.attrs, "response": name}
            made.append(Shown(frame, mean, lower, upper, y, attrs, new is None))
        ranks = ranks_of(self._design, new, options, made[0])
        return [replace(one, ranks=ranks) for one in made]


def _drawn(shown: Shown, boxes: int) -> np.ndarray:
    """Places of rows whose box is drawn, evenly spaced along the prediction."""
    known = np.flatnonzero(~np.isnan(shown.lower))
    order = known[np.argsort(shown.mean[known], kind="stable")]
    if not len(order):
        raise InputError("new has no complete row: give rows with all columns of the formula")
    return order[evenly(len(order), boxes)]
