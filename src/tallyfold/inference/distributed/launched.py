"""Whether torchrun, or something like it, started this process beside others."""

import os

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets, always all of them."""


def processes_started() -> tuple[int, int]:
    """Return this process's rank and the number of processes: 0 and 1 for one alone."""
    words = [os.environ.get(name, "") for name in NEEDED]
    if not all(words) or not (words[0].isdigit() and words[1].isdigit()):
        return 0, 1
    rank, size = int(words[0]), int(words[1])
    return (rank, size) if rank < size else (0, 1)
