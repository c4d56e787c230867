"""Is exchangeability plausible: p-values that are uniform, a level that is kept, departures that show."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.stats import binom, kstest
from sklearn.linear_model import LinearRegression

import stabconf
from stabconf.errors import DataWarning, InputError
from stabconf.sets.exchangeability import _distances, change, log_capital, online_p, weigh

LIMIT = np.log10(20.0)
N, M = 50, 90  # reference and new rows of simulated streams


def table(rng, rows, shift=0.0, scale=1.0, drift=0.0):
    x = rng.standard_normal(rows) + drift
    g = rng.choice(["a", "b", "c"], rows)
    y = 2.0 + x + (g == "b") + shift + scale * rng.standard_t(4, rows)
    return pd.DataFrame({"y": y, "x": x, "g": g})


def labelled(rng, first, then):
    """New rows that change after the first 60, with labels of their own."""
    new = pd.concat([table(rng, 60, **first), table(rng, 60, **then)])
    return new.set_axis([f"new{i}" for i in range(120)])


@pytest.fixture(scope="module")
def train():
    return table(np.random.default_rng(5), 160)


@pytest.fixture(scope="module")
def res(train):
    return stabconf.fit("y ~ x + g", train, loss="huber")


# The array part -------------------------------------------------------------------------------------


def test_online_p_values_count_larger_scores_and_a_part_of_ties():
    rng = np.random.default_rng(0)
    old, new, theta = rng.integers(0, 6, 20), rng.integers(0, 6, 15), rng.random(15)
    made = online_p(old, new, theta)
    for t, score in enumerate(new):
        seen = np.concatenate([old, new[:t]])
        count = np.sum(seen > score) + theta[t] * (np.sum(seen == score) + 1)
        assert made[t] == pytest.approx(count / (len(seen) + 1))


def test_p_values_in_sequence_are_uniform_and_independent_also_with_ties():
    rng = np.random.default_rng(1)
    first = []
    for _ in range(3000):
        scores = rng.poisson(1.0, 8)
        first.append(online_p(scores[:5], scores[5:], rng.random(3)))
    p = np.array(first)
    assert all(kstest(column, "uniform").pvalue > 1e-3 for column in p.T)
    bound = 4.0 / np.sqrt(len(p))  # standard errors of a correlation of independent values
    assert np.all(np.abs(np.corrcoef(p.T) - np.eye(3)) < bound)


def test_every_bet_is_fair():
    """Integrated over a uniform p-value, what one more row multiplies the capital by is 1 on average."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    for past in ([], [0.01, 0.02, 0.3], [0.9, 0.99, 0.5]):
        columns = np.column_stack([*(np.full(len(grid), value) for value in past), grid])
        made = log_capital(columns.T)
        before = made[-2] if past else 0.0
        assert np.mean(10.0 ** (made[-1] - before)) == pytest.approx(1.0, abs=2e-3)


def test_the_capital_is_that_of_the_jumping_mixture_summed_over_all_paths():
    p = np.array([0.02, 0.4, 0.97])
    bets = [
        lambda u: 1.0,
        lambda u: 1.5 - u,
        lambda u: 0.5 + u,
        lambda u: 0.5 / np.sqrt(u),
        lambda u: 0.5 / np.sqrt(1 - u),
    ]
    total = 0.0
    for path in np.ndindex(5, 5, 5):
        chance = 1 / 5
        for one, two in pairwise(path):
            chance *= 0.01 / 5 + 0.99 * (one == two)
        total += chance * np.prod([bets[at](u) for at, u in zip(path, p, strict=True)])
    assert log_capital(p[:, None])[-1, 0] == pytest.approx(np.log10(total))


def test_a_direction_that_the_fitted_rows_lack_is_far_out():
    rng = np.random.default_rng(2)
    trained = np.column_stack([np.ones(50), rng.standard_normal(50), np.zeros(50)])
    rows = np.array([[1.0, 0.0, 0.0], [1.0, 3.0, 0.0], [1.0, 0.0, 1.0]])
    centre, far, lacking = _distances(trained, rows)
    assert centre < 0.2 and far > 5 and lacking > 1000
    z = (3.0 - trained[:, 1].mean()) / trained[:, 1].std()
    assert far == pytest.approx(z**2)


