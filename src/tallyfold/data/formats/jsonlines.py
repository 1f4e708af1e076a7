"""JSON lines: one object a line, its values read as text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis
from tallyfold.data.formats.sql import literal
from tallyfold.data.formats.table import Source
from tallyfold.data.formats.writing import (
    Targets,
    axes_to_bytes,
    label_tables,
    read_axes_file,
)
from tallyfold.data.tensor import CountTensor


class JsonLines:
    """Read and write JSON lines."""

    is_text = True
    has_axes_file = True
    first_row = 1
    row_word = "line"

    def source(self, connection: Any, files: list[str]) -> Source:
        """Describe the files to DuckDB; every value is read as text."""
        paths = "[" + ", ".join(literal(file) for file in files) + "]"
        guess = f"read_json({paths}, format = 'newline_delimited', union_by_name = true)"
        described = connection.execute(f"DESCRIBE SELECT * FROM {guess}").fetchall()
        columns = ", ".join(f"{literal(row[0])}: 'VARCHAR'" for row in described)
        sql = f"read_json({paths}, format = 'newline_delimited', columns = {{{columns}}})"
        return Source(sql, {row[0]: "VARCHAR" for row in described})

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes beside the file, if they are there."""
        return read_axes_file(file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write one object a line; integer labels as numbers, all others as text."""
        with pa.output_stream(str(targets.file), compression="detect") as stream:
            for table in label_tables(_in_json(tensor), value, as_text=True):
                stream.write(_lines(table, tensor.names, value))
        if targets.axes is not None:
            targets.axes.write_bytes(axes_to_bytes(tensor.axes))


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
