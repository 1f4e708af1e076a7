"""A group of several processes, started by torchrun and joined by torch.distributed.

Sums go by gloo between processors and by NCCL between GPUs. If a process dies, or does not answer
within a minute, the others stop with a `ProcessError`. Ctrl-C is agreed on between iterations, so
that all end after the same iteration.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from tallyfold.errors import ParameterError, ProcessError
from tallyfold.inference.distributed.launched import processes_started
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup, use_group
from tallyfold.kernels.arrays import Array, Floats
from tallyfold.kernels.device import checked_device

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that a process waits for the others; ``TALLYFOLD_PROCESS_TIMEOUT`` changes it."""
FIRST_TIMEOUT = timedelta(days=7)
"""How long the others wait while the first process reads data or writes."""
_SIGNALS, _GROUPS = itertools.count(1), itertools.count(1)
"""Numbers of keys in the store, which keeps every key for the whole run: none is used twice."""
SAME_SIGNAL = 5.0
"""Ctrl-C reaches a process from the terminal and from torchrun: one signal within these seconds."""
ROWS_PER_MESSAGE = 1 << 24


class TorchProcessGroup(ProcessGroup):
    """The processes of one run; see the module's text.

    Parameters
    ----------
    rank, size
        Which process this is, and of how many.
    store
        The key-value store that all processes share.
    device
        Where torch holds what is sent.
    """

    def __init__(self, rank: int, size: int, store: Any, device: str = "cpu") -> None:
        self.rank, self.size, self.store, self.device = rank, size, store, device
        self.asked_to_stop, self.asked_at = False, 0.0

    def all_reduce(self, array: Array) -> Floats:
        """Add up over the processes."""
        import torch
        import torch.distributed as dist

        tensor = torch.tensor(np.asarray(array), dtype=torch.float64, device=self.device)
        with _other_process_may_die(self):
            dist.all_reduce(tensor)
        return np.asarray(tensor.cpu().numpy().reshape(np.shape(array)))

    def all_gather(self, array: Array) -> Array:
        """Gather arrays of any lengths."""
        import torch.distributed as dist

        parts: list[Any] = [None] * self.size
        with _other_process_may_die(self):
            dist.all_gather_object(parts, array)
        return np.concatenate(parts)

    def broadcast(self, make: Callable[[], T]) -> T:
        """Let the first process work, and the others wait for as long as that takes."""
        import torch
        import torch.distributed as dist

        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = make()
            except Exception as error:
                outcome[1] = error
        self._wait_for_first()
        with _other_process_may_die(self):
            dist.broadcast_object_list(outcome, src=0, device=torch.device(self.device))
        result, failure = outcome
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]

    def scatter(self, array: Array | None, length: int) -> Array:
        """Send each process its rows, one process after the other."""
        ends = np.cumsum(self.all_gather(np.array([length])))
        own = None if array is None else array[:length]
        for rank in range(1, self.size):
            self._wait_for_first(rank == self.rank)
            if self.first:
                assert array is not None
                self._send(array[ends[rank - 1] : ends[rank]], rank)
            elif rank == self.rank:
                own = self._received(length)  # it goes on: all count their waits alike
        assert own is not None
        return own

    def wait_for_all(self) -> None:
        """Wait by the store, as for the first process."""
        number = next(_SIGNALS)
        keys = [f"tallyfold/here/{number}/{rank}" for rank in range(self.size)]
        with _other_process_may_die(self):
            self.store.set(keys[self.rank], "1")
            self.store.wait(keys, FIRST_TIMEOUT)

    def stop_asked(self) -> bool:
        """Ask all processes, once: work that comes after the answer was not meant."""
        asked = self.all_reduce_number(float(self.asked_to_stop)) > 0
        if asked:
            self.asked_to_stop = False
        return asked

    def _send(self, rows: Array, rank: int) -> None:
        import torch
        import torch.distributed as dist

        for part in _messages(len(rows)):
            with _other_process_may_die(self):
                dist.send_object_list([rows[part]], rank, device=torch.device(self.device))

    def _received(self, length: int) -> Array:
        import torch
        import torch.distributed as dist

        parts: list[Array] = []
        for _ in _messages(length):
            found: list[Any] = [None]
            with _other_process_may_die(self):
                dist.recv_object_list(found, 0, device=torch.device(self.device))
            parts += found
        return np.concatenate(parts)

    def _wait_for_first(self, concerned: bool = True) -> None:
        """Wait until the first process is here: by the store, whose timeout is a longer one."""
        key = f"tallyfold/first/{next(_SIGNALS)}"
        with _other_process_may_die(self):
            if self.first:
                self.store.set(key, "1")
            elif concerned:
                self.store.wait([key], FIRST_TIMEOUT)


