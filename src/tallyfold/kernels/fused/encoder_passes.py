"""The encoder's two passes over distinct inputs, a block at a time, innermost loops over inputs.

No array of inputs times components times hidden units is ever made. Axes in names: T = 2 kinds,
C networks, U hidden units (an even number), I = M + 1 weights of a unit, B inputs of a block, G
blocks, W = 2 K columns (K shapes, K rates), H chunks.
"""

import numpy as np

from tallyfold.kernels.fused.encoder_layers import affine, moments, total
from tallyfold.kernels.fused.jit import jit, jit_sums
from tallyfold.kernels.fused.softplus import BLOCK, add_signals, finish, pull_back

PADDED = BLOCK + 16
"""Length of a row of W rows: at a power of two they would push each other out of the cache."""


@jit_sums
def evaluate(start, stop, codes, inputs, packed, value_RW, slope_GWB):  # type: ignore[no-untyped-def]
    """Write value and slope of the output for the blocks start..stop."""
    others_JR, counts_R = inputs
    hidden_TCUI, output_TCI, table_RK, first_J = packed
    n_components, n_units = table_RK.shape[1], hidden_TCUI.shape[2]
    inputs_KMB = np.empty((n_components, len(first_J) + 1, PADDED), dtype=np.float32)
    x_2B, tail_2B = _pair_of_rows(), _pair_of_rows()
    sum_WB = np.empty((2 * n_components, PADDED), dtype=np.float32)
    for g in range(start, stop):
        first, size = g * BLOCK, min(BLOCK, len(counts_R) - g * BLOCK)
        _gather(table_RK, first_J, others_JR, counts_R, first, size, inputs_KMB)
        for k in range(n_components):
            inputs_MB, c = inputs_KMB[k], k if output_TCI.shape[1] > 1 else 0
            if n_units == 0:
                affine(output_TCI[:, c], inputs_MB, x_2B)
                sum_WB[k], sum_WB[n_components + k] = x_2B[0], x_2B[1]
            for t in range(2):
                output_I, w = output_TCI[t, c], t * n_components + k
                sum_B = sum_WB[w]
                if n_units > 0:
                    sum_B[:] = output_I[n_units]
                for u in range(0, n_units, 2):
                    affine(hidden_TCUI[t, c, u : u + 2], inputs_MB, x_2B)
                    add_signals(codes[0], x_2B, output_I[u], output_I[u + 1], tail_2B, sum_B)
                finish(codes[1], sum_B, tail_2B[0], slope_GWB[g, w])
        _transpose(sum_WB, first, size, value_RW)


@jit_sums
def differentiate(edges, codes, inputs, packed, slope_GWB, cells, sums):  # type: ignore[no-untyped-def]
    """Add, for a range of chunks, what their inputs give to each weight's gradient.

    What a hidden unit's weights get lacks the factor of the unit's output weight.
    """
    start, stop, blocks_per_chunk = edges
    others_JR, counts_R = inputs
    hidden_HTCUI, output_HTCI = sums
    hidden_TCUI, output_TCI, table_RK, first_J = packed
    n_components, n_units = table_RK.shape[1], hidden_TCUI.shape[2]
    inputs_KMB = np.empty((n_components, len(first_J) + 1, PADDED), dtype=np.float32)
    x_2B, tail_2B = _pair_of_rows(), _pair_of_rows()
    grad_WB = np.empty((2 * n_components, PADDED), dtype=np.float32)
    for g in range(start * blocks_per_chunk, min(stop * blocks_per_chunk, len(slope_GWB))):
        first, size = g * BLOCK, min(BLOCK, len(counts_R) - g * BLOCK)
        _gather(table_RK, first_J, others_JR, counts_R, first, size, inputs_KMB)
        _row_gradients(cells, first, size, slope_GWB[g], grad_WB)
        for k in range(n_components):
            inputs_MB, c = inputs_KMB[k], k if output_TCI.shape[1] > 1 else 0
            h = g // blocks_per_chunk
            if n_units == 0:
                x_2B[0], x_2B[1] = grad_WB[k], grad_WB[n_components + k]
                moments(x_2B, inputs_MB, output_HTCI[h, :, c])
                continue
            for t in range(2):
                grad_B, output_I = grad_WB[t * n_components + k], output_HTCI[h, t, c]
                output_I[n_units] += total(grad_B)
                for u in range(0, n_units, 2):
                    affine(hidden_TCUI[t, c, u : u + 2], inputs_MB, x_2B)
                    output_I[u] += pull_back(codes[0], grad_B, tail_2B[0], x_2B[0])
                    output_I[u + 1] += pull_back(codes[0], grad_B, tail_2B[1], x_2B[1])
                    moments(x_2B, inputs_MB, hidden_HTCUI[h, t, c, u : u + 2])


@jit
def _pair_of_rows():  # type: ignore[no-untyped-def]
    return np.empty((2, PADDED), dtype=np.float32)


@jit
def _row_gradients(cells, first, size, slope_WB, grad_WB):  # type: ignore[no-untyped-def]
    """Sum the gradients of each row's cells, times the row's slope; zero past the last row."""
    indptr_R1, entity_N, weight_N, grad_DW = cells
    sum_W = np.empty(len(grad_WB))
    for r in range(BLOCK):
        sum_W[:] = 0.0
        if r < size:
            for n in range(indptr_R1[first + r], indptr_R1[first + r + 1]):
                weight, cell_W = weight_N[n], grad_DW[entity_N[n]]
                for w in range(len(sum_W)):
                    sum_W[w] += weight * cell_W[w]
        for w in range(len(sum_W)):
            grad_WB[w, r] = sum_W[w] * slope_WB[w, r]


@jit
def _transpose(sum_WB, first, size, value_RW):  # type: ignore[no-untyped-def]
    """Write a block's columns as rows."""
    for r in range(size):
        for w in range(len(sum_WB)):
            value_RW[first + r, w] = sum_WB[w, r]


@jit
def _gather(table_RK, first_J, others_JR, counts_R, first, size, inputs_KMB):  # type: ignore[no-untyped-def]
    """Look up all inputs of a block, an entity's components together; zeros past the last row."""
    inputs_KMB[:, :, size:] = np.float32(0.0)
    for j in range(len(first_J)):
        begin = first_J[j]
        for r in range(size):  # unsigned: no test for positions counted from the end
            row_K = table_RK[np.uint64(begin + others_JR[j, first + r])]
            for k in range(len(row_K)):
                inputs_KMB[k, j, r] = row_K[k]
    for k in range(len(inputs_KMB)):
        inputs_KMB[k, len(first_J), :size] = counts_R[first : first + size]
