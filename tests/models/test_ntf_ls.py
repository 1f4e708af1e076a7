import numpy as np
import pytest
from tests.models.test_ptf_kl import matched_correlations

import tallyfold as tf
from tallyfold.errors import ParameterError


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((40, 30, 15), 3, density=0.3, random_state=4).tensor)


def squared_error(model, tensor):
    return np.mean((model.predict(tensor) - tensor.counts) ** 2)


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_factors_of_simulated_counts_are_recovered(zeros):
    truth = tf.simulate((40, 30, 20), 2, prior_shape=0.5, density=0.6, random_state=5)
    model = tf.NTFLS(
        n_components=2, zeros=zeros, validation=None, learning_rate=0.03, max_iter=300, tol=0
    ).fit(truth.tensor)
    for name, factor in zip(truth.tensor.names, truth.factors, strict=True):
        assert matched_correlations(model.posterior_.mean(name), factor).min() > 0.85


def test_it_beats_a_constant_and_stops_early(parts):
    model = tf.NTFLS(n_components=3, learning_rate=0.03).fit(parts.train)
    assert squared_error(model, parts.test) < 0.8 * squared_error(
        tf.Constant().fit(parts.train), parts.test
    )
    history = model.history_
    assert history["validation"].max() == history["validation"][model.n_iter_ - 1]


def test_it_has_means_only(parts):
    model = tf.NTFLS(max_iter=3).fit(parts.train)
    assert np.array_equal(model.predict(parts.test), model.rate(parts.test))
    for use in (
        lambda: model.predict(parts.test, "median"),
        lambda: model.score(parts.test),
        lambda: model.interval(parts.test),
        lambda: model.sample(parts.test),
    ):
        with pytest.raises(ParameterError, match="NTFLS .* predicts means only"):
            use()


@pytest.mark.parametrize("learning_rate", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("l2", [1e-3, 10.0])
def test_the_whole_grid_is_within_reach(learning_rate, l2, parts):
    model = tf.NTFLS(learning_rate=learning_rate, l2=l2, max_iter=5).fit(parts.train)
    assert np.all(np.diff(model.history_["objective"]) < 0)


def test_more_l2_gives_smaller_factors(parts):
    sizes = [
        np.sum(tf.NTFLS(l2=l2, validation=None, max_iter=100).fit(parts.train).rate(parts.train))
        for l2 in (1e-3, 10.0, 1000.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


def test_entities_without_a_cell_are_average_or_nothing():
    axes = [tf.Axis.numbered("a", 6), tf.Axis.numbered("b", 5)]
    cells = [[i, j] for i in range(5) for j in range(5)]
    tensor = tf.CountTensor(axes, cells, np.arange(1, 26))
    missing = tf.NTFLS(n_components=2).fit(tensor)
    known = missing.rate(np.array([[i, 0] for i in range(5)]))
    assert missing.rate(np.array([[5, 0]]))[0] == pytest.approx(known.mean())
    observed = tf.NTFLS(n_components=2, zeros="observed", learning_rate=0.1).fit(tensor)
    assert observed.rate(np.array([[5, 0]]))[0] < 0.05
