"""Coherence, distinct words and stability of components in one table."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import DataError, LabelError
from tallyfold.evaluation.words.cooccurrence import Cooccurrence
from tallyfold.evaluation.words.topic_table import topic_table


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((30, 40, 10), 3, density=0.2, random_state=1).tensor


@pytest.fixture(scope="module")
def model(tensor):
    return tf.BPTF(n_components=3, zeros="observed", max_iter=30).fit(tensor)


def test_the_table_is_what_its_lists_say(model, tensor):
    found = topic_table(model, "axis_1", tensor, document=["axis_0"], top=6)
    reference = Cooccurrence.from_tensor(tensor, "axis_1", ["axis_0"])
    lists = found.table["words"].tolist()
    for npmi, words in zip(found.table["npmi"], lists, strict=True):
        assert npmi == pytest.approx(reference.npmi(words))
    every = [word for words in lists for word in words]
    assert found.different == len(set(every)) / len(every)
    for own, words in zip(found.table["distinct"], lists, strict=True):
        assert own == np.mean([every.count(word) == 1 for word in words])
    assert found.stability is None
    assert "coherence (NPMI)" in repr(found)
    assert "<table" in found._repr_html_()


def test_stability_is_in_it_if_it_is_known_and_the_background_is_not(tensor):
    model = tf.BPTF(n_components=3, zeros="observed", background=True, max_iter=10)
    judged = tf.stability(tensor, model, runs=2)
    assert "come back in half of them" in repr(judged)
    assert "<table" in judged._repr_html_()
    found = topic_table(judged.model, "axis_1", tensor)
    assert "background" not in set(found.table["name"])
    assert 0 <= found.stability <= 1


def test_words_of_another_axis_are_refused(model, tensor):
    with pytest.raises(LabelError, match="there is no axis"):
        topic_table(model, "word", tensor)
    names = [tf.Axis("axis_1", [f"x{n}" for n in range(40)]), tensor.axes[0]]
    other = tf.CountTensor(names, tensor.indices[:, [1, 0]][:1], tensor.counts[:1])
    with pytest.raises(DataError, match="written the same way"):
        topic_table(model, "axis_1", other)
