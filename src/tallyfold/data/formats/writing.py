"""Files written whole or not at all, and the record of a tensor's axes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, plain_labels
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.formats.sql import connected, literal
from tallyfold.data.locks import locked_file
from tallyfold.data.part import Part
from tallyfold.data.temporaries import clear_abandoned, temporary_prefix
from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.data.time_units import UNITS
from tallyfold.errors import DataError, FormatError, StorageError

ROWS_AT_A_TIME = 1_000_000

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tns": " "}
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[+-]?[0-9]+(\.[0-9]+)?$"
"""What texts begin with that spreadsheets take for formulas, and those that are plain numbers."""
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""Second endings of text files, and what they mean."""


@contextlib.contextmanager
def written_whole(file: Path) -> Iterator[Path]:
    """Give a temporary path to write to, moved into place only if nothing went wrong.

    It has the endings of the file's name. Axes that are written beside it are moved along.

    An error of the operating system, such as a full disk, becomes a StorageError.
    """
    clear_abandoned(file.parent)
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=temporary_prefix()) as folder:
            target = Path(folder, file.name)
            yield target
            with locked_file(file):  # a file and its axes, not those of another writer
                os.replace(target, file)
                if axes_file(target).exists():  # a death in between is noticed: they know it
                    os.replace(axes_file(target), axes_file(file))
    except OSError as error:
        if error.errno is None:
            raise
        raise StorageError(
            f"{str(file)!r} could not be written: {os.strerror(error.errno)}. What was there "
            "before, if anything, still is. Make room or choose another path, and try again."
        ) from error


def axes_file(file: Path) -> Path:
    """Return the path of the file beside a text file that holds its axes."""
    return file.with_name(file.name + ".axes")


def compression_of(file: str) -> str | None:
    """Return how a file is compressed, by its ending."""
    return COMPRESSIONS.get(Path(file).suffix.lower())


class Recorded(NamedTuple):
    """What is recorded with a file: the axes, and which of all cells it holds."""

    axes: list[Axis]
    part: Part | None


def axes_to_bytes(axes: Sequence[Axis], stamp: str = "", part: Part | None = None) -> bytes:
    """Write axes as one Arrow record: a column per axis, whose only row is the list of labels."""
    columns = []
    for axis in axes:
        offsets = pa.array([0, len(axis)], pa.int64())
        columns.append(pa.LargeListArray.from_arrays(offsets, axis.labels))
    fields = [
        pa.field(axis.name, column.type, metadata=_order_facts(axis.order))
        for axis, column in zip(axes, columns, strict=True)
    ]
    record = pa.record_batch(columns, schema=pa.schema(fields))
    known = {"stamp": stamp} | ({} if part is None else {"part": part.to_text()})
    record = record.replace_schema_metadata(known)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, record.schema, options=options) as stream:
        stream.write_batch(record)
    return bytes(sink.getvalue())


def axes_from_bytes(data: bytes, file: str, stamp: str = "") -> list[Axis]:
    """Read axes back; damaged bytes are a FormatError naming the file."""
    return recorded_from_bytes(data, file, stamp).axes


def recorded_from_bytes(data: bytes, file: str, stamp: str = "") -> Recorded:
    """Read axes back, and of which part of all cells they are."""
    try:
        with pa.ipc.open_stream(data) as stream:
            record = stream.read_next_batch()
        record.validate(full=True)
        facts = record.schema.metadata or {}
        known, part = facts.get(b"stamp", b"").decode(), facts.get(b"part")
        axes = [
            Axis(field.name, plain_labels(column.flatten(), axis=field.name), _order(field))
            for field, column in zip(record.schema, record.columns, strict=True)
        ]
        recorded = Recorded(axes, None if part is None else Part.from_text(part.decode()))
    except (
        pa.ArrowException, OSError, StopIteration, EOFError, MemoryError, AttributeError,
        ValueError, KeyError, TypeError, DataError,
    ) as error:  # fmt: skip
        raise FormatError(
            f"the axes recorded with {file!r} are damaged: {str(error).splitlines()[0:1]}. Name "
            "the columns with axes= to read it as a plain table."
        ) from error
    if known != stamp:
        raise FormatError(
            f"{file!r} holds the axes of another file: the one beside it has changed since. Delete "
            "it, and name the columns with axes=."
        )
    return recorded


def _order_facts(order: AxisOrder | None) -> dict[str, str] | None:
    """Return what is recorded of an axis's order."""
    return None if order is None else {"order": order.to_text()}