def test_the_change_is_where_the_likelihood_of_two_parts_is_largest():
    rng = np.random.default_rng(20)
    for _ in range(20):
        p = np.append(rng.random(12), rng.random(8) ** 3)
        found = {}
        for sign, values in (("small", p), ("large", 1 - p)):
            for start in range(20):
                a = np.linspace(0.02, 1.0, 4000)[:, None]
                tail = values[start:]
                found[sign, start] = np.max(np.sum(np.log(a) + (a - 1) * np.log(tail), axis=1))
        best = max(found.values())
        mine = max(found["small", change(p)], found["large", change(p)])
        assert mine == pytest.approx(best, abs=1e-3)


def streams(seed, count, shift=0.0, scale=1.0, drift=0.0, late=0):
    """`Evidence` of simulated scores that change after ``late`` new rows."""
    for run in range(count):
        rng = np.random.default_rng([seed, run])
        r, x = rng.standard_normal((2, N + M))
        r[N + late :] = scale * r[N + late :] + shift
        x[N + late :] += drift
        scores = np.column_stack([r, np.abs(r), x**2])
        yield weigh(scores[:N], scores[N:], rng)


@pytest.mark.slow
def test_the_level_is_kept_over_2000_streams():
    found = list(streams(3, 2000))
    wrong = sum(one.p_value <= 0.05 for one in found)
    bets = sum(bool((one.capital >= LIMIT).any()) for one in found)
    assert wrong <= binom.ppf(0.999, 2000, 0.05)
    assert bets <= binom.ppf(0.999, 2000, 0.025)
    for j in range(3):  # each p-value is exact, so each test of uniformity has its size
        size = sum(one.uniformity[j] <= 0.05 for one in found)
        assert binom.ppf(0.0005, 2000, 0.05) <= size <= binom.ppf(0.9995, 2000, 0.05)
        assert kstest([one.p[-1, j] for one in found], "uniform").pvalue > 1e-3
        reached = sum(bool((one.capital[:, j] >= LIMIT).any()) for one in found)
        assert reached <= binom.ppf(0.999, 2000, 0.05 / 6)


@pytest.mark.parametrize(
    "name, change",
    [("level", {"shift": 1.2}), ("spread", {"scale": 2.5}), ("covariates", {"drift": 2.0})],
)
def test_departures_show_and_are_named(name, change):
    found = list(streams(4, 60, late=40, **change))
    seen = [one for one in found if one.p_value <= 0.05]
    # Power is above 0.9 (about 0.95 and more), but for an error of the simulation.
    assert len(seen) >= binom.ppf(0.001, 60, 0.9)
    named = [("level", "spread", "covariates")[int(np.argmax(one.capital.max(axis=0)))] for one in seen]
    assert np.mean([each == name for each in named]) > 0.9
    column = ("level", "spread", "covariates").index(name)
    since = [one.since[column] for one in seen if one.capital[:, column].max() >= LIMIT]
    assert abs(np.median(since) - 40) <= 3


# With models ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_level_is_kept_over_200_fits_with_many_columns():
    """With 8 columns and 60 rows training residuals are far smaller than new ones: that must not show."""
    wrong = 0
    for run in range(200):
        rng = np.random.default_rng([6, run])
        data = pd.DataFrame(rng.standard_normal((140, 8)), columns=[f"x{j}" for j in range(8)])
        data["y"] = data["x0"] + rng.standard_t(3, 140)
        formula = "y ~ " + " + ".join(f"x{j}" for j in range(8))
        fitted = stabconf.fit(formula, data.iloc[:60], loss="squared", penalty=0.001)
        wrong += not fitted.check_exchangeability(data.iloc[60:], random_state=run).plausible
    assert wrong <= binom.ppf(0.999, 200, 0.05)


def kinds(train):
    weights = 1.0 + (train["x"] > 0)
    return {
        "lad": stabconf.fit("y ~ x + g", train),
        "unscaled": stabconf.fit("y ~ x + g", train, loss="huber", standardize=False),
        "quantiles": stabconf.fit_quantiles("y ~ x + g", train),
        "one quantile": stabconf.fit_quantiles("y ~ x + g", train, quantiles=[0.5]),
        "estimator": stabconf.fit("y ~ x + g", train, estimator=LinearRegression()),
        "ols": stabconf.conformal(smf.ols("y ~ x + g", train).fit()),
        "rlm": stabconf.conformal(smf.rlm("y ~ x + g", train, M=sm.robust.norms.HuberT()).fit()),
        "quantreg": stabconf.conformal(smf.quantreg("y ~ x + g", train).fit(0.5)),
        "wls": stabconf.conformal(smf.wls("y ~ x + g", train, weights=weights).fit()),
    }


