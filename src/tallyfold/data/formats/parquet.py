"""Parquet: labels and counts as columns, the axes in the file's own metadata."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.formats.sql import Source, file_list, folder_keys, folder_option, quoted
from tallyfold.data.formats.table import TableFormat
from tallyfold.data.formats.writing import (
    Targets,
    axes_from_bytes,
    axes_to_bytes,
    label_tables,
    write_tables,
)
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError

AXES_KEY = b"tallyfold.axes"


class Parquet(TableFormat):
    """Read and write Parquet."""

    is_text = False
    has_axes_file = False

    def source(self, connection: Any, files: list[str], wanted: Sequence[str]) -> Source:
        """Describe Parquet files to DuckDB."""
        plain = f"read_parquet({file_list(files)}, union_by_name = true, hive_partitioning = false)"
        described = connection.execute(f"DESCRIBE SELECT * FROM {plain}").fetchall()
        types = {row[0]: row[1] for row in described}
        keys = folder_keys(files, wanted, list(types))
        sql = f"read_parquet({file_list(files)}, union_by_name = true, {folder_option(keys)})"
        types |= dict.fromkeys(keys, "VARCHAR")
        return Source(sql, types, {name: quoted(name) for name in types})

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Name rows, counted from 0 as data frames do."""
        return [f"row {row - 1}" for row in rows]

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes from the file's metadata, if they are there."""
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_metadata(file).metadata or {}
            if AXES_KEY not in metadata:
                return None
            data = base64.b64decode(metadata[AXES_KEY], validate=True)
        except (FileNotFoundError, PermissionError):
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            said = str(error).splitlines()[0]
            raise FormatError(f"{file!r} could not be read as Parquet: {said}") from error
        return axes_from_bytes(data, file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write the cells."""
        record = {AXES_KEY: base64.b64encode(axes_to_bytes(tensor.axes))}
        tables = label_tables(tensor, value, as_text=False)
        recorded = (table.replace_schema_metadata(record) for table in tables)
        write_tables(recorded, targets.file, ".parquet")
