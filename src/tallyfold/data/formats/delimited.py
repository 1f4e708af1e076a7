"""CSV and TSV: every column read as text, strictly, with the header's names."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis, listing
from tallyfold.data.formats.sql import literal, quoted
from tallyfold.data.formats.table import Source
from tallyfold.data.formats.writing import (
    Targets,
    axes_to_bytes,
    label_tables,
    read_axes_file,
)
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError


class Delimited:
    """Read and write text tables with one character between columns."""

    is_text = True
    has_axes_file = True
    first_row = 2  # after the header
    row_word = "line"

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter

    def source(self, connection: Any, files: list[str]) -> Source:
        """Describe the files to DuckDB, those with the same header together."""
        headers: dict[tuple[str, ...], list[str]] = {}
        for file in files:
            headers.setdefault(self._header(file), []).append(file)
        shared = [name for name in next(iter(headers)) if all(name in h for h in headers)]
        wanted = ", ".join(quoted(name) for name in shared)
        parts = [f"SELECT {wanted} FROM {self._scan(h, group)}" for h, group in headers.items()]
        return Source(f"({' UNION ALL '.join(parts)})", dict.fromkeys(shared, "VARCHAR"))

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes beside the file, if they are there."""
        return read_axes_file(file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write the cells as text, so many rows at a time."""
        import pyarrow.csv

        options = pyarrow.csv.WriteOptions(delimiter=self.delimiter)
        tables = label_tables(tensor, value, as_text=True)
        first = next(tables)
        with (
            pa.output_stream(str(targets.file), compression="detect") as stream,
            pyarrow.csv.CSVWriter(stream, first.schema, write_options=options) as writer,
        ):
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
        if targets.axes is not None:
            targets.axes.write_bytes(axes_to_bytes(tensor.axes))

    def _header(self, file: str) -> tuple[str, ...]:
        try:
            with pa.input_stream(file, compression="detect") as stream:
                text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                names = next(csv.reader(text, delimiter=self.delimiter), [])
                text.detach()
        except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
            raise FormatError(f"the first line of {file!r} could not be read: {error}") from error
        if not names:
            raise FormatError(f"{file!r} is empty; its first line must name the columns.")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise FormatError(
                f"the first line of {file!r} must name each column once; it repeats "
                f"{listing(repeated)}. Rename them."
            )
        return tuple(names)

    def _scan(self, header: tuple[str, ...], files: list[str]) -> str:
        paths = ", ".join(literal(file) for file in files)
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
        return (
            f"read_csv([{paths}], auto_detect = false, header = true, columns = {{{columns}}}, "
            f"delim = {literal(self.delimiter)}, quote = '\"', escape = '\"', nullstr = '', "
            "allow_quoted_nulls = false, strict_mode = true, null_padding = false)"
        )
