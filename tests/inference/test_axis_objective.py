"""The objective of encoders: its gradients, and that encoders start at the conjugate update."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.inference.visit_settings import (
    LIKELIHOODS,
    PRIOR_RATE,
    SHAPES,
    R,
    Setting,
    agrees,
    conjugate_params,
    products,
    some_params,
    torch_log_pmf,
    torch_weights,
)

from tallyfold.inference.encoders.evidence import N_PRIOR
from tallyfold.inference.encoders.objective import train
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.kernels.evidence import network_inputs


def torch_axis_loss(setting, axis, params):
    """The loss of an axis's encoder, from the factors, the cells and the multipliers alone."""
    cells = torch.tensor(setting.cells.indices_NM.astype(np.int64))
    held = torch.tensor(setting.held_out.indices_NM.astype(np.int64))
    y = torch.tensor(setting.cells.counts_N.astype(float))
    seen = torch.tensor(setting.cells.seen[axis])
    f, g = torch_weights(params, network_inputs(setting.cells.counts_N, setting.rate_N))
    a, c = torch.exp(params[0]), torch.exp(params[1])
    product = products(setting.posterior.geometric_means, cells)
    share = product / product.sum(1, keepdim=True)
    exposure = torch.tensor(setting.exposure(setting.rate_N) * setting.multiplier_N)
    exposed = products(setting.mean, cells, without=axis) * exposure[:, None]
    zeros = torch.zeros(len(seen), share.shape[1], dtype=torch.float64)
    shape = a + zeros.index_add(0, cells[:, axis], (f * y)[:, None] * share)
    rate = a * PRIOR_RATE * c + zeros.index_add(0, cells[:, axis], g[:, None] * exposed)
    mean = shape / rate
    mean = torch.where(seen[:, None], mean, mean[seen].mean(0))
    factors = [mean if m == axis else torch.tensor(other) for m, other in enumerate(setting.mean)]
    held_rate = products(factors, held).sum(1) * torch.tensor(setting.held_multiplier_V)
    return -torch_log_pmf(setting.target, held_rate).sum()


def torch_derived_loss(setting, axes, params):
    """The loss of a derived axis's encoder, from all training cells."""
    found = setting.combinations(axes)
    row, held = torch.tensor(found.row_N.astype(np.int64)), torch.tensor(found.held_row_V)
    f, g = torch_weights(params, network_inputs(setting.cells.counts_N, setting.rate_N))
    zeros = torch.zeros(found.n_rows, dtype=torch.float64)
    y = torch.tensor(setting.cells.counts_N.astype(float))
    shape = torch.exp(params[0]) + zeros.index_add(0, row, f * y)
    exposed = g * torch.tensor(setting.exposure(setting.rate_N) * setting.rate_N)
    rate = torch.exp(params[1]) + zeros.index_add(0, row, exposed)
    held_rate = torch.tensor(setting.held_rate_V) * (shape / rate)[held]
    return -torch_log_pmf(setting.target, held_rate).sum()


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_an_axis_is_that_of_automatic_differentiation(shape, family, truncated):
    setting = Setting(shape, family, truncated)
    assert all(not seen[-1] for seen in setting.cells.seen)
    assert 1 in np.bincount(setting.cells.indices_NM[:, 0])
    for axis in range(len(shape)):
        assert np.any(setting.held_out.indices_NM[:, axis] == shape[axis] - 1)
        agrees(setting.axis_objective(axis), lambda x, m=axis: torch_axis_loss(setting, m, x))


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_gradient_of_a_derived_axis_is_that_of_automatic_differentiation(
    shape, family, truncated
):
    setting = Setting(shape, family, truncated)
    for axes in [(0, 1), (0, len(shape) - 1), tuple(range(len(shape) - 1))]:
        objective = setting.derived_objective(axes)
        rows = objective.held_rows
        assert np.any(rows.row_N == rows.n_rows - 1)  # some were never seen
        agrees(objective, lambda x, m=axes: torch_derived_loss(setting, m, x))


# -- where training starts ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize(("family", "truncated"), [*LIKELIHOODS, ("negative-binomial", False)])
def test_an_encoder_starts_as_the_conjugate_update(family, truncated, backend):
    setting = Setting((8, 6, 5), family, truncated)
    step = CAVIStep(
        setting.cells,
        setting.likelihood,
        zeros_observed=False,
        n_components=3,
        prior_shape=0.7,
        prior_rate=0.7 * PRIOR_RATE,
        dispersion=R,
        backend=backend,
    )
    state = replace(step.start(), posterior=setting.posterior)
    expected = step.advance(state, 1)[0].posterior.axes[0]
    # the first axis sees the others as they are
    objective = setting.axis_objective(0, backend, multiplied=False)
    found = objective.posterior(conjugate_params(0.7))
    assert np.allclose(found.shape_DK, expected.shape_DK, rtol=1e-10)
    assert np.allclose(found.rate_DK, expected.rate_DK, rtol=1e-10)


def test_multipliers_start_as_the_conjugate_update():
    setting = Setting((8, 6, 5), "poisson", False)
    found = setting.combinations((0, 1))
    table = setting.derived_objective((0, 1), selected=False).posterior(conjugate_params(2.0))
    assert table.shape_DK.shape == table.rate_DK.shape == (found.n_rows, 1)
    for row in range(found.n_rows):
        own = found.row_N == row
        assert table.shape_DK[row, 0] == pytest.approx(2 + setting.cells.counts_N[own].sum())
        assert table.rate_DK[row, 0] == pytest.approx(1 + setting.rate_N[own].sum())


def test_cells_that_no_held_out_cell_shares_a_combination_with_do_not_matter():
    setting, params = Setting((8, 6, 5), "poisson", True), some_params()
    some, every = (setting.derived_objective((0, 1), selected) for selected in (True, False))
    assert 0 < len(some.evidence.count_N) < len(every.evidence.count_N)
    (loss, gradient), (expected, slope) = some.loss(params), every.loss(params)
    assert loss == pytest.approx(expected, rel=1e-12)
    assert np.allclose(gradient, slope, rtol=1e-9, atol=1e-9)


# -- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["axis", "derived"])
def test_training_lowers_the_loss_and_keeps_the_prior_within_its_range(kind):
    setting = Setting((8, 6, 5), "poisson", True)
    of_axis = kind == "axis"
    objective = setting.axis_objective(1) if of_axis else setting.derived_objective((0, 2))
    start = conjugate_params(1.0)
    trained = train(objective, start, start, weight_variance=1e-2, steps=5)
    assert objective.loss(trained)[0] < objective.loss(start)[0]
    assert np.all(np.abs(trained[:N_PRIOR]) <= 6)
    tight = train(objective, start, start, weight_variance=1e-9, steps=5)
    assert np.allclose(tight[N_PRIOR:], start[N_PRIOR:], atol=1e-4)


def test_training_can_start_outside_the_range_of_the_prior():
    """A prior shape that was asked for may be any."""
    objective = Setting((8, 6, 5), "poisson", True).axis_objective(0)
    start = conjugate_params(1e5)
    assert np.all(np.isfinite(train(objective, start, start, weight_variance=0.1, steps=3)))
