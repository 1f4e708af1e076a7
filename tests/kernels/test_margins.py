"""Sums by combination: the compiled kernel, the reference, and loops over cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold.kernels import margins
from tallyfold.kernels.margins import (
    Grouping,
    coded_sums,
    key_counts,
    out_of_fold_sums,
    sums_by_fold,
)

N_FOLDS = 5


def cells(n_cells, n_keys, seed=0):
    rng = np.random.default_rng(seed)
    key_N = (n_keys * rng.random(n_cells) ** 3).astype(np.int64) * 7 + 3
    fold_N = rng.integers(0, N_FOLDS, n_cells).astype(np.int8)
    return key_N, fold_N, rng.integers(-(2**20), 2**20, (n_cells, 3))


def test_sums_are_over_the_other_cells():
    key_N, fold_N, value_NF = cells(800, 60)
    found = out_of_fold_sums(Grouping.of(key_N), fold_N, value_NF, N_FOLDS)
    assert found.dtype == np.int64
    for n, (key, fold) in enumerate(zip(key_N, fold_N, strict=True)):
        others = (key_N == key) & (fold_N != fold)
        assert found[n].tolist() == value_NF[others].sum(axis=0).tolist()


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_values_by_fold_are_summed_over_the_cells_of_other_folds(backend):
    key_N, fold_N, _ = cells(600, 50)
    value_NKF = np.random.default_rng(1).integers(-(2**20), 2**20, (600, N_FOLDS, 2))
    found = sums_by_fold(Grouping.of(key_N), fold_N, value_NKF, backend=backend)
    for n, (key, fold) in enumerate(zip(key_N, fold_N, strict=True)):
        others = (key_N == key) & (fold_N != fold)
        assert found[n].tolist() == value_NKF[others, fold].sum(axis=0).tolist()


@given(st.lists(st.integers(0, 9), max_size=50))
def test_a_grouping_has_each_cell_once_under_its_key(keys):
    key_N = np.array(keys, dtype=np.int64)
    grouping = Grouping.of(key_N)
    assert grouping.keys_P.tolist() == sorted(set(keys))
    assert np.array_equal(grouping.keys_P[grouping.rows()], key_N)
    assert sorted(grouping.order_N.tolist()) == list(range(len(keys)))
    for row, key in enumerate(grouping.keys_P):
        own = grouping.order_N[grouping.indptr_P1[row] : grouping.indptr_P1[row + 1]]
        assert np.all(key_N[own] == key)


def test_sums_of_a_grouping_are_those_of_its_cells():
    key_N, _, value_NF = cells(300, 40)
    grouping = Grouping.of(key_N)
    wanted = [value_NF[key_N == key].sum(axis=0) for key in grouping.keys_P]
    assert np.array_equal(grouping.sums(value_NF), wanted)
    none = Grouping.of(np.zeros(0, dtype=np.int64))
    assert none.sums(np.zeros((0, 3), dtype=np.int64)).shape == (0, 3)


def test_small_numbers_are_summed_without_overflow():
    grouping = Grouping.of(np.zeros(1000, dtype=np.int64))
    assert grouping.sums(np.full((1000, 1), 100, dtype=np.int8))[0, 0] == 100_000


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
@pytest.mark.parametrize("n_cells", [0, 1, 500])
def test_sums_of_coded_cells_are_those_of_the_grouping(monkeypatch, at_once, n_cells):
    monkeypatch.setattr(margins, "SUMMED_AT_ONCE", at_once)
    key_N, _, value_VF = cells(n_cells + 6, 40)
    key_N, value_VF = key_N[:n_cells], value_VF[:6]
    row_N = np.random.default_rng(3).integers(0, 6, n_cells)
    parts = list(coded_sums(key_N * 6 + row_N, value_VF))
    assert len(parts) > 1 or at_once > 7 or n_cells < 2
    grouping = Grouping.of(key_N)
    assert np.array_equal(np.concatenate([keys_P for keys_P, _ in parts]), grouping.keys_P)
    found = np.concatenate([sums_PF for _, sums_PF in parts])
    assert np.array_equal(found, grouping.sums(value_VF[row_N]))


@given(st.lists(st.integers(0, 9), max_size=400))
def test_keys_are_counted(keys):
    key_N = np.array(keys, dtype=np.int64)
    wanted = np.unique(key_N, return_counts=True)
    keys_P, counts_P = key_counts(key_N.copy())
    assert np.array_equal(keys_P, wanted[0])
    assert np.array_equal(counts_P, wanted[1])
    assert counts_P.itemsize == (1 if max(wanted[1], default=0) < 128 else 2)
