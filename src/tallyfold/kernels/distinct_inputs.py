"""Distinct inputs: what an encoder sees of a cell, listed once however many cells share it.

An encoder's input is a cell's positions on the other axes and its count. Coauthors share words,
years and counts, so real tensors have far fewer distinct inputs than cells. Inputs are found once;
sums over cells then go through ``input_N``, gradients back through the cells of each input.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints, Positions
from tallyfold.kernels.layout import AxisLayout, counting_sort, entities

LARGEST_KEY = 2**62


class DistinctInputs(NamedTuple):
    """The distinct inputs of one axis, R of them, and the cells that have them.

    Attributes
    ----------
    others_RJ
        Positions on the other axes, in axis order; each column contiguous.
    counts_R
        The counts.
    input_N
        A cell's input; cells in the layout's order.
    indptr_R1
        The cells of input r are ``indptr_R1[r]:indptr_R1[r + 1]`` of the next two.
    source_N, entity_N
        A cell's index in the original order, and its entity; cells in the inputs' order.
    """

    others_RJ: Positions
    counts_R: NDArray[np.integer]
    input_N: Ints
    indptr_R1: Ints
    source_N: NDArray[np.integer]
    entity_N: Ints


def distinct_inputs(layout: AxisLayout) -> DistinctInputs:
    """Find the distinct inputs by one sort.

    They are numbered by their first cell in the layout, so that cells of one entity find their
    inputs near each other in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from tallyfold.kernels.layout import axis_layout
    >>> cells = np.array([[0, 5], [1, 5], [1, 6]])
    >>> distinct_inputs(axis_layout(cells, np.array([2, 2, 2]), 0, 2)).input_N.tolist()
    [0, 0, 1]
    """
    keys_N = _keys([*layout.others_NJ.T, layout.counts_N.astype(np.int64)])
    _, first_R, found_N = np.unique(keys_N, return_index=True, return_inverse=True)
    rank_R = np.empty(len(first_R), dtype=np.int64)
    rank_R[np.argsort(first_R)] = np.arange(len(first_R))
    input_N = rank_R[found_N]
    indptr_R1, cell_N = counting_sort(input_N, len(first_R))
    example_R = cell_N[indptr_R1[:-1]]
    return DistinctInputs(
        np.asfortranarray(layout.others_NJ[example_R]),
        layout.counts_N[example_R],
        input_N,
        indptr_R1,
        layout.order_N[cell_N],
        entities(layout)[cell_N],
    )


def _keys(columns: Sequence[NDArray[np.integer]]) -> Ints:
    """Return one number per cell, equal where all columns are, in the columns' order.

    Where keys might overflow, keys and column are replaced by their ranks, which are fewer than
    the cells.
    """
    keys_N, reach = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column_N in columns:
        size = int(column_N.max(initial=0)) + 1
        if reach > LARGEST_KEY // size:
            (keys_N, reach), (column_N, size) = _ranks(keys_N), _ranks(column_N)
        keys_N = keys_N * size + column_N
        reach *= size
    return keys_N


def _ranks(values_N: NDArray[np.integer]) -> tuple[Ints, int]:
    """Return each value's rank among the distinct ones, and how many these are."""
    distinct, ranks_N = np.unique(values_N, return_inverse=True)
    return ranks_N.astype(np.int64), len(distinct)
