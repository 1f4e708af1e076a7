"""Shares of each cell with its own count taken out; see :mod:`tallyfold.kernels.collapsed`."""

import math

import numpy as np

from tallyfold.kernels.arrays import Ints
from tallyfold.kernels.collapsed import MOST_LATENT
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.threads import run_chunks


def collapsed_sums(means, scales, layout, prior_shape, gate_N, buffers):  # type: ignore[no-untyped-def]
    """Compiled form of :func:`tallyfold.kernels.collapsed.reference_sums`."""
    table_RK, scale_RK = np.concatenate(means), np.concatenate(scales)
    sizes = [len(each) for each in means]
    order = [layout.axis, *(m for m in range(len(means)) if m != layout.axis)]
    first_M = np.cumsum([0, *sizes])[order]
    n_rows, n_components = table_RK.shape
    own_DK = np.zeros((sizes[layout.axis], n_components))
    others_CRK = np.zeros((buffers, n_rows - sizes[layout.axis], n_components))
    # rows of the sorted axis are left out of the buffers: chunks end between its entities
    shift_M = np.where(first_M > first_M[0], first_M - sizes[layout.axis], first_M)
    edge_C1 = _edges(layout.indptr_D1, buffers)
    latent_N, log_C = np.empty(len(layout.order_N)), np.zeros(buffers)
    cells = edge_C1, layout.indptr_D1, layout.others_NJ, layout.order_N
    tables = table_RK, scale_RK, first_M, shift_M, prior_shape
    run_chunks(_visit, buffers, *cells, *tables, gate_N, own_DK, others_CRK, latent_N, log_C)
    rest_RK = others_CRK.sum(axis=0)
    sums = [
        own_DK if m == layout.axis else rest_RK[shift : shift + sizes[m]]
        for m, shift in sorted(zip(order, shift_M.tolist(), strict=True))
    ]
    return sums, latent_N, float(log_C.sum())


def _edges(indptr_D1: Ints, buffers: int) -> Ints:
    """Return the entities that chunks of about as many cells begin with."""
    steps = np.linspace(0, indptr_D1[-1], buffers + 1)
    edge_C1 = np.searchsorted(indptr_D1, steps, side="left")
    edge_C1[0], edge_C1[-1] = 0, len(indptr_D1) - 1
    return edge_C1


@jit_sums
def _visit(  # type: ignore[no-untyped-def]
    start, stop, edge_C1, indptr_D1, others_NJ, order_N, table_RK, scale_RK, first_M, shift_M,
    prior_shape, gate_N, own_DK, others_CRK, latent_N, log_C,
):  # fmt: skip
    n_others, n_components = others_NJ.shape[1], table_RK.shape[1]
    rate_K, share_K = np.empty(n_components), np.empty(n_components)
    row_M = np.empty(n_others + 1, dtype=np.int64)
    for chunk in range(start, stop):
        others_RK = others_CRK[chunk]
        log_sum = 0.0
        for entity in range(edge_C1[chunk], edge_C1[chunk + 1]):
            row_M[0] = first_M[0] + entity
            own_K = own_DK[entity]
            for n in range(indptr_D1[entity], indptr_D1[entity + 1]):
                for j in range(n_others):
                    row_M[j + 1] = first_M[j + 1] + others_NJ[n, j]
                rate_K[:] = table_RK[row_M[0]]
                for m in range(1, n_others + 1):
                    row_K = table_RK[row_M[m]]
                    for k in range(n_components):
                        rate_K[k] *= row_K[k]
                total = 0.0
                for k in range(n_components):
                    total += rate_K[k]
                cell = order_N[n]
                rate = total * gate_N[cell]
                seen = -math.expm1(-rate)
                latent = min(rate / seen, MOST_LATENT) if rate > 1e-12 else 1.0
                latent_N[cell] = latent
                log_sum += math.log(max(seen, 1e-300))
                unit = latent / total
                share_K[:] = 1.0
                for m in range(n_others + 1):
                    row_K, by_K = table_RK[row_M[m]], scale_RK[row_M[m]]
                    for k in range(n_components):
                        left = row_K[k] - unit * rate_K[k] * by_K[k]
                        share_K[k] *= max(left, prior_shape * by_K[k])
                total = 0.0
                for k in range(n_components):
                    total += share_K[k]
                unit = latent / total
                for k in range(n_components):
                    share_K[k] *= unit
                    own_K[k] += share_K[k]
                for j in range(n_others):
                    sums_K = others_RK[shift_M[j + 1] + others_NJ[n, j]]
                    for k in range(n_components):
                        sums_K[k] += share_K[k]
        log_C[chunk] = log_sum
