"""The orders of labels in lists of components, against their definitions by hand."""

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.models.explaining import expected_of_labels
from tallyfold.posterior.label_order import ORDERS

WORDS = ["the", "of", "socket", "port", "thread", "lock"]
NET, LOCKS = [8.0, 6.0, 3.0, 2.0, 0.1, 0.1], [8.0, 7.0, 0.1, 0.1, 2.0, 3.0]


@pytest.fixture(scope="module")
def model():
    """Two components that share two common words and have two words each of their own."""
    rng = np.random.default_rng(0)
    weight_DK = np.column_stack([NET, LOCKS])
    counts = rng.poisson(np.repeat(weight_DK.T, 40, axis=0) * 2)
    module, word = np.nonzero(counts)
    frame = {
        "module": [f"m{number:02}" for number in module],
        "word": [WORDS[number] for number in word],
        "count": counts[module, word],
    }

    tensor = tf.CountTensor.from_frame(pd.DataFrame(frame), axes=["module", "word"], value="count")
    return tf.BPTF(n_components=2, zeros="observed", prior_shape=0.3, random_state=1).fit(tensor)


@pytest.fixture(scope="module")
def gated():
    rng = np.random.default_rng(0)
    rate = np.einsum("ak,bk,ck->abc", *(rng.gamma(0.5, size=(n, 2)) for n in (20, 15, 4)))
    counts = rng.poisson(rate * rng.gamma(0.2, 5, size=(15, 4)))
    axes = [
        tf.Axis(name, range(n))
        for name, n in zip(("doc", "word", "place"), counts.shape, strict=True)
    ]
    tensor = tf.CountTensor(axes, np.argwhere(counts), counts[counts > 0])
    given = {"n_components": 2, "zeros": "observed", "prior_shape": 0.3, "validation": None}
    return tf.BPTF(gate=("word", "place"), max_iter=30, **given).fit(tensor)


def lists(model, **order):
    frame = model.components("word", top=2, **order)
    return [set(part["label"]) for _, part in frame.groupby("component")]


def test_relevance_lists_what_sets_components_apart(model):
    own = [{"socket", "port"}, {"thread", "lock"}]
    for order in ({"relevance": 0.0}, {"by": "relevance", "relevance": 0.2}):
        found = lists(model, **order)
        assert all(each in own for each in found), order
        assert found[0] != found[1], order
    assert lists(model, by="probability") != lists(model, relevance=0.0)


def by_hand(model, component):
    mean_DK = model.posterior_.mean("word")
    overall_D = mean_DK / mean_DK.sum(axis=0) @ model.posterior_.shares()
    low_DK = model.posterior_.quantile("word", 0.05) / mean_DK.sum(axis=0)
    return low_DK[:, component], overall_D


def test_relevance_is_as_defined_and_one_is_the_lower_end(model):
    labels = model.axes_[1].labels.to_pylist()
    for component in (0, 1):
        low_D, overall_D = by_hand(model, component)
        value_D = 0.4 * np.log(low_D) + 0.6 * np.log(low_D / overall_D)
        frame = model.components("word", top=6)
        listed = frame[frame["component"] == component]["label"].tolist()
        assert listed == [labels[d] for d in np.argsort(-value_D)]
    one = model.components("word", relevance=1.0)
    assert one["label"].tolist() == model.components("word", by="sure")["label"].tolist()
    assert model.components("word", top=6)["label"].tolist() != one["label"].tolist()


def test_a_single_component_has_nothing_to_stand_apart_from(model):
    one = model.drop([1])
    assert one.components("word").equals(one.components("word", by="sure"))


def test_what_a_gate_says_of_labels_is_in_what_they_are_set_off_against(gated):
    """A label that a gate makes frequent is common, whatever the factors beyond the gate say."""
    factors = gated.posterior_
    found_D = expected_of_labels(gated.fitted_, "word")
    means = [mean_DK[:-1] for mean_DK in factors.gammas.means]
    gate = factors.gammas.derived[0]
    rate = np.einsum("ak,bk,ck->abc", *means)
    multiplier = np.full(np.prod(gate.sizes), gate.mean_P1[-1])
    multiplier[gate.keys_P] = gate.mean_P1[:-1]
    assert gate.axes == (1, 2)
    rate = rate * multiplier.reshape(gate.sizes)
    np.testing.assert_allclose(found_D, rate.sum(axis=(0, 2)), rtol=1e-6)
    listed = gated.components("word", top=len(found_D))
    for component, part in listed.groupby("component"):
        labels = gated.axes_[1].labels.to_pylist()
        order = [labels.index(label) for label in part["label"]]
        low_D = factors.quantile("word", 0.05)[:, component] / means[1][:, component].sum()
        value_D = np.log(low_D) - 0.6 * np.log(found_D / found_D.sum())
        assert np.array_equal(order, np.argsort(-value_D, kind="stable"))


def test_frex_is_the_harmonic_mean_of_both_ranks(model):
    mean_DK = model.posterior_.mean("word")
    share_DK = mean_DK / mean_DK.sum(axis=0)
    exclusive_DK = share_DK / share_DK.sum(axis=1, keepdims=True)
    labels = model.axes_[1].labels.to_pylist()
    frame = model.components("word", top=6, by="frex")
    for component in (0, 1):
        ranks = [
            np.array([(column <= value).mean() for value in column])
            for column in (share_DK[:, component], exclusive_DK[:, component])
        ]
        value_D = 2 / (1 / ranks[0] + 1 / ranks[1])
        listed = frame[frame["component"] == component]["label"].tolist()
        found_D = [value_D[labels.index(label)] for label in listed]
        assert found_D == sorted(found_D, reverse=True)


@pytest.mark.parametrize("by", ORDERS)
def test_weights_and_intervals_are_the_same_in_every_order(model, by):
    keys = ["component", "label"]
    whole = model.components("word", top=6).drop(columns="rank").sort_values(keys)
    found = model.components("word", top=6, by=by)
    assert (found.groupby("component")["rank"].apply(list).map(len) == 6).all()
    found = found.drop(columns="rank").sort_values(keys)
    assert np.array_equal(whole.to_numpy()[:, 3:], found.to_numpy()[:, 3:])


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"by": "size"}, "one of 'sure', 'probability'"),
        ({"relevance": 1.5}, "from 0 .* to 1"),
        ({"relevance": True}, "from 0 .* to 1"),
        ({"by": "frex", "relevance": 0.5}, "no effect with by='frex'"),
    ],
)
def test_nonsense_is_refused(model, order, words):
    with pytest.raises(ParameterError, match=words):
        model.components("word", **order)
