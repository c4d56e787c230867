"""Results of several responses with one design: joint conformal boxes (theory, section 8).

Each response is an ordinary fit, kept in ``components``; only the rank of the largest score joins them.
`stabconf.fit` makes these results where the left side of the formula has several terms.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ..checks import is_count
from ..data.design import Design
from ..data.frames import numbers
from ..data.units import ColumnUnits
from ..errors import InputError, InputTypeError
from ..sets import SEVERAL_METHODS, Intervals, SeveralFits, box_conformity, score_unit
from ..show.plots.row_plots import draw_pairs
from ..show.report import Background, Content, collect_joint
from ..show.shown import Shown, WidthReport, width_report
from ..show.summary import Summary, summarise_several
from .asking import Asked, PValues, ask_intervals, ask_own_p, ask_p_values
from .base import BaseResults
from .figures import Axes
from .options import Bound, Groups, Level, New, Numbers, Options, PerRow, shows_options
from .regression import EachResults, ModelSpec, Results
from .showing import evenly
from .tables import Tables

_BOXES = 6  # that a figure shows, unless told
_OPTIONS = {"groups", "weights", "transductive", "unseen"}
_OPTIONS |= {option for method in SEVERAL_METHODS.values() for option in method.options}


class SeveralResults(EachResults, Tables):
    """Fits of several responses and their joint conformal intervals; made by `stabconf.fit`.

    Tables have a column per response; `width_report` has a row per response and one, "jointly", for the
    boxes. What belongs to one response alone, its figures say, is asked of ``components[name]``.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import statecrime
    >>> data = statecrime.load_pandas().data
    >>> res = stabconf.fit("violent + murder ~ poverty + urban", data.iloc[:40])
    >>> res.params.loc["poverty"].round(2).to_dict(), list(res.components)
    ({'violent': 29.35, 'murder': 0.54}, ['violent', 'murder'])
    >>> res.predict({"poverty": [12.0], "urban": [60.0]}).round(1)
       violent  murder
    0    320.3     3.3
    >>> res.p_values(data.iloc[[40, 45]]).round(3).tolist()
    [0.268, 0.976]
    >>> res.conformity(data.iloc[[40]], z=[(300.0, 4.0), (300.0, 9.0)])["p"].round(3).tolist()
    [0.366, 0.22]
    >>> res.tau(data.iloc[[40, 45]])["murder"].shape
    (2, 41)
    >>> res.plot_pairs(alpha=0.2, boxes=5).get_xlabel()
    'violent'
    """

    _methods = SEVERAL_METHODS

    def __init__(self, model: ModelSpec, design: Design, columns: ColumnUnits) -> None:
        super().__init__(model, design, columns)
        right = model.formula.split("~", 1)[1].strip()
        self._each = {}
        for one in design.each():
            name = one.response
            alone = replace(model, formula=f"{name} ~ {right}", endog_names=name, responses=())
            self._each[name] = Results(alone, one, columns)

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(Results, name):
            raise AttributeError(
                f"{name} is of one response: use results.components[{self.model.responses[0]!r}].{name}"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def components(self) -> dict[str, Results]:
        """The ordinary `Results` of each response, by name; their intervals are for that one alone."""
        return self._each

    @property
    def scale(self) -> pd.Series:
        """Residual scales, as `Results.scale`: the units in which residuals of the responses are
        compared, unless ``standardize=False``, where they are taken as they are."""
        return pd.Series({name: fit.scale for name, fit in self._each.items()}, name="scale")

    @property
    def resid(self) -> pd.DataFrame:
        """Responses less fitted values."""
        return pd.DataFrame({name: fit.resid for name, fit in self._each.items()})

    def predict(self, exog: New = None) -> pd.DataFrame:  # type: ignore[override]
        """Predictions of the training fits, a column per response; at the training rows by default."""
        X, index = self._new_rows(exog)
        return pd.DataFrame(self._predictions(X), index, list(self._each))

    @shows_options(BaseResults.conf_int_conformal, _OPTIONS)
    def conf_int_conformal(  # type: ignore[override]
        self, exog: New = None, alpha: Numbers = None, method: str | None = None, **options: Any
    ) -> pd.DataFrame:
        """Conformal boxes: intervals that hold the responses of a new row all at once.

        The score of a row is the largest of its residuals in units of their scales. The box has an interval
        per response, and with probability 1 - alpha every one of them holds its response.

        Parameters
        ----------
        method : {"auto", "exact", "stable", "split", "cross", "cv+", "jackknife+"}
            "exact" is the smallest box around the full conformal set, for LAD and quantile loss. "stable"
            encloses it from one fit per response, for every loss. "auto" is exact where the loss allows it,
            else stable; split with ``conditional``. Methods that hold rows out learn the scales from the
            rows that they fit.
        exog, alpha, **options
            As in `Results.conf_int_conformal`; ``tol`` is of "exact", ``conditional`` of "split". Options
            of one response alone (``side``, ``score``, ``scale``, ``units``, ...) are refused.

        Returns
        -------
        DataFrame
            ``ends["y1"]`` is the frame of a plain fit, and with several alphas ``ends[0.1]["y1"]``; in
            ``attrs`` ``tol``, ``loose``, ``pieces``, ``empty`` and ``stability_share`` are by response.

        Examples
        --------
        >>> import stabconf
        >>> from statsmodels.datasets import statecrime
        >>> res = stabconf.fit("violent + murder ~ poverty + urban", statecrime.load_pandas().data)
        >>> ends = res.conf_int_conformal({"poverty": [12.0], "urban": [60.0]}, alpha=0.1)
        >>> ends["murder"].round(1), ends.attrs["guarantee"][:60]
        (   lower  upper
        0   -2.1    8.6, 'covers all 2 responses at once with probability at least 0.9')
        """
        for name in [name for name in options if name not in (*_OPTIONS, "centre")]:
            raise InputTypeError(
                f"option {name!r} is not for several responses, which share {', '.join(sorted(_OPTIONS))}: "
                f"drop it, or use results.components[{self.model.responses[0]!r}].conf_int_conformal for "
                "that one alone"
            )
        method = method or self.default_method
        return ask_intervals(self, exog, self._level(alpha), method, "two-sided", options)

    def conformity(
        self, exog: New, z: Any, *, groups: Groups = None, weights: PerRow = None
    ) -> pd.DataFrame:
        """Exact p-values ``p`` of candidate responses, by row and candidate.

        ``z``, a frame or an array (g, q), has a column per response, in their order or by name; one
        candidate may be a sequence of q numbers. A candidate is in the joint conformal set if
        ``p > alpha``; the box of the exact method is the smallest around it.
        """
        candidates = self._candidates(z)
        places = np.arange(len(candidates))
        values = self._p_of(candidates)
        out = ask_p_values(self, exog, places, ("p",), values, groups=groups, weights=weights)
        rows = out.index.get_level_values(0)
        labels = [rows, *np.tile(candidates, (len(rows) // len(candidates), 1)).T]
        out.index = pd.MultiIndex.from_arrays(labels, names=[rows.name, *self.model.responses])
        return out

    def p_values(self, new: New, *, groups: Groups = None, weights: PerRow = None) -> pd.Series:
        """Exact p-values of new rows, each at its own responses, all of them together.

        As `Results.p_values`: a row's responses are in the joint set at alpha if and only if p is larger.
        """
        known = [y for y in (design.responses(new) for design in self._designs) if y is not None]
        if len(known) < len(self._each):
            raise InputError(f"new lacks columns of the responses {self.model.endog_names!r}: add them")
        responses = np.column_stack(known)
        places = np.where(np.isnan(responses).any(axis=1), np.nan, np.arange(len(responses)))
        p = ask_own_p(self, new, places, self._p_of(responses), groups=groups, weights=weights)
        return pd.Series(p, index=self._new_rows(new)[1], name="p")

    def tau(self, exog: New = None, bound: Bound = None) -> pd.DataFrame:
        """Stability bounds, as `Results.tau`, under a column level for the response."""
        made = {name: fit.tau(exog, bound) for name, fit in self._each.items()}
        return pd.concat(made, axis=1, names=["response", None])

    def summary(self, alpha: Level = None) -> Summary:  # type: ignore[override]
        """Summary tables: the fits, the coefficients and what the joint intervals promise."""
        rows, level, where = self._summary_rows(alpha)
        return summarise_several(self, self._intervals(Asked(rows, [level])), where)

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
        pair : tuple of str, optional
            Names of two responses; by default the first two.
        boxes : int
            Rows whose box is drawn, evenly spaced along the prediction of the first response (default 6);
            a line joins its prediction and its response. Other responses are faint points.
        new, alpha, ax, **options
            As in `Results.plot_intervals`.
        """
        names = list(self._each)
        pair = (names[0], names[1]) if pair is None else pair
        if isinstance(pair, str) or len(pair) != 2 or len(set(pair) & set(names)) != 2:
            raise InputError(f"pair={pair!r} is not allowed: give two of {', '.join(map(repr, names))}")
        if not is_count(boxes):
            raise InputError(f"boxes={boxes!r} is not allowed: give a whole number, 1 or larger")
        shown = dict(zip(names, self._shown(new, alpha, None, options), strict=True))
        one, two = shown[pair[0]], shown[pair[1]]
        return draw_pairs((one, two), _drawn(one, boxes), ax)

    # What is shown --------------------------------------------------------------------------------

    def _widths(self, shown: list[Shown], groups: pd.DataFrame | None) -> WidthReport:
        """Widths of each response, and one line, "jointly", for the boxes: the range expected is that of
        their coverage."""
        first = shown[0]
        lines = [each.report(groups) for each in shown]
        known = None if first.y is None or first.training else np.min([each.hits for each in shown], axis=0)
        widths = np.max([each.widths for each in shown], axis=0)
        widths = np.where(np.isfinite(widths), 0.0, widths)  # boxes have no width of their own
        joint = width_report(widths, known, groups, first.attrs, first.ranks)
        joint[["mean", "min", "q25", "median", "q75", "max"]] = np.nan
        for each in lines if known is not None else ():
            each[["expected_lower", "expected_upper"]] = np.nan
        keys = [*self._each, "jointly"]
        out = pd.concat([*lines, joint], keys=keys, names=["response", *joint.index.names])
        report = WidthReport(out if groups is not None else out.droplevel(1))
        report.attrs = {**first.attrs, "response": " and ".join(self._each)}
        return report

    def _content(
        self, shown: list[Shown], groups: pd.DataFrame | None, about: Background, new: New, options: Options
    ) -> Content:
        widths = [self._widths(shown, by) for by in ([None] if groups is None else [None, groups])]
        return collect_joint(shown, widths, _drawn(shown[0], _BOXES), summarise_several(self), about)

    # Parts -----------------------------------------------------------------------------------------

    @property
    def _designs(self) -> list[Design]:
        return [fit._design for fit in self._each.values()]

    @cached_property
    def _fits(self) -> SeveralFits:
        each, learned = list(self._each.values()), self.model.standardize
        units = [score_unit(fit.scale, fit._design.y) if learned else 1.0 for fit in each]
        return SeveralFits([fit._fits for fit in each], units, learned)

    def _p_of(self, candidates: np.ndarray) -> PValues:
        """p-values of one row at some of the candidates (g, q), given by their places."""
        fits = self._fits
        return lambda row, places, peers: box_conformity(fits, row, candidates[places.astype(int)], peers)

    def _intervals(self, asked: Asked) -> list[Intervals]:
        """One record per level and response, level by level, with a guarantee that says what it is of."""
        method = asked.method
        if method == "auto":
            steps = self.model.loss.kind == "step" and "bound" not in asked.options
            method = "split" if "conditional" in asked.options else "exact" if steps else "stable"
        if method not in SEVERAL_METHODS:
            raise InputError(
                f"method={method!r} is not for several responses: give 'auto' or one of "
                f"{', '.join(SEVERAL_METHODS)}"
            )
        joint = f"covers all {len(self._each)} responses at once"
        made = super()._intervals(replace(asked, method=method))
        return [replace(one, guarantee=one.guarantee.replace("covers", joint, 1)) for one in made]

    def _candidates(self, z: Any) -> np.ndarray:
        """Candidate responses (g, q)."""
        names = list(self.model.responses)
        if isinstance(z, pd.DataFrame):
            lacking = [name for name in names if name not in z.columns]
            if lacking:
                raise InputError(f"z lacks the responses {', '.join(lacking)}: give a column for each")
            z = z[names]
        values = np.atleast_2d(numbers(z, "the values of z"))
        if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
            raise InputError(
                f"z has shape {np.shape(z)}: give candidates with {len(names)} columns, one per response "
                f"({', '.join(names)})"
            )
        if not np.all(np.isfinite(values)):
            raise InputError("z has values that are not finite: give finite candidate responses")
        return values


def _drawn(shown: Shown, boxes: int) -> np.ndarray:
    """Places of rows whose box is drawn, evenly spaced along the prediction."""
    known = np.flatnonzero(~np.isnan(shown.lower))
    order = known[np.argsort(shown.mean[known], kind="stable")]
    if not len(order):
        raise InputError("new has no complete row: give rows with all columns of the formula")
    return order[evenly(len(order), boxes)]
