"""What processes may disagree on, and what they must bear with."""

import errno
import os
import time
from unittest.mock import patch

import numpy as np
import pytest
from tests.processes.fits import tensor

import tallyfold as tf
from tallyfold.errors import BackendError, DataError, ParameterError, StorageError
from tallyfold.inference.fit import folder as folders


def refused(error, words, model, part):
    with pytest.raises(error, match=words):
        model.fit(part)


def own_labels(group, part):
    """The same cells on axes of the same size, the labels of one axis named by the process."""
    last = tf.Axis("axis_2", [f"{group.rank}-{label}" for label in range(8)])
    return tf.CountTensor([*part.axes[:2], last], part.indices, part.counts)


def full_disk(group, part, place):
    """The machine that writes has no room left: all stop, and go on once it has."""
    model = tf.BPTF(n_components=2, max_iter=4, tol=0.0)
    written, error = [], OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def replace_file(file, data):
        written.append(file)
        if len(written) > 3:  # arrays and a document, and the next arrays
            raise error
        real(file, data)

    real = folders.replace_file
    full = patch.object(folders, "replace_file", replace_file if group.first else real)
    with full, pytest.raises(StorageError, match="No space left.*Make room or choose another"):
        model.fit(part, checkpoint=place, every=1)
    assert len(written) == (4 if group.first else 0)
    resumed = model.fit(part, checkpoint=place, every=1, resume=True)
    whole = model.fit(part)
    assert np.array_equal(resumed.history_["objective"], whole.history_["objective"])


def main(folder):
    os.environ["TALLYFOLD_PROCESS_TIMEOUT"] = "4"
    with tf.many_processes() as group:
        part = tf.scatter(tensor)
        model = tf.BPTF(n_components=2, max_iter=3)
        refused(ParameterError, "same axes", model, own_labels(group, part))
        refused(DataError, "very same cells", model, tensor())
        other = tf.BPTF(n_components=2, max_iter=3, random_state=group.rank)
        refused(ParameterError, "same model and parameters", other, part)
        with pytest.raises(ParameterError, match="same arguments"):
            model.fit(part, every=1 + group.rank)
        refused(ParameterError, "one process only", tf.Constant(), part)
        none = part.with_cells(np.zeros(part.nnz, dtype=bool))
        refused(DataError, "no non-zero cell", model, none)
        full_disk(group, part, folder / "full")
        # all cells in one process, none in the other
        lopsided = model.fit(tensor() if group.first else none)
        with pytest.raises(BackendError), tf.many_processes("cuda"):
            pass

    for _ in range(5):  # joining again and again finds nothing of the times before
        with tf.many_processes() as group:
            assert group.all_reduce_number(1.0) == 2

    with tf.many_processes() as group:  # reading takes longer than the timeout

        def slowly():
            time.sleep(5)
            return tensor()

        even = tf.BPTF(n_components=2, max_iter=3).fit(tf.scatter(slowly))
    np.testing.assert_allclose(
        even.posterior_.mean("axis_0"), lopsided.posterior_.mean("axis_0"), rtol=1e-10
    )
