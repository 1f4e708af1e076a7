"""Checks that processes sharing a fit have the same axes and model, and different cells."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.hashing import label_hashes
from tallyfold.errors import DataError, ParameterError
from tallyfold.inference.distributed.process_group import ProcessGroup


def refuse_differences(
    group: ProcessGroup, given: Mapping[str, Any], own_cells: str | None
) -> None:
    """Raise the same error in all processes if they differ in something, or have the same cells.

    Parameters
    ----------
    given
        What must be the same in all processes, by its name in messages.
    own_cells
        A fingerprint of this process's cells; None if it has none.
    """
    if group.size == 1:
        return
    own = [_digest(value) for value in (*given.values(), own_cells)]
    digests = group.all_gather(np.array([own]))
    for column, what in enumerate(given):
        if len(set(digests[:, column])) > 1:
            raise ParameterError(
                f"the processes that share a fit must be given the same {what}; these differ. "
                "Split one tensor by tallyfold.scatter, and give every process the same model."
            )
    cells = [digest for digest in digests[:, -1] if digest != _digest(None)]
    if len(set(cells)) < len(cells):
        raise DataError(
            "two processes have the very same cells; they would count twice. Give each its own "
            "part, by tallyfold.scatter(lambda: tensor)."
        )


def axes_in_words(axes: tuple[Axis, ...]) -> list[Any]:
    """Return names and a checksum of the labels of axes."""
    return [(axis.name, hash_of_labels(axis)) for axis in axes]


def hash_of_labels(axis: Axis) -> str:
    """Return a checksum of an axis's labels, in their order."""
    digest = hashlib.sha256(str(axis.labels.type).encode())
    for start in range(0, len(axis.labels), 1 << 16):
        digest.update(label_hashes(axis.labels[start : start + (1 << 16)]).tobytes())
    return digest.hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()
