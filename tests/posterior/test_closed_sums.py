"""Sums over all cells against sums over all cells, one by one."""

from itertools import combinations, product

import numpy as np
import pytest

from tallyfold.posterior.closed_sums import ClosedSums, GatePairs

SHAPE = 5, 4, 3
SHARE = 0.7


def everything(gated, n_axes=3):
    rng = np.random.default_rng(3)
    shape = (*SHAPE, 2)[:n_axes]
    means = [rng.gamma(1, 1, (size, 2)) for size in shape]
    seen = [np.ones(size, bool) for size in shape]
    seen[0][1] = seen[2][2] = False
    pairs = gate_P1 = None
    rate = np.einsum("ik,jk,lk->ijlk", *means[:3])
    if n_axes == 4:
        rate = np.einsum("ijlk,mk->ijlmk", rate, means[3])
    if gated:
        keys_P = np.array([0, 1, 6, 10, 12])  # pairs of axes 0 and 2 with labels that were seen
        pairs = GatePairs.of((0, 2), (5, 3), keys_P)
        gate_P1 = np.append(rng.gamma(1, 1, len(keys_P)), 0.2)
        table = np.full(15, 0.2)
        table[keys_P] = gate_P1[:-1]
        gate = table.reshape(5, 1, 3, *(1,) * (n_axes - 3), 1)
        rate = rate * gate
    for axis, seen_D in enumerate(seen):
        rate = np.where(np.moveaxis(seen_D.reshape(-1, *(1,) * n_axes), 0, axis), rate, 0.0)
    return ClosedSums(means, seen, SHARE, pairs, gate_P1), rate, means, seen


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("n_axes", [3, 4])
def test_total_and_exposures(gated, n_axes):
    sums, rate, means, seen = everything(gated, n_axes)
    whole = tuple(range(n_axes))
    np.testing.assert_allclose(sums.total(), SHARE * rate.sum(axis=whole))
    for axis in whole:
        others = tuple(m for m in whole if m != axis)
        own = SHARE * rate.sum(axis=others)
        found = np.broadcast_to(sums.exposure(axis) * means[axis], own.shape)
        np.testing.assert_allclose(found[seen[axis]], own[seen[axis]])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("n_axes", [3, 4])
def test_sums_over_the_cells_of_a_combination(gated, n_axes):
    sums, rate, _, seen = everything(gated, n_axes)
    labels = [np.flatnonzero(seen_D) for seen_D in seen]
    cells = np.array(list(product(*labels)), dtype=np.int32)
    gate_N = np.ones(len(cells))
    if gated:
        key_N = cells[:, 0] * 3 + cells[:, 2]
        place = dict(zip(sums.pairs.keys_P.tolist(), sums.gate_P1, strict=False))
        gate_N = np.array([place.get(key, 0.2) for key in key_N.tolist()])
    for size in range(1, n_axes):
        for axes in combinations(range(n_axes), size):
            others = tuple(m for m in range(n_axes) if m not in axes)
            wanted = SHARE * rate.sum(axis=(*others, n_axes))
            found = sums.of_combinations(axes, cells, gate_N)
            np.testing.assert_allclose(found, wanted[tuple(cells[:, m] for m in axes)])


def test_exposure_of_the_gate():
    sums, rate, _, seen = everything(gated=True)
    exposure_P, rest = sums.gate_exposure()
    pair_DD = SHARE * rate.sum(axis=(1, 3))
    own = pair_DD.ravel()[sums.pairs.keys_P] / sums.gate_P1[:-1]
    np.testing.assert_allclose(exposure_P, own)
    unseen = pair_DD.copy().ravel()
    unseen[sums.pairs.keys_P] = 0
    number = seen[0].sum() * seen[2].sum() - len(own)
    np.testing.assert_allclose(rest, unseen.sum() / 0.2 / number)
    assert sums.n_combinations == seen[0].sum() * seen[2].sum()
