from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tallyfold import kernels
from tallyfold.errors import ParameterError
from tallyfold.kernels.threads import run_chunks

NEGATIVE_BINOMIAL = {"likelihood": "truncated-negative-binomial", "dispersion": 0.7}


def everything(problem) -> list[np.ndarray]:
    """Run every fused kernel on every axis."""
    indices, counts, factors, layouts = problem
    mean = [factor * 1.5 for factor in factors]
    results = [kernels.cell_rates(factors, indices, backend="numba")]
    bound = kernels.cell_bound(factors, mean, indices, counts, **NEGATIVE_BINOMIAL, backend="numba")
    results.append(np.array(bound))
    for layout in layouts:
        weights = np.sin(np.arange(len(counts)))
        results += kernels.bptf_axis_sums(
            factors, mean, layout, **NEGATIVE_BINOMIAL, backend="numba"
        )
        results.append(kernels.axis_sums(factors, layout, weights, backend="numba"))
        results.append(kernels.share_sums(factors, layout, backend="numba"))
        results.append(kernels.allocate_axis(factors, layout, 1, 2, backend="numba"))
    return results


def assert_same_bits(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert [a.tobytes() for a in left] == [b.tobytes() for b in right]


def test_the_problem_has_many_chunks(problem):
    assert len(problem.layouts[0].chunk_piece_C1) > 4


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(problem, four_axes, n_threads):
    for case in (problem, four_axes):
        with kernels.use_threads(1):
            alone = everything(case)
        with kernels.use_threads(n_threads):
            assert_same_bits(everything(case), alone)


def test_several_callers_at_once_do_not_disturb_each_other(problem, four_axes):
    alone = [everything(problem), everything(four_axes)]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(everything, case) for case in (problem, four_axes) * 3]
        for i, future in enumerate(futures):
            assert_same_bits(future.result(), alone[i % 2])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_chunks", [0, 1, 2, 50])
def test_every_chunk_is_visited_once(n_threads, n_chunks):
    visits = np.zeros(n_chunks, dtype=int)

    def visit(start, stop):
        visits[start:stop] += 1

    with kernels.use_threads(n_threads):
        run_chunks(visit, n_chunks)
    assert visits.tolist() == [1] * n_chunks


def test_an_error_in_a_helper_thread_reaches_the_caller():
    def fail(start, stop):
        raise ZeroDivisionError

    with kernels.use_threads(3), pytest.raises(ZeroDivisionError):
        run_chunks(fail, 9)


def test_thread_count_obeys_the_environment(monkeypatch):
    monkeypatch.setenv("TALLYFOLD_THREADS", "5")
    assert kernels.thread_count() == 5
    with kernels.use_threads(2):
        assert kernels.thread_count() == 2
    monkeypatch.setenv("TALLYFOLD_THREADS", "many")
    with pytest.raises(ParameterError, match="TALLYFOLD_THREADS"):
        kernels.thread_count()
    with pytest.raises(ParameterError), kernels.use_threads(0):
        pass
