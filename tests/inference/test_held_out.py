import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.held_out import MOST_DISPERSION, HeldOutCells, Target
from tallyfold.kernels.layout import axis_layout
from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.probability.counts import COUNTS

CALIBRATIONS = [Calibration(), Calibration(0.8, 1.3, 2.5, 0.4), Calibration(2.0, 0.5, 1e-3, 0.0)]


@pytest.fixture(scope="module")
def cells():
    return HeldOutCells(tf.simulate((20, 15, 4), 2, density=0.2, random_state=1).tensor)


def moments_of(cells, seed=0):
    rng = np.random.default_rng(seed)
    mean_N = rng.gamma(1.0, 3.0, len(cells)) + 1e-3
    return mean_N, rng.gamma(1.0, 1.0, len(cells)) * mean_N**2


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize(("family", "truncated"), list(COUNTS))
def test_the_log_pmf_is_that_of_the_predictive_distribution(family, truncated, calibration, cells):
    """Whatever is trained on must be what the fitted model will be scored by."""
    moments, likelihood = moments_of(cells), COUNTS[family, truncated]
    target = Target.at(cells, moments, likelihood, 1.5, calibration)
    mixture = matched_mixture(*moments, likelihood, 1.5, calibration)
    assert np.allclose(target.log_pmf(moments[0]), mixture.log_pmf(cells.counts_N), rtol=1e-10)


def test_a_plain_poisson_is_as_good_as_its_negative_binomial(cells):
    """Rates known for sure leave a Poisson; the target has one form for all."""
    mean_N, likelihood = moments_of(cells)[0], COUNTS["poisson", True]
    sure = (mean_N, np.zeros_like(mean_N))
    target = Target.at(cells, sure, likelihood, None, Calibration())
    assert np.all(target.dispersion_N == MOST_DISPERSION)
    expected = likelihood.log_pmf(cells.counts_N, mean_N)
    assert np.allclose(target.log_pmf(mean_N), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("truncated", [False, True])
def test_the_slope_is_that_of_finite_differences(truncated, calibration, cells):
    likelihood, (mean_N, variance_N) = COUNTS["poisson", truncated], moments_of(cells)
    target = Target.at(cells, (mean_N, variance_N), likelihood, None, calibration)
    step_N = 1e-5 * mean_N
    difference = target.log_pmf(mean_N + step_N) - target.log_pmf(mean_N - step_N)
    # in units of the log rate, so that small rates count as much as large ones
    assert np.allclose(
        target.slope(mean_N) * mean_N, difference / (2 * step_N) * mean_N, rtol=1e-5, atol=1e-6
    )


def test_rates_of_zero_and_beyond_all_measure_stay_finite(cells):
    likelihood, moments = COUNTS["poisson", True], moments_of(cells)
    target = Target.at(cells, moments, likelihood, None, Calibration(1.0, 1.0, 2.0, 1.0))
    for rate in (0.0, 1e-300, 1e12):
        mean_N = np.full(len(cells), rate)
        assert np.all(np.isfinite(target.log_pmf(mean_N)))
        assert np.all(np.isfinite(target.slope(mean_N)))


def test_cells_are_sorted_along_every_axis(cells):
    assert len(cells) == len(cells.counts_N)
    for axis, size in enumerate(cells.shape):
        expected = axis_layout(cells.indices_NM, cells.counts_N, axis, size)
        assert np.array_equal(cells.layouts[axis].order_N, expected.order_N)
