"""The two models every table begins with: what they find where the truth is known."""

import numpy as np
import pytest

import tallyfold as tf


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_main_effects_of_simulated_counts_are_recovered(zeros):
    truth = tf.simulate((60, 50, 20), 1, prior_shape=1.0, density=0.4, random_state=3)
    model = tf.MainEffects(zeros=zeros, validation=None).fit(truth.tensor)
    for name, factor in zip(truth.tensor.names, truth.factors, strict=True):
        found = model.posterior_.mean(name)[:, 0]
        assert np.corrcoef(np.log(found), np.log(factor[:, 0]))[0, 1] > 0.9
    rate, true = model.rate(truth.tensor), truth.rate(truth.tensor.indices)
    assert np.median(np.abs(np.log(rate / true))) < 0.25


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_a_constant_finds_the_rate_behind_truncated_counts(likelihood):
    rng = np.random.default_rng(0)
    multiplier = 1.0 if likelihood == "poisson" else rng.gamma(0.8, 1 / 0.8, (300, 200))
    counts = rng.poisson(0.7 * multiplier, (300, 200))
    model = tf.Constant(likelihood=likelihood).fit(tf.CountTensor.from_array(counts, ["a", "b"]))
    assert model.rate(np.array([[0, 0]]))[0] == pytest.approx(0.7, rel=0.05)
    if likelihood == "negative-binomial":
        assert model.fitted_.dispersion == pytest.approx(0.8, rel=0.15)


def test_a_constant_with_observed_zeros_knows_how_many_there_are():
    counts = np.zeros((20, 10), int)
    counts[0, :4] = 3
    model = tf.Constant(zeros="observed", likelihood="poisson").fit(
        tf.CountTensor.from_array(counts, ["a", "b"])
    )
    assert model.predict(np.array([[5, 5]]))[0] == pytest.approx(12 / 200)
    assert model.predict(np.array([[5, 5]]), "median")[0] == 0
    mode = tf.Constant(statistic="mode").fit(tf.CountTensor.from_array(counts, ["a", "b"]))
    assert mode.predict(np.array([[5, 5]]), "mean")[0] == 3


def test_a_histogram_scores_the_mean_log_share_of_its_counts():
    counts = np.random.default_rng(0).integers(1, 4, (60, 50))  # 1, 2 and 3, each often
    train, test = tf.split(tf.CountTensor.from_array(counts, ["a", "b"]), random_state=0)
    model = tf.Constant(scale=(1, 3)).fit(train)
    times = np.bincount(train.counts, minlength=4)[1:] + 0.5
    wanted = np.log(times / times.sum())[test.counts - 1].mean()
    assert model.score(test) == pytest.approx(wanted, rel=1e-12)
    share = np.bincount(train.counts, minlength=4)[1:] / train.nnz
    assert model.score(train) == pytest.approx(share @ np.log(share), abs=1e-5)
    assert model.score(test) >= tf.Constant(likelihood="negative-binomial").fit(train).score(test)


def test_a_histogram_with_observed_zeros_has_their_share():
    counts = np.zeros((20, 10), int)
    counts[0, :4] = 3
    model = tf.Constant(zeros="observed").fit(tf.CountTensor.from_array(counts, ["a", "b"]))
    predictive = model.predictive(np.array([[5, 5]]))
    assert np.exp(predictive.log_pmf(0)) == pytest.approx([196 / 200])
    assert np.exp(predictive.log_at_least(1)) == pytest.approx([4 / 200])
    assert model.predict(np.array([[5, 5]]))[0] == pytest.approx(12 / 200)