@pytest.mark.filterwarnings("ignore::stabconf.errors.MismatchWarning")
def test_every_results_class_has_the_check(train):
    calm = labelled(np.random.default_rng(7), {}, {})
    moved = labelled(np.random.default_rng(7), {}, {"shift": 3.0})
    for name, results in kinds(train).items():
        more = {"wls_weights": 1.5} if name == "wls" else {}
        assert results.check_exchangeability(calm, **more).plausible, name
        check = results.check_exchangeability(moved, **more)
        assert check.departures[0] == "level" and not check.plausible, name
        assert abs(list(moved.index).index(check.since) - 60) <= 8, name


@pytest.mark.parametrize(
    "name, change, words",
    [
        ("level", {"shift": -2.5}, "responses lie below their predictions (level) from about row new"),
        ("spread", {"scale": 4.0}, "residuals are larger (spread) from about row new"),
        ("covariates", {"drift": 3.0}, "covariates lie farther out (covariates) from about row new"),
    ],
)
def test_the_sentence_says_what_departs_and_from_where(res, name, change, words):
    new = labelled(np.random.default_rng(8), {}, change)
    check = res.check_exchangeability(new)
    assert words in check.sentence
    assert check.sentence.startswith("The new rows do not look exchangeable with the training rows: ")
    assert check.departures[0] == name and f"at row {check.peak} " in check.sentence
    assert list(new.index).index(check.peak) > list(new.index).index(check.since) > 50


def test_a_covariate_drift_is_seen_though_residuals_stay(res):
    new = labelled(np.random.default_rng(9), {}, {"drift": 3.0})
    check = res.check_exchangeability(new)
    assert check.departures == ["covariates"]


def test_evidence_of_uniformity_alone_names_no_row(res):
    new = labelled(np.random.default_rng(9), {}, {})
    check = res.check_exchangeability(new)
    low = check.table.assign(ks_p=[1e-5, 0.5, 0.5], largest=-0.5)
    odd = stabconf.ExchangeabilityCheck(check.p_values, check.paths, low, 6e-5, 80, 80)
    assert "not from a certain row on" in odd.sentence and "from about row new" not in odd.sentence
    assert odd.departures == ["level"] and odd.uniformity == pytest.approx(3e-5)


def test_the_record_has_labels_and_leaves_incomplete_rows_out(res):
    new = labelled(np.random.default_rng(10), {}, {})
    new.iloc[3, new.columns.get_loc("x")] = np.nan
    new.iloc[5, new.columns.get_loc("y")] = np.nan
    check = res.check_exchangeability(new)
    assert check.p.index.equals(new.index) and check.martingale.index.equals(new.index)
    assert list(np.flatnonzero(check.p.isna())) == [3, 5] and check.count == 118
    assert check.paths.notna().all(axis=None)
    assert check.martingale.iloc[3] == check.martingale.iloc[2]
    assert check.largest == check.martingale.max() == check.martingale[check.peak]
    without = res.check_exchangeability(new.drop(index=["new3", "new5"]))
    pd.testing.assert_series_equal(without.p, check.p.dropna())
    assert without.p_value == check.p_value


def test_seeds_decide_and_the_same_seed_gives_the_same(res):
    new = labelled(np.random.default_rng(11), {}, {})
    one, two = res.check_exchangeability(new), res.check_exchangeability(new, random_state=0)
    pd.testing.assert_frame_equal(one.p_values, two.p_values)
    assert not one.p.equals(res.check_exchangeability(new, random_state=1).p)
    with pytest.raises(InputError, match="random_state"):
        res.check_exchangeability(new, random_state=-1)


def test_constant_designs_and_repeated_rows_are_ranked_at_random(train):
    """Ties that rounding errors would break in favour of one side must not look like a departure."""
    rng = np.random.default_rng(12)
    factors = pd.DataFrame({"g": rng.choice(["a", "b", "c"], 400), "y": rng.integers(0, 3, 400) / 3.0})
    fitted = stabconf.fit("y ~ g", factors.iloc[:200], loss="squared")
    check = fitted.check_exchangeability(factors.iloc[200:])
    assert check.plausible
    alone = stabconf.fit("y ~ 1", factors.iloc[:200], loss="squared")
    assert alone.check_exchangeability(factors.iloc[200:]).plausible


def test_responses_may_be_given_apart(res):
    new = labelled(np.random.default_rng(13), {}, {})
    wanted = res.check_exchangeability(new).p
    pd.testing.assert_series_equal(
        res.check_exchangeability(new.drop(columns="y"), response=new["y"]).p, wanted
    )


