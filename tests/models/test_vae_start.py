"""The sweeps that VAE-BPTF starts with: as many as help, so that it is never behind BPTF."""

import pytest

import tallyfold as tf


@pytest.fixture(scope="module")
def parts():
    """High counts, on which BPTF still gains after a hundred sweeps."""
    truth = tf.simulate.paper((40, 40, 40), 10, density=None, random_state=0).tensor
    return tf.split(tf.subsample(truth, 0.2, random_state=0), 0.2, random_state=0)


def test_where_encoders_add_nothing_it_is_bptf(parts):
    train, test = parts
    bptf = tf.BPTF().fit(train)
    model = tf.VAEBPTF(zeros="missing", amount="negative-binomial").fit(train)
    assert bptf.n_iter_ > 100
    assert not model.fitted_.derived
    assert model.score(test) == pytest.approx(bptf.score(test), abs=1e-3)
    early = tf.VAEBPTF(zeros="missing", amount="negative-binomial", max_iter=100).fit(
        train
    )  # half of them are sweeps
    assert early.score(test) < model.score(test) - 0.005


def test_they_end_when_they_have_not_helped_for_the_patience():
    tensor = tf.simulate((30, 20, 10), 2, density=0.2, random_state=0).tensor
    swept = {}
    for patience in (2, 5, 10):
        phase = (
            tf.VAEBPTF(zeros="missing", amount="negative-binomial", patience=patience)
            .fit(tensor)
            .history_["phase"]
        )
        swept[patience] = int((phase == "sweeps").sum())
    assert swept[10] == swept[5] + 5  # of the best, which both have found
    assert swept[2] < 10  # a dip of two sweeps at the start
