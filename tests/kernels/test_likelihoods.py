import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from tallyfold.kernels import LIKELIHOODS, cell_bound
from tallyfold.kernels.fused import exposure
from tallyfold.kernels.likelihoods import (
    expected_exposure,
    likelihood_code,
    log_normaliser,
    log_rising,
)

RATES = 10.0 ** np.arange(-12, 6.5, 0.25)


def log_pmf(likelihood: str, y: int, rate: float, r: float) -> float:
    family = stats.poisson(rate) if "poisson" in likelihood else stats.nbinom(r, r / (r + rate))
    log_seen = np.log(family.sf(0)) if likelihood.startswith("truncated") else 0.0
    return float(family.logpmf(y) - log_seen)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("y", [1, 2, 30])
@pytest.mark.parametrize("rate", [0.01, 1.0, 20.0])
def test_with_equal_means_the_bound_is_the_log_pmf(likelihood, backend, y, rate):
    factors = [np.full((1, 2), 0.5), np.full((1, 2), rate)]
    bound = cell_bound(
        factors,
        factors,
        np.array([[0, 0]]),
        np.array([y]),
        likelihood=likelihood,
        dispersion=0.7,
        backend=backend,
    )
    assert bound == pytest.approx(log_pmf(likelihood, y, rate, 0.7), rel=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("r", [0.05, 1.0, 1e5])
def test_exposure_is_the_slope_of_the_normaliser(likelihood, r):
    y, step = np.full_like(RATES, 3.0), 1e-4 * RATES
    rise = log_normaliser(likelihood, RATES + step, y, r) - log_normaliser(
        likelihood, RATES - step, y, r
    )
    slope = expected_exposure(likelihood, RATES, y, np.full_like(RATES, r))
    np.testing.assert_allclose(rise / (2 * step), slope, rtol=1e-5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("r", [1e-3, 0.05, 1.0, 1e6])
def test_compiled_forms_are_accurate_at_any_rate(likelihood, r):
    code, y = likelihood_code(likelihood), 2.0
    full = np.full_like(RATES, r)
    slope = [exposure.exposure((code, r), rate, y) for rate in RATES]
    np.testing.assert_allclose(
        slope, expected_exposure(likelihood, RATES, y + 0 * RATES, full), rtol=1e-11
    )
    total = [exposure.normaliser((code, r), rate, y) for rate in RATES]
    np.testing.assert_allclose(
        total, log_normaliser(likelihood, RATES, y + 0 * RATES, r), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("r", [0.01, 3.0, 99.0, 101.0, 1e4])
def test_log_rising_agrees_with_gammaln(r):
    y = np.array([0.0, 1.0, 5.0, 1000.0])
    expected = gammaln(r + y) - gammaln(r) - y * np.log(r)
    np.testing.assert_allclose(log_rising(r, y), expected, rtol=1e-9, atol=1e-9)


def test_log_rising_has_no_cancellation():
    assert log_rising(1e12, np.array([10.0]))[0] == pytest.approx(45e-12, rel=1e-2)


def test_a_huge_count_needs_no_huge_table():
    factors = [np.ones((1, 1)), np.full((1, 1), 1e12)]
    counts = np.array([10**12])
    bound = cell_bound(factors, factors, np.array([[0, 0]]), counts)
    assert bound == pytest.approx(stats.poisson.logpmf(10**12, 1e12), abs=0.1)
