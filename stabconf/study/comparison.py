"""Comparing methods over random splits, and the oracle that they are compared with.

The oracle sees the response that it should predict: it is a yardstick, never an interval method.
"""

import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from ..checks import DEFAULT_ALPHA, check_one_alpha, is_count
from ..data.design import build_design
from ..data.formulas import caller_scope
from ..data.frames import by_label
from ..errors import InputError, InputTypeError, quietly
from ..files import alone_in_folder, write_whole
from ..losses import Loss, as_loss
from ..rank import conformal_rank, kth_smallest
from ..results.estimator import EstimatorResults
from ..results.figures import Axes
from ..results.fitting import fit_in_scope
from ..results.regression import ObjectiveResults
from ..sets import ESTIMATOR_METHODS, METHODS, Method, progress_bar
from ..show.plots.spread_plots import draw_comparison

_KEYS = ["method", "penalty", "repeat"]
_MEASURES = ["coverage", "length", "infinite", "time"]


def oracle(
    results: ObjectiveResults | EstimatorResults,
    exog: pd.DataFrame,
    y: Sequence[float] | pd.Series,
    alpha: float | None = None,
) -> pd.DataFrame:
    """Intervals of the fit that has seen the new response: what a conformal set would be at its best.

    ``results`` are those of a loss and a penalty, or of an estimator; ``y`` are the responses of ``exog``.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> res = stabconf.fit("foodexp ~ income", data.iloc[1:])
    >>> oracle(res, data.iloc[:1], data["foodexp"].iloc[:1], alpha=0.1).round(0)
       lower  upper
    0  169.0  475.0
    """
    if not isinstance(results, (ObjectiveResults, EstimatorResults)):
        raise InputTypeError(
            f"results is a {type(results).__name__}: give the results of a loss and a penalty, or of an "
            "estimator"
        )
    results._require_refit("the oracle")
    k = conformal_rank(check_one_alpha(results._level(alpha)), results.nobs)
    rows, index = results._new_rows(exog)
    values = np.asarray(by_label(y, index, "y"), dtype=float)
    if values.shape != (len(rows),):
        raise InputError(f"y has shape {values.shape}: give a response for each of the {len(rows)} rows")
    ends = np.full((len(rows), 2), np.nan)
    fits: Any = results._fits
    for i in np.flatnonzero(~np.isnan(rows).any(axis=1) & np.isfinite(values)):
        (row,), _ = fits.coordinates(rows[i : i + 1])
        (r,), (e,), _ = fits.refitted(row, fits.responses(values[i : i + 1]))
        far = kth_smallest(np.abs(r), k)
        ends[i] = values[i] - fits.scale * (e + far), values[i] - fits.scale * (e - far)
    frame = pd.DataFrame(ends, index=index, columns=["lower", "upper"])
    frame.attrs = {"method": "oracle", "certified": False, "guarantee": "none: it sees the response"}
    return frame


class Comparison(pd.DataFrame):
    """What `compare` measured, one row per method and penalty; ``runs`` has one row per repeat too."""

    _metadata = ["runs"]
    runs: pd.DataFrame

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def plot(self, ax: Axes = None) -> Axes:
        """Box plots of the mean length over the repeats, with coverage and time beside each."""
        return draw_comparison(self, self.runs, ax)


Data: TypeAlias = pd.DataFrame | Mapping[str, Any]
Resume: TypeAlias = str | Path | Comparison | None


def compare(
    formula: str,
    data: Data,
    methods: str | Sequence[str] = ("exact", "stable", "split"),
    penalty: float | Sequence[float] = 0.01,
    alpha: float = DEFAULT_ALPHA,
    repeats: int = 100,
    random_state: int = 0,
    *,
    loss: str | Loss = "lad",
    l1_ratio: float = 0.0,
    estimator: object = None,
    tau: object = None,
    new: int = 5,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    resume: Resume = None,
    progress: bool | None = None,
) -> Comparison:
    """Coverage, length and cost of interval methods over random splits into training and new rows.

    Parameters
    ----------
    formula, data, alpha, loss, l1_ratio, estimator, tau
        As in `stabconf.fit` and `Results.conf_int_conformal`.
    methods : sequence of str
        Names of interval methods, and "oracle". An estimator has no "exact" and "stable".
    penalty : float or sequence of float
        One or several; an estimator has none.
    repeats, new, random_state : int
        Random splits, and new rows of each. A split depends on ``random_state`` and its number alone.
    options : dict, optional
        ``{method: {option: value}}`` for `Results.conf_int_conformal`.
    resume : path or Comparison, optional
        What an earlier call measured is not measured again. A path is also written to after each split.
    progress : bool or None
        Show a progress bar; None shows one in a terminal once the work takes long.

    Returns
    -------
    Comparison
        A frame with ``method``, ``penalty`` (but for an estimator), ``coverage`` and its standard error
        over the splits ``coverage_se``, ``length`` and its standard deviation over the splits
        ``length_sd``, the share of intervals that are ``infinite``, and the ``time`` of a new row's
        interval in fits.

    Examples
    --------
    >>> import stabconf
    >>> from statsmodels.datasets import engel
    >>> data = engel.load_pandas().data
    >>> made = stabconf.compare("foodexp ~ income", data, ["exact", "split"], repeats=4, progress=False)
    >>> list(made["method"]), bool((made["coverage"] > 0.5).all())
    (['exact', 'split'], True)
    """
    given = dict(locals())
    return compare_in_scope(caller_scope(1), **given)


