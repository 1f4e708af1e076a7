"""Models saved by version 0.1, whose format was version 1; see `saved_0_1`.

They were fitted to ``tf.simulate((8, 6, 4), 2, density=0.5, random_state=0).tensor``:
``BPTF(n_components=2, max_iter=5)`` and ``VAEBPTF(n_components=2, max_iter=8)``.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import StorageError
from tallyfold.models import storage

SAVED = Path(__file__).parent / "saved_0_1"
SHAPE = (8, 6, 4)


@pytest.fixture(scope="module")
def cells():
    return np.stack(np.unravel_index(np.arange(np.prod(SHAPE)), SHAPE), axis=1)


def test_a_bptf_of_version_1_predicts_the_same_bits(cells):
    assert json.loads((SAVED / "bptf" / "model.json").read_text())["version"] == 1
    model = tf.load(SAVED / "bptf")
    assert isinstance(model, tf.BPTF)
    assert (model.n_components, model.max_iter) == (2, 5)
    assert tuple(len(axis) for axis in model.axes_) == SHAPE
    assert np.array_equal(model.predict(cells), np.load(SAVED / "bptf_predictions.npy"))
    assert len(model.history_) == model.n_iter_ == 5
    assert np.all(np.isfinite(model.posterior_.quantile("axis_0", 0.1)))


def test_a_bptf_of_version_1_is_saved_again_in_the_present_version(cells, tmp_path):
    tf.load(SAVED / "bptf").save(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["version"] == storage.BEFORE_LARGE
    assert np.array_equal(tf.load(tmp_path).predict(cells), tf.load(SAVED / "bptf").predict(cells))


def test_a_vae_bptf_of_version_1_is_refused_with_what_to_do():
    with pytest.raises(StorageError, match=r"vae-bptf of version 1 .* Fit the model again\.$"):
        tf.load(SAVED / "vae-bptf")
