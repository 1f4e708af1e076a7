"""What all compiled kernels share: factors as one table, cells in chunks over threads.

The table has a row per entity of every axis, components padded to whole vectors. One table serves
any number of axes, and sets that are used together (geometric and arithmetic means) lie side by
side, so that a cell costs one look-up per axis. Chunks depend on the cells alone, and their sums
are added in their order: results do not depend on the number of threads.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tallyfold.kernels.arrays import Factors, Floats, Ints
from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.layout import CHUNK_CELLS, AxisLayout, check_factors, read_only
from tallyfold.kernels.threads import run_chunks

VECTOR = 4

Table = tuple[Floats, np.int64, Ints]
"""The table, the first row of the axis that is visited, and the first rows of the others."""


def pack(sets: Sequence[Factors], reach_M: Sequence[int], axis: int) -> Table:
    """Stack sets of factors for a visit of one axis.

    Set s fills the columns from ``s * W / len(sets)``, W being the table's width; the padding
    is zero.
    """
    check_factors(sets, reach_M)
    first_M = np.cumsum([0, *(len(factor) for factor in sets[0])])
    n_components = sets[0][0].shape[1]
    width = padded(n_components)
    table_RW = np.zeros((int(first_M[-1]), len(sets) * width))
    for s, factors in enumerate(sets):
        columns = slice(s * width, s * width + n_components)
        for start, factor_DK in zip(first_M[:-1], factors, strict=True):
            table_RW[start : start + len(factor_DK), columns] = factor_DK
    return table_RW, first_M[axis], np.delete(first_M[:-1], axis)


def padded(width: int) -> int:
    """Return the width of whole vectors that hold `width` columns."""
    return -(-width // VECTOR) * VECTOR


def frozen(array: NDArray[Any], dtype: DTypeLike, order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Return a read-only view, so that a kernel is compiled for one kind of array only."""
    return read_only(np.require(array, dtype=dtype, requirements=[order, "A"]))


def visit_cells(kernel: Callable[..., None], n_cells: int, *arguments: Any) -> None:
    """Call ``kernel(start, stop, *arguments)`` until all cells are visited."""

    def visit(start: int, stop: int) -> None:
        kernel(start * CHUNK_CELLS, min(stop * CHUNK_CELLS, n_cells), *arguments)

    run_chunks(visit, -(-n_cells // CHUNK_CELLS))


def sum_cells(kernel: Callable[..., None], n_cells: int, width: int, *arguments: Any) -> Floats:
    """Return the sums over cells that the kernel adds to its last argument, chunk by chunk."""
    sums_CW = np.zeros((-(-n_cells // CHUNK_CELLS), width))

    def visit(start: int, stop: int) -> None:
        for c in range(start, stop):
            end = min((c + 1) * CHUNK_CELLS, n_cells)
            kernel(c * CHUNK_CELLS, end, *arguments, sums_CW[c])

    run_chunks(visit, len(sums_CW))
    return np.asarray(sums_CW.sum(axis=0))


def sum_pieces(
    kernel: Callable[..., None],
    layout: AxisLayout,
    table: tuple[Any, ...],
    *extra: Any,
    dtype: DTypeLike = np.float64,
    width: int | None = None,
) -> NDArray[Any]:
    """Return the kernel's sums per entity, of the table's width or `width`; zero without a cell.

    The kernel is called with its range of pieces, the layout's arrays, the table, a row of sums
    per piece to add to, and `extra`.
    """
    width = table[0].shape[1] if width is None else width
    sums_SW = np.zeros((len(layout.piece_entity_S), width), dtype=dtype)
    pieces = layout.piece_cell_S1, layout.piece_entity_S
    cells = *pieces, layout.others_NJ, layout.order_N, layout.counts_N
    edge_C1 = layout.chunk_piece_C1

    def visit(start: int, stop: int) -> None:
        kernel(edge_C1[start], edge_C1[stop], cells, table, sums_SW, *extra)

    run_chunks(visit, len(edge_C1) - 1)
    sums_DW = np.zeros((len(layout.indptr_D1) - 1, width), dtype=dtype)
    _merge(layout.piece_entity_S, sums_SW, sums_DW)
    return sums_DW


@jit
def _merge(piece_entity_S, sums_SW, sums_DW):  # type: ignore[no-untyped-def]
    """Add piece by piece on one thread."""
    for s in range(len(piece_entity_S)):
        for k in range(sums_SW.shape[1]):
            sums_DW[piece_entity_S[s], k] += sums_SW[s, k]
