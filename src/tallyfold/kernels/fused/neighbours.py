"""Sums over the labels of baskets; see :mod:`tallyfold.kernels.neighbours`."""

import numpy as np

from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.threads import run_chunks

CHUNK = 4096


def basket_sums(row_N, label_N, indptr_P1, labels_E, near_DL, weight_DL):  # type: ignore[no-untyped-def]
    """Compiled form of :func:`tallyfold.kernels.neighbours.reference_sums`."""
    sum_N = np.zeros(len(row_N))
    cells = row_N, label_N, indptr_P1, labels_E, near_DL, weight_DL, sum_N
    run_chunks(_visit, -(-len(row_N) // CHUNK), *cells)
    return sum_N


@jit
def _visit(start, stop, row_N, label_N, indptr_P1, labels_E, near_DL, weight_DL, sum_N):  # type: ignore[no-untyped-def]
    n_labels, length = near_DL.shape
    for n in range(start * CHUNK, min(stop * CHUNK, len(row_N))):
        row, label = row_N[n], label_N[n]
        if row < 0 or label < 0 or label >= n_labels:
            continue
        e, end, place, total = indptr_P1[row], indptr_P1[row + 1], 0, 0.0
        while e < end and place < length:  # both lists ascend
            if labels_E[e] < near_DL[label, place]:
                e += 1
            elif labels_E[e] > near_DL[label, place]:
                place += 1
            else:
                total += weight_DL[label, place]
                e += 1
                place += 1
        sum_N[n] = total
