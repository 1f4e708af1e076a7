"""CSV and TSV: every column read as text, strictly, with the header's names."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import listing
from tallyfold.data.formats.sql import (
    Source,
    file_list,
    folder_keys,
    folder_option,
    literal,
    quoted,
)
from tallyfold.data.formats.table import TableFormat, named_lines
from tallyfold.data.formats.writing import compression_of
from tallyfold.errors import FormatError, LabelError


class Delimited(TableFormat):
    """Read and write text tables with one character between columns."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        self.ending = ".tsv" if delimiter == "\t" else ".csv"

    def source(self, connection: Any, files: list[str], wanted: Sequence[str]) -> Source:
        """Describe the files to DuckDB, those with the same header together."""
        headers: dict[tuple[str, ...], list[str]] = {}
        for file in files:
            headers.setdefault(self._header(file), []).append(file)
        shared = [name for name in next(iter(headers)) if all(name in h for h in headers)]
        self._check_delimiter(shared, wanted)
        keys = folder_keys(files, wanted, shared)
        parts = []
        for header, group in headers.items():
            names = [f"c{header.index(name)} AS k{number}" for number, name in enumerate(shared)]
            names += [quoted(key) for key in keys]
            parts.append(f"SELECT {', '.join(names)} FROM {self._scan(header, group, keys)}")
        columns = {name: f"k{number}" for number, name in enumerate(shared)}
        columns |= {key: quoted(key) for key in keys}
        return Source(f"({' UNION ALL '.join(parts)})", dict.fromkeys(columns, "VARCHAR"), columns)

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Name the lines on which rows begin: a quoted label may run over several."""
        lines: dict[int, int] = {}
        with self._text(file) as text:
            reader = csv.reader(text, delimiter=self.delimiter)
            before, number = 0, -1
            for cells in reader:
                number += bool(cells)  # empty lines are no rows
                if cells and number in rows:
                    lines[number] = before + 1
                before = reader.line_num
        return named_lines(rows, lines)

    def _text(self, file: str) -> io.TextIOWrapper:
        stream = pa.input_stream(file, compression=compression_of(file))
        return io.TextIOWrapper(stream, encoding="utf-8-sig", errors="strict", newline="")

    def _header(self, file: str) -> tuple[str, ...]:
        try:
            with self._text(file) as text:
                names = next(csv.reader(text, delimiter=self.delimiter), [])
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{file!r} is not written in UTF-8: {error}. Save it as UTF-8."
            ) from error
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (OSError, csv.Error, EOFError) as error:
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

    def _check_delimiter(self, columns: list[str], wanted: Sequence[str]) -> None:
        """Help with a file whose only column is made of several."""
        only = columns[0] if len(columns) == 1 else ""
        other = [sign for sign in ";\t|," if sign != self.delimiter and sign in only]
        if other and not set(wanted) <= set(columns):
            raise LabelError(
                f"the table has no column {listing(list(wanted))}; it has {columns[0]!r}. If "
                f"{other[0]!r} separates its columns, say delimiter={other[0]!r}."
            )

    def _scan(self, header: tuple[str, ...], files: list[str], keys: Sequence[str]) -> str:
        columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(len(header)))
        return (
            f"read_csv({file_list(files)}, auto_detect = false, header = true, "
            f"columns = {{{columns}}}, delim = {literal(self.delimiter)}, quote = '\"', "
            "escape = '\"', nullstr = '', allow_quoted_nulls = false, strict_mode = true, "
            f"null_padding = false, compression = '{compression_of(files[0]) or 'none'}', "
            f"{folder_option(keys)})"
        )
