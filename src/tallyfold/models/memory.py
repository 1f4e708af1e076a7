"""Whether a fit has room in memory, asked before it is begun."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tallyfold.data.store import Store
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import NotEnoughMemoryError, ParameterError
from tallyfold.inference.distributed.own_ranges import all_or_none
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.models.fit_cost import fit_cost

SETTING = "TALLYFOLD_MEMORY"
"""Environment variable: how much memory a fit may take, or that it is not to be looked at."""
UNLIMITED = "unlimited"
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
NUMBER_BYTES = 8
TABLES = 2
"""Numbers of each factor that any fit holds: what it is and what it becomes."""
GROUPS = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}
"""Files in which Linux keeps what a container may use, and what it uses."""


def check_memory(tensor: CountTensor | Store, n_components: int, *, name: str) -> None:
    """Refuse a fit of VAE-BPTF for which, by the estimate of `fit_cost`, memory does not do."""
    _refuse(
        fit_cost(tensor, n_components).bytes,
        f"a fit of {name} with {n_components} components to {tensor.nnz:,} cells needs roughly",
        "Keep fewer labels (top=, min_nonzeros=) or cells (tallyfold.subsample), or take fewer "
        "components (n_components=).",
    )


def check_factors_memory(
    tensor: CountTensor, own: OwnRows | None, n_components: int, tables: int, *, name: str
) -> None:
    """Refuse a fit whose factors alone have no room, as so many numbers a label and component.

    What any model with factors needs at the least, in each process: cells come on top. Of an axis
    that lives with its cells a process needs its `own` factors.
    """
    elsewhere = 0 if own is None else own.size - (own.after - own.first)
    labels = sum(tensor.shape) - elsewhere
    remedy = "Keep fewer labels (top=, min_nonzeros=), or take fewer components (n_components=)" + (
        " or draws (n_draws=)." if tables > TABLES else "."
    )
    what = (
        f"the factors of {name} with {n_components} components for {labels:,} labels need at least"
    )
    needed = NUMBER_BYTES * labels * n_components * tables
    all_or_none(current_group(), lambda: _refuse(needed, what, remedy))


def _refuse(needed: int, what: str, remedy: str) -> None:
    there = available_memory()
    if there is None or needed <= there:
        return
    raise NotEnoughMemoryError(
        f"{what} {_shown(needed)} of memory beside the counts; there are {_shown(there)}. {remedy} "
        f"If the estimate is wrong here, set {SETTING}={UNLIMITED} in the environment, or "
        f"{SETTING}={_shown(needed).replace(' ', '')} for what may be used."
    )


def available_memory() -> int | None:
    """Return how many bytes can be taken without swapping; None if that is not known.

    The environment variable ``TALLYFOLD_MEMORY`` overrules what the machine says: ``64GB``, or
    ``unlimited``.
    """
    word = os.environ.get(SETTING, "").strip()
    if word.lower() == UNLIMITED:
        return None
    if word:
        return _bytes(word)
    known = [_free(Path("/proc/meminfo")), *_left_in_groups(Path("/sys/fs/cgroup"))]
    return min((each for each in known if each is not None), default=None)


def _bytes(word: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?B?)", word.upper())
    unit = "" if found is None else found[2].removesuffix("B")
    if found is None:
        raise ParameterError(
            f"{SETTING} must be an amount such as 64GB, or {UNLIMITED}; got {word!r}."
        )
    return int(float(found[1]) * UNITS[unit and f"{unit}B"])


def _free(file: Path) -> int | None:
    """Return what Linux says is available."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def _left_in_groups(folder: Path) -> list[int | None]:
    """Return what is left of what a container may use."""
    return [
        _left(place / most, place / used)
        for place in (folder, folder / "memory")
        for most, used in GROUPS.items()
    ]


def _left(most: Path, used: Path) -> int | None:
    try:
        left = int(most.read_text()) - int(used.read_text())
    except (OSError, ValueError):  # no such file, or no limit
        return None
    return max(left + _cached(used.with_name("memory.stat")), 0)


def _cached(file: Path) -> int:
    """Return what of it are copies of files, which give way."""
    try:
        found = re.search(r"^(?:total_)?inactive_file (\d+)", file.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 0 if found is None else int(found[1])


def _shown(number: int) -> str:
    """Write bytes in the largest unit that leaves something before the point."""
    unit = next((u for u in ("TB", "GB", "MB") if number >= UNITS[u]), "KB")
    return f"{number / UNITS[unit]:.1f} {unit}"
