"""Shares with a cell's own count taken out: compiled, in NumPy, and cell by cell."""

import numpy as np
import pytest

from tallyfold import kernels
from tallyfold.kernels.collapsed import MOST_LATENT, collapsed_sums
from tallyfold.kernels.layout import axis_layout

SHAPE = 7, 5, 4


def problem(n_axes=3, n_cells=60, n_components=6, seed=0):
    rng = np.random.default_rng(seed)
    shape = (*SHAPE, 3)[:n_axes]
    cells = np.stack(np.unravel_index(rng.choice(np.prod(shape), n_cells, False), shape), axis=1)
    shapes = [rng.gamma(2, 1, (size, n_components)) + 0.3 for size in shape]
    rates = [rng.gamma(3, 1, (size, n_components)) + 0.1 for size in shape]
    means = [a / b for a, b in zip(shapes, rates, strict=True)]
    scales = [1 / b for b in rates]
    return shape, cells, means, scales, rng.gamma(2, 0.5, n_cells)


def cell_by_cell(shape, cells, means, scales, gate_N, prior_shape):
    sums = [np.zeros_like(mean) for mean in means]
    latent, log_seen = [], 0.0
    for cell, gate in zip(cells, gate_N, strict=True):
        rows = [mean[at] for mean, at in zip(means, cell, strict=True)]
        by = [scale[at] for scale, at in zip(scales, cell, strict=True)]
        share = np.prod(rows, axis=0)
        rate = gate * share.sum()
        count = min(rate / (1 - np.exp(-rate)), MOST_LATENT)
        own = count * share / share.sum()
        left = [np.maximum(r - own * s, prior_shape * s) for r, s in zip(rows, by, strict=True)]
        share = np.prod(left, axis=0)
        for sums_DK, at in zip(sums, cell, strict=True):
            sums_DK[at] += count * share / share.sum()
        latent.append(count)
        log_seen += np.log(1 - np.exp(-rate))
    return sums, np.array(latent), log_seen


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("n_axes", [2, 3, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_agrees_with_a_loop_over_cells(backend, n_axes, axis):
    n_cells = 20 if n_axes == 2 else 60
    shape, cells, means, scales, gate_N = problem(n_axes, n_cells)
    layout = axis_layout(cells, np.ones(n_cells, int), axis, shape[axis])
    found = collapsed_sums(means, scales, layout, 0.3, gate_N, backend=backend)
    sums, latent_N, log_seen = cell_by_cell(shape, cells, means, scales, gate_N, 0.3)
    for own, wanted in zip(found.sums, sums, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-11)
    np.testing.assert_allclose(found.latent_N, latent_N, rtol=1e-12)
    assert found.log_seen == pytest.approx(log_seen)


def test_sums_are_the_latent_counts():
    shape, cells, means, scales, gate_N = problem()
    layout = axis_layout(cells, np.ones(60, int), 0, shape[0])
    found = collapsed_sums(means, scales, layout, 0.3, gate_N, backend="numba")
    for own, column in zip(found.sums, cells.T, strict=True):
        wanted = np.bincount(column, found.latent_N, minlength=len(own))
        np.testing.assert_allclose(own.sum(axis=1), wanted, rtol=1e-12)


def test_bits_do_not_depend_on_threads():
    shape, cells, means, scales, gate_N = problem(n_cells=120)
    layout = axis_layout(cells, np.ones(120, int), 0, shape[0])
    found = []
    for n_threads in (1, 2, 5):
        with kernels.use_threads(n_threads):
            found.append(collapsed_sums(means, scales, layout, 0.3, gate_N, backend="numba"))
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0].sums, other.sums, strict=True))
        assert found[0].log_seen == other.log_seen


def test_a_tiny_rate_stands_for_one_count():
    shape, cells, means, scales, gate_N = problem()
    layout = axis_layout(cells, np.ones(60, int), 0, shape[0])
    for backend in ("numpy", "numba"):
        found = collapsed_sums(means, scales, layout, 0.3, gate_N * 1e-30, backend=backend)
        np.testing.assert_allclose(found.latent_N, 1.0)
        assert np.isfinite(found.log_seen)
