"""The conformity functions of the paper: its figures 1, 2a to 2f, 4 and 5, for `paper.py`.

Models, seeds and candidates are those of its published code: rows of `make_regression` with 100 columns and
seed 414, columns of norm 1, a standardised response, the last row as the new one, 100 candidates from a
quarter of the range below the responses to a quarter above, z_hat = 0. The constant of that code has not
the norm of the new row in it and is not certified: `published_tau` is that one, by name.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from common import Table, diabetes
from matplotlib.ticker import NullFormatter
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.neural_network import MLPRegressor

import stabconf

LAMBDA = 0.5  # of lambda |beta|^2 beside the mean loss
SEED = 414
NETWORK_SEED = 404
COLUMNS = 100
EPOCHS = (0.1, 0.5, 0.9, 2.0)  # of the networks, times the number of rows
ORANGE, BLUE, GREEN, RED = "#e69f00", "#0072b2", "#009e73", "#d55e00"


def in_paper_units(table):
    """The table with columns of norm 1 and a standardised response."""
    frame = table.frame.astype(float)
    X, y = frame[table.features], frame[table.response]
    scaled = X / np.linalg.norm(X, axis=0)
    return Table(
        table.name, scaled.assign(**{table.response: (y - y.mean()) / y.std(ddof=0)}), table.response
    )


def published_penalty(n):
    """The penalty of the paper's objective, for n training rows."""
    return 2.0 * LAMBDA * (n + 1) / n


def published_lad(table, training):
    """The paper's LAD fit."""
    return stabconf.fit(
        f"{table.formula} - 1",
        training,
        loss="lad",
        penalty=published_penalty(len(training)),
        standardize=False,
    )


def published_tau(rows):
    """The constant of the published code for N rows (N, p), not certified: 2 rho |x_i| / (N lambda)."""
    return 2.0 * np.linalg.norm(rows, axis=1) / (len(rows) * LAMBDA)


def predictions_at(table, training, new, z_hat):
    """Predictions (N,) of the LAD fit that has the new row at ``z_hat``: the training rows and the new
    one."""
    rows = pd.concat([training, new.assign(**{table.response: z_hat})])
    options = {"loss": "lad", "penalty": 2.0 * LAMBDA, "standardize": False}
    return stabconf.fit(f"{table.formula} - 1", rows, **options).fittedvalues.to_numpy()


def bounds_by(predicted, y, z, tau):
    """p_lo and p_up (2, g) at candidates, from the predictions (N,) at some z_hat and given tau (N,)."""
    scores, own = np.abs(y - predicted[:-1]), np.abs(z - predicted[-1])[:, None]
    lower = 1 + np.sum(scores - tau[:-1] >= own + tau[-1], axis=1)
    upper = 1 + np.sum(scores + tau[:-1] >= own - tau[-1], axis=1)
    return np.array([lower, upper]) / len(predicted)


def synthetic(size):
    """The paper's synthetic rows."""
    X, y = make_regression(n_samples=size, n_features=COLUMNS, noise=1, random_state=SEED)
    return in_paper_units(Table("synthetic", pd.DataFrame(X).add_prefix("x").assign(y=y), "y"))


def parted(table):
    """Training rows, the new row, and their responses."""
    training, new = table.frame.iloc[:-1], table.frame.iloc[-1:]
    return training, new, training[table.response].to_numpy()


def candidates(y, points):
    """Candidates beyond the range of the responses."""
    return np.linspace(y.min() - 0.25 * np.ptp(y), y.max() + 0.25 * np.ptp(y), points)


def curves(table, points, z_hat=0.0, bound="paper"):
    """Candidates, and the frame of the conformity function of the last row."""
    training, new, y = parted(table)
    z = candidates(y, points)
    return z, published_lad(table, training).conformity(new, z, bound=bound, z_hat=z_hat)


def _finish(ax, title):
    ax.axhline(0.1, color="grey", linewidth=0.7, linestyle=":")
    ax.set(title=title, xlabel="candidate z", ylim=(0, 1.03))
    ax.title.set_fontsize(9)


# Figure 1 ------------------------------------------------------------------------------------------


