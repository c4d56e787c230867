"""The paper's own objects against naive implementations of them, and the page that says where each is."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from problems import LOSS_INSTANCES, draw, fits_of
from referee import conic_minimiser, p_value, refit

import stabconf
from stabconf.losses import LAD, Huber, Linex, Quantile, Squared
from stabconf.sets import conformity

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


def test_the_summary_says_the_constants_and_the_formula_of_tau():
    X, y, _ = paper_rows()
    data = frame_of(X, y)
    for res, tau in (
        (stabconf.fit("y ~ x0", data), "tau_i = rho a_i a_N, with a_i = |x_i| / sqrt(2 N lambda)"),
        (stabconf.fit("y ~ x0", data, penalty=0.0), "No stability bound applies"),
        (stabconf.conformal(smf.ols("y ~ x0", data).fit()), "tau_i = |l'(z - mu_0(x_N))| |x_i| |x_N|"),
    ):
        text = " ".join(str(res.summary()).split())
        assert "Constants: rho" in text and "lambda" in text and tau in text


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
