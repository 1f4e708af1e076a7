"""One writer at a time: locks of folders and files that end with the process that holds them.

The operating system takes a lock from a process that dies, so that one left behind by a killed
process is taken over like any other. Readers take none: they read what was written whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tallyfold.errors import BusyError, StorageError

LOCK = ".lock"
WAIT = 5.0
"""Seconds to wait for another that is saving; one that holds a lock for a whole fit is not."""
PAUSE = 0.01
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""What file systems without locks answer: there, nobody is kept out."""

_held: dict[str, tuple[int, int]] = {}
"""Locks of this process, with the process and the thread that hold them."""


@contextlib.contextmanager
def locked_folder(folder: str | os.PathLike[str], wait: float = WAIT) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there.

    A thread may take a lock that it holds already. Anybody else's is waited for, and then a
    `BusyError`; a place that cannot be written to is a `StorageError`.
    """
    place = Path(folder)
    made = not place.exists()
    try:
        with _locked(place / LOCK, str(folder), wait, place):
            yield
    finally:
        if made:
            with contextlib.suppress(OSError):  # nothing came of it: leave no empty folder
                place.rmdir()


@contextlib.contextmanager
def locked_file(file: str | os.PathLike[str], wait: float = WAIT) -> Iterator[None]:
    """Hold the lock of a file, which is a hidden file beside it; see `locked_folder`."""
    place = Path(file)
    with _locked(place.with_name(f".{place.name}{LOCK}"), str(file), wait):
        yield


@contextlib.contextmanager
def _locked(lock: Path, what: str, wait: float, make: Path | None = None) -> Iterator[None]:
    me, key = (os.getpid(), threading.get_ident()), os.path.realpath(lock)
    if _held.get(key) == me:
        yield
        return
    try:
        handle = _acquired(lock, what, wait, make)
    except OSError as error:
        raise StorageError(
            f"{what!r} could not be written: {error.strerror or error}. What it held before is "
            "still there. Make room or choose another place, and try again."
        ) from error
    _held[key] = me
    try:
        yield
    finally:
        del _held[key]
        with contextlib.suppress(OSError):
            lock.unlink(missing_ok=True)  # before others can get it: they look again
        os.close(handle)


def _acquired(lock: Path, what: str, wait: float, make: Path | None) -> int:
    """Return the open lock file, locked, once nobody else holds it."""
    end, pause = time.monotonic() + wait, PAUSE
    while True:
        if make is not None:  # each time: another one may have removed it
            make.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        if _is_free(handle) and _is_still(handle, lock):
            with contextlib.suppress(OSError):  # it only tells others who we are
                os.truncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
            return handle
        os.close(handle)
        if time.monotonic() > end:
            raise BusyError(
                f"{what!r} is busy: {_holder(lock)} is writing to it. Wait until that is done, or "
                "choose another place."
            )
        time.sleep(random.uniform(0, pause))
        pause = min(2 * pause, 0.2)


def _is_free(handle: int) -> bool:
    """Lock an open file, unless another one has it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in NO_LOCKS
    return True


def _is_still(handle: int, lock: Path) -> bool:
    """Tell whether the file that was locked is the one at its path, and was not unlinked."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(lock))
    except FileNotFoundError:
        return False


def _holder(lock: Path) -> str:
    try:
        return lock.read_text("utf-8", "replace")[:200] or "another process"
    except OSError:
        return "another process"