def figure_1(report, output, points):
    """Bounds of one z_hat, and of a batch of three."""
    table = synthetic(30)
    z = candidates(parted(table)[2], points)
    batch = [float(z[round(share * (points - 1))]) for share in (0.25, 0.5, 0.75)]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
    titles = ("one response, z_hat = 0", "a batch of three: sup of p_lo, inf of p_up")
    for ax, title, z_hat in zip(axes, titles, (0.0, batch), strict=True):
        z, made = curves(table, points, z_hat)
        ax.fill_between(z, made["p_lo"], made["p_up"], color=ORANGE, alpha=0.35, linewidth=0)
        ax.plot(z, made["p_lo"], color=ORANGE, label="p_lo(z, z_hat)")
        ax.plot(z, made["p_up"], color=RED, label="p_up(z, z_hat)")
        ax.plot(z, made["p"], color="black", linewidth=1.2, label="p(z)")
        marks = {"color": BLUE, "markersize": 7, "clip_on": False, "label": "z_hat"}
        ax.plot(z_hat, np.zeros(np.size(z_hat)), "^", **marks)
        _finish(ax, f"{title} (mean gap {made['gap'].mean():.2f})")
    axes[0].set_ylabel("conformity of z")
    axes[1].legend(fontsize=7)
    caption = (
        "Figure 1. LAD, N = 30, 100 columns: the conformity function between the bounds of one z_hat and "
        "of a batch. p = pi + 1/N."
    )
    report.figure(figure, "paper_1", caption, output)


# Figure 2 ------------------------------------------------------------------------------------------


