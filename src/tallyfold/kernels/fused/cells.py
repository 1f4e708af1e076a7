"""Cells in any order, for kernels that visit each one once and sort nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.fused.pack import frozen, pack
from tallyfold.kernels.layout import CHUNK_CELLS, reach_of


def chunk_count(n_cells: int) -> int:
    """Return the number of chunks: it depends on the cells alone."""
    return -(-n_cells // CHUNK_CELLS)


def chunk_edges(start: int, stop: int, n_cells: int) -> tuple[int, int]:
    """Return the cells that the chunks start..stop hold."""
    return start * CHUNK_CELLS, min(stop * CHUNK_CELLS, n_cells)


def split_first_axis(
    sets: Sequence[Factors], indices_NM: Positions
) -> tuple[Positions, Positions, Floats, Ints]:
    """Return axis 0's positions, the other axes', the table and the others' first rows."""
    table_RW, first_M = pack(sets, reach_of(indices_NM))
    indices: Any = frozen(indices_NM, np.int32, "F")
    return indices[:, 0], indices[:, 1:], table_RW, first_M[1:]
