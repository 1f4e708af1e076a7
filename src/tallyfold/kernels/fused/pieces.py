"""Run a kernel over an axis's pieces and add them up to entities in an order that never changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.threads import run_chunks


def sum_pieces(
    kernel: Callable[..., None],
    layout: AxisLayout,
    table_RW: Floats,
    first_M: Ints,
    *extra: Any,
    dtype: DTypeLike = np.float64,
    width: int | None = None,
) -> NDArray[Any]:
    """Return ``kernel``'s sums per entity, as wide as the table or `width`; zero for an empty one.

    The kernel is called with its range of pieces, the layout's arrays, the table with the first
    rows of this axis and of the others, a row of sums per piece to add to, and `extra`.
    """
    width = table_RW.shape[1] if width is None else width
    sums_SW = np.zeros((len(layout.piece_entity_S), width), dtype=dtype)
    pieces = layout.piece_cell_S1, layout.piece_entity_S
    cells = *pieces, layout.others_NJ, layout.order_N, layout.counts_N
    table = table_RW, first_M[layout.axis], np.delete(first_M, layout.axis)
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
