"""Random encoders, factors and cells, and their losses by torch, for the tests of objectives."""

import numpy as np
import pytest
import torch

import tallyfold as tf
from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import HeldOutCells, Target
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.evidence import (
    N_PRIOR,
    AxisEvidence,
    AxisPrior,
    AxisRows,
    DerivedRows,
    exposures,
)
from tallyfold.inference.encoders.objective import AxisObjective
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import conjugate_network, network_inputs, network_size
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.predictive import Calibration
from tallyfold.probability.counts import COUNTS

SHAPES = [(9, 7), (8, 6, 5), (6, 5, 4, 3), (5, 4, 3, 3, 2)]
LIKELIHOODS = [("poisson", False), ("poisson", True), ("negative-binomial", True)]
UNITS, R, PRIOR_RATE = 4, 1.7, 0.8


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
        shapes = [rng.gamma(2.0, 1.0, (size, n_components)) + 0.1 for size in shape]
        rates = [rng.gamma(2.0, 1.0, (size, n_components)) + 0.1 for size in shape]
        self.posterior = GammaPosterior.of(shapes, rates)
        pairs = zip(self.posterior.means, self.cells.seen, strict=True)
        self.mean = [mean_over_seen(mean, seen) for mean, seen in pairs]
        rate_N = kernels.cell_rates(self.mean, self.cells.indices_NM)
        held_rate_V = kernels.cell_rates(self.mean, self.held_out.indices_NM)
        self.multiplier_N = rng.gamma(5.0, 0.2, len(rate_N))
        self.rate_N = rate_N * self.multiplier_N
        self.held_multiplier_V = rng.gamma(5.0, 0.2, len(self.held_out))
        self.held_rate_V = held_rate_V * self.held_multiplier_V
        r_V = rng.gamma(3.0, 1.0, len(self.held_out)) + 0.1
        calibration = Calibration(0.9, 1.2, 3.0, 0.5)
        self.target = Target(self.held_out.counts_N, calibration, truncated, r_V)

    def exposure(self, rate_N):
        return exposures(self.likelihood, rate_N, self.cells.counts_N, R)

    def axis_objective(self, axis, backend="numpy", multiplied=True):
        """Return the objective of an axis's encoder, with multipliers of the rates or without."""
        multiplier_N = self.multiplier_N if multiplied else np.ones_like(self.rate_N)
        rate_N = self.rate_N / self.multiplier_N * multiplier_N
        geo, indices_NM = self.posterior.geometric_means, self.cells.indices_NM
        rows = AxisRows(self.cells.layouts[axis], indices_NM, geo, self.mean, backend)
        exposure_N = self.exposure(rate_N) * multiplier_N
        held = self.held_out
        return AxisObjective(
            AxisEvidence.of_axis(rows, self.cells.counts_N, rate_N, exposure_N),
            AxisPrior(PRIOR_RATE),
            AxisRows(held.layouts[axis], held.indices_NM, (), self.mean, backend),
            self.held_multiplier_V,
            self.target,
            self.cells.seen[axis],
        )

    def combinations(self, axes):
        cells, held = self.cells.indices_NM, self.held_out.indices_NM
        return Combinations.of(axes, self.cells.shape, cells, held)

    def derived_objective(self, axes, selected=True):
        """Return the objective of a derived axis's encoder.

        Of the training cells whose combination some held-out cell shares, or of all.
        """
        found = self.combinations(axes)
        hit = np.isin(found.row_N, found.held_row_V)
        used_N = np.flatnonzero(hit) if selected else slice(None)
        every = AxisEvidence(
            DerivedRows(found.row_N, found.n_rows),
            self.cells.counts_N,
            self.exposure(self.rate_N) * self.rate_N,
            network_inputs(self.cells.counts_N, self.rate_N),
            "numpy",
        )
        return AxisObjective(
            every.take(DerivedRows(found.row_N[used_N], found.n_rows), used_N),
            AxisPrior(None),
            DerivedRows(found.held_row_V, found.n_rows),
            self.held_rate_V,
            self.target,
            np.ones(found.n_rows, dtype=bool),
        )


def some_params(seed=0):
    return np.random.default_rng(seed).normal(size=N_PRIOR + network_size(UNITS)) * 0.5


def conjugate_params(prior_shape):
    network = conjugate_network(UNITS, np.random.default_rng(0))
    return np.concatenate([[np.log(prior_shape), 0.0], network])


# -- the formulas of `encoders.evidence`, by torch's automatic gradient ----------------------------


def torch_weights(params, inputs_2N):
    into, hidden, out, bias = torch.split(params[N_PRIOR:], [2 * UNITS, UNITS, 2 * UNITS, 2])
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


def agrees(objective, torch_loss):
    """Assert that an objective's loss and gradient are those of torch's automatic gradient."""
    for seed in range(2):
        params = torch.tensor(some_params(seed), requires_grad=True)
        expected = torch_loss(params)
        expected.backward()
        loss, gradient = objective.loss(some_params(seed))
        assert loss == pytest.approx(expected.item(), rel=1e-9)
        wanted = params.grad.numpy()
        assert np.allclose(gradient, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
