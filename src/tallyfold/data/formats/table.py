"""Tables of events or counts, grouped by DuckDB without being loaded: CSV, JSON lines, Parquet."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis, listing
from tallyfold.data.bad_rows import BadRows
from tallyfold.data.formats import grouping, sql, writing
from tallyfold.data.formats.faults import DURATION, find_faults, row_faults
from tallyfold.data.formats.packed import check_packed
from tallyfold.data.missing import MissingRows
from tallyfold.data.request import Request, check_columns
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError, LabelError

LONGEST_HEADER = 1 << 24
"""Characters of a first line, which names the columns."""
LONGEST_LINE = 1 << 27
"""Bytes of a line of a CSV file that holds long labels; DuckDB's own limit is 2 million."""
LINE_TOO_LONG = "Maximum line size"


class TableFormat:
    """How one kind of table file is read and written.

    Unless a kind says otherwise, it is text: its cells plain, and the axes in a file beside them.
    """

    ending: str
    is_text = True
    longest_line = 0
    """How many bytes a line may have, if not as many as DuckDB allows."""

    def with_longer_lines(self) -> TableFormat:
        """Return a format that reads longer lines, where that is a question."""
        return self

    def source(
        self, connection: Any, files: list[str], wanted: Sequence[str], everything: bool = False
    ) -> sql.Source:
        """Describe files of this kind, and their wanted columns, or all, to DuckDB."""
        raise NotImplementedError

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Say where in a file rows are that are numbered from 1."""
        raise NotImplementedError

    def axes_of(self, file: str) -> writing.Recorded | None:
        """Read the axes that `write_counts` recorded with a file, if it did."""
        return writing.read_axes_file(file)

    def write(self, tensor: CountTensor, target: Path, value: str) -> None:
        """Write the cells; as text, integer labels as numbers, all others as text."""
        writing.write_tables(writing.label_tables(tensor, value, as_text=True), target, self.ending)
        writing.write_axes_file(tensor, target)


def named_lines(rows: list[int], lines: Mapping[int, int]) -> list[str]:
    """Name the lines of rows, and rows whose line is not known by their number."""
    return [f"line {lines[row]}" if row in lines else f"row {row}" for row in rows]


def read_own_table(form: TableFormat, file: str, memory_limit: str | None) -> CountTensor:
    """Read back a file that `write_counts` made, onto the axes recorded with it."""
    known = form.axes_of(file)
    names = [axis.name for axis in known.axes] if known else []
    with sql.duckdb_errors(file), sql.connected(memory_limit) as connection:
        columns = list(form.source(connection, [file], names).types)
    if known is None:
        raise LabelError(
            f"{file!r} has no axes recorded with it, so say which of its columns are the axes: "
            f"axes=[...]. It has the columns {listing(columns, 20)}."
        )
    check_columns(names, columns)
    values = [column for column in columns if column not in names]
    if len(values) != 1:
        raise FormatError(
            f"{file!r} must have one column besides the axes recorded with it; it has "
            f"{listing(values)}. Name the columns with axes= and value=."
        )
    request = Request(names, values[0], {}, "error")
    return read_table(form, [file], request, memory_limit, known.axes).with_part(known.part)


def read_table(
    form: TableFormat,
    files: list[str],
    request: Request,
    memory_limit: str | None,
    known: Sequence[Axis] | None = None,
) -> CountTensor:
    """Group the rows of files by their labels; see `tallyfold.read_counts`."""
    check_packed(files)
    try:
        return _read_table(form, files, request, memory_limit, known)
    except FormatError as error:
        if not line_too_long(form, error):
            raise
    return _read_table(form.with_longer_lines(), files, request, memory_limit, known)


def _read_table(
    form: TableFormat,
    files: list[str],
    request: Request,
    memory_limit: str | None,
    known: Sequence[Axis] | None,
) -> CountTensor:
    shown = shown_files(files)
    with sql.duckdb_errors(shown), sql.connected(memory_limit) as connection:
        source = form.source(connection, files, request.wanted)
        request = request.of_table(list(source.types))
        grouped, dropped = grouped_rows(connection, form, files, source, request)
        return grouping.tensor_of_groups(
            connection,
            grouped,
            request,
            shown,
            is_text=form.is_text,
            known=known,
            dropped=dropped,
        )


def grouped_rows(
    connection: Any,
    form: TableFormat,
    files: list[str],
    source: sql.Source,
    request: Request,
    table: str = "TEMP TABLE",
) -> tuple[grouping.Grouped, list[Dropped]]:
    """Make the table ``cells`` of the rows of files; refuse rows that are at fault.

    Return also which rows were left out.
    """
    faults, missing, bad = row_faults(source, request, form.is_text), MissingRows(), BadRows()
    if request.bad == "drop":
        source, bad = grouping.without_bad(connection, source, request, faults)
        faults = [fault for fault in faults if not fault.bad]
    grouped = grouping.group_rows(connection, source, request, faults, table=table)
    if grouped.faulty:
        raise find_faults(connection, form, files, request)
    bad.check_some_left(grouped.cells)
    if request.missing == "drop":
        grouped, missing = grouping.without_missing(connection, request)
    return grouped, [*missing.records(), *bad.records()]


def line_too_long(form: TableFormat, error: FormatError) -> bool:
    """Tell whether a line was too long that the format could read if it was told to."""
    return not form.longest_line and LINE_TOO_LONG in str(error.__cause__)


def shown_files(files: Sequence[str]) -> str:
    """Name files in a message: the first, and how many more there are."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"


