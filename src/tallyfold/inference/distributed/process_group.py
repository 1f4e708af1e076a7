"""The processes that fit together, each with a part of the cells.

Arrays over entities are the same in every process; arrays over cells are split between them.
Every sum over cells goes through `ProcessGroup.all_reduce`, so no step asks how many processes
there are. One process is a group of one, `ALONE`, whose totals are its own sums.

The group in use is a context variable (`current_group`), as the number of threads is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np

from tallyfold.kernels.arrays import Array, Floats

T = TypeVar("T")


class ProcessGroup:
    """One process alone; `TorchProcessGroup` is that of many.

    Attributes
    ----------
    rank, size
        Which process this is, and of how many.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def at(cls, rank: int, size: int) -> ProcessGroup:
        """Return a group that only knows its rank and size, for messages."""
        group = ProcessGroup()
        group.rank, group.size = rank, size
        return group

    @property
    def first(self) -> bool:
        """Whether this is the process that reads, writes and prints."""
        return self.rank == 0

    def all_reduce(self, array: Array) -> Floats:
        """Return the sum of the processes' arrays, the same bits in each of them."""
        return array

    def all_reduce_number(self, value: float) -> float:
        """Return the sum of the processes' numbers."""
        return float(self.all_reduce(np.array([value], dtype=np.float64))[0])

    def all_gather(self, array: Array) -> Array:
        """Return the processes' arrays one after the other, first process first."""
        return array

    def broadcast(self, make: Callable[[], T]) -> T:
        """Return what the first process makes; if it fails, fail in all of them."""
        return make()

    def scatter(self, array: Array | None, length: int) -> Array:
        """Return this process's `length` rows of the first process's array, in order of rank."""
        assert array is not None
        return array

    def wait_for_all(self) -> None:
        """Return when every process has come here, however long that takes."""

    def stop_asked(self) -> bool:
        """Whether someone pressed Ctrl-C in any of the processes."""
        return False

    def share(self, number: int) -> int:
        """Return how many of `number` things this process gets, if all get about the same."""
        return number * (self.rank + 1) // self.size - number * self.rank // self.size


ALONE = ProcessGroup()

_current: ContextVar[ProcessGroup] = ContextVar("tallyfold_group", default=ALONE)


def current_group() -> ProcessGroup:
    """Return the group of processes that share a fit here."""
    return _current.get()


@contextmanager
def use_group(group: ProcessGroup) -> Iterator[ProcessGroup]:
    """Fit with these processes inside a ``with`` block."""
    token = _current.set(group)
    try:
        yield group
    finally:
        _current.reset(token)
