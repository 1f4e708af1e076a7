"""Cells sorted by one axis, cut into pieces that any number of threads may sum.

A *piece* is a run of cells of one entity that does not cross a multiple of ``CHUNK_CELLS``.
Pieces depend on the data alone, never on the number of threads, and their sums are added in
their own order. So results have the same bits on one thread and on many, and the cells of an axis
with 14 entities are still divided evenly between threads.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tallyfold.errors import CountError, ParameterError, ShapeError
from tallyfold.kernels.arrays import Array, Factors, Floats, Ints, Positions, Whole

CHUNK_CELLS = 8192
LARGEST_KEY = 2**62


class AxisLayout(NamedTuple):
    """The cells of a tensor in the order of one axis.

    Attributes
    ----------
    axis
        The axis the cells are sorted by.
    reach_M
        One more than the largest position on each axis; on the sorted axis, its size.
    indptr_D1
        Entity d's cells are ``indptr_D1[d]:indptr_D1[d + 1]``.
    others_NJ
        Positions on the other M - 1 axes, in axis order; each column contiguous.
    order_N
        Each cell's position in the original order.
    counts_N
        The counts, in int32 if that holds them all, else in int64.
    piece_cell_S1
        Piece s holds the cells ``piece_cell_S1[s]:piece_cell_S1[s + 1]``.
    piece_entity_S
        The entity that a piece belongs to.
    chunk_piece_C1
        Chunk c holds the pieces ``chunk_piece_C1[c]:chunk_piece_C1[c + 1]``.
    """

    axis: int
    reach_M: tuple[int, ...]
    indptr_D1: Ints
    others_NJ: Positions
    order_N: Whole
    counts_N: Whole
    piece_cell_S1: Ints
    piece_entity_S: Ints
    chunk_piece_C1: Ints


def axis_layout(indices_NM: Whole, counts_N: Whole, axis: int, size: int) -> AxisLayout:
    """Sort cells by one axis, stably and in linear time.

    Parameters
    ----------
    indices_NM
        A cell's position on each axis.
    counts_N
        A cell's count.
    axis, size
        The axis to sort by and its number of entities.

    Examples
    --------
    >>> import numpy as np
    >>> layout = axis_layout(np.array([[2, 0], [0, 1], [2, 1]]), np.array([5, 6, 7]), 0, 3)
    >>> layout.indptr_D1.tolist(), layout.counts_N.tolist()
    ([0, 1, 1, 3], [6, 5, 7])
    """
    _check(indices_NM, counts_N, axis, size)
    indptr_D1, order_N = counting_sort(indices_NM[:, axis], size)
    piece_cell_S1, piece_entity_S, chunk_piece_C1 = _pieces(indptr_D1)
    return AxisLayout(
        axis,
        tuple(size if m == axis else reach for m, reach in enumerate(reach_of(indices_NM))),
        indptr_D1,
        read_only(_others(indices_NM, axis, order_N)),
        read_only(order_N),
        read_only(counts_N.astype(_short(counts_N.max(initial=0)))[order_N]),
        piece_cell_S1,
        piece_entity_S,
        chunk_piece_C1,
    )


def check_factors(
    sets: Sequence[Factors], reach_M: Sequence[int], unused: int | None = None
) -> int:
    """Refuse factors that do not cover the cells: compiled code would read past their end.

    Return the number of components. The factors of the axis `unused` are not checked.
    """
    for factors in sets:
        if len(factors) != len(reach_M):
            raise ShapeError(f"Cells have {len(reach_M)} axes; got {len(factors)} factors.")
    used = [m for m in range(len(reach_M)) if m != unused]
    n_components = int(sets[0][used[0]].shape[-1])
    for factors, m in product(sets, used):
        reach, shape = reach_M[m], factors[m].shape
        if len(shape) != 2 or shape[0] < reach or shape[1] != n_components:
            raise ShapeError(
                f"Factor {m} must be (D, {n_components}) with D >= {reach}; got {shape}."
            )
    return n_components


def check_weights(weight_N: Floats, layout: AxisLayout) -> None:
    """Refuse weights that are not one per cell."""
    if weight_N.shape != layout.counts_N.shape:
        wanted, got = layout.counts_N.shape, weight_N.shape
        raise ShapeError(f"Weights must be one per cell, {wanted}; got weights of shape {got}.")


def reach_of(indices_NM: Whole) -> list[int]:
    """Return how many rows each factor must have for these cells; refuse negative positions."""
    if len(indices_NM) and indices_NM.min() < 0:
        raise ShapeError("`indices_NM` must hold positions of 0 or more.")
    return [int(top) + 1 for top in indices_NM.max(axis=0, initial=-1)]


def entities(layout: AxisLayout) -> Ints:
    """Return the entity of each cell, in the layout's order."""
    return np.repeat(np.arange(len(layout.indptr_D1) - 1), np.diff(layout.indptr_D1))