class Delimited(TableFormat):
    """Read and write text tables with one character between columns."""

    def __init__(self, delimiter: str, longest_line: int = 0) -> None:
        self.delimiter = delimiter
        self.longest_line = longest_line
        self.ending = ".tsv" if delimiter == "\t" else ".csv"

    def with_longer_lines(self) -> TableFormat:
        """Return the format with room for labels of megabytes."""
        return Delimited(self.delimiter, LONGEST_LINE)

    def source(
        self, connection: Any, files: list[str], wanted: Sequence[str], everything: bool = False
    ) -> sql.Source:
        """Describe the files to DuckDB, in order, neighbours with the same header together."""
        headers = [(header, list(some)) for header, some in groupby(files, self._header)]
        in_all = set.intersection(*(set(header) for header, _ in headers))
        shared = [name for name in headers[0][0] if name in in_all]
        self._check_delimiter(shared, wanted)
        keys = sql.folder_keys(files, wanted, shared)
        needed = {*wanted, "count"}  # DuckDB is slow with ten thousands of columns
        numbered = {n: k for k, n in enumerate(shared) if everything or n in needed}
        parts = []
        for header, group in headers:
            place = {name: number for number, name in enumerate(header)}
            names = [f"c{place[name]} AS k{number}" for name, number in numbered.items()]
            names += [sql.quoted(key) for key in keys]
            parts.append(f"SELECT {', '.join(names)} FROM {self._scan(header, group, keys)}")
        columns = {name: f"k{number}" for name, number in numbered.items()}
        columns |= {key: sql.quoted(key) for key in keys}
        scan = f"({' UNION ALL '.join(parts)})"
        return sql.Source(scan, dict.fromkeys([*shared, *keys], "VARCHAR"), columns)

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
                    if len(lines) == len(rows):
                        break
                before = reader.line_num
        return named_lines(rows, lines)

    def _text(self, file: str) -> io.TextIOWrapper:
        stream = pa.input_stream(file, compression=writing.compression_of(file))
        return io.TextIOWrapper(stream, encoding="utf-8-sig", errors="strict", newline="")

    def _header(self, file: str) -> tuple[str, ...]:
        try:
            with self._text(file) as text:
                names = next(csv.reader(_first_lines(text, file), delimiter=self.delimiter), [])
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{file!r} is not written in UTF-8: {error}. Save it as UTF-8 "
                f"(iconv -f latin1 -t utf-8 does, if it is Latin-1)."
            ) from error
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (OSError, csv.Error, EOFError) as error:
            raise FormatError(f"the first line of {file!r} could not be read: {error}") from error
        if not names:
            raise FormatError(f"{file!r} is empty; its first line must name the columns.")
        repeated = sorted(name for name, times in Counter(names).items() if times > 1)
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
            f"read_csv({sql.file_list(files)}, auto_detect = false, header = true, "
            f"columns = {{{columns}}}, delim = {sql.literal(self.delimiter)}, quote = '\"', "
            "escape = '\"', nullstr = '', allow_quoted_nulls = false, strict_mode = true, "
            f"null_padding = false, compression = '{writing.compression_of(files[0]) or 'none'}', "
            f"{f'max_line_size = {self.longest_line}, ' if self.longest_line else ''}"
            f"{sql.folder_option(keys)})"
        )


def _first_lines(text: io.TextIOWrapper, file: str) -> Iterator[str]:
    """Yield lines, but not without end: a file may have no line ends at all."""
    left = LONGEST_HEADER
    while line := text.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise FormatError(
                f"the first line of {file!r} must name the columns; it has no end within "
                f"{LONGEST_HEADER:,} characters. If it is no CSV file, give it the ending of what "
                "it is."
            )
        yield line


