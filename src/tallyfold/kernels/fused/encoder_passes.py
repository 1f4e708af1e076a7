"""The encoder's two passes over distinct rows, a block at a time, innermost loops over rows.

No array of rows times components times hidden units is ever made. Axes in names: T = 2 kinds,
C networks, U hidden units, I = M + 1 weights of a unit, B rows of a block, G blocks, W = 2 K
columns (K shapes, K rates), H chunks.
"""

import numpy as np

from tallyfold.kernels.fused.encoder_layers import affine, moments, total
from tallyfold.kernels.fused.jit import jit, jit_sums
from tallyfold.kernels.fused.softplus import BLOCK, add_signal, finish, pull_back


@jit_sums
def evaluate(start, stop, codes, others_JR, counts_R, packed, value_RW, slope_GWB):  # type: ignore[no-untyped-def]
    """Write value and slope of the output for the blocks start..stop."""
    hidden_TCUI, output_TCI, table_KR, first_J = packed
    n_components, n_units = len(table_KR), hidden_TCUI.shape[2]
    inputs_MB = np.empty((len(first_J) + 1, BLOCK), dtype=np.float32)
    x_B, tail_B = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    sum_WB = np.empty((2 * n_components, BLOCK), dtype=np.float32)
    for g in range(start, stop):
        first, size = g * BLOCK, min(BLOCK, len(counts_R) - g * BLOCK)
        _fill(inputs_MB[len(first_J)], counts_R, first, size)
        for k in range(n_components):
            _gather(table_KR[k], first_J, others_JR, first, size, inputs_MB)
            for t in range(2):
                c = k if output_TCI.shape[1] > 1 else 0
                output_I, w = output_TCI[t, c], t * n_components + k
                sum_B = sum_WB[w]
                if n_units == 0:
                    affine(output_I, inputs_MB, sum_B)
                else:
                    sum_B[:] = output_I[n_units]
                for u in range(n_units):
                    affine(hidden_TCUI[t, c, u], inputs_MB, x_B)
                    add_signal(codes[0], x_B, output_I[u], tail_B, sum_B)
                finish(codes[1], sum_B, tail_B, slope_GWB[g, w])
        _transpose(sum_WB, first, size, value_RW)


@jit_sums
def differentiate(  # type: ignore[no-untyped-def]
    start,
    stop,
    blocks_per_chunk,
    codes,
    others_JR,
    counts_R,
    packed,
    slope_GWB,
    cells,
    hidden_HTCUI,
    output_HTCI,
):
    """Add, for the chunks start..stop, what their rows give to each weight's gradient.

    What a hidden unit's weights get lacks the factor of the unit's output weight.
    """
    hidden_TCUI, output_TCI, table_KR, first_J = packed
    n_components, n_units = len(table_KR), hidden_TCUI.shape[2]
    inputs_MB = np.empty((len(first_J) + 1, BLOCK), dtype=np.float32)
    x_B, tail_B = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    grad_WB = np.empty((2 * n_components, BLOCK), dtype=np.float32)
    for g in range(start * blocks_per_chunk, min(stop * blocks_per_chunk, len(slope_GWB))):
        first, size = g * BLOCK, min(BLOCK, len(counts_R) - g * BLOCK)
        _fill(inputs_MB[len(first_J)], counts_R, first, size)
        _row_gradients(cells, first, size, slope_GWB[g], grad_WB)
        for k in range(n_components):
            _gather(table_KR[k], first_J, others_JR, first, size, inputs_MB)
            for t in range(2):
                c, grad_B = k if output_TCI.shape[1] > 1 else 0, grad_WB[t * n_components + k]
                output_I = output_HTCI[g // blocks_per_chunk, t, c]
                if n_units == 0:
                    moments(grad_B, inputs_MB, output_I)
                else:
                    output_I[n_units] += total(grad_B)
                for u in range(n_units):
                    affine(hidden_TCUI[t, c, u], inputs_MB, x_B)
                    output_I[u] += pull_back(codes[0], grad_B, tail_B, x_B)
                    moments(x_B, inputs_MB, hidden_HTCUI[g // blocks_per_chunk, t, c, u])


@jit
def _row_gradients(cells, first, size, slope_WB, grad_WB):  # type: ignore[no-untyped-def]
    """Sum the gradients of each row's cells, times the row's slope; zero past the last row."""
    indptr_R1, source_N, entity_N, weight_N, grad_DW = cells
    sum_W = np.empty(len(grad_WB))
    for r in range(BLOCK):
        sum_W[:] = 0.0
        if r < size:
            for n in range(indptr_R1[first + r], indptr_R1[first + r + 1]):
                weight, cell_W = weight_N[source_N[n]], grad_DW[entity_N[n]]
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
def _fill(input_B, counts_R, first, size):  # type: ignore[no-untyped-def]
    """Copy the counts of a block; rows past the last have none."""
    for r in range(BLOCK):
        input_B[r] = counts_R[first + r] if r < size else np.float32(0.0)


@jit
def _gather(row_R, first_J, others_JR, first, size, inputs_MB):  # type: ignore[no-untyped-def]
    """Look up one component's factors for a block; zeros past the last row."""
    for j in range(len(first_J)):
        begin = first_J[j]
        for r in range(size):  # unsigned: no test for positions counted from the end
            inputs_MB[j, r] = row_R[np.uint64(begin + others_JR[j, first + r])]
        inputs_MB[j, size:] = np.float32(0.0)
