"""One thread for BLAS, so that products of matrices have the same bits on any machine's threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from tallyfold.kernels.threads import thread_count

T = TypeVar("T")
U = TypeVar("U")

_lock = threading.Lock()
_users: list[Any] = []
"""Whoever is inside; the first one's limit holds until the last one leaves."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block; several threads may be inside at once."""
    with _lock:
        _users.append(None if _users else _as_owner(_limited))
    try:
        yield
    finally:
        with _lock:
            limit = _users[0]
            _users.pop()
            if not _users:
                _as_owner(limit.restore_original_limits)


def side_by_side(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """Do independent pieces of BLAS work on as many threads as kernels use, one each."""
    with one_blas_thread(), ThreadPoolExecutor(thread_count()) as pool:
        asked = [pool.submit(copy_context().run, work, item) for item in items]
        return [each.result() for each in asked]


def _limited() -> Any:
    return _controller().limit(limits=1, user_api="blas")


def _as_owner(change: Callable[[], T]) -> T:
    """Change the limit from any thread: threadpoolctl lets the first thread alone do it, silently.

    Since its version 3.8, and until that thread ends. The lock here is what keeps threads apart.
    """
    kinds = {type(library) for library in _controller().lib_controllers}
    name = "clear_controlling_thread"
    releases = [getattr(kind, name) for kind in kinds if hasattr(kind, name)]
    for release in releases:
        release(force=True)
    try:
        return change()
    finally:
        for release in releases:
            release(force=True)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
