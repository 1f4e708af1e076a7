"""Which rows of factors are nearest to which."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

AT_ONCE = 2**22
"""Distances that are worked out at once."""


def nearest_rows(factor_WK: Floats, rows_S: Ints, number: int) -> Ints:
    """Return the rows nearest to some rows by Euclidean distance, nearest first, itself first."""
    centred_WK = factor_WK - factor_WK.mean(axis=0)  # keeps digits in the difference of squares
    square_W = (centred_WK**2).sum(axis=1)
    near_SN = np.empty((len(rows_S), number), np.int64)
    width = max(1, AT_ONCE // len(factor_WK))
    for start in range(0, len(rows_S), width):
        rows = rows_S[start : start + width]
        distance = square_W - 2 * centred_WK[rows] @ centred_WK.T
        distance[np.arange(len(rows)), rows] = -np.inf
        near = np.argpartition(distance, number - 1, axis=1)[:, :number]
        order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1, kind="stable")
        near_SN[start : start + width] = np.take_along_axis(near, order, axis=1)
    return near_SN
