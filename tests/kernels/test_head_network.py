"""The count head's network: its gradient against autograd, and the same bits in any company."""

import numpy as np
import pytest

from tallyfold.kernels.head_network import (
    BLOCK,
    HeadNetwork,
    expectations,
    loss_gradient,
    probabilities,
    rectify,
    stop_at_zeros,
)

N_INPUTS, N_HIDDEN, N_SHAPES, N_BINS = 5, 4, 6, 7


def problem(dtype, n_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    network = HeadNetwork(N_INPUTS, N_HIDDEN, rng.standard_normal((N_SHAPES, N_BINS)).astype(dtype))
    params_P = rng.standard_normal(network.n_params).astype(dtype)
    x_ND = rng.standard_normal((n_rows, N_INPUTS)).astype(dtype)
    return network, params_P, x_ND, rng.integers(0, N_BINS, n_rows)


def torch_log_prob(network, params, x_ND):
    """Return the log probabilities of bins, written down as the formula says."""
    import torch

    shapes = torch.tensor(network.shapes_QB)
    w1, b1, w2, b = torch.split(params, list(network.sizes))
    x = torch.tensor(x_ND)
    hidden = torch.relu(x @ w1.reshape(N_INPUTS, N_HIDDEN) + b1)
    logits = b + torch.cat([hidden, x], dim=1) @ w2.reshape(-1, N_SHAPES) @ shapes
    return torch.log_softmax(logits, dim=1)


def test_probabilities_and_gradient_agree_with_autograd():
    import torch

    network, params_P, x_ND, bin_N = problem(np.float64)
    params = torch.tensor(params_P, requires_grad=True)
    log_prob = torch_log_prob(network, params, x_ND)
    loss = -log_prob[torch.arange(len(bin_N)), torch.tensor(bin_N)].mean()
    loss.backward()
    gradient_P = np.full(network.n_params, np.nan)
    loss_gradient(network, params_P, x_ND, bin_N, gradient_P)
    assert gradient_P == pytest.approx(params.grad.numpy(), rel=1e-9, abs=1e-12)
    prob_NB = probabilities(network, params_P, x_ND)
    assert prob_NB == pytest.approx(np.exp(log_prob.detach().numpy()), rel=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_back_ends_rectify_to_the_same_bits(dtype):
    rng = np.random.default_rng(2)
    sums_NH, slope_NH = rng.standard_normal((2, 9, 5)).astype(dtype)
    b_H = rng.standard_normal(5).astype(dtype)
    sums_NH[3] = -b_H  # exactly zero
    found = []
    for backend in ("numpy", "numba"):
        hidden_NH, stopped_NH = sums_NH.copy(), slope_NH.copy()
        rectify(hidden_NH, b_H, backend=backend)
        stop_at_zeros(stopped_NH, hidden_NH, backend=backend)
        found.append((hidden_NH, stopped_NH))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found[1][1] != 0, sums_NH + b_H > 0)


def test_expectations_are_those_of_the_members_probabilities():
    network, params_P, x_ND, _ = problem(np.float64, n_rows=3000)
    params_MP = np.stack([params_P, params_P[::-1]])
    function_BF = np.random.default_rng(1).standard_normal((N_BINS, 2))
    wanted_NF = sum(probabilities(network, each_P, x_ND) for each_P in params_MP) @ function_BF / 2
    found_NF = expectations(network, params_MP, x_ND, function_BF)
    assert found_NF == pytest.approx(wanted_NF, rel=1e-9, abs=1e-12)


def test_what_goes_in_is_left_as_it_was():
    network, params_P, x_ND, bin_N = problem(np.float32)
    before = params_P.copy(), x_ND.copy(), bin_N.copy()
    loss_gradient(network, params_P, x_ND, bin_N, np.empty_like(params_P))
    probabilities(network, params_P, x_ND)
    for now, then in zip((params_P, x_ND, bin_N), before, strict=True):
        assert np.array_equal(now, then)


def test_single_precision_is_kept():
    network, params_P, x_ND, bin_N = problem(np.float32)
    assert probabilities(network, params_P, x_ND).dtype == np.float32
    exact = HeadNetwork(N_INPUTS, N_HIDDEN, network.shapes_QB.astype(np.float64))
    gradient_P, exact_P = np.empty_like(params_P), np.empty(network.n_params)
    loss_gradient(network, params_P, x_ND, bin_N, gradient_P)
    loss_gradient(exact, params_P.astype(float), x_ND.astype(float), bin_N, exact_P)
    assert gradient_P == pytest.approx(exact_P, abs=1e-5)


@pytest.mark.parametrize("n_rows", [1, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_a_row_has_the_same_bits_beside_any_others(n_rows):
    network, params_P, x_ND, _ = problem(np.float32, 3 * BLOCK)
    whole = probabilities(network, params_P, x_ND)
    assert np.array_equal(probabilities(network, params_P, x_ND[:n_rows]), whole[:n_rows])
    assert np.array_equal(probabilities(network, params_P, x_ND[-n_rows:]), whole[-n_rows:])
    assert np.array_equal(probabilities(network, params_P, x_ND[::-1]), whole[::-1])


def test_a_row_has_the_same_bits_wherever_it_stands():
    rng = np.random.default_rng(1)
    network = HeadNetwork(42, 64, rng.standard_normal((34, 22)).astype(np.float32))
    params_P = rng.standard_normal(network.n_params).astype(np.float32) / 10
    row_1D = rng.standard_normal((1, 42)).astype(np.float32)
    alone_1B = probabilities(network, params_P, row_1D)
    many_NB = probabilities(network, params_P, np.repeat(row_1D, BLOCK + 7, axis=0))
    assert np.all(many_NB == alone_1B)


def test_large_logits_are_no_harm():
    network, params_P, x_ND, _ = problem(np.float32)
    prob_NB = probabilities(network, params_P * 1e4, x_ND)
    assert prob_NB.sum(axis=1) == pytest.approx(np.ones(len(x_ND)), abs=1e-6)


def test_parameters_are_unpacked_as_views():
    network, params_P, *_ = problem(np.float32)
    w1, b1, w2, b = network.unpack(params_P)
    assert w1.shape == (N_INPUTS, N_HIDDEN)
    assert w2.shape == (N_HIDDEN + N_INPUTS, N_SHAPES)
    assert w1.size + b1.size + w2.size + b.size == network.n_params
    for part in (w1, b1, w2, b):
        part[:] = 7
    assert np.all(params_P == 7)
