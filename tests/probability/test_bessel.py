import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from tallyfold.probability import bessel


@pytest.mark.parametrize("a", [0.01, 0.1, 1.0, 3.0, 400.0])
def test_means_and_sums_are_those_of_all_terms(a):
    x = 10.0 ** np.linspace(-9, 7, 60)
    number = np.arange(5000)[:, None]
    terms = number * np.log(x) - gammaln(number + 1) - gammaln(a + number) + gammaln(a)
    log_sum = logsumexp(terms, axis=0)
    mean = (number * np.exp(terms - log_sum)).sum(axis=0)
    np.testing.assert_allclose(bessel.mean(a, x), mean, rtol=1e-8)
    np.testing.assert_allclose(bessel.log_sum(a, x), log_sum, rtol=1e-7, atol=2e-8)


def test_nothing_is_nan_at_the_ends():
    x = np.array([0.0, 1e-300, 1e30])
    for found in (bessel.mean(0.1, x), bessel.log_sum(0.1, x)):
        assert np.isfinite(found).all()
        assert found[0] == pytest.approx(0, abs=1e-8)
