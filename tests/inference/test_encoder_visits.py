"""Encoders of the anchored form: their gradients, and that they start at the conjugate update."""

import numpy as np
import pytest
import torch
from tests.inference.visit_settings import (
    LIKELIHOODS,
    SHAPES,
    R,
    Setting,
    agrees,
    conjugate_numbers,
    products,
    some_numbers,
    torch_log_pmf,
    torch_weights,
)

from tallyfold.inference.encoders.objective import (
    N_PRIOR,
    train,
)
from tallyfold.inference.schemes.cavi import CAVIStep, factors_of


def torch_axis_loss(visit, numbers):
    cells = torch.tensor(visit.cells.indices_NM.astype(np.int64))
    held = torch.tensor(visit.held_out.indices_NM.astype(np.int64))
    y = torch.tensor(visit.cells.counts_N.astype(float))
    seen, axis = torch.tensor(visit.cells.seen[visit.axis]), visit.axis
    f, g = torch_weights(numbers, visit.inputs_2N)
    a, c = torch.exp(numbers[0]), torch.exp(numbers[1])
    product = products(visit.geo, cells)
    share = product / product.sum(1, keepdim=True)
    exposed = products(visit.mean, cells, without=axis) * torch.tensor(visit.exposure_N)[:, None]
    zeros = torch.zeros(len(seen), share.shape[1], dtype=torch.float64)
    shape = a + zeros.index_add(0, cells[:, axis], (f * y)[:, None] * share)
    rate = a * visit.prior_rate * c + zeros.index_add(0, cells[:, axis], g[:, None] * exposed)
    mean = shape / rate
    mean = torch.where(seen[:, None], mean, mean[seen].mean(0))
    factors = [mean if m == axis else torch.tensor(other) for m, other in enumerate(visit.mean)]
    held_rate = products(factors, held).sum(1) * torch.tensor(visit.held_multiplier_V)
    return -torch_log_pmf(visit.target, held_rate).sum()


def torch_interaction_loss(visit, numbers):
    place, held = torch.tensor(visit.place_N), torch.tensor(visit.held_place_V)
    f, g = torch_weights(numbers, visit.inputs_2N)
    zeros = torch.zeros(visit.n_places, dtype=torch.float64)
    y = torch.tensor(visit.counts_N.astype(float))
    shape = torch.exp(numbers[0]) + zeros.index_add(0, place, f * y)
    exposed = g * torch.tensor(visit.exposure_N)
    rate = torch.exp(numbers[1]) + zeros.index_add(0, place, exposed)
    held_rate = torch.tensor(visit.held_others_V) * (shape / rate)[held]
    return -torch_log_pmf(visit.target, held_rate).sum()


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_an_axis_is_that_of_automatic_differentiation(shape, family, truncated):
    setting = Setting(shape, family, truncated)
    assert all(not seen[-1] for seen in setting.cells.seen)
    assert 1 in np.bincount(setting.cells.indices_NM[:, 0])
    for axis in range(len(shape)):
        assert np.any(setting.held_out.indices_NM[:, axis] == shape[axis] - 1)
        agrees(setting.axis_visit(axis), torch_axis_loss)


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_gradient_of_multipliers_is_that_of_automatic_differentiation(shape, family, truncated):
    setting = Setting(shape, family, truncated)
    for axes in [(0, 1), (0, len(shape) - 1), tuple(range(len(shape) - 1))]:
        visit = setting.interaction_visit(axes)
        assert np.any(visit.held_place_V == visit.n_places - 1)  # some were never seen
        agrees(visit, torch_interaction_loss)


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
        prior_rate=0.7 * 0.8,
        dispersion=R,
        backend=backend,
    )
    state = step.start()
    for axis, pair in enumerate(zip(setting.shapes, setting.rates, strict=True)):
        state[f"shape_{axis}"], state[f"rate_{axis}"] = pair
    shapes, rates = factors_of(step.advance(state, 1)[0])
    visit = setting.axis_visit(0, backend, multiplied=False)  # the first axis sees the others as is
    shape_DK, rate_DK = visit.posterior(conjugate_numbers(0.7))
    assert np.allclose(shape_DK, shapes[0], rtol=1e-10)
    assert np.allclose(rate_DK, rates[0], rtol=1e-10)


def test_multipliers_start_as_the_conjugate_update():
    visit = Setting((8, 6, 5), "poisson", False).interaction_visit((0, 1))
    shape_P1, rate_P1 = visit.posterior(conjugate_numbers(2.0))
    for place in range(visit.n_places):
        own = visit.place_N == place
        assert shape_P1[place] == pytest.approx(2 + visit.counts_N[own].sum())
        assert rate_P1[place] == pytest.approx(1 + visit.exposure_N[own].sum())


def test_cells_that_no_held_out_cell_shares_a_combination_with_do_not_matter():
    setting, numbers = Setting((8, 6, 5), "poisson", True), some_numbers()
    some, every = (setting.interaction_visit((0, 1), select=select) for select in (True, False))
    assert len(some.matter_N) < len(some.counts_N)
    (loss, gradient), (expected, slope) = some.loss(numbers), every.loss(numbers)
    assert loss == pytest.approx(expected, rel=1e-12)
    assert np.allclose(gradient, slope, rtol=1e-9, atol=1e-9)
    for found, wanted in zip(some.posterior(numbers), every.posterior(numbers), strict=True):
        assert np.array_equal(found, wanted)  # the posterior is of all cells in any case


# -- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["axis", "interaction"])
def test_training_lowers_the_loss_and_keeps_the_prior_within_its_range(kind):
    setting = Setting((8, 6, 5), "poisson", True)
    visit = setting.axis_visit(1) if kind == "axis" else setting.interaction_visit((0, 2))
    start = conjugate_numbers(1.0)
    trained = train(visit, start, start, weight_variance=1e-2, steps=5)
    assert visit.loss(trained)[0] < visit.loss(start)[0]
    assert np.all(np.abs(trained[:N_PRIOR]) <= 6)
    tight = train(visit, start, start, weight_variance=1e-9, steps=5)
    assert np.allclose(tight[N_PRIOR:], start[N_PRIOR:], atol=1e-4)


def test_training_can_start_outside_the_range_of_the_prior():
    """A prior shape that was asked for may be any."""
    visit, start = Setting((8, 6, 5), "poisson", True).axis_visit(0), conjugate_numbers(1e5)
    assert np.all(np.isfinite(train(visit, start, start, weight_variance=0.1, steps=3)))
