"""New rows with known responses: p-values in pairs, one frame for all of it, fit quality, what is kept."""

import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.optimize import minimize_scalar

import stabconf
from stabconf.errors import InputError
from stabconf.losses import Huber


@pytest.fixture(scope="module")
def half(frame):
    return stabconf.fit("y ~ x1 + g", frame.iloc[::2]), frame.iloc[1::2]


def test_a_p_value_is_that_of_a_refit_with_the_row_at_its_own_response(frame):
    train, new = frame.iloc[:40], frame.iloc[40:50]
    res = stabconf.conformal(smf.ols("y ~ x1 + x2", train).fit())
    made = res.p_values(new)
    for label, row in new.iterrows():
        both = pd.concat([train, row.to_frame().T.infer_objects()])
        size = smf.ols("y ~ x1 + x2", both).fit().resid.abs()
        assert made[label] == pytest.approx(np.mean(size >= size[label] * (1 - 1e-12)))


@pytest.mark.parametrize("options", [{}, {"side": "upper"}, {"groups": "g"}, {"conditional": "~ g"}])
def test_p_values_are_those_of_conformity_row_by_row(half, options):
    res, new = half
    new = new.iloc[:6]
    made = res.p_values(new, **options)
    each = [
        res.conformity(new.iloc[[i]], new["y"].iloc[[i]].tolist(), **options)["p"].iloc[0] for i in range(6)
    ]
    np.testing.assert_allclose(made, each, atol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"side": "lower"}, {"groups": "g"}, {"conditional": "~ g"}, {"method": "exact"}]
)
def test_a_response_is_inside_if_and_only_if_its_p_value_is_larger_than_alpha(half, options):
    res, new = half
    made = res.augment(new, alpha=0.3, **options)
    assert list(made.columns) == [*new.columns, "prediction", "lower", "upper", "actual", "inside", "p"]
    assert (made["inside"] == (made["p"] > 0.3)).all() and 0 < made["inside"].sum() < len(new)
    pd.testing.assert_frame_equal(made[list(new.columns)], new)


def test_bands_have_p_values_too(frame):
    res = stabconf.fit_quantiles("y ~ x1", frame.iloc[::2])
    made = res.augment(frame.iloc[1::2], alpha=0.3)
    assert (made["inside"] == (made["p"] > 0.3)).all()
    with pytest.warns(stabconf.DataWarning, match="1 of 40 bands is very wide"):  # 0.5 is no upper level
        made = res.augment(frame.iloc[1::2], alpha=0.3, pair=(0.05, 0.5))
    assert "p" not in made


def test_augment_leaves_out_what_is_not_known(half, frame):
    res, new = half
    holes = new.iloc[:4].copy()
    holes.iloc[0, holes.columns.get_loc("x1")] = np.nan
    holes.iloc[1, holes.columns.get_loc("y")] = np.nan
    made = res.augment(holes, alpha=0.3)
    assert made["inside"].isna().tolist() == [True, True, False, False]
    assert made["p"].isna().tolist() == [True, True, False, False]
    assert made["prediction"].isna().tolist() == [True, False, False, False]
    assert list(res.augment(new.drop(columns="y")).columns)[-3:] == ["prediction", "lower", "upper"]
    assert "inside" not in res.augment() and len(res.augment()) == res.nobs
    assert "p" not in res.augment(new, alpha=0.3, method="split")
    assert "p" not in res.augment(new, alpha=0.3, scale=lambda rows: np.full(len(rows), 2.0))


def test_p_values_need_new_rows_and_their_responses(half, frame):
    from sklearn.linear_model import LinearRegression

    res, new = half
    with pytest.raises(InputError, match="give them as new"):
        res.p_values(None)
    with pytest.raises(InputError, match="add them, or give response="):
        res.p_values(new.drop(columns="y"))
    assert "p" not in stabconf.fit("y ~ x1", frame, estimator=LinearRegression()).augment(new)


def test_weighted_models_take_weights_of_new_rows(frame):
    data = frame.assign(w=np.linspace(0.5, 2.0, len(frame)))
    res = stabconf.conformal(
        smf.wls("y ~ x1", data.iloc[::2], weights=data["w"].iloc[::2]).fit(), alpha=0.3
    )
    made = res.augment(data.iloc[1::2], wls_weights="w")
    assert (made["inside"] == (made["p"] > 0.3)).all()


# Fit quality -----------------------------------------------------------------------------------------


def pinball(residuals, level):
    return float(np.sum(residuals * (level - (residuals < 0))))


