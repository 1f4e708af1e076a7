from copy import deepcopy

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.least_squares import LeastSquaresStep, factors_of

ZEROS = pytest.mark.parametrize("observed", [False, True])


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((9, 7, 5), 3, density=0.4, random_state=2).tensor


def make_step(tensor, observed, **parameters):
    return LeastSquaresStep(TrainingCells(tensor), observed, 3, **parameters)


def dense_loss(tensor, factors, observed, l2):
    """Return the loss from the dense tensor, with torch or NumPy factors alike."""
    import torch

    rate = torch.einsum("ak,bk,ck->abc", *factors)
    counts = torch.zeros(tensor.shape, dtype=torch.float64)
    where = tuple(torch.as_tensor(tensor.indices.astype(np.int64)).T)
    counts[where] = torch.tensor(tensor.counts).double()
    errors = (rate - counts) ** 2
    total = errors.sum() if observed else errors[where].sum()
    return total + l2 * sum((factor**2).sum() for factor in factors)


@ZEROS
def test_loss_and_gradients_are_those_of_the_dense_tensor(observed, tensor):
    import torch

    step = make_step(tensor, observed, l2=0.7)
    factors = factors_of(step.start())
    leaves = [torch.tensor(factor, requires_grad=True) for factor in factors]
    loss = dense_loss(tensor, leaves, observed, 0.7)
    loss.backward()
    assert step.loss(factors) == pytest.approx(loss.item(), rel=1e-12)
    for gradient, leaf in zip(step.gradients(factors), leaves, strict=True):
        np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-10, atol=1e-10)


@ZEROS
def test_gradients_by_finite_differences(observed, tensor):
    step = make_step(tensor, observed, l2=0.1)
    factors = factors_of(step.start())
    gradients = step.gradients(factors)
    for axis, d, k in [(0, 0, 0), (0, 8, 2), (1, 3, 1), (2, 4, 0)]:
        change = []
        for h in (1e-6, -1e-6):
            moved = [factor.copy() for factor in factors]
            moved[axis][d, k] += h
            change.append(step.loss(moved))
        assert (change[0] - change[1]) / 2e-6 == pytest.approx(gradients[axis][d, k], rel=1e-5)


@ZEROS
def test_steps_are_those_of_torchs_adam_cut_off_at_zero(observed, tensor):
    import torch

    step = make_step(tensor, observed, learning_rate=0.2)
    state = step.start()
    leaves = [torch.tensor(factor, requires_grad=True) for factor in factors_of(state)]
    optimiser = torch.optim.Adam(leaves, lr=0.2)
    for iteration in range(1, 8):
        optimiser.zero_grad()
        dense_loss(tensor, leaves, observed, step.l2).backward()
        optimiser.step()
        with torch.no_grad():
            for leaf in leaves:
                leaf.clamp_(min=0)
        state, _ = step.advance(state, iteration)
    assert min(factor.min() for factor in factors_of(state)) == 0
    for factor, leaf in zip(factors_of(state), leaves, strict=True):
        np.testing.assert_allclose(factor, leaf.detach().numpy(), rtol=1e-8, atol=1e-10)


@ZEROS
def test_factors_stay_non_negative_and_the_loss_falls(observed, tensor):
    step = make_step(tensor, observed, learning_rate=0.05)
    state, losses = step.start(), []
    copy = deepcopy(state)
    first = step.advance(state, 1)[0]
    assert same_states(state, copy)
    state = first
    for iteration in range(2, 200):
        state, loss = step.advance(state, iteration)
        losses.append(loss)
    factors = factors_of(state)
    assert min(factor.min() for factor in factors) == 0.0  # zero is reached, not only neared
    assert losses[-1] < losses[0] / 2
