import numpy as np
import pytest

from tallyfold.inference.paper_encoders.reweighting import (
    ERROR_RANGE,
    distance_weights,
    error_weights,
    most_frequent,
    pearson_errors,
)
from tallyfold.probability.counts import COUNTS


def test_the_papers_formula():
    weights = distance_weights(np.array([5, 4, 3, 1]), typical=5, theta=3.0, eta=10.0)
    expected = [1 / 11, 1 / (1 + 10 * np.exp(-3)), 1 / (1 + 10 * np.exp(-12)), 1.0]
    assert weights == pytest.approx(expected, rel=1e-9)


def test_a_weight_grows_with_the_distance_on_both_sides():
    weights = distance_weights(np.arange(1, 12), typical=6, theta=0.1, eta=50.0)
    assert np.all(np.diff(weights[5:]) > 0)
    assert weights[::-1] == pytest.approx(weights)


def test_counts_far_away_do_no_harm():
    assert distance_weights(np.array([2**52]), 1, 10.0, 50.0).tolist() == [1.0]


@pytest.mark.parametrize(("counts", "typical"), [([1, 1, 2], 1), ([5, 4, 5], 5), ([3, 2, 2, 3], 2)])
def test_the_most_frequent_count(counts, typical):
    assert most_frequent(*np.unique(counts, return_counts=True)) == typical


def test_errors_are_relative_to_the_spread():
    plain = pearson_errors(np.array([1, 9]), np.array([4.0, 4.0]), COUNTS["poisson", False])
    assert plain.tolist() == [1.5, 2.5]
    truncated = pearson_errors(np.array([1]), np.array([1e-9]), COUNTS["poisson", True])
    assert truncated == pytest.approx([0.0], abs=1e-6)


def test_weights_by_error_are_bounded_and_about_one():
    rng = np.random.default_rng(0)
    error = rng.exponential(1.0, 10_000) ** 3
    weights = error_weights(error)
    assert weights.min() >= ERROR_RANGE[0]
    assert weights.max() <= ERROR_RANGE[1]
    assert weights.mean() == pytest.approx(1.0, abs=0.2)
    assert np.all(np.diff(weights[np.argsort(error)]) >= 0)
    assert error_weights(np.ones(5)).tolist() == [1.0] * 5
    assert np.all(np.isfinite(error_weights(np.zeros(5))))
