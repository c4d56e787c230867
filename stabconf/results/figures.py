"""Every figure that results can draw, beside the tables and reports of `tables`."""

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..checks import check_alpha, check_candidates, check_one_alpha
from ..data.bins import column_or_term, crossed
from ..data.frames import check_duplicates, numbers
from ..data.response_units import as_units
from ..errors import AssumptionError, InputError, InputTypeError
from ..show.coverage import coverage_table
from ..show.plots.curve_plots import draw_conformity, draw_coverage, draw_coverage_by, draw_stability
from ..show.plots.row_plots import draw_intervals
from ..show.plots.spread_plots import draw_residuals, draw_widths
from ..show.shown import Shown
from .options import Bound, Level, New, Numbers, PerRow, Side, Units
from .showing import as_penalties, evenly, known_responses, shown_of, shown_of_levels, stability_path
from .tables import By, ObservedResults

Axes: TypeAlias = Any  # matplotlib's, which only figures import

_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_PATH_ROWS = 100


class Figures(ObservedResults):
    """The figures of results; a part of every results class, which has ``conformity``."""

    _full_sets = "exact"  # the method whose sets are those of the p-values
    conformity: Callable[..., pd.DataFrame]

    def _repr_html_(self) -> str:
        return self._fit_summary().as_html()

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
            Where it is drawn, here and in all other figures; a new figure by default.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> res = stabconf.fit("foodexp ~ income", engel.load_pandas().data, loss="huber")
        >>> res.plot_intervals(x="income", alpha=0.1).get_ylabel()
        'foodexp'
        """
        shown = shown_of(self, new, alpha, response, options)
        return draw_intervals(shown, None if x is None else self._column(shown.frame, x), x, ax)

    def plot_residuals(
        self, new: New = None, x: str | None = None, response: Any = None, ax: Axes = None
    ) -> Axes:
        """Responses less predictions, over the predictions or over ``x``, a column or a term.

        Bars are medians and quartiles of parts of the rows: medians that leave 0 show a shape that the
        formula lacks, quartiles that widen a spread that `stabconf.fit_quantiles` can follow.
        """
        frame = self._design.frame_of(new)
        y = known_responses(self._design, new, response)
        mean = self._prediction_columns(new)["mean"].to_numpy(dtype=float)
        place = mean if x is None else numbers(self._column(frame, x), f"x={x!r}")
        name = f"prediction of {self._design.response}" if x is None else x
        return draw_residuals(place, y - mean, name, self._design.response, ax)

    def plot_conformity(
        self,
        new: New,
        alpha: Level = None,
        z: Numbers = None,
        side: Side = "two-sided",
        bound: Bound = None,
        ax: Axes = None,
        z_hat: PerRow = None,
        units: Units = None,
    ) -> Axes:
        """The conformity function of one row: p, between p_lo and p_up, with the set marked.

        ``new`` is one row. ``z`` are the candidates, by default 201 of them about the set, or 41 for an
        estimator, which is refitted at each. All else is as in `conformity`; ``z_hat`` are marked.
        """
        shown = shown_of(self, new, alpha, None, {"method": self._full_sets, "side": side})
        if len(shown.frame) != 1 or np.isnan(shown.lower).any():
            raise InputError(
                f"new has {len(shown.frame)} rows, {int(np.isnan(shown.lower).sum())} of them with missing "
                "values: give one complete row, new.iloc[[0]] say"
            )
        own = as_units(units, self._design)
        lower, upper = shown.lower[0], shown.upper[0]
        if z is None:
            count = 201 if self._full_sets == "exact" else 41
            candidates = _candidates(lower, upper, shown.mean[0], self._design.y, count)
        else:
            candidates = np.sort(check_candidates(z, self._design.y)[0])
            candidates = own.candidates(candidates, self._design.response)
        given = {name: value for name, value in (("bound", bound), ("z_hat", z_hat)) if value is not None}
        p = self.conformity(new, candidates, side, **given)
        # Without bounds the curve itself stands for them.
        exact, low, high = (p.get(name, p["p"]).to_numpy() for name in ("p", "p_lo", "p_up"))
        pieces = next(iter(shown.attrs["pieces"].values()), [(lower, upper)])
        (pinned,) = p.attrs.get("z_hat", [()])
        back: Any = own.back
        labels = shown.attrs["alpha"], float(back(shown.mean[0])), own.response
        return draw_conformity(back(candidates), exact, low, high, back(pieces), *labels, ax, back(pinned))

    def plot_widths(
        self, new: New = None, by: By = None, alpha: Level = None, ax: Axes = None, **options: Any
    ) -> Axes:
        """The distribution of the widths: a histogram, or by group a box (5, 25, 50, 75, 95 %) and points.

        Arguments are those of `width_report`; several groupings are crossed.
        """
        labels, name = crossed(self._groups(new, by))
        return draw_widths(shown_of(self, new, alpha, None, options), labels, name, ax)

    def plot_stability(
        self,
        new: New = None,
        penalties: Numbers = None,
        alpha: Level = None,
        ax: Axes = None,
        progress: bool | None = False,
    ) -> Axes:
        """Mean width of exact, stable and ball intervals over penalties; the fit's own is marked.

        Refits with each of the ``penalties``, by default from 0.001 to 10, for ``new`` rows, by default up
        to 100 of the training design points. The right axis has the share of the stable width that is owed
        to stability. To choose a penalty without harm to the guarantee use `stabconf.select_penalty`.
        """
        if not hasattr(self, "_with_penalty"):
            raise AssumptionError(
                f"plot_stability refits with other penalties, and {type(self).__name__} has none: fit with "
                "a loss and a penalty"
            )
        self._require_refit("plot_stability")
        level = check_one_alpha(self._level(alpha))
        chosen = float(self.model.penalty.strength)  # type: ignore[union-attr]
        strengths = as_penalties(penalties, [*_PENALTIES, chosen])
        if new is None:
            new = self._design.frame_of(None).iloc[evenly(self.nobs, _PATH_ROWS)]
        path = stability_path(self._with_penalty, new, strengths, level, progress)
        return draw_stability(path, chosen, level, self._design.response, ax)

    def plot_coverage(
        self,
        new: New,
        alphas: Numbers = None,
        response: Any = None,
        ax: Axes = None,
        by: By = None,
        alpha: Level = None,
        **options: Any,
    ) -> Axes:
        """Coverage of known responses against what was asked for: over levels, or by group.

        The band, or with ``by`` the bar, is where the coverage falls in 95 % of samples (of the training
        rows and as many new ones) if intervals cover as promised; with ``weights`` there is none. With
        ``by`` and ``conditional`` the plain intervals are drawn beside.

        Parameters
        ----------
        alphas : sequence of float, optional
            Without ``by``: by default 0.05, 0.1, 0.2, ..., 0.8, and ``default_alpha``.
        by, alpha
            Groups, crossed where there are several, and the level at which their coverage is drawn.
        new, response, **options
            As in `width_report`, for rows that the fit has not seen.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import engel
        >>> data = engel.load_pandas().data.sample(frac=1.0, random_state=0)
        >>> res = stabconf.fit("foodexp ~ income", data.iloc[:150])
        >>> res.plot_coverage(data.iloc[150:]).get_xlabel()
        'coverage asked for, 1 - alpha'
        """
        unseen = "coverage is of rows that the fit has not seen; give them as new"
        known_responses(self._design, new, response, unseen)
        if by is None:
            if alpha is not None:
                raise InputError(
                    f"alpha={alpha!r}: the figure is over levels; give them as alphas, or give by="
                )
            own, _ = check_alpha(self.default_alpha)
            wanted = sorted({*_LEVELS, *own}) if alphas is None else sorted(set(check_alpha(alphas)[0]))
            levels = shown_of_levels(self, new, wanted, response, options)
            _check_judged(levels[0])
            return draw_coverage(coverage_table(levels), ax)
        if alphas is not None:
            raise InputError("alphas= is for the figure over levels: with by= give one alpha")
        labels, name = crossed(self._groups(new, by))
        kinds = {"coverage": options}
        if options.get("conditional") is not None:
            kinds = {"plain": {**options, "conditional": None}, f"along {options['conditional']}": options}
        groups = pd.DataFrame({name: labels})
        reports: dict[str, pd.DataFrame] = {}
        for kind, each in kinds.items():
            shown = shown_of(self, new, alpha, response, each)
            if not reports:
                _check_judged(shown)
            reports[kind] = shown.report(groups)
        return draw_coverage_by(reports, shown.attrs, ax)

    def _column(self, frame: pd.DataFrame, x: Any) -> Any:
        """A column of the frame, or the value of a term."""
        if not isinstance(x, Hashable):
            raise InputTypeError(f"x is a {type(x).__name__}: give the name of a column, or a term")
        check_duplicates(frame, [x], "new")
        found = column_or_term(x, frame, lambda term: self._design.terms(term, frame, "x"), "x")
        values = list(found.values())
        if len(values) != 1:
            raise InputError(f"x={x!r} has {len(values)} parts: give one column or term")
        return values[0]


def _check_judged(shown: Shown) -> None:
    """Refuse rows whose coverage cannot be told."""
    if np.isnan(shown.hits).all():
        raise InputError(
            f"none of the {len(shown.hits)} new rows has an interval and a response: give complete rows"
        )


def _candidates(lower: float, upper: float, prediction: float, y: np.ndarray, count: int) -> np.ndarray:
    """Candidates about the set, and about the responses where it is infinite."""
    reach = np.ptp(y)
    low = lower if np.isfinite(lower) else min(prediction, y.min()) - 0.2 * reach
    high = upper if np.isfinite(upper) else max(prediction, y.max()) + 0.2 * reach
    margin = 0.4 * (high - low) or 1.0
    return np.unique(np.append(np.linspace(low - margin, high + margin, count - 2), [low, high]))
