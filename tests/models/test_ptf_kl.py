import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from tallyfold.errors import ParameterError


def matched_correlations(found, true):
    """Correlate columns of two factor matrices, paired as well as possible."""
    k = true.shape[1]
    table = np.corrcoef(found.T, true.T)[:k, k:]
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns]


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_factors_of_simulated_counts_are_recovered(zeros):
    truth = tf.simulate((50, 40, 30), 3, prior_shape=0.3, density=0.3, random_state=5)
    fits = [
        tf.PTFKL(n_components=3, zeros=zeros, validation=None, max_iter=25, random_state=seed).fit(
            truth.tensor
        )
        for seed in range(2)
    ]
    best = min(fits, key=lambda model: model.history_["objective"].iloc[-1])
    for name, factor in zip(truth.tensor.names, truth.factors, strict=True):
        assert matched_correlations(best.posterior_.mean(name), factor).min() > 0.9


def test_it_beats_a_constant_and_predicts_counts():
    train, test = tf.split(tf.simulate((60, 50, 20), 3, density=0.2, random_state=1).tensor)
    model, floor = tf.PTFKL(n_components=3).fit(train), tf.Constant().fit(train)
    assert model.score(test) > floor.score(test) + 0.05
    errors = [np.abs(m.predict(test) - test.counts).mean() for m in (model, floor)]
    assert errors[0] < errors[1]
    low, high = model.interval(test, 0.9).T
    assert 0.85 <= np.mean((test.counts >= low) & (test.counts <= high)) <= 1


def test_it_says_that_it_converged():
    tensor = tf.simulate((12, 10, 8), 2, density=0.3, random_state=0).tensor
    model = tf.PTFKL(n_components=2, zeros="observed", max_iter=2000).fit(tensor)
    assert model.converged_
    assert model.n_iter_ < 2000
    assert not tf.PTFKL(n_components=2, zeros="observed", max_iter=2).fit(tensor).converged_


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_entities_without_a_cell(zeros):
    axes = [tf.Axis.numbered("a", 6), tf.Axis.numbered("b", 5)]
    cells = [[i, j] for i in range(4) for j in range(4)]
    tensor = tf.CountTensor(axes, cells, np.arange(1, 17))
    model = tf.PTFKL(n_components=2, zeros=zeros, max_iter=50).fit(tensor)
    rate = model.rate(np.array([[0, 0], [5, 0], [5, 4]]))
    if zeros == "observed":  # they were seen, and had nothing
        assert np.array_equal(rate[1:], [1e-10, 1e-10])
        assert np.isfinite(model.predictive(np.array([[5, 0]])).log_pmf(np.array([3]))).all()
    else:  # nothing is known of them: an average entity
        known = model.rate(np.array([[i, 0] for i in range(4)]))
        assert rate[1] == pytest.approx(known.mean())
    assert np.all(np.isfinite(model.posterior_.mean("a")))


def test_the_total_rate_is_the_total_count_with_observed_zeros():
    """A property of the maximum of a Poisson likelihood."""
    tensor = tf.simulate((12, 10, 8), 2, density=0.3, random_state=0).tensor
    model = tf.PTFKL(n_components=2, zeros="observed").fit(tensor)
    sums = [model.posterior_.mean(name).sum(axis=0) for name in tensor.names]
    assert np.prod(sums, axis=0).sum() == pytest.approx(tensor.counts.sum(), rel=1e-6)


def test_truncation_goes_with_missing_zeros():
    tensor = tf.simulate((12, 10, 8), 2, density=0.3, random_state=0).tensor
    assert tf.PTFKL(max_iter=2).fit(tensor).fitted_.likelihood.truncated
    assert not tf.PTFKL(max_iter=2, truncated=False).fit(tensor).fitted_.likelihood.truncated
    with pytest.raises(ParameterError, match="must be a plain Poisson"):
        tf.PTFKL(zeros="observed", truncated=True).fit(tensor)
