"""The limit of BLAS threads: one inside, what it was outside, whoever leaves last."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from tallyfold.kernels import use_threads
from tallyfold.kernels.blas import one_blas_thread, side_by_side


def limits():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


@pytest.fixture(autouse=True)
def two_threads():
    """Give BLAS two threads, whatever the machine: one could not be told from the limit."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        if set(limits()) != {2}:
            pytest.skip("BLAS has one thread only here")
        yield


def test_the_limit_holds_inside_and_is_gone_outside():
    with one_blas_thread():
        assert set(limits()) == {1}
    assert set(limits()) == {2}


def test_it_can_be_nested():
    with one_blas_thread():
        with one_blas_thread():
            assert set(limits()) == {1}
        assert set(limits()) == {1}
    assert set(limits()) == {2}


def test_an_error_inside_leaves_no_limit():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        1 / 0  # noqa: B018
    assert set(limits()) == {2}


def test_the_first_to_come_may_be_the_first_to_leave():
    entered, may_leave = threading.Event(), threading.Event()

    def second():
        with one_blas_thread():
            entered.set()
            may_leave.wait(10)

    thread = threading.Thread(target=second)
    with one_blas_thread():
        thread.start()
        assert entered.wait(10)
    assert set(limits()) == {1}  # the second one is still inside
    may_leave.set()
    thread.join()
    assert set(limits()) == {2}


def test_many_threads_leave_it_as_it_was():
    def work(_):
        with one_blas_thread():
            return limits()

    with ThreadPoolExecutor(8) as pool:
        assert {number for found in pool.map(work, range(50)) for number in found} == {1}
    assert set(limits()) == {2}


def test_work_side_by_side_is_answered_in_order_with_one_thread_each():
    with use_threads(3):
        found = side_by_side(lambda number: (number, set(limits())), range(20))
    assert found == [(number, {1}) for number in range(20)]
    assert set(limits()) == {2}


def test_an_error_of_work_side_by_side_comes_out():
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda number: 1 / number, [1, 0])
    assert set(limits()) == {2}
