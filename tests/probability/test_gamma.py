import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from tallyfold.probability import gamma

SHAPES = np.array([1e-3, 0.1, 1.0, 7.0, 99.9, 100.1, 1e4, 1e8])
RATES = np.array([1e-6, 3.0, 1e5, 0.5, 2.0, 1.0, 7.0, 1e3])

log_shapes = st.floats(-3, 8)
log_rates = st.floats(-8, 8)


def test_mean_agrees_with_scipy():
    frozen = stats.gamma(SHAPES, scale=1 / RATES)
    np.testing.assert_allclose(gamma.mean(SHAPES, RATES), frozen.mean())


@pytest.mark.parametrize("shape", [0.5, 2.0, 30.0])
def test_geometric_mean_by_quadrature(shape):
    frozen = stats.gamma(shape, scale=1 / 3.0)
    log_mean, _ = integrate.quad(
        lambda u: u * np.exp(frozen.logpdf(np.exp(u)) + u), -60, 8, limit=400
    )
    got = gamma.geometric_mean(np.array(shape), np.array(3.0))
    assert got == pytest.approx(np.exp(log_mean), rel=1e-7)


def test_geometric_mean_of_a_tiny_shape_is_positive():
    assert gamma.geometric_mean(np.array(1e-3), np.array(1.0)) == gamma.TINY


@pytest.mark.parametrize(
    ("a", "b", "a0", "b0"),
    [(2.0, 3.0, 0.5, 1.0), (0.3, 1.0, 0.1, 0.1), (150.0, 2.0, 120.0, 2.2), (5.0, 1e-3, 1.0, 1.0)],
)
def test_kl_by_quadrature(a, b, a0, b0):
    p, q = stats.gamma(a, scale=1 / b), stats.gamma(a0, scale=1 / b0)

    def integrand(u: float) -> float:
        z = np.exp(u)
        return float(np.exp(p.logpdf(z) + u) * (p.logpdf(z) - q.logpdf(z)))

    centre = np.log(a / b)
    expected, _ = integrate.quad(
        integrand, centre - 60 / min(a, 1), centre + 8, limit=2000, points=[centre]
    )
    assert gamma.kl(np.array(a), np.array(b), a0, b0) == pytest.approx(expected, rel=1e-6)


@settings(deadline=None)
@given(log_shapes, log_rates, log_shapes, log_rates)
def test_kl_is_finite_and_not_negative(la, lb, la0, lb0):
    divergence = gamma.kl(10 ** np.array(la), 10 ** np.array(lb), 10.0**la0, 10.0**lb0)
    assert 0 <= divergence < np.inf


@settings(deadline=None)
@given(log_shapes, log_rates, st.floats(1e-6, 1e-2))
def test_kl_of_neighbours_is_the_fisher_information(la, lb, step):
    a, b = 10 ** np.array(la), 10 ** np.array(lb)
    assert gamma.kl(a, b, a, b) == 0
    expected = 0.5 * a * step**2  # the information about ln(rate) is the shape
    assert gamma.kl(a, b, a, b * (1 + step)) == pytest.approx(expected, rel=0.02, abs=1e-12)


def test_kl_of_large_shapes_keeps_its_digits():
    a, a0 = np.array(1e8), 1e8 + 1e4
    expected = 0.5 * 1e8 / 1e16  # (a0 - a)^2 trigamma(a) / 2, with trigamma(a) = 1 / a
    assert gamma.kl(a, np.array(1.0), a0, 1.0) == pytest.approx(1e8 * expected, rel=1e-3)


def test_quantiles_invert_the_cdf():
    for p in (0.05, 0.5, 0.975):
        z = gamma.quantile(p, SHAPES[1:], RATES[1:])
        np.testing.assert_allclose(
            stats.gamma.cdf(z, SHAPES[1:], scale=1 / RATES[1:]), p, rtol=1e-6
        )
    assert gamma.quantile(0.01, np.array(1e-3), np.array(1.0)) == gamma.TINY


@pytest.mark.parametrize("shape", [1e-3, 0.1, 0.999, 1.0, 50.0, 1e8])
def test_draws_follow_the_distribution(shape):
    rng = np.random.default_rng(1)
    log_z = gamma.sample_log(rng, np.array(shape), np.array(2.0), (20_000,))
    assert np.all(np.isfinite(log_z))
    if shape < 0.01:  # a ln z tends to minus an exponential variable
        assert stats.kstest(-shape * log_z, "expon").pvalue > 1e-3
    else:
        z = np.exp(log_z)
        assert stats.kstest(z, stats.gamma(shape, scale=0.5).cdf).pvalue > 1e-3


def test_draws_never_vanish_and_keep_their_shape():
    rng = np.random.default_rng(0)
    z = gamma.sample(rng, np.full((3, 2), 1e-3), np.ones(2), (500,))
    assert z.shape == (500, 3, 2)
    assert z.min() >= gamma.TINY


def test_kl_from_a_prior_of_a_far_smaller_rate():
    """b0 / b below the last digit of one: by the textbook form, whose terms then do not cancel."""
    a, b, a0, b0 = 5.0, 1e12, 1e-3, 1e-10
    expected = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * np.log(b / b0) - a
    assert gamma.kl(np.array(a), np.array(b), a0, b0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("p", [1e-3, 0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("exponents", [(-3, 8), (-2, 1), (0, 0)])
def test_many_quantiles_are_those_of_each_by_itself(p, exponents):
    shape = 10 ** np.random.default_rng(0).uniform(*exponents, (gamma.MANY // 2, 2))
    many = gamma.quantile(p, shape, 2.0)
    assert many.shape == shape.shape
    exact = np.maximum(gamma.exact_unit_quantiles(p, shape) / 2.0, gamma.TINY)
    assert not np.array_equal(many, exact)  # it is another way indeed
    np.testing.assert_allclose(many, exact, rtol=1e-6)
