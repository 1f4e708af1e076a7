"""Labels of an axis in a file that is mapped into memory: only what is asked for is read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.store.manifest import StoredAxis, StoredFile
from tallyfold.errors import FormatError

ENDING = ".arrow"


def write_labels(axis: Axis, file: Path) -> StoredAxis:
    """Write labels, in their order, as an Arrow IPC file of one record that can be mapped.

    They may be mapped from the very file: it is replaced, and what was mapped stays.
    """
    batch = pa.record_batch([axis.labels], names=["label"])
    target = file.with_suffix(".new")
    with pa.OSFile(str(target), "wb") as stream, pa.ipc.new_file(stream, batch.schema) as writer:
        writer.write_batch(batch)
    os.replace(target, file)
    order = None if axis.order is None else axis.order.to_text()
    return StoredAxis(axis.name, len(axis), str(axis.labels.type), order, StoredFile.of(file))


def mapped_axis(stored: StoredAxis, file: Path) -> Axis:
    """Return an axis whose labels stay in the file until they are asked for."""
    try:
        with pa.ipc.open_file(pa.memory_map(str(file))) as reader:
            labels = reader.get_batch(0).column(0)
        order = None if stored.order is None else AxisOrder.from_text(stored.order)
        if len(labels) != stored.size or str(labels.type) != stored.type:
            raise ValueError(f"it has {len(labels):,} labels of type {labels.type}")
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise FormatError(
            f"the labels of axis {stored.name!r} in {str(file)!r} could not be read: "
            f"{str(error).splitlines()[0]}; there should be {stored.size:,} of type {stored.type}. "
            "Take the file from a backup, or write the store again."
        ) from error
    return Axis.of_distinct(stored.name, labels, order)
