"""Inputs out of fold: the compiled kernel, the reference, and the sums they come from."""

import numpy as np
import pytest

from tallyfold import kernels
from tallyfold.kernels.fold_inputs import FoldedCells, Pull, write_fold_inputs
from tallyfold.kernels.margins import Grouping, out_of_fold_sums

N_FOLDS = 5
UNIT = 2.0**-16


def made_up(n_cells, n_keys, seed=0):
    rng = np.random.default_rng(seed)
    grouping = Grouping.of((n_keys * rng.random(n_cells) ** 3).astype(np.int64) * 7 + 3)
    fold_N = rng.integers(0, N_FOLDS, n_cells).astype(np.int8)
    value_VF = rng.integers(0, 2**18, (9, 4)).astype(np.int32)
    value_VF[:, 0] = 1
    return grouping, fold_N, rng.integers(0, 9, n_cells).astype(np.int16), value_VF


def pulled(limit=6.0):
    numbers = np.array([0.3, 2.0, 10.0]), np.array([0.5, 1.0, 0.1])
    standard = np.array([1.0, 0.5, 1.0, 0.2], "f4"), np.array([1.0, 0.2, 0.3, 0.1], "f4")
    return Pull(N_FOLDS / 4, UNIT, *numbers, *standard, limit)


def written(cells, value_VF, besides, pull, backend="numba"):
    z_NF = np.full((len(cells.order_N), value_VF.shape[1]), np.nan, np.float32)
    write_fold_inputs(cells, value_VF, N_FOLDS, besides, pull, z_NF, backend=backend)
    return z_NF


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("besides", [range(0), range(1), range(2, 4)])
@pytest.mark.parametrize("n_keys", [2, 60, 5000])
def test_inputs_are_those_of_sums_out_of_fold(backend, besides, n_keys):
    grouping, fold_N, row_N, value_VF = made_up(3000, n_keys)
    pull = pulled()
    found_NF = written(
        FoldedCells.of(grouping, fold_N, row_N), value_VF, besides, pull, backend=backend
    )
    value_NF = value_VF[row_N]
    value_NF[np.isin(fold_N, besides)] = 0
    sums_NF = out_of_fold_sums(grouping, fold_N, value_NF, N_FOLDS)
    cells_N = pull.scale * sums_NF[:, 0]
    wanted = [np.log1p(cells_N)]
    for f, (strength, mean) in enumerate(zip(pull.strength_F, pull.mean_F, strict=True), start=1):
        total_N = pull.scale * sums_NF[:, f] * UNIT
        wanted.append((total_N + strength * mean) / (cells_N + strength))
    wanted_NF = (np.stack(wanted, axis=1) - pull.centre_F) / pull.spread_F
    assert found_NF == pytest.approx(np.clip(wanted_NF, -6, 6), rel=1e-5, abs=1e-5)
    assert n_keys > 60 or np.any(np.abs(found_NF) == 6)


def test_any_number_of_threads_gives_the_same_bits():
    grouping, fold_N, row_N, value_VF = made_up(20_000, 4000)
    cells, found = FoldedCells.of(grouping, fold_N, row_N), []
    for n_threads in (1, 3):
        with kernels.use_threads(n_threads):
            found.append(written(cells, value_VF, range(2, 3), pulled()).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_no_cells(backend):
    cells = FoldedCells.of(
        Grouping.of(np.zeros(0, np.int64)), np.zeros(0, np.int8), np.zeros(0, np.int16)
    )
    assert written(cells, np.ones((1, 4), np.int32), range(0), pulled(), backend).shape == (0, 4)
