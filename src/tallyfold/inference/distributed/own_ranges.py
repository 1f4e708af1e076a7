"""Cells of a store, of which each process reads a range by itself.

Cells of tensors are in the order of their axes, and so are the ranges that processes share a fit
by: a choice among all cells falls on the same ones in any number of processes. A store is sorted
by its longest axis. Where that is not the first one, processes exchange what they have read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tallyfold.data.cells import merge_cells
from tallyfold.data.store import Store
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.inference.distributed.process_group import ProcessGroup

Ints = npt.NDArray[np.integer[Any]]
T = TypeVar("T")

AT_A_TIME = 1 << 20
"""Cells of a process that are on their way to others at a time."""
SAMPLE = 1 << 14
"""Cells of a process by which it is told where ranges should begin."""
MOST_UNEVEN = 1.25
"""How much more than an even share of the cells a process may have, for labels to stay whole."""


def own_range(store: Store, group: ProcessGroup) -> CountTensor:
    """Read this process's range of a store; if any process cannot, fail in all of them."""
    part = all_or_none(group, lambda: store.part(group.rank, group.size))
    if len(set(gathered(group, store.checksum))) > 1:
        raise DataError(
            "the processes have opened different stores, or one was written anew meanwhile. Give "
            "all of them the same folder, and begin again."
        )
    return part if store.manifest.longest == 0 or store.nnz == 0 else _in_order(part, group)


def opened_by_all(group: ProcessGroup, open_: Callable[[], Store | None]) -> Store | None:
    """Return the store that every process opens, or None if there is none in any of them."""
    store = all_or_none(group, open_)
    lacks = [rank for rank, one in enumerate(gathered(group, store is None)) if one]
    if lacks and len(lacks) < group.size:
        raise DataError(
            f"process {lacks[0] + 1} of {group.size} finds no store where others do. Every machine "
            "must see the store at the same path: mount it there, or copy it."
        )
    return store


def all_or_none(group: ProcessGroup, work: Callable[[], T]) -> T:
    """Let each process work for as long as it takes; raise the first error in all of them."""
    result: list[T] = []
    failure: Exception | None = None
    try:
        result.append(work())
    except Exception as error:
        failure = error
    group.wait_for_all()
    failures = [each for each in gathered(group, failure) if each is not None]
    if failures:
        raise failures[0]
    return result[0]


def gathered(group: ProcessGroup, value: T) -> list[T]:
    """Return what each process has, first process first."""
    own = np.empty(1, dtype=object)
    own[0] = value
    return list(group.all_gather(own))


def _in_order(part: CountTensor, group: ProcessGroup) -> CountTensor:
    """Exchange cells so that each process has a range of them in the order of tensors.

    Every process sees all cells pass, some at a time, and keeps its own.
    """
    starts = _range_starts(part, group)
    rounds = -(-max(gathered(group, part.nnz)) // AT_A_TIME)
    indices, counts = [part.indices[:0]], [part.counts[:0]]
    for number in range(rounds):
        some = slice(number * AT_A_TIME, (number + 1) * AT_A_TIME)
        indices_NM = group.all_gather(np.ascontiguousarray(part.indices[some]))
        counts_N = group.all_gather(part.counts[some])
        own_N = _range_of(indices_NM, starts) == group.rank
        indices.append(indices_NM[own_N])
        counts.append(counts_N[own_N])
    columns = [np.concatenate([each[:, m] for each in indices]) for m in range(len(part.axes))]
    del indices
    cells = merge_cells(columns, np.concatenate(counts), part.shape)
    return CountTensor.of_canonical(part.axes, cells.indices_NM, cells.counts_N, part=part.part)


def _range_starts(part: CountTensor, group: ProcessGroup) -> Ints:
    """Return the first cell of each range but the first, such that ranges are about equally long.

    They are told by every so many of the cells of each process, and begin with a label of the first
    axis, as `scatter` has it.
    """
    step = max(1, -(-max(gathered(group, part.nnz)) // SAMPLE))
    sample_NM = group.all_gather(np.ascontiguousarray(part.indices[::step]))
    sample_NM = sample_NM[np.lexsort(sample_NM.T[::-1])]
    lengths = range_lengths(sample_NM[:, 0], group.size)
    starts: Ints = sample_NM[np.cumsum(lengths[:-1])]
    begins = np.diff(sample_NM[:, 0], prepend=-1)[np.cumsum(lengths[:-1])] > 0
    starts[begins, 1:] = 0
    return starts


def range_lengths(label_N: Ints, size: int) -> list[int]:
    """Return how many cells each process gets, given their labels on the first axis, in order.

    Examples
    --------
    >>> range_lengths(np.array([0, 0, 0, 1, 2, 2, 2, 3]), 2)
    [4, 4]
    >>> range_lengths(np.array([0, 0, 0, 0, 0, 0, 0, 1]), 2)  # one would have nearly all
    [4, 4]
    >>> range_lengths(np.array([0, 0, 0, 0, 0, 1, 1, 2]), 2)
    [5, 3]
    """
    even = [len(label_N) * rank // size for rank in range(1, size)]
    cuts = []
    for place in even if len(label_N) else []:
        ends = [int(np.searchsorted(label_N, label_N[place], side)) for side in ("left", "right")]
        cuts.append(min(ends, key=lambda end: abs(end - place)))
    lengths = np.diff([0, *cuts, len(label_N)])
    if not cuts or max(lengths) > MOST_UNEVEN * len(label_N) / size or min(lengths) == 0:
        lengths = np.diff([0, *even, len(label_N)])
    return [int(length) for length in lengths]


def _range_of(indices_NM: Ints, starts: Ints) -> Ints:
    """Return in which range each cell is: how many ranges begin at it or before it.

    Examples
    --------
    >>> _range_of(np.array([[0, 1], [1, 0], [1, 2]]), np.array([[1, 0]])).tolist()
    [0, 1, 1]
    """
    range_N = np.zeros(len(indices_NM), np.intp)
    for start in starts:
        before_N = np.zeros(len(indices_NM), bool)
        for column_N, place in zip(indices_NM.T[::-1], start[::-1], strict=True):
            before_N = (column_N < place) | ((column_N == place) & before_N)
        range_N += ~before_N
    return range_N
