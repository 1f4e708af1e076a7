"""Products of rows with a small matrix; see :mod:`tallyfold.kernels.row_products`."""

from tallyfold.kernels.fused.jit import jit

AT_ONCE = 4
"""Inputs whose terms are added in one pass over the sums, in order."""


@jit
def add_row_products(x_ND, w_DK, sums_NK):  # type: ignore[no-untyped-def]
    """Add each row's products; IEEE arithmetic in the order written, so that bits are fixed."""
    n_rows, n_inputs = x_ND.shape
    n_outputs = w_DK.shape[1]
    whole = n_inputs - n_inputs % AT_ONCE
    for n in range(n_rows):
        for d in range(0, whole, AT_ONCE):
            one, two, three, four = x_ND[n, d], x_ND[n, d + 1], x_ND[n, d + 2], x_ND[n, d + 3]
            for k in range(n_outputs):
                sums = sums_NK[n, k] + one * w_DK[d, k]
                sums += two * w_DK[d + 1, k]
                sums += three * w_DK[d + 2, k]
                sums_NK[n, k] = sums + four * w_DK[d + 3, k]
        for d in range(whole, n_inputs):
            last = x_ND[n, d]
            for k in range(n_outputs):
                sums_NK[n, k] += last * w_DK[d, k]
