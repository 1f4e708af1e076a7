"""A layer's linear part on a block of inputs, and the sums its weights' gradients need.

Two units go together, which halves the reading of inputs. The common two and three inputs are
unrolled: one pass over the block instead of one per input.
"""

import numpy as np

from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.softplus import BLOCK


@jit_sums
def affine(weight_2I, inputs_MB, x_2B):  # type: ignore[no-untyped-def]
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
def moments(grad_2B, inputs_MB, sums_2I):  # type: ignore[no-untyped-def]
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
def total(grad_B):  # type: ignore[no-untyped-def]
    """Return the sum."""
    result = np.float32(0.0)
    for r in range(BLOCK):
        result += grad_B[r]
    return result


@jit_sums
def _add(sums_2I, i, v, w):  # type: ignore[no-untyped-def]
    sums_2I[0, i] += v
    sums_2I[1, i] += w
