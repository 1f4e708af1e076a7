"""Distribute a compiled kernel's chunks over threads.

Kernels release the GIL, so plain Python threads run them side by side. Numba's own
``parallel=True`` is not used: its default threading layer may not be entered by two Python
threads at once, and two fits in one process are nothing unusual.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any

from tallyfold.errors import ParameterError

RANGES_PER_THREAD = 4
_asked: ContextVar[int | None] = ContextVar("tallyfold_threads", default=None)


def thread_count() -> int:
    """Return how many threads kernels use here.

    The first that is set of: :func:`use_threads`, the environment variable
    ``TALLYFOLD_THREADS``, the number of processors this process may run on.
    """
    asked = _asked.get()
    if asked is not None:
        return asked
    word = os.environ.get("TALLYFOLD_THREADS")
    if word:
        return _positive(word, "TALLYFOLD_THREADS")
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_threads(n_threads: int) -> Iterator[None]:
    """Use this many threads inside a ``with`` block; results stay the same to the last bit.

    Examples
    --------
    >>> with use_threads(3):
    ...     thread_count()
    3
    """
    token = _asked.set(_positive(n_threads, "n_threads"))
    try:
        yield
    finally:
        _asked.reset(token)


def run_chunks(task: Callable[..., None], n_chunks: int, *arguments: Any) -> None:
    """Call ``task(start, stop, *arguments)`` until every chunk in 0..n_chunks is done.

    The calling thread works too, so it need not wait for a pool that is busy with another fit.
    """
    n_threads = min(thread_count(), n_chunks)
    if n_threads <= 1:
        task(0, n_chunks, *arguments)
        return
    n_ranges = min(n_chunks, n_threads * RANGES_PER_THREAD)
    edges = [n_chunks * i // n_ranges for i in range(n_ranges + 1)]
    waiting = deque(pairwise(edges))

    def drain() -> None:
        while waiting:
            try:
                start, stop = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            task(start, stop, *arguments)

    helpers = [_pool(n_threads - 1).submit(drain) for _ in range(n_threads - 1)]
    drain()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


@cache
def _pool(n_workers: int) -> ThreadPoolExecutor:
    """Return the shared pool of this size."""
    return ThreadPoolExecutor(n_workers, thread_name_prefix="tallyfold")


def _positive(value: int | str, name: str) -> int:
    """Read a positive whole number."""
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise ParameterError(f"`{name}` must be a positive integer; got {value!r}.")
    return number


if hasattr(os, "register_at_fork"):  # a forked child has the pools but not their threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
