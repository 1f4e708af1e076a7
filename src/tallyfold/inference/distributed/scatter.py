"""Counts that processes share: each gets a range of the cells, and all the axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.part import Part
from tallyfold.data.split import drawn_cells
from tallyfold.data.store import Store
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.distributed.own_ranges import own_range, range_lengths
from tallyfold.inference.distributed.process_group import ProcessGroup, current_group
from tallyfold.kernels.arrays import Mask

DRAWN_TOGETHER = 1 << 27
"""Cells among which the first process draws for all."""
BLOCK = 1 << 20
"""Of more, how many are drawn with one key."""


def scatter(source: Callable[[], CountTensor] | Store) -> CountTensor:
    """Return this process's cells of a tensor that the first process makes, or of a store.

    The cells are cut into ranges of about equal length, in their order: between labels of the first
    axis, unless few labels have most cells. Every process has all axes. A process that is alone
    gets the whole tensor.

    Parameters
    ----------
    source
        Reads or builds the tensor, called in the first process only; or a store, of which each
        process reads a range of its own and no process the whole.

    Examples
    --------
    >>> import tallyfold as tf
    >>> with tf.many_processes():
    ...     part = tf.scatter(lambda: tf.simulate((9, 8), 2, density=0.3).tensor)
    """
    group = current_group()
    if isinstance(source, Store):
        return source.tensor() if group.size == 1 else own_range(source, group)
    return source() if group.size == 1 else _dealt_out(source, group)


def _dealt_out(make: Callable[[], CountTensor], group: ProcessGroup) -> CountTensor:
    """Let the first process make the tensor and send the others their ranges."""
    whole: list[CountTensor] = []

    def described() -> tuple[list[int], list[Axis], Part | None]:
        whole.append(make())
        part, lengths = whole[0].part, range_lengths(whole[0].indices[:, 0], group.size)
        return lengths, list(whole[0].axes), part and replace(part, whole=None)

    lengths, axes, part = group.broadcast(described)
    tensor = whole[0] if whole else None
    length = lengths[group.rank]
    columns = [
        group.scatter(None if tensor is None else tensor.indices[:, m], length)
        for m in range(len(axes))
    ]
    counts = group.scatter(None if tensor is None else tensor.counts, length)
    return CountTensor.of_canonical(axes, np.stack(columns, axis=1), counts, part=part)


def scatter_draw(group: ProcessGroup, number: int, share: float, seed: int) -> Mask:
    """Draw a share of the cells of all processes; return which of this one's `number` it has.

    Of very many cells, which the first process could not draw for all, each process draws its own,
    in blocks of cells with a key of their own.
    """
    numbers = group.all_gather(np.array([number]))
    total, first = int(numbers.sum()), int(numbers[: group.rank].sum())
    if total <= DRAWN_TOGETHER:
        drawn: list[Mask] = []
        rng = np.random.default_rng([seed, 1])
        group.broadcast(lambda: drawn.append(drawn_cells(total, share, rng)))
        return group.scatter(drawn[0] if drawn else None, number)
    chosen_N = np.empty(number, bool)
    for start in range(first // BLOCK * BLOCK, first + number, BLOCK):
        key = np.random.SeedSequence([seed, 1, start])
        block = np.random.Generator(np.random.Philox(key)).random(BLOCK) < share
        low, high = max(start, first), min(start + BLOCK, first + number)
        chosen_N[low - first : high - first] = block[low - start : high - start]
    return chosen_N
