"""Fisher information of counts and factors, against brute force."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.information import (
    NO_LIMIT,
    cells_information,
    count_information,
    widened,
)
from tallyfold.probability.counts import COUNTS


def brute_force(rate, family, truncated, r):
    """The variance of the score in the log rate, by summing over counts."""
    likelihood = COUNTS[family, truncated]
    y, step = np.arange(int(truncated), 4000), 1e-5
    upper = likelihood.log_pmf(y, np.full(len(y), rate * np.exp(step)), r)
    lower = likelihood.log_pmf(y, np.full(len(y), rate * np.exp(-step)), r)
    score = (upper - lower) / (2 * step)
    return float(np.exp(likelihood.log_pmf(y, np.full(len(y), rate), r)) @ score**2)


@pytest.mark.parametrize("rate", [0.01, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("r", [None, 0.4, 7.0])
def test_information_of_a_count_is_the_variance_of_its_score(rate, truncated, r):
    family = "poisson" if r is None else "negative-binomial"
    expected = brute_force(rate, family, truncated, 1.0 if r is None else r)
    found = count_information(np.array([rate]), truncated, r)[0]
    assert found == pytest.approx(expected, rel=1e-4)


def test_almost_nothing_is_told_by_a_count_that_is_always_one():
    assert count_information(np.array([1e-9]), True, None)[0] < 1e-8
    assert np.all(np.isfinite(count_information(np.array([0.0, 1e12]), True, 0.5)))


def test_information_of_factors_is_that_of_the_full_matrix():
    rng = np.random.default_rng(0)
    means = [rng.gamma(1.0, size=(size, 3)) for size in (4, 5, 6)]
    cells_NM = np.asfortranarray(
        np.stack([rng.integers(0, size, 80) for size in (4, 5, 6)], axis=1).astype(np.int32)
    )
    cells = TrainingCells.of((4, 5, 6), cells_NM, rng.integers(1, 5, 80))
    _, found = cells_information(
        means, cells, np.full(80, 1.5), COUNTS["poisson", True], None, 0.7, range(3), "numpy"
    )
    product_NK = np.prod([f[cells_NM[:, m]] for m, f in enumerate(means)], axis=0)
    share_NK = product_NK / product_NK.sum(axis=1, keepdims=True)
    told_N = count_information(1.5 * product_NK.sum(axis=1), True, None)
    for axis, size in enumerate((4, 5, 6)):
        for entity in range(size):
            own = cells_NM[:, axis] == entity
            matrix = 0.7 * np.eye(3) + (share_NK[own].T * told_N[own]) @ share_NK[own]
            expected = 1 / np.diag(np.linalg.inv(matrix)) - 0.7
            np.testing.assert_allclose(found[axis][entity], expected, rtol=1e-8, atol=1e-12)


def test_widening_keeps_means_and_never_narrows():
    shape, rate = np.array([50.0, 3.0]), np.array([10.0, 2.0])
    wide, wide_rate = widened(shape, rate, np.array([4.0, NO_LIMIT]), 1.0)
    np.testing.assert_allclose(wide / wide_rate, shape / rate)
    assert wide.tolist() == [5.0, 3.0]


def test_intervals_of_rates_cover_the_truth_where_mean_field_does_not():
    truth = tf.simulate((60, 50, 40), 3, prior_shape=0.5, density=0.5, random_state=0)
    model = tf.VAEBPTF(n_components=3, prior_shape=0.5, interactions="none").fit(truth.tensor)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 2000) for size in truth.tensor.shape], axis=1)
    true = truth.rate(cells)

    def coverage(factors):
        draws = [
            np.prod([f[cells[:, m]] for m, f in enumerate(drawn)], axis=0).sum(axis=1)
            for drawn in factors.draws(100, np.random.default_rng(1))
        ]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        return np.mean((true >= low) & (true <= high))

    assert 0.78 < coverage(model.posterior_) < 0.97
    assert coverage(model.fitted_.factors) < 0.7
