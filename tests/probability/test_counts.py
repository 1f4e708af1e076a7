import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tallyfold.errors import CountError, ParameterError
from tallyfold.kernels import LIKELIHOODS
from tallyfold.probability import COUNTS, CountLikelihood

RATES = 10.0 ** np.arange(-12.0, 8.5, 1.0)
every = pytest.mark.parametrize("likelihood", COUNTS.values(), ids=lambda c: c.name)
patient = settings(deadline=None, max_examples=50)
rates = st.floats(-12, 3).map(lambda x: 10.0**x)
dispersions = st.floats(-3, 6).map(lambda x: 10.0**x)


def scipy_family(likelihood: CountLikelihood, rate, r):
    return stats.nbinom(r, r / (r + rate)) if likelihood.dispersed else stats.poisson(rate)


def test_kernels_and_probability_use_the_same_words():
    assert sorted(likelihood.name for likelihood in COUNTS.values()) == sorted(LIKELIHOODS)


@every
@pytest.mark.parametrize("r", [0.1, 2.0, 50.0])
def test_log_pmf_agrees_with_scipy(likelihood, r):
    y = np.array([1, 2, 7, 40])[:, None]
    rate = np.array([0.01, 1.0, 30.0])
    family = scipy_family(likelihood, rate, r)
    expected = family.logpmf(y) - (np.log(family.sf(0)) if likelihood.truncated else 0)
    np.testing.assert_allclose(likelihood.log_pmf(y, rate, r), expected, rtol=1e-10)


@every
@patient
@given(rates, dispersions)
def test_pmf_sums_to_one_and_gives_the_mean(likelihood, rate, r):
    top = likelihood.quantile(1 - 1e-12, rate, r)
    if top > 20_000:
        return
    y = np.arange(top + 50)
    pmf = np.exp(likelihood.log_pmf(y, rate, r))
    assert pmf.sum() == pytest.approx(1, abs=1e-9)
    assert (y * pmf).sum() == pytest.approx(float(likelihood.mean(rate, r)), rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(np.cumsum(pmf), likelihood.cdf(y, rate, r), atol=1e-9)


@every
@patient
@given(rates, dispersions, st.integers(-2, 1000))
def test_cdf_rises_and_complements_sf(likelihood, rate, r, y):
    low, high = likelihood.cdf([y, y + 1], rate, r)
    assert 0 <= low <= high <= 1
    assert low + likelihood.sf(y, rate, r) == pytest.approx(1, abs=1e-12)
    assert likelihood.cdf(likelihood.lowest - 1, rate, r) == 0


@every
@patient
@given(st.floats(-12, 8).map(lambda x: 10.0**x), dispersions, st.floats(0, 1 - 1e-9))
def test_quantile_is_the_inverse_of_the_cdf(likelihood, rate, r, p):
    y = likelihood.quantile(p, rate, r)
    assert likelihood.cdf(y, rate, r) >= p - 1e-12
    if y > likelihood.lowest:
        assert likelihood.cdf(y - 1, rate, r) < p + 1e-12


@every
@pytest.mark.parametrize("r", [1e-3, 1.0, 1e6])
def test_every_rate_gives_finite_answers(likelihood, r):
    y = np.array([1, 3, 10**4, 10**8])[:, None]
    for result in (
        likelihood.log_pmf(y, RATES, r),
        likelihood.cdf(y, RATES, r),
        likelihood.sf(y, RATES, r),
        likelihood.mean(RATES, r),
    ):
        assert np.all(np.isfinite(result))
    assert np.all(likelihood.median(RATES, r) >= likelihood.lowest)
    assert np.all(likelihood.sample(np.random.default_rng(0), RATES, r) >= likelihood.lowest)


def test_large_rates_keep_their_digits():
    # At y = rate the log pmf is -ln(2 pi rate) / 2 - 1 / (12 rate), up to rate**-3.
    expected = -0.5 * np.log(2 * np.pi * 1e8) - 1 / 12e8
    assert COUNTS["poisson", False].log_pmf(1e8, 1e8) == pytest.approx(expected, abs=1e-13)
    near = COUNTS["negative-binomial", False].log_pmf(1e4, 1e4, 1e15)
    assert near == pytest.approx(float(COUNTS["poisson", False].log_pmf(1e4, 1e4)), abs=1e-10)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_truncation_at_a_vanishing_rate_leaves_a_one(family):
    truncated = COUNTS[family, True]
    for rate in (0.0, 1e-300, 1e-12):
        assert truncated.log_pmf(1, rate, 2.0) == pytest.approx(0, abs=1e-11)
        assert truncated.mean(rate, 2.0) == pytest.approx(1)
        assert truncated.median(rate, 2.0) == 1
    relative = np.exp(truncated.log_pmf(2, 1e-12, 2.0)) / 1e-12
    assert relative == pytest.approx(0.5 if family == "poisson" else 0.75, rel=1e-9)


@every
def test_off_the_support_the_log_pmf_is_minus_infinity(likelihood):
    off = np.array([-1.0, 0.5, np.inf])
    assert np.all(likelihood.log_pmf(off, 1.0, 1.0) == -np.inf)
    assert (likelihood.log_pmf(0, 1.0, 1.0) == -np.inf) == likelihood.truncated


@every
@pytest.mark.parametrize(("rate", "r"), [(0.05, 0.2), (1.0, 1.0), (4.0, 0.3), (50.0, 20.0)])
def test_draws_follow_the_pmf(likelihood, rate, r):
    rng = np.random.default_rng(3)
    draws = likelihood.sample(rng, np.full(40_000, rate), r)
    assert draws.min() >= likelihood.lowest
    edges = np.unique(likelihood.quantile(np.linspace(0.05, 0.95, 15), rate, r))
    cdf = np.concatenate([[0.0], likelihood.cdf(edges, rate, r), [1.0]])
    bins = np.concatenate([[-1], edges, [draws.max() + 1]]) + 0.5
    mass = np.diff(cdf)
    seen = np.histogram(draws, bins)[0]
    assert np.all(seen[mass < 1e-12] == 0)
    keep = mass >= 1e-12
    assert stats.chisquare(seen[keep], mass[keep] * len(draws)).pvalue > 1e-4


def test_results_broadcast():
    likelihood = COUNTS["negative-binomial", True]
    assert likelihood.log_pmf(np.ones((3, 1)), np.ones(4), 1.0).shape == (3, 4)
    assert likelihood.quantile([0.1, 0.9], [[1.0], [2.0], [3.0]], 1.0).shape == (3, 2)
    assert likelihood.sample(np.random.default_rng(0), np.ones((2, 5)), 0.5).shape == (2, 5)


def test_refuses_what_makes_no_sense():
    with pytest.raises(ParameterError, match="family"):
        CountLikelihood("gauss", False)
    with pytest.raises(ParameterError, match="`r`"):
        COUNTS["negative-binomial", True].mean(1.0)
    with pytest.raises(ParameterError, match="`p`"):
        COUNTS["poisson", True].quantile(1.0, 1.0)


@pytest.mark.parametrize("likelihood", COUNTS.values(), ids=lambda each: each.name)
def test_counts_past_64_bits_cannot_be_drawn(likelihood):
    rng = np.random.default_rng(0)
    assert likelihood.sample(rng, [1e15, 1.0], r=1.0).min() >= likelihood.lowest
    with pytest.raises(CountError, match=r"below about 9e18; got one of 1e\+25"):
        likelihood.sample(rng, [1e25, 1.0], r=1.0)
