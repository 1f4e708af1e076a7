"""Sums of cells by combination of labels: the margins of a tensor, in whole numbers.

Whole numbers add up to the same in any order, on any number of threads and processes.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints, Whole
from tallyfold.kernels.backends import announce_compilation, chosen_backend

SMALL_WORK = 200_000
"""Cells times values below which ``"auto"`` means NumPy."""
LARGEST_KEY = 2**63
SUMMED_AT_ONCE = 1 << 20
"""Sorted cells whose values are summed at once; a combination with more is not cut."""


class Grouping(NamedTuple):
    """Cells sorted by the combination they belong to.

    Attributes
    ----------
    keys_P
        The combinations, in ascending order.
    order_N, indptr_P1
        Combination p has the cells ``order_N[indptr_P1[p]:indptr_P1[p + 1]]``.
    """

    keys_P: Ints
    order_N: Whole
    indptr_P1: Ints

    @classmethod
    def of(cls, key_N: Ints) -> "Grouping":
        """Sort cells by their keys.

        Examples
        --------
        >>> Grouping.of(np.array([7, 3, 7])).rows().tolist()
        [1, 0, 1]
        """
        short: type[np.integer] = np.int32 if len(key_N) < 2**31 else np.int64
        order_N = np.argsort(key_N).astype(short)
        starts_P = run_starts(sorted_N := key_N[order_N])
        return cls(sorted_N[starts_P], order_N, np.append(starts_P, len(key_N)))

    def rows(self) -> Ints:
        """Return the combination of each cell."""
        row_N = np.empty(len(self.order_N), dtype=np.int64)
        row_N[self.order_N] = np.repeat(np.arange(len(self.keys_P)), np.diff(self.indptr_P1))
        return row_N

    def sums(self, value_NF: Whole) -> Ints:
        """Return the sums of whole numbers over each combination's cells."""
        if len(self.order_N) == 0:
            return np.zeros((0, value_NF.shape[1]), dtype=np.int64)
        return np.add.reduceat(value_NF[self.order_N], self.indptr_P1[:-1], axis=0, dtype=np.int64)


def run_starts(sorted_N: Ints) -> Ints:
    """Return where runs of equal numbers begin.

    Examples
    --------
    >>> run_starts(np.array([3, 7, 7, 9])).tolist()
    [0, 1, 3]
    """
    first_N = np.ones(len(sorted_N), dtype=bool)
    np.not_equal(sorted_N[1:], sorted_N[:-1], out=first_N[1:])
    return np.flatnonzero(first_N)


def sort_in_place(key_N: Ints) -> None:
    """Sort numbers where they are; quick if they are sorted already."""
    if not np.all(key_N[1:] >= key_N[:-1]):
        key_N.sort()


def coded_sums(code_N: Ints, value_VF: Whole) -> Iterator[tuple[Ints, Whole]]:
    """Yield combinations in ascending order and the sums of their cells' values, some at a time.

    Parameters
    ----------
    code_N
        For each cell, its combination times V plus which of V rows of values it has; sorted here,
        in place. No other array has an entry for each cell.
    value_VF
        The rows of values.

    Examples
    --------
    >>> code_N = np.array([7, 3, 7]) * 2 + np.array([0, 1, 1])
    >>> [(keys_P, sums_PF)] = coded_sums(code_N, np.array([[1, 10], [1, 20]]))
    >>> keys_P.tolist(), sums_PF.tolist()
    ([3, 7], [[1, 20], [2, 30]])
    """
    sort_in_place(code_N)
    start, n_values = 0, len(value_VF)
    if not len(code_N):
        yield np.zeros(0, dtype=np.int64), np.zeros((0, value_VF.shape[1]), dtype=np.int64)
    while start < len(code_N):
        last = int(code_N[min(start + SUMMED_AT_ONCE, len(code_N)) - 1]) // n_values
        stop = int(np.searchsorted(code_N, last * n_values + n_values - 1, side="right"))
        key_C, value_C = np.divmod(code_N[start:stop], n_values)
        starts_P = run_starts(key_C)
        sums_PF = np.add.reduceat(value_VF[value_C], starts_P, axis=0, dtype=np.int64)
        yield key_C[starts_P], sums_PF
        start = stop


