"""Predictions and intervals at some rows, as tables and figures want them: one record, one call."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .advice import check_alpha, check_one_alpha
from .coverage import Ranks
from .errors import InputError, InputTypeError
from .frames import PER_LEVEL
from .grouping import group_labels
from .user_frames import by_label
from .widths import covered, width_report, widths_of

__all__ = ["Bands", "bands_of", "bands_of_levels"]


@dataclass(frozen=True)
class Bands:
    """Intervals of one level at m rows.

    Attributes
    ----------
    frame : DataFrame
        The rows as the user gave them, or the training rows.
    mean, lower, upper : (m,) arrays
        NaN for rows with a missing value.
    y : (m,) array or None
        Responses, where known.
    attrs : dict
        Of the interval frame: response, alpha, side, method, guarantee, ...
    training : bool
        Whether these are the training rows.
    ranks : Ranks or None
        The order statistics that the intervals rest on; None with weights of a shift.
    """

    frame: pd.DataFrame
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    y: np.ndarray | None
    attrs: dict
    training: bool
    ranks: Ranks | None = None

    @property
    def widths(self):
        """Widths (m,); distances of the end from the prediction where one-sided."""
        return widths_of(self.lower, self.upper, self.mean, self.attrs["side"])

    @property
    def hits(self):
        """Whether each interval holds its response (m,); None where responses are not known.

        Training rows have shaped the fit, so that they say nothing about coverage.
        """
        return None if self.y is None or self.training else covered(self.lower, self.upper, self.y)

    def column(self, name):
        """A column (m,) as figures take it, None or NaN where missing; categories keep their order."""
        values = self.frame[name]
        if values.ndim > 1:
            raise InputError(f"new has more than one column {name!r}: rename or drop the duplicates")
        dtype = values.dtype
        if isinstance(dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_localize(None)
        if isinstance(dtype, pd.CategoricalDtype):
            return values.array
        if pd.api.types.is_datetime64_any_dtype(dtype):
            return values.to_numpy()
        if pd.api.types.is_bool_dtype(dtype):
            return pd.Categorical(values.astype(object).map(str, na_action="ignore"))
        if pd.api.types.is_numeric_dtype(dtype):
            return values.to_numpy(dtype=float, na_value=np.nan)
        return values.astype(object).where(values.notna(), None).to_numpy()

    def groups(self, by, terms):
        """Labels of groups (DataFrame), or None."""
        return None if by is None else group_labels(by, self.frame, terms)

    def report(self, groups):
        """The `WidthReport` by these groups."""
        return width_report(self.widths, self.hits, groups, self.attrs, self.ranks)


def bands_of(results, new, alpha, response, options):
    """`Bands` of one level, by default that of the results; ``options`` are those of
    ``conf_int_conformal``."""
    alpha = check_one_alpha(results._level(alpha))
    (band,) = bands_of_levels(results, new, [alpha], response, options)
    return band


def bands_of_levels(results, new, alphas, response, options):
    """A list of `Bands`, one a level, from one call for all of them."""
    alphas, _ = check_alpha(alphas)
    design = results._design
    ends = results.conf_int_conformal(new, alpha=alphas, **options)
    mean = results._prediction_columns(new)["mean"].to_numpy(dtype=float)
    frame = design.frame_of(new)
    y = _responses(design, new, frame, response)
    first = Bands(frame, mean, mean, mean, y, {}, new is None)
    made = []
    for place, alpha in enumerate(alphas):
        attrs = {**ends.attrs, "alpha": alpha}
        for name in PER_LEVEL & set(attrs):
            attrs[name] = ends.attrs[name][place]
        one = ends.xs(alpha, axis=1, level=0)
        sides = {name: one[name].to_numpy(dtype=float) for name in ("lower", "upper")}
        made.append(replace(first, attrs=attrs, ranks=_ranks(results, new, options, attrs, y), **sides))
    return made


def _ranks(results, new, options, attrs, y):
    """The `Ranks` of the rows; None where there are no responses to judge, or weights."""
    if y is None or options.get("weights") is not None:
        return None
    if "groups" not in attrs:
        return Ranks(np.zeros(len(y), dtype=int), [attrs["k"]], [attrs["n"]])
    ranking, _ = results._ranking(new, options["groups"], None, np.ones(len(y), dtype=bool))
    found, place = ranking.groups, np.full(len(y), -1)
    for at, label in enumerate(attrs["groups"]):
        place[found.new == found.labels.index(label)] = at
    return Ranks(place, *([each[name] for each in attrs["groups"].values()] for name in ("k", "n")))


def _responses(design, new, frame, response):
    """Responses of the rows (m,), or None where they are not known."""
    if response is None:
        return design.y if new is None else design.responses(new)
    if isinstance(response, str):
        if response not in frame.columns:
            raise InputError(f"response={response!r} is not a column of new: give one, or an array")
        response = frame[response]
    response = by_label(response, frame.index, "response")
    try:
        values = np.asarray(response, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"response has values that are not numbers ({error}): give numbers") from error
    if values.shape != (len(frame),):
        raise InputError(
            f"response has shape {values.shape}: give one number for each of {len(frame)} rows"
        )
    return values
