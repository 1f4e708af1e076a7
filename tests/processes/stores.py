"""Processes that read a store in ranges of their own, and what they must agree on."""

import numpy as np
import pytest
from tests.processes.fits import fitted, numbers_of

import tallyfold as tf
from tallyfold.data.store import Store
from tallyfold.errors import DataError, FormatError
from tallyfold.inference.distributed import own_ranges

NAMES = ["bptf", "head"]
LONGEST = [0, 1]
"""Stores whose longest axis is the first one, and the second."""


def tensor(longest):
    shape = (30, 20, 8) if longest == 0 else (20, 30, 8)
    return tf.simulate(shape, n_components=3, density=0.25, random_state=4).tensor


def main(folder):
    with tf.many_processes() as group:
        tf.scatter(lambda: tensor(0))  # what was dealt out before does not put them out of step
        Store.tensor = None  # no process reads the whole
        own_ranges.AT_A_TIME = 100
        for longest in LONGEST:
            whole = tensor(longest)
            store = tf.open_store(folder / f"store-{longest}")
            assert store.manifest.longest == longest
            part = tf.scatter(store)
            assert abs(part.nnz - whole.nnz / group.size) < 0.1 * whole.nnz
            assert part.axes == whole.axes
            indices_NM, counts_N = group.all_gather(part.indices), group.all_gather(part.counts)
            assert np.array_equal(indices_NM, whole.indices)  # in order, over all processes
            assert np.array_equal(counts_N, whole.counts)
            for name in NAMES:
                found = numbers_of_fit(name, part, whole)
                if group.first:
                    np.savez(folder / f"{name}-{longest}.npz", **found)
        with pytest.raises(DataError, match="process 2 of 3 finds no store where others do"):
            own_ranges.opened_by_all(group, lambda: None if group.rank == 1 else store)
        last = store.folder / store.shards[-1].data.file
        if group.rank == group.size - 1:  # only this process reads it
            last.write_bytes(last.read_bytes()[::-1])
        group.wait_for_all()
        with pytest.raises(FormatError, match="part-00003.parquet' was changed"):
            tf.scatter(tf.open_store(store.folder))


def numbers_of_fit(name, part, whole):
    model = fitted(name, part)
    return numbers_of(model, whole)