def _messages(n_rows: int) -> list[slice]:
    """Return the rows of each message; one message even if there are no rows."""
    starts = range(0, max(n_rows, 1), ROWS_PER_MESSAGE)
    return [slice(start, start + ROWS_PER_MESSAGE) for start in starts]


@contextmanager
def many_processes(device: str = "cpu") -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started; without torchrun, this process is alone.

    Inside the ``with`` block `fit` is shared by all processes: each gives its own part of the
    cells, and all end with the same model. BPTF and VAEBPTF can be fitted so.

    Parameters
    ----------
    device
        ``"cpu"``, where sums go by gloo, or ``"cuda"``, where they go by NCCL.

    Examples
    --------
    >>> import tallyfold as tf
    >>> with tf.many_processes() as group:
    ...     tensor = tf.scatter(lambda: tf.simulate((9, 8, 7), 2, density=0.3).tensor)
    ...     model = tf.BPTF(n_components=2).fit(tensor)
    ...     group.size, group.first
    (1, True)
    """
    rank, size = processes_started()
    if size == 1:
        yield ALONE
        return
    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import PrefixStore

    on_cards = device != "cpu"
    if on_cards:  # each process of a machine has a card of its own
        card = os.environ.get("LOCAL_RANK", "0")
        checked_device(f"cuda:{card}")
        torch.cuda.set_device(int(card))
    timeout = _timeout()
    with _other_process_may_die(ProcessGroup.at(rank, size)):
        # a second group must not find the addresses of the first
        store = PrefixStore(f"tallyfold/group/{next(_GROUPS)}", _store(rank, size, timeout))
        backend = "nccl" if on_cards else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    group = TorchProcessGroup(rank, size, store, "cuda" if on_cards else "cpu")
    try:
        with use_group(group), _signals(group):
            yield group
    finally:
        dist.destroy_process_group()


@cache
def _store(rank: int, size: int, timeout: timedelta) -> Any:
    """Return the store that all processes share; torchrun keeps one for the whole run."""
    from torch.distributed.rendezvous import rendezvous

    return next(rendezvous("env://", rank, size, timeout=timeout))[0]


def _timeout() -> timedelta:
    word = os.environ.get("TALLYFOLD_PROCESS_TIMEOUT", str(TIMEOUT))
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ParameterError(
            f"TALLYFOLD_PROCESS_TIMEOUT must be a positive number of seconds; got {word!r}."
        )
    return timedelta(seconds=seconds)


@contextmanager
def _other_process_may_die(group: ProcessGroup) -> Iterator[None]:
    """Turn torch's error about a lost connection into a `ProcessError`."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # torch's DistError is the former
        raise ProcessError(
            f"process {group.rank + 1} of {group.size} lost the others: one of them died, or did "
            "not answer in time. The run has stopped; with a checkpoint it can be resumed, also "
            f"with another number of processes. (torch: {str(error).splitlines()[0][:200]})"
        ) from error


@contextmanager
def _signals(group: TorchProcessGroup) -> Iterator[None]:
    """Remember a first SIGINT or SIGTERM until the iteration is over; a second one interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note_interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if group.asked_to_stop and now - group.asked_at > SAME_SIGNAL:
            raise KeyboardInterrupt
        if not group.asked_to_stop:
            group.asked_to_stop, group.asked_at = True, now

    before = {
        number: signal.signal(number, note_interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
