"""Temporary files beside what is written: named so that those of dead processes can be told."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

OURS = re.compile(r"(?:\.writing|tallyfold)-(?P<machine>[0-9a-f]{8})-(?P<process>[0-9]{1,10})-\w+")


def temporary_prefix(first: str = ".writing") -> str:
    """Return how the names of this process's temporary files begin."""
    return f"{first}-{_machine()}-{os.getpid()}-"


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Give a folder among the system's temporary files; clear those that killed processes left."""
    clear_abandoned(Path(tempfile.gettempdir()), "tallyfold")
    with tempfile.TemporaryDirectory(prefix=temporary_prefix("tallyfold")) as folder:
        yield folder


def clear_abandoned(folder: Path, first: str = ".writing") -> None:
    """Remove temporary files that processes of this machine left in a folder when they died.

    Where processes cannot be asked for (Windows), or files not removed, they stay.
    """
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{first}-*"):
            match = OURS.fullmatch(path.name)
            if match is None or match["machine"] != _machine() or _lives(int(match["process"])):
                continue
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@functools.cache
def _machine() -> str:
    """Return what tells apart machines, and containers, whose numbers of processes differ."""
    names = platform.node()
    with contextlib.suppress(OSError):
        names += os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(names.encode()).hexdigest()[:8]


def _lives(process: int) -> bool:
    if os.name != "posix":  # elsewhere this would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is somebody else's
        return True
    return True
