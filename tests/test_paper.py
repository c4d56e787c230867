"""The paper's own objects against naive implementations of them, and the page that says where each is."""

import ast
import re
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from problems import LOSS_INSTANCES, draw, fits_of
from referee import conic_minimiser, p_value, refit
from sklearn.linear_model import Lasso
from test_docs import names_of
from test_layout import PACKAGE, ROOT

import stabconf
from stabconf.losses import LAD, Huber, Linex, Quantile, Squared
from stabconf.rank import Peers, conformal_rank
from stabconf.sets import conformity
from stabconf.study.comparison import oracle

LAMBDA = 0.05


def paper_rows(n=40, p=3, seed=0):
    """Training rows without intercept, responses, and a new row."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = X @ np.arange(1.0, p + 1) + rng.standard_t(3, n)
    return X, y, 1.5 * rng.standard_normal(p)


def frame_of(X, y=None):
    made = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return made if y is None else made.assign(y=y)


def paper_fit(X, y, loss="lad", lam=LAMBDA):
    """The paper's objective: the mean loss over N rows and lambda |beta|^2, nothing standardised."""
    terms = " + ".join(f"x{j}" for j in range(X.shape[1]))
    penalty = 2.0 * lam * (len(y) + 1) / len(y)
    return stabconf.fit(f"y ~ {terms} - 1", frame_of(X, y), loss=loss, penalty=penalty, standardize=False)


# Naive: the paper's displays, as they stand ----------------------------------------------------------


def naive_fit(X, y, x_new, z, lam=LAMBDA, loss=None):
    """Predictions (N,) of the paper's model with the new row at z, by clarabel."""
    rows, N = np.vstack([X, x_new]), len(y) + 1
    ridge = np.full(X.shape[1], 2.0 * N * lam)
    return rows @ conic_minimiser(rows, np.append(y, z), loss or LAD(), ridge, np.zeros(X.shape[1]))


def naive_tau(X, x_new, rho=1.0, lam=LAMBDA):
    """2 rho a_i a_N (N,): the penalty lambda |beta|^2 is 2 lambda-strongly convex."""
    sizes = np.linalg.norm(np.vstack([X, x_new]), axis=1)
    return rho * sizes * sizes[-1] / ((len(X) + 1) * lam)


def naive_pi(X, y, x_new, z, lam=LAMBDA, loss=None):
    """The paper's pi(z), ties counted for z as p does: they would count against it there."""
    scores = np.abs(np.append(y, z) - naive_fit(X, y, x_new, z, lam, loss))
    return 1 - (1 + np.sum(scores[:-1] < scores[-1] - 1e-7)) / len(scores)


def naive_pi_bounds(X, y, x_new, z, z_hat, tau, lam=LAMBDA, loss=None):
    """The paper's pi_lo(z, z_hat) and pi_up(z, z_hat)."""
    mu = naive_fit(X, y, x_new, z_hat, lam, loss)
    scores, own, N = np.abs(y - mu[:-1]), np.abs(z - mu[-1]), len(mu)
    lower = 1 - (1 + np.sum(scores - tau[:-1] <= own + tau[-1])) / N
    upper = 1 - (1 + np.sum(scores + tau[:-1] <= own - tau[-1])) / N
    return lower, upper


