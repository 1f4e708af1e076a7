"""A layer's linear part on a block of rows, and the sums its weights' gradients need.

The common two and three inputs are unrolled: one pass over the block instead of one per input.
"""

import numpy as np

from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.softplus import BLOCK


@jit_sums
def affine(weight_I, inputs_MB, x_B):  # type: ignore[no-untyped-def]
    """Write bias plus weights times inputs; up to four inputs in one go."""
    m = len(inputs_MB)
    bias, w_0, w_1 = weight_I[m], weight_I[0], weight_I[1]
    if m == 2:
        for r in range(BLOCK):
            x_B[r] = bias + w_0 * inputs_MB[0, r] + w_1 * inputs_MB[1, r]
    elif m == 3:
        w_2 = weight_I[2]
        for r in range(BLOCK):
            x_B[r] = bias + w_0 * inputs_MB[0, r] + w_1 * inputs_MB[1, r] + w_2 * inputs_MB[2, r]
    else:
        w_2, w_3 = weight_I[2], weight_I[3]
        for r in range(BLOCK):
            x_B[r] = (bias + w_0 * inputs_MB[0, r] + w_1 * inputs_MB[1, r]) + (
                w_2 * inputs_MB[2, r] + w_3 * inputs_MB[3, r]
            )
        for i in range(4, m):
            for r in range(BLOCK):
                x_B[r] += weight_I[i] * inputs_MB[i, r]


@jit_sums
def moments(grad_B, inputs_MB, sums_I):  # type: ignore[no-untyped-def]
    """Add the sum of gradient times each input, and of the gradient alone."""
    m = len(inputs_MB)
    one = two = three = total = np.float32(0.0)
    if m >= 3:
        for r in range(BLOCK):
            total += grad_B[r]
            one += grad_B[r] * inputs_MB[0, r]
            two += grad_B[r] * inputs_MB[1, r]
            three += grad_B[r] * inputs_MB[2, r]
        sums_I[2] += three
    else:
        for r in range(BLOCK):
            total += grad_B[r]
            one += grad_B[r] * inputs_MB[0, r]
            two += grad_B[r] * inputs_MB[1, r]
    sums_I[0] += one
    sums_I[1] += two
    sums_I[m] += total
    for i in range(3, m):
        one = np.float32(0.0)
        for r in range(BLOCK):
            one += grad_B[r] * inputs_MB[i, r]
        sums_I[i] += one


@jit_sums
def total(grad_B):  # type: ignore[no-untyped-def]
    """Return the sum."""
    result = np.float32(0.0)
    for r in range(BLOCK):
        result += grad_B[r]
    return result
