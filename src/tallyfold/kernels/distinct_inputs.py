"""Distinct rows: what an encoder sees of a cell, listed once however many cells share it.

An encoder's input is a cell's positions on the other axes and its count. Coauthors share words,
years and counts, so real tensors have far fewer such rows than cells. Rows are found once; sums
over cells then go through ``row_N``, gradients back through the cells of each row.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints, Positions
from tallyfold.kernels.layout import AxisLayout, counting_sort

LARGEST_KEY = 2**62


class Rows(NamedTuple):
    """The rows of one axis, R of them, and which cells they stand for.

    Attributes
    ----------
    others_RJ
        Positions on the other axes, in axis order; each column contiguous.
    counts_R
        The counts.
    row_N
        A cell's row; cells in the layout's order.
    indptr_R1
        Row r's cells are ``indptr_R1[r]:indptr_R1[r + 1]`` of the next two.
    source_N, entity_N
        Where a cell stands in the original order, and its entity; cells in the rows' order.
    """

    others_RJ: Positions
    counts_R: NDArray[np.integer]
    row_N: Ints
    indptr_R1: Ints
    source_N: NDArray[np.integer]
    entity_N: Ints


def distinct_rows(layout: AxisLayout) -> Rows:
    """Find the distinct rows by one sort.

    They are numbered as they first come in the layout, so that cells of one entity find their
    rows near each other in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from tallyfold.kernels.layout import axis_layout
    >>> cells = np.array([[0, 5], [1, 5], [1, 6]])
    >>> distinct_rows(axis_layout(cells, np.array([2, 2, 2]), 0, 2)).row_N.tolist()
    [0, 0, 1]
    """
    keys_N = _keys([*layout.others_NJ.T, layout.counts_N.astype(np.int64)])
    _, first_R, found_N = np.unique(keys_N, return_index=True, return_inverse=True)
    rank_R = np.empty(len(first_R), dtype=np.int64)
    rank_R[np.argsort(first_R)] = np.arange(len(first_R))
    row_N = rank_R[found_N]
    return _listed(layout, row_N, *counting_sort(row_N, len(first_R)))


def every_cell(layout: AxisLayout) -> Rows:
    """Return a row for every cell, for those who would rather not sort."""
    cell_N = np.arange(len(layout.counts_N))
    return _listed(layout, cell_N, np.arange(len(cell_N) + 1), cell_N)


def entities(layout: AxisLayout) -> Ints:
    """Return the entity of each cell, in the layout's order."""
    return np.repeat(np.arange(len(layout.indptr_D1) - 1), np.diff(layout.indptr_D1))


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


def _listed(layout: AxisLayout, row_N: Ints, indptr_R1: Ints, cell_N: NDArray[np.integer]) -> Rows:
    """Describe rows, given as ranges of cells sorted by row, by their first cell."""
    first_R = cell_N[indptr_R1[:-1]]
    return Rows(
        np.asfortranarray(layout.others_NJ[first_R]),
        layout.counts_N[first_R],
        row_N,
        indptr_R1,
        layout.order_N[cell_N],
        entities(layout)[cell_N],
    )
