"""Factors as one table: a row per entity of every axis, components padded to whole vectors.

One table serves any number of axes, and sets that are used together (geometric and arithmetic
means) lie side by side, so that a cell costs one look-up per axis.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tallyfold.kernels.arrays import Factors, Floats, Ints
from tallyfold.kernels.layout import check_factors

VECTOR = 4


def pack(sets: Sequence[Factors], reach_M: Sequence[int]) -> tuple[Floats, Ints]:
    """Stack sets of factors; return the table and every axis's first row.

    Set s fills the columns from ``s * W / len(sets)``, W being the table's width; the padding
    is zero.
    """
    check_factors(sets, reach_M)
    sizes = [len(factor) for factor in sets[0]]
    first_M = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_components = sets[0][0].shape[1]
    width = -(-n_components // VECTOR) * VECTOR
    table_RW = np.zeros((int(first_M[-1]), len(sets) * width))
    for s, factors in enumerate(sets):
        for start, factor_DK in zip(first_M[:-1], factors, strict=True):
            rows = slice(int(start), int(start) + len(factor_DK))
            table_RW[rows, s * width : s * width + n_components] = factor_DK
    return table_RW, first_M[:-1]


def frozen(
    array: NDArray[np.generic], dtype: DTypeLike, order: Literal["C", "F"] = "C"
) -> NDArray[np.generic]:
    """Return a read-only view, so that a kernel is compiled for one kind of array only."""
    view = np.require(array, dtype=dtype, requirements=[order, "A"]).view()
    view.flags.writeable = False
    return view
