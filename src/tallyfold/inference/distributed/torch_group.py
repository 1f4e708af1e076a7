"""A group of several processes, started by torchrun and joined by torch.distributed.

Sums go by gloo between processors and by NCCL between GPUs. A process that dies closes its
connections, and one that hangs lets the others wait no longer than a minute: they stop with a
`ProcessError`. Ctrl-C is agreed on between iterations, so that all end with the same one.
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
import numpy.typing as npt

from tallyfold.errors import ParameterError, ProcessError
from tallyfold.inference.distributed.launched import processes_started
from tallyfold.inference.distributed.process_group import ALONE, Floats, ProcessGroup, use_group
from tallyfold.kernels.device import checked_device

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that a process waits for the others; ``TALLYFOLD_PROCESS_TIMEOUT`` changes it."""
PATIENT = timedelta(days=7)
"""How long the others wait while the first process reads data or writes."""
_TOLD, _JOINED = itertools.count(1), itertools.count(1)
"""Number what all wait for, and each joining; they never start again: the store never forgets."""
SAME_SIGNAL = 5.0
"""Ctrl-C reaches a process twice, from the terminal and from torchrun: within so many seconds."""
AT_A_TIME = 1 << 28
"""Bytes sent in one message."""


class TorchProcessGroup(ProcessGroup):
    """The processes of one run; see the module's text."""

    def __init__(self, device: str = "cpu") -> None:
        import torch.distributed as dist

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = device
        self.asked_to_stop, self.asked_at = False, 0.0

    def all_reduce(self, array: npt.NDArray[Any]) -> Floats:
        """Add up over the processes."""
        import torch.distributed as dist

        tensor = self._tensor(np.array(array, dtype=np.float64))
        with _other_process_may_die(self):
            dist.all_reduce(tensor)
        return np.asarray(tensor.cpu().numpy().reshape(np.shape(array)))

    def all_gather(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Gather arrays of any lengths, padded to the longest on the way."""
        import torch
        import torch.distributed as dist

        lengths = np.zeros(self.size)
        lengths[self.rank] = len(array)
        lengths = self.all_reduce(lengths)
        longest = int(lengths.max())
        padded = np.zeros((longest, *array.shape[1:]), dtype=array.dtype)
        padded[: len(array)] = array
        tensor = self._tensor(_bytes(padded))  # torch has fewer kinds of numbers than NumPy
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with _other_process_may_die(self):
            dist.all_gather(parts, tensor)
        arrays = [p.cpu().numpy().view(array.dtype).reshape(padded.shape) for p in parts]
        return np.concatenate([a[: int(n)] for a, n in zip(arrays, lengths, strict=True)])

    def broadcast(self, make: Callable[[], T]) -> T:
        """Let the first process work, and the others wait for as long as that takes."""
        import torch.distributed as dist

        outcome: list[Any] = [None, None]
        if self.first:
            try:
                outcome[0] = make()
            except Exception as error:
                outcome[1] = error
        self._wait_for_first(self.size > 1)
        sent = [outcome if self.first else None]
        with _other_process_may_die(self):
            dist.broadcast_object_list(sent, src=0, device=self._torch_device())
        answer: Any = sent[0]
        if answer[1] is not None:
            raise answer[1]
        return answer[0]  # type: ignore[no-any-return]

    def scatter(self, array: npt.NDArray[Any] | None, length: int) -> npt.NDArray[Any]:
        """Send each process its rows."""
        lengths = self.all_gather(np.array([length])).tolist()
        kind = self.broadcast(lambda: _kind(array))
        if self.first:
            assert array is not None
            start = length
            for rank, n in enumerate(lengths[1:], start=1):
                self._wait_for_first(True)  # each waits for its turn, however long the others take
                self._send(array[start : start + n], rank)
                start += n
            return array[:length]
        for rank in range(1, self.size):
            self._wait_for_first(rank == self.rank)
        return self._received(length, *kind)

    def stop_asked(self) -> bool:
        """Ask all processes, and forget it: what comes next was not meant."""
        asked = self.all_reduce_number(float(self.asked_to_stop)) > 0
        if asked:
            self.asked_to_stop = False
        return asked

    def _send(self, rows: npt.NDArray[Any], rank: int) -> None:
        import torch.distributed as dist

        flat = _bytes(rows)
        for start in range(0, len(flat), AT_A_TIME):
            with _other_process_may_die(self):
                dist.send(self._tensor(flat[start : start + AT_A_TIME].copy()), rank)

    def _received(self, length: int, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        import torch.distributed as dist

        rows = np.empty((length, *shape), dtype=dtype)
        flat = _bytes(rows)
        for start in range(0, len(flat), AT_A_TIME):
            part = self._tensor(flat[start : start + AT_A_TIME])
            with _other_process_may_die(self):
                dist.recv(part, 0)
            flat[start : start + AT_A_TIME] = part.cpu().numpy()
        return rows

    def _wait_for_first(self, concerned: bool) -> None:
        """Wait by the store that all share: it has a patience of its own."""
        import torch.distributed as dist

        store = dist.distributed_c10d._get_default_store()
        name = f"tallyfold/told/{next(_TOLD)}"
        with _other_process_may_die(self):
            if self.first:
                store.set(name, "1")
            elif concerned:
                store.wait([name], PATIENT)

    def _tensor(self, array: npt.NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self._torch_device())

    def _torch_device(self) -> Any:
        import torch

        return torch.device(self.device)


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return an array's memory; a copy's only if it is not in one piece."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _kind(array: npt.NDArray[Any] | None) -> tuple[str, tuple[int, ...]]:
    assert array is not None
    return array.dtype.str, array.shape[1:]


@contextmanager
def many_processes(device: str = "cpu") -> Iterator[ProcessGroup]:
    """Join the processes that torchrun started; without torchrun, be alone.

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
        # who joins a second time must not find the addresses of the first
        store = PrefixStore(f"tallyfold/joined/{next(_JOINED)}", _store(rank, size, timeout))
        backend = "nccl" if on_cards else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    group = TorchProcessGroup("cuda" if on_cards else "cpu")
    try:
        with use_group(group), _signals(group):
            yield group
    finally:
        dist.destroy_process_group()


@cache
def _store(rank: int, size: int, timeout: timedelta) -> Any:
    """Return what all processes write to and read from: torchrun keeps one for the whole run."""
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
    """Turn what torch says of a lost connection into words."""
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
    """Remember a first Ctrl-C, or being told to end, until the iteration is over."""
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
