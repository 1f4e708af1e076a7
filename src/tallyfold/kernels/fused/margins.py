"""Sums over the other cells of a combination; see :mod:`tallyfold.kernels.margins`."""

import numpy as np

from tallyfold.kernels.arrays import Ints
from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.threads import run_chunks

CHUNKS = 256


def sums_by_fold(order_N, indptr_P1, fold_N, value_NKF):  # type: ignore[no-untyped-def]
    """Sum, for a cell of fold k, the k-th values of its combination's cells in other folds."""
    sums_NF = np.empty((len(fold_N), value_NKF.shape[2]), dtype=np.int64)
    arguments = chunk_edges(indptr_P1), order_N, indptr_P1, fold_N, value_NKF, sums_NF
    run_chunks(_rows_by_fold, CHUNKS, *arguments)
    return sums_NF


def chunk_edges(indptr_P1: Ints) -> Ints:
    """Return the combinations that chunks of about as many cells begin with."""
    steps = np.linspace(0, indptr_P1[-1], CHUNKS + 1).astype(np.int64)
    edge_C1 = np.searchsorted(indptr_P1, steps, side="left")
    edge_C1[-1] = len(indptr_P1) - 1
    return edge_C1


@jit
def _rows_by_fold(  # type: ignore[no-untyped-def]
    start, stop, edge_C1, order_N, indptr_P1, fold_N, value_NKF, sums_NF
):
    n_folds, n_values = value_NKF.shape[1], value_NKF.shape[2]
    total = np.empty((n_folds, n_values), dtype=np.int64)
    for row in range(edge_C1[start], edge_C1[stop]):
        total[:] = 0
        for at in range(indptr_P1[row], indptr_P1[row + 1]):
            cell = order_N[at]
            for fold in range(n_folds):
                if fold != fold_N[cell]:
                    for f in range(n_values):
                        total[fold, f] += value_NKF[cell, fold, f]
        for at in range(indptr_P1[row], indptr_P1[row + 1]):
            cell = order_N[at]
            for f in range(n_values):
                sums_NF[cell, f] = total[fold_N[cell], f]
