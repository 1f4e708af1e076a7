"""What else is in the basket: weights by ridge regression, and what they are worth."""

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.inference.occurrence import neighbours as found_in
from tallyfold.inference.occurrence.neighbours import found_neighbours, ridge_weights
from tallyfold.posterior.neighbours import Neighbours

pytestmark = pytest.mark.usefixtures("brief_heads")

N_ITEMS = 40


def sets_of_items(n_baskets=900, seed=0):
    """Baskets in which items come in sets of four, ten kinds of them: too many for two factors."""
    rng = np.random.default_rng(seed)
    rows = []
    for basket in range(n_baskets):
        for kind in rng.choice(N_ITEMS // 4, 3, replace=False):
            rows += [
                (f"u{basket:04}", f"i{item:02}")
                for item in range(4 * kind, 4 * kind + 4)
                if rng.random() < 0.8
            ]
        rows += [(f"u{basket:04}", f"i{item:02}") for item in rng.integers(0, N_ITEMS, 2)]
    frame = pd.DataFrame(rows, columns=["user", "item"]).drop_duplicates()
    return tf.CountTensor.from_frame(frame, ["user", "item"])


@pytest.fixture(scope="module")
def parts():
    return tf.split(sets_of_items(), 0.2, cells="all", random_state=0)


def test_weights_are_ridge_regressions():
    rng = np.random.default_rng(0)
    x = (rng.random((200, 7)) < 0.4) * 1.0
    weight = ridge_weights(x.T @ x, 3.0)
    for label in range(7):
        rest = [m for m in range(7) if m != label]
        gram = x[:, rest].T @ x[:, rest] + 3.0 * np.eye(6)
        wanted = np.linalg.solve(gram, x[:, rest].T @ x[:, label])
        np.testing.assert_allclose(weight[label, rest], wanted, rtol=1e-8)
        assert weight[label, label] == 0


def test_labels_of_one_set_are_neighbours(parts):
    near = found_neighbours(parts.train.indices, parts.train.shape, 0.8, (), 0)
    assert near.axis == 1  # the shorter axis
    labels = parts.train.axis("item").labels.to_pylist()
    own = near.weight_DL.argsort(axis=1)[:, -3:]
    for item, best in enumerate(np.take_along_axis(near.near_DL, own, axis=1)):
        kinds = {int(labels[other][1:]) // 4 for other in best}
        assert kinds == {int(labels[item][1:]) // 4}


def test_a_cell_does_not_speak_for_itself(parts):
    near = found_neighbours(parts.train.indices, parts.train.shape, 1.0, (), 0)
    cells = parts.train.indices[:50]
    without = near.filled(np.delete(parts.train.indices, np.arange(50), axis=0), 1.0)
    alone = [near.filled(np.delete(parts.train.indices, n, axis=0), 1.0).at(cells[n : n + 1])[0]
             for n in range(5)]  # fmt: skip
    np.testing.assert_allclose(near.at(cells)[:5], alone)
    assert not np.allclose(without.at(cells), near.at(cells))


def test_unknown_labels_have_no_neighbours(parts):
    near = found_neighbours(parts.train.indices, parts.train.shape, 1.0, (), 0)
    assert not near.at(np.array([[-1, 3], [5, -1]], dtype=np.int32)).any()


def test_cells_added_are_in_the_baskets(parts):
    indices, shape = parts.train.indices, parts.train.shape
    near = found_neighbours(indices, shape, 0.8, (), 0)
    half = near.filled(indices[::2], 0.4)
    again = half.added(indices[1::2], shape, 0.8)
    assert np.array_equal(again.at(indices), near.at(indices))
    longer = half.added(np.array([[shape[0], 1]], dtype=np.int32), (shape[0] + 1, shape[1]), 0.4)
    assert longer.at(np.array([[shape[0], 2]], dtype=np.int32)).any()
    assert np.array_equal(longer.at(indices), half.at(indices))


def test_arrays_make_the_same(parts):
    near = found_neighbours(parts.train.indices, parts.train.shape, 0.8, (), 0)
    again = Neighbours.from_arrays(near.arrays())
    assert np.array_equal(again.at(parts.test.indices), near.at(parts.test.indices))


def test_few_labels_and_small_baskets_have_none():
    assert found_neighbours(np.array([[0, 0], [1, 1]], dtype=np.int32), (2, 2), 1.0, (), 0) is None
    alone = np.array([[n, n] for n in range(9)], dtype=np.int32)
    assert found_neighbours(alone, (9, 9), 1.0, (), 0) is None


def test_only_the_most_frequent_labels(parts, monkeypatch):
    monkeypatch.setattr(found_in, "MOST_LABELS", 10)
    near = found_neighbours(parts.train.indices, parts.train.shape, 1.0, (), 0)
    cells = np.bincount(parts.train.indices[:, 1])
    has = near.weight_DL.any(axis=1)
    assert has.sum() == 10
    assert cells[has].min() >= cells[~has].max()


def test_some_baskets_of_many(parts, monkeypatch):
    whole = found_neighbours(parts.train.indices, parts.train.shape, 1.0, (), 0)
    monkeypatch.setattr(found_in, "MOST_PAIRS", 3e4)
    some = found_neighbours(parts.train.indices, parts.train.shape, 1.0, (), 0)
    kept = np.corrcoef(whole.at(parts.test.indices), some.at(parts.test.indices))[0, 1]
    assert 0.9 < kept < 1


def test_a_fit_learns_from_baskets(tmp_path, monkeypatch):
    parts = tf.split(sets_of_items(2_500), 0.2, cells="all", random_state=0)
    options = {"n_components": 2, "zeros": "observed", "amount": "negative-binomial"}
    model = tf.VAEBPTF(**options).fit(parts.train)
    assert model.fitted_.occurrence.neighbours is not None
    monkeypatch.setattr("tallyfold.inference.occurrence.step.found_neighbours", lambda *_: None)
    without = tf.VAEBPTF(**options).fit(parts.train)
    assert model.score(parts.test) > without.score(parts.test) + 0.1
    model.save(tmp_path / "model")
    loaded = tf.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(parts.test), model.predict(parts.test))
