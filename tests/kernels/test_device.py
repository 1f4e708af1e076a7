"""Where torch computes, what is kept there, and that its kernels stay there."""

import gc

import numpy as np
import pytest
import torch

from tallyfold import kernels
from tallyfold.errors import BackendError, ParameterError
from tallyfold.kernels import tensors, use_device
from tallyfold.kernels.backends import chosen_backend, refuse_elsewhere
from tallyfold.kernels.device import device_in_use, is_device, kept_in_use
from tallyfold.kernels.evidence import (
    evidence_gradient,
    evidence_weights,
    network_inputs,
    network_size,
)

NEGATIVE_BINOMIAL = {"likelihood": "truncated-negative-binomial", "dispersion": 0.7}


def everything(problem, backend) -> list[np.ndarray]:
    """Run every kernel that torch has, on every axis."""
    indices, counts, factors, layouts = problem
    mean = [factor * 1.5 for factor in factors]
    weight = np.sin(np.arange(len(counts)))
    options = NEGATIVE_BINOMIAL | {"backend": backend}
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


def test_what_is_kept_on_the_device_is_that_of_the_innermost_block():
    outside = kept_in_use()
    with use_device("cpu"):
        kept = kept_in_use()
        assert kept is not outside
        with use_device("cpu"):
            assert kept_in_use() is not kept
        with pytest.raises(ZeroDivisionError), use_device("cpu"):
            raise ZeroDivisionError
        assert kept_in_use() is kept
    assert kept_in_use() is outside


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "mps", "", 0, None]
)
def test_what_is_no_device_is_refused(device):
    assert not is_device(device)
    with pytest.raises(BackendError, match=r"`device` must be 'cpu', 'cuda'.*; got"):
        use_device(device).__enter__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:2"])
def test_a_card_that_is_not_there_is_refused(device):
    with pytest.raises(BackendError, match=rf"finds none.*got '{device}'.*device='cpu'"):
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


def test_auto_is_numpy_or_numba_on_the_cpu():
    assert chosen_backend("auto", small=True) == "numpy"
    assert chosen_backend("auto", small=False) == "numba"
    assert chosen_backend("torch", small=True) == "torch"


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
    with pytest.raises(BackendError, match="'allocate_axis' has no torch form"):
        kernels.allocate_axis(problem.factors, problem.layouts[0], 0, 0, backend="torch")


# -- what is kept there ---------------------------------------------------------------------------


def test_cells_are_copied_once_and_factors_each_time(problem):
    def sums():
        return kernels.share_sums(problem.factors, problem.layouts[0], backend="torch")

    with use_device("cpu"):
        first = sums()
        kept = dict(kept_in_use())
        assert len(kept) == 3  # the columns, the entities and the counts
        assert np.array_equal(sums(), first)
        assert all(kept_in_use()[key] is copy for key, copy in kept.items())
        assert len(kept_in_use()) == len(kept)
        inside = kept_in_use()
    assert not inside


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
