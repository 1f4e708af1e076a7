"""Say once that kernels are being compiled: the first call on a machine takes seconds."""

import logging
import os
from functools import cache
from pathlib import Path

_log = logging.getLogger("tallyfold")


@cache
def announce_compilation() -> None:
    """Log a warning if no compiled kernel is found on disk; at most once per process."""
    if not is_compiled():
        _log.warning(
            "compiling kernels for this machine: some 10 to 20 seconds, once. backend='numpy' "
            "does without."
        )


def is_compiled() -> bool:
    """Tell whether compiled kernels are on disk, where numba puts them."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(chosen)] if chosen else [Path(__file__).parent / "fused" / "__pycache__"]
    return any(True for place in places for _ in place.rglob("*.nbi"))
