import numpy as np
import pytest

from tallyfold.errors import ShapeError
from tallyfold.kernels import use_threads
from tallyfold.kernels.evidence import (
    conjugate_network,
    evidence_gradient,
    evidence_weights,
    layers,
    network_inputs,
    network_size,
)
from tallyfold.kernels.layout import CHUNK_CELLS

N_CELLS = 2 * CHUNK_CELLS + 777  # several chunks, the last not full


def make_cells(n_cells, seed=0):
    rng = np.random.default_rng(seed)
    inputs_2N = network_inputs(rng.geometric(0.3, n_cells), rng.gamma(0.5, 2.0, n_cells))
    return inputs_2N, rng.normal(size=(2, n_cells))


def random_network(units, seed=1):
    return np.random.default_rng(seed).normal(size=network_size(units))


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("units", [1, 8, 33])
@pytest.mark.parametrize("n_cells", [0, 1, N_CELLS])
def test_the_fast_forms_agree_with_the_reference(backend, units, n_cells):
    flat, (x_2N, slope_2N) = random_network(units), make_cells(n_cells)
    slow, fast = (evidence_weights(flat, x_2N, backend=b) for b in ("numpy", backend))
    assert slow.shape == fast.shape == (2, n_cells)
    assert np.allclose(fast, slow, rtol=1e-12)
    slow, fast = (evidence_gradient(flat, x_2N, slope_2N, backend=b) for b in ("numpy", backend))
    assert slow.shape == fast.shape == flat.shape
    assert np.allclose(fast, slow, rtol=1e-9, atol=1e-9 * max(abs(slow).max(), 1))


@pytest.mark.parametrize("backend", ["numpy", "numba", "torch", "auto"])
def test_the_gradient_is_that_of_automatic_differentiation(backend):
    import torch

    units, (x_2N, slope_2N) = 6, make_cells(500)
    flat = random_network(units)
    numbers = torch.tensor(flat, requires_grad=True)
    into, hidden, out, bias = torch.split(numbers, [2 * units, units, 2 * units, 2])
    unit_NH = torch.relu(torch.tensor(x_2N).T @ into.reshape(2, units) + hidden)
    weight_N2 = torch.nn.functional.softplus(unit_NH @ out.reshape(units, 2) + bias)
    (torch.tensor(slope_2N).T * weight_N2).sum().backward()
    weight_2N = evidence_weights(flat, x_2N, backend=backend)
    assert np.allclose(weight_2N, weight_N2.detach().numpy().T, rtol=1e-10)
    found = evidence_gradient(flat, x_2N, slope_2N, backend=backend)
    assert np.allclose(found, numbers.grad.numpy(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", ["numpy", "numba", "torch"])
def test_training_starts_where_every_cell_counts_as_one(backend):
    """Exactly: a fit that learns nothing must be BPTF's."""
    x_2N, slope_2N = make_cells(1000)
    flat = conjugate_network(8, np.random.default_rng(0))
    assert np.all(evidence_weights(flat, x_2N, backend=backend) == 1.0)
    # and it can leave: the slope with respect to the last layer is not zero
    assert np.all(layers(evidence_gradient(flat, x_2N, slope_2N, backend=backend)).out_H2 != 0)


def test_any_number_of_threads_gives_the_same_bits():
    flat, (x_2N, slope_2N) = random_network(8), make_cells(N_CELLS)
    found = []
    for n_threads in (1, 2, 3):
        with use_threads(n_threads):
            weight_2N = evidence_weights(flat, x_2N, backend="numba")
            found.append((weight_2N, evidence_gradient(flat, x_2N, slope_2N, backend="numba")))
    for weight_2N, gradient in found[1:]:
        assert np.array_equal(weight_2N, found[0][0])
        assert np.array_equal(gradient, found[0][1])


@pytest.mark.parametrize("backend", ["numpy", "numba", "torch"])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_huge_counts_and_tiny_rates_stay_finite(backend, size):
    counts = np.array([1, 10**9, 2**62, 1, 10**9])
    x_2N = network_inputs(counts, np.array([0.0, 1e-300, 1e300, 1e300, 1.0]))
    assert np.all(np.isfinite(x_2N))
    flat = random_network(8) * size
    weight_2N = evidence_weights(flat, x_2N, backend=backend)
    assert np.all(np.isfinite(weight_2N) & (weight_2N >= 0))
    assert np.all(np.isfinite(evidence_gradient(flat, x_2N, np.ones((2, 5)), backend=backend)))


def test_inputs_are_logarithms_within_a_range():
    x_2N = network_inputs(np.array([1, 5, 10**9]), np.array([1e-300, np.e, 1e300]))
    assert np.allclose(x_2N, [[0.0, np.log(5) / 2, 4.0], [-4.0, 0.5, 4.0]], rtol=1e-15)


@pytest.mark.parametrize("length", [0, 1, 3, 6, 41])
def test_a_network_of_the_wrong_length_is_refused(length):
    x_2N, _ = make_cells(3)
    with pytest.raises(ShapeError, match=rf"5 d \+ 2 numbers for d hidden units; got {length}"):
        evidence_weights(np.zeros(length), x_2N)


def test_layers_are_views_in_the_order_of_the_text():
    flat = np.arange(17.0)
    parts = layers(flat)
    assert [part.shape for part in parts] == [(2, 3), (3,), (3, 2), (2,)]
    assert np.array_equal(np.concatenate([np.ravel(part) for part in parts]), flat)
    parts.bias_2[:] = -1
    assert flat[-1] == -1