def key_counts(key_N: Ints) -> tuple[Ints, Whole]:
    """Return the distinct keys in ascending order, and how often each occurs, in few bytes.

    The keys are sorted in place; no other array has an entry for each cell, unless nearly all
    differ.

    Examples
    --------
    >>> keys_P, counts_P = key_counts(np.array([7, 3, 7]))
    >>> keys_P.tolist(), counts_P.tolist(), str(counts_P.dtype)
    ([3, 7], [1, 2], 'int8')
    """
    keys, counts = [], []
    for keys_P, times_P1 in coded_sums(key_N, np.ones((1, 1), dtype=np.int64)):
        keys.append(keys_P)
        counts.append(short_counts(times_P1[:, 0]))
    return np.concatenate(keys), np.concatenate(counts)


def short_counts(counts_P: Whole) -> Whole:
    """Return numbers of at least zero in the shortest type with a sign that holds them."""
    kinds: tuple[type[np.integer], ...] = np.int8, np.int16, np.int32, np.int64
    largest = int(counts_P.max(initial=0))
    return counts_P.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))


def compact(sums_PF: Whole) -> Whole:
    """Return sums as 32-bit integers, if they fit."""
    fits = max(sums_PF.max(initial=0), -sums_PF.min(initial=0)) < 2**31
    return sums_PF.astype(np.int32, copy=False) if fits else sums_PF


def out_of_fold_sums(
    grouping: Grouping, fold_N: NDArray[np.int8], value_NF: Whole, n_folds: int
) -> Ints:
    """Return, for each cell, the sums over the cells of its combination in other folds.

    In NumPy alone: what :mod:`tallyfold.kernels.fold_inputs` makes in one pass is checked by it.

    Parameters
    ----------
    grouping
        The cells by combination.
    fold_N, n_folds
        The fold of each cell, from 0 on.
    value_NF
        Whole numbers to sum.
    """
    row_N, n_rows = grouping.rows(), len(grouping.keys_P)
    key_N = row_N * n_folds + fold_N
    sums_NF = np.empty(value_NF.shape, dtype=np.int64)
    for f in range(value_NF.shape[1]):
        sums = np.zeros(n_rows * n_folds, dtype=np.int64)
        np.add.at(sums, key_N, value_NF[:, f])
        by_fold = sums.reshape(n_rows, n_folds)
        sums_NF[:, f] = by_fold.sum(axis=1)[row_N] - sums[key_N]
    return sums_NF


def sums_by_fold(
    grouping: Grouping, fold_N: NDArray[np.int8], value_NKF: Whole, *, backend: str = "auto"
) -> Ints:
    """Return, for a cell of fold k, the sums over its combination of the others' k-th values.

    Cells of fold k itself are left out. `value_NKF` has values of each cell for each fold.
    """
    small = value_NKF.size < SMALL_WORK
    if chosen_backend(backend, small=small) == "numba":
        announce_compilation()
        fused = import_module("tallyfold.kernels.fused.margins")
        _, order_N, indptr_P1 = grouping
        return fused.sums_by_fold(  # type: ignore[no-any-return]
            order_N, indptr_P1, fold_N, value_NKF
        )
    sums_NF, row_N = np.empty((len(fold_N), value_NKF.shape[2]), dtype=np.int64), grouping.rows()
    for fold in range(value_NKF.shape[1]):
        own_N = fold_N == fold
        others_NF = np.where(own_N[:, None], 0, value_NKF[:, fold])
        sums_NF[own_N] = grouping.sums(others_NF)[row_N[own_N]]
    return sums_NF
