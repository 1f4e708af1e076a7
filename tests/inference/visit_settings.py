"""Random encoders, factors and cells, and their losses by torch, for the tests of visits."""

import numpy as np
import pytest
import torch

import tallyfold as tf
from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import HeldOutCells, Target
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import ALONE
from tallyfold.inference.encoders.objective import (
    N_PRIOR,
    AxisVisit,
    InteractionVisit,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import conjugate_network, network_inputs, network_size
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.predictive import Calibration
from tallyfold.probability import gamma
from tallyfold.probability.counts import COUNTS

SHAPES = [(9, 7), (8, 6, 5), (6, 5, 4, 3), (5, 4, 3, 3, 2)]
LIKELIHOODS = [("poisson", False), ("poisson", True), ("negative-binomial", True)]
UNITS, R = 4, 1.7


def make_cells(shape, n_cells, seed, last=True):
    """Draw cells; without the last label of each axis if asked, and with one that has one cell."""
    rng = np.random.default_rng(seed)
    sizes = np.array(shape) - (0 if last else 1)
    cells = np.unique(rng.integers(0, sizes, (n_cells, len(shape))), axis=0)
    if not last:
        lonely = cells[:, 0] == sizes[0] - 1
        lonely[np.argmax(lonely)] = False
        cells = cells[~lonely]
    axes = [tf.Axis.numbered(f"axis_{m}", size) for m, size in enumerate(shape)]
    return tf.CountTensor(axes, cells, rng.geometric(0.3, len(cells)))


class Setting:
    """Random factors and cells; the last label of each axis has held-out cells only."""

    def __init__(self, shape, family, truncated, n_components=3):
        rng = np.random.default_rng(5)
        self.cells = TrainingCells(make_cells(shape, 60, seed=1, last=False))
        self.held_out = HeldOutCells(make_cells(shape, 40, seed=2))
        self.likelihood = COUNTS[family, truncated]
        self.shapes = [rng.gamma(2.0, 1.0, (size, n_components)) + 0.1 for size in shape]
        self.rates = [rng.gamma(2.0, 1.0, (size, n_components)) + 0.1 for size in shape]
        pairs = list(zip(self.shapes, self.rates, strict=True))
        self.geo = [gamma.geometric_mean(s, r) for s, r in pairs]
        seen = self.cells.seen
        self.mean = [mean_over_seen(s / r, x) for (s, r), x in zip(pairs, seen, strict=True)]
        self.rate_N = kernels.cell_rates(self.mean, self.cells.indices_NM)
        self.held_rate_V = kernels.cell_rates(self.mean, self.held_out.indices_NM)
        self.multiplier_N = rng.gamma(5.0, 0.2, len(self.rate_N))
        self.held_multiplier_V = rng.gamma(5.0, 0.2, len(self.held_out))
        r_V = rng.gamma(3.0, 1.0, len(self.held_out)) + 0.1
        calibration = Calibration(0.9, 1.2, 3.0, 0.5)
        self.target = Target(self.held_out.counts_N, calibration, truncated, r_V)

    def exposure(self, rate_N):
        r_N = np.full(len(rate_N), R)
        return expected_exposure(self.likelihood.name, rate_N, self.cells.counts_N, r_N)

    def axis_visit(self, axis, backend="numpy", multiplied=True):
        multiplier_N = self.multiplier_N if multiplied else np.ones_like(self.rate_N)
        rate_N = self.rate_N * multiplier_N
        return AxisVisit(
            axis=axis,
            cells=self.cells,
            held_out=self.held_out,
            target=self.target,
            geo=self.geo,
            mean=self.mean,
            prior_rate=0.8,
            inputs_2N=network_inputs(self.cells.counts_N, rate_N),
            exposure_N=self.exposure(rate_N) * multiplier_N,
            held_multiplier_V=self.held_multiplier_V,
            backend=backend,
        )

    def interaction_visit(self, axes, select=True):
        found = Combinations.of(
            axes, self.cells.shape, self.cells.indices_NM, self.held_out.indices_NM
        )
        hit = np.isin(found.place_N, found.held_place_V)
        rate_N = self.rate_N * self.multiplier_N
        return InteractionVisit(
            counts_N=self.cells.counts_N,
            place_N=found.place_N,
            n_places=found.n_places,
            held_place_V=found.held_place_V,
            matter_N=np.flatnonzero(hit) if select else slice(None),
            target=self.target,
            inputs_2N=network_inputs(self.cells.counts_N, rate_N),
            exposure_N=self.exposure(rate_N) * rate_N,
            held_others_V=self.held_rate_V * self.held_multiplier_V,
            backend="numpy",
            group=ALONE,
        )


def some_numbers(seed=0):
    return np.random.default_rng(seed).normal(size=N_PRIOR + network_size(UNITS)) * 0.5


def conjugate_numbers(prior_shape):
    network = conjugate_network(UNITS, np.random.default_rng(0))
    return np.concatenate([[np.log(prior_shape), 0.0], network])


# -- the formulas of the module's text, by torch's automatic gradient -----------------------------


def torch_weights(numbers, inputs_2N):
    into, hidden, out, bias = torch.split(numbers[N_PRIOR:], [2 * UNITS, UNITS, 2 * UNITS, 2])
    unit_NH = torch.relu(torch.tensor(inputs_2N).T @ into.reshape(2, UNITS) + hidden)
    return torch.nn.functional.softplus(unit_NH @ out.reshape(UNITS, 2) + bias).T


def torch_log_pmf(target, mean_V):
    """The negative binomial's log pmf at calibrated rates, given y >= 1 if truncated."""
    y, r = torch.tensor(target.counts_N.astype(float)), torch.tensor(target.dispersion_N)
    rate = target.calibration.scale * mean_V**target.calibration.exponent
    chance = torch.lgamma(r + y) - torch.lgamma(r) - torch.lgamma(y + 1)
    chance = chance + r * torch.log(r / (r + rate)) + y * torch.log(rate / (r + rate))
    if target.truncated:
        chance = chance - torch.log(1 - (r / (r + rate)) ** r)
    return chance


def products(factors, indices, without=None):
    gathered = [
        torch.as_tensor(factor)[indices[:, m]] for m, factor in enumerate(factors) if m != without
    ]
    return torch.stack(gathered).prod(0)


def agrees(visit, torch_loss):
    for seed in range(2):
        numbers = torch.tensor(some_numbers(seed), requires_grad=True)
        expected = torch_loss(visit, numbers)
        expected.backward()
        loss, gradient = visit.loss(some_numbers(seed))
        assert loss == pytest.approx(expected.item(), rel=1e-9)
        wanted = numbers.grad.numpy()
        assert np.allclose(gradient, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
