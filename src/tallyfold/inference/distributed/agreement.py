"""Processes that share a fit must have been given the same, and each its own cells."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.errors import DataError, ParameterError
from tallyfold.inference.distributed.process_group import ProcessGroup


def refuse_differences(
    group: ProcessGroup, given: Mapping[str, Any], own_cells: str | None
) -> None:
    """Raise the same error in all processes if they differ in something, or have the same cells.

    Parameters
    ----------
    given
        What must be the same in all, by what to call it.
    own_cells
        A fingerprint of this process's cells; None if it has none.
    """
    if group.size == 1:
        return
    digests = [_digest(value) for value in given.values()]
    row = np.concatenate([*digests, _digest(own_cells)])
    rows = group.all_gather(row[None]).reshape(group.size, len(digests) + 1, -1)
    for place, what in enumerate(given):
        if np.any(rows[:, place] != rows[0, place]):
            raise ParameterError(
                f"the processes that share a fit must be given the same {what}; these differ. Deal "
                "one tensor out with tallyfold.scatter, and give every process the same model."
            )
    nothing = _digest(None)
    cells = [bytes(each) for each in rows[:, -1] if np.any(each != nothing)]
    if len(set(cells)) < len(cells):
        raise DataError(
            "two processes have the very same cells; they would count twice. Give each its own "
            "part: tallyfold.scatter(lambda: tensor) deals one out."
        )


def axes_in_words(axes: tuple[Axis, ...]) -> list[Any]:
    """Return names and a checksum of the labels of axes."""
    return [(axis.name, hash_of_labels(axis)) for axis in axes]


def hash_of_labels(axis: Axis) -> str:
    """Return a checksum of an axis's labels, in their order."""
    digest = hashlib.sha256(str(axis.labels.type).encode())
    for start in range(0, len(axis.labels), 1 << 16):
        digest.update(repr(axis.labels[start : start + (1 << 16)].to_pylist()).encode())
    return digest.hexdigest()


def _digest(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(hashlib.sha256(repr(value).encode()).digest(), dtype=np.uint8)