def test_pseudo_r2_is_that_of_statsmodels(frame):
    ols = smf.ols("y ~ x1 + g", frame).fit()
    made = stabconf.conformal(ols).fit_quality
    assert made["pseudo_r2"] == pytest.approx(ols.rsquared)
    assert made["rmse"] == pytest.approx(np.sqrt(ols.ssr / ols.nobs))
    assert made["mae"] == pytest.approx(ols.resid.abs().mean())
    wls = smf.wls("y ~ x1", frame, weights=np.linspace(0.5, 3.0, len(frame))).fit()
    assert stabconf.conformal(wls).fit_quality["pseudo_r2"] == pytest.approx(wls.rsquared)
    fitted = stabconf.fit_quantiles("y ~ x1 + g", frame, quantiles=(0.2, 0.5, 0.9), penalty=0.0)
    for level, found in fitted.fit_quality["pseudo_r2"].items():
        r = smf.quantreg("y ~ x1 + g", frame).fit(q=level, max_iter=5000, p_tol=1e-10).resid.to_numpy()
        y = frame["y"].to_numpy()
        least = min(pinball(y - constant, level) for constant in y)
        assert found == pytest.approx(1 - pinball(r, level) / least, abs=1e-5)


def test_pseudo_r2_of_huber_is_that_of_a_searched_constant(results, frame):
    fitted, y = results._fitted, frame["y"].to_numpy()
    loss = fitted.loss
    assert isinstance(loss, Huber)

    def of(residuals):
        return float(np.sum(loss.value(residuals / fitted.scale)))

    least = minimize_scalar(lambda c: of(y - c), bounds=(y.min(), y.max()), options={"xatol": 1e-10}).fun
    assert results.fit_quality["pseudo_r2"] == pytest.approx(1 - of(results.resid) / least, abs=1e-8)


def test_what_was_fitted_can_be_asked_of_results(results, frame):
    assert results.formula == "y ~ x1 + x2 + g" and results.loss == Huber()
    assert results.penalty.strength == 0.05 and results.scale > 0
    rlm = smf.rlm("y ~ x1", frame, M=sm.robust.norms.HuberT()).fit()
    made = stabconf.conformal(rlm)
    assert made.recipe.scale == rlm.scale and made.formula == "y ~ x1" and made.loss.name == "huber"
    page = results._repr_html_()
    assert "<table" in page and "x1" in page and "Pseudo R-squared" in page


# What is kept ----------------------------------------------------------------------------------------


@pytest.fixture
def counted(frame, monkeypatch):
    res = stabconf.fit("y ~ x1 + g", frame.iloc[::2])
    calls, intervals = [], type(res)._intervals

    def count(self, asked):
        calls.append((asked.method, len(asked.rows)))
        return intervals(self, asked)

    monkeypatch.setattr(type(res), "_intervals", count)
    return res, calls


def test_tables_figures_and_reports_of_the_same_rows_make_intervals_once(counted, frame, tmp_path, figures):
    res, calls = counted
    new = frame.iloc[1::2].copy()
    first = res.width_report(new, alpha=0.2)
    res.plot_intervals(new, alpha=0.2)
    res.plot_widths(new, by="g", alpha=0.2)
    res.report(tmp_path / "r.html", new, alpha=0.2, by="g")
    pd.testing.assert_frame_equal(res.width_report(new, alpha=0.2), first)
    assert calls == [("auto", 40)]


@pytest.mark.parametrize("change", ["values", "alpha", "side", "option", "labels"])
def test_whatever_changes_the_intervals_makes_them_anew(counted, frame, change):
    res, calls = counted
    new = frame.iloc[1::2].copy()
    options = {"alpha": 0.2}
    res.conf_int_conformal(new, **options)
    if change == "values":
        new.iloc[0, new.columns.get_loc("x1")] += 1e-9
    elif change == "labels":
        new.index = [f"other{i}" for i in range(len(new))]
    else:
        options |= {"alpha": {"alpha": 0.3}, "side": {"side": "upper"}, "option": {"groups": "g"}}[change]
    made = res.conf_int_conformal(new, **options)
    assert len(calls) == 2 and made.index.equals(new.index)


def test_functions_and_arrays_are_never_taken_for_known(counted, frame):
    res, calls = counted
    new = frame.iloc[1:9:2]
    size = [1.0]
    wide = [
        res.conf_int_conformal(new, alpha=0.2, scale=lambda rows: size[0] + 0.1 * (rows["g"] == "a"))
        for size[0] in (1.0, 5.0)
    ]
    assert len(calls) == 2 and not wide[0].equals(wide[1])


def test_few_calls_are_kept_and_none_is_pickled(counted, frame):
    res, _ = counted
    for alpha in (0.2, 0.25, 0.3, 0.35, 0.4, 0.45):
        res.conf_int_conformal(frame.iloc[:10], alpha=alpha)
    assert len(res._kept) == 4
    assert len(pickle.loads(pickle.dumps(res))._kept) == 0


def test_a_summary_makes_twenty_intervals_and_says_so(counted, frame):
    res, calls = counted
    text = str(res.summary())
    assert calls == [("auto", 20)] and "at 20 of the training points" in text
    assert "Stable width" not in text and "Stable width" in str(res.summary(details=True))