def test_weights_of_new_rows_are_those_of_their_responses(train):
    weights = np.where(np.arange(len(train)) % 2, 1.0, 25.0)
    rng = np.random.default_rng(14)

    def precise(rows, weight):
        made = table(rng, rows, scale=0.0)
        return made.assign(y=made["y"] + rng.standard_normal(rows) / np.sqrt(weight))

    fitted = stabconf.conformal(smf.wls("y ~ x + g", precise(160, weights), weights=weights).fit())
    fresh = np.tile([25.0, 1.0], 40)
    new = precise(80, fresh)
    assert fitted.check_exchangeability(new, wls_weights=fresh).plausible
    with pytest.warns(DataWarning, match="wls_weights"):
        assert not fitted.check_exchangeability(new).plausible


@pytest.mark.parametrize(
    "new, message",
    [
        (lambda rows: None, "new=None"),
        (lambda rows: rows.drop(columns="y"), "response 'y'"),
        (lambda rows: rows.assign(y=np.nan), "none of the 120 new rows"),
    ],
)
def test_rows_that_cannot_be_judged_are_refused(res, new, message):
    with pytest.raises(InputError, match=message):
        res.check_exchangeability(new(labelled(np.random.default_rng(15), {}, {})))


def test_few_rows_and_labels_of_several_levels(res, train):
    one = res.check_exchangeability(table(np.random.default_rng(16), 1))
    assert one.count == 1 and "so few rows" in one.sentence
    pairs = table(np.random.default_rng(16), 40, shift=5.0)
    pairs.index = pd.MultiIndex.from_product([range(4), range(10)])
    assert f"row {(0, 0)} on" in res.check_exchangeability(pairs).sentence
    tiny = stabconf.fit("y ~ 1", train.iloc[:2], loss="lad")
    with pytest.raises(InputError, match="too few to be split"):
        tiny.check_exchangeability(train)


# Shown ------------------------------------------------------------------------------------------------


def test_the_table_is_text_and_html_and_labels_are_escaped(res):
    new = labelled(np.random.default_rng(17), {}, {"shift": 4.0}).rename(index=lambda name: f"<b>{name}")
    check = res.check_exchangeability(new)
    text = str(check)
    assert "Is exchangeability plausible?" in text and "covariates" in text and "80 training rows" in text
    page = check._repr_html_()
    assert "&lt;b&gt;new" in page and "<b>new" not in page
    assert "tabular" in check.summary().as_latex()
    assert "120 new rows" in repr(check)
    assert pickle.loads(pickle.dumps(check)).sentence == check.sentence


def test_the_figure_has_the_bets_the_limits_and_where_it_rises(res, figures):
    new = labelled(np.random.default_rng(18), {}, {"shift": 3.0})
    check = res.check_exchangeability(new)
    ax = check.plot()
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    rise = f"rises from about row {check.since}"
    assert words == ["level", "spread", "covariates", rise, "mean p of level, last 15 rows"]
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), check.paths["level"])
    heights = [line.get_ydata()[0] for line in ax.get_lines()[3:5]]
    np.testing.assert_allclose(heights, np.log10([20.0, 100.0]))
    assert [text.get_text() for text in ax.texts] == ["1/20", "1/100"]
    assert ax.get_ylim()[1] > check.largest
    assert ax.get_lines()[5].get_xdata()[0] == list(new.index).index(check.since) + 1
    calm = res.check_exchangeability(labelled(np.random.default_rng(18), {}, {})).plot(
        figures.subplots()[1]
    )
    assert not any("rises" in text.get_text() for text in calm.get_legend().get_texts())


def test_reports_answer_where_responses_are_known(res, tmp_path):
    new = labelled(np.random.default_rng(19), {}, {"shift": 3.0})
    page = res.report(tmp_path / "a.html", new).read_text(encoding="utf-8")
    assert "Is exchangeability plausible?" in page and "do not look exchangeable" in page
    text = res.report(tmp_path / "a.md", new).read_text(encoding="utf-8")
    assert "## Is exchangeability plausible?" in text and "exchangeability.svg" in text
    assert (tmp_path / "a_files" / "exchangeability.svg").is_file()
    for name, rows, options in (
        ("b", None, {}),
        ("c", new.drop(columns="y"), {}),
        ("d", new, {"groups": "g"}),
        ("e", new, {"weights": lambda frame: 1.0 + (frame["x"] > 0)}),
    ):
        page = res.report(tmp_path / f"{name}.html", rows, **options).read_text(encoding="utf-8")
        assert "Is exchangeability plausible?" not in page
