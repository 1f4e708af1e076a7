import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from tallyfold.errors import ParameterError, ShapeError
from tallyfold.probability import COUNTS, CountMixture
from tallyfold.probability import mixture as mixture_module
from tallyfold.probability.log_mean import log_mean

every = pytest.mark.parametrize("likelihood", COUNTS.values(), ids=lambda c: c.name)


def make(likelihood, n_draws=7, n_cells=30, seed=0):
    rng = np.random.default_rng(seed)
    rate_SN = rng.gamma(0.5, 2.0, (n_draws, n_cells)) * 10.0 ** rng.uniform(-3, 2, n_cells)
    r = rng.gamma(2.0, 1.0, (n_draws, 1)) if likelihood.dispersed else None
    return CountMixture(likelihood, rate_SN, r)


@every
def test_log_pmf_is_the_log_of_the_average_pmf(likelihood):
    mixture = make(likelihood)
    y = np.arange(30) % 6
    pmf = np.exp(likelihood.log_pmf(y, mixture.rate_SN, mixture.r)).mean(axis=0)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(mixture.log_pmf(y), np.log(pmf), rtol=1e-10)


@every
def test_blocks_change_nothing(likelihood, monkeypatch):
    mixture = make(likelihood)
    whole = [mixture.log_pmf(2), mixture.cdf(3), mixture.mean(), mixture.quantile(0.7)]
    monkeypatch.setattr(mixture_module, "BLOCK", 30)
    parts = [mixture.log_pmf(2), mixture.cdf(3), mixture.mean(), mixture.quantile(0.7)]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@every
@settings(deadline=None, max_examples=50)
@given(st.floats(0, 1 - 1e-9), st.integers(0, 20))
def test_quantile_inverts_the_mixture_cdf(likelihood, p, seed):
    mixture = make(likelihood, n_cells=8, seed=seed)
    y = mixture.quantile(p)
    assert np.all(mixture.cdf(y) >= p - 1e-10)
    assert np.all((y == likelihood.lowest) | (mixture.cdf(y - 1) < p + 1e-10))


@every
def test_one_draw_is_the_likelihood_itself(likelihood):
    mixture = make(likelihood, n_draws=1)
    rate, r = mixture.rate_SN[0], None if mixture.r is None else mixture.r[0]
    np.testing.assert_array_equal(mixture.median(), likelihood.median(rate, r))
    np.testing.assert_allclose(mixture.mean(), likelihood.mean(rate, r))


@every
def test_intervals_cover_what_they_promise(likelihood):
    mixture = make(likelihood)
    low, high = mixture.interval(0.9)
    inside = mixture.cdf(high) - mixture.cdf(low - 1)
    assert np.all(inside >= 0.9 - 1e-9)
    assert np.all(low <= mixture.median())
    assert np.all(mixture.median() <= high)


@every
def test_draws_follow_the_mixture(likelihood):
    mixture = make(likelihood, n_draws=3, n_cells=4)
    draws = mixture.sample(np.random.default_rng(2), 20_000)
    assert draws.shape == (20_000, 4)
    for y in (1, 2, 5):
        seen = (draws <= y).sum(axis=0)
        for count, p in zip(seen, mixture.cdf(y), strict=True):
            assert stats.binomtest(int(count), 20_000, float(min(p, 1.0))).pvalue > 1e-5


def test_far_counts_are_found_by_bisection():
    mixture = CountMixture(COUNTS["poisson", False], np.array([[1e7, 5.0], [2e7, 5.0]]))
    np.testing.assert_array_equal(mixture.quantile(0.25)[0], stats.poisson.ppf(0.5, 1e7))


def test_no_cells_and_bad_input():
    empty = CountMixture(COUNTS["poisson", True], np.ones((3, 0)))
    assert empty.log_pmf([]).shape == empty.median().shape == empty.mean().shape == (0,)
    with pytest.raises(ShapeError):
        CountMixture(COUNTS["poisson", True], np.ones(3))
    with pytest.raises(ParameterError, match="`r`"):
        CountMixture(COUNTS["negative-binomial", True], np.ones((2, 2))).mean()
    with pytest.raises(ParameterError, match="level"):
        make(COUNTS["poisson", True]).interval(1.0)
    with pytest.raises(ParameterError, match="`p`"):
        make(COUNTS["poisson", True]).quantile(-0.1)


@pytest.mark.parametrize("shape", [(1, 5), (7, 40), (16, 1)])
def test_a_log_mean_has_the_bits_of_scipy(shape):
    log_SN = np.random.default_rng(0).normal(0, 30, shape).round(1)
    log_SN[-1, 0] = -np.inf
    expected = special.logsumexp(log_SN, axis=0) - np.log(len(log_SN))
    assert np.array_equal(log_mean(log_SN), expected)
