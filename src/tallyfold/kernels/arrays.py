"""The array types that kernels, and all above them, speak."""

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int32]
Singles = NDArray[np.float32]
Whole = NDArray[np.integer]
"""Whole numbers of any size."""
Factors = Sequence[Floats]
"""One (D, K) array per axis, all with the same K."""
BLOCK_BYTES = 1 << 21
"""Of arrays in files, how much is read at a time."""
ROWS_AT_A_TIME = 256
"""And how many rows that stand here and there: with each, Linux maps 64 KiB."""
OverRows = Callable[[Array], Floats]
"""What makes sums over all rows of an axis of sums over the rows that are in this process."""


def all_here(sums: Array) -> Floats:
    """Return sums over rows as they are: all rows are here."""
    return np.asarray(sums)


def in_file(array: Array) -> bool:
    """Tell whether an array is mapped from a file."""
    return isinstance(array, np.memmap)


def row_blocks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of arrays of the same length: all at once, but some at a time from files.

    Of a file that was read, nothing stays in memory.
    """
    if not any(map(in_file, arrays)):
        yield arrays
        return
    n_rows = len(arrays[0])
    step = max(1, BLOCK_BYTES // max(max(a.nbytes // max(n_rows, 1) for a in arrays), 1))
    for start in range(0, n_rows, step):
        yield tuple(np.asarray(array[start : start + step]) for array in arrays)
        for array in arrays:
            give_back(array)


def rows_of(array: Array, which: slice | Array) -> Array:
    """Return some rows of an array; of one in a file, hardly more than these are ever in memory."""
    if not in_file(array) or isinstance(which, slice):
        return np.asarray(array[which])
    found = np.empty((len(which), *array.shape[1:]), array.dtype)
    for start in range(0, len(which), ROWS_AT_A_TIME):
        part = slice(start, start + ROWS_AT_A_TIME)
        found[part] = array[which[part]]
        give_back(array)
    return found


def give_back(array: Array) -> None:
    """Let go of the pages of a mapped array that were read; they are read again when needed."""
    own = getattr(array, "_mmap", None)
    if own is not None and hasattr(mmap, "MADV_DONTNEED"):
        own.madvise(mmap.MADV_DONTNEED)
