"""The most memory that a piece of work had resident."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class Peak:
    """The peak of resident memory, in MiB; None until the work is done."""

    mib: float | None = None


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the most memory that this process had resident while the block ran.

    What was resident before counts too. Linux forgets the earlier peak when asked; elsewhere the
    figure is the peak of the whole process so far, so an upper limit.
    """
    peak = Peak()
    with suppress(OSError):  # not Linux, or not allowed: the peak so far stays in
        _RESET.write_text("5")
    try:
        yield peak
    finally:
        peak.mib = _peak_mib()


def _peak_mib() -> float:
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return _peak_of_process()


def _peak_of_process() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
