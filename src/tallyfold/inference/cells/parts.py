"""Parts of the cells by entities of one axis: to train on, or to work through one after the other.

Given the other axes, what an axis's cells say separates over its entities. So an encoder can be
trained on the cells of a few entities drawn at random, without bias, and posteriors of all can be
computed a range of entities at a time, with arrays no longer than a part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tallyfold.kernels.arrays import Array, Ints

Which = slice | Array

LARGEST_PART = 8_000_000
"""Cells in a range of entities; one entity may have more."""


def ranges(cells_D: Ints, most: int = LARGEST_PART) -> Iterator[slice]:
    """Yield ranges of entities with at most `most` cells, given each entity's number of cells.

    Examples
    --------
    >>> list(ranges(np.array([3, 4, 9, 1, 1]), most=8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    start, before = 0, 0
    ends_D = np.cumsum(cells_D)
    while start < len(cells_D):
        stop = max(int(np.searchsorted(ends_D, before + most, side="right")), start + 1)
        yield slice(start, stop)
        start, before = stop, int(ends_D[stop - 1])


def sample_entities(
    rng: np.random.Generator, cells_D: Ints, candidates: Ints, most_entities: int, most_cells: int
) -> Ints:
    """Draw at most `most_entities` at random, ascending, with about `most_cells` cells at most.

    How many are drawn depends on the mean number of cells, never on those drawn: each entity is as
    likely as any other.
    """
    on_average = max(float(cells_D[candidates].mean()), 1.0)
    number = min(most_entities, len(candidates), max(1, int(most_cells / on_average)))
    return np.sort(rng.choice(candidates, number, replace=False))
