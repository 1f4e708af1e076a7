"""Where torch computes, what is kept there, and that its kernels stay there."""

import gc

import numpy as np
import pytest
import torch
from tests.kernels.fake_card import pretend

from tallyfold import kernels
from tallyfold.errors import BackendError, ParameterError
from tallyfold.kernels import use_device
from tallyfold.kernels.backends import chosen_backend, refuse_elsewhere
from tallyfold.kernels.device import device_in_use, is_device, kept_in_use
from tallyfold.kernels.encoder import Network, axis_encoder
from tallyfold.kernels.encoder_torch import TorchEncoder
from tallyfold.kernels.evidence import (
    evidence_gradient,
    evidence_weights,
    network_inputs,
    network_size,
)
from tallyfold.kernels.on_device import tensors

NEGATIVE_BINOMIAL = {"likelihood": "truncated-negative-binomial", "dispersion": 0.7}


def everything(problem, backend) -> list[np.ndarray]:
    """Run every kernel that torch has, on every axis."""
    indices, counts, factors, layouts = problem
    mean = [factor * 1.5 for factor in factors]
    weight = np.sin(np.arange(len(counts)))
    options = NEGATIVE_BINOMIAL | {"cell_weight_N": np.abs(weight), "backend": backend}
    results = [kernels.cell_rates(factors, indices, backend=backend)]
    results.append(np.array(kernels.cell_bound(factors, mean, indices, counts, **options)))
    for layout in layouts:
        results += kernels.bptf_axis_sums(factors, mean, layout, **options)
        results.append(kernels.axis_sums(factors, layout, weight, backend=backend))
        results.append(kernels.share_sums(factors, layout, backend=backend))
    flat = np.random.default_rng(0).normal(size=network_size(4))
    x_2N = network_inputs(counts, results[0])
    results.append(evidence_weights(flat, x_2N, backend=backend))
    results.append(evidence_gradient(flat, x_2N, np.stack([weight, weight]), backend=backend))
    return results


@pytest.fixture(scope="module")
def reference(problem):
    return everything(problem, "numpy")


def assert_close(found, reference):
    for one, other in zip(found, reference, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


def test_many_chunks_agree_with_the_reference(problem, reference):
    assert len(list(tensors.chunks(len(problem.counts_N), 7))) > 1
    assert_close(everything(problem, "torch"), reference)


def test_small_chunks_give_the_same_sums_to_the_last_bit(problem, monkeypatch):
    def by_entity():
        layout = problem.layouts[0]
        return [
            *kernels.bptf_axis_sums(problem.factors, problem.factors, layout, backend="torch"),
            kernels.share_sums(problem.factors, layout, backend="torch"),
            kernels.cell_rates(problem.factors, problem.indices_NM, backend="torch"),
        ]

    whole = by_entity()
    monkeypatch.setitem(tensors.CHUNK_NUMBERS, "cpu", 5000)
    for one, other in zip(by_entity(), whole, strict=True):
        assert np.array_equal(one, other)


def test_torchs_number_of_threads_changes_nothing_and_is_left_alone(problem):
    found, before = [], torch.get_num_threads()
    one = problem._replace(factors=[f[:, :1] for f in problem.factors])  # sums over long chunks
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            found.append(everything(one, "torch"))
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_results_are_ones_own(problem):
    for backend in ("torch", "numba"):
        found = kernels.cell_rates(problem.factors, problem.indices_NM, backend=backend)
        assert found.dtype == np.float64
        assert found.flags.writeable
        found[:] = 0.0
    assert kernels.cell_rates(problem.factors, problem.indices_NM, backend="torch").min() > 0


# -- the device -----------------------------------------------------------------------------------


def test_the_device_is_that_of_the_innermost_block(monkeypatch):
    pretend(monkeypatch, n_devices=2)
    assert device_in_use() == "cpu"
    with use_device("cuda:1"):
        assert device_in_use() == "cuda:1"
        with use_device("cpu"):
            assert device_in_use() == "cpu"
        with pytest.raises(ZeroDivisionError), use_device("cuda"):
            raise ZeroDivisionError
        assert device_in_use() == "cuda:1"
    assert device_in_use() == "cpu"


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "mps", "", 0, None]
)
def test_what_is_no_device_is_refused(device):
    assert not is_device(device)
    with pytest.raises(BackendError, match=r"`device` must be 'cpu', 'cuda'.*; got"):
        use_device(device).__enter__()


