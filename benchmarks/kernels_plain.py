"""One BPTF sweep as the public NumPy implementation does it: gathers and ``np.bincount``.

The yardstick of ``bench_kernels.py``: for every axis, the reconstruction at the non-zeros, then one
weighted bincount per component for the shapes and one for the rates (zeros missing).
"""

import numpy as np
from scipy.special import digamma

Factors = list[np.ndarray]


def reconstruct(factors: Factors, indices_NM: np.ndarray) -> np.ndarray:
    product_NK = np.ones((len(indices_NM), factors[0].shape[1]))
    for m, factor_DK in enumerate(factors):
        product_NK *= factor_DK[indices_NM[:, m]]
    return product_NK.sum(axis=1)


def sum_products(
    weight_N: np.ndarray, indices_NM: np.ndarray, axis: int, factors: Factors
) -> np.ndarray:
    sums_DK = np.empty_like(factors[axis])
    for k in range(sums_DK.shape[1]):
        term_N = weight_N.copy()
        for m, factor_DK in enumerate(factors):
            if m != axis:
                term_N *= factor_DK[indices_NM[:, m], k]
        sums_DK[:, k] = np.bincount(indices_NM[:, axis], term_N, minlength=len(sums_DK))
    return sums_DK


def sweep(geo: Factors, mean: Factors, indices_NM: np.ndarray, counts_N: np.ndarray) -> None:
    """Update every axis in place, with a Gamma(1, 1) prior."""
    one_N = np.ones(len(counts_N))
    for axis in range(len(geo)):
        phi_DK = sum_products(counts_N / reconstruct(geo, indices_NM), indices_NM, axis, geo)
        shape_DK = 1.0 + geo[axis] * phi_DK
        rate_DK = 1.0 + sum_products(one_N, indices_NM, axis, mean)
        mean[axis] = shape_DK / rate_DK
        geo[axis] = np.exp(digamma(shape_DK)) / rate_DK
