"""Tables read and written some rows at a time, all columns kept: for answers beside each row."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from tallyfold.data.formats.files import FORMATS, _with_delimiter, ending_of, resolved_files
from tallyfold.data.formats.npz import Npz
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.formats.table import TableFormat, shown_files
from tallyfold.data.formats.tns import Tns
from tallyfold.data.formats.writing import label_tables, write_tables, written_whole
from tallyfold.data.request import check_columns
from tallyfold.errors import FormatError

ROWS_AT_A_TIME = 50_000
WRITTEN = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")

PathLike = str | os.PathLike[str]


def read_rows(
    path: PathLike | Sequence[PathLike],
    columns: Sequence[str],
    *,
    delimiter: str | None = None,
    rows_at_a_time: int = ROWS_AT_A_TIME,
) -> Generator[pa.Table, None, None]:
    r"""Read files of any kind that `read_counts` reads, row by row, in their order.

    Close it if it is not read to its end: a connection is open until then.

    Parameters
    ----------
    path
        A file, a folder, a pattern, or a list of these.
    columns
        Columns that must be there; all others are kept, too. In text files all values are text.
    delimiter
        What separates the columns of a CSV file, if not a comma.
    rows_at_a_time
        Of each table; the first is given even if there are no rows at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> _ = file.write_text("note,who,what\nx,ann,call\ny,bob,mail\n")
    >>> [table.to_pydict() for table in read_rows(file, ["who", "what"])]
    [{'note': ['x', 'y'], 'who': ['ann', 'bob'], 'what': ['call', 'mail']}]
    """
    files, ending = resolved_files(path)
    form = FORMATS[ending]
    if isinstance(form, Npz | Tns):
        tensor = form.read(files[0], None if isinstance(form, Npz) else columns)
        check_columns(columns, tensor.names)
        for table in label_tables(tensor, "count", as_text=False):
            yield from _pieces(table, rows_at_a_time)
        return
    form = form if delimiter is None else _with_delimiter(form, delimiter)
    yield from _table_rows(form, files, columns, rows_at_a_time)


def _table_rows(
    form: TableFormat, files: list[str], wanted: Sequence[str], rows_at_a_time: int
) -> Iterator[pa.Table]:
    with duckdb_errors(shown_files(files)), connected() as connection:
        source = form.source(connection, files, wanted)
        check_columns(wanted, list(source.types))
        # numbered, since DuckDB takes names that differ in case only for the same
        columns = [f"{sql} AS x{n}" for n, sql in enumerate(source.columns.values())]
        query = f"SELECT {', '.join(columns)} FROM {source.sql}"
        reader = connection.sql(query).to_arrow_reader(rows_at_a_time)
        names, empty = list(source.columns), True
        for batch in reader:
            empty = False
            yield from _pieces(pa.Table.from_batches([batch]).rename_columns(names), rows_at_a_time)
        if empty:
            yield reader.schema.empty_table().rename_columns(names)


def _pieces(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for start in range(0, max(len(table), 1), size):
        yield table.slice(start, size)


def write_rows(tables: Iterator[pa.Table], path: PathLike) -> int:
    """Write tables of the same columns to one file, whole or not at all; return the number of rows.

    Parameters
    ----------
    tables
        At least one.
    path
        Where to; the ending chooses Parquet, CSV, TSV or JSON lines (text also .gz or .zst).
    """
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(file.parent)!r} to write to.")
    ending = written_ending(file)
    first = next(tables)  # what cannot be read is no fault of the file to write
    with written_whole(file, has_axes_file=False) as targets:
        return write_tables(chain([first], tables), targets.file, ending)


def written_ending(file: Path) -> str:
    """Return the ending that says how rows are written; refuse one that cannot hold any rows."""
    ending = ending_of(file)
    if ending not in WRITTEN:
        raise FormatError(
            f"{file.name!r} must be a table with columns of its own, so its ending one of "
            f"{', '.join(WRITTEN)}; got {ending!r}."
        )
    return ending
