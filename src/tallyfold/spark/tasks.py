"""What Spark's tasks do with the batches of rows that come to them, in order."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import check_size, plain_labels
from tallyfold.data.store.label_files import ENDING, LabelWriter
from tallyfold.data.store.manifest import StoredFile
from tallyfold.data.store.shards import ROW_GROUP

NUMBERED = "position int, shard int"
WRITTEN = "shard int, rows long, first int, last int, file string, bytes long, sha256 string"

Batches = Iterator[pa.RecordBatch]


def number_labels(batches: Batches, *, name: str, facts: str, shards: int, nnz: int) -> Batches:
    """Give labels numbers, and tell which shard each is in; write them to a file.

    Batches have labels of an axis, in order, and how many cells each has.
    """
    place, attempt = Path(facts), _attempt()
    before = size = 0
    with LabelWriter(name, place.with_name(f"{place.stem}-{attempt}{ENDING}")) as writer:
        for batch in batches:
            labels, cells = batch.column(0), batch.column(1).to_numpy()
            writer.add(plain_labels(labels, axis=name))
            check_size(name, writer.size)
            ends = before + np.cumsum(cells)
            shard = np.floor((ends - cells / 2) * shards / max(nnz, 1)).astype(np.int32)
            position = np.arange(size, size + len(cells), dtype=np.int32)
            before, size = int(ends[-1]), size + len(cells)
            yield pa.record_batch([labels, position, shard], ["label", "position", "shard"])
        stored = asdict(writer.finish())
    stored["labels"]["file"] = f"{place.stem}{ENDING}"
    os.replace(writer.file, place.with_suffix(ENDING))
    own = place.with_suffix(f".{attempt}")
    own.write_text(json.dumps(stored), encoding="utf-8")
    os.replace(own, place)


def write_shards(batches: Batches, *, columns: list[str], longest: int, building: str) -> Batches:
    """Write runs of the longest axis as Parquet files; batches have a shard's rows together."""
    writer: _ShardWriter | None = None
    for batch in batches:
        shards = batch.column(0).to_numpy()
        starts = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
        for start, stop in itertools.pairwise(starts):
            if start == stop:
                continue
            if writer is None or writer.shard != shards[start]:
                if writer is not None:
                    yield writer.finish()
                writer = _ShardWriter(int(shards[start]), columns, longest, Path(building))
            writer.add(batch.slice(start, stop - start))
    if writer is not None:
        yield writer.finish()


class _ShardWriter:
    """A shard on its way: rows are written a row group at a time."""

    def __init__(self, shard: int, columns: list[str], longest: int, building: Path) -> None:
        import pyarrow.parquet as pq

        self.shard, self.longest, self.rows = shard, longest, 0
        kinds = [pa.int32()] * (len(columns) - 1) + [pa.int64()]
        pairs = zip(columns, kinds, strict=True)
        self.schema = pa.schema([pa.field(*pair, nullable=False) for pair in pairs])
        self.file = building / f"shard-{shard:05}-{_attempt()}.parquet"
        self.writer = pq.ParquetWriter(self.file, self.schema, compression="zstd")
        self.waiting: list[Any] = []
        self.first = self.last = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows: the shard, positions and counts."""
        columns = [
            column.cast(kind)
            for column, kind in zip(batch.columns[1:], self.schema.types, strict=True)
        ]
        along = columns[self.longest]
        self.first = along[0].as_py() if self.rows == 0 else self.first
        self.last = along[-1].as_py()
        self.rows += len(along)
        self.waiting.append(pa.record_batch(columns, schema=self.schema))
        while sum(map(len, self.waiting)) >= ROW_GROUP:
            self._write(ROW_GROUP)

    def _write(self, most: int) -> None:
        table = pa.Table.from_batches(self.waiting, self.schema).combine_chunks()
        self.writer.write_table(table.slice(0, most), row_group_size=ROW_GROUP)
        self.waiting = table.slice(most).to_batches()

    def finish(self) -> pa.RecordBatch:
        """Write what is left; say what the file has."""
        if self.waiting:
            self._write(ROW_GROUP)
        self.writer.close()
        with self.file.open("rb") as stream:
            os.fsync(stream.fileno())
        data = StoredFile.of(self.file)
        row = [self.shard, self.rows, self.first, self.last, data.file, data.bytes, data.sha256]
        kinds = [
            pa.int32(),
            pa.int64(),
            pa.int32(),
            pa.int32(),
            pa.string(),
            pa.int64(),
            pa.string(),
        ]
        names = [word.split()[0] for word in WRITTEN.split(", ")]
        arrays = [pa.array([one], kind) for one, kind in zip(row, kinds, strict=True)]
        return pa.record_batch(arrays, names)


def _attempt() -> int:
    """Return a number that another attempt at the same task does not have."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())
