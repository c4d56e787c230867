"""Comparing methods over random splits, and the oracle that they are compared with.

The oracle sees the response that it should predict: it is a yardstick, never an interval method.
"""

import time
import warnings
import zlib
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from ..checks import DEFAULT_ALPHA, check_one_alpha, is_count
from ..data.design import build_design, caller_scope
from ..data.frames import by_label
from ..errors import InputError, InputTypeError, StabconfWarning
from ..files import write_whole
from ..rank import conformal_rank, kth_smallest
from ..results.fitting import fit_in_scope
from ..results.regression import ObjectiveResults
from ..sets import METHODS, progress_bar, refitted
from ..show.plots import PALETTE

__all__ = ["Comparison", "compare", "compare_in_scope", "oracle"]

_KEYS = ["method", "penalty", "repeat"]
_SETTINGS = ["formula", "loss", "l1_ratio", "alpha", "new", "random_state", "options", "data"]
_MEASURES = ["coverage", "length", "infinite", "time"]


def oracle(results, exog, y, alpha=None):
    """Intervals of the fit that has seen the new response: what a conformal set would be at its best.

    Parameters
    ----------
    results : Results
    exog : DataFrame
    y : sequence of float
        The responses of ``exog``.
    alpha : float, optional

    Returns
    -------
    DataFrame
        ``lower`` and ``upper`` on the index of ``exog``.

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
    if not isinstance(results, ObjectiveResults):
        raise InputTypeError(
            f"results is a {type(results).__name__}: give the results of a loss and a penalty"
        )
    results._require_refit("the oracle")
    alpha = check_one_alpha(results._level(alpha))
    rows, index = results._new_rows(exog)
    values = np.asarray(by_label(y, index, "y"), dtype=float)
    if values.shape != (len(rows),):
        raise InputError(f"y has shape {values.shape}: give a response for each of the {len(rows)} rows")
    ends, k = np.full((len(rows), 2), np.nan), conformal_rank(alpha, results.nobs)
    fits = results._fits
    for i in np.flatnonzero(~np.isnan(rows).any(axis=1) & np.isfinite(values)):
        (row,), _ = fits.coordinates(rows[i : i + 1])
        (r,), (e,), _ = refitted(fits, row, fits.responses(values[i : i + 1]))
        far = kth_smallest(np.abs(r), k)
        ends[i] = values[i] - fits.scale * (e + far), values[i] - fits.scale * (e - far)
    frame = pd.DataFrame(ends, index=index, columns=["lower", "upper"])
    frame.attrs = {"method": "oracle", "certified": False, "guarantee": "none: it sees the response"}
    return frame


class Comparison(pd.DataFrame):
    """What `compare` measured, a line a method and penalty.

    Attributes
    ----------
    runs : DataFrame
        A line a method, penalty and repeat.
    """

    _metadata = ["runs"]

    @property
    def _constructor(self):
        return pd.DataFrame

    def plot(self, ax=None):
        """Box plots of the mean length over the repeats, with coverage and time beside each.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        Axes
        """
        import matplotlib.pyplot as plt

        penalties = list(dict.fromkeys(self["penalty"]))
        if ax is None:
            _, ax = plt.subplots(figsize=(7.0, 1.2 + 0.34 * len(self)), layout="constrained")
        boxes, labels, colours = [], [], []
        for line in self.itertuples():
            runs = self.runs[(self.runs["method"] == line.method) & (self.runs["penalty"] == line.penalty)]
            lengths = runs["length"].to_numpy()
            boxes.append(lengths[np.isfinite(lengths)])
            share = f", {line.infinite:.0%} infinite" if line.infinite else ""
            labels.append(f"{line.method}  (covers {line.coverage:.2f}, {line.time:.3g} fits{share})")
            colours.append(PALETTE[penalties.index(line.penalty) % len(PALETTE)])
        drawn = ax.boxplot(boxes[::-1], orientation="horizontal", patch_artist=True, widths=0.6)
        for box, colour in zip(drawn["boxes"], colours[::-1], strict=True):
            box.set(facecolor=colour, alpha=0.6)
        for median in drawn["medians"]:
            median.set(color="black")
        ax.set_yticks(range(1, len(boxes) + 1), labels[::-1])
        ax.set_xlabel("mean length of the intervals")
        ax.set_title(f"Conformal methods, alpha = {self.runs['alpha'].iloc[0]:g}")
        if len(penalties) > 1:
            shown = [PALETTE[i % len(PALETTE)] for i in range(len(penalties))]
            handles = [plt.Rectangle((0, 0), 1, 1, color=colour, alpha=0.6) for colour in shown]
            ax.legend(handles, [f"penalty {value:g}" for value in penalties], loc="best")
        return ax


def compare(
    formula,
    data,
    methods=("exact", "stable", "split"),
    penalty=0.01,
    alpha=DEFAULT_ALPHA,
    repeats=100,
    random_state=0,
    *,
    loss="lad",
    l1_ratio=0.0,
    new=5,
    options=None,
    resume=None,
    progress=None,
):
    """Coverage, length and cost of interval methods over random splits into training and new rows.

    Parameters
    ----------
    formula, data, loss, l1_ratio
        As in `stabconf.fit`.
    methods : sequence of str
        Names of interval methods, and "oracle".
    penalty : float or sequence of float
        One or several.
    alpha : float
    repeats : int
        Random splits. A split depends on ``random_state`` and its number alone.
    random_state : int
    new : int
        New rows of a split.
    options : dict, optional
        ``{method: {option: value}}`` for `Results.conf_int_conformal`.
    resume : path or Comparison, optional
        What an earlier call measured is not measured again. A path is also written to after each split.
    progress : bool or None
        Show a progress bar; None shows one in a terminal once the work takes long.

    Returns
    -------
    Comparison
        A frame with ``coverage``, ``length`` and its standard deviation over the splits ``length_sd``, the
        share of intervals that are ``infinite``, and the ``time`` of a new row's interval in fits.

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
    scope,
    formula,
    data,
    methods,
    *,
    penalty,
    alpha,
    repeats,
    random_state,
    loss="lad",
    l1_ratio=0.0,
    new=5,
    options=None,
    resume=None,
    progress=None,
):
    """`compare` with the names that the formula sees besides the columns."""
    methods = [methods] if isinstance(methods, str) else list(methods)
    for method in methods:
        if method not in METHODS and method not in ("auto", "oracle"):
            known = ", ".join(["auto", "oracle", *METHODS])
            raise InputError(f"methods has {method!r}, which is unknown: give some of {known}")
    alpha = check_one_alpha(alpha)
    for name, value in (("repeats", repeats), ("new", new)):
        if not is_count(value):
            raise InputError(f"{name}={value!r} is not allowed: give a whole number, 1 or larger")
    penalties = [penalty] if np.isscalar(penalty) else list(penalty)
    whole = build_design(formula, data, scope)
    if new > len(whole.y) - 2:
        raise InputError(f"new={new} leaves fewer than 2 of the {len(whole.y)} complete rows for training")
    model = {"loss": loss, "l1_ratio": l1_ratio}
    name = loss if isinstance(loss, str) else loss.describe()
    options = options or {}
    for method in set(options) - set(methods):
        raise InputError(f"options has {method!r}, which is not among the methods: {', '.join(methods)}")
    fingerprint = zlib.crc32(np.ascontiguousarray(np.column_stack([whole.X, whole.y])).tobytes())
    values = [formula, name, l1_ratio, alpha, new, random_state, repr(sorted(options.items())), fingerprint]
    settings = dict(zip(_SETTINGS, values, strict=True))
    runs = _known_runs(resume, settings)
    done = set(runs[_KEYS].itertuples(index=False, name=None))
    frame = whole.frame_of(None)
    with progress_bar(repeats, "split", "comparing", progress) as bar:
        for repeat in range(repeats):
            wanted = [(m, v) for v in penalties for m in methods if (m, v, repeat) not in done]
            if wanted:
                split = _split(frame, whole.y, new, random_state, repeat)
                found = _one_split(split, wanted, settings, model, options, scope)
                lines = [{**line, "repeat": repeat, **settings} for line in found]
                lines = pd.DataFrame(lines)
                runs = pd.concat([runs, lines], ignore_index=True) if len(runs) else lines
                if isinstance(resume, (str, Path)):
                    write_whole(resume, runs.to_csv(index=False).encode())
            bar.update()
    return _summarised(runs, methods, penalties, repeats)