def _others(indices_NM: Whole, axis: int, order_N: Whole) -> Positions:
    """Return the other axes' positions in the layout's order; a view if they already have it."""
    as_they_are = indices_NM.dtype == np.int32 and indices_NM.flags.f_contiguous
    if axis == 0 and as_they_are and _ascending(indices_NM[:, 0]):
        return indices_NM[:, 1:].astype(np.int32, copy=False)
    others = np.empty((len(indices_NM), indices_NM.shape[1] - 1), dtype=np.int32, order="F")
    for column, other in enumerate(m for m in range(indices_NM.shape[1]) if m != axis):
        others[:, column] = indices_NM[:, other][order_N]
    return others


def read_only(array: Array) -> Array:
    """Return a read-only view: a kernel is compiled for one kind of array only."""
    view = array.view()
    view.flags.writeable = False
    return view


def _short(largest: int) -> type[np.integer]:
    """Return int32 if it holds numbers up to the largest, else int64."""
    return np.int32 if largest < 2**31 else np.int64


def _ascending(entity_N: Whole) -> bool:
    return bool(np.all(entity_N[1:] >= entity_N[:-1]))


def _check(indices_NM: Whole, counts_N: Whole, axis: int, size: int) -> None:
    """Refuse what would read outside an array in compiled code."""
    if indices_NM.ndim != 2 or indices_NM.shape[1] < 2:
        raise ShapeError(f"`indices_NM` must have two axes or more; got {indices_NM.shape}.")
    if counts_N.shape != indices_NM.shape[:1]:
        raise ShapeError(f"{len(indices_NM)} cells but counts of shape {counts_N.shape}.")
    if not 0 <= axis < indices_NM.shape[1]:
        raise ParameterError(f"`axis` must be in 0..{indices_NM.shape[1] - 1}; got {axis}.")
    if len(counts_N) and (indices_NM.min() < 0 or indices_NM[:, axis].max() >= size):
        raise ShapeError(f"Positions must be 0 or more, and below {size} on axis {axis}.")
    if len(counts_N) and (counts_N.min() < 0 or counts_N.max() > 2**53):
        raise CountError("Counts must be in 0..2**53.")


def counting_sort(entity_N: Whole, size: int) -> tuple[Ints, Whole]:
    """Return the row starts and the stable order: scipy turns COO into CSR by counting."""
    cell_N = np.arange(len(entity_N), dtype=_short(len(entity_N)))
    if _ascending(entity_N):
        starts = np.searchsorted(entity_N, np.arange(size + 1))
        return starts.astype(np.int64), cell_N
    by_entity = sparse.coo_array(
        (np.ones(len(entity_N), dtype=np.int8), (entity_N, cell_N)), shape=(size, len(entity_N))
    ).tocsr()
    return by_entity.indptr.astype(np.int64), by_entity.indices


def _pieces(indptr_D1: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut every entity's cells at the multiples of ``CHUNK_CELLS``."""
    n_cells = int(indptr_D1[-1])
    chunk_cell_C = np.arange(0, n_cells, CHUNK_CELLS)
    piece_cell_S1 = np.union1d(indptr_D1, chunk_cell_C)
    piece_entity_S = np.searchsorted(indptr_D1, piece_cell_S1[:-1], side="right") - 1
    chunk_piece_C1 = np.searchsorted(piece_cell_S1, np.append(chunk_cell_C, n_cells))
    return piece_cell_S1, piece_entity_S, chunk_piece_C1


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
    counts_R: Whole
    input_N: Ints
    indptr_R1: Ints
    source_N: Whole
    entity_N: Ints


def distinct_inputs(layout: AxisLayout) -> DistinctInputs:
    """Find the distinct inputs of an axis's encoder, by one sort.

    An input is a cell's positions on the other axes and its count. Coauthors share words, years
    and counts, so real tensors have far fewer distinct inputs than cells.

    They are numbered by their first cell in the layout, so that cells of one entity find their
    inputs near each other in memory.

    Examples
    --------
    >>> import numpy as np
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
    sample_R = cell_N[indptr_R1[:-1]]
    return DistinctInputs(
        np.asfortranarray(layout.others_NJ[sample_R]),
        layout.counts_N[sample_R],
        input_N,
        indptr_R1,
        layout.order_N[cell_N],
        entities(layout)[cell_N],
    )


def _keys(columns: Sequence[Whole]) -> Ints:
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


def _ranks(values_N: Whole) -> tuple[Ints, int]:
    """Return each value's rank among the distinct values, and the number of these."""
    distinct, ranks_N = np.unique(values_N, return_inverse=True)
    return ranks_N.astype(np.int64), len(distinct)
