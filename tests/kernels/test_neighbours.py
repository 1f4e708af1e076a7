"""Sums over baskets: the compiled form against SciPy's and against loops."""

import numpy as np
import pytest

from tallyfold.kernels.neighbours import basket_sums, reference_sums


def made_up(n_cells=300, n_baskets=40, n_labels=25, length=6, seed=0):
    rng = np.random.default_rng(seed)
    baskets = [np.flatnonzero(rng.random(n_labels) < 0.3) for _ in range(n_baskets)]
    indptr = np.cumsum([0, *map(len, baskets)])
    near = np.stack([np.sort(rng.choice(n_labels, length, replace=False)) for _ in range(n_labels)])
    cells = rng.integers(-1, n_baskets, n_cells), rng.integers(-1, n_labels + 2, n_cells)
    return (
        cells[0],
        cells[1].astype(np.int32),
        indptr,
        np.concatenate(baskets).astype(np.int32),
        near.astype(np.int32),
        rng.normal(0, 1, (n_labels, length)),
    )


def by_loops(rows, labels, indptr, inside, near, weight):
    sums = np.zeros(len(rows))
    for n, (row, label) in enumerate(zip(rows, labels, strict=True)):
        if row >= 0 and 0 <= label < len(near):
            basket = set(inside[indptr[row] : indptr[row + 1]].tolist())
            sums[n] = sum(
                w for j, w in zip(near[label].tolist(), weight[label], strict=True) if j in basket
            )
    return sums


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_are_the_sums(seed):
    given = made_up(seed=seed)
    wanted = by_loops(*given)
    assert np.any(wanted)
    np.testing.assert_allclose(reference_sums(*given), wanted, atol=1e-12)
    fast = basket_sums(*given, backend="numba")
    assert np.array_equal(fast, reference_sums(*given))  # "auto" may take either, by size


def test_many_chunks():
    given = made_up(n_cells=10_001)
    assert np.array_equal(basket_sums(*given, backend="numba"), reference_sums(*given))


def test_nothing_to_sum():
    rows, labels, _, _, near, weight = made_up()
    none = np.zeros(1, np.int64), np.zeros(0, np.int32)
    for backend in ("numpy", "numba"):
        found = basket_sums(np.full_like(rows, -1), labels, *none, near, weight, backend=backend)
        assert not found.any()
