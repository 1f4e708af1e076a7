"""Factors that live with their cells: draws by position, checkpoints in parts, faults of these."""

import errno
import os
import warnings
from unittest.mock import patch

import numpy as np
import pytest
from tests.processes.fits import numbers_of, tensor

import tallyfold as tf
from tallyfold.errors import StorageError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed import scatter
from tallyfold.inference.distributed.process_group import ALONE, use_group
from tallyfold.inference.fit import large_files, parts
from tallyfold.inference.fit.checkpoint import Checkpoint
from tallyfold.inference.schemes import first_draws
from tallyfold.kernels.arrays import in_file

GIVEN = {"n_components": 3, "max_iter": 6, "tol": 0.0}
FITS = {
    "spread bptf": lambda: tf.BPTF(**GIVEN),
    "spread bptf, zeros observed": lambda: tf.BPTF(**GIVEN, zeros="observed"),
    "spread bptf, learnt dispersion": lambda: tf.BPTF(**GIVEN, likelihood="negative-binomial"),
    "spread bptf, all cells": lambda: tf.BPTF(**GIVEN, validation=None),
    "spread head": lambda: tf.VAEBPTF(**GIVEN, zeros="missing"),
}
STOPPED_AFTER = 4


def fitted(name, part, **given):
    """Fit with held-out cells and first factors drawn in blocks, by each process its own."""
    with (
        warnings.catch_warnings(),
        patch.object(first_draws, "STREAMED", 10),
        patch.object(first_draws, "BLOCK", 4),
        patch.object(scatter, "DRAWN_TOGETHER", 100),
        patch.object(scatter, "BLOCK", 50),
    ):
        warnings.simplefilter("ignore")
        return FITS[name]().fit(part, **given)


def interrupt(progress):
    if progress.iteration.number == STOPPED_AFTER:
        raise KeyboardInterrupt


def stopped(name, part, place):
    """Stop a fit by Ctrl-C; its checkpoint stays."""
    fitted(name, part, checkpoint=place, every=3, callbacks=[interrupt])


def resumed(name, part, place):
    return fitted(name, part, checkpoint=place, every=3, resume=True)


def files(place):
    return sorted(each.name for each in place.glob("part-*"))


def main(folder):
    whole = tensor()
    with tf.many_processes() as group:
        part, name = tf.scatter(tensor), "spread bptf"
        rows = []

        def noted(cells, given, own_rows=None):
            init(cells, given, own_rows)
            rows.append((cells.shape, own_rows))

        init = TrainingCells.__init__
        for each in FITS:
            with patch.object(TrainingCells, "__init__", noted):
                found = numbers_of(fitted(each, part), whole)
            shape, own = rows[0]
            assert own.axis == 0, each
            assert shape[0] == own.after - own.first < whole.shape[0]
            assert sum(group.all_gather(np.array([shape[0]]))) == whole.shape[0]
            if group.first:
                np.savez(folder / f"{each}-{group.size}.npz", **found)
            rows.clear()

        place = folder / f"stopped-{group.size}"
        stopped(name, part, place)
        assert len(files(place)) == group.size
        if group.first:
            with use_group(ALONE):
                stopped(name, whole, folder / "stopped-1")
        group.wait_for_all()
        save_numbers(
            group, folder / f"from-1-{group.size}", resumed(name, part, folder / "stopped-1")
        )
        not_seen(group, name, part, folder)
        in_files(group, name, part, folder)
        if group.size > 2:
            torn_apart(group, whole, folder)
            faults(group, name, part, folder)


def save_numbers(group, file, model):
    if group.first:
        np.savez(f"{file}.npz", **numbers_of(model, tensor()))


def not_seen(group, name, part, folder):
    """Where machines do not see each other's files, the first process saves all."""
    place = folder / "not-seen"
    with patch.object(Checkpoint, "_seen_by_all", False):
        stopped(name, part, place)
    assert files(place) == []
    save_numbers(group, folder / f"not-seen-{group.size}", resumed(name, part, place))


def in_files(group, name, part, folder):
    """Factors of a long axis come together in a file, and no process has all of them in memory."""
    place, real = folder / "in-files", large_files.write_header
    with patch.object(large_files, "LARGE", 0):
        model = fitted(name, part, checkpoint=place, every=3)
        table = model.posterior_.gammas.axes[0]
        assert in_file(table.shape_DK)
        assert in_file(table.rate_DK)
        assert len(table.shape_DK) == 31
        save_numbers(group, folder / f"in-files-{group.size}", model)
        if group.first:
            model.save(folder / "saved")
        group.wait_for_all()
        assert in_file(tf.load(folder / "saved").posterior_.gammas.axes[0].shape_DK)
        before = sorted(place.iterdir())

        def full(*given):
            if group.first:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(*given)

        with (
            patch.object(large_files, "write_header", full),
            pytest.raises(StorageError, match=r"by process 1 of \d: No space left.*resume the fit"),
        ):
            resumed(name, part, place)
        group.wait_for_all()
        assert sorted(place.iterdir()) == before


def torn_apart(group, whole, folder):
    """Of parts in which labels of each axis are in several processes, all have all factors."""
    part = whole.with_cells(np.arange(whole.nnz) % group.size == group.rank)
    save_numbers(group, folder / "torn-apart", fitted("spread bptf, all cells", part))


def faults(group, name, part, folder):
    """A full disk on one machine, parts that are gone, changed or cut off: all stop alike."""
    place = folder / "faults"
    stopped(name, part, place)
    before, real = files(place), parts.replace_file

    def full(file, data):
        if group.rank == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file, data)

    with (
        patch.object(parts, "replace_file", full),
        pytest.raises(StorageError, match="by process 3 of 3: No space left.*Make room"),
    ):
        resumed(name, part, place)
    group.wait_for_all()
    assert files(place) == before  # what it held is still there, and nothing else
    kept = place / before[1]
    data = kept.read_bytes()
    for change, words in [
        (lambda: kept.unlink(), "part-.*-1.safetensors.*could not be read.*same path"),
        (lambda: kept.write_bytes(data[:-9]), "part-.*-1.safetensors' is not the file"),
        (lambda: kept.write_bytes(data[::-1]), "part-.*-1.safetensors' is not the file"),
    ]:
        group.wait_for_all()
        if group.first:
            change()
        group.wait_for_all()
        with pytest.raises(StorageError, match=words):
            resumed(name, part, place)
    group.wait_for_all()
    if group.first:
        kept.write_bytes(data)
    group.wait_for_all()
    save_numbers(group, folder / "mended", resumed(name, part, place))
