"""Products in a fixed order: both back-ends to the last bit, a row in any company."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyfold.kernels.row_products import row_products

BACKENDS = "numpy", "numba"
DTYPES = np.float32, np.float64


def matrices(n_rows, n_inputs, n_outputs, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x_ND, w_DK = rng.standard_normal((n_rows, n_inputs)), rng.standard_normal((n_inputs, n_outputs))
    return x_ND.astype(dtype), w_DK.astype(dtype)


def in_order(x_ND, w_DK):
    """Return the products, rounded after each multiplication and each addition."""
    found_NK = np.zeros((len(x_ND), w_DK.shape[1]), dtype=x_ND.dtype)
    for n, k in np.ndindex(found_NK.shape):
        for x, w in zip(x_ND[n], w_DK[:, k], strict=True):
            found_NK[n, k] = found_NK[n, k] + x * w
    return found_NK


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 20), st.integers(0, 23), st.integers(1, 23), st.sampled_from(DTYPES),
    st.integers(0, 1000),
)  # fmt: skip
def test_both_sum_in_order_to_the_last_bit(n_rows, n_inputs, n_outputs, dtype, seed):
    x_ND, w_DK = matrices(n_rows, n_inputs, n_outputs, dtype, seed)
    wanted_NK = in_order(x_ND, w_DK)
    for backend in BACKENDS:
        found_NK = row_products(x_ND, w_DK, backend=backend)
        assert found_NK.dtype == dtype
        assert found_NK.flags.c_contiguous
        assert np.array_equal(found_NK, wanted_NK)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(20, 24), (21, 32), (30, 16), (42, 64), (106, 22), (7, 1)])
def test_a_row_has_the_same_bits_wherever_it_stands(backend, dtype, sizes):
    x_ND, w_DK = matrices(20, *sizes, dtype)
    whole_NK = row_products(x_ND, w_DK, backend=backend)
    for n, x_D in enumerate(x_ND):
        many_NK = row_products(np.tile(x_D, (1024, 1)), w_DK, backend=backend)
        assert np.all(many_NK == whole_NK[n])
        assert np.all(row_products(x_D[None], w_DK) == whole_NK[n])
    turned_NK = row_products(x_ND[::-1], w_DK, backend=backend)
    assert np.array_equal(turned_NK[::-1], whole_NK)


@pytest.mark.parametrize("backend", BACKENDS)
def test_layouts_and_types_of_either_kind(backend):
    x_ND, w_DK = matrices(30, 9, 5, np.float64)
    wanted_NK = row_products(x_ND, w_DK, backend=backend)
    assert wanted_NK == pytest.approx(x_ND @ w_DK, rel=1e-12, abs=1e-14)
    fixed_DK = np.asfortranarray(w_DK)
    fixed_DK.flags.writeable = False
    found_NK = row_products(np.asfortranarray(x_ND), fixed_DK, backend=backend)
    assert np.array_equal(found_NK, wanted_NK)
    found_N = row_products(x_ND, w_DK[:, 2], backend=backend)
    assert np.array_equal(found_N, wanted_NK[:, 2])
    assert row_products(x_ND.astype(np.float32), w_DK, backend=backend).dtype == np.float64


def test_large_products_are_compiled(monkeypatch):
    x_ND, w_DK = matrices(2_000, 30, 20, np.float32)
    by_either = row_products(x_ND, w_DK)
    assert np.array_equal(by_either, row_products(x_ND, w_DK, backend="numpy"))
    monkeypatch.setattr("tallyfold.kernels.row_products._reference", None)
    assert np.array_equal(by_either, row_products(x_ND, w_DK))
