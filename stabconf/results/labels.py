"""Labels on what the array modules compute: intervals and p-values as DataFrames."""

import numpy as np
import pandas as pd

__all__ = ["PER_LEVEL", "conformity_frame", "interval_frame", "label_sets", "level_frame"]

# Attributes of an interval frame that differ from level to level.
PER_LEVEL = {"tol", "loose", "k", "stability_share", "pieces", "empty", "guarantee", "groups"}


def interval_frame(intervals, complete, index, design, more):
    """Lower and upper ends on the index of the new rows; NaN where a row is not complete.

    Parameters
    ----------
    intervals : Intervals
        Of the complete rows.
    complete : (m,) array of bool
    index : Index
    design : Design
    more : dict
        What else goes into the frame's attrs, in plain values.
    """
    columns = {"lower": intervals.lower, "upper": intervals.upper}
    if intervals.inner_lower is not None:
        columns |= {"inner_lower": intervals.inner_lower, "inner_upper": intervals.inner_upper}
    made = {}
    for name, values in columns.items():
        made[name] = np.full(len(complete), np.nan)
        made[name][complete] = values
    frame = pd.DataFrame(made, index=index)
    if design.transformed:
        frame.columns.name = design.response
    labels = index[complete]
    frame.attrs = {
        "response": design.response,
        "method": intervals.method,
        "bound": intervals.bound,
        "side": intervals.side,
        "alpha": intervals.alpha,
        "k": intervals.k,
        "n": intervals.n,
        "certified": intervals.certified,
        "guarantee": intervals.guarantee,
        "stability_share": intervals.stability_share,
        "tol": _largest(intervals.tol),
        "loose": _loose(intervals, labels),
        "tilted_fits": intervals.tilted_fits,
        "pieces": {labels[i]: list(found) for i, found in intervals.pieces.items()},
        "empty": labels[np.isnan(intervals.lower)].tolist(),
        **more,
    }
    return frame


def _largest(tol):
    """The largest tolerance of an end; None where it is unknown."""
    largest = float(np.max(tol, initial=0.0))
    return None if np.isnan(largest) else largest


def _loose(intervals, labels):
    """Tolerances of the rows whose ends are looser than they should be, by label."""
    tol = np.broadcast_to(intervals.tol, len(labels))
    return {labels[i]: float(tol[i]) for i in np.flatnonzero(intervals.loose)}


def level_frame(frames, alphas):
    """Frames of several alphas side by side, a column level per alpha."""
    attrs = dict(frames[0].attrs)
    for name in PER_LEVEL & set(attrs):
        attrs[name] = [frame.attrs[name] for frame in frames]
    frame = pd.concat(frames, axis=1, keys=alphas, names=["alpha", None])
    frame.attrs = {**attrs, "alpha": alphas}
    return frame


def conformity_frame(values, index, candidates, columns=("p", "p_lo", "p_up")):
    """p-values and their bounds (m, len(columns), g) in long form, indexed by row and candidate."""
    places = np.repeat(np.arange(len(index)), len(candidates))
    labels = [index.take(places), np.tile(candidates, len(index))]
    return pd.DataFrame(
        np.moveaxis(values, 1, 2).reshape(-1, len(columns)),
        index=pd.MultiIndex.from_arrays(labels, names=[index.name, "z"]),
        columns=list(columns),
    )


def label_sets(p, index, candidates, alpha):
    """Tuples of the candidates whose p-value (m, g) is above alpha; None where a row has none at all."""
    sets = np.empty(len(index), dtype=object)
    for i, values in enumerate(p):
        if not np.isnan(values).any():
            sets[i] = tuple(z for z, value in zip(candidates, values, strict=True) if value > alpha)
    out = pd.Series(sets, index=index, dtype=object)
    out.attrs = {"alpha": alpha, "p": pd.DataFrame(p, index=index, columns=candidates)}
    return out
