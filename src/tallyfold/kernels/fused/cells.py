"""Cells in any order, for kernels that visit each one once and sort nothing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyfold.errors import ShapeError
from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.fused.pack import frozen, pack
from tallyfold.kernels.layout import CHUNK_CELLS


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
    if len(indices_NM) and indices_NM.min() < 0:
        raise ShapeError("`indices_NM` must hold positions of 0 or more.")
    n_axes = indices_NM.shape[1]
    reach_M = indices_NM.max(axis=0) + 1 if len(indices_NM) else np.zeros(n_axes, dtype=np.int64)
    table_RW, first_M = pack(sets, reach_M.tolist())
    indices: Any = frozen(indices_NM, np.int32, "F")
    return indices[:, 0], indices[:, 1:], table_RW, first_M[1:]
