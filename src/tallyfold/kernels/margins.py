"""Sums of cells by combination of labels: the margins of a tensor, in whole numbers.

Whole numbers add up to the same in any order, on any number of threads and processes.
"""

from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints
from tallyfold.kernels.backends import announce_compilation, chosen_backend

SMALL_WORK = 200_000
"""Cells times values below which ``"auto"`` means NumPy."""


class Grouping(NamedTuple):
    """Cells sorted by the combination they belong to.

    Attributes
    ----------
    keys_P
        The combinations, in ascending order.
    order_N, indptr_P1
        Combination p has the cells ``order_N[indptr_P1[p]:indptr_P1[p + 1]]``.
    row_N
        The combination of each cell.
    """

    keys_P: Ints
    order_N: Ints
    indptr_P1: Ints
    row_N: Ints

    @classmethod
    def of(cls, key_N: Ints) -> "Grouping":
        """Sort cells by their keys.

        Examples
        --------
        >>> Grouping.of(np.array([7, 3, 7])).row_N.tolist()
        [1, 0, 1]
        """
        order_N = np.argsort(key_N)
        sorted_N = key_N[order_N]
        first_N = np.ones(len(key_N), dtype=bool)
        first_N[1:] = sorted_N[1:] != sorted_N[:-1]
        starts_P = np.flatnonzero(first_N)
        row_N = np.empty(len(key_N), dtype=np.int64)
        row_N[order_N] = np.cumsum(first_N) - 1
        return cls(sorted_N[starts_P], order_N, np.append(starts_P, len(key_N)), row_N)

    def sums(self, value_NF: NDArray[np.integer]) -> Ints:
        """Return the sums of whole numbers over each combination's cells."""
        if len(self.order_N) == 0:
            return np.zeros((0, value_NF.shape[1]), dtype=np.int64)
        return np.add.reduceat(value_NF[self.order_N], self.indptr_P1[:-1], axis=0, dtype=np.int64)


def out_of_fold_sums(
    grouping: Grouping,
    fold_N: NDArray[np.int8],
    value_NF: Ints,
    n_folds: int,
    besides: int = -1,
    *,
    backend: str = "auto",
) -> Ints:
    """Return, for each cell, the sums over the cells of its combination in other folds.

    Parameters
    ----------
    grouping
        The cells by combination.
    fold_N, n_folds
        The fold of each cell, from 0 on.
    value_NF
        Whole numbers to sum.
    besides
        A fold to leave out of every sum, besides the cell's own; -1: none.
    """
    small = value_NF.size < SMALL_WORK
    if chosen_backend(backend, small=small) == "numba":
        announce_compilation()
        fused = import_module("tallyfold.kernels.fused.margins")
        _, order_N, indptr_P1, _ = grouping
        return fused.out_of_fold_sums(  # type: ignore[no-any-return]
            order_N, indptr_P1, fold_N, value_NF, n_folds, besides
        )
    key_N = grouping.row_N * n_folds + fold_N
    n_rows = len(grouping.keys_P)
    sums_NF = np.empty(value_NF.shape, dtype=np.int64)
    for f in range(value_NF.shape[1]):
        sums = np.zeros(n_rows * n_folds, dtype=np.int64)
        np.add.at(sums, key_N, value_NF[:, f])
        by_fold = sums.reshape(n_rows, n_folds)
        if besides >= 0:
            by_fold[:, besides] = 0
        sums_NF[:, f] = by_fold.sum(axis=1)[grouping.row_N] - by_fold[grouping.row_N, fold_N]
    return sums_NF


def sums_by_fold(
    grouping: Grouping, fold_N: NDArray[np.int8], value_NKF: Ints, *, backend: str = "auto"
) -> Ints:
    """Return, for a cell of fold k, the sums over its combination of the others' k-th values.

    Cells of fold k itself are left out. `value_NKF` has values of each cell for each fold.
    """
    small = value_NKF.size < SMALL_WORK
    if chosen_backend(backend, small=small) == "numba":
        announce_compilation()
        fused = import_module("tallyfold.kernels.fused.margins")
        _, order_N, indptr_P1, _ = grouping
        return fused.sums_by_fold(  # type: ignore[no-any-return]
            order_N, indptr_P1, fold_N, value_NKF
        )
    sums_NF = np.empty((len(fold_N), value_NKF.shape[2]), dtype=np.int64)
    for fold in range(value_NKF.shape[1]):
        own_N = fold_N == fold
        others_NF = np.where(own_N[:, None], 0, value_NKF[:, fold])
        sums_NF[own_N] = grouping.sums(others_NF)[grouping.row_N[own_N]]
    return sums_NF
