"""Labels of an axis in a file that is mapped into memory: only what is asked for is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.label_search import ascending
from tallyfold.data.store.manifest import StoredAxis, StoredFile
from tallyfold.errors import FormatError

ENDING, ASCENDING = ".arrow", "ascending"


def write_labels(axis: Axis, file: Path) -> StoredAxis:
    """Write labels, in their order, as an Arrow IPC file of one record that can be mapped.

    They may be mapped from the very file: it is replaced, and what was mapped stays.
    """
    return _written(axis.name, axis.labels, axis.order, file)


def _written(name: str, labels: pa.Array, order: AxisOrder | None, file: Path) -> StoredAxis:
    target = file.with_suffix(".new")
    with pa.OSFile(str(target), "wb") as stream:
        write_record(labels, stream)
    os.replace(target, file)
    text = None if order is None else order.to_text()
    return StoredAxis(name, len(labels), str(labels.type), text, StoredFile.of(file))


def write_record(labels: pa.Array, stream: Any) -> None:
    """Write labels as one record that can be mapped, and whether they are in ascending order."""
    known = {ASCENDING: "yes" if ascending(labels) else "no"}
    batch = pa.record_batch([labels], schema=pa.schema([("label", labels.type)], metadata=known))
    with pa.ipc.new_file(stream, batch.schema) as writer:
        writer.write_batch(batch)


def read_record(source: Any) -> tuple[pa.Array, bool]:
    """Return the labels of a record, which stay where they are, and whether they are ascending."""
    with pa.ipc.open_file(source) as reader:
        known = reader.schema.metadata or {}
        return reader.get_batch(0).column(0), known.get(ASCENDING.encode()) == b"yes"


class LabelWriter:
    """Writes labels that come in their order, some at a time; all but these stay on disk.

    Examples
    --------
    >>> import tempfile
    >>> with LabelWriter("user", Path(tempfile.mkdtemp(), "labels.arrow")) as writer:
    ...     writer.add(pa.array(["ann", "bob"], pa.large_string()))
    ...     writer.add(pa.array(["cem"], pa.large_string()))
    ...     writer.finish().size
    3
    """

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file, self.size, self._bytes = name, file, 0, 0
        self._kind: pa.DataType | None = None
        self._files = [file.with_suffix(f".spool-{number}") for number in range(2)]
        self._streams = [each.open("wb") for each in self._files]

    def add(self, labels: pa.Array) -> None:
        """Add the labels that follow: plain ones, none of which is missing."""
        first, self._kind, size = self._kind is None, labels.type, len(labels)
        if pa.types.is_boolean(labels.type):
            labels = labels.cast(pa.uint8())
        buffer, *texts = labels.buffers()[1:]
        if texts:
            if first:
                self._streams[0].write(bytes(8))
            ends = np.frombuffer(buffer, np.int64)[labels.offset : labels.offset + size + 1]
            self._streams[0].write((ends[1:] - ends[0] + self._bytes).tobytes())
            self._streams[1].write(memoryview(texts[0] or b"")[ends[0] : ends[-1]])
            self._bytes += int(ends[-1] - ends[0])
        else:
            width = labels.type.bit_width // 8
            start = labels.offset * width
            self._streams[0].write(memoryview(buffer)[start : start + size * width])
        self.size += size

    def finish(self) -> StoredAxis:
        """Write the file of all labels."""
        for stream in self._streams:
            stream.flush()
        maps = [pa.memory_map(str(each)) for each in self._files if each.stat().st_size]
        buffers = [None, *(each.read_buffer() for each in maps)]
        kind = pa.uint8() if pa.types.is_boolean(self._kind) else self._kind
        labels = pa.Array.from_buffers(kind, self.size, buffers)
        return _written(self.name, labels.cast(self._kind), None, self.file)

    def __enter__(self) -> LabelWriter:
        """Begin."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leave nothing behind but what was finished."""
        for stream, each in zip(self._streams, self._files, strict=True):
            stream.close()
            each.unlink()


def mapped_axis(stored: StoredAxis, file: Path) -> Axis:
    """Return an axis whose labels stay in the file until they are asked for."""
    try:
        labels, known = read_record(pa.memory_map(str(file)))
        order = None if stored.order is None else AxisOrder.from_text(stored.order)
        if len(labels) != stored.size or str(labels.type) != stored.type:
            raise ValueError(f"it has {len(labels):,} labels of type {labels.type}")
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise FormatError(
            f"the labels of axis {stored.name!r} in {str(file)!r} could not be read: "
            f"{str(error).splitlines()[0]}; there should be {stored.size:,} of type {stored.type}. "
            "Take the file from a backup, or write the store again."
        ) from error
    return Axis.of_distinct(stored.name, labels, order, known)
