"""Parquet: labels and counts as columns, the axes in the file's own metadata."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.formats.sql import literal
from tallyfold.data.formats.table import Source
from tallyfold.data.formats.writing import Targets, axes_from_bytes, axes_to_bytes, label_tables
from tallyfold.data.tensor import CountTensor

AXES_KEY = b"tallyfold.axes"


class Parquet:
    """Read and write Parquet."""

    is_text = False
    has_axes_file = False
    first_row = 0
    row_word = "row"

    def source(self, connection: Any, files: list[str]) -> Source:
        """Describe Parquet files to DuckDB."""
        paths = ", ".join(literal(file) for file in files)
        sql = f"read_parquet([{paths}], union_by_name = true)"
        described = connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()
        return Source(sql, {row[0]: row[1] for row in described})

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes from the file's metadata, if they are there."""
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(file).metadata or {}
        if AXES_KEY not in metadata:
            return None
        return axes_from_bytes(base64.b64decode(metadata[AXES_KEY]), file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write the cells, so many rows at a time."""
        import pyarrow.parquet as pq

        tables = label_tables(tensor, value, as_text=False)
        first = next(tables)
        record = {AXES_KEY: base64.b64encode(axes_to_bytes(tensor.axes))}
        schema: pa.Schema = first.schema.with_metadata(record)
        with pq.ParquetWriter(targets.file, schema, compression="zstd") as writer:
            writer.write_table(first.replace_schema_metadata(record))
            for table in tables:
                writer.write_table(table.replace_schema_metadata(record))