def _order(field: pa.Field) -> AxisOrder | None:
    """Return the order of an axis as it is recorded; by earlier versions, as its unit alone."""
    known = field.metadata or {}
    if b"order" in known:
        return AxisOrder.from_text(known[b"order"].decode())
    unit = known.get(b"unit", b"").decode()
    return AxisOrder.of_unit(unit) if unit in UNITS else None


def write_axes_file(tensor: CountTensor, file: Path) -> None:
    """Write the axes beside a text file, with a stamp that tells which file they belong to."""
    axes_file(file).write_bytes(axes_to_bytes(tensor.axes, _stamp(file), tensor.part))


def read_axes_file(file: str) -> Recorded | None:
    """Read the axes beside a text file, if they are there."""
    beside = axes_file(Path(file))
    if not beside.exists():
        return None
    return recorded_from_bytes(beside.read_bytes(), str(beside), _stamp(Path(file)))


def _stamp(file: Path) -> str:
    """Return what identifies a file: its size and a hash of its first mebibyte."""
    with file.open("rb") as stream:
        return f"{file.stat().st_size}-{hashlib.sha256(stream.read(1 << 20)).hexdigest()}"


def label_tables(tensor: CountTensor, value: str, *, as_text: bool) -> Iterator[pa.Table]:
    """Give the cells as tables of labels and counts; `as_text`: all labels but integers as text."""
    columns = label_columns(tensor)
    if as_text:
        columns = [
            c
            if pa.types.is_integer(c.dictionary.type)
            else pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.large_string()))
            for c in columns
        ]
    columns = [*columns, pa.array(tensor.counts)]
    for start in range(0, max(tensor.nnz, 1), ROWS_AT_A_TIME):
        parts = [column.slice(start, ROWS_AT_A_TIME) for column in columns]
        parts = [p.dictionary_decode() if pa.types.is_dictionary(p.type) else p for p in parts]
        yield pa.table(parts, names=[*tensor.names, value])


def write_tables(tables: Iterable[pa.Table], file: Path, ending: str) -> int:
    """Write tables of the same columns, at least one, to one file; return the number of rows."""
    rows = 0
    if ending == ".parquet":
        import pyarrow.parquet as pq

        tables = iter(tables)
        first = next(tables)
        with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
            for table in chain([first], tables):
                writer.write_table(table)
                rows += len(table)
        return rows
    with pa.output_stream(str(file), compression=compression_of(file.name)) as stream:
        for table in tables:
            stream.write(rows_as_text(table, ending, head=rows == 0))
            rows += len(table)
    return rows


def safe_cells(table: pa.Table) -> pa.Table:
    """Put ``'`` before texts, and names of columns, that a spreadsheet takes for formulas.

    Examples
    --------
    >>> safe_cells(pa.table({"=x": ["=1+1", "-3", "plain"]})).to_pydict()
    {"'=x": ["'=1+1", '-3', 'plain']}
    """
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.combine_chunks().dictionary_decode()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            quoted = pc.replace_substring_regex(column, FORMULA, r"'\0")
            column = pc.if_else(pc.match_substring_regex(column, NUMBER), column, quoted)
        columns.append(column)
    names = [f"'{name}" if re.match(FORMULA, name) else name for name in table.column_names]
    return pa.table(columns, names=names)


def rows_as_text(table: pa.Table, ending: str = ".csv", *, head: bool) -> bytes:
    """Return rows as text; `head` says whether CSV and TSV name the columns first."""
    if ending not in DELIMITERS:
        return _json_lines(table)
    from pyarrow import csv

    options = csv.WriteOptions(
        include_header=head and ending != ".tns",
        delimiter=DELIMITERS[ending],
        quoting_header="needed",
    )
    sink = pa.BufferOutputStream()
    try:
        csv.write_csv(table, sink, options)
    except pa.ArrowException as error:
        raise FormatError(
            f"these columns cannot be written as CSV: {str(error).splitlines()[0]} Write .parquet."
        ) from error
    return bytes(sink.getvalue())


def _json_lines(table: pa.Table) -> bytes:
    """Let DuckDB write an object per row; names are values there, so that case matters."""
    names = [f"x{number}" for number in range(table.num_columns)]
    pairs = zip(table.column_names, names, strict=True)
    objects = ", ".join(f"{literal(key)}, {name}" for key, name in pairs)
    with connected() as connection:
        connection.register("rows", table.rename_columns(names))
        query = f"SELECT CAST(json_object({objects}) AS VARCHAR) FROM rows"
        lines = connection.sql(query).to_arrow_table().column(0).to_pylist()
    return "".join(line + "\n" for line in lines).encode()