@pytest.mark.parametrize("loss", [LAD(), Huber(0.7)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("seed", range(3))
def test_p_and_its_bounds_at_z_hat_are_the_papers_pi_and_one_nth_more(seed, loss):
    X, y, x_new = paper_rows(seed=seed)
    N = len(y) + 1
    res = paper_fit(X, y, loss)
    tau = naive_tau(X, x_new, loss.lipschitz)
    z = np.linspace(y.min() - 1, y.max() + 1, 21)
    for z_hat in (0.0, float(y.max())):
        made = res.conformity(frame_of(x_new[None]), z, z_hat=z_hat, bound="paper")
        for candidate, found in zip(z, made.to_numpy(), strict=True):
            pi = naive_pi(X, y, x_new, candidate, loss=loss)
            lower, upper = naive_pi_bounds(X, y, x_new, candidate, z_hat, tau, loss=loss)
            assert lower <= pi <= upper
            np.testing.assert_allclose(found, np.array([pi, lower, upper, upper - lower - 1 / N]) + 1 / N)


def test_a_batch_takes_the_largest_lower_and_the_smallest_upper_bound():
    X, y, x_new = paper_rows(seed=4)
    res, tau, N = paper_fit(X, y), naive_tau(X, x_new), len(y) + 1
    z, batch = np.linspace(y.min(), y.max(), 25), [-2.0, 0.0, 3.0]
    made = res.conformity(frame_of(x_new[None]), z, z_hat=batch, bound="paper")
    each = np.array([[naive_pi_bounds(X, y, x_new, c, hat, tau) for hat in batch] for c in z])
    np.testing.assert_allclose(made["p_lo"], each[:, :, 0].max(axis=1) + 1 / N)
    np.testing.assert_allclose(made["p_up"], each[:, :, 1].min(axis=1) + 1 / N)
    assert made.attrs["z_hat"] == [batch]
    alone = [res.conformity(frame_of(x_new[None]), z, z_hat=hat, bound="paper")["gap"] for hat in batch]
    assert (made["gap"] <= np.min(alone, axis=0) + 1e-12).all()


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
@pytest.mark.parametrize("loss", LOSS_INSTANCES, ids=lambda loss: loss.describe())
def test_p_of_refits_lies_between_the_bounds_of_any_z_hat(loss, side):
    drawn = draw("heavy", 7, n=25, penalty=0.1, l1_ratio=0.0)
    fits = fits_of(drawn, loss)
    spread = np.ptp(drawn.y)
    hats = np.array([drawn.y.min() - spread, np.median(drawn.y), drawn.y.max()])
    z = np.linspace(drawn.y.min() - 0.3 * spread, drawn.y.max() + 0.3 * spread, 9)
    score = {"two-sided": np.abs, "upper": np.asarray, "lower": np.negative}[side]
    residuals = [refit(drawn.X, drawn.y, drawn.new, c, loss, drawn.ridge, drawn.lasso)[0] for c in z]
    most = np.array([p_value(r, score, 1e-6 * spread) for r in residuals])
    least = np.array([p_value(r, score, -1e-6 * spread) for r in residuals])
    for bound in ("norm", "ball", "paper") if np.isfinite(loss.lipschitz) else ("norm", "curvature"):
        for z_hat in (hats[:1], hats[1:2], hats[2:], hats):
            p, low, high, gap = conformity(fits, drawn.new[0], z, side, bound, z_hat=z_hat)
            assert (low <= most).all() and (high >= least).all(), bound
            assert (low <= p).all() and (p <= high).all()
            np.testing.assert_array_equal(gap, high - low)


def test_bounds_close_in_as_z_comes_near_z_hat_for_a_smooth_loss():
    X, y, x_new = paper_rows(seed=2)
    res = paper_fit(X, y, "huber", lam=0.005)
    new = frame_of(x_new[None])
    hat = float(res.predict(new).iloc[0]) + 1.0
    near, far = res.conformity(new, [hat + 1e-4, hat + 3.0], z_hat=hat, bound="norm")["gap"]
    assert near < 0.1 < far


def test_the_set_of_replace_one_is_where_the_upper_bound_exceeds_alpha():
    X, y, x_new = paper_rows(seed=1)
    new = frame_of(x_new[None])
    for loss in (LAD(), Quantile(0.3), Huber(0.7)):
        res = paper_fit(X, y, loss)
        for alpha, hat in ((0.1, 0.0), (0.3, float(y.min()))):
            asked = {"z_hat": hat, "bound": "paper"}
            ends = res.conf_int_conformal(new, alpha=alpha, method="replace_one", **asked).iloc[0]
            tiny = 1e-6 * np.array([1.0, -1.0])
            inside = res.conformity(new, ends.to_numpy() + tiny, **asked)["p_up"]
            outside = res.conformity(new, ends.to_numpy() - tiny, **asked)["p_up"]
            assert (inside > alpha).all() and (outside <= alpha).all(), loss


def test_a_bound_that_is_infinite_gives_zero_and_one():
    X, y, x_new = paper_rows(n=12)
    none = stabconf.fit("y ~ x0 + x1", frame_of(X, y), loss="lad", penalty=0.0)
    made = none.conformity(frame_of(x_new[None]), [-1e6, 0.0, 1e6], z_hat=[0.0, "prediction"])
    assert (made["p_lo"] == 0).all() and (made["p_up"] == 1).all() and (made["gap"] == 1).all()
    beyond = paper_fit(X, y, Squared(), lam=5.0)  # the paper's constant holds in the range of y alone
    made = beyond.conformity(frame_of(0.1 * x_new[None]), [y.max() + 1, y.mean()], z_hat=0.0, bound="paper")
    assert made["gap"].iloc[0] == 1 > made["gap"].iloc[1]
    wide = paper_fit(X, y, Linex(1.0), lam=1e-9)
    made = wide.conformity(frame_of(1e3 * x_new[None]), [y.max() + 50.0], z_hat=0.0, bound="norm")
    assert made.notna().all(axis=None)


def test_rows_with_missing_values_stay_missing_and_z_hat_may_follow_the_rows():
    X, y, _ = paper_rows()
    res = paper_fit(X, y)
    new = frame_of(np.vstack([X[:2], [np.nan, 0.0, 0.0], X[2:3]])).assign(guess=[0.0, 1.0, 2.0, 3.0])
    made = res.conformity(new, [0.0, 1.0], z_hat=lambda frame: frame["guess"])
    assert made.loc[2].isna().all(axis=None) and made.drop(index=2).notna().all(axis=None)
    for i in (0, 1, 3):
        alone = res.conformity(new.loc[[i]], [0.0, 1.0], z_hat=float(new.loc[i, "guess"]))
        np.testing.assert_array_equal(alone, made.loc[[i]])
    with pytest.raises(stabconf.StabconfError, match="z_hat"):
        res.conformity(new, [0.0], z_hat=0.0, conditional="~ x0")
    with pytest.raises(stabconf.StabconfError, match="z_hat"):
        res.conformity(new, [0.0], z_hat=[])


def test_the_figure_of_conformity_marks_z_hat():
    X, y, x_new = paper_rows()
    ax = paper_fit(X, y).plot_conformity(
        frame_of(x_new[None]), alpha=0.1, z=np.linspace(-3, 3), z_hat=[-1.0, 2.0, 9.0]
    )
    assert "z_hat" in ax.get_legend_handles_labels()[1]
    (marks,) = [each for each in ax.collections if each.get_label() == "z_hat"]
    np.testing.assert_allclose(marks.get_offsets()[:, 0], [-1.0, 2.0])


# Constants -------------------------------------------------------------------------------------------


def test_the_penalty_of_the_papers_objective_is_two_lambda_n_plus_one_over_n():
    X, y, x_new = paper_rows()
    rows, v = np.vstack([X, x_new]), np.append(y, 1.3)
    res = paper_fit(X, y)
    assert res.constants["lambda"] == pytest.approx(LAMBDA)

    def objective(beta):  # as the paper writes it
        return np.mean(np.abs(v - rows @ beta)) + LAMBDA * beta @ beta

    fits = res._fits
    found = fits.scale * fits.augmented(x_new, float(fits.responses(1.3))).x
    least = objective(found)
    rng = np.random.default_rng(0)
    for step in 10.0 ** rng.uniform(-4, 0, 200):
        assert objective(found + step * rng.standard_normal(3)) > least - 1e-12
    np.testing.assert_allclose(rows @ found, naive_fit(X, y, x_new, 1.3), atol=1e-6)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("loss", [LAD(), Quantile(0.8), Huber(0.7), Squared()], ids=lambda loss: loss.name)
def test_constants_and_the_formula_of_each_bound_give_tau(loss, standardize):
    X, y, x_new = paper_rows(n=60)
    res = stabconf.fit(
        "y ~ x0 + x1 + x2 - 1", frame_of(X, y), loss=loss, penalty=0.8, standardize=standardize
    )
    c, N, unit = res.constants, len(y) + 1, res._fitted.scale
    rows, new = res._X, 0.5 * x_new
    own = res._new_rows(frame_of(new[None]))[0][0]
    a = np.linalg.norm(np.vstack([rows, own]), axis=1) / np.sqrt(2 * N * c["lambda"])
    if np.isfinite(c["rho"]):
        expected = {"norm": c["rho"] * a * a[-1], "paper": 2 * c["rho"] * a * a[-1]}
    else:
        slope = 2 * np.sqrt(2 * c["nu"] * c["C"])
        expected = {"paper": slope * a * a[-1] / (1 - c["nu"] * a[-1] ** 2)}
    for bound, tau in expected.items():
        made = res.tau(frame_of(new[None]), bound=bound).to_numpy()[0]
        np.testing.assert_allclose(made, unit * tau, rtol=1e-6, atol=1e-6 * unit)


def test_constants_are_those_of_the_objective_that_is_fitted():
    X, y, _ = paper_rows()
    data = frame_of(X, y)
    lad = stabconf.fit("y ~ x0", data)
    assert lad.constants.attrs == {"bound": "norm", "tau": "rho a_i a_N"}
    assert lad.constants["lambda"] == pytest.approx(0.01 * 40 / 82)
    assert lad.constants["C"] == pytest.approx(np.ptp(y) / lad._fitted.scale)
    huber = stabconf.fit("y ~ x0", data, loss=Huber(1.5), penalty=0.1, l1_ratio=0.25)
    assert huber.constants["rho"] == pytest.approx(1.5 * huber.scale / huber._fitted.scale)
    assert huber.constants["nu"] == 1.0
    assert huber.constants["lambda"] == pytest.approx(0.1 * 0.75 * 40 / 82)
    assert huber.constants.attrs["bound"] == "curvature"
    none = stabconf.fit("y ~ x0", data, penalty=0.0).constants
    assert none["lambda"] == 0 and none.attrs == {"bound": None, "tau": None}
    ols = stabconf.conformal(smf.ols("y ~ x0", data).fit()).constants
    assert ols["lambda"] == 0 and ols["rho"] == np.inf and ols["nu"] == 1.0


def test_the_detailed_summary_says_the_constants_and_the_formula_of_tau():
    X, y, _ = paper_rows()
    data = frame_of(X, y)
    for res, tau in (
        (stabconf.fit("y ~ x0", data), "tau_i = rho a_i a_N, with a_i = |x_i| / sqrt(2 N lambda)"),
        (stabconf.fit("y ~ x0", data, penalty=0.0), "No stability bound applies"),
        (stabconf.conformal(smf.ols("y ~ x0", data).fit()), "tau_i = |l'(z - mu_0(x_N))| |x_i| |x_N|"),
    ):
        text = " ".join(str(res.summary(details=True)).split())
        assert "Constants: rho" in text and "lambda" in text and tau in text
        assert "Constants" not in str(res.summary())


@pytest.mark.parametrize("length", [1.5, 2.0, 3.0])
def test_the_constant_of_the_published_code_fails_for_new_rows_longer_than_two(length):
    """2 rho |x_i| / (N lambda), without the norm of the new row; ours has it in it."""
    X, y, x_new = np.ones((4, 1)), np.array([-100.0, -100.0, 100.0, 100.0]), np.array([length])
    low, high = (naive_fit(X, y, x_new, z) for z in (-1e3, 1e3))
    moved = np.abs(high - low)
    published = 2.0 * np.append(X[:, 0], length) / (5 * LAMBDA)
    np.testing.assert_allclose(moved / published, length / 2.0, rtol=1e-6)
    np.testing.assert_allclose(moved, naive_tau(X, x_new), rtol=1e-6)
    certified = paper_fit(X, y).tau(frame_of(x_new[None]), bound="paper").to_numpy()[0]
    np.testing.assert_allclose(moved, certified, rtol=1e-6)


# What else the page names ----------------------------------------------------------------------------


def test_the_rule_of_the_paper_covers_too_little_and_ours_does_not():
    """The rank of an exchangeable row is uniform on 1..N: count the ranks that are kept."""
    for n, alpha in ((10, 0.1), (9, 0.1), (25, 0.15), (99, 0.05)):
        N = n + 1
        ranks = np.arange(1, N + 1)
        scores = np.arange(1.0, n + 1.0)  # of the training rows; the new one falls between two of them
        paper = np.mean(1 - ranks / N >= alpha - 1e-11)
        p = [float(Peers(n).p(scores >= rank - 0.5)) for rank in ranks]
        ours = np.mean(np.array(p) > alpha + 1e-11)
        assert 1 - alpha - 1e-11 <= ours <= 1 - alpha + 1 / N
        assert paper == pytest.approx(np.floor((1 - alpha) * N + 1e-9) / N)
        assert np.mean(scores[conformal_rank(alpha, n) - 1] >= ranks - 0.5) == ours
    assert np.mean(1 - np.arange(1, 12) / 11 >= 0.1) == 9 / 11


def test_exact_sets_of_ridge_are_those_of_the_hat_matrix():
    """The ridge confidence machine: residuals are lines a + b z; p changes where two sizes are equal."""
    X, y, x_new = paper_rows(n=30, seed=3)
    rows, N = np.vstack([X, x_new]), 31
    hat = rows @ np.linalg.solve(rows.T @ rows + 2 * N * LAMBDA * np.eye(3), rows.T)
    a, b = (np.eye(N) - hat) @ np.append(y, 0.0), (np.eye(N) - hat)[:, -1]
    with np.errstate(divide="ignore"):
        turns = np.concatenate([(a[:-1] - a[-1]) / (b[-1] - b[:-1]), -(a[:-1] + a[-1]) / (b[-1] + b[:-1])])
    turns = np.sort(turns[np.isfinite(turns)])
    res = paper_fit(X, y, Squared())
    for alpha in (0.1, 0.35):
        middles = np.concatenate([[turns[0] - 1], 0.5 * (turns[:-1] + turns[1:]), [turns[-1] + 1]])
        sizes = np.abs(a + np.outer(middles, b))
        inside = (1 + np.sum(sizes[:, :-1] >= sizes[:, -1:], axis=1)) / N > alpha
        ends = turns[np.flatnonzero(np.diff(inside.astype(int)))]
        made = res.conf_int_conformal(frame_of(x_new[None]), alpha=alpha).iloc[0]
        np.testing.assert_allclose(made, [ends[0], ends[-1]], rtol=1e-9)


def test_exact_sets_of_the_lasso_flip_the_p_value_of_scikit_learns():
    X, y, x_new = paper_rows(n=40, p=6, seed=5)
    terms, alpha = " + ".join(f"x{j}" for j in range(6)), 0.2
    res = stabconf.fit(
        f"y ~ {terms} - 1", frame_of(X, y), loss="squared", penalty=1.6, l1_ratio=1.0, standardize=False
    )
    ends = res.conf_int_conformal(frame_of(x_new[None]), alpha=alpha).iloc[0].to_numpy()
    rows = np.vstack([X, x_new])
    lasso = Lasso(alpha=1.6 * 40 / 41, fit_intercept=False, tol=1e-13, max_iter=100_000)

    def p(z):
        v = np.append(y, z)
        fitted = lasso.fit(rows, v)
        assert 0 < np.count_nonzero(fitted.coef_) < 6  # some are left out: the penalty bites
        return p_value(v - fitted.predict(rows))

    tiny = 1e-5 * np.array([1.0, -1.0])
    assert min(p(z) for z in ends + tiny) > alpha >= max(p(z) for z in ends - tiny)


def test_the_gap_falls_as_rows_are_added():
    """N tau is constant here, and the gap is about the share of scores within tau of each other."""
    gaps = []
    for n in (50, 400, 3200):
        X, y, x_new = paper_rows(n=n, seed=6)
        z = np.linspace(*np.quantile(y, [0.05, 0.95]), 30)
        gaps.append(paper_fit(X, y).conformity(frame_of(x_new[None]), z, z_hat=0.0, bound="paper")["gap"])
    means = [gap.mean() for gap in gaps]
    assert means[0] > 2 * means[1] > 4 * means[2]


def test_the_oracle_is_the_order_statistic_of_the_fit_that_has_seen_the_response():
    X, y, x_new = paper_rows(seed=8)
    predicted = naive_fit(X, y, x_new, 2.0)
    far = np.sort(np.abs(y - predicted[:-1]))[int(np.ceil(0.9 * 41)) - 1]
    made = oracle(paper_fit(X, y), frame_of(x_new[None]), [2.0], alpha=0.1).iloc[0]
    np.testing.assert_allclose(made, [predicted[-1] - far, predicted[-1] + far], atol=1e-6)


# The benchmark ---------------------------------------------------------------------------------------


@pytest.fixture
def curves(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("paper_curves")


def test_the_units_of_the_benchmark_are_the_papers(curves):
    table = curves.synthetic(30)
    assert table.frame.shape == (30, 101)
    np.testing.assert_allclose(np.linalg.norm(table.frame[table.features], axis=0), 1.0)
    assert table.frame["y"].mean() == pytest.approx(0) and np.std(table.frame["y"]) == pytest.approx(1)
    training, _, y = curves.parted(table)
    assert curves.published_lad(table, training).constants["lambda"] == pytest.approx(0.5)
    z = curves.candidates(y, 100)
    assert len(z) == 100 and np.ptp(z) == pytest.approx(1.5 * np.ptp(y))


def test_the_constant_of_the_published_code_is_reproduced_by_name(curves):
    table = curves.synthetic(30)
    training, new, y = curves.parted(table)
    X, x_new = training[table.features].to_numpy(), new[table.features].to_numpy()[0]
    predicted = curves.predictions_at(table, training, new, 0.0)
    np.testing.assert_allclose(predicted, naive_fit(X, y, x_new, 0.0, lam=0.5), atol=1e-6)
    rows = np.vstack([X, x_new])
    tau = curves.published_tau(rows)
    np.testing.assert_allclose(tau, [2 * np.sqrt(np.sum(row**2)) / (30 * 0.5) for row in rows])
    z = curves.candidates(y, 15)
    lower, upper = curves.bounds_by(predicted, y, z, tau)
    for candidate, low, high in zip(z, lower, upper, strict=True):
        expected = naive_pi_bounds(X, y, x_new, candidate, 0.0, tau, lam=0.5)
        np.testing.assert_allclose([low, high], np.array(expected) + 1 / 30)


# The page --------------------------------------------------------------------------------------------


def page_lines():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]


def named(text):
    return re.findall(r"`([\w/]+\.py): ([\w.]+)`", text)


@pytest.mark.parametrize("line", page_lines(), ids=lambda line: line[0])
def test_what_the_page_names_is_there(line):
    _, _, here, test = line
    for file, name in named(here):
        path = ROOT / file if file.startswith("benchmarks/") else PACKAGE / file
        assert name in names_of(ast.parse(path.read_text(encoding="utf-8")).body), f"{file} has no {name}"
    tests = named(test)
    others = [int(number) for number in re.findall(r"\d+", test)] if test.startswith("line") else []
    assert tests or others or "not in this version" in here
    for file, name in tests:
        body = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
        assert name.startswith("test_") and name in names_of(body), f"{file} has no {name}"
    for number in others:
        assert named(page_lines()[number - 1][3]), f"line {number} names no test"


def test_the_page_has_a_line_for_every_item():
    lines = page_lines()
    assert [int(line[0]) for line in lines] == list(range(1, len(lines) + 1)) and len(lines) >= 53
    assert all(len(line) == 4 for line in lines)
