"""Responses beyond the range of the training ones left out, by choice: sets, guarantee, coverage."""

import numpy as np
import pandas as pd
import pytest
from problems import exact, plain_fits

import stabconf
from stabconf import InputError, InputTypeError
from stabconf.losses import LAD
from stabconf.sets import cut


def sample(seed, n, m=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.standard_normal(n + m), "g": np.arange(n + m) % 2})
    frame["y"] = frame["x"] + rng.standard_t(2, n + m)
    return frame.iloc[:n], frame.iloc[n:]


@pytest.mark.parametrize("side", ["two-sided", "upper", "lower"])
def test_sets_are_those_of_the_method_within_the_range_of_the_responses(side):
    train, new = sample(1, 40, 12)
    low, high = train["y"].min(), train["y"].max()
    band = stabconf.fit_quantiles("y ~ x", train, quantiles=(0.2, 0.8))
    res = stabconf.fit("y ~ x", train, loss="huber", penalty=0.1)
    asked = [(band, {})]
    asked += [(res, {"method": name}) for name in ("exact", "split", "cv+", "root")]
    asked += [(res, {"method": "stable", "inner": True}), (res, {"method": "exact", "groups": "g"})]
    for results, options in asked:
        plain = results.conf_int_conformal(new, alpha=0.1, side=side, **options)
        kept = results.conf_int_conformal(new, alpha=0.1, side=side, in_range=True, **options)
        for start in ("", "inner_") if options.get("inner") else ("",):
            below, above = (plain[f"{start}{name}"] for name in ("lower", "upper"))
            lower = below if side == "upper" else np.maximum(below, low)
            upper = above if side == "lower" else np.minimum(above, high)
            empty = ~(lower <= upper)
            assert kept[f"{start}lower"].equals(lower.mask(empty).rename(f"{start}lower"))
            assert kept[f"{start}upper"].equals(upper.mask(empty).rename(f"{start}upper"))
        lost = (2 if side == "two-sided" else 1) / (21 if "groups" in options else 41)
        assert f"less {lost:.2g} for responses beyond" in kept.attrs["guarantee"]
        assert kept.attrs["in_range"] and not plain.attrs["in_range"]


def test_pieces_are_cut_and_those_beyond_are_dropped():
    """Duality gaps leave pieces on all sides of the responses that were tried."""
    train, new = sample(2, 40, 3)
    res = stabconf.fit("y ~ x", train, loss="squared", penalty=0.1)
    given = {"alpha": 0.2, "method": "batch", "bound": "dual", "z_hat": [-30.0, 30.0]}
    with pytest.warns(stabconf.StabilityWarning):
        plain = res.conf_int_conformal(new, **given)
    kept = res.conf_int_conformal(new, in_range=True, **given)
    low, high = train["y"].min(), train["y"].max()
    assert plain.attrs["pieces"]
    for label, ends in kept.iterrows():
        found = plain.attrs["pieces"].get(label, [tuple(plain.loc[label, ["lower", "upper"]])])
        inside = [(max(a, low), min(b, high)) for a, b in found if a <= high and b >= low]
        assert (ends["lower"], ends["upper"]) == (inside[0][0], inside[-1][1])
        assert kept.attrs["pieces"].get(label, inside) == inside


def test_infinite_intervals_become_the_range_and_the_warning_says_so():
    train, new = sample(3, 8)
    res = stabconf.fit("y ~ x", train, loss="lad", penalty=0.1)
    with pytest.warns(stabconf.SampleSizeWarning, match="the intervals are the whole range"):
        ends = res.conf_int_conformal(new, alpha=0.05, in_range=True)
    assert ends.to_numpy().tolist() == [[train["y"].min(), train["y"].max()]]


def test_coverage_is_less_by_no_more_than_two_in_n_plus_one():
    n, alpha, draws = 9, 0.1, 600
    rng = np.random.default_rng(4)
    inside = kept = 0
    for _ in range(draws):
        X = np.column_stack([np.ones(n + 1), rng.standard_normal(n + 1)])
        y = X[:, 1] + rng.standard_t(2, n + 1)
        (made,) = exact(plain_fits(X[:n], y[:n], LAD(), 0.1 * n), X[n:], [alpha])
        within = cut(made, y[:n], n)
        inside += made.lower[0] <= y[n] <= made.upper[0]
        kept += within.lower[0] <= y[n] <= within.upper[0]
    error = 3.0 * np.sqrt(0.25 / draws)
    assert inside / draws >= 1 - alpha - error
    assert 1 - alpha - 2 / (n + 1) - error <= kept / draws < inside / draws


def test_what_cannot_be_cut_is_refused():
    train, new = sample(5, 30)
    res = stabconf.fit("y ~ x", train, loss="huber", penalty=0.1)
    for options, error, message in (
        ({"in_range": 1}, InputTypeError, "in_range=1 is not a flag"),
        ({"in_range": True, "weights": "g"}, InputError, "drop one of them"),
        ({"in_range": True, "conditional": "~ x", "alpha": 0.3}, InputError, "drop one of them"),
    ):
        with pytest.raises(error, match=message):
            res.conf_int_conformal(new.assign(g=1), **options)