def figure_2(report, output, points, sizes):
    """Panels a to c: sample sizes; d: the gap; e and f: choices of z_hat."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    for ax, letter, size in zip(axes[0], "abc", (30, 90, 300), strict=True):
        _sizes_panel(ax, f"2{letter}", size, points)
    lines = _gap_panel(axes[1, 0], sizes, points)
    _hats_panel(axes[1, 1], "2e. synthetic, N = 30", synthetic(30), points)
    _hats_panel(axes[1, 2], "2f. diabetes, N = 442", in_paper_units(diabetes()), points)
    for ax in (axes[0, 0], axes[1, 1]):
        ax.set_ylabel("conformity of z")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8)
    figure.legend(*axes[1, 1].get_legend_handles_labels(), loc="outside lower right", ncols=7, fontsize=8)
    report.table(
        "Figure 2d: gap between the bounds of the conformity function",
        f"p_up - p_lo with z_hat = 0 over {points} candidates, by the certified constant ('paper') and by "
        "that of the published code (not certified), and the certified tau; slopes on log axes, of what is "
        f"not 0. The paper has 100 sizes from 5 to 10,000, here {len(sizes)}.",
        ["N", "mean gap", "largest gap", "mean gap, published", "mean tau", "largest tau"],
        lines,
    )
    caption = (
        "Figure 2. LAD, lambda = 0.5. a to c: p(z) between its bounds with z_hat = 0, certified (band) and "
        "with the constant of the published code, not certified (dashed). d: how the gap and tau fall with "
        "the number of rows. e, f: p_up for six choices of z_hat, which in f cannot be told from p."
    )
    report.figure(figure, "paper_2", caption, output)


def _sizes_panel(ax, name, size, points):
    table = synthetic(size)
    training, new, y = parted(table)
    z, made = curves(table, points)
    rows = table.frame[table.features].to_numpy()
    loose = bounds_by(predictions_at(table, training, new, 0.0), y, z, published_tau(rows))
    ax.fill_between(z, made["p_lo"], made["p_up"], color=ORANGE, alpha=0.45, linewidth=0, label="certified")
    for each, label in zip(loose, ("published code, not certified", None), strict=True):
        ax.plot(z, each, color=RED, linewidth=1, linestyle="--", label=label)
    ax.plot(z, made["p"], color="black", linewidth=1.2, label="p(z)")
    _finish(ax, f"{name}. N = {size}, {COLUMNS} columns, |x_N| = {np.linalg.norm(rows[-1]):.2f}")


def _gap_panel(ax, sizes, points):
    """Draw panel d; lines of its table."""
    found = []
    for size in sizes:
        table = synthetic(size)
        training, new, y = parted(table)
        z, made = curves(table, points)
        rows = table.frame[table.features].to_numpy()
        tau = published_lad(table, training).tau(new, bound="paper").to_numpy()[0]
        loose = bounds_by(predictions_at(table, training, new, 0.0), y, z, published_tau(rows))
        gaps = made["gap"].mean(), made["gap"].max(), np.mean(loose[1] - loose[0])
        found.append([*gaps, tau.mean(), tau.max()])
    values = np.array(found)
    looks = {
        "mean gap": (ORANGE, "-"),
        "largest gap": (ORANGE, "--"),
        "mean gap, published": (RED, "-"),
        "mean tau": (BLUE, "-"),
        "largest tau": (BLUE, "--"),
    }
    for (label, (colour, style)), column in zip(looks.items(), values.T, strict=True):
        shown = np.where(column > 0, column, np.nan)
        ax.loglog(sizes, shown, color=colour, linestyle=style, marker="o", markersize=3, label=label)
    ax.set(title="2d. gap and tau as N grows", xlabel="N")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.title.set_fontsize(9)
    ax.legend(fontsize=7)
    lines = [
        [str(size), *(f"{value:.2g}" for value in row)] for size, row in zip(sizes, values, strict=True)
    ]
    return [*lines, ["slope", *(f"{slope(sizes, column):.2f}" for column in values.T)]]


def slope(sizes, values):
    """Slope on log axes, of the values that are not 0."""
    sizes, values = np.array(sizes)[values > 0], values[values > 0]
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def _hats_panel(ax, title, table, points):
    training, new, y = parted(table)
    at_zero = predictions_at(table, training, new, 0.0)[-1]
    hats = {
        "least response": y.min(),
        "0": 0.0,
        "middle of the range": 0.5 * (y.min() + y.max()),
        "prediction": at_zero,
        "the true response": new[table.response].iloc[0],
        "largest response": y.max(),
    }
    fitted = published_lad(table, training)
    z = candidates(y, points)
    for (label, hat), colour in zip(hats.items(), plt.cm.viridis(np.linspace(0, 0.95, 6)), strict=True):
        made = fitted.conformity(new, z, bound="paper", z_hat=float(hat))
        ax.plot(z, made["p_up"], color=colour, linewidth=1, label=f"z_hat: {label}")
    ax.plot(z, made["p"], color="black", linewidth=1.4, label="p(z)")
    _finish(ax, title)


# Figures 4 and 5 -----------------------------------------------------------------------------------


def network_figures(report, output, points, epochs=EPOCHS, rows=300):
    """Networks trained longer and longer, with tau that knows the number of epochs T and without."""
    named = {"4": synthetic(rows), "5": in_paper_units(diabetes().subset(442 if rows == 300 else rows, 0))}
    for number, table in named.items():
        figure, axes = plt.subplots(1, len(epochs), figsize=(3.3 * len(epochs), 3.1), layout="constrained")
        for ax, share in zip(np.atleast_1d(axes), epochs, strict=True):
            _network_panel(ax, table, share, points)
        np.atleast_1d(axes)[0].set_ylabel("conformity of z")
        labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
        figure.legend(*labels, loc="outside upper center", ncols=3, fontsize=8)
        caption = (
            f"Figure {number}. A network (sgd, alpha 0.5) on {table.name} data, {len(table.frame)} rows, "
            "trained for more and more epochs T: p by refits, and p_up with z_hat = 0 for tau = T |x| / N "
            f"and |x| / N. Neither is certified. {points} candidates; the paper has 100."
        )
        report.figure(figure, f"paper_{number}", caption, output)


def _network_panel(ax, table, share, points):
    training, new, y = parted(table)
    T, z = int(share * len(table.frame)), candidates(y, points)
    network = MLPRegressor(random_state=NETWORK_SEED, max_iter=T, alpha=LAMBDA, solver="sgd")
    options = {"estimator": network, "tau": "iterations*norm/n", "standardize": False}
    made = stabconf.fit(f"{table.formula} - 1", training, **options).conformity(new, z, z_hat=0.0)
    X = table.frame[table.features].to_numpy()
    at_zero = clone(network).fit(X, np.append(y, 0.0)).predict(X)
    without = bounds_by(at_zero, y, z, np.linalg.norm(X, axis=1) / len(X))[1]
    ax.plot(z, made["p"], color="black", linewidth=1.2, label="p(z), by refits")
    ax.plot(z, made["p_up"], color=RED, linestyle="-.", label="p_up, T |x| / N")
    ax.plot(z, without, color=RED, linestyle=":", label="p_up, |x| / N")
    _finish(ax, f"{T} epochs ({share:g} N)")
