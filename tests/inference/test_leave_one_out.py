"""Training cells left out of their own sums: by brute force, by autograd, and in a fit."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from tests.inference.visit_settings import (
    LIKELIHOODS,
    SHAPES,
    Setting,
    agrees,
    products,
    some_numbers,
    torch_log_pmf,
    torch_weights,
)

import tallyfold as tf
from tallyfold.inference.cells.held_out import Target
from tallyfold.inference.encoders import leave_one_out
from tallyfold.inference.encoders.leave_one_out import (
    LeaveOneOutAxisVisit,
    LeaveOneOutInteractionVisit,
)
from tallyfold.inference.encoders.objective import axis_posterior
from tallyfold.posterior.predictive import Calibration


def own_target(setting, truncated):
    r_N = np.random.default_rng(3).gamma(3.0, 1.0, len(setting.cells.counts_N)) + 0.1
    return Target(setting.cells.counts_N, Calibration(0.9, 1.2, 3.0, 0.5), truncated, r_N)


def given(visit):
    return {field.name: getattr(visit, field.name) for field in fields(visit)}


def axis_visit(setting, axis, truncated):
    return LeaveOneOutAxisVisit(
        **given(setting.axis_visit(axis)),
        own_target=own_target(setting, truncated),
        multiplier_N=setting.multiplier_N,
    )


def interaction_visit(setting, axes, truncated):
    return LeaveOneOutInteractionVisit(
        **given(setting.interaction_visit(axes)),
        own_target=own_target(setting, truncated),
        others_N=setting.rate_N * setting.multiplier_N,
    )


def torch_axis_loss(visit, numbers):
    cells = torch.tensor(visit.cells.indices_NM.astype(np.int64))
    y = torch.tensor(visit.cells.counts_N.astype(float))
    axis = visit.axis
    f, g = torch_weights(numbers, visit.inputs_2N)
    a, c = torch.exp(numbers[0]), torch.exp(numbers[1])
    product = products(visit.geo, cells)
    own_shape = (f * y)[:, None] * product / product.sum(1, keepdim=True)
    others = products(visit.mean, cells, without=axis)
    own_rate = g[:, None] * others * torch.tensor(visit.exposure_N)[:, None]
    zeros = torch.zeros(visit.geo[axis].shape, dtype=torch.float64)
    shape = a + zeros.index_add(0, cells[:, axis], own_shape)
    rate = a * visit.prior_rate * c + zeros.index_add(0, cells[:, axis], own_rate)
    mean = (shape[cells[:, axis]] - own_shape) / (rate[cells[:, axis]] - own_rate)
    rate_N = (mean * others).sum(1) * torch.tensor(visit.multiplier_N)
    return -torch_log_pmf(visit.own_target, rate_N).sum()


def torch_interaction_loss(visit, numbers):
    place = torch.tensor(visit.place_N)
    f, g = torch_weights(numbers, visit.inputs_2N)
    zeros = torch.zeros(visit.n_places, dtype=torch.float64)
    own_shape = f * torch.tensor(visit.counts_N.astype(float))
    own_rate = g * torch.tensor(visit.exposure_N)
    shape = torch.exp(numbers[0]) + zeros.index_add(0, place, own_shape)
    rate = torch.exp(numbers[1]) + zeros.index_add(0, place, own_rate)
    mean = (shape[place] - own_shape) / (rate[place] - own_rate)
    return -torch_log_pmf(visit.own_target, torch.tensor(visit.others_N) * mean).sum()


@pytest.mark.parametrize("at_once", [7, 100_000])
@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_an_axis(shape, family, truncated, at_once, monkeypatch):
    monkeypatch.setattr(leave_one_out, "CELLS_AT_ONCE", at_once)
    setting = Setting(shape, family, truncated)
    assert 1 in np.bincount(setting.cells.indices_NM[:, 0])  # an entity of one cell: its prior
    for axis in range(len(shape)):
        agrees(axis_visit(setting, axis, truncated), torch_axis_loss)


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_the_gradient_of_multipliers(shape, family, truncated):
    setting = Setting(shape, family, truncated)
    for axes in [(0, 1), (0, len(shape) - 1), tuple(range(len(shape) - 1))]:
        agrees(interaction_visit(setting, axes, truncated), torch_interaction_loss)


def test_a_cell_is_predicted_as_if_it_were_not_there():
    """Take one cell's evidence out of the sums by hand; its prediction is that of the loss."""
    setting, numbers = Setting((8, 6, 5), "poisson", True), some_numbers()
    visit = axis_visit(setting, 1, True)
    total = 0.0
    for n in range(len(setting.cells.counts_N)):
        share, exposure = visit.count_share_N.copy(), visit.exposure_N.copy()
        share[n] = exposure[n] = 0.0
        shape_DK, rate_DK = axis_posterior(
            numbers,
            visit.inputs_2N,
            (visit.geo, share),
            (visit.mean, exposure),
            setting.cells.layouts[1],
            visit.prior_rate,
            "numpy",
        )
        cell = setting.cells.indices_NM[n]
        factors = [visit.mean[0][cell[0]], (shape_DK / rate_DK)[cell[1]], visit.mean[2][cell[2]]]
        rate = np.prod(factors, axis=0).sum() * visit.multiplier_N[n]
        alone = Target(
            visit.own_target.counts_N[n : n + 1],
            visit.own_target.calibration,
            True,
            visit.own_target.dispersion_N[n : n + 1],
        )
        total += float(alone.log_pmf(np.array([rate]))[0])
    assert -visit.loss(numbers)[0] == pytest.approx(total, rel=1e-10)


def test_a_fit_is_never_worse_than_its_start_on_held_out_cells():
    truth = tf.simulate((25, 20, 8), 2, density=0.3, random_state=1)
    train, test = tf.split(truth.tensor)
    model = tf.VAEBPTF(n_components=2, objective="leave-one-out", max_iter=20).fit(train)
    history = model.history_["validation"].to_numpy(float)
    assert model.fitted_.parameters["objective"] == "leave-one-out"
    assert history[-1] >= history[0]
    assert model.score(test) > tf.Constant().fit(train).score(test)


def test_observed_zeros_leave_nothing_to_train_on():
    with pytest.raises(tf.errors.ParameterError, match="interactions"):
        tf.VAEBPTF(
            objective="leave-one-out", zeros="observed", interactions=[["axis_0", "axis_1"]]
        ).fit(tf.simulate((9, 8, 7), 2, density=0.3).tensor)
