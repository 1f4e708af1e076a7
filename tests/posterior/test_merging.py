"""Components put together: margins are sums, and nothing else of one component fits as well."""

import numpy as np
import pytest

from tallyfold.posterior.derived_axis import DerivedAxis
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.point_factors import PointFactors
from tallyfold.posterior.sampled_factors import SampledFactors

SIZES = (6, 5, 4)
NAMES = ("a", "b", "c")
LABELS = [range(size) for size in SIZES]


def table(rng, size, width=3):
    shape = rng.gamma(2.0, size=(size + 1, width)) + 0.1
    widest = shape * rng.uniform(0.3, 1.5, shape.shape)
    return GammaTable(shape, rng.gamma(2.0, size=shape.shape) + 0.1, widest)


@pytest.fixture
def gammas(rng):
    return GammaPosterior(tuple(table(rng, size) for size in SIZES))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def gate(rng):
    keys = np.flatnonzero(rng.random(SIZES[0] * SIZES[1]) < 0.6)
    return DerivedAxis((0, 1), SIZES[:2], keys, table(rng, len(keys), 1))


def rates(gammas, column, gate_AB):
    """Return the rate of every cell by one component."""
    a, b, c = (mean[:-1, column] for mean in gammas.means)
    return np.einsum("a,b,c->abc", a, b, c) * gate_AB[:, :, None]


def margins(rate_ABC):
    return [rate_ABC.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]


@pytest.mark.parametrize("gated", [False, True])
def test_margins_of_the_merged_component_are_the_sums(gammas, gate, gated):
    gate_AB = np.ones(SIZES[:2])
    if gated:
        gammas = GammaPosterior(gammas.axes, (gate,))
        every = np.stack(np.indices(SIZES[:2]), axis=-1).reshape(-1, 2)
        gate_AB = gate.moments(np.column_stack([every, every[:, 0]]))[0].reshape(SIZES[:2])
    before = GammaFactors(NAMES, LABELS, gammas)
    after = before.combined([[0, 2], [1]], gated=gated).gammas
    sum_ABC = rates(gammas, 0, gate_AB) + rates(gammas, 2, gate_AB)
    for own, wanted in zip(margins(rates(after, 0, gate_AB)), margins(sum_ABC), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-7)
    for old, new in zip(gammas.axes, after.axes, strict=True):
        assert np.array_equal(new.shape_DK[:, 1], old.shape_DK[:, 1])  # the other, bit for bit
        assert np.array_equal(new.rate_DK[:, 1], old.rate_DK[:, 1])
        assert np.array_equal(new.widest_DK[:, 1], old.widest_DK[:, 1])


def test_no_other_product_is_nearer_to_the_sum(gammas, rng):
    after = GammaFactors(NAMES, LABELS, gammas).combined([[0, 1, 2]]).gammas
    even = np.ones(SIZES[:2])
    sum_ABC = sum(rates(gammas, column, even) for column in range(3))

    def divergence(rate_ABC):
        return float((rate_ABC - sum_ABC * np.log(rate_ABC)).sum())

    least = divergence(rates(after, 0, even))
    for _ in range(20):
        noisy = [t.mean_DK * rng.normal(1, 0.05, t.mean_DK.shape) for t in after.axes]
        near = GammaPosterior.of(noisy, [np.ones_like(mean) for mean in noisy])
        assert divergence(rates(near, 0, even)) > least


def test_the_spread_is_that_of_the_sum(gammas, rng):
    after = GammaFactors(NAMES, LABELS, gammas).combined([[0, 1, 2]]).gammas
    others = [mean[:-1].sum(axis=0) for mean in gammas.means]
    drawn = rng.gamma(gammas.axes[0].shape_DK, size=(200_000, SIZES[0] + 1, 3))
    sums = (drawn / gammas.axes[0].rate_DK * others[1] * others[2]).sum(axis=2)
    relative = sums.var(axis=0) / sums.mean(axis=0) ** 2
    np.testing.assert_allclose(1 / after.axes[0].shape_DK[:, 0], relative, rtol=0.05)
    assert np.all(after.axes[0].widest_DK <= after.axes[0].shape_DK * (1 + 1e-12))


def test_points_and_draws_are_merged_alike(gammas):
    points = PointFactors(NAMES, LABELS, gammas.means).combined([[0, 2], [1]])
    gamma = GammaFactors(NAMES, LABELS, gammas).combined([[0, 2], [1]])
    stacks = [np.stack([mean, 2 * mean]) for mean in gammas.means]
    draws = SampledFactors(NAMES, LABELS, stacks, n_chains=2).combined([[0, 2], [1]])
    assert draws.n_chains == 2
    for axis, name in enumerate(NAMES):
        np.testing.assert_allclose(points.mean(name), gamma.mean(name), rtol=1e-9)
        np.testing.assert_allclose(draws.samples[axis][0], points.values[axis], rtol=1e-12)
        np.testing.assert_allclose(draws.samples[axis][1], 2 * points.values[axis], rtol=1e-12)


def test_scales_of_axes_stay_what_they_were(gammas):
    wide = gammas.replace(0, GammaTable(gammas.axes[0].shape_DK, gammas.axes[0].rate_DK * 1e-6))
    after = GammaFactors(NAMES, LABELS, wide).combined([[0, 1, 2]]).gammas
    for old, new in zip(wide.means, after.means, strict=True):
        assert old[:-1].sum(axis=0).min() / 4 < new[:-1].sum() < old[:-1].sum(axis=0).max() * 4
