"""Dispersions per entity: found where there is evidence, shrunk where there is none."""

import numpy as np

import tallyfold as tf
from tallyfold.inference.encoders.entity_dispersion import entity_dispersions, with_dispersions
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture

PLAIN = COUNTS["negative-binomial", False]


def cells_of_two_kinds(n_each=2000):
    """Entity 0 in bursts (r = 0.3), entity 1 steady (r = 30), entity 2 with one cell."""
    rng = np.random.default_rng(0)
    entity = np.repeat([0, 1, 2], [n_each, n_each, 1])
    rate = rng.gamma(2.0, 1.5, len(entity))
    r = np.array([0.3, 30.0, 3.0])[entity]
    return entity, rate, PLAIN.sample(rng, rate, r)


def test_bursty_and_steady_entities_are_told_apart():
    entity, rate, counts = cells_of_two_kinds()
    common = CountMixture(PLAIN, rate[None], np.full((1, len(rate)), 3.0))
    found = entity_dispersions(common, counts, entity, 3)
    assert found[0] < -1.5
    assert found[1] > 1.0
    assert abs(found[2]) < 0.6  # one cell tells little
    assert found[3] == 0.0  # an entity never seen
    better = with_dispersions(common, found, entity)
    assert better.log_pmf(counts).mean() > common.log_pmf(counts).mean() + 0.05


def test_without_differences_nothing_changes_much():
    rng = np.random.default_rng(1)
    entity = rng.integers(0, 20, 4000)
    rate = rng.gamma(2.0, 1.5, 4000)
    counts = PLAIN.sample(rng, rate, np.full(4000, 2.0))
    common = CountMixture(PLAIN, rate[None], np.full((1, 4000), 2.0))
    assert np.abs(entity_dispersions(common, counts, entity, 20)).max() < 0.3


def test_a_model_with_an_axis_of_its_own_dispersion_is_saved_whole(tmp_path):
    tensor = tf.simulate((30, 20, 10), 2, density=0.4).tensor
    train, test = tf.split(tensor)
    model = tf.VAEBPTF(n_components=2, dispersion_axis="axis_1").fit(train)
    assert model.fitted_.extra["entity_dispersion"].shape == (21,)
    model.save(tmp_path / "model")
    loaded = tf.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_pmf(test), model.log_pmf(test))
