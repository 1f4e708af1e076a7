"""Fits in several threads of one process: each is what it is alone, and hears of itself only.

``tests/models/test_contract.py`` runs each model beside itself; here different ones run together.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import InterruptedWarning
from tallyfold.kernels import thread_count, use_threads

FITS = {
    "bptf": (lambda seed: tf.BPTF(n_components=3, max_iter=8, random_state=seed), 1),
    "bptf, numpy": (
        lambda seed: tf.BPTF(n_components=3, max_iter=8, backend="numpy", random_state=seed),
        1,
    ),
    "bptf, numba": (
        lambda seed: tf.BPTF(n_components=3, max_iter=8, backend="numba", random_state=seed),
        3,
    ),
    "vae-bptf": (
        lambda seed: tf.VAEBPTF(zeros="missing", n_components=3, max_iter=4, random_state=seed),
        2,
    ),
    "vae-bptf, members": (
        lambda seed: tf.VAEBPTF(
            zeros="missing", n_components=2, max_iter=3, n_members=2, random_state=seed
        ),
        1,
    ),
    "gibbs": (
        lambda seed: tf.GibbsBPTF(n_components=3, burn_in=4, n_draws=4, random_state=seed),
        2,
    ),
}
"""Ways to make a model, by name, and how many threads its kernels may use."""
JOBS = [(name, seed) for seed in (0, 1) for name in FITS]


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((40, 30, 8), 2, density=0.1, random_state=0).tensor


def fitted(job, tensor, **options):
    (make, n_threads), seed = FITS[job[0]], job[1]
    with use_threads(n_threads):
        model = make(seed).fit(tensor, **options)
        assert thread_count() == n_threads  # of this thread, whatever the others chose
    return model


def bits(model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.fitted_.arrays().items()}


@pytest.fixture(scope="module")
def alone(tensor):
    return {job: bits(fitted(job, tensor)) for job in JOBS}


def test_different_fits_at_once_are_what_they_are_alone(tensor, alone):
    together = threading.Barrier(len(JOBS))

    def run(job):
        together.wait(60)
        return bits(fitted(job, tensor))

    with ThreadPoolExecutor(len(JOBS)) as pool:
        for job, found in zip(JOBS, pool.map(run, JOBS), strict=True):
            assert found == alone[job], job


def test_callbacks_hear_of_their_own_fit(tensor, alone, tmp_path):
    """And each checkpoint is of its own fit: resumed, it has nothing left to do."""

    def run(job):
        told, here = [], threading.get_ident()

        def tell(progress):
            told.append((threading.get_ident() == here, progress.iteration))

        place = tmp_path / f"{job[0]}-{job[1]}"
        model = fitted(job, tensor, callbacks=[tell], checkpoint=place, every=2)
        return model, told

    with ThreadPoolExecutor(4) as pool:
        for job, (model, told) in zip(JOBS, pool.map(run, JOBS), strict=True):
            parts = (model.fitted_, *model.fitted_.others)
            assert [each for _, each in told] == [each for one in parts for each in one.history]
            assert all(mine for mine, _ in told)
            again = fitted(job, tensor, checkpoint=tmp_path / f"{job[0]}-{job[1]}", resume=True)
            assert bits(again) == bits(model) == alone[job]


def test_an_interrupt_in_one_thread_leaves_the_others(tensor, alone):
    """An exception of a callback ends its own fit only; here it stands for Ctrl-C."""

    def stop(progress):
        if progress.iteration.number == 2:
            raise KeyboardInterrupt

    def run(job):
        if job[1] == 1:
            return bits(fitted(job, tensor))
        return len(fitted(job, tensor, callbacks=[stop]).history_)

    jobs = [job for job in JOBS if "members" not in job[0]]
    with warnings.catch_warnings(record=True), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(run, jobs))
    for job, what in zip(jobs, found, strict=True):
        assert what == (alone[job] if job[1] == 1 else 2), job


def test_predictions_of_one_model_from_many_threads(tensor):
    model = fitted(("vae-bptf", 0), tensor)
    expected = model.predict(tensor), model.interval(tensor), model.sample(tensor, 3)
    with ThreadPoolExecutor(6) as pool:
        asked = pool.map(
            lambda _: (model.predict(tensor), model.interval(tensor), model.sample(tensor, 3)),
            range(12),
        )
        for found in asked:
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_fits_leave_the_state_of_numpy_and_of_the_process_alone(tensor):
    before = np.random.get_state()[1].copy()
    threads, errors = threading.active_count(), np.geterr()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: fitted(job, tensor), JOBS))
    assert np.array_equal(np.random.get_state()[1], before)
    assert threading.active_count() <= threads + 3  # those that kernels keep
    assert np.geterr() == errors


def test_fits_leave_the_filters_of_warnings_alone(tensor):
    """A mixture of fits that begins before another has ended, and ends after it."""
    began, go_on = ([threading.Event() for _ in "ab"] for _ in "ab")

    def fit(number):
        def wait(progress):
            began[number].set()
            go_on[number].wait(60)

        return FITS["vae-bptf, members"][0](number).fit(tensor, callbacks=[wait])

    before = warnings.filters, warnings.showwarning
    with ThreadPoolExecutor(2) as pool:
        fits = []
        for number in (0, 1):
            fits.append(pool.submit(fit, number))
            assert began[number].wait(60)
        for number in (0, 1):
            go_on[number].set()
            fits[number].result()
    after = warnings.filters, warnings.showwarning
    warnings.filters, warnings.showwarning = before
    assert after == before


def test_a_warning_reaches_the_thread_that_caused_it_once(tensor):
    """Warnings are the process's; ours are given by the fit they are about, and not repeated."""

    def stop(progress):
        raise KeyboardInterrupt

    def run(number):
        options = {"callbacks": [stop]} if number == 2 else {}
        tf.BPTF(n_components=2, max_iter=3, backend="numpy").fit(tensor, **options)

    with warnings.catch_warnings(record=True) as said, ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("always")
        list(pool.map(run, range(4)))
    assert [each.category for each in said].count(InterruptedWarning) == 1