class JsonLines(TableFormat):
    """Read and write JSON lines."""

    ending = ".jsonl"

    def source(
        self, connection: Any, files: list[str], wanted: Sequence[str], everything: bool = False
    ) -> sql.Source:
        """Describe the files to DuckDB; every value is read as text.

        DuckDB lists the keys it meets first. A wanted key that is not among them is looked for.
        """
        packed = f"compression = '{writing.compression_of(files[0]) or 'none'}'"
        lines = f"{sql.file_list(files)}, format = 'newline_delimited', {packed}"
        guess = "maximum_depth = 1, map_inference_threshold = -1, hive_partitioning = false"
        query = f"DESCRIBE SELECT * FROM read_json({lines}, union_by_name = true, {guess})"
        known = [row[0] for row in connection.execute(query).fetchall()]
        if known == ["json"] and not self._has(connection, lines, "json"):
            known = list(dict.fromkeys([*wanted, "count"]))  # DuckDB's word for a file without rows
        keys = sql.folder_keys(files, wanted, known)
        for name in wanted:
            if name not in [*known, *keys] and self._has(connection, lines, name):
                known.append(name)
        columns = ", ".join(f"{sql.literal(name)}: 'VARCHAR'" for name in known)
        scan = f"read_json({lines}, columns = {{{columns}}}, {sql.folder_option(keys)})"
        quoted = {name: sql.quoted(name) for name in [*known, *keys]}
        return sql.Source(scan, dict.fromkeys(quoted, "VARCHAR"), quoted)

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Name the lines of rows; empty lines are no rows."""
        lines: dict[int, int] = {}
        number = 0
        with pa.input_stream(file, compression=writing.compression_of(file)) as stream:
            for line, text in enumerate(io.BufferedReader(stream), start=1):
                number += bool(text.strip())
                if text.strip() and number in rows:
                    lines[number] = line
                if len(lines) == len(rows):
                    break
        return named_lines(rows, lines)

    def _has(self, connection: Any, lines: str, name: str) -> bool:
        columns = f"columns = {{{sql.literal(name)}: 'VARCHAR'}}, hive_partitioning = false"
        query = f"SELECT 1 FROM read_json({lines}, {columns}) WHERE {sql.quoted(name)} IS NOT NULL"
        return bool(connection.execute(f"{query} LIMIT 1").fetchall())


AXES_KEY = b"tallyfold.axes"


class Parquet(TableFormat):
    """Read and write Parquet."""

    is_text = False

    def source(
        self, connection: Any, files: list[str], wanted: Sequence[str], everything: bool = False
    ) -> sql.Source:
        """Describe Parquet files to DuckDB."""
        start = f"read_parquet({sql.file_list(files)}, union_by_name = true, "
        query = f"DESCRIBE SELECT * FROM {start}hive_partitioning = false)"
        types = {row[0]: row[1] for row in connection.execute(query).fetchall()}
        types |= dict.fromkeys(self._durations(connection, files), DURATION)
        keys = sql.folder_keys(files, wanted, list(types))
        scan = f"{start}{sql.folder_option(keys)})"
        types |= dict.fromkeys(keys, "VARCHAR")
        return sql.Source(scan, types, {name: sql.quoted(name) for name in types})

    def _durations(self, connection: Any, files: list[str]) -> set[str]:
        """Return columns of durations: only the schema that Arrow adds tells them from integers."""
        found = connection.execute(
            f"SELECT DISTINCT value FROM parquet_kv_metadata({sql.file_list(files)}) "
            "WHERE key = 'ARROW:schema'"
        ).fetchall()
        fields: list[pa.Field] = []
        for (text,) in found:
            with contextlib.suppress(pa.ArrowException, ValueError):  # damaged: it says nothing
                fields += pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
        return {field.name for field in fields if pa.types.is_duration(field.type)}

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Name rows, counted from 0 as data frames do."""
        return [f"row {row - 1}" for row in rows]

    def axes_of(self, file: str) -> writing.Recorded | None:
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
        return writing.recorded_from_bytes(data, file)

    def write(self, tensor: CountTensor, target: Path, value: str) -> None:
        """Write the cells."""
        recorded = writing.axes_to_bytes(tensor.axes, part=tensor.part)
        record = {AXES_KEY: base64.b64encode(recorded)}
        tables = writing.label_tables(tensor, value, as_text=False)
        tables = (table.replace_schema_metadata(record) for table in tables)
        writing.write_tables(tables, target, ".parquet")
