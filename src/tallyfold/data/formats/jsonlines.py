"""JSON lines: one object a line, its values read as text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

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


class JsonLines(TableFormat):
    """Read and write JSON lines."""

    ending = ".jsonl"

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
        return named_lines(rows, lines)

    def _has(self, connection: Any, lines: str, name: str) -> bool:
        columns = f"columns = {{{literal(name)}: 'VARCHAR'}}, hive_partitioning = false"
        query = f"SELECT 1 FROM read_json({lines}, {columns}) WHERE {quoted(name)} IS NOT NULL"
        return bool(connection.execute(f"{query} LIMIT 1").fetchall())
