"""The encoder's two passes over distinct inputs, a block at a time, innermost loops over inputs.

No array of inputs times components times hidden units is ever made. Two units go together, which
halves the reading of inputs; the common two and three inputs are unrolled.

Axes in names: T = 2 kinds, C networks, U hidden units (an even number), I = M + 1 weights of a
unit, B inputs of a block, G blocks, W = 2 K columns (K shapes, K rates), H chunks.
"""

import numpy as np

from tallyfold.kernels.fused.jit import jit, jit_sums
from tallyfold.kernels.fused.softplus import BLOCK, add_signals, finish, pull_back

PADDED = BLOCK + 16
"""Length of a row in memory: rows a power of two apart would evict each other from the cache."""


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
                _affine(output_TCI[:, c], inputs_MB, x_2B)
                sum_WB[k], sum_WB[n_components + k] = x_2B[0], x_2B[1]
            for t in range(2):
                output_I, w = output_TCI[t, c], t * n_components + k
                sum_B = sum_WB[w]
                if n_units > 0:
                    sum_B[:] = output_I[n_units]
                for u in range(0, n_units, 2):
                    _affine(hidden_TCUI[t, c, u : u + 2], inputs_MB, x_2B)
                    add_signals(codes[0], x_2B, output_I[u], output_I[u + 1], tail_2B, sum_B)
                finish(codes[1], sum_B, tail_2B[0], slope_GWB[g, w])
        _transpose(sum_WB, first, size, value_RW)


@jit_sums
def differentiate(  # type: ignore[no-untyped-def]
    start, stop, blocks_per_chunk, codes, inputs, packed, slope_GWB, cells, sums
):
    """Add, for a range of chunks, what their inputs give to each weight's gradient.

    The gradients of a hidden unit's weights lack the factor of the unit's output weight.
    """
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
                _moments(x_2B, inputs_MB, output_HTCI[h, :, c])
                continue
            for t in range(2):
                grad_B, output_I = grad_WB[t * n_components + k], output_HTCI[h, t, c]
                output_I[n_units] += _total(grad_B)
                for u in range(0, n_units, 2):
                    _affine(hidden_TCUI[t, c, u : u + 2], inputs_MB, x_2B)
                    output_I[u] += pull_back(codes[0], grad_B, tail_2B[0], x_2B[0])
                    output_I[u + 1] += pull_back(codes[0], grad_B, tail_2B[1], x_2B[1])
                    _moments(x_2B, inputs_MB, hidden_HTCUI[h, t, c, u : u + 2])


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


@jit_sums
def _affine(weight_2I, inputs_MB, x_2B):  # type: ignore[no-untyped-def]
    """Write bias plus weights times inputs for two units; up to four inputs in one go."""
    m = len(inputs_MB)
    v_0, v_1, v_b = weight_2I[0, 0], weight_2I[0, 1], weight_2I[0, m]
    w_0, w_1, w_b = weight_2I[1, 0], weight_2I[1, 1], weight_2I[1, m]
    if m == 2:
        for r in range(BLOCK):
            one, two = inputs_MB[0, r], inputs_MB[1, r]
            x_2B[0, r] = v_b + v_0 * one + v_1 * two
            x_2B[1, r] = w_b + w_0 * one + w_1 * two
        return
    v_2, w_2 = weight_2I[0, 2], weight_2I[1, 2]
    if m == 3:
        for r in range(BLOCK):
            one, two, three = inputs_MB[0, r], inputs_MB[1, r], inputs_MB[2, r]
            x_2B[0, r] = v_b + v_0 * one + v_1 * two + v_2 * three
            x_2B[1, r] = w_b + w_0 * one + w_1 * two + w_2 * three
        return
    v_3, w_3 = weight_2I[0, 3], weight_2I[1, 3]
    for r in range(BLOCK):
        one, two, three, four = inputs_MB[0, r], inputs_MB[1, r], inputs_MB[2, r], inputs_MB[3, r]
        x_2B[0, r] = (v_b + v_0 * one + v_1 * two) + (v_2 * three + v_3 * four)
        x_2B[1, r] = (w_b + w_0 * one + w_1 * two) + (w_2 * three + w_3 * four)
    for i in range(4, m):
        v_0, w_0 = weight_2I[0, i], weight_2I[1, i]
        for r in range(BLOCK):
            x_2B[0, r] += v_0 * inputs_MB[i, r]
            x_2B[1, r] += w_0 * inputs_MB[i, r]


@jit_sums
def _moments(grad_2B, inputs_MB, sums_2I):  # type: ignore[no-untyped-def]
    """Add, for two units, the sum of gradient times each input, and of the gradient alone."""
    m = len(inputs_MB)
    v_0 = v_1 = v_2 = v_b = w_0 = w_1 = w_2 = w_b = np.float32(0.0)
    if m >= 3:
        for r in range(BLOCK):
            v, w = grad_2B[0, r], grad_2B[1, r]
            one, two, three = inputs_MB[0, r], inputs_MB[1, r], inputs_MB[2, r]
            v_0, v_1, v_2, v_b = v_0 + v * one, v_1 + v * two, v_2 + v * three, v_b + v
            w_0, w_1, w_2, w_b = w_0 + w * one, w_1 + w * two, w_2 + w * three, w_b + w
        _add(sums_2I, 2, v_2, w_2)
    else:
        for r in range(BLOCK):
            v, w = grad_2B[0, r], grad_2B[1, r]
            one, two = inputs_MB[0, r], inputs_MB[1, r]
            v_0, v_1, v_b = v_0 + v * one, v_1 + v * two, v_b + v
            w_0, w_1, w_b = w_0 + w * one, w_1 + w * two, w_b + w
    _add(sums_2I, 0, v_0, w_0)
    _add(sums_2I, 1, v_1, w_1)
    _add(sums_2I, m, v_b, w_b)
    for i in range(3, m):
        v_0 = w_0 = np.float32(0.0)
        for r in range(BLOCK):
            v_0 += grad_2B[0, r] * inputs_MB[i, r]
            w_0 += grad_2B[1, r] * inputs_MB[i, r]
        _add(sums_2I, i, v_0, w_0)


@jit_sums
def _total(grad_B):  # type: ignore[no-untyped-def]
    """Return the sum."""
    result = np.float32(0.0)
    for r in range(BLOCK):
        result += grad_B[r]
    return result


@jit_sums
def _add(sums_2I, i, v, w):  # type: ignore[no-untyped-def]
    sums_2I[0, i] += v
    sums_2I[1, i] += w
