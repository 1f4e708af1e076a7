"""A zero or a count of at least one: everything against the pmf, count by count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.probability.test_categorical import FAR, made

from tallyfold.errors import ParameterError
from tallyfold.probability.hurdle import HurdleCounts

ZERO = np.array([0.05, 0.3, 0.6, 0.99])


def hurdle(kind, seed=0):
    return HurdleCounts(np.log(ZERO), made(kind, seed))


def values_of(kind):
    return np.arange(6 if kind == "scale" else FAR)


def pmf_by_count(counts, kind):
    return np.exp([counts.log_pmf(y) for y in values_of(kind)])


@pytest.mark.parametrize("kind", ["scale", "wide"])
def test_the_pmf_sums_to_one_and_has_its_share_of_zeros(kind):
    counts = hurdle(kind)
    pmf = pmf_by_count(counts, kind)
    assert pmf[0] == pytest.approx(ZERO, rel=1e-14)
    beyond = 0.0 if kind == "scale" else np.exp(counts.log_at_least(FAR))
    assert pmf.sum(axis=0) + beyond == pytest.approx(np.ones(4), abs=1e-11)


@pytest.mark.parametrize("kind", ["scale", "wide"])
def test_cdf_tails_quantiles_and_mean_agree_with_the_pmf(kind):
    counts = hurdle(kind)
    values, summed = values_of(kind), np.cumsum(pmf_by_count(counts, kind), axis=0)
    for y in values[:60]:
        assert counts.cdf(y) == pytest.approx(summed[y], abs=1e-11)
        assert np.exp(counts.log_at_most(y)) == pytest.approx(summed[y], abs=1e-11)
        if y > 0:
            assert np.exp(counts.log_at_least(y)) == pytest.approx(1 - summed[y - 1], abs=1e-11)
    assert counts.cdf(-1).tolist() == [0.0] * 4
    assert counts.log_at_least(0).tolist() == [0.0] * 4
    for p in np.linspace(0.0005, 0.9605, 33):
        assert counts.quantile(p).tolist() == values[(summed < p).sum(axis=0)].tolist()
    low, high = counts.interval(0.8)
    assert low.tolist() == values[(summed < 0.1).sum(axis=0)].tolist()
    assert high.tolist() == values[(summed < 0.9).sum(axis=0)].tolist()
    assert counts.median().tolist() == values[(summed < 0.5).sum(axis=0)].tolist()
    assert counts.mean() == pytest.approx((1 - ZERO) * counts.positive.mean(), rel=1e-12)


def test_samples_have_the_shares_of_the_pmf():
    counts = hurdle("scale")
    draws = counts.sample(np.random.default_rng(0), 6_000)
    shares = np.stack([(draws == y).mean(axis=0) for y in range(6)])
    assert shares == pytest.approx(pmf_by_count(counts, "scale"), abs=0.026)


@given(st.floats(0, 1, exclude_max=True), st.sampled_from(["scale", "open", "wide"]))
def test_any_quantile_reaches_its_probability_and_the_count_below_does_not(p, kind):
    counts = hurdle(kind)
    found = counts.quantile(p)
    assert np.all(counts.cdf(found) >= p - 1e-12)
    assert np.all((counts.cdf(found - 1) <= p + 1e-12) | (found == 0))
    assert kind != "scale" or found.max() <= 5


def test_zeros_that_are_all_but_sure_do_no_harm():
    counts = HurdleCounts(np.array([0.0, -1e-18, -1e-9, -1e9]), made("open"))
    assert counts.median().tolist()[:3] == [0, 0, 0]
    assert counts.median()[3] == counts.positive.median()[3]
    assert np.all(np.isfinite(counts.log_pmf(2)))
    assert np.all(np.isfinite(counts.mean()))
    assert counts.log_at_least(1)[2] == pytest.approx(np.log(1e-9), rel=1e-6)


def test_its_parts_are_what_it_was_made_of():
    counts = hurdle("open")
    assert counts.given_positive() is counts.positive
    assert counts.with_zeros() is counts
    with pytest.raises(ParameterError, match="`p` must be"):
        counts.quantile(1.0)