def _known_runs(resume, settings):
    """Runs of an earlier call with the same settings."""
    empty = pd.DataFrame(columns=[*_KEYS, *_MEASURES, *_SETTINGS])
    if resume is None:
        return empty
    if isinstance(resume, Comparison):
        runs = resume.runs
    elif not Path(resume).exists():
        return empty
    else:
        runs = pd.read_csv(StringIO(Path(resume).read_text(encoding="utf-8")))
    if set(empty.columns) - set(runs.columns):
        raise InputError(f"resume={resume!r} does not hold the runs of a comparison: give another file")
    same = np.logical_and.reduce([runs[name].astype(str) == str(value) for name, value in settings.items()])
    if not np.all(same):
        raise InputError(
            f"resume={resume!r} holds runs with other settings ({', '.join(_SETTINGS)}): give another file"
        )
    return runs


def _split(frame, y, new, random_state, repeat):
    """Training rows, new rows and the responses of these."""
    order = np.random.default_rng([random_state, repeat]).permutation(len(frame))
    return frame.iloc[order[new:]], frame.iloc[order[:new]], y[order[:new]]


def _one_split(split, wanted, settings, model, options, scope):
    """What each method and penalty gives on one split."""
    training, new, y = split
    fitted, out = {}, []
    for method, penalty in wanted:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StabconfWarning)
            if penalty not in fitted:
                begin = time.perf_counter()
                results = fit_in_scope(scope, settings["formula"], training, penalty=penalty, **model)
                fitted[penalty] = results, time.perf_counter() - begin
            results, unit = fitted[penalty]
            begin = time.perf_counter()
            if method == "oracle":
                ends = oracle(results, new, y, settings["alpha"])
            else:
                given = options.get(method, {})
                ends = results.conf_int_conformal(new, alpha=settings["alpha"], method=method, **given)
            seconds = time.perf_counter() - begin
        lower, upper = ends["lower"].to_numpy(), ends["upper"].to_numpy()
        length = upper - lower
        finite = length[np.isfinite(length)]
        measured = {
            "coverage": float(np.mean((lower <= y) & (y <= upper))),
            "length": float(np.mean(finite)) if len(finite) else np.nan,
            "infinite": float(np.mean(np.isinf(length))),
            "time": seconds / len(y) / unit,
        }
        out.append({"method": method, "penalty": penalty, **measured})
    return out


def _summarised(runs, methods, penalties, repeats):
    """The `Comparison` of the runs that were asked for."""
    asked = runs["method"].isin(methods) & runs["penalty"].isin(penalties) & (runs["repeat"] < repeats)
    runs = runs[asked].sort_values(_KEYS, ignore_index=True)
    lines = []
    for penalty in penalties:
        for method in methods:
            one = runs[(runs["method"] == method) & (runs["penalty"] == penalty)]
            lines.append(
                {
                    "method": method,
                    "penalty": penalty,
                    "coverage": one["coverage"].mean(),
                    "length": one["length"].mean(),
                    "length_sd": one["length"].std(),
                    "infinite": one["infinite"].mean(),
                    "time": one["time"].median(),
                    "repeats": len(one),
                }
            )
    out = Comparison(lines)
    out.runs = runs
    return out