@pytest.mark.parametrize(
    ("n_devices", "device", "found"), [(0, "cuda", "none"), (0, "cuda:0", "none"), (2, "cuda:2", 2)]
)
def test_a_card_that_is_not_there_is_refused(n_devices, device, found, monkeypatch):
    pretend(monkeypatch, n_devices)
    with pytest.raises(BackendError, match=rf"finds {found}.*got '{device}'.*device='cpu'"):
        use_device(device).__enter__()
    assert device_in_use() == "cpu"


def test_a_card_without_memory_says_what_to_do():
    error = torch.cuda.OutOfMemoryError("Tried to allocate 9 GiB.\nSee the manual.")
    said = r"ran out of memory: Tried to allocate 9 GiB\. Use device='cpu'"
    with pytest.raises(BackendError, match=said), use_device("cpu"):
        raise error
    assert device_in_use() == "cpu"
    with pytest.raises(RuntimeError, match="another"), use_device("cpu"):
        raise RuntimeError("another")


def test_auto_is_torch_on_a_card_alone(monkeypatch):
    assert chosen_backend("auto", small=True) == "numpy"
    assert chosen_backend("auto", small=False) == "numba"
    assert chosen_backend("torch", small=True) == "torch"
    pretend(monkeypatch)
    with use_device("cuda"):
        assert {chosen_backend("auto", small=small) for small in (True, False)} == {"torch"}
        assert chosen_backend("numpy", small=False) == "numpy"


def test_compiled_kernels_are_refused_elsewhere():
    for backend in ("numba", "numpy"):
        refuse_elsewhere(backend, "cpu")
        with pytest.raises(
            ParameterError, match=f"'auto' or 'torch' with device='cuda'.*{backend}"
        ):
            refuse_elsewhere(backend, "cuda")
    for backend in ("auto", "torch"):
        refuse_elsewhere(backend, "cuda")


def test_draws_have_no_form_in_torch(problem):
    with pytest.raises(BackendError, match="'allocate_axis' cannot be computed by torch"):
        kernels.allocate_axis(problem.factors, problem.layouts[0], 0, 0, backend="torch")


def test_every_tensor_is_made_on_the_device(problem, reference, monkeypatch):
    asked = pretend(monkeypatch)
    with use_device("cuda:0"):
        assert_close(everything(problem, "auto"), reference)
        network = Network(1, 3, "softplus", "softplus")
        encoder = axis_encoder(problem.layouts[2], network)
        assert isinstance(encoder, TorchEncoder)
        rng = np.random.default_rng(0)
        weights = {
            f"{kind}_{part}_{layer}": rng.normal(size=(1, *shape))
            for kind in ("shape", "rate")
            for part, layer, shape in (
                ("weight", 0, (3, 3)), ("bias", 0, (3,)), ("weight", 1, (3, 1)), ("bias", 1, (1,))
            )
        }  # fmt: skip
        given = weights, problem.factors, np.ones(len(problem.counts_N))
        encoder.backward(*given, *encoder.forward(*given))
    assert set(asked) == {"cuda:0"}


# -- what is kept there ---------------------------------------------------------------------------


def copies(monkeypatch, run) -> int:
    """Count the tensors that are made of arrays."""
    with monkeypatch.context() as patches:
        asked = pretend(patches)
        run()
    return len(asked)


def test_cells_are_copied_once_and_factors_each_time(problem, monkeypatch):
    def run():
        kernels.share_sums(problem.factors, problem.layouts[0], backend="torch")

    with use_device("cpu"):
        first, second = copies(monkeypatch, run), copies(monkeypatch, run)
        assert second == len(problem.factors)
        assert first == second + 5  # three columns, the order and the counts
        kept = kept_in_use()
        assert len(kept) == 4
    assert not kept
    with use_device("cpu"):
        assert copies(monkeypatch, run) == first


def test_what_nobody_holds_is_let_go():
    indices = np.array([[0, 1], [1, 0]], dtype=np.int32)
    factors = [np.ones((2, 3)), np.ones((2, 3))]
    with use_device("cpu"):
        layout = kernels.axis_layout(indices, np.array([1, 1]), 0, 2)
        kernels.share_sums(factors, layout, backend="torch")
        assert kept_in_use()
        del layout
        gc.collect()
        assert not kept_in_use()


def test_an_array_that_may_change_is_looked_at_afresh():
    indices = np.array([[0, 0], [1, 0]], dtype=np.int32)
    factors = [np.array([[1.0], [10.0]]), np.ones((1, 1))]
    assert kernels.cell_rates(factors, indices, backend="torch").tolist() == [1.0, 10.0]
    indices[0, 0] = 1
    assert kernels.cell_rates(factors, indices, backend="torch").tolist() == [10.0, 10.0]
    factors[0][1] = 7.0
    assert kernels.cell_rates(factors, indices, backend="torch").tolist() == [7.0, 7.0]
