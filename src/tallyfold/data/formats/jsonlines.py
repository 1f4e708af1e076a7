"""JSON lines: one object a line, its values read as text."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis
from tallyfold.data.formats.sql import (
    Source,
    file_list,
    folder_keys,
    folder_option,
    literal,
    quoted,
)
from tallyfold.data.formats.writing import (
    Targets,
    compression_of,
    label_tables,
    read_axes_file,
    write_axes_file,
)
from tallyfold.data.tensor import CountTensor


class JsonLines:
    """Read and write JSON lines."""

    is_text = True
    has_axes_file = True

    def source(self, connection: Any, files: list[str], wanted: Sequence[str]) -> Source:
        """Describe the files to DuckDB; every value is read as text.

        DuckDB lists the keys it meets first. A wanted key that is not among them is looked for.
        """
        packed = f"compression = '{compression_of(files[0]) or 'none'}'"
        lines = f"{file_list(files)}, format = 'newline_delimited', {packed}"
        guess = "maximum_depth = 1, map_inference_threshold = -1, hive_partitioning = false"
        query = f"DESCRIBE SELECT * FROM read_json({lines}, union_by_name = true, {guess})"
        known = [row[0] for row in connection.execute(query).fetchall()]
        if known == ["json"] and not self._has(connection, lines, "json"):
            known = list(dict.fromkeys([*wanted, "count"]))  # DuckDB's word for a file without rows
        keys = folder_keys(files, wanted, known)
        for name in wanted:
            if name not in [*known, *keys] and self._has(connection, lines, name):
                known.append(name)
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in known)
        sql = f"read_json({lines}, columns = {{{columns}}}, {folder_option(keys)})"
        names = [*known, *keys]
        return Source(sql, dict.fromkeys(names, "VARCHAR"), {name: quoted(name) for name in names})

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Name the lines of rows; empty lines are no rows."""
        lines, number = {}, 0
        with pa.input_stream(file, compression=compression_of(file)) as stream:
            for line, text in enumerate(io.BufferedReader(stream), start=1):
                number += bool(text.strip())
                if text.strip() and number in rows:
                    lines[number] = line
        return [f"line {lines[row]}" if row in lines else f"row {row}" for row in rows]

    def _has(self, connection: Any, lines: str, name: str) -> bool:
        columns = f"columns = {{{literal(name)}: 'VARCHAR'}}, hive_partitioning = false"
        query = f"SELECT 1 FROM read_json({lines}, {columns}) WHERE {quoted(name)} IS NOT NULL"
        return bool(connection.execute(f"{query} LIMIT 1").fetchall())

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes beside the file, if they are there."""
        return read_axes_file(file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write one object a line; integer labels as numbers, all others as text."""
        with pa.output_stream(
            str(targets.file), compression=compression_of(targets.file.name)
        ) as stream:
            for table in label_tables(_in_json(tensor), value, as_text=True):
                stream.write(_lines(table, tensor.names, value))
        write_axes_file(tensor.axes, targets)


def _in_json(tensor: CountTensor) -> CountTensor:
    """Write each label once as JSON, so that a cell's line is put together from ready pieces."""
    axes = []
    for axis in tensor.axes:
        labels = axis.labels
        if not pa.types.is_integer(labels.type):
            labels = labels.cast(pa.large_string())
        texts = [json.dumps(label, ensure_ascii=False) for label in labels.to_pylist()]
        axes.append(Axis.of_distinct(axis.name, pa.array(texts, pa.large_string())))
    return CountTensor.of_canonical(axes, tensor.indices, tensor.counts)


def _lines(table: pa.Table, names: tuple[str, ...], value: str) -> bytes:
    """Put the lines together, so that a cell costs no Python object before the end."""
    pieces: list[Any] = []
    for number, name in enumerate([*names, value]):
        pieces.append(_text(("{" if number == 0 else ", ") + json.dumps(name) + ": "))
        pieces.append(table.column(number).combine_chunks().cast(pa.large_string()))
    lines = pc.binary_join_element_wise(*pieces, _text("}\n"), _text(""))
    return "".join(lines.to_pylist()).encode()


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())
