"""What tells whether two tensors hold the same counts: a checksum of labels and counts."""

from __future__ import annotations

import hashlib

import numpy as np

from tallyfold.data.hashing import Hashes, cell_hashes, mixed
from tallyfold.data.tensor import CountTensor

CELLS_AT_ONCE = 1 << 20


def cell_sums(tensor: CountTensor, *, by_label: bool) -> Hashes:
    """Return two sums over hashes of all cells and their counts, by position or by label.

    Sums of parts add up to those of the whole.
    """
    total = np.zeros(2, dtype=np.uint64)
    for start in range(0, tensor.nnz, CELLS_AT_ONCE):
        part = slice(start, start + CELLS_AT_ONCE)
        columns = list(tensor.indices[part].T)
        if by_label:
            columns = [a.hashes[c] for a, c in zip(tensor.axes, columns, strict=True)]
        hash_N = cell_hashes(tensor.counts[part].astype(np.uint64), columns)
        total += np.array([hash_N.sum(), mixed(hash_N).sum()], dtype=np.uint64)
    return total


def labelled_fingerprint(tensor: CountTensor, sums: Hashes) -> str:
    """Return the checksum of a tensor whose cells have the given sums, by label."""
    axes = [(a.name, len(a), int(mixed(a.hashes).sum(dtype=np.uint64))) for a in tensor.axes]
    part = "" if tensor.part is None else tensor.part.to_text()
    return hashlib.sha256(repr((axes, sums.tolist(), part)).encode()).hexdigest()[:16]
