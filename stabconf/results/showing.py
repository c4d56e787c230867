"""From results to the record that tables and figures draw from: one call of `conf_int_conformal`."""

from dataclasses import replace

import numpy as np

from ..checks import check_alpha, check_one_alpha
from ..data.frames import by_label
from ..errors import InputError, InputTypeError
from ..show.coverage import Ranks
from ..show.shown import Shown
from .labels import PER_LEVEL

__all__ = ["shown_of", "shown_of_levels"]


def shown_of(results, new, alpha, response, options):
    """`Shown` of one level, by default that of the results; ``options`` are those of
    ``conf_int_conformal``."""
    alpha = check_one_alpha(results._level(alpha))
    (band,) = shown_of_levels(results, new, [alpha], response, options)
    return band


def shown_of_levels(results, new, alphas, response, options):
    """A list of `Shown`, one a level, from one call for all of them."""
    alphas, _ = check_alpha(alphas)
    design = results._design
    ends = results.conf_int_conformal(new, alpha=alphas, **options)
    mean = results._prediction_columns(new)["mean"].to_numpy(dtype=float)
    frame = design.frame_of(new)
    y = _responses(design, new, frame, response)
    first = Shown(frame, mean, mean, mean, y, {}, new is None)
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
