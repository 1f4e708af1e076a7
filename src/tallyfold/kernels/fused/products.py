"""The inner loops: products of factors over axes, and their sum over components."""

from tallyfold.kernels.fused.jit import jit_inline, jit_sums


@jit_inline
def multiply(own_W, one_W, two_W, start, product_P):  # type: ignore[no-untyped-def]
    """Write one * two from column `start` on; return its inner product with own."""
    rate = 0.0
    for k in range(len(product_P)):
        product = one_W[start + k] * two_W[start + k]
        product_P[k] = product
        rate += own_W[start + k] * product
    return rate


@jit_inline
def add_scaled(scale, product_P, start, sums_W):  # type: ignore[no-untyped-def]
    """Add scale * product from column `start` on."""
    for k in range(len(product_P)):
        sums_W[start + k] += scale * product_P[k]


@jit_sums
def multiply_rest(table_RW, first_J, others_NJ, n, rest_W):  # type: ignore[no-untyped-def]
    """Write the product of all rows of cell n but the first: ones when there are none."""
    rest_W[:] = 1.0
    for j in range(1, len(first_J)):
        row_W = table_RW[first_J[j] + others_NJ[n, j]]
        for k in range(len(rest_W)):
            rest_W[k] *= row_W[k]
