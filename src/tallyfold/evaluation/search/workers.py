"""Which process runs a trial, and whether it is still there.

A process that is killed cannot say so. On the same machine its number is looked up; for one
elsewhere, the last sign of life must do.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SIGN_OF_LIFE = 20.0
"""Seconds between two signs of life of a process that runs a trial."""
TAKEN_FOR_DEAD = 300.0
"""Seconds after which a process elsewhere that gives no sign is taken for dead."""

_running: set[str] = set()
"""Tokens of the trials that this very process runs."""


def this_process() -> dict[str, Any]:
    """Return what tells this process from all others."""
    return {"machine": _machine(), "pid": os.getpid(), "started": _started(os.getpid())}


def has_died(token: str, process: dict[str, Any], last_sign: float) -> bool:
    """Tell whether the process that runs a trial is gone."""
    if process == this_process():
        return token not in _running
    if process["machine"] == _machine() and os.name == "posix":
        return not _exists(process["pid"], process["started"])
    return time.time() - last_sign > TAKEN_FOR_DEAD


def starts(token: str) -> None:
    """Count a trial among those that run in this process."""
    _running.add(token)


def ends(token: str) -> None:
    """Count a trial no more among those that run in this process."""
    _running.discard(token)


@contextmanager
def signs_of_life(give: Callable[[], None]) -> Iterator[None]:
    """Give a sign now and then, inside the block, from a thread of its own."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(SIGN_OF_LIFE):
            give()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _machine() -> str:
    """Name the machine, or the container: process numbers mean something only within one."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _exists(pid: int, started: int | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, but another user's
        pass
    return started is None or _started(pid) == started


def _started(pid: int) -> int | None:
    """Return when a process began, to tell it from a later one of the same number.

    None where the system does not say, and -1 for one that has ended but not been collected.
    """
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return -1 if words[0] in "ZX" else int(words[19])