def compare_in_scope(
    scope: Mapping[str, Any], formula: str, data: Data, methods: str | Sequence[str], **asked: Any
) -> Comparison:
    """`compare`, asked the same, with the names that the formula sees besides the columns."""
    asked = {**(compare.__kwdefaults__ or {}), **asked}
    methods = [methods] if isinstance(methods, str) else list(methods)
    options, new, repeats = asked["options"] or {}, asked["new"], asked["repeats"]
    model = {name: asked[name] for name in ("loss", "l1_ratio", "estimator", "tau")}
    _check(methods, asked)
    alpha, seed = check_one_alpha(asked["alpha"]), asked["random_state"]
    penalties: list[Any] = [asked["penalty"]] if np.isscalar(asked["penalty"]) else list(asked["penalty"])
    whole = build_design(formula, data, scope)
    if new > len(whole.y) - 2:
        raise InputError(f"new={new} leaves fewer than 2 of the {len(whole.y)} complete rows for training")
    settings = {
        "formula": formula,
        "loss": model["loss"] if isinstance(model["loss"], str) else model["loss"].describe(),
        "l1_ratio": model["l1_ratio"],
        "estimator": _described(model["estimator"]),
        "tau": _described(model["tau"]),
        "alpha": alpha,
        "new": new,
        "random_state": seed,
        "options": repr(sorted(options.items())),
        "data": zlib.crc32(np.ascontiguousarray(np.column_stack([whole.X, whole.y])).tobytes()),
    }
    runs = _known_runs(asked["resume"], settings)
    frame = whole.frame_of(None)
    fit = partial(fit_in_scope, scope, formula, **model)
    with progress_bar(repeats, "split", "comparing", asked["progress"]) as bar:
        for repeat in range(repeats):
            done = set(runs[_KEYS].itertuples(index=False, name=None))
            wanted = [(m, v) for v in penalties for m in methods if (m, v, repeat) not in done]
            if wanted:
                order = np.random.default_rng([seed, repeat]).permutation(len(frame))
                rows = frame.iloc[order[new:]], frame.iloc[order[:new]]
                found = _measured(*rows, whole.y[order[:new]], wanted, fit, alpha, options)
                lines = pd.DataFrame([{**line, "repeat": repeat, **settings} for line in found])
                runs = _added(runs, lines, asked["resume"], settings)
            bar.update()
    made = _summarised(runs, methods, penalties, repeats)
    if model["estimator"] is not None:
        del made["penalty"]
    return made


def _described(given: object) -> str:
    """An estimator or its tau as the file of a comparison tells it from others."""
    if given is None:
        return "no"
    if isinstance(given, np.ndarray):
        return f"numbers {zlib.crc32(np.ascontiguousarray(given).tobytes())}"
    return getattr(given, "__qualname__", None) or re.sub(r" at 0x\w+", "", repr(given))


def _check(methods: list[str], asked: Mapping[str, Any]) -> None:
    loss = asked["loss"]
    table: Mapping[str, Method] = METHODS if asked["estimator"] is None else ESTIMATOR_METHODS
    for method in methods:
        if method not in table and method not in ("auto", "oracle"):
            known = ", ".join(["auto", "oracle", *table])
            raise InputError(f"methods has {method!r}, which is unknown: give some of {known}")
    for method in set(asked["options"] or {}) - set(methods):
        raise InputError(f"options has {method!r}, which is not among the methods: {', '.join(methods)}")
    for name in ("repeats", "new"):
        if not is_count(asked[name]):
            raise InputError(f"{name}={asked[name]!r} is not allowed: give a whole number, 1 or larger")
    if isinstance(loss, (list, tuple)):
        raise InputTypeError(
            f"loss={loss!r} has several: compare takes one loss at a time; call it for each, and put the "
            "tables together with pd.concat"
        )
    as_loss(loss)


