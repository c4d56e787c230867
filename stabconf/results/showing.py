"""From results to the records that tables and figures draw from: one call of `conf_int_conformal`.

`tables`, `figures` and `study` call these; `show` then sees a record of numbers and labels, not the
results. The path of penalties that `plot_stability` draws refits, with one call each.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..checks import check_numbers, check_one_alpha
from ..data.design import Design
from ..data.frames import by_label, collected, numbers
from ..data.groups import as_ranking
from ..data.response_units import as_units
from ..errors import AssumptionError, InputError, quietly
from ..sets import progress_bar
from ..show.coverage import Basis, Leverages, Ranks
from ..show.shown import Shown
from .labels import PER_LEVEL
from .options import Level, New, Options, Units

if TYPE_CHECKING:
    from .base import BaseResults

_WAYS: dict[str, dict[str, Any]] = {
    "exact": {"method": "exact"},
    "stable": {"method": "stable"},
    "ball": {"method": "stable", "bound": "ball"},
}


def shown_of(results: "BaseResults", new: New, alpha: Level, response: Any, options: Options) -> Shown:
    """`Shown` of one level, by default that of the results, and of one response; ``options`` are those of
    ``conf_int_conformal``."""
    return shown_of_levels(results, new, [check_one_alpha(results._level(alpha))], response, options)[0]


def shown_of_levels(
    results: "BaseResults", new: New, levels: list[float], response: Any, options: Options
) -> list[Shown]:
    """A list of `Shown`, one per level and response, level by level, from one call for all of them."""
    new, options = collected(new), {name: value for name, value in options.items() if name != "to"}
    if response is not None and len(results._designs) > 1:
        options["response"] = response  # is refused there
    ends = results.conf_int_conformal(new, alpha=levels, centre=True, **options)
    frame = results._design.frame_of(new)
    known = [responses_of(one, new, frame, response, options.get("units")) for one in results._designs]
    made = []
    for place, alpha in enumerate(levels):
        attrs = {**ends.attrs, "alpha": alpha}
        for name in PER_LEVEL & set(attrs):
            attrs[name] = ends.attrs[name][place]
        for design, y in zip(results._designs, known, strict=True):
            one = ends[alpha]
            if len(known) > 1:
                one, attrs = one[design.response], {**attrs, "response": design.response}
            mean, lower, upper = (one[name].to_numpy(dtype=float) for name in ("centre", "lower", "upper"))
            shown = Shown(frame, mean, lower, upper, y, attrs, new is None)
            made.append(replace(shown, ranks=ranks_of(design, new, options, shown)))
    return made


def ranks_of(design: Design, new: New, options: Options, shown: Shown) -> Basis:
    """What the coverage of the rows rests on; None without responses to judge, with weights, or where rows
    come in clusters, which vary more than independent rows."""
    attrs, y = shown.attrs, shown.y
    if y is None or options.get("weights") is not None or attrs["unit"] == "clusters":
        return None
    if options.get("conditional") is not None:
        trained, rows = design.along(options["conditional"], new)
        _, size, right = np.linalg.svd(trained, full_matrices=False)
        kept = size > 1e-10 * size[0]
        share = len(trained) / attrs["n"]  # where only some of the training rows have scores
        units = right[kept].T / size[kept] * np.sqrt(share)
        return Leverages(rows @ units, np.isinf(shown.upper - shown.lower), attrs["alpha"])
    if "groups" not in attrs:
        return Ranks(np.zeros(len(y), dtype=int), [attrs["k"]], [attrs["n"]])
    found = as_ranking(options["groups"], None, design, new, len(design.y)).groups
    assert found is not None
    place = np.full(len(y), -1)
    for at, label in enumerate(attrs["groups"]):
        place[found.new == found.labels.index(label)] = at
    each = attrs["groups"].values()
    return Ranks(place, [group["k"] for group in each], [group["n"] for group in each])


def responses_of(
    design: Design, new: New, frame: pd.DataFrame, response: Any, units: Units = None
) -> np.ndarray | None:
    """Responses of the rows (m,) in these units, or None where they are not known."""
    if response is None:
        known = design.y if new is None else design.responses(new)
        return as_units(units, design).observed(frame, known)
    if isinstance(response, str):
        if response not in frame.columns:
            raise InputError(f"response={response!r} is not a column of new: give one, or an array")
        response = frame[response]
    values = numbers(by_label(response, frame.index, "response"), "the values of response")
    if values.shape != (len(frame),):
        raise InputError(f"response has shape {values.shape}: give a number for each of {len(frame)} rows")
    return values


def known_responses(design: Design, new: New, response: Any, refusal: str = "") -> np.ndarray:
    """Responses of the rows (m,), which must be known; with a ``refusal``, which says why, those of the
    training rows are refused."""
    if new is None and refusal:
        raise InputError(f"new=None: {refusal}")
    y = responses_of(design, new, design.frame_of(new), response)
    if y is None:
        raise InputError(
            f"new lacks the columns of the response {design.response!r}: add them, or give response="
        )
    return y


def evenly(count: int, most: int) -> np.ndarray:
    """Places of all of ``count`` rows, or of ``most`` that are evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


# The path of penalties -------------------------------------------------------------------------------


def as_penalties(penalties: Any, default: Iterable[float]) -> list[float]:
    """Penalties in increasing order, each once."""
    if penalties is None:
        return sorted(set(default))
    fix = "give numbers, 0 or larger, such as [0.001, 0.01, 0.1, 1]"
    values, _ = check_numbers(penalties, "penalties", lambda one: 0 <= one < np.inf, fix)
    return sorted(set(values))


def stability_path(
    refit: Callable[[float], "BaseResults"], new: New, penalties: list[float], alpha: float, progress: Any
) -> pd.DataFrame:
    """Mean widths by method, and the ``share`` of the stable width that is owed to stability, one row per
    penalty that is refitted with; NaN where a method refuses."""
    lines = []
    with progress_bar(len(penalties), "penalty", "refitting", progress) as bar:
        for penalty in penalties:
            fitted = refit(penalty)
            lines.append({"penalty": penalty})
            for name, options in _WAYS.items():
                with quietly(), suppress(AssumptionError):  # the path itself shows what warnings say
                    ends = fitted.conf_int_conformal(new, alpha=alpha, **options)
                    lines[-1][name] = mean_finite(ends["upper"] - ends["lower"])
                    if name == "stable":
                        lines[-1]["share"] = ends.attrs["stability_share"]
            bar.update()
    return pd.DataFrame(lines, columns=["penalty", *_WAYS, "share"])


def mean_finite(widths: pd.Series | np.ndarray) -> float:
    """Mean of the finite widths; infinity where there are none."""
    finite = np.asarray(widths)[np.isfinite(widths)]
    return float(np.mean(finite)) if len(finite) else np.inf
