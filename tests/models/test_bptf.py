from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from tallyfold.errors import ParameterError

DATA = Path(__file__).parents[3] / "shared" / "data"


def matched_correlations(found, true):
    """Correlate columns of two factor matrices, paired as well as possible."""
    k = true.shape[1]
    table = np.corrcoef(found.T, true.T)[:k, k:]
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns]


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_factors_of_simulated_counts_are_recovered(zeros):
    truth = tf.simulate((60, 50, 40), 3, prior_shape=0.3, density=0.3, random_state=5)
    best = max(
        (
            tf.BPTF(
                n_components=3,
                zeros=zeros,
                prior_shape=0.3,
                validation=None,
                max_iter=300,
                tol=1e-7,
                random_state=seed,
            ).fit(truth.tensor)
            for seed in range(3)
        ),
        key=lambda model: model.history_["objective"].iloc[-1],
    )
    for name, factor in zip(truth.tensor.names, truth.factors, strict=True):
        assert matched_correlations(best.posterior_.mean(name), factor).min() > 0.9


def test_intervals_cover_simulated_counts():
    truth = tf.simulate((80, 60, 20), 2, prior_shape=1.0, density=0.5, random_state=1)
    train, test = tf.split(truth.tensor)
    model = tf.BPTF(n_components=2).fit(train)
    low, high = model.interval(test, 0.9).T
    covered = np.mean((test.counts >= low) & (test.counts <= high))
    assert 0.88 <= covered <= 0.99  # counts are whole numbers, so a little more than 0.9


def test_truncation_matters_when_zeros_are_missing():
    truth = tf.simulate((80, 60, 20), 2, prior_shape=0.5, density=0.1, random_state=1)
    train, test = tf.split(truth.tensor)
    plain = tf.BPTF(n_components=2, truncated=False).fit(train)
    truncated = tf.BPTF(n_components=2).fit(train)
    true_rate = truth.rate(test.indices)
    error = [np.mean(np.abs(np.log(m.rate(test) / true_rate))) for m in (plain, truncated)]
    assert error[1] < error[0]


def test_a_negative_binomial_wins_on_dispersed_counts():
    rng = np.random.default_rng(0)
    truth = tf.simulate((60, 50, 10), 2, prior_shape=1.0, random_state=2)
    rates = 3 * np.einsum("ik,jk,lk->ijl", *truth.factors)
    counts = rng.negative_binomial(0.5, 0.5 / (0.5 + rates))
    train, test = tf.split(tf.CountTensor.from_array(counts, ["a", "b", "c"]))
    scores = {
        family: tf.BPTF(n_components=2, likelihood=family, validation=None).fit(train).score(test)
        for family in ("poisson", "negative-binomial")
    }
    assert scores["negative-binomial"] > scores["poisson"] + 0.1


def test_calibration_makes_up_for_the_wrong_likelihood():
    rng = np.random.default_rng(0)
    truth = tf.simulate((60, 50, 10), 2, prior_shape=1.0, random_state=2)
    rates = 3 * np.einsum("ik,jk,lk->ijl", *truth.factors)
    counts = rng.negative_binomial(0.5, 0.5 / (0.5 + rates))
    train, test = tf.split(tf.CountTensor.from_array(counts, ["a", "b", "c"]))
    with_part = tf.BPTF(n_components=2).fit(train)
    without = tf.BPTF(n_components=2, validation=None).fit(train)
    assert with_part.score(test) > without.score(test) + 0.1
    assert with_part.calibration_.dispersion is not None
    assert with_part.fitted_.validation_score is not None


def test_observed_zeros_allow_a_plain_poisson_only():
    tensor = tf.simulate((5, 4), 1, density=0.5).tensor
    for wrong in ({"likelihood": "negative-binomial"}, {"truncated": True}):
        with pytest.raises(ParameterError, match="must be a plain Poisson"):
            tf.BPTF(zeros="observed", **wrong).fit(tensor)


def test_an_entity_never_seen_predicts_as_its_axis_does_on_average():
    axes = [tf.Axis.numbered("a", 5), tf.Axis.numbered("b", 4)]
    cells = [[i, j] for i in range(4) for j in range(4)]
    counts = [20 + i + j for i, j in cells]
    model = tf.BPTF(n_components=1, truncated=False).fit(tf.CountTensor(axes, cells, counts))
    unseen = model.predict(np.array([[4, j] for j in range(4)]))
    assert np.all((unseen > 18) & (unseen < 28))
    spread = model.interval(np.array([[4, 0], [0, 0]]))
    assert spread[0, 1] - spread[0, 0] >= spread[1, 1] - spread[1, 0]


def test_the_paper_form_on_nips_is_where_it_was_measured():
    """BPTF and main effects with zeros missing, as measured before this library existed."""
    if not (DATA / "nips.parquet").exists():
        pytest.skip("the nips tensor is not here")
    tensor = tf.read_counts(DATA / "nips.parquet", axes=["author", "word", "year"], value="count")
    train, test = tf.split(tensor)
    y = test.counts

    def measured(model):
        rate = model.fit(train).rate(test)
        return np.mean(np.abs(y - rate)), np.mean(y * np.log(rate) - rate)

    plain = {"truncated": False, "validation": None}
    mae, form = measured(tf.MainEffects(**plain, max_iter=30))
    assert abs(mae - 0.465) < 0.006
    assert abs(form - -0.915) < 0.003
    mae, form = measured(tf.BPTF(**plain, max_iter=30))
    assert abs(mae - 0.454) < 0.008
    assert abs(form - -0.908) < 0.004
    mae, _ = measured(tf.BPTF(zeros="observed", validation=None, max_iter=30))
    assert abs(mae - 1.24) < 0.01