def _known_runs(resume: Resume, settings: dict[str, Any]) -> pd.DataFrame:
    """Runs of an earlier call with the same settings."""
    columns = [*_KEYS, *_MEASURES, *settings]
    if isinstance(resume, Comparison):
        runs = resume.runs
    elif resume is None or not Path(resume).exists():
        return pd.DataFrame(columns=columns)
    else:
        try:
            runs = pd.read_csv(StringIO(Path(resume).read_text(encoding="utf-8")))
        except ValueError:  # no text, or no table
            runs = pd.DataFrame()
    if set(columns) - set(runs.columns):
        raise InputError(f"resume={resume!r} does not hold the runs of a comparison: give another file")
    if not all((runs[name].astype(str) == str(value)).all() for name, value in settings.items()):
        raise InputError(
            f"resume={resume!r} holds runs with other settings ({', '.join(settings)}): give another file"
        )
    return runs.drop_duplicates(_KEYS, ignore_index=True)


def _added(
    runs: pd.DataFrame, lines: pd.DataFrame, resume: Resume, settings: dict[str, Any]
) -> pd.DataFrame:
    """Runs with new lines, and with what others have written to the same file meanwhile, which is kept."""
    if not isinstance(resume, (str, Path)):
        return pd.concat([runs, lines], ignore_index=True) if len(runs) else lines
    with alone_in_folder(resume):
        parts = [part for part in (runs, _known_runs(resume, settings), lines) if len(part)]
        runs = pd.concat(parts, ignore_index=True).drop_duplicates(_KEYS, ignore_index=True)
        write_whole(resume, runs.to_csv(index=False).encode())
    return runs


def _measured(
    training: pd.DataFrame,
    new: pd.DataFrame,
    y: np.ndarray,
    wanted: list[tuple[str, float]],
    fit: Callable[..., ObjectiveResults],
    alpha: float,
    options: Mapping[str, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """What each method and penalty gives on one split, whose new rows have the responses y (m,)."""
    fitted: dict[float, tuple[ObjectiveResults, float]] = {}
    for method, penalty in wanted:
        with quietly():
            if penalty not in fitted:
                fitted[penalty] = _timed(fit, training, penalty=penalty)
            results, unit = fitted[penalty]
            if method == "oracle":
                ends, seconds = _timed(oracle, results, new, y, alpha)
            else:
                given = {"alpha": alpha, "method": method, **options.get(method, {})}
                ends, seconds = _timed(results.conf_int_conformal, new, **given)
        lower, upper = ends["lower"].to_numpy(), ends["upper"].to_numpy()
        length = upper - lower
        finite = length[np.isfinite(length)]
        yield {
            "method": method,
            "penalty": penalty,
            "coverage": float(np.mean((lower <= y) & (y <= upper))),
            "length": float(np.mean(finite)) if len(finite) else np.nan,
            "infinite": float(np.mean(np.isinf(length))),
            "time": seconds / len(y) / unit,
        }


def _timed(call: Callable[..., Any], *given: Any, **options: Any) -> tuple[Any, float]:
    """What a call returns, and the seconds that it took."""
    begin = time.perf_counter()
    out = call(*given, **options)
    return out, time.perf_counter() - begin


def _summarised(runs: pd.DataFrame, methods: list[str], penalties: list[float], repeats: int) -> Comparison:
    """The `Comparison` of the runs that were asked for."""
    asked = runs["method"].isin(methods) & runs["penalty"].isin(penalties) & (runs["repeat"] < repeats)
    runs = runs[asked].sort_values(_KEYS, ignore_index=True)
    table = runs.groupby(["penalty", "method"]).agg(
        coverage=("coverage", "mean"),
        coverage_se=("coverage", "sem"),
        length=("length", "mean"),
        length_sd=("length", "std"),
        infinite=("infinite", "mean"),
        time=("time", "median"),
        repeats=("repeat", "size"),
    )
    order = [(method, penalty) for penalty in penalties for method in methods]
    out = Comparison(table.swaplevel().reindex(order).reset_index())
    out.runs = runs
    return out
