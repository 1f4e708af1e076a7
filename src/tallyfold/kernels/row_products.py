"""Products with a small matrix in which a row has the same bits beside any others.

BLAS sums a row in another order where it stands elsewhere in a block, on some machines. Here each
row's terms are multiplied, rounded and added one by one, from the first input on: both back-ends
give the same bits, on any machine.
"""

from importlib import import_module

import numpy as np

from tallyfold.kernels.arrays import Array
from tallyfold.kernels.backends import announce_compilation, chosen_backend

SMALL_WORK = 500_000
"""Terms below which ``"auto"`` means NumPy."""


def row_products(x_ND: Array, w_DK: Array, *, backend: str = "auto") -> Array:
    """Return ``x_ND @ w_DK``, summed in order; `w_DK` may be a vector.

    There is no torch form: with a device, ``"auto"`` is compiled as on the CPU.

    Examples
    --------
    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0]))
    array([12., 34.])
    """
    if w_DK.ndim == 1:
        return row_products(x_ND, w_DK[:, None], backend=backend)[:, 0]
    dtype = np.result_type(x_ND, w_DK)
    small = x_ND.size * w_DK.shape[1] < SMALL_WORK
    if chosen_backend(backend, small=small) == "numpy":
        return _reference(x_ND.astype(dtype, copy=False), w_DK.astype(dtype, copy=False))
    announce_compilation()
    fused = import_module("tallyfold.kernels.fused.row_products")
    sums_NK = np.zeros((len(x_ND), w_DK.shape[1]), dtype=dtype)
    fused.add_row_products(
        np.ascontiguousarray(x_ND, dtype=dtype), np.array(w_DK, dtype=dtype, order="C"), sums_NK
    )
    return sums_NK


def _reference(x_ND: Array, w_DK: Array) -> Array:
    """Add input by input, for all rows at once; rows are columns here, which is faster."""
    sums_KN = np.zeros((w_DK.shape[1], len(x_ND)), dtype=x_ND.dtype)
    term_KN = np.empty_like(sums_KN)
    for x_N, w_K in zip(np.ascontiguousarray(x_ND.T), w_DK, strict=True):
        np.multiply(w_K[:, None], x_N, out=term_KN)
        sums_KN += term_KN
    return np.ascontiguousarray(sums_KN.T)
